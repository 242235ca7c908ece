package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// roleVariable makes this program the one that does nothing.
const roleVariable = "DSHBENCH_ROLE"

// doNothing is the floor of every figure: a Go program that answers each line
// with the least a client waits for, and knows no model, no tool and no log.
func doNothing(_ string, in io.Reader, out io.Writer) int {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return 0
		}
		answer := `{"jsonrpc":"2.0","id":1,"result":{}}`
		if strings.Contains(line, `"session/prompt"`) {
			answer = `{"jsonrpc":"2.0","method":"session.status","params":{"sessionId":"s","status":"idle"}}`
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return 1
		}
		if strings.Contains(line, `"shutdown"`) {
			return 0
		}
	}
}
