package toolbash

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"dsh/kernel/tool"
)

// memory is a spill file in memory.
type memory struct {
	bytes.Buffer
	fail   error
	closed int
}

func (m *memory) Write(p []byte) (int, error) {
	if m.fail != nil {
		return 0, m.fail
	}
	return m.Buffer.Write(p)
}
func (m *memory) Close() error { m.closed++; return nil }
func (m *memory) Path() string { return "/spill/file" }

func (m *memory) open() (tool.SpillFile, error) { return m, nil }

func TestOutput(t *testing.T) {
	for _, tc := range []struct {
		name  string
		limit int
		in    []string
		want  string
		kept  string
	}{
		{"nothing", 100, nil, "", ""},
		{"short", 100, []string{"a\r\nb"}, "a\r\nb", ""},
		{"split character", 100, []string{"\xe6\xb8", "\x90\xf0", "\x9f", "\x9a", "\x80"}, "渐🚀", ""},
		{"no character", 100, []string{"a\xffb", "\xe6", "c", "\xf0\x9f", "\xe6\xb8\x90", "\xe6\xb8"}, "a\uFFFDb\uFFFDc\uFFFD\uFFFD渐\uFFFD\uFFFD", ""},
		{"just the limit", 10, []string{"0123456789"}, "0123456789", ""},
		{"just the limit, in long characters", 4, []string{"渐渐渐", "\xe6\xb8", "\x90"}, "渐渐渐渐", ""},
		{"repeated lines below the limit", 100, []string{"y\ny\ny", "\ny\ny\ny\n", "done\n"}, "y\ny\ny\ny\ny\ny\ndone\n", ""},
		{
			"beginning and end", 200, []string{strings.Repeat("a", 150), strings.Repeat("b", 150)},
			strings.Repeat("a", 100) + "\n… 165 characters left out; the whole output is in /spill/file …\n" + strings.Repeat("b", 35),
			strings.Repeat("a", 150) + strings.Repeat("b", 150),
		},
		{
			"repeated lines over the limit", 300, []string{"start\n", strings.Repeat("y\n", 50), "done\n", strings.Repeat("y\n", 100_000)},
			"start\n" + strings.Repeat("y\n", 50) + "done\n" + strings.Repeat("y\n", 19) + "y" +
				"\n… 199958 characters left out; the whole output is in /spill/file …\n" + "\ny\n… the line above 99979 more times …\n",
			"start\n" + strings.Repeat("y\n", 50) + "done\n" + strings.Repeat("y\n", 100_000),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &memory{}
			o := newOutput(tc.limit, 1<<20, m.open)
			for _, s := range tc.in {
				if n, err := o.Write([]byte(s)); n != len(s) || err != nil {
					t.Fatalf("write gave %d, %v", n, err)
				}
			}
			if got := o.finish().text(); got != tc.want {
				t.Errorf("text is %q, want %q", got, tc.want)
			}
			if m.String() != tc.kept {
				t.Errorf("the file holds %.100q, want %.100q", m.String(), tc.kept)
			}
			if tc.kept != "" && m.closed != 1 {
				t.Errorf("the file was closed %d times", m.closed)
			}
		})
	}
}

// TestFloodKeepsLastWords: whatever a child writes after, and in whatever
// pieces, the command's own last line is in the result (case B62).
func TestFloodKeepsLastWords(t *testing.T) {
	o := newOutput(30_000, 0, nil)
	write := func(s string) {
		for len(s) > 0 {
			n := min(len(s), 8191)
			if _, err := o.Write([]byte(s[:n])); err != nil {
				t.Fatal(err)
			}
			s = s[n:]
		}
	}
	write(strings.Repeat("y\n", 3_000_000))
	write("done\n")
	write(strings.Repeat("y\n", 3_000_000))
	got := o.finish().text()
	if !strings.Contains(got, "\ndone\n") {
		t.Errorf("the text has no line `done`; it ends with %q", got[max(0, len(got)-200):])
	}
	if n := utf8.RuneCountInString(got); n > 30_000 {
		t.Errorf("the text has %d characters", n)
	}
}

func TestSpillTrouble(t *testing.T) {
	long := []byte(strings.Repeat("line of text\n", 1000))
	for _, tc := range []struct {
		name     string
		maxSpill int64
		open     func() (tool.SpillFile, error)
		want     string
	}{
		{"nowhere", 1 << 20, nil, " characters left out …\n"},
		{"switched off", 0, (&memory{}).open, " characters left out …\n"},
		{"too much", 5000, (&memory{}).open, " characters left out; the first 5000 bytes of 13000 are in /spill/file …\n"},
		{"cannot be opened", 1 << 20, func() (tool.SpillFile, error) { return nil, errors.New("disk full") }, " characters left out (the output could not be kept: disk full) …\n"},
		{"cannot be written", 1 << 20, (&memory{fail: errors.New("disk full")}).open, " characters left out; the first 0 bytes of 13000 are in /spill/file (the output could not be kept: disk full) …\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newOutput(1000, tc.maxSpill, tc.open)
			if _, err := o.Write(long); err != nil {
				t.Fatal(err)
			}
			if got := o.finish().text(); !strings.Contains(got, tc.want) {
				t.Errorf("text lacks %q: %q", tc.want, got)
			}
		})
	}
}

var leftOut = regexp.MustCompile(`(?s)^(.*)\n… (\d+) characters left out; the whole output is in /spill/file …\n(.*)$`)

// TestOutputProperties compares with the whole output, held in memory, for
// output without repeated lines and in any pieces.
func TestOutputProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(120, 400).Draw(t, "limit")
		alphabet := rapid.SampledFrom([]string{"a", "b", "é", "渐", "🚀", "\n", "\xff", "\xe6", "\xf0\x9f", "\r\n"})
		words := rapid.SliceOfN(alphabet, 0, 1200).Draw(t, "words")
		var all []byte
		for i, w := range words {
			all = append(all, w...)
			if w == "\n" {
				all = strconv.AppendInt(all, int64(i), 10) // no two lines are equal
			}
		}
		m := &memory{}
		o := newOutput(limit, 1<<30, m.open)
		for rest := all; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if _, err := o.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		got := o.finish().text()
		if !utf8.ValidString(got) {
			t.Fatalf("not valid UTF-8: %q", got)
		}
		runes := []rune(string(all))
		if len(runes) <= limit {
			if got != string(runes) {
				t.Fatalf("text is %q, want %q", got, string(runes))
			}
			if m.Len() != 0 {
				t.Fatal("a file was written for short output")
			}
			return
		}
		if n := utf8.RuneCountInString(got); n > limit {
			t.Fatalf("text has %d characters, limit %d", n, limit)
		}
		if !bytes.Equal(m.Bytes(), all) {
			t.Fatalf("the file holds %q, want %q", m.Bytes(), all)
		}
		part := leftOut.FindStringSubmatch(got)
		if part == nil {
			t.Fatalf("no remark on what is left out: %q", got)
		}
		head, tail := []rune(part[1]), []rune(part[3])
		if string(head) != string(runes[:len(head)]) || string(tail) != string(runes[len(runes)-len(tail):]) {
			t.Fatalf("text is not beginning and end of the output: %q", got)
		}
		if want := fmt.Sprint(len(runes) - len(head) - len(tail)); part[2] != want {
			t.Fatalf("%s characters are said to be left out, want %s", part[2], want)
		}
	})
}

// TestTailIsBounded: memory does not grow with the output, whatever its lines
// are like (case B67).
func TestTailIsBounded(t *testing.T) {
	for _, tc := range []struct {
		name string
		line func(i int) string
	}{
		{"one line", func(int) string { return "xxxxxxxx" }},
		{"short lines", func(i int) string { return strconv.Itoa(i) + "\n" }},
		{"pairs of equal lines", func(i int) string { return strconv.Itoa(i/2) + "\n" }},
		{"empty lines", func(int) string { return "\n" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newOutput(30_000, 0, nil)
			for i := range 1_000_000 {
				if _, err := o.Write([]byte(tc.line(i))); err != nil {
					t.Fatal(err)
				}
			}
			if n := cap(o.out.head) + cap(o.out.tail.buf) + 24*cap(o.out.tail.repeats); n > 4<<20 {
				t.Errorf("%d bytes are held", n)
			}
			if got := o.finish().text(); utf8.RuneCountInString(got) > 30_000 {
				t.Errorf("the text has %d characters", utf8.RuneCountInString(got))
			}
		})
	}
}

func TestLastLine(t *testing.T) {
	o := newOutput(30_000, 0, nil)
	for _, tc := range []struct{ write, want string }{
		{"beginn", ""},
		{"ing\nstep 1", "beginning"},
		{"\n", "step 1"},
		{strings.Repeat("x", 40_000) + "\n", strings.Repeat("x", 200) + "…"},
		{"a tail line\nand", "a tail line"},
	} {
		if _, err := o.Write([]byte(tc.write)); err != nil {
			t.Fatal(err)
		}
		if got := o.lastLine(); got != tc.want {
			t.Errorf("after %.20q the last line is %.210q, want %.210q", tc.write, got, tc.want)
		}
	}
}

func BenchmarkOutput(b *testing.B) {
	short := []byte(strings.Repeat("12345\n67890\n", pieceSize/12))
	for name, piece := range map[string][]byte{
		"yes":         []byte(strings.Repeat("y\n", pieceSize/2)),
		"short lines": short,
		"one line":    bytes.Repeat([]byte{'x'}, pieceSize),
		"not ASCII":   []byte(strings.Repeat("渐🚀\n", pieceSize/8)),
	} {
		b.Run(name, func(b *testing.B) {
			o := newOutput(30_000, 0, nil)
			b.SetBytes(int64(len(piece)))
			for b.Loop() {
				if _, err := o.Write(piece); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
