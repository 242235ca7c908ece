package toolfs

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/plugins/internal/textfile"
)

func TestWrite(t *testing.T) {
	utf16 := func(s string) string {
		b, err := textfile.UTF16LE.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, c := range []struct {
		name, before, content, want, said string
	}{
		{"over lf", "a\nb\n", "c\n", "c\n", "Updated file (1 line)"},
		{"over crlf", "a\r\nb\r\n", "c\nd", "c\r\nd", "Updated file (2 lines)"},
		{"crlf of its own", "a\nb\n", "c\r\nd\n", "c\r\nd\n", "Updated file (2 lines)"},
		{"over mainly crlf", "a\r\nb\r\nc\n", "d\n", "d\r\n", "Updated file (1 line)"},
		{"over mainly lf", "a\r\nb\nc\n", "d\n", "d\n", "Updated file (1 line)"},
		{"over a mark", "\xef\xbb\xbfa\r\n", "b\n", "\xef\xbb\xbfb\r\n", "Updated file (1 line)"},
		{"a mark over a mark", "\xef\xbb\xbfa\n", "\ufeffb\n", "\xef\xbb\xbfb\n", "Updated file (1 line)"},
		{"over utf-16", utf16("a\r\n"), "b\nc\n", utf16("b\r\nc\r\n"), "Updated file (2 lines)"},
		{"over binary", "a\x00b", "c\n", "c\n", "Updated file (1 line)"},
		{"over an empty file", "", "c\n", "c\n", "Updated file (1 line)"},
		{"nothing", "a\n", "", "", "Updated file (0 lines)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := setUp(t, defaults())
			x.Put("f", c.before)
			got := x.Good("write", args{"file_path": "f", "content": c.content})
			if want := x.wrapped("f", c.said); got != want {
				t.Errorf("result %q, want %q", got, want)
			}
			if d := cmp.Diff(c.want, x.get("f")); d != "" {
				t.Error(d)
			}
			x.onlyFiles("", "f")
		})
	}
}

func TestWriteCreates(t *testing.T) {
	x := setUp(t, defaults())
	res := x.call("write", args{"file_path": "a/b/c.txt", "content": "one\r\ntwo\n"})
	if want := x.wrapped("a/b/c.txt", "Created file (2 lines)"); text(res) != want {
		t.Errorf("result %q, want %q", text(res), want)
	}
	if !strings.Contains(string(res.Meta), `@@ -0,0 +1,2 @@\n+one\r\n+two\n`) {
		t.Errorf("meta %s", res.Meta)
	}
	if got := x.get("a/b/c.txt"); got != "one\r\ntwo\n" {
		t.Errorf("content %q", got)
	}
}

func TestWriteRefuses(t *testing.T) {
	x := setUp(t, defaults())
	x.Put("d/f", "x")
	x.Bad("write", args{"file_path": "d", "content": "x"}, codeNotFile, "directory")
	x.Bad("write", args{"file_path": "d/f/g", "content": "x"}, codeFailed, "not a directory")
	x.onlyFiles("d", "f")
}

func TestWriteDiffIsBounded(t *testing.T) {
	x := setUp(t, defaults())
	res := x.call("write", args{"file_path": "f", "content": strings.Repeat("a line of text\n", 10_000)})
	if res.IsError || len(res.Meta) > 64<<10 || !strings.Contains(string(res.Meta), `"truncated":true`) {
		t.Errorf("meta has %d bytes: %.200s", len(res.Meta), res.Meta)
	}
	res = x.call("write", args{"file_path": "f", "content": strings.Repeat("b", 1<<20)})
	if res.IsError || res.Meta != nil {
		t.Errorf("a diff of too large a text: %.200s", res.Meta)
	}
	x.Put("big", strings.Repeat("x", 33<<20))
	x.Good("write", args{"file_path": "big", "content": "small\n"})
	if got := x.get("big"); got != "small\n" {
		t.Errorf("content %.20q", got)
	}
}

func TestWriteIsCancelled(t *testing.T) {
	x := setUp(t, defaults())
	x.Put("f", "before")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if res := x.Call(ctx, "write", args{"file_path": "f", "content": "after"}); !res.IsError || res.Error.Code != "ABORTED" {
		t.Errorf("result %+v", res)
	}
	if got := x.get("f"); got != "before" {
		t.Errorf("a cancelled call wrote %q", got)
	}
	unlock, err := x.f.locks.lock(t.Context(), x.Path("f"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel = context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res := x.Call(ctx, "write", args{"file_path": "f", "content": "after"}); !res.IsError {
			t.Error("a call did not wait for the one before it")
		}
	}()
	cancel()
	<-done
}

func TestConfig(t *testing.T) {
	c := defaults()
	if err := c.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	wrong, ok := (&Config{}).Validate().(interface{ Unwrap() []error })
	if !ok {
		t.Fatal("zeros are valid")
	}
	var keys []string
	for _, err := range wrong.Unwrap() {
		var at *kernel.FieldError
		if !errors.As(err, &at) {
			t.Fatalf("%v does not say where it is", err)
		}
		keys = append(keys, at.Pointer)
	}
	if d := cmp.Diff([]string{"/dialect", "/readLines", "/readBytes", "/lineRunes", "/editBytes", "/imageEdge"}, keys); d != "" {
		t.Error(d)
	}
}
