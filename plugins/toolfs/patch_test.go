package toolfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// applied carries out a structured patch, strictly: what it says of the old text has
// to be there.
func applied(t *rapid.T, before string, patch []hunk) string {
	lines := strings.SplitAfter(before, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	var out []string
	at := 0 // lines of before that are done
	for _, h := range patch {
		for ; at < h.OldStart-1; at++ {
			out = append(out, lines[at])
		}
		if len(out) != h.NewStart-1 {
			t.Fatalf("hunk %+v begins at new line %d", h, len(out)+1)
		}
		olds, news := 0, 0
		for i, l := range h.Lines {
			text := l[1:] + "\n"
			if l == noLineEnd {
				continue
			}
			if i+1 < len(h.Lines) && h.Lines[i+1] == noLineEnd {
				text = l[1:]
			}
			if l[0] != '+' {
				if at >= len(lines) || lines[at] != text {
					t.Fatalf("line %d of the old text is not %q", at+1, text)
				}
				at, olds = at+1, olds+1
			}
			if l[0] != '-' {
				out, news = append(out, text), news+1
			}
		}
		if olds != h.OldLines || news != h.NewLines {
			t.Fatalf("hunk %+v has %d and %d lines", h, olds, news)
		}
	}
	return strings.Join(append(out, lines[at:]...), "")
}

// TestPatchApplies: the structured patch of any change turns the old text into the
// new one, and shows three lines around a change and no more.
func TestPatchApplies(t *testing.T) {
	word := rapid.SampledFrom([]string{"a", "b", "c", "", "}", "long line of text", "a\r"})
	textOf := func(lines []string, end bool) string {
		s := strings.Join(lines, "\n")
		if end && s != "" {
			s += "\n"
		}
		return s
	}
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(word, 0, 60).Draw(t, "lines")
		before := textOf(lines, rapid.Bool().Draw(t, "end"))
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			from := rapid.IntRange(0, len(lines)).Draw(t, "from")
			to := rapid.IntRange(from, min(len(lines), from+5)).Draw(t, "to")
			lines = append(append(append([]string(nil), lines[:from]...), rapid.SliceOfN(word, 0, 5).Draw(t, "new")...), lines[to:]...)
		}
		after := textOf(lines, rapid.Bool().Draw(t, "end after"))
		u, ok := compare("f", before, after)
		if !ok {
			t.Fatal("small texts are not compared")
		}
		patch := hunks(u)
		if got := applied(t, before, patch); got != after {
			t.Fatalf("the patch makes %q, want %q", got, after)
		}
		if (len(patch) == 0) != (before == after) {
			t.Fatalf("%d hunks", len(patch))
		}
		for _, h := range patch {
			lead := 0
			for lead < len(h.Lines) && h.Lines[lead][0] == ' ' {
				lead++
			}
			if lead > 3 {
				t.Fatalf("hunk %+v begins with %d lines of context", h, lead)
			}
		}
	})
}

// TestPatchIsThatOfDiff: where there is one way to see a change, the patch is what
// diff -u says.
func TestPatchIsThatOfDiff(t *testing.T) {
	program, err := exec.LookPath("diff")
	if err != nil {
		t.Fatal("this test compares with the program diff: ", err)
	}
	numbered := func(n int, change map[int]string) string {
		var b strings.Builder
		for i := 1; i <= n; i++ {
			if l, ok := change[i]; ok {
				b.WriteString(l)
			} else {
				b.WriteString("line " + strconv.Itoa(i) + "\n")
			}
		}
		return b.String()
	}
	for name, tc := range map[string]struct{ before, after string }{
		"one line":         {numbered(30, nil), numbered(30, map[int]string{15: "changed\n"})},
		"the first":        {numbered(9, nil), numbered(9, map[int]string{1: "changed\n"})},
		"the last":         {numbered(9, nil), numbered(9, map[int]string{9: "changed\n"})},
		"two places":       {numbered(40, nil), numbered(40, map[int]string{10: "x\n", 30: ""})},
		"close together":   {numbered(40, nil), numbered(40, map[int]string{10: "x\n", 15: "y\nz\n"})},
		"added at the end": {numbered(9, nil), numbered(11, nil)},
		"no line end":      {numbered(9, nil), strings.TrimSuffix(numbered(9, nil), "\n")},
		"a line end":       {strings.TrimSuffix(numbered(9, nil), "\n"), numbered(9, nil)},
		"in a long text":   {numbered(50_000, nil), numbered(50_000, map[int]string{25_000: "", 25_001: "x\ny\n"})},
		"all":              {"a\nb\n", "c\nd\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"a": tc.before, "b": tc.after} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, err := exec.Command(program, "-u", filepath.Join(dir, "a"), filepath.Join(dir, "b")).Output()
			if _, exited := err.(*exec.ExitError); err != nil && !exited {
				t.Fatal(err)
			}
			u, ok := compare("f", tc.before, tc.after)
			if !ok {
				t.Fatal("not compared")
			}
			var got strings.Builder
			part := func(mark string, start, n int) string {
				if n == 1 {
					return mark + strconv.Itoa(start)
				}
				return mark + strconv.Itoa(start) + "," + strconv.Itoa(n)
			}
			for _, h := range hunks(u) {
				got.WriteString("@@ " + part("-", h.OldStart, h.OldLines) + " " + part("+", h.NewStart, h.NewLines) + " @@\n" + strings.Join(h.Lines, "\n") + "\n")
			}
			_, rest, _ := strings.Cut(string(out), "\n")
			_, want, _ := strings.Cut(rest, "\n") // without the names of the files
			if diff := cmp.Diff(want, got.String()); diff != "" {
				t.Errorf("(-diff +ours):\n%s", diff)
			}
		})
	}
}
