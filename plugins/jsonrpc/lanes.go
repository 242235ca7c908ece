package jsonrpc

import (
	"context"
	"sync"

	"dsh/kernel"
)

// lanes runs tasks: those of one key in order, those of different keys side by
// side. A key without tasks costs nothing (decision D24).
type lanes struct {
	owner *kernel.Owner
	// ready waits until no further task can come with one; work does the tasks
	// that are waiting, and calls done behind each.
	ready func(context.Context, task)
	work  func(ctx context.Context, batch []task, done func())

	mu   sync.Mutex
	open map[string]*lane
}

type lane struct {
	queue []task
	// hand is how many tasks were taken out of the queue and are not done.
	hand int
}

// task is one request in a lane.
type task struct {
	// read is the read of the input that the request came with.
	read uint64
	// message is a message for a session; nil for any other request.
	message *message
	// run answers any other request.
	run func(context.Context)
}

func newLanes(o *kernel.Owner, ready func(context.Context, task), work func(context.Context, []task, func())) *lanes {
	return &lanes{owner: o, ready: ready, work: work, open: map[string]*lane{}}
}

// push adds a task, unless max tasks of that key wait behind the one in hand; a
// max below 1 is no bound.
func (l *lanes) push(key string, max int, t task) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.open[key]
	if at == nil {
		at = &lane{}
		l.open[key] = at
		l.owner.Go("requests", func(ctx context.Context) { l.run(ctx, key, at) })
	}
	if max > 0 && len(at.queue)+at.hand > max {
		return false
	}
	at.queue = append(at.queue, t)
	return true
}

func (l *lanes) run(ctx context.Context, key string, at *lane) {
	done := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		at.hand--
	}
	for {
		l.mu.Lock()
		if len(at.queue) == 0 {
			delete(l.open, key)
			l.mu.Unlock()
			return
		}
		first := at.queue[0]
		l.mu.Unlock()
		if key != "" {
			l.ready(ctx, first)
		}
		l.mu.Lock()
		batch := at.queue
		at.queue, at.hand = nil, len(batch)
		l.mu.Unlock()
		l.work(ctx, batch, done)
	}
}
