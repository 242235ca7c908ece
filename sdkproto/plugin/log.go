package plugin

import (
	"io"
	"log/slog"
	"strings"
)

// NewLogHandler makes a handler that writes the lines from which the harness
// takes level, text and attributes. Serve gives one to log/slog; a plugin needs
// it only for a level of its own.
func NewLogHandler(w io.Writer, level slog.Leveler) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) > 0 {
			return a
		}
		switch a.Key {
		case slog.TimeKey:
			a.Key = "@timestamp"
		case slog.MessageKey:
			a.Key = "@message"
		case slog.LevelKey:
			a.Key = "@level"
			if l, ok := a.Value.Any().(slog.Level); ok {
				a.Value = slog.StringValue(levelWord(l))
			}
		}
		return a
	}})
}

func levelWord(l slog.Level) string {
	switch {
	case l < slog.LevelDebug:
		return "trace"
	case l < slog.LevelInfo:
		return "debug"
	case l < slog.LevelWarn:
		return "info"
	case l < slog.LevelError:
		return "warn"
	}
	return "error"
}

// valid makes text fit for a field of type string, which bad UTF-8 is not.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
