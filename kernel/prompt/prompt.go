// Package prompt holds the contract of the system prompt: ordered sections,
// each the words of one plugin, fixed when a session starts so that every
// request extends the one before it (spec jsonrpc 10.7, decision D17).
package prompt

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"dsh/kernel"
)

// Facts are what a section may speak of. They do not change during a session.
type Facts struct {
	SessionID string
	CWD       string
	Provider  string
	Model     string
	// Tools are the names the session's model sees, in order.
	Tools []string
}

// Section gives its text for a session, "" for none. It is pure: the same facts
// give the same text.
type Section func(Facts) string

// Sections are the parts of the system prompt, in the order of their rows in
// the profile (kernel.Compare).
type Sections struct {
	mu   sync.RWMutex
	list []*named
}

type named struct {
	owner *kernel.Owner
	name  string
	text  Section
}

// NewSections makes an empty list: no sections, no system message.
func NewSections() *Sections { return &Sections{} }

// Register adds a section until o is closed.
func (s *Sections) Register(o *kernel.Owner, name string, text Section) error {
	n := &named{o, name, text}
	if err := o.OnClose("prompt section "+name, func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.list = slices.DeleteFunc(s.list, func(x *named) bool { return x == n })
		return nil
	}); err != nil {
		return fmt.Errorf("register prompt section %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, n)
	slices.SortStableFunc(s.list, func(a, b *named) int { return kernel.Compare(a.owner, b.owner) })
	return nil
}

// System joins the sections with blank lines; without any it is "".
func (s *Sections) System(f Facts) string {
	s.mu.RLock()
	list := slices.Clone(s.list)
	s.mu.RUnlock()
	var parts []string
	for _, n := range list {
		if !n.owner.LiveAt(kernel.Now) {
			continue
		}
		if text := strings.TrimSpace(n.text(f)); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n\n")
}
