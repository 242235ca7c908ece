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

	mu      sync.Mutex
	waiting map[string][]func(context.Context)
}

func newLanes(o *kernel.Owner) *lanes {
	return &lanes{owner: o, waiting: map[string][]func(context.Context){}}
}

// push adds a task, unless max tasks of that key wait already; a max below 1
// is no bound.
func (l *lanes) push(key string, max int, task func(context.Context)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue, running := l.waiting[key]
	if max > 0 && len(queue) >= max {
		return false
	}
	l.waiting[key] = append(queue, task)
	if !running {
		l.owner.Go("requests", func(ctx context.Context) { l.run(ctx, key) })
	}
	return true
}

func (l *lanes) run(ctx context.Context, key string) {
	for {
		l.mu.Lock()
		queue := l.waiting[key]
		if len(queue) == 0 {
			delete(l.waiting, key)
			l.mu.Unlock()
			return
		}
		task := queue[0]
		queue[0] = nil
		l.waiting[key] = queue[1:]
		l.mu.Unlock()
		task(ctx)
	}
}
