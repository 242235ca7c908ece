// Package compaction holds the contract of shortening a history because somebody
// asks for it, and not because it is too long (spec stream-json 11.9).
package compaction

import (
	"context"
	"errors"

	"dsh/kernel/agent"
)

// ErrNothing: a history has nothing that a summary could stand for.
var ErrNothing = errors.New("there is nothing to compact yet")

// Order is what somebody asks for.
type Order struct {
	// Instructions say what the summary should keep, "" for nothing in particular.
	Instructions string
	// CommandID is the id of the command/run that asks.
	CommandID string
}

// Done says what came of it, in tokens: what a request would have held before, and
// what it would hold now. After is a guess.
type Done struct{ Before, After int64 }

// Compactor shortens histories. Its methods may be called from any goroutine.
type Compactor interface {
	// Compact puts a summary in the place of all that the model has answered, in one
	// bracket of compaction events, and tells hooks. s is that of an agent at rest
	// (agent.Resting). An error leaves the history as it was: ErrNothing, that a hook
	// has forbidden it, that no model wrote a summary.
	Compact(ctx context.Context, s agent.Step, o Order) (Done, error)
	// Limit is how many tokens a request of a step may hold before room is made
	// unasked, 0 where that is not known.
	Limit(s agent.Step) int64
}
