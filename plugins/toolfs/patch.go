package toolfs

import (
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"dsh/plugins/internal/textfile"
)

// hunk is a part of a structured patch (spec stream-json 9). Its lines begin with
// a space, - or +.
type hunk struct {
	OldStart int      `json:"oldStart"`
	OldLines int      `json:"oldLines"`
	NewStart int      `json:"newStart"`
	NewLines int      `json:"newLines"`
	Lines    []string `json:"lines"`
}

// noLineEnd follows a line that the end of its file cuts off.
const noLineEnd = `\ No newline at end of file`

// hunks compares two texts, with three lines of context.
func hunks(path, before, after string) []hunk {
	u, err := udiff.ToUnifiedDiff(path, path, before, udiff.Lines(before, after), udiff.DefaultContextLines)
	if err != nil {
		return nil // the edits come from the same texts
	}
	out := make([]hunk, 0, len(u.Hunks))
	for _, h := range u.Hunks {
		one := hunk{OldStart: h.FromLine, NewStart: h.ToLine}
		for _, l := range h.Lines {
			mark := " "
			switch l.Kind {
			case udiff.Delete:
				mark = "-"
				one.OldLines++
			case udiff.Insert:
				mark = "+"
				one.NewLines++
			default:
				one.OldLines++
				one.NewLines++
			}
			text, whole := strings.CutSuffix(l.Content, "\n")
			one.Lines = append(one.Lines, mark+printable(text))
			if !whole {
				one.Lines = append(one.Lines, noLineEnd)
			}
		}
		out = append(out, one)
	}
	return out
}

// maxShown bounds each text of a structured result, in bytes: it is kept in the
// log for ever, and a line of the wire must stay short (spec stream-json 0.2).
const maxShown = 64 << 10

// limited fills a structured result and notes what does not fit.
type limited struct{ omitted *[]string }

// text gives a text, or "" for one that is too long.
func (l limited) text(name, s string) string {
	if len(s) > maxShown {
		*l.omitted = append(*l.omitted, name)
		return ""
	}
	return printable(s)
}

// optional gives a text, or nil for one that is too long.
func (l limited) optional(name, s string) *string {
	if len(s) > maxShown {
		*l.omitted = append(*l.omitted, name)
		return nil
	}
	s = printable(s)
	return &s
}

// patch compares what a change did, unless the texts or the differences are too
// long.
func (l limited) patch(path string, c change) []hunk {
	omit := func() []hunk {
		*l.omitted = append(*l.omitted, "structuredPatch")
		return []hunk{}
	}
	if len(c.before) > diffInput || len(c.after) > diffInput {
		return omit()
	}
	found := hunks(path, c.before, c.after)
	size := 0
	for _, h := range found {
		for _, line := range h.Lines {
			size += len(line)
		}
	}
	if size > diffOutput {
		return omit()
	}
	return found
}

const (
	// snippetLines and snippetRunes bound what of a changed file is shown again.
	snippetLines = 40
	snippetRunes = 200
)

// snippet shows the changed places as they are now, with the numbers of their
// lines.
func snippet(patch []hunk) string {
	var b strings.Builder
	shown := 0
	for i, h := range patch {
		if i > 0 {
			b.WriteString("…\n")
		}
		n := h.NewStart
		for _, line := range h.Lines {
			if line[0] != ' ' && line[0] != '+' {
				continue
			}
			if shown++; shown > snippetLines {
				b.WriteString("…")
				return b.String()
			}
			text, _ := textfile.Cut(strings.TrimSuffix(line[1:], "\r"), snippetRunes)
			b.WriteString(strconv.Itoa(n) + "\t" + text + "\n")
			n++
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
