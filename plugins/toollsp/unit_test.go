package toollsp

import (
	"io"
	"runtime"
	"strings"
	"testing"
)

// TestUnits: the protocol counts UTF-16 units from 0, people count characters from 1.
func TestUnits(t *testing.T) {
	const line = "a𝒳é👩‍👧b" // 1, 2, 1, 2+1+2, 1 units
	want := []int{0, 1, 3, 4, 6, 7, 9, 10}
	for i, n := range want {
		if got, err := units(line, i+1); err != nil || got != n {
			t.Errorf("character %d: %d, %v; want %d", i+1, got, err, n)
		}
		if got := character(line, n); got != i+1 {
			t.Errorf("unit %d: character %d, want %d", n, got, i+1)
		}
	}
	if got, err := units(line, len(want)+1); err == nil {
		t.Errorf("beyond the end: %d", got)
	}
	for units, want := range map[int]int{2: 2, 5: 4, 8: 6, 11: 8, 1 << 30: 8, -1: 1} {
		if got := character(line, units); got != want {
			t.Errorf("unit %d: character %d, want %d", units, got, want)
		}
	}
}

func TestURIs(t *testing.T) {
	if runtime.GOOS == "windows" {
		if got := uriOf(`C:\a b\é.go`); got != "file:///C:/a%20b/%C3%A9.go" {
			t.Error(got)
		}
		if got, ok := pathOf("file:///c%3A/a%20b"); !ok || got != `c:\a b` {
			t.Error(got, ok)
		}
		return
	}
	for path, want := range map[string]string{
		"/a/b.go":     "file:///a/b.go",
		"/a b/é#?%.x": "file:///a%20b/%C3%A9%23%3F%25.x",
	} {
		if got := uriOf(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		if got, ok := pathOf(want); !ok || got != path {
			t.Errorf("%s: %s %v, want %s", want, got, ok, path)
		}
	}
	for uri, want := range map[string]string{
		"file:///a/../b/%2e%2e/c": "/c", "FILE://localhost/x": "/x", "file:///a%3Ab": "/a:b",
		"jdt://contents/x": "", "file://host/x": "", "untitled:1": "", "": "", "file:///a%00b": "", "%": "", "file:x": "",
	} {
		if got, ok := pathOf(uri); got != want && ok || ok != (want != "") {
			t.Errorf("%q: %q %v, want %q", uri, got, ok, want)
		}
	}
}

// TestSound: what the library would give a connection up over is made good or left
// out.
func TestSound(t *testing.T) {
	for in, want := range map[string]string{
		`{"id":1,"result":{"a":1}}`:                             `{"id":1,"result":{"a":1}}`,
		`{"id":"1","result":null}`:                              `{"id":1,"result":null}`,
		`{"id":1}`:                                              `{"id":1,"result":null}`,
		`{"id":1,"result":null,"error":null}`:                   `{"id":1,"result":null}`,
		`{"id":1,"result":2,"error":{"code":-1,"message":"m"}}`: `{"id":1,"error":{"code":-1,"message":"m"}}`,
		`{"id":1,"error":[]}`:                                   `{"id":1,"error":{"code":0,"message":"an error without words"}}`,
		`{"id":"q","method":"m","params":{}}`:                   `{"id":"q","method":"m","params":{}}`,
		`{"id":"7","method":"m"}`:                               `{"id":"7","method":"m"}`,
		`{"id":null,"method":"m","params":null,"result":1}`:     `{"method":"m"}`,
		`{"id":-1,"method":"m"}`:                                "",
		`{"id":-1,"result":1}`:                                  "",
		`{"id":"x","result":1}`:                                 "",
		`{"id":{},"result":1}`:                                  "",
		`{"id":null,"result":1}`:                                "",
		`{"result":1}`:                                          "", `[]`: "", `{}`: "", `x`: "", `{"method":1}`: "", "": "",
	} {
		got, err := sound([]byte(in))
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
}

// TestUnread: what a server does not read is bounded, and nobody waits for it.
func TestUnread(t *testing.T) {
	r, w := io.Pipe()
	s := newStream(strings.NewReader(""), w, func(string, []byte) {})
	text := strings.Repeat("x", maxUnsent/8)
	n := 0
	for ; n < 20; n++ {
		if err := s.WriteObject(text); err != nil {
			if !strings.Contains(err.Error(), "does not read") {
				t.Error(err)
			}
			break
		}
	}
	if n < 6 || n > 8 {
		t.Errorf("%d messages were taken, want 7", n)
	}
	r.Close()
	<-s.sent
	if err := s.WriteObject("x"); err == nil {
		t.Error("something was taken after the end")
	}
}

// FuzzFrames: no bytes of a server make the reader panic or go on for ever.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("Content-Length: 2\r\n\r\n{}"))
	f.Add([]byte("noise\nContent-Length: 99999999999999999999\r\n\r\n"))
	f.Add([]byte("content-length:8\nX: y\n\n{\"id\":1}xContent-Length: 1\r\n\r\n1"))
	f.Add([]byte("\x88\x88\x88\x88\x88\x88xContent-Length: 1\r\n\r\n1"))
	f.Add([]byte("Content-Length: 40000000\r\n\r\n{\"id\":3,\"result\":"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, w := io.Pipe()
		defer r.Close()
		s := newStream(strings.NewReader(string(data)), w, func(string, []byte) {})
		defer func() { _ = s.Close(); <-s.sent }()
		for {
			frame, err := s.frame()
			if err != nil {
				return
			}
			if out, err := sound(frame); err == nil && len(out) == 0 {
				t.Errorf("nothing is made of %q", frame)
			}
		}
	})
}
