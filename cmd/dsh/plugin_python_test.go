//go:build unix && python

package main

import (
	"os"
	"testing"
)

// TestPluginInPython takes the Python example, which DSH_ECHO_PY names, through
// what a stranger does with it: go test -tags python. See .ci/run.
func TestPluginInPython(t *testing.T) {
	program := os.Getenv("DSH_ECHO_PY")
	if program == "" {
		t.Fatal("DSH_ECHO_PY does not name the file that testdata/plugins/echo-py/build.py made")
	}
	useAsStranger(t, program, "echo-py", "echo_py")
}
