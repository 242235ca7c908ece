package process

import (
	"os/exec"
)

// Modes of confinement; the words are those of spec jsonrpc 11.2.
const (
	// ReadOnly: nothing may be written but the null device and its kin, and the
	// folders of Confinement.Write.
	ReadOnly = "read-only"
	// WorkspaceWrite: files may be written below the folders of
	// Confinement.Write only.
	WorkspaceWrite = "workspace-write"
	// FullAccess confines nothing.
	FullAccess = "danger-full-access"
)

// Confinement says what a program and everything that it starts may do. Reading
// is never restricted.
type Confinement struct {
	// Mode is one of the constants.
	Mode string
	// Write are absolute folders and files that may be written; those that do not
	// exist are left out.
	Write []string
	// NoNetwork forbids TCP connections and listening.
	NoNetwork bool
	// Strict refuses to start the program when the machine can hold less than
	// what is asked; else it runs and Reached tells.
	Strict bool
}

// Reached is how far a confinement holds on this machine.
type Reached struct {
	// Level is "full" when all that was asked for holds, "partial" when some of it
	// does, "none" when nothing does or nothing was asked for.
	Level string
	// Missing says what does not hold, in a sentence; "" for nothing.
	Missing string
}

// Levels of Reached.
const (
	ReachedFull    = "full"
	ReachedPartial = "partial"
	ReachedNone    = "none"
)

// Confiner starts programs under a confinement. Its methods may be called from
// any goroutine.
type Confiner interface {
	// Start starts a prepared command under c; nil confines nothing. What the
	// command is otherwise (descriptors, group, environment) stays as prepared. It
	// takes the place of cmd.Start; an error means that nothing was started.
	Start(cmd *exec.Cmd, c *Confinement) (Reached, error)
	// Probe says what would be reached for c, without starting anything.
	Probe(c *Confinement) Reached
}

// Policy says how programs are confined that no tool call starts: servers and
// plugins. cwd is the folder they work in.
type Policy interface {
	Confinement(cwd string) *Confinement
}
