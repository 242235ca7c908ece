package main

import (
	"flag"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"dsh/cmd/internal/dcl"
)

// update rewrites the transcripts in testdata/wire with what the program does:
// go test ./cmd/dsh -run TestWire -update
var update = flag.Bool("update", false, "rewrite the transcripts in testdata/wire")

// TestMain makes the test binary be the programs that scripts start: dsh, dcl, and
// dsh-probe, which is dsh with a window (see runProbe), and what the example
// deployments start.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"dsh":         main,
		"dcl":         func() { os.Exit(dcl.Main()) },
		"dsh-probe":   func() { os.Exit(runProbe()) },
		"dsh-dial":    func() { os.Exit(runDial()) },
		"tracker-mcp": func() { os.Exit(runTracker()) },
	})
}

// TestScript runs the scenarios of testdata/script.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, params(t, "../../testdata/script"))
}

// TestWire runs those of testdata/wire, which compare whole conversations.
func TestWire(t *testing.T) {
	t.Parallel()
	p := params(t, "../../testdata/wire")
	p.UpdateScripts = *update
	testscript.Run(t, p)
}

func params(t *testing.T, dir string) testscript.Params {
	return testscript.Params{
		Dir: dir, Setup: setup, Cmds: words(), RequireExplicitExec: true, RequireUniqueNames: true,
		// Otherwise a run of some of the scripts leaves a folder behind.
		WorkdirRoot: t.TempDir(),
	}
}
