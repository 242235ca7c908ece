//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"dsh/kernel/process/processtest"
)

// mark puts a variable of its own into the environment of the program and of all
// that it starts.
func (r *room) mark() string {
	mark := fmt.Sprintf("DCL_TEST_MARK=%d.%d", os.Getpid(), time.Now().UnixNano())
	r.env = append(r.env, mark)
	return mark
}

// gone waits until nothing runs that has a mark (rule 4 of the cases). Where there was
// no time to end a program it takes the system a few seconds.
func gone(t *testing.T, mark string) {
	t.Helper()
	var left []int
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		var err error
		if left, err = processtest.Marked(mark); err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("processes that live on: %v", left)
			return
		}
	}
}

// childrenModel has the model start programs of every kind: one that holds the turn
// up and has children, one that ignores the polite signal, and one left behind.
const childrenModel = `
rules:
  - when: {text: hold, step: 1}
    reply: [{call: {tool: Bash, args: {command: "sleep 301 & (trap '' TERM INT HUP; sleep 302) & echo > begun; sleep 303"}}}]
  - when: {text: leave, step: 1}
    reply: [{call: {tool: Bash, args: {command: "sleep 304 >/dev/null 2>&1 & echo > begun"}}}]
  - reply: "you said: {{user}}"
`

// serverArgs is a server that starts a program of its own and never answers.
const serverConfig = `{"mcpServers":{"mute":{"command":"sh","args":["-c","sleep 305 & sleep 306"]}}}`

// Checklist 14, spec stream-json 1.7, case B76, peers/claude 44 and 45: what a signal
// does while a command runs and while nothing does; no program lives on.
func TestSignals(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		prompt  string
		signals []os.Signal
		code    int
		result  bool
	}{
		"SIGTERM in a command":        {"hold", []os.Signal{syscall.SIGTERM}, 143, false},
		"SIGHUP in a command":         {"hold", []os.Signal{syscall.SIGHUP}, 1, false},
		"SIGHUP, idle":                {"", []os.Signal{syscall.SIGHUP}, 1, false},
		"SIGTERM twice":               {"hold", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, 143, false},
		"SIGTERM, idle":               {"", []os.Signal{syscall.SIGTERM}, 143, false},
		"SIGINT, idle":                {"", []os.Signal{os.Interrupt}, 130, false},
		"SIGTERM with a program left": {"leave", []os.Signal{syscall.SIGTERM}, 143, true},
		"SIGINT with a program left":  {"leave", []os.Signal{os.Interrupt}, 130, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).script(childrenModel)
			mark := r.mark()
			h := r.start("--permission-mode", "bypassPermissions", "--set", "process.graceMs=200")
			h.control("i", "initialize", nil)
			h.wait("system/init", func(l object) bool { return l["subtype"] == "init" })
			if tc.prompt != "" {
				h.user(tc.prompt)
				r.awaitFile("begun")
			}
			if tc.result {
				h.result(1)
			}
			for _, s := range tc.signals {
				if err := h.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Fatal(err)
				}
			}
			if code := h.exit(); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if got := len(h.of("result")) > 0; got != tc.result {
				t.Errorf("a result: %v, want %v", got, tc.result)
			}
			if said := h.errorOutput(); strings.Contains(said, "goroutine") {
				t.Errorf("standard error: %s", said)
			}
			gone(t, mark)
		})
	}
}

// Spec stream-json 1.7: SIGINT ends the running turn as an interrupt does, with its
// result, and the session goes on; the next SIGINT, with nothing running, ends it.
func TestInterruptBySignal(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(childrenModel)
	mark := r.mark()
	h := r.start("--permission-mode", "bypassPermissions", "--set", "process.graceMs=200")
	h.user("hold")
	r.awaitFile("begun")
	if err := h.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	aborted(t, h.result(1), "aborted_tools")
	h.user("next")
	if result := h.result(2); result["result"] != "you said: next" {
		t.Errorf("result %v", result)
	}
	if err := h.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := h.exit(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	gone(t, mark)
}

// Spec stream-json 1.7, case B31: the hooks on the end of the session run when the
// process is told to end.
func TestHooksOnSIGTERM(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(childrenModel)
	mark := r.mark()
	hooks := wireText(object{"hooks": object{"SessionEnd": []any{object{"hooks": []any{object{"type": "command", "command": "echo > ended"}}}}}})
	h := r.start("--permission-mode", "bypassPermissions", "--settings", hooks)
	h.user("hold")
	r.awaitFile("begun")
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := h.exit(); code != 143 || !r.exists("ended") {
		t.Errorf("exit code %d, the hook ran: %v", code, r.exists("ended"))
	}
	gone(t, mark)
}

// Case B76, spec stream-json 1.8: whichever way the input ends, no program that a
// call or a server started lives on.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   string
		code int
	}{
		"after a program left behind": {asks("leave"), 0},
		"with a server that is mute":  {requests("i", "initialize", nil), 0},
		"after a failed start":        {"", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).script(childrenModel)
			mark := r.mark()
			args := []string{"--permission-mode", "bypassPermissions", "--mcp-config", serverConfig, "--set", `mcp.connectTimeout="300ms"`}
			if tc.code == 1 {
				args = append(args, "--resume="+unknownID)
			}
			if c, _ := r.speak(tc.in, args...); c.code != tc.code {
				t.Errorf("exit code %d, want %d: %s", c.code, tc.code, c.stderr)
			}
			gone(t, mark)
		})
	}
}

// Case B75 a and b, spec stream-json 1.7: a client that no longer reads, or is gone,
// is the end: the turn is stopped, the session kept, programs ended, and the exit
// code is not 0.
func TestClientGoesAway(t *testing.T) {
	t.Parallel()
	const model = `
rules:
  - when: {text: talk}
    reply: [{text: "word ", repeat: 100000, every: 2ms}]
  - when: {text: hold, step: 1}
    reply: [{call: {tool: Bash, args: {command: "sleep 301 & echo > begun; sleep 302"}}}]
  - reply: "you said: {{user}}"
`
	closes := func(_ *host, out *os.File) error { return out.Close() }
	// The kernel closes both for a client that was killed.
	dies := func(h *host, out *os.File) error { return errors.Join(out.Close(), h.stdin.Close()) }
	for name, tc := range map[string]struct {
		prompt string
		leave  func(h *host, out *os.File) error
	}{
		"closes its read end":            {"talk", closes},
		"closes it while a command runs": {"hold", closes},
		"closes it while nothing runs":   {"", func(h *host, out *os.File) error { defer h.send(requestLine("r", "mcp_status")); return out.Close() }},
		"closes it and goes on":          {"talk", func(h *host, out *os.File) error { h.user("more"); return out.Close() }},
		"is killed":                      {"talk", dies},
		"is killed while a command runs": {"hold", dies},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).script(model)
			mark := r.mark()
			h, out := r.unread("--session-id="+someID, "--permission-mode", "bypassPermissions", "--include-partial-messages")
			h.send(requestLine("i", "initialize"))
			if tc.prompt != "" {
				h.user(tc.prompt)
			}
			switch tc.prompt {
			case "talk":
				readUntil(t, out, `"content_block_delta"`)
			case "hold":
				r.awaitFile("begun")
			default:
				readUntil(t, out, `"init"`)
			}
			if err := tc.leave(h, out); err != nil {
				t.Fatal(err)
			}
			if code := h.exit(); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if said := h.errorOutput(); strings.Contains(said, "goroutine") || strings.Contains(said, "panic") {
				t.Errorf("standard error: %s", said)
			}
			gone(t, mark)
			if tc.prompt == "" {
				return
			}
			// The session is whole: it can be gone on with.
			c, lines := r.speak(asks("again"), "--resume="+someID)
			if results := only(lines, "result/success"); c.code != 0 || len(results) != 1 || results[0]["session_id"] != someID {
				t.Errorf("resuming: exit code %d, %q\n%s", c.code, kinds(lines), c.stderr)
			}
		})
	}
}

// unread starts a program whose output the test itself reads, or does not.
func (r *room) unread(flags ...string) (*host, *os.File) {
	r.t.Helper()
	out, child, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { out.Close() })
	h := r.startWith(func(h *host) { h.cmd.Stdout = child }, flags...)
	child.Close()
	return h, out
}

// readUntil reads output until a text has come.
func readUntil(t *testing.T, out *os.File, text string) {
	t.Helper()
	var read bytes.Buffer
	for !bytes.Contains(read.Bytes(), []byte(text)) {
		if err := out.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(&read, out, 64); err != nil {
			t.Fatalf("%v before %s:\n%s", err, text, &read)
		}
	}
	if err := out.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
}

// Case B75 c: the end of the input alone lets the command that runs finish.
func TestEndWithACommand(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{bash("echo > begun; until test -e go; do sleep 0.01; done; echo > went")})
	mark := r.mark()
	h := r.start("--permission-mode", "bypassPermissions")
	h.user("go")
	r.awaitFile("begun")
	if err := h.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	r.write("go", "")
	if code := h.exit(); code != 0 || !r.exists("went") || len(h.of("result/success")) != 1 {
		t.Errorf("exit code %d, the command went on: %v, %d results", code, r.exists("went"), len(h.of("result")))
	}
	gone(t, mark)
}

// Case B75 d: a client that does not read for a while loses nothing, and what needs
// no output goes on meanwhile.
func TestClientStopsReading(t *testing.T) {
	t.Parallel()
	const chunks = 6000
	r := newRoom(t).script(`
rules:
  - when: {text: flood, step: 1}
    reply: [{call: {tool: Bash, args: {command: "echo > begun"}}}, {chunks: ["` + strings.Repeat("0123456789", 100) + `"], repeat: 6000}, {call: {tool: Bash, args: {command: "echo >> late"}}}]
  - reply: "you said: {{user}}"
`)
	h, out := r.unread("--permission-mode", "bypassPermissions", "--include-partial-messages", "--set", "front.legacyLines=false")
	h.user("flood")
	// The pipe is full when nothing comes out of it for a while; until then the model
	// has long begun.
	r.settles(func() int64 { return sizeOf(t, r) })
	h.user("next")
	h.user("last")
	if err := h.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	if _, err := io.Copy(&all, out); err != nil {
		t.Fatal(err)
	}
	if code := h.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	var lines []object
	for raw := range strings.Lines(all.String()) {
		line, faults := judge([]byte(strings.TrimSuffix(raw, "\n")))
		lines = append(lines, line)
		for _, fault := range faults {
			if !strings.HasPrefix(fault, faultLong) { // the model's text is that long
				t.Error(fault)
			}
		}
	}
	deltas := 0
	for _, l := range lines {
		if text, ok := dig(l, "event", "delta", "text").(string); ok {
			deltas += len(text)
		}
	}
	if n := len(only(lines, "result/success")); n != 3 || deltas < chunks*1000 {
		t.Errorf("%d results, want 3; %d bytes of text, want %d", n, deltas, chunks*1000)
	}
	if r.read("late") != "\n" {
		t.Errorf("the last call ran %d times", strings.Count(r.read("late"), "\n"))
	}
}

// settles waits until a number stays the same.
func (r *room) settles(number func() int64) {
	r.t.Helper()
	last, since := number(), time.Now()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if now := number(); now != last {
			last, since = now, time.Now()
		} else if now > 0 && time.Since(since) > 200*time.Millisecond {
			return
		}
	}
	r.t.Fatal("it does not come to rest")
}

// sizeOf is how much the program has stored.
func sizeOf(t *testing.T, r *room) (size int64) {
	t.Helper()
	for _, name := range r.files() {
		if info, err := os.Stat(r.home + "/" + name); err == nil {
			size += info.Size()
		}
	}
	return size
}
