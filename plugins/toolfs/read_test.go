package toolfs

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"dsh/plugins/internal/textfile"
)

func (x *fixture) wrapped(name, content string) string {
	return fmt.Sprintf("<path>%s</path>\n<type>file</type>\n<content>\n%s\n</content>", x.Path(name), content)
}

// The form of the result is that recorded from the peer.
func TestRead(t *testing.T) {
	utf16, err := textfile.UTF16LE.Encode("héllo\r\n世界\r\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, content string
		args          args
		want          string
	}{
		{"one line", "hello from the lab\n", args{}, "1: hello from the lab\n\n(End of file - total 1 lines)"},
		{"no final newline", "a\nb", args{}, "1: a\n2: b\n\n(End of file - total 2 lines)"},
		{"empty", "", args{}, "\n(End of file - total 0 lines)"},
		{"empty lines", "\n\n", args{}, "1: \n2: \n\n(End of file - total 2 lines)"},
		{"crlf", "a\r\nb\r\n", args{}, "1: a\n2: b\n\n(End of file - total 2 lines)"},
		{"a lone cr stays", "a\rb\n", args{}, "1: a\rb\n\n(End of file - total 1 lines)"},
		{"mark", "\xef\xbb\xbfa\n", args{}, "1: a\n\n(End of file - total 1 lines)"},
		{"only a mark", "\xef\xbb\xbf", args{}, "\n(End of file - total 0 lines)"},
		{"utf-16", string(utf16), args{}, "1: héllo\n2: 世界\n\n(End of file - total 2 lines)"},
		{"bad bytes", "the caf\xe9 is open until late\n", args{}, "1: the caf\ufffd is open until late\n\n(End of file - total 1 lines; bytes that are not text are shown as \ufffd)"},
		{"limit", "a\nb\nc\n", args{"limit": 2}, "1: a\n2: b\n\n(showing lines 1-2 of 3; use offset 3 to read on)"},
		{"limit that is the whole", "a\nb\n", args{"limit": 2}, "1: a\n2: b\n\n(End of file - total 2 lines)"},
		{"offset", "a\nb\nc\n", args{"offset": 2}, "2: b\n3: c\n\n(End of file - total 3 lines)"},
		{"offset and limit", "a\nb\nc", args{"offset": 2, "limit": 1}, "2: b\n\n(showing lines 2-2 of 3; use offset 3 to read on)"},
		{"zeros mean the defaults", "a\n", args{"offset": 0, "limit": 0}, "1: a\n\n(End of file - total 1 lines)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := setUp(t, defaults())
			c.args["file_path"] = x.Put("f.txt", c.content)
			if d := cmp.Diff(x.wrapped("f.txt", c.want), x.Good("read", c.args)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	x := setUp(t, defaults())
	x.Put("main.go", "package main\n")
	x.Put("Makefile", "all:\n")
	x.Put("sub/f", "")
	x.Put("bin", "\x7fELF\x00\x00")
	x.Put("koi8", "\xcf\xf0\xe8\xe2\xe5\xf2")
	x.Bad("read", args{"file_path": "mian.go"}, codeNotFound, "not found", "did you mean", x.Path("main.go"))
	x.Bad("read", args{"file_path": "makefile.am"}, codeNotFound, x.Path("Makefile"))
	x.Bad("read", args{"file_path": "main.ts"}, codeNotFound, x.Path("main.go"))
	x.Bad("read", args{"file_path": "none/of/this"}, codeNotFound, "does not exist either", fmt.Sprintf("only %q does", x.Dir))
	x.Bad("read", args{"file_path": "sub"}, codeNotFile, "is a directory", "glob", x.Path("sub/**"))
	x.Bad("read", args{"file_path": "bin"}, codeBinary, "binary", "6 bytes")
	x.Bad("read", args{"file_path": "koi8"}, codeBinary, "not UTF-8")
	x.Bad("read", args{"file_path": "main.go", "offset": 2}, codeArguments, "it has 1 lines")
	x.Bad("read", args{"file_path": "main.go", "offset": -1}, codeArguments, "1 or more")
	x.Bad("read", args{"file_path": "main.go", "limit": -1}, codeArguments, "1 or more")
	x.Bad("read", args{"file_path": "main.go/x"}, codeFailed, "not a directory")
	if res := x.call("read", args{"file_path": "zzz"}); strings.Contains(text(res), "did you mean") {
		t.Errorf("a name like no other: %s", text(res))
	}
}

func TestReadBounds(t *testing.T) {
	t.Run("lines", func(t *testing.T) {
		x := setUp(t, defaults())
		x.Put("f", strings.Repeat("line\n", 2500))
		got := x.Good("read", args{"file_path": "f"})
		if !strings.Contains(got, "\n2000: line\n\n(showing lines 1-2000 of 2500; use offset 2001 to read on)") {
			t.Errorf("the end of the result: %q", got[len(got)-200:])
		}
	})
	t.Run("bytes, and reading on covers all", func(t *testing.T) {
		x := setUp(t, defaults())
		const lines = 1500
		x.Put("f", strings.Repeat(strings.Repeat("世", 60)+"\n", lines))
		seen := 0
		for offset := 1; offset <= lines; {
			got := x.Good("read", args{"file_path": "f", "offset": offset})
			if len(got) > 51<<10 {
				t.Fatalf("a result of %d bytes", len(got))
			}
			n := strings.Count(got, "世\n")
			seen += n
			offset += n
			if offset <= lines && !strings.Contains(got, fmt.Sprintf("the result is full: showing lines %d-%d of %d; use offset %d", offset-n, offset-1, lines, offset)) {
				t.Fatalf("no word on how to read on: %q", got[len(got)-200:])
			}
		}
		if seen != lines {
			t.Errorf("saw %d lines, want %d", seen, lines)
		}
	})
	t.Run("long lines", func(t *testing.T) {
		x := setUp(t, defaults())
		x.Put("f", strings.Repeat("世", 2000)+"\r\n"+strings.Repeat("界", 2001)+"\n"+strings.Repeat("x", 300_000)+"\nend\n")
		got := x.Good("read", args{"file_path": "f"})
		want := x.wrapped("f", "1: "+strings.Repeat("世", 2000)+
			"\n2: "+strings.Repeat("界", 2000)+"… (cut at 2000 characters)"+
			"\n3: "+strings.Repeat("x", 2000)+"… (cut at 2000 characters)\n4: end\n\n(End of file - total 4 lines)")
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
	t.Run("a line end on the edge of the buffer", func(t *testing.T) {
		x := setUp(t, defaults())
		for n := 64<<10 - 3; n <= 64<<10+2; n++ {
			x.Put("f", strings.Repeat("x", n)+"\r\nend\r\n")
			got := x.Good("read", args{"file_path": "f"})
			if !strings.HasSuffix(got, "(cut at 2000 characters)\n2: end\n\n(End of file - total 2 lines)\n</content>") {
				t.Errorf("%d bytes: %q", n, got[len(got)-100:])
			}
		}
	})
}

// Case B67: whatever the size of a file, a call needs little memory and its
// result is small and valid.
func TestReadHugeFiles(t *testing.T) {
	x := setUp(t, defaults())
	sparse := func(name, head string, size int64) {
		t.Helper()
		x.Put(name, head)
		if err := os.Truncate(x.Path(name), size); err != nil {
			t.Fatal(err)
		}
	}
	sparse("zeros", "", 1<<30)
	sparse("head", strings.Repeat("text\n", 4000), 1<<30)
	f, err := os.Create(x.Path("line"))
	if err != nil {
		t.Fatal(err)
	}
	chunk := []byte(strings.Repeat("x世", 1<<18))
	for range 200 {
		if _, err := f.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	grown := allocated(func() {
		x.Bad("read", args{"file_path": "zeros"}, codeBinary, "1073741824 bytes")
		got := x.Good("read", args{"file_path": "head", "offset": 3000, "limit": 3})
		if !strings.Contains(got, "3000: text\n3001: text\n3002: text\n\n(showing lines 3000-3002 of at least ") {
			t.Errorf("the middle of a huge file: %.300q", got)
		}
		got = x.Good("read", args{"file_path": "line"})
		if len(got) > 60<<10 || !utf8.ValidString(got) || !strings.Contains(got, "(cut at 2000 characters)") {
			t.Errorf("a line of 200 MB gave %d bytes: %.100q", len(got), got)
		}
		x.Bad("edit", args{"file_path": "line", "old_string": "a", "new_string": "b"}, codeTooLarge, "sed")
	})
	if grown > 100<<20 {
		t.Errorf("the calls allocated %d MiB", grown>>20)
	}
}

// allocated is how many bytes f allocates in all, which is at least what it
// holds at any time.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestReadIsCancelled(t *testing.T) {
	x := setUp(t, defaults())
	x.Put("f", strings.Repeat("a\n", 5000))
	if err := os.Truncate(x.Path("f"), 1<<40); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res := x.Call(ctx, "read", args{"file_path": "f", "offset": 1_000_000}); !res.IsError || res.Error.Code != "ABORTED" {
			t.Errorf("result %+v, want that it was cancelled", res)
		}
	}()
	cancel()
	<-done
}

func FuzzPage(f *testing.F) {
	f.Add([]byte("a\r\nb\n\xffc"), 1, 2)
	f.Add([]byte("\xef\xbb\xbf\n\n"), 2, 1)
	f.Fuzz(func(t *testing.T, content []byte, offset, limit int) {
		x := setUp(t, defaults())
		x.Put("f", string(content))
		res := x.call("read", args{"file_path": "f", "offset": offset, "limit": limit})
		if got := text(res); !utf8.ValidString(got) || len(got) > 60<<10 {
			t.Errorf("%d bytes, valid %v", len(got), utf8.ValidString(got))
		}
	})
}

// TestOffsets: a file is the same whether it is read at once or line by line, wherever
// the lines lie in the buffer.
func TestOffsets(t *testing.T) {
	for name, content := range map[string]string{
		"short lines":   strings.Repeat("x\n", 40_000) + "end",
		"around 64 KiB": strings.Repeat("x", 64<<10-1) + "\n\n" + strings.Repeat("y", 64<<10) + "\n" + strings.Repeat("z", 64<<10+1) + "\nend\n",
		"empty lines":   strings.Repeat("\n", 64<<10+2),
	} {
		t.Run(name, func(t *testing.T) {
			x := setUp(t, defaults())
			x.Put("f", content)
			lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
			for _, n := range []int{1, 2, 3, 4, 5, 32_767, 32_768, 32_769, 40_000, 40_001, 65_536, 65_537, 65_538} {
				if n > len(lines) {
					x.Bad("read", args{"file_path": "f", "offset": n}, codeArguments, fmt.Sprintf("it has %d lines", len(lines)))
					continue
				}
				want, _ := cutRunes(lines[n-1], 2000)
				got := x.Good("read", args{"file_path": "f", "offset": n, "limit": 1})
				if !strings.Contains(got, fmt.Sprintf("<content>\n%d: %s", n, want)) || n < len(lines) != strings.Contains(got, fmt.Sprintf("of %d;", len(lines))) {
					t.Errorf("line %d: %.200q", n, got)
				}
			}
		})
	}
}
