package textfile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSniff(t *testing.T) {
	for _, c := range []struct {
		name, head string
		want       Encoding
	}{
		{"empty", "", UTF8},
		{"ascii", "hello\n", UTF8},
		{"latin-1", "caf\xe9", UTF8},
		{"utf-8 with a mark", "\xef\xbb\xbfhello", UTF8BOM},
		{"only a mark", "\xef\xbb\xbf", UTF8BOM},
		{"marked but binary", "\xef\xbb\xbfa\x00b", Binary},
		{"utf-16 little", "\xff\xfeh\x00i\x00", UTF16LE},
		{"utf-16 big", "\xfe\xff\x00h\x00i", UTF16BE},
		{"utf-32", "\xff\xfe\x00\x00h\x00\x00\x00", Binary},
		{"elf", "\x7fELF\x02\x01\x01\x00\x00", Binary},
		{"late NUL", strings.Repeat("x", SniffLen) + "\x00", UTF8},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Sniff([]byte(c.head)); got != c.want {
				t.Errorf("Sniff(%.20q) = %v, want %v", c.head, got, c.want)
			}
		})
	}
}

func TestGarbled(t *testing.T) {
	for _, c := range []struct {
		name, head string
		want       bool
	}{
		{"empty", "", false},
		{"wide letters", "世界", false},
		{"a few bad bytes", "the caf\xe9 is open all day", false},
		{"another encoding", "\xcf\xf0\xe8\xe2\xe5\xf2 \xec\xe8\xf0", true},
		{"a letter cut by the end", strings.Repeat("世", SniffLen/3) + "世", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Garbled([]byte(c.head)); got != c.want {
				t.Errorf("Garbled(%.20q) = %v, want %v", c.head, got, c.want)
			}
		})
	}
}

func TestEncodingRoundTrip(t *testing.T) {
	const text = "héllo\r\n世界 👋\n"
	for _, e := range []Encoding{UTF8, UTF8BOM, UTF16LE, UTF16BE} {
		raw, err := e.Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := Sniff(raw); got != e {
			t.Errorf("Sniff(Encode) = %v, want %v", got, e)
		}
		back, err := io.ReadAll(e.Reader(bytes.NewReader(raw[len(e.BOM()):])))
		if err != nil {
			t.Fatal(err)
		}
		if string(back) != text {
			t.Errorf("encoding %v: %q came back as %q", e, text, back)
		}
	}
}

func TestPrintable(t *testing.T) {
	for _, c := range []struct {
		in, want string
		changed  bool
	}{
		{"plain\t世", "plain\t世", false},
		{"a\x00b", "a\ufffdb", true},
		{"caf\xe9s", "caf\ufffds", true},
	} {
		if got, changed := Printable([]byte(c.in)); got != c.want || changed != c.changed {
			t.Errorf("Printable(%q) = %q, %v, want %q, %v", c.in, got, changed, c.want, c.changed)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"世界世界", 4, "世界世界"}, {"世界世界!", 4, "世界世…"},
	} {
		if got, cut := Cut(c.in, c.n); got != c.want || cut != (c.in != c.want) {
			t.Errorf("Cut(%q, %d) = %q, %v, want %q", c.in, c.n, got, cut, c.want)
		}
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, info, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info.Size() != 1 {
		t.Errorf("size %d, want 1", info.Size())
	}
	var kind *KindError
	if _, _, err := Open(dir); !errors.As(err, &kind) || kind.Kind != DirectoryKind {
		t.Errorf("open a directory: %v", err)
	}
	if _, _, err := Open(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("open a missing file: %v", err)
	}
}
