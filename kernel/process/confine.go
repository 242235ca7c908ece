package process

import (
	"fmt"
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
// is never restricted. To write a file is to change what it holds, where it is
// and whether it is there; its mode, owner and times do not count.
type Confinement struct {
	// Mode is one of the constants.
	Mode string
	// Write are absolute folders and files that may be written; those that do not
	// exist are left out. A link opens what it leads to, but not one below another
	// of the folders.
	Write []string
	// NoNetwork forbids sockets of every network; those between programs of this
	// machine, by name, stay.
	NoNetwork bool
	// Strict refuses to start the program when the machine can hold less than
	// what is asked; else it runs and Reached tells.
	Strict bool
}

// Confines reports whether c asks for anything; nil does not.
func (c *Confinement) Confines() bool { return c != nil && (c.Mode != FullAccess || c.NoNetwork) }

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

// Start starts a prepared command under c with a confiner that a profile need
// not have. With nil for it nothing is confined, which Reached tells, or an error
// when c is strict.
func Start(confiner Confiner, cmd *exec.Cmd, c *Confinement) (Reached, error) {
	switch {
	case c == nil:
		return Reached{}, cmd.Start()
	case confiner != nil:
		return confiner.Start(cmd, c)
	case !c.Confines():
		return Reached{Level: ReachedNone}, cmd.Start()
	}
	const missing = "the profile has no row that confines programs; add one, such as `sandbox: {use: sandbox-landlock}`"
	if c.Strict {
		return Reached{}, fmt.Errorf("confine to %s: this must hold and does not: %s, or do not require it", c.Mode, missing)
	}
	return Reached{Level: ReachedNone, Missing: missing}, cmd.Start()
}

// Policy says how programs are confined that no tool call starts: servers and
// plugins. cwd is the folder they work in.
type Policy interface {
	Confinement(cwd string) *Confinement
}
