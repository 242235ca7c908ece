package agent

import (
	"context"
	"errors"
)

// ErrBusy: a turn runs, or waits to run.
var ErrBusy = errors.New("agent is busy with a turn")

// Resting is what an Agent may be beside: one whose history can be worked on
// between turns.
type Resting interface {
	// AtRest calls f with what a model request of a turn that began now would be made
	// of, and returns when f has. Meanwhile no turn begins; messages wait. Turn of the
	// Step is the last one there was, 0 before the first, and its Step is 0. f must
	// return soon after its context, which ends with ctx and with the agent's life.
	// Errors: ErrBusy, ErrClosing, those of Registry.CheckRoute and f's.
	AtRest(ctx context.Context, f func(context.Context, Step) error) error
}
