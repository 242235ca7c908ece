// Package dcl is the program dcl, so that tests can run it beside others.
package dcl

import (
	"context"
	"fmt"
	"os"

	"dsh/cmd/internal/commands"
	"dsh/cmd/internal/launch"
	"dsh/cmd/internal/streamcmd"
	"dsh/kernel"
	"dsh/kernel/stdio"
)

// Main runs the program and gives its exit code.
func Main() int {
	pair, err := stdio.Take()
	if err != nil {
		fmt.Fprintf(os.Stderr, "dcl: take the standard descriptors: %v\n", err)
		return kernel.ExitFailure
	}
	p := &launch.Program{
		Name: "dcl", Default: streamcmd.Profile, Pair: pair, Stderr: os.Stderr, Args: os.Args[1:], Env: os.LookupEnv,
	}
	if commands.Named(p.Args, names()) {
		return (&program{commands.Set{Program: p}}).run(context.Background())
	}
	s := streamcmd.Surface{Program: p, Args: p.Args, Commands: listed()}
	return s.Run(context.Background())
}
