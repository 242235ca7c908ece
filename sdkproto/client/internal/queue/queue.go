// Package queue holds what a consumer of a server's lines has not taken, within a
// bound.
package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
)

const (
	// ItemBytes is what an item costs beside its line, roughly.
	ItemBytes = 256
	// itemsKeep is the largest capacity that an emptied queue keeps.
	itemsKeep = 1024
)

// ErrMissed is the ErrMissed of the clients.
var ErrMissed = errors.New("notifications were dropped")

type item[T any] struct {
	value T
	size  int
}

// Queue holds what a consumer has not taken, up to a number of bytes. Putting
// never waits.
type Queue[T any] struct {
	limit int
	// more has an element when something was put since the last look; over is
	// closed when nothing will be put any more.
	more chan struct{}
	over chan struct{}

	mu    sync.Mutex
	items []item[T] // from head on
	head  int
	bytes int
	// watched is set once somebody asked for the notifications.
	watched bool
	ended   bool
	err     error
}

// New makes a queue of at most that many bytes.
func New[T any](limit int) *Queue[T] {
	return &Queue[T]{limit: limit, more: make(chan struct{}, 1), over: make(chan struct{})}
}

// Put adds what came in a line of size bytes. One that is larger than the bound
// is taken when nothing else is there. When it has no room the queue ends, with
// an error that wraps ErrMissed.
func (q *Queue[T]) Put(value T, size int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return
	}
	cost := size + ItemBytes
	if q.bytes > 0 && q.bytes+cost > q.limit {
		q.finish(fmt.Errorf("%w: %d of them (%d bytes) were not read in time; read faster or raise Limits.Queue",
			ErrMissed, len(q.items)-q.head, q.bytes))
		return
	}
	// Items taken from the front make room once they are the larger part.
	if q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, item[T]{value, size})
	q.bytes += cost
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// End lets nothing more in. What is queued can still be taken, and err, if any,
// comes after it. Only the first end counts.
func (q *Queue[T]) End(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finish(err)
}

// Drop is End without what is queued.
func (q *Queue[T]) Drop(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items, q.head, q.bytes = nil, 0, 0
	if q.ended && q.err == nil {
		q.err = err
	}
	q.finish(err)
}

// Unwatched drops the queue with an error if nobody asked for it.
func (q *Queue[T]) Unwatched(err error) {
	q.mu.Lock()
	watched := q.watched
	q.mu.Unlock()
	if !watched {
		q.Drop(err)
	}
}

// finish is called with mu held.
func (q *Queue[T]) finish(err error) {
	if !q.ended {
		q.ended, q.err = true, err
		close(q.over)
	}
}

// next takes the first item, waiting for one. more is false at the end.
func (q *Queue[T]) next(ctx context.Context) (value T, err error, more bool) {
	for {
		q.mu.Lock()
		if q.head < len(q.items) {
			i := q.items[q.head]
			q.items[q.head] = item[T]{}
			q.head++
			q.bytes -= i.size + ItemBytes
			q.mu.Unlock()
			return i.value, nil, true
		}
		if cap(q.items) > itemsKeep {
			q.items = nil
		}
		q.items, q.head = q.items[:0], 0
		ended, last := q.ended, q.err
		q.mu.Unlock()
		if ended {
			return value, last, false
		}
		select {
		case <-q.more:
		case <-q.over:
		case <-ctx.Done():
			return value, ctx.Err(), false
		}
	}
}

// All is the sequence of what is put, with the error of the end, if any, as its
// last element. The end of ctx ends the sequence with its error and takes nothing
// from the queue.
func (q *Queue[T]) All(ctx context.Context) iter.Seq2[T, error] {
	q.mu.Lock()
	q.watched = true
	q.mu.Unlock()
	return func(yield func(T, error) bool) {
		for {
			n, err, more := q.next(ctx)
			if !more {
				if err != nil {
					yield(n, err)
				}
				return
			}
			if !yield(n, nil) {
				return
			}
		}
	}
}
