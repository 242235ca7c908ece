package stdio_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"dsh/kernel/stdio"
)

func TestReadPrompt(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		in   io.Reader
		want string
		err  error
	}{
		"line ends are taken off":      {strings.NewReader(" two\nlines\r\n\n"), " two\nlines", nil},
		"what is no UTF-8 is replaced": {strings.NewReader("a\xffb"), "a\ufffdb", nil},
		"as long as it may be":         {strings.NewReader(strings.Repeat("x", 20)), strings.Repeat("x", 20), nil},
		"longer than that":             {strings.NewReader(strings.Repeat("x", 21)), "", stdio.ErrTooLong},
		"blanks alone":                 {strings.NewReader(" \t\n"), "", stdio.ErrEmpty},
		"an input that fails halfway":  {io.MultiReader(strings.NewReader("a"), failing{broken}), "", broken},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := stdio.ReadPrompt(t.Context(), c.in, 20)
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("ReadPrompt = %q, %v; want %q, %v", got, err, c.want, c.err)
			}
		})
	}
}

// A read that waits is left behind when it is not wanted any more.
func TestReadPromptLeft(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no longer")
	cancel(why)
	if _, err := stdio.ReadPrompt(ctx, r, 20); !errors.Is(err, why) {
		t.Errorf("ReadPrompt = %v, want %v", err, why)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
