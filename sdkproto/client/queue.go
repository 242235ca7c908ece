package client

import (
	"fmt"
	"iter"
	"sync"
)

const (
	// itemBytes is what a notification costs beside its frame, roughly.
	itemBytes = 256
	// itemsKeep is the largest capacity that an emptied queue keeps.
	itemsKeep = 1024
)

// item is a notification and the length of its frame.
type item struct {
	note Notification
	size int
}

// queue holds the notifications that a consumer has not taken, up to a number
// of bytes. Putting never waits.
type queue struct {
	limit int
	// more has an element when something was put since the last look; over is
	// closed when nothing will be put any more.
	more chan struct{}
	over chan struct{}

	mu    sync.Mutex
	items []item // from head on
	head  int
	bytes int
	// watched is set once somebody asked for the notifications.
	watched bool
	ended   bool
	err     error
}

func newQueue(limit int) *queue {
	return &queue{limit: limit, more: make(chan struct{}, 1), over: make(chan struct{})}
}

// put adds a notification. One that is larger than the bound is taken when
// nothing else is there. When it has no room the queue ends.
func (q *queue) put(i item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return
	}
	cost := i.size + itemBytes
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
	q.items = append(q.items, i)
	q.bytes += cost
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// end lets nothing more in. What is queued can still be taken, and err, if any,
// comes after it. Only the first end counts.
func (q *queue) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finish(err)
}

// drop is end without what is queued.
func (q *queue) drop(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items, q.head, q.bytes = nil, 0, 0
	if q.ended && q.err == nil {
		q.err = err
	}
	q.finish(err)
}

// unwatched drops the queue if nobody asked for it.
func (q *queue) unwatched() {
	q.mu.Lock()
	watched := q.watched
	q.mu.Unlock()
	if !watched {
		q.drop(fmt.Errorf("%w: Result was called before Events", ErrMissed))
	}
}

// finish is called with mu held.
func (q *queue) finish(err error) {
	if !q.ended {
		q.ended, q.err = true, err
		close(q.over)
	}
}

// next takes the first notification, waiting for one. more is false at the end.
func (q *queue) next() (n Notification, err error, more bool) {
	for {
		q.mu.Lock()
		if q.head < len(q.items) {
			i := q.items[q.head]
			q.items[q.head] = item{}
			q.head++
			q.bytes -= i.size + itemBytes
			q.mu.Unlock()
			return i.note, nil, true
		}
		if cap(q.items) > itemsKeep {
			q.items = nil
		}
		q.items, q.head = q.items[:0], 0
		ended, last := q.ended, q.err
		q.mu.Unlock()
		if ended {
			return Notification{}, last, false
		}
		select {
		case <-q.more:
		case <-q.over:
		}
	}
}

// all is the sequence of what is put, with the error of the end, if any, as its
// last element.
func (q *queue) all() iter.Seq2[Notification, error] {
	q.mu.Lock()
	q.watched = true
	q.mu.Unlock()
	return func(yield func(Notification, error) bool) {
		for {
			n, err, more := q.next()
			if !more {
				if err != nil {
					yield(Notification{}, err)
				}
				return
			}
			if !yield(n, nil) {
				return
			}
		}
	}
}
