package chatwire

import (
	"bytes"
	"io"
	"time"
)

// partLimit is how many idle limits one line may take: single bytes are life,
// but not for ever (case B58).
const partLimit = 2

// watchdog calls bite when reading waits longer than the limit. Time in which
// nobody reads does not count.
type watchdog struct {
	src   io.Reader
	idle  time.Duration
	timer *time.Timer
	// waited is how long reading has waited since the last end of a line.
	waited time.Duration
}

func newWatchdog(idle time.Duration, bite func()) *watchdog {
	return &watchdog{idle: idle, timer: time.AfterFunc(idle, bite)}
}

// Read implements io.Reader.
func (w *watchdog) Read(p []byte) (int, error) {
	begin := time.Now()
	w.timer.Reset(max(min(w.idle, partLimit*w.idle-w.waited), 1))
	n, err := w.src.Read(p)
	w.timer.Stop()
	if n > 0 && bytes.IndexByte(p[:n], '\n') >= 0 {
		w.waited = 0
	} else {
		w.waited += time.Since(begin)
	}
	return n, err
}

// drainLimit and drainBytes bound the wait for the end of a body behind its
// terminator, with which the connection can be used again.
const (
	drainLimit = 50 * time.Millisecond
	drainBytes = 4 << 10
)

func (w *watchdog) drain() {
	w.timer.Reset(drainLimit)
	_, _ = io.CopyN(io.Discard, w.src, drainBytes)
	w.timer.Stop()
}

func (w *watchdog) stop() { w.timer.Stop() }
