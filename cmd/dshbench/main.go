// Command dshbench measures a harness binary from outside, through its wire, and
// prints every figure as a Markdown table: the harness on both of its wires, a Go
// program that does nothing, and, with -other, one more harness, all in one run on
// one machine.
//
//	go run ./cmd/dshbench
//	go run ./cmd/dshbench -binary ./dsh -other 'node other.js' -runs 9
//
// The model is the scripted one, inside the process, so that no figure contains
// a network or a second program. Runs of a figure alternate between the
// programs; each gets one run that does not count.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	switch role := os.Getenv(roleVariable); role {
	case "":
	case mcpRole:
		os.Exit(serveMCP(os.Stdin, os.Stdout))
	default:
		os.Exit(doNothing(role, os.Stdin, os.Stdout))
	}
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "dshbench: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("dshbench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	binary := flags.String("binary", "", "dsh binary to measure (default: build the one of this module, stripped)")
	stream := flags.String("dcl", "", "dcl binary to measure (default: build the one of this module, stripped)")
	other := flags.String("other", "", "command line of another harness on the same wire, to measure beside it")
	provider := flags.String("other-provider", "scripted", "initialize.provider of -other")
	model := flags.String("other-model", "scripted", "initialize.model of -other")
	runs := flags.Int("runs", 7, "runs of each figure; the median counts")
	only := flags.String("only", "", "comma-separated figures to measure (default all): "+strings.Join(figureNames(), ", "))
	long := flags.Bool("long", false, "also measure what takes minutes: 10,000 sessions, and ten minutes of work")
	if err := flags.Parse(args); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "dshbench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for name, path := range map[string]*string{"dsh": binary, "dcl": stream} {
		if *path != "" {
			continue
		}
		*path = filepath.Join(work, name)
		fmt.Fprintln(stderr, "building", name)
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", *path, "dsh/cmd/"+name)
		build.Stderr = stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build %s: %w; give a binary with -binary and -dcl", name, err)
		}
	}
	script := filepath.Join(work, "script.yaml")
	streamScript := filepath.Join(work, "stream.yaml")
	for name, text := range map[string]string{script: modelScript, streamScript: streamModelScript()} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	workspace := filepath.Join(work, "workspace")
	if err := os.Mkdir(workspace, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(workspace, "hello.txt"), []byte("hello from a file\n"), 0o600); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	base := append(os.Environ(), "DSH_SCRIPT="+script)
	targets := []*target{
		{name: "dsh", command: []string{*binary, "--profile", "sdk"}, env: base, provider: "scripted", model: "scripted", own: true},
		{name: "dcl", command: append([]string{*stream}, streamArgs()...), env: append(os.Environ(), "DSH_SCRIPT="+streamScript), stream: true},
		{name: "nothing", command: []string{self}, env: append(os.Environ(), roleVariable+"=answer"), nothing: true},
	}
	if *other != "" {
		targets = append(targets, &target{name: "other", command: strings.Fields(*other), env: base, provider: *provider, model: *model})
	}
	for _, t := range targets {
		t.work, t.workspace = work, workspace
	}
	b := &bench{targets: targets, runs: *runs, progress: stderr}
	chosen := figures(*long)
	if *only != "" {
		wanted := strings.Split(*only, ",")
		chosen = nil
		for _, f := range figures(true) {
			for _, w := range wanted {
				if f.name == strings.TrimSpace(w) {
					chosen = append(chosen, f)
				}
			}
		}
		if len(chosen) == 0 {
			return fmt.Errorf("no figure is named %s; there are %s", *only, strings.Join(figureNames(), ", "))
		}
	}
	for _, f := range chosen {
		if err := b.measure(f); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	fmt.Fprintf(stdout, "%s, %d cores, %s/%s, %s, medians of %d runs\n\n",
		time.Now().Format("2006-01-02"), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), *runs)
	b.table(stdout)
	return nil
}
