// Package job holds the contract of work that goes on behind a tool call: shell
// commands and subagents in the background (spec stream-json 11.8). Whoever runs
// such work puts it on the Board; tools, front ends and notifications find it
// there, and none of them knows the others.
package job

import (
	"errors"
	"fmt"
	"time"
)

// Kinds of jobs; the words are those of spec stream-json 3.10.
const (
	KindShell = "local_bash"
	KindAgent = "local_agent"
)

// States of jobs. All but Running are final.
const (
	Running   = "running"
	Completed = "completed"
	Failed    = "failed"
	Stopped   = "stopped"
)

// Errors of a Board.
var (
	// ErrUnknown: no job of this id has ever been on the board, or it was forgotten
	// with its session.
	ErrUnknown = errors.New("no such task")
	// ErrFull: the session has as many jobs running as it may.
	ErrFull = errors.New("too many tasks are running")
)

// Job is what is known of one piece of work. It is a copy; it does not change.
type Job struct {
	// ID is unique in the process and hard to guess. That of a subagent is its
	// session's.
	ID string
	// SessionID is the session whose call started it, CallID that call.
	SessionID, CallID string
	// Kind is one of the Kind constants.
	Kind string
	// Description says in one line what it is for. Command is a shell's command line,
	// AgentType the kind of a subagent; "" for others.
	Description, Command, AgentType string
	// OutputFile is the absolute path of a file with what it has said so far, "" for
	// none. A subagent's is written when it has ended.
	OutputFile string
	// Background: the call that started it does not wait for it.
	Background bool
	Began      time.Time
	// StopAsked: somebody asked the board to stop it while it was running.
	StopAsked bool

	// Status is one of the states; what follows is set with a final one.
	Status string
	Ended  time.Time
	// Summary says in one line how it ended. ExitCode is that of a shell command that
	// ended by itself, else nil.
	Summary  string
	ExitCode *int
}

// Over reports whether the job has ended.
func (j Job) Over() bool { return j.Status != Running }

// String is a job for people and models.
func (j Job) String() string {
	what := "shell command"
	if j.Kind == KindAgent {
		what = "agent"
	}
	return fmt.Sprintf("%s %s (%s), %s", what, j.ID, j.Description, j.Status)
}

// Work is a job that somebody runs.
type Work struct {
	// Job says what it is; the board sets Began, Status and what follows it.
	Job
	// Stop ends the work, or begins to: it does not wait. It may be called more than
	// once and from any goroutine.
	Stop func()
	// Detach has the call that waits for the work return and leave it running; it
	// reports whether it did. nil is work that cannot go on without its call.
	Detach func() bool
}

// End says how a job ended.
type End struct {
	// Status is a final state.
	Status, Summary string
	ExitCode        *int
}
