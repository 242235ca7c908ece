package mcp

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Bounds of what a server may put into the log.
const (
	maxLogLine  = 2 << 10
	logBurst    = 40
	logInterval = 200 * time.Millisecond
	maxTail     = 2 << 10
)

// talk logs what a server says, as much of it as is good. It may be used from
// any goroutine.
type talk struct {
	log    *slog.Logger
	redact func(string) string

	mu      sync.Mutex
	spare   int
	last    time.Time
	dropped int
}

func newTalk(log *slog.Logger, redact func(string) string) *talk {
	return &talk{log: log, redact: redact, spare: logBurst}
}

func (t *talk) say(level slog.Level, what, text string) {
	t.mu.Lock()
	now := time.Now()
	if t.last.IsZero() {
		t.last = now
	}
	if n := int(now.Sub(t.last) / logInterval); n > 0 {
		t.spare = min(t.spare+n, logBurst)
		t.last = now
	}
	if t.spare == 0 {
		t.dropped++
		t.mu.Unlock()
		return
	}
	t.spare--
	dropped := t.dropped
	t.dropped = 0
	t.mu.Unlock()
	attrs := []slog.Attr{slog.String("text", clip(t.redact(text), maxLogLine))}
	if dropped > 0 {
		attrs = append(attrs, slog.Int("leftOut", dropped))
	}
	t.log.LogAttrs(context.Background(), level, what, attrs...)
}

// tail keeps the end of what a program wrote on standard error.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) add(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(append(t.text, line...), '\n')
	if over := len(t.text) - maxTail; over > 0 {
		t.text = bytes.Clone(t.text[over:])
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.text
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(text), "\ufffd"))
}

// lines reads lines without their ends. Of one that is longer than most, long
// gets the beginning and the end, and the rest is read past. It returns when r
// ends.
func lines(r io.Reader, most int, line func([]byte) bool, long func(head, end []byte) bool) {
	const edge = 512
	buf := make([]byte, 64<<10)
	var whole, head, end []byte
	skipping := false
	finish := func() bool {
		if skipping {
			skipping = false
			h, e := head, end
			head, end = nil, nil
			return long(h, e)
		}
		text := bytes.TrimSuffix(whole, []byte{'\r'})
		whole = nil
		return len(text) == 0 || line(text)
	}
	for {
		n, err := r.Read(buf)
		for data := buf[:n]; len(data) > 0; {
			part, rest, ended := bytes.Cut(data, []byte{'\n'})
			data = rest
			switch {
			case skipping:
				end = append(end, part...)
				end = bytes.Clone(end[max(0, len(end)-edge):])
			case len(whole)+len(part) > most:
				skipping = true
				whole = append(whole, part...)
				head = bytes.Clone(whole[:min(edge, len(whole))])
				end = bytes.Clone(whole[max(0, len(whole)-edge):])
				whole = nil
			default:
				whole = append(whole, part...)
			}
			if ended && !finish() {
				return
			}
		}
		if err != nil {
			if len(whole) > 0 || skipping {
				finish()
			}
			return
		}
	}
}
