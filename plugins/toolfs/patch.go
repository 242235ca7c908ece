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

// compare gives the differences of two texts, with three lines of context. What both
// have at their ends costs next to nothing; false if the rest is too long.
func compare(path, before, after string) (u udiff.UnifiedDiff, ok bool) {
	start, end := common(before, after)
	skipped := strings.Count(before[:start], "\n")
	before, after = before[start:len(before)-end], after[start:len(after)-end]
	if len(before) > diffInput || len(after) > diffInput {
		return u, false
	}
	u, err := udiff.ToUnifiedDiff(path, path, before, udiff.Lines(before, after), udiff.DefaultContextLines)
	if err != nil {
		return u, false // the edits come from the same texts
	}
	grown := 0
	for _, h := range u.Hunks {
		h.FromLine += skipped
		// The library forgets the lines between the changes of one hunk.
		h.ToLine = h.FromLine + grown
		for _, l := range h.Lines {
			switch l.Kind {
			case udiff.Delete:
				grown--
			case udiff.Insert:
				grown++
			}
		}
	}
	return u, true
}

// common gives the length of what two texts have in common at both ends, in whole
// lines, and without the lines of context that a comparison shows.
func common(a, b string) (start, end int) {
	shortest := min(len(a), len(b))
	same := agree(a[:shortest], b[:shortest])
	for range udiff.DefaultContextLines + 1 {
		same = strings.LastIndexByte(a[:same], '\n')
		if same < 0 {
			break
		}
	}
	start = same + 1
	a, b = a[start:], b[start:]
	same = agreeAtEnd(a, b)
	// The line that the rest begins in is not whole, or not known to be.
	rest := a[len(a)-same:]
	for range udiff.DefaultContextLines + 1 {
		_, after, found := strings.Cut(rest, "\n")
		if !found {
			return start, 0
		}
		rest = after
	}
	return start, len(rest)
}

// block is how much is compared at a time.
const block = 4 << 10

// agree is how many bytes two strings of one length have in common at the start.
func agree(a, b string) int {
	n := 0
	for n+block <= len(a) && a[n:n+block] == b[n:n+block] {
		n += block
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}

// agreeAtEnd is how many bytes two strings have in common at the end.
func agreeAtEnd(a, b string) int {
	shortest := min(len(a), len(b))
	n := 0
	for n+block <= shortest && a[len(a)-n-block:len(a)-n] == b[len(b)-n-block:len(b)-n] {
		n += block
	}
	for n < shortest && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// hunks gives differences as the structured result has them.
func hunks(u udiff.UnifiedDiff) []hunk {
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

// patch compares what a change did, unless what differs is too long.
func (l limited) patch(path string, c change) []hunk {
	omit := func() []hunk {
		*l.omitted = append(*l.omitted, "structuredPatch")
		return []hunk{}
	}
	u, ok := compare(path, c.before, c.after)
	if !ok {
		return omit()
	}
	found := hunks(u)
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
