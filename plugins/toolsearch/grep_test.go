package toolsearch

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"regexp/syntax"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dsh/plugins/internal/textfile"
)

func TestGrep(t *testing.T) {
	utf16, err := textfile.UTF16BE.Encode("one\r\nthe needle\r\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		args  args
		want  string // "D" stands for the folder
	}{
		{"two files in order", map[string]string{"b.go": "func b() {}\n", "a/x.go": "one\n\nfunc a() {\n\tfunc\n"}, args{"pattern": "func"},
			"D/a/x.go:\n  3: func a() {\n  4: \tfunc\n\nD/b.go:\n  1: func b() {}"},
		{"no final newline", map[string]string{"f": "a\nb"}, args{"pattern": "b"}, "D/f:\n  2: b"},
		{"nothing", map[string]string{"f": "a\n", "g": "b\n"}, args{"pattern": "c"}, "No matches found in 2 files"},
		{"no files", nil, args{"pattern": "c"}, "No matches found in 0 files"},
		{"anchors are those of the line", map[string]string{"f": "ab\nb\nba\n"}, args{"pattern": `^b$`}, "D/f:\n  2: b"},
		{"crlf", map[string]string{"f": "a\r\nb\r\n"}, args{"pattern": `b$`}, "D/f:\n  2: b"},
		{"no match across lines", map[string]string{"f": "a\nb\n"}, args{"pattern": `a\s*b`}, "No matches found in 1 file"},
		{"empty lines", map[string]string{"f": "a\n\nb\n"}, args{"pattern": `^$`}, "D/f:\n  2: "},
		{"case", map[string]string{"f": "Needle\nneedle\n"}, args{"pattern": "(?i)NEEDLE"}, "D/f:\n  1: Needle\n  2: needle"},
		{"wide letters", map[string]string{"f": "世界\n"}, args{"pattern": "界"}, "D/f:\n  1: 世界"},
		{"mark", map[string]string{"f": "\xef\xbb\xbfa\n"}, args{"pattern": "^a"}, "D/f:\n  1: a"},
		{"utf-16", map[string]string{"f": string(utf16)}, args{"pattern": "^the.needle$"}, "D/f:\n  2: the needle"},
		{"bad bytes", map[string]string{"f": "caf\xe9 x\n"}, args{"pattern": "x"}, "D/f:\n  1: caf\ufffd x"},
		{"binary", map[string]string{"f": "needle\x00\n", "g": "needle\n"}, args{"pattern": "needle"}, "D/g:\n  1: needle"},
		{"include by name", map[string]string{"a.ts": "x\n", "s/b.tsx": "x\n", "c.go": "x\n"}, args{"pattern": "x", "include": "*.{ts,tsx}"}, "D/a.ts:\n  1: x\n\nD/s/b.tsx:\n  1: x"},
		{"include by path", map[string]string{"a/f.go": "x\n", "b/f.go": "x\n"}, args{"pattern": "x", "include": "a/**/*.go"}, "D/a/f.go:\n  1: x"},
		{"path of a folder", map[string]string{"a/f": "x\n", "b/f": "x\n"}, args{"pattern": "x", "path": "b"}, "D/b/f:\n  1: x"},
		{"path of a file", map[string]string{"a/.f": "x\n", "b/f": "x\n"}, args{"pattern": "x", "path": "a/.f"}, "D/a/.f:\n  1: x"},
		{"hidden and ignored", map[string]string{".h": "x\n", ".gitignore": "i\n", "i": "x\n", "f": "x\n", ".git/x": "x\n"}, args{"pattern": "x"}, "D/f:\n  1: x"},
		{"hidden by include", map[string]string{".env": "x\n", "env": "x\n"}, args{"pattern": "x", "include": ".env"}, "D/.env:\n  1: x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := setUp(t, defaults())
			for name, content := range c.files {
				x.Put(name, content)
			}
			if d := cmp.Diff(strings.ReplaceAll(c.want, "D/", x.Dir+"/"), x.Good("grep", c.args)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestGrepRefuses(t *testing.T) {
	x := setUp(t, defaults())
	x.Put("bin", "a\x00")
	x.Bad("grep", args{"pattern": ""}, codeArguments, "empty")
	x.Bad("grep", args{"pattern": "(a"}, codeBadPattern, "RE2", "missing closing )")
	x.Bad("grep", args{"pattern": "(?=a)"}, codeBadPattern, "look-around")
	x.Bad("grep", args{"pattern": `(a)\1`}, codeBadPattern, "back-references")
	x.Bad("grep", args{"pattern": "a", "include": "{a"}, codeBadPattern, "include")
	x.Bad("grep", args{"pattern": "a", "include": strings.Repeat("{a,b}", 9)}, codeBadPattern, "more than 8 braces")
	x.Bad("grep", args{"pattern": "a", "path": "none"}, codeNotFound, "not found")
	x.Bad("grep", args{"pattern": "a", "path": "bin"}, codeFailed, "binary")
}

func TestGrepShowsPartsOfLongLines(t *testing.T) {
	x := setUp(t, defaults())
	long := strings.Repeat("世", 100) + " " + strings.Repeat("x", 1000) + "needle" + strings.Repeat("界", 1000)
	x.Put("f", long+"\nneedle "+long+"\n"+strings.Repeat("é", 245)+"needle123\n"+strings.Repeat("y", 244)+"needle\n")
	got := strings.Split(x.Good("grep", args{"pattern": "needle"}), "\n")
	if len(got) != 5 {
		t.Fatalf("result %q", got)
	}
	want := []string{
		"  1: …" + strings.Repeat("x", 50) + "needle" + strings.Repeat("界", 192) + "…",
		"  2: needle " + strings.Repeat("世", 100) + " " + strings.Repeat("x", 141) + "…",
		"  3: …" + strings.Repeat("é", 25) + "needle123",
		"  4: " + strings.Repeat("y", 244) + "needle",
	}
	if d := cmp.Diff(want, got[1:]); d != "" {
		t.Error(d)
	}
}

func TestGrepBounds(t *testing.T) {
	x := setUp(t, defaults())
	var lines strings.Builder
	for i := range 60 {
		fmt.Fprintf(&lines, "needle %d\n", i)
	}
	for _, name := range []string{"a", "b", "c", "d/e"} {
		x.Put(name, lines.String())
	}
	for range 5 {
		got := x.Good("grep", args{"pattern": "needle"})
		if !strings.HasSuffix(got, "\n  40: needle 39\n\n(cut at 100 matching lines, and there are more; use a narrower pattern, path or include)") ||
			strings.Count(got, "needle") != 100 || strings.Contains(got, x.Path("c")) {
			t.Fatalf("result %q", got)
		}
	}
	exactly := x.Good("grep", args{"pattern": "needle [0-4][0-9]", "include": "[ab]"})
	if strings.Count(exactly, "needle") != 80 || strings.Contains(exactly, "cut at") {
		t.Errorf("result %q", exactly)
	}
	for i := range 100 {
		x.Put(fmt.Sprintf("wide/%d", i), "wide "+strings.Repeat("世", 400)+"\n")
	}
	got := x.Good("grep", args{"pattern": "^wide", "path": "wide"})
	if len(got) > 51<<10 || !strings.Contains(got, "the result is full after ") || !utf8.ValidString(got) {
		t.Errorf("%d bytes, which end in %q", len(got), got[len(got)-100:])
	}
}

// Case B67: a million hits, a huge line and a huge sparse file need little
// memory.
func TestGrepHugeFiles(t *testing.T) {
	c := defaults()
	c.TimeoutMs = 600_000 // the race detector looks at every byte that is read
	x := setUp(t, c)
	x.Put("many/million", strings.Repeat("a needle in a line\n", 1_000_000))
	write := func(name string, chunk string, n int, tail string) {
		t.Helper()
		f, err := os.Create(x.Path(name))
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			if _, err := f.WriteString(chunk); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.WriteString(tail); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write("line", strings.Repeat("long ", 200_000), 200, "\nthe last line\n")
	x.Put("sparse", strings.Repeat("text\n", 2000))
	if err := os.Truncate(x.Path("sparse"), 1<<30); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := x.Good("grep", args{"pattern": "needle", "path": "many"})
	if strings.Count(got, "needle") != 100 || !strings.Contains(got, "cut at 100") {
		t.Errorf("a million hits: %.300q", got)
	}
	got = x.Good("grep", args{"pattern": "the last|^long", "path": "line"})
	if !utf8.ValidString(got) || len(got) > 1000 || !strings.Contains(got, "  1: long long") || !strings.Contains(got, "  2: the last line\n\n(of lines longer than 256 KiB only the start was searched)") {
		t.Errorf("a huge line: %.2000q", got)
	}
	got = x.Good("grep", args{"pattern": "text$|more", "path": "sparse"})
	if !strings.Contains(got, "  1: text\n") {
		t.Errorf("a sparse file: %.300q", got)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 100<<20 {
		t.Errorf("the calls allocated %d MiB", grown>>20)
	}
}

// matcher.file gives the lines that a plain loop over all lines gives, wherever
// the reads cut them.
func TestMatcherAgainstAPlainLoop(t *testing.T) {
	dir := t.TempDir()
	patterns := slices.Concat(patterns, []string{"ab", "a|b", "(ab)+", "c*", `\bab\b`, "(?i)AB", "x(ab|ac)y", "ac|xy|zz", "(?i)X(Y|AB)", "[a-z]{2}[0-9]"})
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.SampledFrom(patterns).Draw(t, "pattern")
		pieces := rapid.SliceOfN(rapid.SampledFrom(slices.Concat(pieces, []string{"c", "x", "y", "X", "AB", strings.Repeat("z", 40_000)})), 0, 40).Draw(t, "pieces")
		content := strings.Join(pieces, "")
		path := dir + "/f"
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		re := regexp.MustCompile(pattern)
		var want []int
		content = strings.TrimPrefix(content, "\ufeff")
		for i, line := range strings.Split(content, "\n") {
			if i == strings.Count(content, "\n") && line == "" {
				break
			}
			line = strings.TrimSuffix(line, "\r")
			if len(line) < maxLine && re.MatchString(line) {
				want = append(want, i+1)
			}
		}
		c := defaults()
		c.MaxMatches = 1000
		res, err := newMatcher(re, c).file(t.Context(), path, newBuffer())
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, h := range res.hits {
			got = append(got, h.line)
		}
		if res.cutLines {
			return
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		pattern string
		want    []string
	}{
		{"abc", []string{"abc"}},
		{"", nil},
		{".*", nil},
		{`\bfoo\b`, []string{"foo"}},
		{"(foo)+bar?", []string{"foo"}},
		{"x*longer.y", []string{"longer"}},
		{"a{3}", []string{"a"}},
		{"TODO|FIXME", []string{"TODO", "FIXME"}},
		{"(one|two).*three", []string{"three"}},
		{"(one|three).*x", []string{"one", "three"}},
		{"a|.", nil},
		{"x\ufffdyz", []string{"yz"}},
		{"(?i)Needle", nil},
		{"x(?i:one)yy", []string{"yy"}},
		{"(?i:one)|TWO", nil},
		{"1a|2b|3c|4d|5e|6f|7g|8h|9i", nil},
	} {
		tree, err := syntax.Parse(c.pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		f := newFilter(tree.Simplify())
		var got []string
		for _, s := range f.texts {
			got = append(got, string(s))
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("filter of %q: %s", c.pattern, d)
		}
	}
}

// tree makes some thousand files in some hundred folders.
func tree(b *testing.B) *fixture {
	x := setUp(b, defaults())
	body := bytes.Repeat([]byte("\tif err := something(ctx, value); err != nil {\n"), 100)
	for i := range 4000 {
		x.Put(fmt.Sprintf("pkg%d/sub%d/file%d.go", i%20, i%200, i), string(body))
	}
	x.Put("pkg7/sub7/needle.go", "func needle() {}\n")
	x.Put(".gitignore", "node_modules/\n*.log\n/dist\n")
	b.ResetTimer()
	return x
}

func BenchmarkGlob(b *testing.B) {
	x := tree(b)
	for b.Loop() {
		x.Good("glob", args{"pattern": "**/*.go"})
	}
}

func BenchmarkGrepLiteral(b *testing.B) {
	x := tree(b)
	for b.Loop() {
		x.Good("grep", args{"pattern": `func needle\(`})
	}
}

func BenchmarkGrepAnyLine(b *testing.B) {
	x := tree(b)
	for b.Loop() {
		x.Good("grep", args{"pattern": `(?i)NEEDLE\(`})
	}
}
