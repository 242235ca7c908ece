// Package command holds the contract of slash commands: named texts for the
// model, from files, plugins and MCP servers. Front ends that know commands
// expand them; the JSON-RPC one does not (S131).
package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"dsh/kernel"
	"dsh/sdkproto"
)

// Command is one slash command.
type Command struct {
	// Name is without the slash; parts are joined by colons, as in "git:commit"
	// or "mcp__server__prompt".
	Name string
	// Description is one line for people and models.
	Description string
	// ArgumentHint shows what may stand behind the name; it may be empty.
	ArgumentHint string
	// Expand gives the content that takes the place of "/name args". It may be
	// called from any goroutine.
	Expand func(ctx context.Context, in Invocation) ([]sdkproto.Block, error)
}

// Invocation is one use of a command.
type Invocation struct {
	SessionID string
	// CWD is the session's absolute working directory.
	CWD string
	// Args is all that stands behind the name, without the white space around it.
	Args string
}

// Registry knows the commands. Its methods may be called from any goroutine.
type Registry struct {
	mu   sync.Mutex
	list []entry
}

type entry struct {
	owner *kernel.Owner
	Command
}

// NewRegistry makes an empty registry.
func NewRegistry() *Registry { return &Registry{} }

// Register adds a command until o is closed. A name that is taken is an error.
func (r *Registry) Register(o *kernel.Owner, c Command) error {
	if c.Name == "" || strings.ContainsAny(c.Name, "/ \t\r\n") {
		return fmt.Errorf("register command %q: a name has no slash and no white space and is not empty", c.Name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.list {
		if e.Name == c.Name && kernel.Clash(e.owner, o) {
			return fmt.Errorf("register command %q: the name is taken", c.Name)
		}
	}
	if err := o.OnClose("command "+c.Name, func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = slices.DeleteFunc(slices.Clone(r.list), func(e entry) bool { return e.owner == o && e.Name == c.Name })
		return nil
	}); err != nil {
		return fmt.Errorf("register command %q: %w", c.Name, err)
	}
	r.list = append(slices.Clone(r.list), entry{o, c})
	slices.SortStableFunc(r.list, func(a, b entry) int { return kernel.Compare(a.owner, b.owner) })
	return nil
}

// List gives the commands in the order of their rows.
func (r *Registry) List() []Command {
	r.mu.Lock()
	list := r.list
	r.mu.Unlock()
	var live []Command
	for _, e := range list {
		if e.owner.LiveAt(kernel.Now) {
			live = append(live, e.Command)
		}
	}
	return live
}

// Parse splits "/name args". ok is false for text that is no use of a command
// there is.
func (r *Registry) Parse(text string) (c Command, args string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "/")
	if !ok {
		return Command{}, "", false
	}
	name, args := rest, ""
	if i := strings.IndexAny(rest, " \t\r\n"); i >= 0 {
		name, args = rest[:i], strings.TrimSpace(rest[i:])
	}
	for _, c := range r.List() {
		if c.Name == name {
			return c, args, true
		}
	}
	return Command{}, "", false
}
