package launch

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Spec stream-json 1.6: what is written arrives, in order, before the end.
func TestStderr(t *testing.T) {
	defer goleak.VerifyNone(t)
	var out bytes.Buffer
	s := NewStderr(&out)
	var want strings.Builder
	for i := range 100 {
		fmt.Fprintf(io.MultiWriter(s, &want), "line %d\n", i)
	}
	s.Close()
	if out.String() != want.String() {
		t.Errorf("got %q", out.String())
	}
}

// A pipe that nobody reads holds nobody up.
func TestStderrUnread(t *testing.T) {
	defer goleak.VerifyNone(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := NewStderr(w)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2000 { // 2 MB, more than a pipe and the queue hold
			fmt.Fprintln(s, strings.Repeat("x", 1000))
		}
		s.Close()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("writing waits for the reader")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	<-done
	<-s.done // the write that hung has failed, and so have those behind it
}
