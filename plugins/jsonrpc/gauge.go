package jsonrpc

import (
	"context"
	"sync"
)

// gauge counts what is in hand, and its bytes, and lets others wait until that
// is little enough.
type gauge struct {
	mu           sync.Mutex
	count, bytes int
	// changed is closed at the next decrease; nil while nobody waits.
	changed chan struct{}
}

func (g *gauge) add(bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count++
	g.bytes += bytes
}

func (g *gauge) done(bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count--
	g.bytes -= bytes
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// empty waits until nothing is in hand.
func (g *gauge) empty(ctx context.Context) error {
	return g.await(ctx, func(count, _ int) bool { return count == 0 })
}

// await waits until enough holds, or gives the cause of ctx's end.
func (g *gauge) await(ctx context.Context, enough func(count, bytes int) bool) error {
	for {
		g.mu.Lock()
		if enough(g.count, g.bytes) {
			g.mu.Unlock()
			return nil
		}
		if g.changed == nil {
			g.changed = make(chan struct{})
		}
		changed := g.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
