package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"dsh/kernel"
	contract "dsh/kernel/mcp"
)

// changeWait is how long after the news that a list has changed it is looked at:
// changes come in bursts. changeInterval is the least time between two looks.
const (
	changeWait     = 100 * time.Millisecond
	changeInterval = time.Second
)

// returning is how long a call waits for a server that is coming back.
const returning = 5 * time.Second

// server is one configured server and its life.
type server struct {
	*spec

	m     *Manager
	owner *kernel.Owner
	log   *slog.Logger
	asks  chan ask
	// first is closed when the first attempt has ended, or nothing is to be
	// attempted.
	first chan struct{}
	// done is closed when the server's life has ended.
	done   chan struct{}
	finish sync.Once

	mu       sync.Mutex
	state    string
	reason   string
	firstErr error
	// program and release are what the server calls itself.
	program, release string
	conn             *conn
	// turn is closed and replaced when the state changes.
	turn chan struct{}
	// coming says that another attempt runs or is due.
	coming  bool
	offered *offer
	waiters []chan error
	// hosted is the latest connection to a server that a client hosts; retried says
	// that the start of a turn has asked for another one.
	hosted  *hosted
	retried bool
	// lastID is the highest id of a request to it.
	lastID int64
	// patience tells the attempt that runs that a person is needed; false without
	// one.
	patience func(*loginError) bool
}

// ask is somebody's wish.
type ask struct {
	enable, disable bool // neither: reconnect
	reply           chan error
}

func (m *Manager) newServer(sp *spec, owner *kernel.Owner) *server {
	s := &server{
		spec: sp, m: m, owner: owner, log: m.log.With("server", sp.name), asks: make(chan ask),
		first: make(chan struct{}), done: make(chan struct{}), state: contract.Pending, turn: make(chan struct{}),
	}
	if sp.Disabled || sp.barred != "" {
		s.state, s.reason = contract.Disabled, sp.barred
	}
	s.offered = newOffer(s)
	m.mu.Lock()
	m.lives[s] = true
	m.mu.Unlock()
	owner.Go("mcp server "+sp.name, s.run)
	if owner.Context().Err() != nil {
		s.over() // it may never have run
	}
	return s
}

// run is the server's life.
func (s *server) run(ctx context.Context) {
	defer s.over()
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("the life of an mcp server panicked", "panic", r, "stack", string(debug.Stack()))
			s.set(contract.Failed, fmt.Sprintf("panic: %v", r), nil, false)
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.m.ending, cancel)()
	if s.after != nil {
		select {
		case <-s.after:
		case <-ctx.Done():
			return
		}
	}

	tries := 0
	rest := func(why error) (ok bool) {
		if !errors.Is(why, contract.ErrHostClosed) {
			s.offered.withdraw()
		} // else nothing comes back, and a call is better told so than that there is no such tool
		a, ok := s.wait(ctx, nil)
		tries = 0
		return ok && s.obey(a)
	}
	on := !s.Disabled && s.barred == ""
	for {
		if !on {
			s.set(contract.Disabled, s.barred, nil, false)
			s.settle(errors.New("the server is disabled"))
			on = rest(nil)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		c, a, err := s.attempt(ctx)
		if err == nil && a == nil {
			tries, a, err = s.serve(ctx, c, tries)
		}
		if ctx.Err() != nil {
			s.gone(c)
			return
		}
		if a != nil {
			s.gone(c)
			tries = 0
			on = s.obey(*a)
			continue
		}
		var permanent *permanentError
		var login *loginError
		tries++
		switch {
		case errors.As(err, &login):
			s.set(contract.NeedsAuth, err.Error(), nil, false)
		case errors.As(err, &permanent), s.host != nil:
			// A client's server fails because the client says so: asking again and again
			// would not change that. The next turn asks once.
			s.set(contract.Failed, err.Error(), nil, false)
		case tries > s.m.config.Load().Reconnect.Attempts:
			s.set(contract.Failed, fmt.Sprintf("%v; given up after %d attempts", err, tries), nil, false)
		default:
			pause := s.m.pause(tries)
			s.set(contract.Failed, err.Error(), nil, true)
			s.settle(err)
			s.gone(c)
			a, ok := s.wait(ctx, time.After(pause))
			if !ok {
				return
			}
			if a.reply != nil {
				tries = 0
				on = s.obey(a)
			}
			continue
		}
		s.settle(err)
		s.gone(c)
		on = rest(err)
		if ctx.Err() != nil {
			return
		}
	}
}

func (s *server) over() {
	s.settle(kernel.ErrClosed)
	s.finish.Do(func() {
		s.m.mu.Lock()
		defer s.m.mu.Unlock()
		delete(s.m.lives, s)
		close(s.done)
	})
}

// pause is how long to wait before an attempt.
func (m *Manager) pause(tries int) time.Duration {
	r := m.config.Load().Reconnect
	pause := time.Duration(r.First)
	for range tries - 1 {
		if pause *= 2; pause >= time.Duration(r.Most) {
			break
		}
	}
	return min(pause, time.Duration(r.Most))
}

// obey takes a wish up: who asked is answered when it is fulfilled. It gives
// whether the server is to run.
func (s *server) obey(a ask) (on bool) {
	if a.disable {
		s.set(contract.Disabled, "", nil, false)
		s.offered.withdraw()
		a.reply <- nil
		return false
	}
	s.mu.Lock()
	s.waiters = append(s.waiters, a.reply)
	s.mu.Unlock()
	return true
}

// wait waits for a wish or for after, which gives an empty one; ok is false at
// the end.
func (s *server) wait(ctx context.Context, after <-chan time.Time) (a ask, ok bool) {
	select {
	case a = <-s.asks:
		return a, true
	case <-after:
		return ask{}, true
	case <-ctx.Done():
		return ask{}, false
	}
}

// attempt makes a connection and learns what the server offers. A wish in
// between ends it. Without success c, if it is not nil, is on its way out.
func (s *server) attempt(ctx context.Context) (c *conn, a *ask, err error) {
	s.mu.Lock()
	again := s.state == contract.Failed
	s.mu.Unlock()
	if !again {
		s.set(contract.Pending, "", nil, true)
	}
	limit := or(s.ConnectTimeout, s.m.config.Load().ConnectTimeout)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	timer := time.AfterFunc(limit, func() { stop(fmt.Errorf("no answer within %v", limit)) })
	defer timer.Stop()
	s.mu.Lock()
	s.patience = func(login *loginError) bool {
		// A person takes longer than a server; nobody else waits for them.
		if !timer.Stop() {
			return false
		}
		late := time.AfterFunc(loginLimit, func() {
			stop(&loginError{fmt.Sprintf("nobody has logged in within %v; reconnect to try again", loginLimit)})
		})
		context.AfterFunc(ctx, func() { late.Stop() })
		s.set(contract.NeedsAuth, login.Error(), nil, true)
		s.settle(login)
		return true
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.patience = nil
	}()
	type outcome struct {
		c   *conn
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		c, err := s.dial(ctx)
		done <- outcome{c, err}
	}()
	select {
	case o := <-done:
		return o.c, nil, o.err
	case wish := <-s.asks:
		stop(errClosing)
		o := <-done
		if o.err == nil {
			o.c.end(s.m.grace())
		}
		return o.c, &wish, nil
	}
}

// dial connects, by the older protocol and, where a server refuses that, by the
// newest; and asks what there is.
func (s *server) dial(ctx context.Context) (c *conn, err error) {
	defer func() {
		if r := recover(); r != nil {
			if err = fmt.Errorf("panic: %v\n%s", r, debug.Stack()); c != nil {
				c.end(s.m.grace())
			}
		}
	}()
	if s.problem != "" {
		return nil, &permanentError{errors.New(s.problem)}
	}
	c, err = s.connect(ctx, protocolVersion)
	if _, refused := isAnswer(err); refused && ctx.Err() == nil && s.host == nil {
		s.gone(c)
		c, err = s.connect(ctx, "")
	}
	if err == nil {
		if err = s.offered.learn(ctx, c); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			err = c.explain(err)
			c.end(s.m.grace())
		}
	}
	return c, err
}

// serve keeps a connection until it is lost, somebody wishes something else, or
// the end.
func (s *server) serve(ctx context.Context, c *conn, tries int) (int, *ask, error) {
	began := time.Now()
	s.set(contract.Connected, "", c, true)
	s.settle(nil)
	tools, _ := s.offered.list()
	s.log.Info("mcp server connected", "tools", len(tools), "version", s.release)
	var due <-chan time.Time
	var looked time.Time
	for {
		changed := c.changed
		if due != nil {
			changed = nil // one look is due already
		}
		select {
		case <-changed:
			due = time.After(max(changeWait, changeInterval-time.Since(looked)))
		case <-due:
			due = nil
			s.relearn(ctx, c)
			looked = time.Now()
		case <-c.lost:
			err := fmt.Errorf("the connection was lost: %w", c.why)
			s.set(contract.Failed, err.Error(), nil, true)
			s.log.Warn("mcp server lost", "error", err)
			s.hangUp(c)
			if time.Since(began) > time.Duration(s.m.config.Load().Reconnect.Most) {
				tries = 0
			}
			return tries, nil, err
		case a := <-s.asks:
			s.set(contract.Pending, "", nil, true)
			s.hangUp(c)
			return tries, &a, nil
		case <-ctx.Done():
			s.set(contract.Failed, "the harness is ending", nil, false)
			s.hangUp(c)
			return tries, nil, context.Cause(ctx)
		}
	}
}

// relearn looks at lists that have changed. What cannot be learned leaves what
// is known.
func (s *server) relearn(ctx context.Context, c *conn) {
	ctx, cancel := context.WithTimeout(ctx, or(s.ConnectTimeout, s.m.config.Load().ConnectTimeout))
	defer cancel()
	if err := s.offered.learn(ctx, c); err != nil {
		s.log.Warn("the changed lists of an mcp server cannot be read", "error", c.explain(err))
	}
}

// hangUp ends a connection and waits until nothing is left of it.
func (s *server) hangUp(c *conn) {
	c.end(s.m.grace())
	s.gone(c)
}

// gone waits until nothing is left of a connection that is ending.
func (s *server) gone(c *conn) {
	if c == nil {
		return
	}
	gone := c.gone()
	select {
	case <-gone:
		return
	case <-s.m.ending.Done():
	case <-s.owner.Context().Done():
	}
	timer := time.NewTimer(brisk().Kill)
	defer timer.Stop()
	select {
	case <-gone:
		return
	case <-timer.C:
	}
	if c.child != nil {
		c.child.Kill()
		<-c.child.Gone()
	}
}

func (s *server) set(state, reason string, c *conn, coming bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.reason, s.conn, s.coming = state, reason, c, coming
	if c != nil {
		s.program, s.release = "", ""
		if info := c.session.InitializeResult(); info != nil && info.ServerInfo != nil {
			s.program, s.release = clip(info.ServerInfo.Name, 100), clip(info.ServerInfo.Version, 100)
		}
	}
	close(s.turn)
	s.turn = make(chan struct{})
}

// settle answers those who wait for the end of an attempt.
func (s *server) settle(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.first:
	default:
		s.firstErr = err
		close(s.first)
	}
	for _, w := range s.waiters {
		w <- err
	}
	s.waiters = nil
}

// started waits for the end of the first attempt.
func (s *server) started(ctx context.Context) error {
	select {
	case <-s.first:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == contract.Disabled {
		return nil
	}
	return s.firstErr
}

// wish asks for something and waits until it is done.
func (s *server) wish(ctx context.Context, a ask) error {
	a.reply = make(chan error, 1)
	select {
	case s.asks <- a:
	case <-s.done:
		return kernel.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-a.reply:
		return err
	case <-s.done:
		return kernel.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// connected gives the connection. It waits a little for a server that is coming
// back: nothing has been sent yet.
func (s *server) connected(ctx context.Context) (*conn, error) {
	timer := time.NewTimer(returning)
	defer timer.Stop()
	for {
		s.mu.Lock()
		c, state, reason, coming, turn := s.conn, s.state, s.reason, s.coming, s.turn
		s.mu.Unlock()
		if c != nil {
			select {
			case <-c.dead:
				state, reason, coming = contract.Failed, "the connection was lost", true
			default:
				return c, nil
			}
		}
		down := fmt.Errorf("it is not connected (%s)", state)
		if reason != "" {
			down = fmt.Errorf("it is not connected (%s: %s)", state, reason)
		}
		if !coming || state == contract.NeedsAuth {
			return nil, down
		}
		select {
		case <-turn:
		case <-timer.C:
			return nil, down
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// status is how the server stands, for others.
func (s *server) status() contract.Server {
	s.mu.Lock()
	st := contract.Server{Name: s.name, State: s.state, Error: s.reason, Transport: s.transport(), Scope: s.scope, Version: strings.TrimSpace(s.program + " " + s.release), Program: s.program, Release: s.release}
	s.mu.Unlock()
	st.Tools, st.Offers = s.offered.list()
	return st
}

// instructions is what the server says about its use.
func (c *conn) instructions() string {
	var text string
	if r := c.session.InitializeResult(); r != nil {
		text = r.Instructions
	}
	return clip(text, maxDescription)
}
