package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary be the program that the tests start.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"dcl": main, mcpProgram: serveMCP, pluginProgram: servePlugin})
}
