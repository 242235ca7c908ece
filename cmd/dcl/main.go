// Command dcl speaks the stream-json protocol, so that the published Agent SDKs
// can start it in the place of the command line program they were written for:
// give them its path. `dcl -p PROMPT` answers one prompt.
package main

import (
	"os"

	"dsh/cmd/internal/dcl"
)

func main() { os.Exit(dcl.Main()) }
