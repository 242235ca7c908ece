package processlocal

import (
	"os"
	"slices"
	"sync"

	"dsh/kernel/process"
)

// markerVariable marks everything that comes from a program of ours, so that
// what left its process group can still be found. The value is the markers of
// the harnesses around this one and of this one, joined by colons.
const markerVariable = "DSH_SESSION_PROCESS"

// forced are settings for a person at a terminal, of whom there is neither:
// what they would open could only wait. Editors and prompts fail at once (case
// B64). Git gets an editor that changes nothing: a commit without a message is
// refused, while continuing a rebase keeps the messages it has.
var forced = []string{
	"EDITOR=false",
	"GIT_EDITOR=true",
	"GIT_PAGER=cat",
	"GIT_SEQUENCE_EDITOR=true",
	"GIT_TERMINAL_PROMPT=0",
	"PAGER=cat",
	"SSH_ASKPASS=false",
	"TERM=dumb",
	"VISUAL=false",
}

// unlessSet are the same where a deployment may have put a program that answers
// by itself.
var unlessSet = []string{
	"DEBIAN_FRONTEND=noninteractive",
	"GIT_ASKPASS=false",
}

// dropped would point children at the terminal or the directory of somebody
// else.
var dropped = []string{"GPG_TTY", "OLDPWD", "PWD"}

// environment remembers what children get.
type environment struct {
	mu sync.Mutex
	// credentials are the names that were left out of list.
	credentials []string
	list        []string
}

// get makes the list anew when there are more credentials than before, which
// only a reload brings about.
func (e *environment) get(credentials []string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.list == nil || len(credentials) != len(e.credentials) {
		e.credentials, e.list = credentials, childEnv(os.Environ(), credentials)
	}
	return e.list
}

// childEnv is what children get of the parent's environment: without the
// variables that hold credentials (decision D28), with forced and unlessSet.
func childEnv(parent, credentials []string) []string {
	env := process.Environment(parent, credentials, append(slices.Clone(dropped), markerVariable)...)
	set := func(name string) bool {
		return slices.ContainsFunc(env, func(v string) bool { return process.SameName(process.NameOf(v), name) })
	}
	for _, v := range unlessSet {
		if !set(process.NameOf(v)) {
			env = append(env, v)
		}
	}
	return slices.Clip(append(env, forced...))
}

// markerValue is marker behind those of the harnesses around this one.
func markerValue(marker string) string {
	if outer := os.Getenv(markerVariable); outer != "" {
		return outer + ":" + marker
	}
	return marker
}
