// Package checkpoint holds the contract of going back: snapshots of a work tree,
// whoever changed it, and their restoring (spec stream-json 4.16, S056 to S059).
package checkpoint

import "context"

// Keeper keeps the snapshots of sessions. Its methods may be called from any
// goroutine.
type Keeper interface {
	// Rewind gives the files of a session the state that they had before the turn of
	// one of its user messages; with dry it only says what would change. A refusal is
	// an Outcome, not an error, and touches nothing.
	Rewind(ctx context.Context, sessionID, cwd, messageID string, dry bool) (Outcome, error)
	// Settle returns when a snapshot holds all that the session has changed so far: who
	// changes a file behind it is somebody else (S058). The error is that of ctx.
	Settle(ctx context.Context, sessionID string) error
	// Forget drops the snapshots of a session.
	Forget(ctx context.Context, sessionID string) error
}

// Outcome says what a Rewind did, or would do.
type Outcome struct {
	// CanRewind is false for a refusal; Reason then says why, and on what.
	CanRewind bool
	Reason    string
	// Files are the absolute paths of what changes, in order; Insertions and Deletions
	// count lines of the difference from the present state to the restored one.
	Files                 []string
	Insertions, Deletions int
}
