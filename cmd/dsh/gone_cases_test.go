//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dsh/sdkproto"
)

// goneModel streams for ever, holds on to a program, or says 26 MB.
func goneModel() string {
	return `
rules:
  - when: {text: talk}
    reply: [{text: "word ", repeat: 100000, every: 5ms}]
  - when: {text: hold, step: 1}
    reply: [{call: {tool: bash, args: {command: "touch ready; sleep 300 & sleep 300"}}}]
  - when: {text: work, step: 1}
    reply: [{call: {tool: bash, args: {command: "touch ready; until test -e go; do sleep 0.02; done; touch went"}}}]
  - when: {text: flood}
    reply: [{chunks: ["` + strings.Repeat("0123456789", 100) + `"], repeat: 26000}]
  - reply: Done.
`
}

// unread is a program whose output the test itself reads, or does not.
type unread struct {
	*place
	*peer
	out  *os.File
	mark string
}

func startUnreadAt(t *testing.T, model string) *unread {
	t.Helper()
	u := &unread{place: newPlace(t, model)}
	u.mark = fmt.Sprintf("DSH_TEST_MARK=%d.%d", os.Getpid(), time.Now().UnixNano())
	env := []string{"PATH=" + os.Getenv("PATH"), "DSH_HOME=" + u.home, "DSH_SCRIPT=" + u.model, u.mark}
	p, out, err := startUnread("dsh", []string{"--profile", "sdk"}, env, u.ws, filepath.Join(u.root, "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	u.peer, u.out = p, out
	t.Cleanup(p.abandon)
	t.Cleanup(func() { out.Close() })
	if err := p.send(initializeFrame(u.ws, "scripted")); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestB75 takes the client away while a session streams and a program runs: the
// process ends within seconds, without a crash, with a code that tells, with whole
// logs and nothing left behind (case B75 a to c; decision R12: what counts is
// whether a frame was lost before the input had ended).
func TestB75(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		leave func(u *unread) error
		codes []int
	}{
		"closes its read end": {func(u *unread) error { return u.out.Close() }, []int{1}},
		// The kernel closes both for a client that was killed.
		"is killed":      {func(u *unread) error { return errors.Join(u.out.Close(), u.in.Close()) }, []int{0, 1}},
		"ends its input": {func(u *unread) error { go io.Copy(io.Discard, u.out); return u.in.Close() }, []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := startUnreadAt(t, goneModel())
			for _, session := range []string{"talk", "hold"} {
				if err := u.send(promptFrame(session, session, session)); err != nil {
					t.Fatal(err)
				}
			}
			awaitFile(t, filepath.Join(u.ws, "ready"))
			var read bytes.Buffer
			for !bytes.Contains(read.Bytes(), []byte(`"text-delta"`)) { // it streams
				if err := u.out.SetReadDeadline(time.Now().Add(patience)); err != nil {
					t.Fatal(err)
				}
				if _, err := io.CopyN(&read, u.out, 512); err != nil {
					t.Fatal(err)
				}
			}
			if err := u.out.SetReadDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			if err := tc.leave(u); err != nil {
				t.Fatal(err)
			}
			select {
			case <-u.exited:
			case <-time.After(patience):
				t.Fatal(u.failure("the process does not end"))
			}
			code := u.cmd.ProcessState.ExitCode()
			ok := false
			for _, want := range tc.codes {
				ok = ok || code == want
			}
			if !ok {
				t.Error(u.failure(fmt.Sprintf("exit code %d, want one of %v", code, tc.codes)))
			}
			said, err := os.ReadFile(u.peer.stderr)
			if err != nil || bytes.Contains(said, []byte("goroutine")) {
				t.Errorf("standard error (%v): %s", err, said)
			}
			wantGone(t, u.mark)
			for _, session := range []string{"talk", "hold"} {
				events, err := readStored(u.stored(session))
				if err != nil {
					t.Fatal(err)
				}
				if err := checkStored(events); err != nil {
					t.Errorf("session %s: %v", session, err)
				}
				aborted := map[string]any{"type": sdkproto.TypeTurnEnd, "data": map[string]any{"reason": map[string]any{"kind": "aborted"}}}
				if last := events[len(events)-1]; !matches(aborted, last) {
					t.Errorf("session %s: the log ends with %s", session, show(last))
				}
			}
		})
	}
}
