//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"dsh/kernel/process/processtest"
)

// TestB62 starts programs that go on behind their shell: each call returns with
// what the shell said, the child lives on, and nothing outlives its session or
// the process (case B62).
func TestB62(t *testing.T) {
	t.Parallel()
	d := startDoing(t)
	commands := map[string]string{
		"silent": "sleep 300 & echo done",
		"chatty": "(while :; do echo x; sleep 0.1; done) & echo done",
		"nohup":  "nohup sleep 300 >log 2>&1 & echo done",
		"flood":  "yes & sleep 1; echo done",
	}
	for session, command := range commands {
		d.ask(session, "bash", map[string]any{"command": command})
	}
	for session := range commands {
		got := d.result(session)
		if got.failed || !strings.Contains(got.text, "done\n") || !strings.Contains(got.text, "still running") {
			t.Errorf("%s: failed %v, text ends with %q", session, got.failed, got.text[max(0, len(got.text)-300):])
		}
		if got.line > 1<<20 {
			t.Errorf("%s: a frame of %d bytes", session, got.line)
		}
	}
	if pids, err := processtest.Marked(d.mark); err != nil || len(pids) < 1+len(commands) {
		t.Errorf("processes %v, %v: the children should live", pids, err)
	}
	// The end of a session ends its own only. (The chatty loop starts and ends
	// programs all the time, so these are not counted.)
	if n := sleepers(t, d.mark); n != 2 {
		t.Errorf("%d programs sleep before the end of a session, want those of silent and nohup", n)
	}
	if got := d.request("close", "session/close", `{"sessionId":"silent"}`); !matches(map[string]any{"result": map[string]any{}}, got) {
		t.Errorf("close answered %s", show(got))
	}
	if n := sleepers(t, d.mark); n != 1 {
		t.Errorf("%d programs sleep after the end of a session, want that of nohup", n)
	}
	d.end()
}

// sleepers counts the programs "sleep 300" that carry the mark.
func sleepers(t *testing.T, mark string) (n int) {
	t.Helper()
	pids, err := processtest.Marked(mark)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		// One that has ended meanwhile has no command line.
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && string(line) == "sleep\x00300\x00" {
			n++
		}
	}
	return n
}

// TestB63 lets commands run into their limit: the whole tree ends, the output so
// far is there, another session and a next prompt work (case B63).
func TestB63(t *testing.T) {
	t.Parallel()
	d := startDoing(t)
	commands := map[string]string{
		"plain":     "echo out; sleep 300",
		"pipeline":  "echo out; sleep 300 | cat",
		"stubborn":  `echo out; bash -c 'trap "" TERM; sleep 300'`,
		"away":      "echo out; setsid sleep 300 & sleep 300",
		"children":  "echo out; sh -c 'sleep 300 & sleep 300 & wait'",
		"own-group": "echo out; trap '' TERM; kill -TERM 0; sleep 300",
	}
	if !hasSetsid() {
		delete(commands, "away")
	}
	d.ask("other", "bash", map[string]any{"command": "for i in 1 2 3 4 5 6; do sleep 0.5; echo $i; done"})
	for session, command := range commands {
		d.ask(session, "bash", map[string]any{"command": command, "timeoutMs": 1000})
	}
	for session := range commands {
		got := d.result(session)
		if !got.failed || got.code == "" || !strings.HasPrefix(got.text, "out\n") || !strings.Contains(got.text, "1s") {
			t.Errorf("%s: %+v, want an error with the output so far", session, got)
		}
	}
	if got := d.bash("killer", "echo out; kill -TERM 0; sleep 300"); !strings.HasPrefix(got.text, "out\n") || !strings.Contains(got.text, "SIGTERM") {
		t.Errorf("TERM to its own group: %+v", got)
	}
	if got := d.result("other"); got.failed || got.text != "1\n2\n3\n4\n5\n6\n" {
		t.Errorf("the other session: %+v", got)
	}
	d.request("close", "session/close", `{"sessionId":"away"}`)
	d.bash("probe", "true")
	// What is left is the harness itself and its guard.
	if pids, err := processtest.Marked(d.mark); err != nil || len(pids) > 2 {
		t.Errorf("processes %v, %v: only the harness should be left", pids, err)
	}
	if got := d.bash("plain", "echo again"); got.failed || got.text != "again\n" {
		t.Errorf("the next prompt: %+v", got)
	}
	d.end()
}

func hasSetsid() bool {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, "setsid")); err == nil {
			return true
		}
	}
	return false
}

// TestB64 runs programs that ask: each finds its input empty and fails fast (case
// B64).
func TestB64(t *testing.T) {
	t.Parallel()
	d := startDoing(t)
	for i, tc := range []struct{ command, want string }{
		{"cat; echo code $?", "code 0\n"},
		{"read x; echo got:$x", "got:\n"},
		{"cat & wait; echo code $?", "code 0\n"},
		{"{ read x; echo got:$x; } & wait", "got:\n"},
		{"cat & echo started", "started\n"},
		{"git init -q . && git -c user.name=n -c user.email=e commit --allow-empty", "[exit code: 1]"},
		{"python3 -c 'input()'", "EOFError"},
		{"$EDITOR file; echo code $?", "code 1\n"},
		{"stty -a; : </dev/tty || echo no terminal", "no terminal"},
	} {
		if got := d.bash(fmt.Sprint("s", i), tc.command); !strings.Contains(got.text, tc.want) {
			t.Errorf("%s: %q, want %q in it", tc.command, got.text, tc.want)
		}
	}
	d.end()
}

// TestB64Frames lets a program read its input while frames wait on the input of
// the harness, which stands still: it gets none of them, and all are answered
// (case B64, last part).
func TestB64Frames(t *testing.T) {
	t.Parallel()
	d := startDoing(t)
	d.ask("s", "bash", map[string]any{"command": "touch ready; until test -e go; do sleep 0.02; done; cat >cat.out; read x; echo \"$x\" >read.out; head -c 1 <&0 >head.out; mv go went; echo done"})
	file := func(name string) string { return filepath.Join(d.ws, name) }
	awaitFile(t, file("ready"))
	d.must(d.peer.cmd.Process.Signal(syscall.SIGSTOP))
	const frames = 50
	var raw []byte
	for i := range frames {
		raw = append(raw, fmt.Sprintf(`{"id":"f%d","method":"ping"}`+"\n", i)...)
	}
	d.must(d.send(raw))
	d.must(os.WriteFile(file("go"), nil, 0o600))
	awaitFile(t, file("went"))
	d.must(d.peer.cmd.Process.Signal(syscall.SIGCONT))
	for i := range frames {
		_, err := d.answer(fmt.Sprint("f", i))
		d.must(err)
	}
	if got := d.result("s"); got.failed || got.text != "done\n" {
		t.Errorf("the program: %+v", got)
	}
	for _, name := range []string{"cat.out", "read.out", "head.out"} {
		got, err := os.ReadFile(file(name))
		d.must(err)
		if len(bytes.TrimSpace(got)) > 0 {
			t.Errorf("%s: the program read %q", name, got)
		}
	}
	d.end()
}

// TestB65 reads, edits twice and writes files whose line ends are not the usual
// ones, again and again: only the edited lines change, and nothing else drifts
// (case B65).
func TestB65(t *testing.T) {
	t.Parallel()
	d := startDoing(t)
	for name, tc := range map[string]struct{ before, edited, written string }{
		"lf":        {"one\ntwo\nthree\nfour\n", "one\nTWO\nand a half\nTHREE\nfour\n", "new\nlines\n"},
		"crlf":      {"one\r\ntwo\r\nthree\r\nfour\r\n", "one\r\nTWO\r\nand a half\r\nTHREE\r\nfour\r\n", "new\r\nlines\r\n"},
		"mixed":     {"zero\r\none\r\ntwo\r\nthree\r\nfour\nfive\r\n", "zero\r\none\r\nTWO\r\nand a half\r\nTHREE\r\nfour\nfive\r\n", "new\r\nlines\r\n"},
		"mark":      {"\ufeffone\r\ntwo\r\nthree\r\n", "\ufeffone\r\nTWO\r\nand a half\r\nTHREE\r\n", "\ufeffnew\r\nlines\r\n"},
		"none-crlf": {"one\r\ntwo\r\nthree", "one\r\nTWO\r\nand a half\r\nTHREE", ""},
		"none-lf":   {"one\ntwo\nthree", "one\nTWO\nand a half\nTHREE", ""},
	} {
		path := filepath.Join(d.ws, name+".txt")
		d.must(os.WriteFile(path, []byte(tc.before), 0o600))
		want := func(step string, want string) {
			t.Helper()
			got, err := os.ReadFile(path)
			d.must(err)
			if string(got) != want {
				t.Errorf("%s, %s: %q, want %q", name, step, got, want)
			}
		}
		good := func(tool string, args map[string]any) {
			t.Helper()
			args["file_path"] = name + ".txt"
			if got := d.do(name, tool, args); got.failed {
				t.Errorf("%s, %s: %s", name, tool, got.text)
			}
		}
		for range 5 {
			good("read", map[string]any{})
			good("edit", map[string]any{"old_string": "two\nthree", "new_string": "TWO\nTHREE"})
			good("edit", map[string]any{"old_string": "TWO\n", "new_string": "TWO\nand a half\n"})
			want("edited", tc.edited)
			good("edit", map[string]any{"old_string": "TWO\nand a half\nTHREE", "new_string": "two\nthree"})
			want("edited back", tc.before)
		}
		if tc.written != "" {
			good("write", map[string]any{"content": "new\nlines\n"})
			want("written", tc.written)
		}
	}
	d.end()
}

// TestB74 sends a second signal while the end waits for a program: the wait is cut
// short, nothing is done twice, and what is on the disk is whole (case B74; the
// order of stops is in the tests of the kernel).
func TestB74(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		signals []os.Signal
		code    int
	}{
		"TERM twice":    {[]os.Signal{syscall.SIGTERM, syscall.SIGTERM}, 143},
		"INT then TERM": {[]os.Signal{os.Interrupt, syscall.SIGTERM}, 143},
		"TERM then INT": {[]os.Signal{syscall.SIGTERM, os.Interrupt}, 130},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// On a busy machine the first signal may come to its end before the
			// second is seen.
			first := map[os.Signal]int{syscall.SIGTERM: 0, os.Interrupt: 130}[tc.signals[0]]
			for attempt := range 5 {
				code := endBySignals(t, tc.signals)
				if code == tc.code {
					return
				}
				if code != first || attempt == 4 {
					t.Fatalf("exit code %d, want %d", code, tc.code)
				}
			}
		})
	}
}

func endBySignals(t *testing.T, signals []os.Signal) int {
	d := startDoing(t)
	d.bash("done", "echo before")
	// It takes the whole grace to end.
	d.ask("s", "bash", map[string]any{"command": "trap '' TERM; touch ready; while :; do sleep 0.05; done"})
	awaitFile(t, filepath.Join(d.ws, "ready"))
	for _, s := range signals {
		_ = d.peer.cmd.Process.Signal(s) // it may have ended
		time.Sleep(10 * time.Millisecond)
	}
	code, err := d.exitCode()
	d.must(err)
	wantGone(t, d.mark)
	for _, id := range []string{"done", "s"} {
		data, err := os.ReadFile(d.stored(id))
		d.must(err)
		if n := bytes.Count(data, []byte(`"type":"turn/end"`)); n > 1 {
			t.Errorf("session %s has %d ends of its turn", id, n)
		}
	}
	// A next process goes on with both.
	second := d.start(t)
	for _, id := range []string{"done", "s"} {
		d.must(second.send(promptFrame("again "+id, id, "hello")))
		d.must(wantAnswer(second, "again "+id, map[string]any{"result": map[string]any{}}))
	}
	for _, id := range []string{"done", "s"} {
		d.must(second.wait("the end of session "+id, func(all []entry) bool {
			return slices.ContainsFunc(all, func(e entry) bool {
				return matches(map[string]any{"params": map[string]any{"sessionId": id, "status": "idle"}}, e.value)
			})
		}))
	}
	d.must(second.send([]byte(shutdownFrame)))
	d.must(second.wantExit(0))
	for _, id := range []string{"done", "s"} {
		events, err := readStored(d.stored(id))
		d.must(err)
		d.must(checkStored(events))
	}
	return code
}
