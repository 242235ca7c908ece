package external

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"dsh/kernel/credential"
	"dsh/sdkproto/wirejson"
)

// output takes what a plugin prints to the log, and keeps the end of it to say
// why the plugin ended.
type output struct {
	log     *slog.Logger
	secrets []credential.Secret
	meter   meter

	mu   sync.Mutex
	last []string // the newest lines that were no log entries
	size int
}

// Bounds of what is kept of a plugin's last words.
const (
	lastLines = 20
	lastBytes = 2000
)

func newOutput(log *slog.Logger, secrets []credential.Secret) *output {
	return &output{log: log, secrets: secrets, meter: meter{now: time.Now}}
}

// redact takes the values of the variables that the row asked for out of a text.
func (o *output) redact(text string) string {
	for _, s := range o.secrets {
		text = s.Redact(text)
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// stderr takes a line of standard error.
func (o *output) stderr(line []byte) {
	if level, msg, attrs, ok := parseEntry(line); ok {
		msg = o.redact(msg)
		if level >= slog.LevelError {
			o.remember(msg)
		}
		if o.log.Enabled(context.Background(), level) {
			o.write(len(line), level, msg, o.redactAttrs(attrs)...)
		}
		return
	}
	o.plain("standard error", line)
}

// stdout takes a line of standard output, behind the handshake.
func (o *output) stdout(line []byte) { o.plain("standard output", line) }

func (o *output) plain(from string, line []byte) {
	text := o.redact(string(line))
	if strings.TrimSpace(text) == "" {
		return
	}
	o.remember(text)
	o.write(len(line), slog.LevelInfo, text, slog.String("from", from))
}

func (o *output) write(size int, level slog.Level, msg string, attrs ...slog.Attr) {
	ok, dropped := o.meter.admit(size)
	if dropped > 0 {
		o.log.Warn("the plugin prints too much; lines were dropped", "lines", dropped)
	}
	if ok {
		o.log.LogAttrs(context.Background(), level, msg, attrs...)
	}
}

func (o *output) remember(text string) {
	text = clip(text, lastBytes/2)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = append(o.last, text)
	o.size += len(text) + 1
	for len(o.last) > lastLines || o.size > lastBytes {
		o.size -= len(o.last[0]) + 1
		o.last = slices.Delete(o.last, 0, 1)
	}
}

// lastWords gives the end of what the plugin printed, "" for nothing.
func (o *output) lastWords() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.last, "\n")
}

// maxAttrs bounds the members of a log entry that are kept.
const maxAttrs = 32

// parseEntry reads a line in the form that plugin.NewLogHandler writes.
func parseEntry(line []byte) (level slog.Level, msg string, attrs []slog.Attr, ok bool) {
	if len(line) == 0 || line[0] != '{' {
		return 0, "", nil, false
	}
	var members map[string]json.RawMessage
	if err := wirejson.Unmarshal(line, &members); err != nil {
		return 0, "", nil, false
	}
	var word string
	if wirejson.Unmarshal(members["@level"], &word) != nil || wirejson.Unmarshal(members["@message"], &msg) != nil {
		return 0, "", nil, false
	}
	switch word {
	case "trace", "debug":
		level = slog.LevelDebug
	case "info":
		level = slog.LevelInfo
	case "warn":
		level = slog.LevelWarn
	case "error":
		level = slog.LevelError
	default:
		return 0, "", nil, false
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if strings.HasPrefix(name, "@") {
			continue
		}
		if len(attrs) == maxAttrs {
			break
		}
		value := string(members[name])
		var text string
		if wirejson.Unmarshal(members[name], &text) == nil {
			value = text
		}
		attrs = append(attrs, slog.String(name, value))
	}
	return level, msg, attrs, true
}

func (o *output) redactAttrs(attrs []slog.Attr) []slog.Attr {
	for i := range attrs {
		attrs[i].Value = slog.StringValue(o.redact(attrs[i].Value.String()))
	}
	return attrs
}

// clip bounds a text to n bytes, in whole characters.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xc0 == 0x80 {
		n--
	}
	return text[:n] + "…"
}
