//go:build linux && long

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"dsh/sdkproto"
)

const (
	stall       = 60 * time.Second
	largeOutput = 500_000_000
)

// TestB02 gives one process 3,000 prompts, each answered with 40 KB: the last is
// served as the first was, and what the process holds does not grow with what it
// read and wrote, but for the history of a session that is open (case B02).
func TestB02(t *testing.T) {
	const prompts, warm, size = 3000, 300, 40_000
	model := "rules:\n  - reply: [{chunks: [\"" + strings.Repeat("0123456789", size/100) + "\"], repeat: 10}]\n"
	for name, tc := range map[string]struct {
		// session of a prompt; one that is over is closed.
		session func(i int) string
		// kept is how much history stays open.
		kept int
	}{
		"sessions of ten prompts": {func(i int) string { return fmt.Sprint("s", i/10) }, 0},
		"one session":             {func(int) string { return "s" }, prompts * size},
	} {
		t.Run(name, func(t *testing.T) {
			u := startUnreadAt(t, model)
			if err := u.in.SetWriteDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReaderSize(u.out, 1<<20)
			idle := []byte(`"status":"` + string(sdkproto.StatusIdle) + `"`)
			until := func(what []byte) {
				t.Helper()
				for {
					line, err := lines.ReadBytes('\n')
					if err != nil {
						t.Fatal(err)
					}
					if bytes.Contains(line, what) && len(line) < 300 {
						return
					}
				}
			}
			begun := 0
			for i := range prompts {
				session := tc.session(i)
				// Not by send, which keeps what it wrote.
				if _, err := u.in.Write(promptFrame("p", session, strings.Repeat("b", 1000))); err != nil {
					t.Fatal(err)
				}
				until(idle)
				if i+1 < prompts && tc.session(i+1) != session {
					if _, err := fmt.Fprintf(u.in, `{"id":"c","method":"session/close","params":{"sessionId":%q}}`+"\n", session); err != nil {
						t.Fatal(err)
					}
					until([]byte(`"id":"c"`))
				}
				if i+1 == warm {
					begun = memory(t, u.cmd.Process.Pid, "VmRSS")
				}
			}
			end := memory(t, u.cmd.Process.Pid, "VmRSS")
			t.Logf("%d MiB after %d prompts, %d MiB after %d", begun>>20, warm, end>>20, prompts)
			// The history is text in memory, and garbage until it is collected.
			if most := begun*3/2 + 3*tc.kept; end > most {
				t.Errorf("%d MiB after %d prompts, %d MiB after %d, want at most %d MiB", begun>>20, warm, end>>20, prompts, most>>20)
			}
			if _, err := u.in.WriteString(shutdownFrame); err != nil {
				t.Fatal(err)
			}
			until([]byte(`"id":"bye"`))
			<-u.exited
			if code := u.cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}
