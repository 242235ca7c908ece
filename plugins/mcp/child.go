package mcp

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"dsh/kernel/process"
	programs "dsh/plugins/internal/child"
)

// markerVariable marks what comes from servers of ours.
const markerVariable = "DSH_MCP_PROCESS"

// calm is for a connection that ends while the harness goes on: how long after the
// end of its input a program is asked to end, and how long after that it is ended.
func calm() programs.Grace {
	return programs.Grace{Quit: 500 * time.Millisecond, Kill: 2 * time.Second}
}

// brisk is for the end of the harness (decision R13).
func brisk() programs.Grace {
	return programs.Grace{Quit: 100 * time.Millisecond, Kill: 250 * time.Millisecond}
}

// child is the program of a stdio server with whatever it starts.
type child struct {
	*programs.Child
	errors *tail
}

// start starts the program of a server. said gets the lines of its standard
// error.
func (s *server) start(t *target, marker string, said *talk) (*child, error) {
	confinement, err := s.confinement(t.dir)
	if err != nil {
		return nil, err
	}
	said.redact = t.redact
	errors := &tail{}
	started, reached, err := programs.Start(programs.Program{
		Path: s.Command, Args: t.args, Dir: t.dir, Env: t.env, Variable: markerVariable, Marker: marker,
		Confiner: s.m.confiner, Confinement: confinement, Guard: s.m.guarded(),
		Heard: func(errs *os.File) {
			lines(errs, 64<<10, func(line []byte) bool {
				errors.add([]byte(t.redact(clip(string(line), maxLogLine))))
				said.say(slog.LevelInfo, "mcp server says", string(line))
				return true
			}, func(head, _ []byte) bool {
				said.say(slog.LevelInfo, "mcp server says", string(head)+"…")
				return true
			})
		},
	})
	if err != nil {
		return nil, err
	}
	if confinement != nil && reached.Missing != "" {
		s.log.Warn("the program of an mcp server is less confined than asked", "mode", confinement.Mode, "missing", reached.Missing)
	}
	return &child{started, errors}, nil
}

func (s *server) confinement(dir string) (*process.Confinement, error) {
	var policy *process.Confinement
	if s.m.policy != nil {
		policy = s.m.policy.Confinement(dir)
	}
	switch {
	case s.Confine == "":
		return policy, nil
	case s.Confine == process.FullAccess:
		return nil, nil
	case s.m.confiner == nil:
		return nil, fmt.Errorf("it is to be confined (%s) and no row of the profile can confine programs; add one, or remove confine", s.Confine)
	}
	var c process.Confinement
	if policy != nil {
		c = *policy
	}
	switch {
	case s.Confine == process.ReadOnly:
		c.Write = nil
	case c.Mode != process.WorkspaceWrite:
		c.Write = []string{dir, filepath.Clean(os.TempDir())}
	}
	c.Mode = s.Confine
	return &c, nil
}

// end ends the program, at first by the end of its input. It does not wait.
func (c *child) end(g programs.Grace) {
	c.Stdin.Close()
	c.End(g)
}

// childError says what became of a program.
type childError struct{ text string }

func (e *childError) Error() string { return e.text }

// why says how the program ended, with the last of what it said.
func (c *child) why() error {
	why := c.Why() // by then it has been heard
	return &childError{"the program " + why + c.saying()}
}

// saying is what the program said last, in words that go behind others.
func (c *child) saying() string {
	if text := c.errors.String(); text != "" {
		return "; it last said: " + strconv.Quote(text)
	}
	return ""
}
