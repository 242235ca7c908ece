package jsonrpc

import (
	"context"
	"io"
	"sync"
	"time"

	"dsh/kernel"
)

// Limits of the parts of the end (decision R13).
const (
	// answerLimit is when shutdown is answered whatever has happened until then: a
	// client waits a second.
	answerLimit = 900 * time.Millisecond
	// shortLimit bounds what is usually done already.
	shortLimit = 100 * time.Millisecond
	// brokenLimit is how long the end of input may come behind the failure of the
	// output and still count as its cause.
	brokenLimit = 50 * time.Millisecond
	// foreignLimit is how long whoever else brought the process to rest has to end
	// it.
	foreignLimit = time.Second
)

// ending is the state of the end.
type ending struct {
	once sync.Once
	// rested is closed when nothing of a session will be written any more.
	rested chan struct{}
	// eof is closed when the input has ended.
	eof chan struct{}

	mu sync.Mutex
	// begun is set when the server itself ends the process, asked when a client's
	// shutdown was the reason.
	begun, asked bool
	code         int
}

// shutdown brings everything to rest and answers {}; then the process ends with
// code 0. Racing calls share one end (spec jsonrpc 2.3, decision D4).
func (s *Server) shutdown(r *request) {
	s.end.mu.Lock()
	s.end.asked = true
	s.end.mu.Unlock()
	s.pending.hold(1)
	s.finish()
	s.spawn("shutdown", r, func(ctx context.Context) ([]byte, error) {
		defer s.pending.hold(-1)
		select {
		case <-s.end.rested:
		case <-ctx.Done():
		}
		return []byte("{}"), nil
	})
}

// inputEnded holds the end of input until what was accepted is answered.
func (s *Server) inputEnded(err error) {
	if s.owner.Context().Err() != nil {
		return
	}
	close(s.end.eof)
	s.in.ended()
	if err != io.EOF {
		s.log.Warn("standard input failed; this counts as its end", "error", err)
	}
	ctx, cancel := within(s.work, answerLimit)
	defer cancel()
	if err := s.pending.empty(ctx); err != nil && s.work.Err() == nil {
		s.log.Warn("standard input ended before every request was answered")
	}
}

// watch ends the process when the input has ended or the output is broken
// (decisions R11, R12).
func (s *Server) watch(ctx context.Context) {
	quiescing := s.root.Quiescing()
	for {
		select {
		case <-quiescing:
			s.refuse()
			quiescing = nil
			continue
		case <-s.writer.Failed():
			s.broken(ctx)
		case <-s.conn.DisconnectNotify():
		case <-ctx.Done():
		}
		break
	}
	if ctx.Err() == nil {
		s.finish()
	}
}

// broken decides what a broken output means for the exit code: nothing if the
// client had ended or had asked for the end, 1 otherwise.
func (s *Server) broken(ctx context.Context) {
	s.log.Warn("standard output is broken; ending", "error", s.writer.Err())
	ctx, cancel := within(ctx, brokenLimit)
	defer cancel()
	select {
	case <-s.end.eof:
		return
	case <-ctx.Done():
	}
	s.end.mu.Lock()
	defer s.end.mu.Unlock()
	if !s.end.asked {
		s.end.code = 1
	}
}

// finish starts the end, once. New work is refused when it returns.
func (s *Server) finish() {
	s.end.once.Do(func() {
		s.refuse()
		s.owner.Go("end", s.wind)
	})
}

// wind brings everything to rest, lets the answers out and ends the process.
func (s *Server) wind(owner context.Context) {
	foreign := isClosed(s.root.Quiescing())
	s.end.mu.Lock()
	s.end.begun = true
	s.end.mu.Unlock()

	ctx, cancel := within(owner, answerLimit)
	defer cancel()
	s.step(ctx, "requests already read", shortLimit, s.in.idle)
	s.step(ctx, "sessions being opened", shortLimit, s.opening.empty)
	s.step(ctx, "sessions", answerLimit, s.root.Quiesce)
	// What the client did not take by now it will not get: nothing of a session
	// may follow the answer.
	s.refuseEvents(errStreamEnd)
	s.step(owner, "events", shortLimit, s.sub.Drain)
	s.step(owner, "heartbeat", shortLimit, s.agreement.silence)
	s.step(owner, "earlier answers", shortLimit, s.pending.settled)
	close(s.end.rested)
	s.step(owner, "answers", shortLimit, s.pending.empty)
	s.step(owner, "output", kernel.FlushLimit, s.writer.Flush)

	if foreign {
		// A signal has an exit code of its own.
		timer := time.NewTimer(foreignLimit)
		defer timer.Stop()
		select {
		case <-s.root.Exiting():
			return
		case <-timer.C:
		case <-owner.Done():
		}
	}
	if owner.Err() != nil {
		return // unloaded, or the kernel is ending the process already
	}
	s.end.mu.Lock()
	code := s.end.code
	s.end.mu.Unlock()
	s.exit(code)
}

// quiesce is the server's part when the process comes to rest: everything that
// was written into the logs goes out. It comes behind the agents' part.
func (s *Server) quiesce(ctx context.Context) error {
	s.refuse()
	if err := s.sub.Drain(ctx); err != nil {
		return err
	}
	s.end.mu.Lock()
	begun := s.end.begun
	s.end.mu.Unlock()
	if begun {
		return nil // wind flushes, behind the answers
	}
	s.step(ctx, "answers", shortLimit, s.pending.empty)
	return s.writer.Flush(ctx)
}

// step does one part of the end. What is late is named and left behind.
func (s *Server) step(ctx context.Context, name string, limit time.Duration, f func(context.Context) error) {
	ctx, cancel := within(ctx, limit)
	defer cancel()
	if err := f(ctx); err != nil {
		s.log.Warn("the end goes on without waiting any longer", "for", name, "error", err)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
