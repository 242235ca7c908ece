//go:build unix

package processlocal

import (
	"bytes"
	"context"
	"testing"
	"time"

	"dsh/kernel/process/processtest"
)

// TestInput: a program reads what it is given, and then the end; it need not.
func TestInput(t *testing.T) {
	r, _ := start(t)
	big := bytes.Repeat([]byte("0123456789abcdef"), 64<<10) // more than a pipe holds
	for _, tc := range []struct {
		name, script string
		input        []byte
		want         string
	}{
		{"all of it", "wc -c | tr -d ' '", big, "1048576\n"},
		{"empty", "wc -c | tr -d ' '", []byte{}, "0\n"},
		{"none", "wc -c | tr -d ' '", nil, "0\n"},
		{"not read", "echo out", big, "out\n"},
		{"some of it", "head -c 4", big, "0123"},
		{"held by a child that does not read", "sleep 300 & echo out", big, "out\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := &processtest.Buffer{}
			c := shellCommand(t, tc.script, out)
			c.Input, c.SessionID = tc.input, tc.name
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			exit, err := r.Run(ctx, c)
			if err != nil || exit.Code != 0 || out.String() != tc.want {
				t.Errorf("got %q, %+v, %v", out, exit, err)
			}
			if err := r.EndSession(ctx, tc.name); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestErrors: standard error is apart only when somebody wants it.
func TestErrors(t *testing.T) {
	r, _ := start(t)
	for _, apart := range []bool{false, true} {
		out, errs := &processtest.Buffer{}, &processtest.Buffer{}
		c := shellCommand(t, "echo out; echo err >&2", out)
		if apart {
			c.Errors = errs
		}
		if _, err := r.Run(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		want, wantErrs := "out\nerr\n", ""
		if apart {
			want, wantErrs = "out\n", "err\n"
		}
		if out.String() != want || errs.String() != wantErrs {
			t.Errorf("apart %v: got %q and %q", apart, out, errs)
		}
	}
}
