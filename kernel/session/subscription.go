package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"dsh/kernel"
	"dsh/sdkproto"
)

// Entry is what a subscriber hears: a fact, a change of status, or the end of
// a delegated run.
type Entry struct {
	SessionID string
	// Record is nil when the entry is something else.
	Record *Record
	Status sdkproto.Status
	// Settled is nil when the entry is something else.
	Settled *Settled
}

// Settled is the end of one activation of a delegated session, the entry's
// (spec jsonrpc 8).
type Settled struct {
	// Provider names the kind of delegation, such as "spawn".
	Provider string
	// Parent is the delegating session's id, AgentID the child's agent id.
	Parent, AgentID string
	// Call is the id of the parent's call that started the child.
	Call string
	// StopReason is one of the sdkproto Stop reasons.
	StopReason string
	// Last is the child's selected output; nil when it produced none.
	Last []sdkproto.Block
	// Local says that the child ran in this process. Whoever ran it sets it;
	// nothing else establishes it (S106).
	Local bool
}

// Subscription hands the entries of any number of logs to one function: each
// once, those of one log in order, by one goroutine. Its queue is bounded by
// Log.Room; nothing is ever dropped while the function works.
type Subscription struct {
	name  string
	bound int
	ctx   context.Context // its owner's

	mu      sync.Mutex
	queue   []Entry
	taken   int           // entries that the goroutine has in hand
	changed chan struct{} // closed and replaced whenever something was done
	wake    chan struct{} // capacity 1
	err     error         // why nothing is handed on any more
}

var (
	// errUnsubscribed: the subscription's owner was closed.
	errUnsubscribed = errors.New("subscription is closed")
	// errPanic: the subscription's function panicked.
	errPanic = errors.New("panic")
)

// NewSubscription starts a subscription that lives as long as o. Producers wait
// in Log.Room while bound entries or more are queued. After an error or panic of
// fn, and when o closes, the subscription is deaf: what was queued is discarded,
// and nobody waits for it.
func NewSubscription(o *kernel.Owner, log *slog.Logger, name string, bound int, fn func(context.Context, Entry) error) *Subscription {
	s := &Subscription{name: name, bound: max(bound, 1), ctx: o.Context(), changed: make(chan struct{}), wake: make(chan struct{}, 1)}
	o.Go("subscription "+name, func(ctx context.Context) {
		err := s.run(ctx, fn)
		level := slog.LevelDebug
		if errors.Is(err, errPanic) {
			level = slog.LevelError
		}
		if !errors.Is(err, errUnsubscribed) {
			log.Log(ctx, level, "a subscription ended", "name", name, "error", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.err, s.queue, s.taken = err, nil, 0
		s.notify()
	})
	return s
}

func (s *Subscription) run(ctx context.Context, fn func(context.Context, Entry) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("subscription %s: %w: %v\n%s", s.name, errPanic, r, debug.Stack())
		}
	}()
	var batch []Entry
	for {
		s.mu.Lock()
		batch, s.queue = s.queue, batch[:0]
		s.taken = len(batch)
		s.mu.Unlock()
		if len(batch) == 0 {
			select {
			case <-s.wake:
				continue
			case <-ctx.Done():
				return errUnsubscribed
			}
		}
		for i := range batch {
			if ctx.Err() != nil {
				return errUnsubscribed
			}
			if err := fn(ctx, batch[i]); err != nil {
				return fmt.Errorf("subscription %s: %w", s.name, err)
			}
			batch[i] = Entry{}
			s.mu.Lock()
			s.taken--
			if s.taken == 0 || len(s.queue)+s.taken == s.bound-1 {
				s.notify()
			}
			s.mu.Unlock()
		}
	}
}

// deaf says that nothing will be handed on any more.
func (s *Subscription) deaf() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended()
}

// ended is deaf for a caller that holds mu. The owner is asked, too: one that
// was closed before the subscription was made never starts the goroutine.
func (s *Subscription) ended() bool { return s.err != nil || s.ctx.Err() != nil }

func (s *Subscription) push(id string, records []Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended() {
		return
	}
	for i := range records {
		s.queue = append(s.queue, Entry{SessionID: id, Record: &records[i]})
	}
	s.poke()
}

func (s *Subscription) pushEntry(e Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended() {
		return
	}
	s.queue = append(s.queue, e)
	s.poke()
}

func (s *Subscription) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// notify wakes everybody in room and Drain. The caller holds mu.
func (s *Subscription) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Subscription) room(ctx context.Context) error {
	return s.await(ctx, func() bool { return len(s.queue)+s.taken < s.bound })
}

// Drain returns when everything queued before the call, and perhaps more, has
// been handed on.
func (s *Subscription) Drain(ctx context.Context) error {
	return s.await(ctx, func() bool { return len(s.queue)+s.taken == 0 })
}

func (s *Subscription) await(ctx context.Context, done func() bool) error {
	for {
		s.mu.Lock()
		if s.ended() || done() {
			s.mu.Unlock()
			return nil
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-s.ctx.Done():
		case <-ctx.Done():
			return fmt.Errorf("subscription %s: %w", s.name, context.Cause(ctx))
		}
	}
}
