package streamjson

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/hook"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// errEnding is why the runner waits for nothing any more.
var errEnding = errors.New("the process is ending")

// Limits of the end.
const (
	// hooksLimit bounds the hooks on the end of the session (spec stream-json 1.7).
	hooksLimit = 1500 * time.Millisecond
	// cutLimit bounds the end of a turn that is cut short by the end of the process.
	cutLimit = 800 * time.Millisecond
	// childrenLimit is how long subagents in the background are waited for at the end
	// of input, unless variableChildren says otherwise in milliseconds (spec
	// stream-json 1.8).
	childrenLimit    = 10 * time.Minute
	variableChildren = "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"
)

// run is the runner: it opens the session, takes one message after the other,
// and ends the process.
func (s *Server) run(owner context.Context) {
	defer close(s.ended)
	code := kernel.ExitFailure
	s.contain("the runner", func() { code = s.serveAll(s.work) })
	if owner.Err() != nil {
		return // unloaded; the process goes on
	}
	s.wind(owner, code)
}

// serveAll gives the exit code (spec stream-json 1.7).
func (s *Server) serveAll(ctx context.Context) int {
	if err := s.begin(ctx); err != nil {
		return s.startFailed(ctx, err)
	}
	if s.Config.InputFormat == FormatText {
		s.host.Close()
		if err := s.onePrompt(ctx); err != nil {
			fmt.Fprintf(s.Err, "error: %v\n", err)
			return kernel.ExitFailure
		}
	} else {
		go s.read()
	}
	var limits limits
	defer limits.stop()
	for {
		t, due := s.next(ctx, &limits)
		switch {
		case t != nil:
			s.runTurn(ctx, t, s.prepare(ctx))
		case due:
			if err := s.prepare(ctx); err != nil {
				s.Log.Debug("the session is not open yet", "error", err)
			}
		default:
			return s.outcome()
		}
	}
}

// begin settles what must be right before anything is read.
func (s *Server) begin(ctx context.Context) error {
	s.setVariables()
	route, err := s.launchRoute()
	if err != nil {
		return err
	}
	s.with(func() { s.route, s.launch = route, route })
	agents, err := agentsOf(s.Config.Agents)
	if err != nil {
		return err
	}
	if err := s.define(s.Owner, agents); err != nil {
		return err
	}
	return s.find(ctx)
}

// startFailed tells the client that there is no session (spec stream-json 3.8):
// one that has not read a first line yet would not see the reason (F21).
func (s *Server) startFailed(ctx context.Context, why error) int {
	fmt.Fprintln(s.Err, why)
	if s.Config.InputFormat == FormatStream {
		s.awaitFirstLine(ctx)
	}
	s.view.set(s.projector(false))
	t := &turn{m: &message{}, began: time.Now(), over: make(chan struct{})}
	end := s.local(t, why.Error(), true)
	end.Result.DurationMs = 0
	if s.Config.OutputFormat != FormatText {
		s.put(ctx, end.Result)
	}
	return kernel.ExitFailure
}

// limits are the timers that bound the wait for what goes on in the background
// when the input has ended; nil ones do not run.
type limits struct{ children, shells *time.Timer }

func (l *limits) stop() {
	for _, t := range []*time.Timer{l.children, l.shells} {
		if t != nil {
			t.Stop()
		}
	}
}

// next waits for what to do: a message to run, a session to tell of, or, when
// neither comes any more, the end.
func (s *Server) next(ctx context.Context, limits *limits) (t *turn, due bool) {
	err := s.await(ctx, func() bool {
		switch {
		case s.ending:
			return true
		case s.initDue && !s.initDone:
			due = true
			return true
		case s.barrier == 0 && s.current == nil && len(s.queue.list) > 0 && s.suggestion == nil:
			t = &turn{m: s.queue.pop(), began: time.Now(), over: make(chan struct{})}
			s.current, s.running = t, true
			// A place in the queue is free; the reader may wait for it.
			close(s.changed)
			s.changed = make(chan struct{})
			return true
		case !s.eof || s.barrier > 0 || len(s.inFlight) > 0 || len(s.queue.list) > 0:
			return false
		case s.suggestion != nil:
			return false // within its limit
		case s.rests() && len(s.shells) == 0:
			return true
		case s.rests():
			if limits.shells == nil {
				limits.shells = time.AfterFunc(time.Duration(s.Config.ShellsLimit), s.stopShells)
			}
			return false
		}
		if limits.shells != nil {
			limits.shells.Stop()
			limits.shells = nil // a result is still to come
		}
		if limits.children == nil {
			limits.children = time.AfterFunc(ceiling(), func() { s.with(func() { s.ending = true }) })
		}
		return false
	})
	if err != nil {
		return nil, false
	}
	return t, due
}

// ceiling is how long work in the background is waited for.
func ceiling() time.Duration {
	if ms, err := strconv.ParseInt(os.Getenv(variableChildren), 10, 64); err == nil && ms >= 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return childrenLimit
}

// outcome is the exit code after all results, and what is left to print.
func (s *Server) outcome() int {
	s.mu.Lock()
	failed, last, code := s.failed, s.last, s.code
	s.mu.Unlock()
	if code != 0 {
		return code
	}
	if last != nil {
		s.print(last)
	}
	if failed {
		return kernel.ExitFailure
	}
	return kernel.ExitOK
}

// print writes the outcome in the formats that are nothing else.
func (s *Server) print(last *streamjson.Result) {
	switch s.Config.OutputFormat {
	case FormatJSON:
		s.put(s.work, last)
	case FormatText:
		out := s.Out
		if last.IsError {
			out = s.Err
		}
		if _, err := fmt.Fprintln(out, strings.TrimRight(last.Result, "\n")); err != nil {
			s.Log.Warn("the result was not written", "error", err)
		}
	}
}

// wind ends the session and the process: hooks while the client can still answer
// (case B31), then everything comes to rest, and what was said goes out.
func (s *Server) wind(owner context.Context, code int) {
	s.with(func() {
		s.ending = true
		s.dropSuggestion()
	})
	s.endHooks(owner, "other")
	s.host.Close()
	rest, cancel := context.WithTimeout(owner, kernel.QuiesceLimit+kernel.FlushLimit)
	defer cancel()
	if err := s.Root.Quiesce(rest); err != nil {
		s.Log.Warn("the end goes on without waiting any longer", "error", err)
	}
	if owner.Err() == nil {
		s.Root.Exit(code)
	}
}

// endHooks tells the hooks that the session ends, and why.
func (s *Server) endHooks(owner context.Context, reason string) {
	s.mu.Lock()
	id, opened := s.id, s.initDone
	s.mu.Unlock()
	if !opened || s.Hooks == nil || !s.Hooks.Any(s.cwd, hook.SessionEnd) {
		return
	}
	ctx, cancel := context.WithTimeout(owner, hooksLimit)
	defer cancel()
	s.Hooks.Run(ctx, hook.Input{
		Event: hook.SessionEnd, SessionID: id, CWD: s.cwd, Match: reason, Members: map[string]any{"reason": reason},
	})
}

// quiesce is the server's part when the process comes to rest: what is in the
// logs goes out. It comes behind the agents' part.
func (s *Server) quiesce(ctx context.Context) error {
	s.with(func() { s.ending = true })
	if err := s.sub.Drain(ctx); err != nil {
		return err
	}
	s.tellEnds(ctx, func(string) bool { return true })
	s.told.flush(ctx)
	return s.unlessBroken(s.writer.Flush(ctx))
}

func (s *Server) closeOutput(ctx context.Context) error { return s.unlessBroken(s.writer.Close(ctx)) }

// unlessBroken leaves out that nobody reads any more: that was told when it was
// seen, and is why the process ends.
func (s *Server) unlessBroken(err error) error {
	if s.writer.Err() != nil {
		return nil
	}
	return err
}

// signalled decides what a signal means (spec stream-json 1.7): the first SIGINT
// interrupts a turn that runs; else the process ends, in order.
func (s *Server) signalled(signal os.Signal) (takes, ends bool) {
	code := kernel.ExitTerminated
	switch signal {
	case os.Interrupt:
		s.mu.Lock()
		t, running := s.current, s.running && !s.interrupted
		s.interrupted = s.running
		if running && t != nil {
			t.m.interrupted = true
		}
		s.mu.Unlock()
		if running {
			s.Owner.Go("interrupt", func(context.Context) {
				s.stopTasks()
				s.cancelTurn(t, sdkproto.AbortUser)
			})
			return true, false
		}
		code = kernel.ExitInterrupted
	case syscall.SIGHUP:
		code = kernel.ExitFailure
	}
	s.abandon(code)
	return true, true
}

// abandon ends the process with a code, without results.
func (s *Server) abandon(code int) {
	s.with(func() {
		if s.code == 0 {
			s.code = code
		}
		s.ending = true
	})
	s.Owner.Go("end of a turn cut short", func(ctx context.Context) {
		s.mu.Lock()
		a, t := s.agent, s.current
		s.mu.Unlock()
		if a != nil {
			a.Cancel(agent.Cause{Kind: sdkproto.AbortDisposed}, "")
		}
		if t != nil {
			cut, cancel := context.WithTimeout(ctx, cutLimit)
			defer cancel()
			select {
			case <-t.over:
			case <-cut.Done():
			}
		}
		s.stop(errEnding) // whatever the runner waits for
	})
}

// readerEvery is how often it is looked whether somebody still reads: while a
// command runs there may be nothing to write for a long time.
const readerEvery = 500 * time.Millisecond

// watchOutput ends the process when nobody reads any more (case B75).
func (s *Server) watchOutput(ctx context.Context) {
	look := time.NewTicker(readerEvery)
	defer look.Stop()
	for gone := false; !gone; {
		select {
		case <-s.writer.Failed():
			s.Log.Warn("standard output is broken; ending", "error", s.writer.Err())
			gone = true
		case <-look.C:
			if gone = s.Unread != nil && s.Unread(); gone {
				s.Log.Warn("nobody reads standard output any more; ending")
			}
		case <-s.ended:
			return
		case <-ctx.Done():
			return
		}
	}
	s.abandon(kernel.ExitFailure)
}

// isSilent reports whether no result is written any more.
func (s *Server) isSilent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.code != 0
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
