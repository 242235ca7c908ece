package plugin

import (
	"context"

	"dsh/sdkproto"
)

// Events is told what happens in sessions.
type Events struct {
	// Types are the types of events that are wanted, whole ("turn/end") or by
	// family with a slash at the end ("tool/"). None means all, every chunk of an
	// answer included.
	Types []string
	// Handle takes one event; those of one session come in order, one after the
	// other. An event may come twice, after a failure. An error makes the harness
	// send the event again a few times, and then give up on the plugin's events.
	Handle func(ctx context.Context, sessionID string, e sdkproto.Event) error
}
