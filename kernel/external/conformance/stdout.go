package conformance

import (
	"context"
	"log/slog"
	"sync"
)

// stdoutLog is a log that keeps what plugins print to standard output, and
// nothing else.
type stdoutLog struct {
	mu    sync.Mutex
	lines []string
}

// maxPrinted is how many lines are kept.
const maxPrinted = 20

func (l *stdoutLog) logger() *slog.Logger { return slog.New(handler{l}) }

func (l *stdoutLog) first() (line string, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == 0 {
		return "", false
	}
	return l.lines[0], true
}

type handler struct{ log *stdoutLog }

func (h handler) Enabled(context.Context, slog.Level) bool { return true }

func (h handler) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "from" || a.Value.String() != "standard output" {
			return true
		}
		h.log.mu.Lock()
		defer h.log.mu.Unlock()
		if len(h.log.lines) < maxPrinted {
			h.log.lines = append(h.log.lines, r.Message)
		}
		return false
	})
	return nil
}

func (h handler) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h handler) WithGroup(string) slog.Handler { return h }
