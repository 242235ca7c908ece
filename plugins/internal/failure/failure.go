// Package failure makes the results of calls that did not do what was asked.
package failure

import (
	"fmt"

	"dsh/kernel/tool"
	"dsh/plugins/internal/textfile"
)

// Arguments is the code of a call whose arguments make no sense although its schema
// takes them.
const Arguments = "INVALID_ARGUMENTS"

// most bounds the text of a failure, in characters: it may repeat a path or what a
// model sent.
const most = 2000

// Result makes a result of the class name, or of ToolArgumentsError for the code
// Arguments. The text is prefix and what format says, shortened and fit to print.
func Result(name, code, prefix, format string, args ...any) tool.Result {
	if code == Arguments {
		name = "ToolArgumentsError"
	}
	said, _ := textfile.Printable([]byte(fmt.Sprintf(format, args...)))
	said, _ = textfile.Cut(said, most)
	return tool.ErrorResult(name, code, prefix+said)
}
