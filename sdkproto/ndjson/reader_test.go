package ndjson_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto/ndjson"
)

// got is one result of Next.
type got struct {
	Line    string
	TooLong bool
}

// readAll takes lines until an error, which it returns.
func readAll(r *ndjson.Reader) (all []got, err error) {
	for {
		line, tooLong, err := r.Next()
		if err != nil {
			return all, err
		}
		all = append(all, got{string(line), tooLong})
	}
}

func TestReader(t *testing.T) {
	const bom = "\xEF\xBB\xBF"
	for _, c := range []struct {
		name, input string
		max         int
		want        []got
	}{
		{"nothing", "", 10, nil},
		{"lines", "{\"a\":1}\n{}\n", 10, []got{{`{"a":1}`, false}, {"{}", false}}},
		{"crlf", "a\r\nb\r\n", 10, []got{{"a", false}, {"b", false}}},
		{"white space around", " \t a b \t\n", 20, []got{{"a b", false}}},
		{"carriage return inside", "a\rb\n", 10, []got{{"a\rb", false}}},
		{"blank lines", "\n\r\n  \t\na\n\n\nb\n\n", 10, []got{{"a", false}, {"b", false}}},
		{"bom on the first line", bom + "{}\n", 10, []got{{"{}", false}}},
		{"bom on a later line", "{}\n" + bom + "[]\n", 10, []got{{"{}", false}, {"[]", false}}},
		{"bom between white space", " " + bom + " {}\n", 10, []got{{"{}", false}}},
		{"bom alone is blank", bom + "\n" + bom + "\r\na\n", 10, []got{{"a", false}}},
		{"bom inside and behind stays", "a" + bom + "b" + bom + "\n", 20, []got{{"a" + bom + "b" + bom, false}}},
		{"bytes that are not utf-8 stay", "\xff\xfe\x00\n", 10, []got{{"\xff\xfe\x00", false}}},
		{"line separators of other tongues are no line ends", "a\u2028b\u0085c\n", 20, []got{{"a\u2028b\u0085c", false}}},
		{"unterminated tail", "a\nb", 10, []got{{"a", false}}},
		{"unterminated only line", "{}", 10, nil},
		{"white space at the end", "a\n \r", 10, []got{{"a", false}}},
		{"unterminated tail with carriage return", "a\nb\r", 10, []got{{"a", false}}},
		{"exactly the bound", "0123456789\nx\n", 10, []got{{"0123456789", false}, {"x", false}}},
		{"exactly the bound with crlf", "0123456789\r\nx\n", 10, []got{{"0123456789", false}, {"x", false}}},
		{"one more", "0123456789A\nx\n", 10, []got{{"0123456789", true}, {"x", false}}},
		{"one more with crlf", "0123456789A\r\nx\n", 10, []got{{"0123456789", true}, {"x", false}}},
		{"one more, which is a carriage return", "0123456789\r\r\nx\n", 10, []got{{"0123456789", true}, {"x", false}}},
		{"many more", strings.Repeat("0123456789", 100) + "\nx\n", 10, []got{{"0123456789", true}, {"x", false}}},
		{"prefix is trimmed on the left only", " " + bom + "  ab  " + strings.Repeat("c", 50) + "\nx\n", 10, []got{{"ab  ", true}, {"x", false}}},
		{"too much white space", strings.Repeat(" ", 50) + "\nx\n", 10, []got{{"", true}, {"x", false}}},
		{"two in a row", "0123456789A\n0123456789B\nx\n", 10, []got{{"0123456789", true}, {"0123456789", true}, {"x", false}}},
		{"too long and unterminated", "x\n0123456789ABCDEF", 10, []got{{"x", false}}},
		{"long prefix is cut", strings.Repeat("p", 200<<10) + "\nx\n", 100 << 10, []got{{strings.Repeat("p", 64<<10), true}, {"x", false}}},
		{"bound at the size of the buffer", strings.Repeat("p", 32<<10) + "\n" + strings.Repeat("q", 32<<10+1) + "\nx\n", 32 << 10,
			[]got{{strings.Repeat("p", 32<<10), false}, {strings.Repeat("q", 32<<10), true}, {"x", false}}},
		{"no bound given", strings.Repeat("p", 1<<20) + "\n", 0, []got{{strings.Repeat("p", 1<<20), false}}},
		{"bound beyond any number", strings.Repeat("p", 1<<20) + "\n", int(^uint(0) >> 1), []got{{strings.Repeat("p", 1<<20), false}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, src := range map[string]io.Reader{
				"at once":         strings.NewReader(c.input),
				"byte by byte":    iotest.OneByteReader(strings.NewReader(c.input)),
				"halves":          iotest.HalfReader(strings.NewReader(c.input)),
				"end with a byte": iotest.DataErrReader(strings.NewReader(c.input)),
			} {
				r := ndjson.NewReader(src, c.max)
				all, err := readAll(r)
				if err != io.EOF {
					t.Errorf("%s: ended with %v, want io.EOF itself", name, err)
				}
				if d := cmp.Diff(c.want, all); d != "" {
					t.Errorf("%s: (-want +got)\n%s", name, d)
				}
				if want := strings.Contains(c.name, "unterminated"); r.Unended() != want {
					t.Errorf("%s: unended is %v, want %v", name, r.Unended(), want)
				}
			}
		})
	}
}

func TestReaderReportsTheSourcesError(t *testing.T) {
	broken := errors.New("cable pulled")
	r := ndjson.NewReader(io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(broken)), 100)
	all, err := readAll(r)
	if d := cmp.Diff([]got{{"a", false}}, all); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want one that wraps %v", err, broken)
	}
	if _, _, again := r.Next(); !errors.Is(again, broken) {
		t.Errorf("second error %v, want %v again", again, broken)
	}
}

type idleReader struct{}

func (idleReader) Read([]byte) (int, error) { return 0, nil }

func TestReaderGivesUpOnASourceWithoutProgress(t *testing.T) {
	if _, _, err := ndjson.NewReader(idleReader{}, 100).Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("error %v, want io.ErrNoProgress", err)
	}
}

var crosses = strings.Repeat("x", 64<<10)

// fill is a line of n bytes and its end, made while it is read, so that the
// memory measured is the Reader's.
type fill struct {
	n    int
	read int // most bytes to a Read, up to 64 KiB
}

func (f *fill) Read(p []byte) (int, error) {
	if f.n < 0 {
		return 0, io.EOF
	}
	p = p[:copy(p, crosses[:f.read])]
	if f.n < len(p) {
		p = p[:f.n+1]
		p[f.n] = '\n'
	}
	f.n -= len(p)
	return len(p), nil
}

// A line of 32 MiB in reads of 512 bytes: a Reader that searches or copies what
// it already has at each of the 65,536 reads touches 1 TiB, and this test
// does not end.
func TestReaderIsLinear(t *testing.T) {
	const size = 32 << 20
	r := ndjson.NewReader(&fill{n: size, read: 512}, ndjson.MaxLine)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	line, tooLong, err := r.Next()
	runtime.ReadMemStats(&after)
	if len(line) != size || tooLong || err != nil {
		t.Fatalf("got %d bytes, %v, %v, want the %d of the line", len(line), tooLong, err, size)
	}
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 5*size {
		t.Errorf("allocated %d bytes for a line of %d", spent, size)
	}
}

func TestReaderGivesMemoryBack(t *testing.T) {
	const size = 64 << 20
	for _, c := range []struct {
		name string
		max  int
	}{
		{"line taken", ndjson.MaxLine},
		{"line too long", 40 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			pr, pw := io.Pipe()
			r := ndjson.NewReader(io.MultiReader(&fill{n: size, read: 64 << 10}, pr), c.max)
			before := heap()
			if _, tooLong, err := r.Next(); err != nil || tooLong != (c.max < size) {
				t.Fatalf("got tooLong %v, %v", tooLong, err)
			}
			// The huge line is given back at the next call, even while that waits.
			next := make(chan string)
			go func() {
				line, _, err := r.Next()
				if err != nil {
					t.Errorf("next line: %v", err)
				}
				next <- string(line)
			}()
			if _, err := io.WriteString(pw, "be"); err != nil { // returns when Next has read it
				t.Fatal(err)
			}
			if grown := heap() - before; grown > 8<<20 {
				t.Errorf("%d bytes kept after a line of %d", grown, size)
			}
			if _, err := io.WriteString(pw, "hind\n"); err != nil {
				t.Fatal(err)
			}
			if line := <-next; line != "behind" {
				t.Errorf("next line is %q, want %q", line, "behind")
			}
		})
	}
}

// heap returns the bytes that are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A line far beyond the bound costs no more than the bound.
func TestReaderBoundsMemory(t *testing.T) {
	r := ndjson.NewReader(&fill{n: 256 << 20, read: 64 << 10}, 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, tooLong, err := r.Next(); !tooLong || err != nil {
		t.Fatalf("got tooLong %v, %v", tooLong, err)
	}
	runtime.ReadMemStats(&after)
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 8<<20 {
		t.Errorf("allocated %d bytes under a bound of 1 MiB", spent)
	}
}

// chunked returns the bytes of data in reads whose sizes are those of cuts, in
// turn.
type chunked struct {
	data, cuts []byte
	turn       int
}

func (c *chunked) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := len(c.data)
	if len(c.cuts) > 0 {
		n = int(c.cuts[c.turn%len(c.cuts)])
		c.turn++
	}
	n = copy(p, c.data[:min(n, len(c.data))])
	c.data = c.data[n:]
	return n, nil
}

// FuzzReader compares with the same rules applied to the whole input at once,
// for any place at which the stream may be cut.
func FuzzReader(f *testing.F) {
	f.Add([]byte("{\"id\":1}\r\n\xEF\xBB\xBF{}\n\n  x\ny"), []byte{1, 2, 3}, 8)
	f.Add(bytes.Repeat([]byte("0123456789abcdef\n"), 5000), []byte{255, 1}, 16)
	f.Add([]byte("0123456789\r\r\n\xEF\xBB\xBF\n"), []byte{}, 10)
	f.Fuzz(func(t *testing.T, data, cuts []byte, limit int) {
		limit = min(max(1, limit), 1<<20)
		if bytes.Count(cuts, []byte{0}) == len(cuts) {
			cuts = nil // a source without progress
		}
		var want []got
		whole := strings.Split(string(data), "\n")
		for _, line := range whole[:len(whole)-1] {
			line = strings.TrimSuffix(line, "\r")
			if len(line) > limit {
				// A bar keeps the right side from being trimmed.
				prefix := strings.TrimSpace(line[:min(limit, 64<<10)] + "|")
				prefix = strings.TrimSpace(strings.TrimPrefix(prefix, "\uFEFF"))
				want = append(want, got{strings.TrimSuffix(prefix, "|"), true})
				continue
			}
			line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "\uFEFF"))
			if line != "" {
				want = append(want, got{line, false})
			}
		}
		all, err := readAll(ndjson.NewReader(&chunked{data: data, cuts: cuts}, limit))
		if err != io.EOF && !errors.Is(err, io.ErrNoProgress) {
			t.Fatalf("ended with %v", err)
		}
		if err == io.EOF && !slices.Equal(want, all) {
			t.Errorf("(-want +got)\n%s", cmp.Diff(want, all))
		}
	})
}
