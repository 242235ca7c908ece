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
	// held is how many of them wait for the end of all others.
	held int
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
	g.notify()
}

// hold says that one more of those in hand waits for the end of all others, or,
// with -1, that it does no more.
func (g *gauge) hold(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held += n
	g.notify()
}

// notify wakes those who wait. The caller holds mu.
func (g *gauge) notify() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// allows reports whether enough holds now.
func (g *gauge) allows(enough func(count, bytes int) bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return enough(g.count, g.bytes)
}

// empty waits until nothing is in hand.
func (g *gauge) empty(ctx context.Context) error {
	return g.await(ctx, func(count, _ int) bool { return count == 0 })
}

// settled waits until nothing is in hand but what is held.
func (g *gauge) settled(ctx context.Context) error {
	return g.await(ctx, func(count, _ int) bool { return count <= g.held })
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
