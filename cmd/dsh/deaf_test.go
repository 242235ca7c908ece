package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"dsh/sdkproto"
)

// TestDeaf is about clients that do not read: the program goes on reading, ends
// when it is asked to, and its log is complete. Spec jsonrpc 1.6, 14 line 19,
// case B75, decisions R3, R4, R12.
func TestDeaf(t *testing.T) {
	t.Parallel()
	const model = `
rules:
  - reply:
      - {text: "words and words and more words and so on ", repeat: 100000}
`
	for name, tc := range map[string]struct {
		// then is what the client does when the output is full: stdin and the
		// read end of stdout are at hand.
		then func(in, out *os.File) error
		code int
	}{
		"asks for the end": {
			func(in, _ *os.File) error {
				_, err := in.WriteString(shutdownFrame)
				return err
			}, 0,
		},
		"ends its input": {func(in, _ *os.File) error { return in.Close() }, 0},
		// A frame could not be written although input had not ended: exit 1 (R12).
		"closes its read end": {func(_, out *os.File) error { return out.Close() }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := newPlace(t, model)
			childIn, in, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			out, childOut, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			defer out.Close()
			stderr, err := os.Create(filepath.Join(at.root, "stderr"))
			if err != nil {
				t.Fatal(err)
			}
			defer stderr.Close()
			cmd := exec.Command("dsh", "--profile", "sdk")
			cmd.Dir, cmd.Env = at.ws, []string{"PATH=" + os.Getenv("PATH"), "DSH_HOME=" + at.home, "DSH_SCRIPT=" + at.model}
			cmd.Stdin, cmd.Stdout, cmd.Stderr = childIn, childOut, stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			exited := make(chan struct{})
			go func() {
				_ = cmd.Wait() // the state tells
				close(exited)
			}()
			defer func() {
				_ = cmd.Process.Kill()
				<-exited
			}()
			if err := errors.Join(childIn.Close(), childOut.Close()); err != nil {
				t.Fatal(err)
			}
			if _, err := in.Write(slices.Concat(initializeFrame(at.ws, "scripted"), promptFrame("p", "s", "talk"))); err != nil {
				t.Fatal(err)
			}
			awaitRest(t, at.stored("s"))
			if err := tc.then(in, out); err != nil {
				t.Fatal(err)
			}
			select {
			case <-exited:
			case <-time.After(patience):
				t.Fatal("the process does not end")
			}
			if got := cmd.ProcessState.ExitCode(); got != tc.code {
				said, _ := os.ReadFile(stderr.Name())
				t.Errorf("exit code %d, want %d; standard error:\n%s", got, tc.code, said)
			}
			events, err := readStored(at.stored("s"))
			if err != nil {
				t.Fatal(err)
			}
			if err := checkStored(events); err != nil {
				t.Error(err)
			}
			aborted := map[string]any{"type": sdkproto.TypeTurnEnd, "data": map[string]any{"reason": map[string]any{"kind": "aborted"}}}
			if last := events[len(events)-1]; !matches(aborted, last) {
				t.Errorf("the log ends with %s", show(last))
			}
		})
	}
}

// awaitRest waits until a file has something in it and stops growing, which
// means here that the program waits for its client. Being early makes the test
// weaker, not wrong.
func awaitRest(t *testing.T, file string) {
	t.Helper()
	const pace = 150 * time.Millisecond
	last := int64(0)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pace) {
		info, err := os.Stat(file)
		if err == nil && info.Size() > 0 && info.Size() == last {
			return
		}
		if err == nil {
			last = info.Size()
		}
	}
	t.Fatal(fmt.Errorf("%s goes on growing to %d bytes although nobody reads", file, last))
}
