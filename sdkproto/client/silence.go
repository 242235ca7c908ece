package client

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"dsh/sdkproto"
)

// longestHeartbeat is the longest interval a server takes, in seconds.
const longestHeartbeat = 3600

// ask adds to a handshake what the watch over silence needs: three heartbeats
// in the time, if the caller does not say otherwise.
func (l Limits) ask(x *sdkproto.InitializeExtensions) error {
	if l.Silence <= 0 {
		return nil
	}
	var c sdkproto.ClientCapabilities
	if x.Capabilities != nil {
		c = *x.Capabilities
	}
	if c.HeartbeatSeconds == 0 {
		c.HeartbeatSeconds = int(min(max(l.Silence/(3*time.Second), 1), longestHeartbeat))
	}
	if beat := time.Duration(c.HeartbeatSeconds) * time.Second; l.Silence < 2*beat {
		return fmt.Errorf("watch for silence: a Limits.Silence of %s is shorter than two heartbeats of %s", l.Silence, beat)
	}
	x.Capabilities = &c
	x.ProtocolVersion = max(x.ProtocolVersion, sdkproto.ProtocolVersion)
	return nil
}

// counted counts the reads that brought something.
type counted struct {
	io.Reader
	n *atomic.Uint64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if n > 0 {
		c.n.Add(1)
	}
	return n, err
}

// looks is how often the watch looks in the time of Limits.Silence. It counts
// looks, not time: a process that was stopped itself, and finds what came
// meanwhile a moment later, has missed looks only.
const looks = 4

// guard fails those who wait while the server is silent.
func (c *Client) guard() {
	defer close(c.guarded)
	ticks := time.NewTicker(c.limits.Silence / looks)
	defer ticks.Stop()
	seen, quiet := c.reads.Load(), 0
	for {
		select {
		case <-ticks.C:
		case <-c.ending:
			return
		case <-c.down:
			return
		}
		if now := c.reads.Load(); now != seen {
			seen, quiet = now, 0
			continue
		}
		if quiet++; quiet == looks {
			quiet = 0
			c.failWaiters(fmt.Errorf("%w: nothing came from it for %s, no heartbeat either", ErrSilent, c.limits.Silence))
		}
	}
}
