package jsonrpc

import (
	"context"
	"io"
	"sync"
)

// source is the input, and knows whether its reader waits for more: then all it
// was given has been handled.
type source struct {
	r io.Reader

	mu      sync.Mutex
	waiting bool
	// changed is closed when the reader begins to wait; nil while nobody cares.
	changed chan struct{}
}

func (s *source) Read(p []byte) (int, error) {
	s.set(true)
	defer s.set(false)
	return s.r.Read(p)
}

// ended says that nobody reads any more: there will be nothing to handle.
func (s *source) ended() { s.set(true) }

func (s *source) set(waiting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = waiting
	if waiting && s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// idle waits until the reader waits for more, or will get no more.
func (s *source) idle(ctx context.Context) error {
	for {
		s.mu.Lock()
		if s.waiting {
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
