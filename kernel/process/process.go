// Package process holds the contract of the exec world: how tools start other
// programs. A provider decides where and under what confinement they run.
package process

import (
	"context"
	"io"
	"time"
)

// Command is a program to run.
type Command struct {
	// Path is absolute or found in PATH; Args leave it out.
	Path string
	Args []string
	// Dir is the absolute working directory.
	Dir string
	// Env are NAME=VALUE pairs on top of the environment that children get, which
	// never holds the variables a profile names as credentials (decision D28).
	Env []string
	// Input is what the program reads from its standard input, which then ends; nil
	// is an empty one. A program need not read it.
	Input []byte
	// Output takes standard output and standard error as they come. It is called
	// from one goroutine, and not after Run has returned.
	Output io.Writer
	// Errors, when not nil, takes standard error in place of Output, likewise.
	Errors io.Writer
	// Timeout ends the program, 0 for no limit.
	Timeout time.Duration
	// Started, when not nil, is called once the program runs and is on the account of
	// its session, before Run waits; not when nothing was started. It must not block.
	Started func()
	// SessionID owns whatever the program leaves running.
	SessionID string
	// Confinement says what the program may do; nil confines nothing.
	Confinement *Confinement
}

// Exit says how a program ended.
type Exit struct {
	// Code is the exit status, -1 when a signal ended the program.
	Code int
	// Signal names the signal that ended it, "" for none.
	Signal string
	// TimedOut and Cancelled say that the runner ended it.
	TimedOut, Cancelled bool
	// Reached is how far the confinement held; zero when none was asked for.
	Reached Reached
	// Left is the number of programs it started that are still running; they are
	// ended with the session.
	Left int
}

// Runner starts programs. Its methods may be called from any goroutine.
type Runner interface {
	// Run starts a program in a process group of its own, with no standard input but
	// Input and without any other descriptor, and returns soon after the program
	// itself has ended, whoever still holds its output (case B62). When ctx or the
	// timeout ends, the whole group is ended: TERM, a short wait, KILL (case B63).
	// An error means that nothing was started.
	Run(ctx context.Context, c Command) (Exit, error)
	// EndSession ends everything that programs of the session left running.
	EndSession(ctx context.Context, sessionID string) error
}
