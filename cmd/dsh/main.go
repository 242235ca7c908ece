// Command dsh runs a harness profile. `dsh --profile sdk` serves JSON-RPC on
// standard input and output; `dsh demo` shows what that is like.
package main

import (
	"fmt"
	"os"

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
	p := &program{pair: pair, stderr: os.Stderr, args: os.Args[1:], env: os.LookupEnv}
	return p.run()
}
