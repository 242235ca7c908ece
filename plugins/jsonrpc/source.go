package jsonrpc

import (
	"context"
	"io"
	"sync"
)

// source is the input, and knows how far its reader has come.
type source struct {
	r io.Reader

	mu sync.Mutex
	// waiting: the reader wants more, so all it was given has been handled.
	waiting bool
	// stalled: the reader waits for something else, with more in its hands.
	stalled bool
	// reads counts the reads.
	reads uint64
	// changed is closed at the next change; nil while nobody cares.
	changed chan struct{}
}

func (s *source) Read(p []byte) (int, error) {
	s.set(func() { s.waiting, s.reads = true, s.reads+1 })
	defer s.set(func() { s.waiting = false })
	return s.r.Read(p)
}

// ended says that nobody reads any more: there will be nothing to handle.
func (s *source) ended() { s.set(func() { s.waiting = true }) }

// stall says whether the reader is held up.
func (s *source) stall(stalled bool) { s.set(func() { s.stalled = stalled }) }

// current names the read that the reader is busy with.
func (s *source) current() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func (s *source) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// idle waits until the reader waits for more, or will get no more.
func (s *source) idle(ctx context.Context) error {
	return s.await(ctx, func() bool { return s.waiting })
}

// handled waits until all that came with one read has been handled, as far as
// that is possible now.
func (s *source) handled(ctx context.Context, read uint64) error {
	return s.await(ctx, func() bool { return s.waiting || s.stalled || s.reads > read })
}

func (s *source) await(ctx context.Context, enough func() bool) error {
	for {
		s.mu.Lock()
		if enough() {
			s.mu.Unlock()
			return nil
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
