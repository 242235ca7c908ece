package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dsh/kernel"
	"dsh/kernel/agent"
	contract "dsh/kernel/mcp"
	"dsh/sdkproto"
)

// Attach implements mcp.Servers. A configured server of the same name ends first;
// it comes back only with a change of the configuration after o was closed.
func (m *Manager) Attach(o *kernel.Owner, name string, h contract.Host) (contract.Deliver, error) {
	if strings.TrimSpace(name) == "" {
		return nil, errors.New("attach an mcp server: it has no name")
	}
	s, err := m.attach(name, h)
	if err != nil {
		return nil, err
	}
	if err := o.OnClose("mcp server "+name, func(context.Context) error {
		m.mu.Lock()
		m.servers = slices.DeleteFunc(slices.Clone(m.servers), func(x *server) bool { return x == s })
		m.mu.Unlock()
		m.leave(s)
		return nil
	}); err != nil {
		m.mu.Lock()
		m.servers = slices.DeleteFunc(slices.Clone(m.servers), func(x *server) bool { return x == s })
		m.mu.Unlock()
		m.leave(s)
		return nil, fmt.Errorf("attach mcp server %s: %w", name, err)
	}
	if m.hooks != nil {
		// The next turn may find that the client has mended its server (spec
		// stream-json 8.2). It does not wait for that (case B32).
		if err := m.hooks.OnContext(s.owner, 0, "mcp server "+name, func(_ context.Context, at agent.Opening) ([]sdkproto.Message, error) {
			if at.Depth == 0 {
				s.retry()
			}
			return nil, nil
		}); err != nil {
			m.log.Debug("turns do not try a failed server again", "server", name, "error", err)
		}
	}
	return s.deliver, nil
}

func (m *Manager) attach(name string, h contract.Host) (*server, error) {
	m.changing.Lock()
	defer m.changing.Unlock()
	m.mu.Lock()
	held := map[string]string{}
	var gives *server
	for _, s := range m.servers {
		switch {
		case s.name != name:
			held[s.name] = s.public
		case s.host != nil:
			m.mu.Unlock()
			return nil, fmt.Errorf("attach mcp server %s: a client hosts one of this name already", name)
		default:
			gives = s
		}
	}
	m.servers = slices.DeleteFunc(slices.Clone(m.servers), func(x *server) bool { return x == gives })
	limit := time.Duration(m.hostedLimit.Load())
	if l, ok := h.(contract.Limited); ok {
		limit = cmp.Or(l.Limit(), limit)
	}
	sp := &spec{
		Server: Server{Type: transportSDK, Timeout: kernel.Duration(limit)}, host: h,
		name: name, scope: scopeClient, public: serverNames([]string{name}, held)[name], place: settingsPlace + m.next,
	}
	m.next++
	m.mu.Unlock()
	if gives != nil {
		m.log.Info("a configured mcp server gives way to one that the client hosts", "server", name)
		after := make(chan struct{})
		sp.after = after
		m.self.Owner.Go("mcp server "+name+" gives way", func(context.Context) {
			defer close(after)
			m.leave(gives)
		})
	}
	s := m.newServer(sp, m.self.Owner.ChildAt("server "+name, sp.place))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.servers = append(m.servers, s)
	return s, nil
}

// retry has a server that has failed try once more.
func (s *server) retry() {
	s.mu.Lock()
	due := s.state == contract.Failed && !s.coming && !s.retried
	s.retried = s.retried || due
	s.mu.Unlock()
	if !due {
		return
	}
	s.owner.Go("another attempt of mcp server "+s.name, func(ctx context.Context) {
		if err := s.wish(ctx, ask{}); err != nil {
			s.log.Debug("an mcp server that the client hosts failed again", "error", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.retried = false
	})
}

// deliver takes what a hosted server says by itself.
func (s *server) deliver(message json.RawMessage) error {
	s.mu.Lock()
	h := s.hosted
	s.mu.Unlock()
	if h == nil {
		return fmt.Errorf("mcp server %s: it is not connected", s.name)
	}
	if err := h.deliver(message); err != nil {
		return fmt.Errorf("mcp server %s: %w", s.name, err)
	}
	return nil
}

// ackWait is how long what is said next waits for a client to acknowledge a
// notification, so that it is not overtaken; noteLimit is how long the client may
// take altogether.
const (
	ackWait   = time.Second
	noteLimit = 30 * time.Second
)
