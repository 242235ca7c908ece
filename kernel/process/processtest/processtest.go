// Package processtest is the conformance suite of process.Runner. It needs a
// Unix with bash.
package processtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dsh/kernel/process"
	"dsh/kernel/stdio"
)

// markName is the variable that marks the suite's programs.
const markName = "PROCESSTEST_MARK"

// hang is when the suite takes a call for stuck. What its programs wait for
// takes ten times as long, so a call that is back has not waited for it.
const hang = 30 * time.Second

// escapes: the system shows enough of other processes to find those that left
// the group of the program they came from.
const escapes = runtime.GOOS == "linux"

// Suite checks that a runner does what the contract says. start gives a fresh
// runner that is closed when the test ends.
func Suite(t *testing.T, start func(t *testing.T) process.Runner) {
	// As main does: whoever runs the tests may have let some slip.
	stdio.KeepFromChildren()
	t.Run("outcome", func(t *testing.T) { outcome(t, start(t)) })
	t.Run("no input and no descriptors", func(t *testing.T) { input(t, start(t)) })
	t.Run("background", func(t *testing.T) { background(t, start) })
	t.Run("timeout", func(t *testing.T) { timeout(t, start) })
	t.Run("cancel", func(t *testing.T) { cancel(t, start(t)) })
	t.Run("sessions are apart", func(t *testing.T) { apart(t, start(t)) })
	t.Run("output ends with the call", func(t *testing.T) { late(t, start(t)) })
	t.Run("nothing started", func(t *testing.T) { refused(t, start(t)) })
	t.Run("many at once", func(t *testing.T) { many(t, start(t)) })
}

// shell is a bash command whose processes can be found again.
type shell struct {
	t    *testing.T
	mark string
	dir  string
}

var marks atomic.Int64

func newShell(t *testing.T) *shell {
	t.Helper()
	s := &shell{t: t, mark: fmt.Sprintf("%d-%d-%d;", os.Getpid(), time.Now().UnixNano(), marks.Add(1)), dir: t.TempDir()}
	t.Cleanup(func() {
		for _, pid := range s.alive() {
			t.Errorf("process %d is left over after the test", pid)
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	})
	return s
}

func (s *shell) command(script string, out *Buffer) process.Command {
	return process.Command{
		Path: "bash", Args: []string{"-c", script}, Dir: s.dir,
		Env: []string{markName + "=" + s.mark}, Output: out, SessionID: "session",
	}
}

// alive gives the ids of the shell's living processes.
func (s *shell) alive() []int {
	s.t.Helper()
	pids, err := Marked(markName + "=" + s.mark)
	if err != nil {
		s.t.Fatal(err)
	}
	return pids
}

func (s *shell) wantGone(what string) {
	s.t.Helper()
	var pids []int
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if pids = s.alive(); len(pids) == 0 {
			return
		}
	}
	s.t.Errorf("%s: processes %v are still alive", what, pids)
}

func run(t *testing.T, r process.Runner, c process.Command) process.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	exit, err := r.Run(ctx, c)
	if err != nil {
		t.Fatalf("run %v: %v", c.Args, err)
	}
	if exit.Cancelled {
		t.Fatalf("run %v: not back after %v", c.Args, hang)
	}
	return exit
}

func endSession(t *testing.T, r process.Runner, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	if err := r.EndSession(ctx, id); err != nil {
		t.Errorf("end session: %v", err)
	}
}

func outcome(t *testing.T, r process.Runner) {
	for _, tc := range []struct {
		name, script, out string
		exit              process.Exit
	}{
		{"success", "echo out", "out\n", process.Exit{}},
		{"status", "echo a; echo b >&2; exit 3", "a\nb\n", process.Exit{Code: 3}},
		{"signal", "kill -KILL $$", "", process.Exit{Code: -1, Signal: "SIGKILL"}},
		{"TERM to its own group", "echo before; kill -TERM 0; sleep 60", "before\n", process.Exit{Code: -1, Signal: "SIGTERM"}},
		{"no output", "true", "", process.Exit{}},
		{"bytes as they are", `printf 'a\r\n\377\0b'`, "a\r\n\xff\x00b", process.Exit{}},
		{"a pipeline", "seq 3 | tail -1", "3\n", process.Exit{}},
		{"output through another process", "exec > >(sleep 0.05; cat); echo slow", "slow\n", process.Exit{}},
		{"directory", `test "$PWD" = "$(pwd -P)" && pwd | grep -c /`, "1\n", process.Exit{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, out := newShell(t), &Buffer{}
			dir, err := filepath.EvalSymlinks(s.dir)
			if err != nil {
				t.Fatal(err)
			}
			s.dir = dir
			c, started := s.command(tc.script, out), 0
			c.Started = func() { started++ }
			if exit := run(t, r, c); exit != tc.exit || started != 1 {
				t.Errorf("exit is %+v, want %+v; started was called %d times", exit, tc.exit, started)
			}
			if out.String() != tc.out {
				t.Errorf("output is %q, want %q", out, tc.out)
			}
		})
	}
}

// input is the first half of case B64.
func input(t *testing.T, r process.Runner) {
	for _, tc := range []struct{ name, script, out string }{
		{"cat", "cat; echo $?", "0\n"},
		{"read", `read x; echo "$? got:$x"`, "1 got:\n"},
		{"read in the background", `{ read x; echo "$? got:$x"; } & wait`, "1 got:\n"},
		{"no terminal", `: 2>/dev/null </dev/tty || echo none`, "none\n"},
		{"descriptors", `for fd in /dev/fd/*; do fd=${fd##*/}; case $fd in 0|1|2) echo $fd;; *) if [ -e /dev/fd/$fd ]; then echo $fd; fi;; esac; done`, "0\n1\n2\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, out := newShell(t), &Buffer{}
			run(t, r, s.command(tc.script, out))
			if out.String() != tc.out {
				t.Errorf("output is %q, want %q", out, tc.out)
			}
		})
	}
}

// background is case B62.
func background(t *testing.T, start func(t *testing.T) process.Runner) {
	type one struct{ name, script string }
	cases := []one{
		{"silent", "sleep 300 & echo done"},
		{"chatty", "(while :; do echo x; sleep 0.1; done) & echo done"},
		{"nohup", "nohup sleep 300 >log 2>&1 & echo done"},
		{"flood", "yes & sleep 0.2; echo done"},
		{"ignores TERM", `(trap "" TERM; sleep 300; sleep 300) & echo done`},
		{"stopped", "sleep 300 & kill -STOP $!; echo done"},
	}
	if escapes {
		cases = append(cases,
			one{"left the group", "setsid sleep 300 & echo done"},
			one{"job control", "set -m; sleep 300 & echo done"})
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			r, s, out := start(t), newShell(t), &Buffer{Limit: 4 << 20}
			exit := run(t, r, s.command(tc.script, out))
			if exit.Code != 0 || exit.Signal != "" || exit.TimedOut {
				t.Errorf("exit is %+v, want success", exit)
			}
			if !out.Has("done\n") {
				t.Errorf("output %.100q lacks what the program itself wrote", out)
			}
			if exit.Left < 1 {
				t.Errorf("%d programs are reported as left, want at least 1", exit.Left)
			}
			if len(s.alive()) == 0 {
				t.Error("the child did not outlive the call")
			}
			endSession(t, r, "session")
			s.wantGone("after the end of the session")
		})
	}
}

// timeout is case B63.
func timeout(t *testing.T, start func(t *testing.T) process.Runner) {
	type one struct {
		name, script string
		left         int
	}
	cases := []one{
		{"plain", "echo out; sleep 300", 0},
		{"pipeline", "echo out; sleep 300 | cat", 0},
		{"ignores TERM", `echo out; bash -c 'trap "" TERM; sleep 300'`, 0},
		{"ignores TERM in a loop", `trap "" TERM; echo out; while :; do sleep 1; done`, 0},
		{"children", `echo out; sh -c 'sleep 300 & sleep 300 & wait'`, 0},
		{"stopped", "echo out; kill -STOP $$", 0},
	}
	if escapes {
		cases = append(cases,
			one{"left the group", "echo out; setsid sleep 300 & sleep 300", 1},
			one{"job control", "echo out; set -m; sleep 300 & wait", 0})
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, s, out := start(t), newShell(t), &Buffer{}
			c := s.command(tc.script, out)
			c.Timeout = time.Second
			exit := run(t, r, c)
			if !exit.TimedOut || exit.Left != tc.left {
				t.Errorf("exit is %+v, want a time-out that leaves %d", exit, tc.left)
			}
			if out.String() != "out\n" {
				t.Errorf("output is %q, want what was written before", out)
			}
			if tc.left == 0 {
				s.wantGone("after the time-out")
			}
			// The runner still works, and ends the rest.
			if exit := run(t, r, s.command("exit 5", out)); exit.Code != 5 {
				t.Errorf("the next program: %+v, want status 5", exit)
			}
			endSession(t, r, "session")
			s.wantGone("after the end of the session")
		})
	}
}

func cancel(t *testing.T, r process.Runner) {
	s, out := newShell(t), &Buffer{}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out.OnWrite = cancel
	exit, err := r.Run(ctx, s.command("echo out; sleep 300 & sleep 300", out))
	if err != nil {
		t.Fatal(err)
	}
	if !exit.Cancelled || exit.TimedOut || exit.Left != 0 {
		t.Errorf("exit is %+v, want cancelled with nothing left", exit)
	}
	if out.String() != "out\n" {
		t.Errorf("output is %q, want what was written before", out)
	}
	s.wantGone("after the cancellation")
}

func apart(t *testing.T, r process.Runner) {
	one, other := newShell(t), newShell(t)
	second := "sleep"
	if escapes {
		second = "setsid sleep"
	}
	for id, s := range map[string]*shell{"one": one, "other": other} {
		c := s.command("sleep 300 & "+second+" 300 >/dev/null 2>&1 & echo done", &Buffer{})
		c.SessionID = id
		run(t, r, c)
	}
	endSession(t, r, "one")
	one.wantGone("after the end of its session")
	if n := len(other.alive()); n != 2 {
		t.Errorf("%d processes of the other session live, want 2", n)
	}
	endSession(t, r, "other")
	other.wantGone("after the end of its session")
	endSession(t, r, "one")
	endSession(t, r, "never used")
}

func late(t *testing.T, r process.Runner) {
	s, out := newShell(t), &Buffer{Limit: 1 << 20}
	run(t, r, s.command("yes & (while :; do echo x; sleep 0.01; done) & echo done", out))
	before := out.Len()
	time.Sleep(200 * time.Millisecond)
	if after := out.Len(); after != before {
		t.Errorf("%d bytes came after Run had returned", after-before)
	}
	endSession(t, r, "session")
	s.wantGone("after the end of the session")
}

func refused(t *testing.T, r process.Runner) {
	s := newShell(t)
	c := s.command("echo out", &Buffer{})
	c.Path = "no-such-program-anywhere"
	if _, err := r.Run(context.Background(), c); !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), c.Path) {
		t.Errorf("missing program: error is %v, want one that names it", err)
	}
	c = s.command("echo out", &Buffer{})
	c.Dir = filepath.Join(s.dir, "missing")
	if _, err := r.Run(context.Background(), c); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), c.Dir) {
		t.Errorf("missing directory: error is %v, want one that names it", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("no longer wanted")
	cancel(why)
	if _, err := r.Run(ctx, s.command("echo out > file", &Buffer{})); !errors.Is(err, why) {
		t.Errorf("ended context: error is %v, want its cause", err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "file")); err == nil {
		t.Error("a program was started after its context had ended")
	}
}

func many(t *testing.T, r process.Runner) {
	s := newShell(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			out := &Buffer{}
			c := s.command(fmt.Sprintf("echo %d; exit %d", i, i), out)
			c.SessionID = fmt.Sprint(i % 3)
			ctx, cancel := context.WithTimeout(context.Background(), hang)
			defer cancel()
			exit, err := r.Run(ctx, c)
			if err != nil || exit != (process.Exit{Code: i}) || out.String() != fmt.Sprintf("%d\n", i) {
				t.Errorf("program %d: %+v, %v, output %q", i, exit, err, out)
			}
		})
	}
	wg.Wait()
}

// Buffer keeps output; only the beginning and the last bytes of much.
type Buffer struct {
	// Limit bounds what is kept at either end, 0 for no bound.
	Limit int
	// OnWrite is called after each write.
	OnWrite func()

	mu         sync.Mutex
	head, tail []byte
	n          int
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	b.n += len(p)
	if b.Limit == 0 || len(b.head) < b.Limit {
		b.head = append(b.head, p...)
	} else {
		b.tail = append(b.tail, p...)
		if over := len(b.tail) - b.Limit; over > b.Limit {
			b.tail = append(b.tail[:0], b.tail[over:]...)
		}
	}
	b.mu.Unlock()
	if b.OnWrite != nil {
		b.OnWrite()
	}
	return len(p), nil
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.head) + string(b.tail)
}

// Has says whether what was kept contains s.
func (b *Buffer) Has(s string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Contains(b.head, []byte(s)) || bytes.Contains(b.tail, []byte(s))
}

// Len is the number of bytes written.
func (b *Buffer) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}
