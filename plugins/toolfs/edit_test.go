package toolfs

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dsh/plugins/internal/textfile"
	"dsh/sdkproto/wirejson"
)

func TestEdit(t *testing.T) {
	for _, c := range []struct {
		name, before, old, new string
		all                    bool
		want                   string
	}{
		{"a word", "one two\nthree\n", "two", "2", false, "one 2\nthree\n"},
		{"lines", "a\nb\nc\n", "a\nb\n", "x\ny\nz\n", false, "x\ny\nz\nc\n"},
		{"deletion", "a\nb\nc\n", "b\n", "", false, "a\nc\n"},
		{"everywhere", "a b a\na\n", "a", "cc", true, "cc b cc\ncc\n"},
		{"everywhere, in one place", "a b\n", "a", "c", true, "c b\n"},
		{"everywhere, overlapping", "aaaa\n", "aa", "b", true, "bb\n"},
		{"no final newline", "a\nb", "b", "c\nd", false, "a\nc\nd"},
		{"final newline goes", "a\n", "a\n", "b", false, "b"},
		{"crlf, old text with lf", "a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", false, "x\r\ny\r\nz\r\nc\r\n"},
		{"crlf, old text with crlf", "a\r\nb\r\nc\r\n", "a\r\nb", "x\r\ny", false, "x\r\ny\r\nc\r\n"},
		{"crlf, deletion of a line", "a\r\nb\r\nc\r\n", "b\n", "", false, "a\r\nc\r\n"},
		{"crlf, match that starts with the line end", "a\r\nb\r\nc", "\nb", "\nx", false, "a\r\nx\r\nc"},
		{"crlf, match that ends before the line end", "a\r\nb\r\n", "a", "x", false, "x\r\nb\r\n"},
		{"crlf everywhere", "a\r\na\r\na\r\n", "a\n", "b\nc\n", true, "b\r\nc\r\nb\r\nc\r\nb\r\nc\r\n"},
		{"lf file, new text with crlf", "a\nb\n", "b", "x\r\ny", false, "a\nx\ny\n"},
		{"no line end at all keeps the new ones", "a", "a", "x\r\ny", false, "x\r\ny"},
		{"mixed ends, untouched lines in the match", "a\r\nb\nc\r\nd\n", "a\nb\nc\nd", "a\nB\nc\nd", false, "a\r\nB\nc\r\nd\n"},
		{"mixed ends, two changes in the match", "a\r\nb\nc\r\nd\ne\r\n", "a\nb\nc\nd\ne", "A\nb\nc\nd\nE", false, "A\r\nb\nc\r\nd\nE\r\n"},
		{"mixed ends, mainly crlf", "a\r\nb\nc\r\n", "c", "c\nnew", false, "a\r\nb\nc\r\nnew\r\n"},
		{"mixed ends, mainly lf", "a\r\nb\nc\n", "a", "a\nnew", false, "a\nnew\r\nb\nc\n"},
		{"mark", "\xef\xbb\xbfa\nb\n", "a", "x", false, "\xef\xbb\xbfx\nb\n"},
		{"mark, all of the first line", "\xef\xbb\xbfa\r\nb", "a\nb", "x\ny", false, "\xef\xbb\xbfx\r\ny"},
		{"bytes that are not text", "caf\xe9 one\ntwo\n", "two", "2", false, "caf\xe9 one\n2\n"},
		{"a lone cr", "a\rb\r\nc\n", "b", "x", false, "a\rx\r\nc\n"},
		{"an empty file", "", "", "x\ny\n", false, "x\ny\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := setUp(t, defaults())
			x.Put("f", c.before)
			x.Good("edit", args{"file_path": "f", "old_string": c.old, "new_string": c.new, "replace_all": c.all})
			if d := cmp.Diff(c.want, x.get("f")); d != "" {
				t.Error(d)
			}
			x.onlyFiles("", "f")
		})
	}
}

func TestEditKeepsUTF16(t *testing.T) {
	x := setUp(t, defaults())
	for _, enc := range []textfile.Encoding{textfile.UTF16LE, textfile.UTF16BE} {
		encode := func(s string) string {
			b, err := enc.Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		x.Put("f", encode("é\r\n世界\r\n"))
		x.Good("edit", args{"file_path": "f", "old_string": "é\n世", "new_string": "é\n👋\n世"})
		if d := cmp.Diff(encode("é\r\n👋\r\n世界\r\n"), x.get("f")); d != "" {
			t.Error(d)
		}
	}
	damaged := "\xff\xfea\x00\x00\xd8b\x00"
	x.Put("f", damaged)
	x.Bad("edit", args{"file_path": "f", "old_string": "a", "new_string": "b"}, codeFailed, "damaged")
	if got := x.get("f"); got != damaged {
		t.Errorf("a file with half a surrogate became %q", got)
	}
}

func TestEditSays(t *testing.T) {
	x := setUp(t, defaults())
	p := x.Put("f", "a\nb\na\nb\na\n")
	got := x.Good("edit", args{"file_path": "f", "old_string": "a", "new_string": "x", "replace_all": true})
	if want := x.wrapped("f", "Updated file (3 replacements, lines 1, 3, 5)"); got != want {
		t.Errorf("result %q, want %q", got, want)
	}
	res := x.call("edit", args{"file_path": "f", "old_string": "x\nb\nx\n", "new_string": "x\nc\nx\n"})
	if !res.IsError {
		t.Fatal("an ambiguous edit by overlapping places was taken")
	}
	res = x.call("edit", args{"file_path": "f", "old_string": "x\nb\nx\nb\nx\n", "new_string": "x\nb\nc\nb\nx\n"})
	if want := x.wrapped("f", "Updated file (1 replacement, line 1)"); text(res) != want {
		t.Errorf("result %q, want %q", text(res), want)
	}
	var m struct {
		Diff string `json:"diff"`
	}
	if err := wirejson.UnmarshalStrict(res.Meta, &m); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("--- %s\n+++ %s\n@@ -1,5 +1,5 @@\n x\n b\n-x\n+c\n b\n x\n", p, p); m.Diff != want {
		t.Errorf("diff %q, want %q", m.Diff, want)
	}
}

func TestEditRefuses(t *testing.T) {
	x := setUp(t, defaults())
	const before = "func main() {\n\tprintln(\"one\")\n}\n\nfunc other() {\n\tprintln(\"one\")\n}\n"
	x.Put("f.go", before)
	x.Put("bin", "a\x00b")
	x.Put("d/f", "")
	many := strings.Repeat("a\n", 30)
	x.Put("many", many)
	x.Bad("edit", args{"file_path": "f.go", "old_string": "missing text", "new_string": "x"}, codeNoMatch, "not in it")
	x.Bad("edit", args{"file_path": "f.go", "old_string": "    println(\"one\")", "new_string": "x"}, codeNoMatch, "line 2", "white space")
	x.Bad("edit", args{"file_path": "f.go", "old_string": "func othex() {", "new_string": "x"}, codeNoMatch, "most similar line is 5: func other() {")
	x.Bad("edit", args{"file_path": "f.go", "old_string": "1: func main() {\n2: \tprintln(\"one\")\n", "new_string": "x"}, codeNoMatch, "leave out the line numbers")
	x.Bad("edit", args{"file_path": "f.go", "old_string": "println(\"one\")", "new_string": "x"}, codeNotUnique, "2 times", "lines 2, 6", "replace_all")
	x.Bad("edit", args{"file_path": "many", "old_string": "a", "new_string": "x"}, codeNotUnique, "30 times", "lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …")
	x.Bad("edit", args{"file_path": "f.go", "old_string": "main", "new_string": "main"}, codeArguments, "the same")
	x.Bad("edit", args{"file_path": "f.go", "old_string": "{\n", "new_string": "{\r\n"}, codeArguments, "the same")
	x.Bad("edit", args{"file_path": "f.go", "old_string": "", "new_string": "x"}, codeArguments, "not empty", "write")
	x.Bad("edit", args{"file_path": "bin", "old_string": "a", "new_string": "x"}, codeBinary, "binary")
	x.Bad("edit", args{"file_path": "d", "old_string": "a", "new_string": "x"}, codeNotFile, "directory")
	x.Bad("edit", args{"file_path": "f.og", "old_string": "a", "new_string": "x"}, codeNotFound, "did you mean", x.Path("f.go"))
	if got := x.get("f.go"); got != before {
		t.Errorf("a refused edit changed the file: %q", got)
	}
	if got := x.get("many"); got != many {
		t.Errorf("a refused edit changed the file: %q", got)
	}
}

func TestEditBounds(t *testing.T) {
	c := defaults()
	c.EditBytes = 4096
	x := setUp(t, c)
	fits := strings.Repeat("a", 4096)
	x.Put("f", fits)
	x.Bad("edit", args{"file_path": "f", "old_string": "a", "new_string": "bb", "replace_all": true}, codeTooLarge, "would become larger")
	x.Put("g", fits+"a")
	x.Bad("edit", args{"file_path": "g", "old_string": "a", "new_string": "", "replace_all": true}, codeTooLarge, "larger than 4096")
	x.Good("edit", args{"file_path": "f", "old_string": "a", "new_string": "b", "replace_all": true})
	if x.get("f") != strings.Repeat("b", 4096) {
		t.Error("not everything was replaced")
	}
}

func TestEditCreates(t *testing.T) {
	x := setUp(t, defaults())
	got := x.Good("edit", args{"file_path": "new/dir/f.txt", "old_string": "", "new_string": "a\nb\n"})
	if want := x.wrapped("new/dir/f.txt", "Created file (2 lines)"); got != want {
		t.Errorf("result %q, want %q", got, want)
	}
	if got := x.get("new/dir/f.txt"); got != "a\nb\n" {
		t.Errorf("content %q", got)
	}
}

// Case B65: twenty rounds of read, edit and write leave every byte that was not
// meant as it was.
func TestEditsDoNotDrift(t *testing.T) {
	for _, c := range []struct{ name, head, end, tail string }{
		{"crlf", "", "\r\n", "\r\n"},
		{"lf", "", "\n", "\n"},
		{"mark and crlf", "\xef\xbb\xbf", "\r\n", "\r\n"},
		{"no final newline", "", "\r\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := setUp(t, defaults())
			content := func(word string) string {
				return c.head + strings.Join([]string{"first", "the " + word, "and " + word, "last"}, c.end) + c.tail
			}
			x.Put("f", content("w0"))
			for i := 1; i <= 20; i++ {
				was, is, between := fmt.Sprintf("w%d", i-1), fmt.Sprintf("w%d", i), fmt.Sprintf("v%d", i)
				if got := x.Good("read", args{"file_path": "f"}); strings.ContainsAny(got, "\r\ufeff") || !strings.Contains(got, "2: the "+was+"\n3: and "+was+"\n") {
					t.Fatalf("round %d: read gives %q", i, got)
				}
				x.Good("edit", args{"file_path": "f", "old_string": "the " + was + "\nand " + was, "new_string": "the " + between + "\nand " + between})
				if d := cmp.Diff(content(between), x.get("f")); d != "" {
					t.Fatalf("round %d, first edit: %s", i, d)
				}
				x.Good("edit", args{"file_path": "f", "old_string": between, "new_string": is, "replace_all": true})
				if d := cmp.Diff(content(is), x.get("f")); d != "" {
					t.Fatalf("round %d, second edit: %s", i, d)
				}
				whole := strings.ReplaceAll(strings.TrimPrefix(content(is), c.head), "\r\n", "\n")
				x.Good("write", args{"file_path": "f", "content": whole})
				if d := cmp.Diff(content(is), x.get("f")); d != "" {
					t.Fatalf("round %d, write: %s", i, d)
				}
			}
		})
	}
}

// Of a file with mixed line ends, an edit changes exactly the lines that its
// texts differ in.
func TestSubstituteKeepsUntouchedLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(3, 30).Draw(t, "lines")
		ends := rapid.SliceOfN(rapid.SampledFrom([]string{"\n", "\r\n"}), n, n).Draw(t, "ends")
		lines := make([]string, n)
		var before strings.Builder
		for i := range lines {
			lines[i] = fmt.Sprintf("line %d of many", i)
			before.WriteString(lines[i] + ends[i])
		}
		from := rapid.IntRange(0, n-1).Draw(t, "from")
		to := rapid.IntRange(from, n-1).Draw(t, "to")
		changed := rapid.SliceOfNDistinct(rapid.IntRange(from, to), 1, to-from+1, rapid.ID[int]).Draw(t, "changed")
		next := append([]string(nil), lines...)
		for _, i := range changed {
			next[i] = fmt.Sprintf("LINE %d of many", i)
		}
		after, _, err := substitute(before.String(), strings.Join(lines[from:to+1], "\n")+"\n", strings.Join(next[from:to+1], "\n")+"\n", false, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.SplitAfter(after, "\n")
		for i := range lines {
			if want := lines[i] + ends[i]; next[i] == lines[i] && got[i] != want {
				t.Errorf("line %d was not to change: %q became %q", i, want, got[i])
			}
			if strings.TrimRight(got[i], "\r\n") != next[i] {
				t.Errorf("line %d is %q, want %q", i, got[i], next[i])
			}
		}
		if len(got) != n+1 || got[n] != "" {
			t.Errorf("%d lines, want %d", len(got)-1, n)
		}
	})
}

func TestParallelEditsAreNotLost(t *testing.T) {
	x := setUp(t, defaults())
	const n = 24
	var content strings.Builder
	for i := range n {
		fmt.Fprintf(&content, "<%d>\n", i)
	}
	x.Put("f", content.String())
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			res := x.call("edit", args{"file_path": "f", "old_string": fmt.Sprintf("<%d>", i), "new_string": fmt.Sprintf("[%d]", i)})
			if res.IsError {
				t.Error(text(res))
			}
		})
	}
	wg.Wait()
	want := strings.NewReplacer("<", "[", ">", "]").Replace(content.String())
	if d := cmp.Diff(want, x.get("f")); d != "" {
		t.Error(d)
	}
	if len(x.f.locks.held) != 0 {
		t.Errorf("%d locks are left", len(x.f.locks.held))
	}
}
