package agentloop

import (
	"fmt"
	"runtime/debug"
)

// panicError is a contained panic of somebody else's code.
type panicError struct {
	at    string
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.at, e.value) }

// guard runs f and turns a panic into an error that names what panicked.
func guard(what string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{what, r, debug.Stack()}
		}
	}()
	return f()
}
