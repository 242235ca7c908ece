// Command dsh runs a harness profile. `dsh --profile sdk` serves JSON-RPC on
// standard input and output; `dsh demo` shows what that is like.
package main

import (
	"fmt"
	"os"

	"dsh/cmd/internal/commands"
	"dsh/cmd/internal/launch"
	"dsh/kernel"
	"dsh/kernel/stdio"
)

func main() { os.Exit(run()) }

func run() int {
	pair, err := stdio.Take()
	if err != nil {
		fmt.Fprintf(os.Stderr, "dsh: take the standard descriptors: %v\n", err)
		return kernel.ExitFailure
	}
	p := &program{Set: commands.Set{Program: &launch.Program{
		Name: "dsh", Default: "sdk", Pair: pair, Stderr: os.Stderr, Args: os.Args[1:], Env: os.LookupEnv,
	}}}
	return p.run()
}
