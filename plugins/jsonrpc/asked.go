package jsonrpc

import (
	"context"
	"sync"
	"time"

	"dsh/sdkproto"
)

// asked is what a client asked for beyond the plain protocol (decision D21,
// spec jsonrpc 13.3). The zero value is the plain protocol.
type asked struct {
	// details: more members in the answer to initialize, data in errors.
	details bool
	// Notifications: session.prompt.finished, session.usage, session.tree-status.
	finished, usage, tree bool
	// noChunks leaves assistant/chunk out of session.event.
	noChunks bool
	// approvals: the client answers approval/request.
	approvals bool
	// heartbeat is how often runtime.heartbeat comes, 0 for never.
	heartbeat time.Duration
}

// agreement is what holds of what was asked for.
type agreement struct {
	mu     sync.Mutex
	number int // of the handshake
	asked  asked
	pulse  *pulse // nil without a heartbeat
	ended  bool
}

func (g *agreement) get() asked {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

// agree makes what one handshake asked for hold, unless a later one, in the
// order of the input, has succeeded already.
func (s *Server) agree(number int, a *asked) {
	g := &s.agreement
	g.mu.Lock()
	defer g.mu.Unlock()
	if number < g.number {
		return
	}
	g.number, g.asked = number, *a
	before := g.pulse
	if before != nil {
		before.stop()
		g.pulse = nil
	}
	if a.heartbeat > 0 && !g.ended {
		g.pulse = s.beat(a.heartbeat, before)
	}
}

// pulse is a heartbeat that runs.
type pulse struct {
	stop context.CancelFunc
	done chan struct{}
}

// beat sends runtime.heartbeat again and again, behind the end of the pulse
// before.
func (s *Server) beat(every time.Duration, before *pulse) *pulse {
	ctx, cancel := context.WithCancel(s.stream)
	p := &pulse{cancel, make(chan struct{})}
	s.owner.Go("heartbeat", func(context.Context) {
		defer close(p.done)
		if before != nil {
			<-before.done
		}
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for {
			select {
			case now := <-ticks.C:
				frame, err := notification(sdkproto.NotifyHeartbeat, sdkproto.Clock{Time: now.UnixMilli()})
				if err != nil || s.writer.Frame(ctx, frame) != nil {
					return // the output is broken, or shut
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return p
}

// silence ends the heartbeat for good and waits until it can write nothing any
// more.
func (g *agreement) silence(ctx context.Context) error {
	g.mu.Lock()
	g.ended = true
	p := g.pulse
	g.mu.Unlock()
	if p == nil {
		return nil
	}
	p.stop()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
