//go:build unix

package processlocal

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/process"
	"dsh/kernel/process/processtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start makes a runner whose row is closed when the test ends.
func start(t testing.TB, change ...func(*Params)) (*Runner, *kernel.Owner) {
	t.Helper()
	o := kernel.NewOwner(context.Background(), "process")
	p := Params{
		Self: kernel.Instance{
			ID: "process", Owner: o, Root: kernel.NewRoot(o), Log: slog.New(slog.DiscardHandler),
		},
		Config: defaults(),
	}
	for _, f := range change {
		f(&p)
	}
	r, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.register(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := o.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r, o
}

func TestSuite(t *testing.T) {
	processtest.Suite(t, func(t *testing.T) process.Runner {
		r, _ := start(t)
		return r
	})
}

func shellCommand(t testing.TB, script string, out *processtest.Buffer) process.Command {
	return process.Command{Path: "bash", Args: []string{"-c", script}, Dir: t.TempDir(), Output: out, SessionID: "s"}
}

func runShell(t testing.TB, r *Runner, script string, env ...string) (string, process.Exit) {
	t.Helper()
	out := &processtest.Buffer{}
	c := shellCommand(t, script, out)
	c.Env = env
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	exit, err := r.Run(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), exit
}

func wantGone(t *testing.T, variable string) {
	t.Helper()
	wantGoneWithin(t, variable, 5*time.Second)
}

func wantGoneWithin(t *testing.T, variable string, limit time.Duration) {
	t.Helper()
	var pids []int
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var err error
		if pids, err = processtest.Marked(variable); err != nil {
			t.Fatal(err)
		} else if len(pids) == 0 {
			return
		}
	}
	t.Errorf("processes %v are still alive", pids)
}

// TestEnvironment is the second half of case B64, and decision D28.
func TestEnvironment(t *testing.T) {
	t.Setenv("SOME_PROVIDER_KEY", "secret-value")
	t.Setenv("GPG_TTY", "/dev/pts/99")
	t.Setenv("EDITOR", "vim")
	t.Setenv("GIT_ASKPASS", "answers-by-itself")
	t.Setenv("OTHER", "kept")
	r, _ := start(t, func(p *Params) { p.Self.CredentialEnv = kernel.NewCredentialEnv("SOME_PROVIDER_KEY") })
	for _, tc := range []struct{ name, script, want string }{
		{"a credential is not there", "env | grep -c secret-value", "0\n"},
		{"nor in the parents of the shell", `tr '\0' '\n' < /proc/self/environ 2>/dev/null | grep -c secret-value`, "0\n"},
		{"the rest is", "echo $OTHER", "kept\n"},
		{"editors fail", "echo $EDITOR $VISUAL", "false false\n"},
		{"a helper that was chosen stays", "echo $GIT_ASKPASS", "answers-by-itself\n"},
		{"no terminal of somebody else", `echo "[$GPG_TTY]"`, "[]\n"},
		{"nobody pages", "echo $PAGER $GIT_PAGER $TERM", "cat cat dumb\n"},
		{"the command wins", "echo $ADDED", "yes\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, _ := runShell(t, r, tc.script, "ADDED=yes"); got != tc.want {
				t.Errorf("output is %q, want %q", got, tc.want)
			}
		})
	}
	if got, _ := runShell(t, r, "echo $EDITOR", "EDITOR=chosen"); got != "chosen\n" {
		t.Errorf("EDITOR is %q, want that of the command", got)
	}
}

func TestPromptsFailFast(t *testing.T) {
	r, _ := start(t)
	for _, tc := range []struct{ name, script string }{
		{"commit without a message", `git init -q . && git -c user.name=n -c user.email=e commit --allow-empty`},
		{"commit with a configured editor", `git init -q . && git -c core.editor="sleep 300" -c user.name=n -c user.email=e commit --allow-empty`},
		{"editor", `$EDITOR file`},
		{"passphrase from the terminal", `bash -c 'read -s -p "Passphrase: " x </dev/tty'`},
		{"in the background", `{ git init -q . && git -c user.name=n -c user.email=e commit --allow-empty; } & wait $!`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, exit := runShell(t, r, tc.script, "GIT_CONFIG_GLOBAL="+os.DevNull)
			if exit.Code <= 0 || exit.Cancelled {
				t.Errorf("exit is %+v, want a failure; output %q", exit, out)
			}
		})
	}
}

// TestClose: nothing outlives the row, whatever state it is in (case B76).
func TestClose(t *testing.T) {
	for _, tc := range []struct {
		name    string
		quiesce bool
	}{{"row closed", false}, {"harness ending", true}} {
		t.Run(tc.name, func(t *testing.T) {
			const variable = "PROCESSLOCAL_CLOSE="
			mark := variable + tc.name
			var root *kernel.Root
			r, o := start(t, func(p *Params) {
				root = p.Self.Root
				if tc.quiesce {
					p.Config.GraceMs = 300_000 // which R13 cuts to 300 ms
				}
			})
			runShell(t, r, `(trap "" TERM; sleep 300; sleep 300) & setsid sleep 300 >/dev/null 2>&1 & yes & echo done`, mark)
			running := make(chan process.Exit, 1)
			out := &processtest.Buffer{}
			ready := make(chan struct{}, 1)
			out.OnWrite = func() {
				select {
				case ready <- struct{}{}:
				default:
				}
			}
			go func() {
				c := shellCommand(t, "echo here; sleep 300", out)
				c.Env = []string{mark}
				exit, err := r.Run(context.Background(), c)
				if err != nil {
					t.Error(err)
				}
				running <- exit
			}()
			<-ready
			if tc.quiesce {
				if err := root.Quiesce(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			if err := o.Close(ctx); err != nil {
				t.Errorf("close: %v", err)
			}
			if exit := <-running; !exit.Cancelled {
				t.Errorf("the running program: %+v, want cancelled", exit)
			}
			wantGone(t, mark)
			if _, err := r.Run(context.Background(), shellCommand(t, "true", out)); err == nil {
				t.Error("a closed runner started a program")
			}
		})
	}
}

// TestEndSessionDuringCall: a program that its session ends under is cancelled.
func TestEndSessionDuringCall(t *testing.T) {
	r, _ := start(t)
	out := &processtest.Buffer{OnWrite: func() {
		go func() {
			if err := r.EndSession(context.Background(), "s"); err != nil {
				t.Error(err)
			}
		}()
	}}
	exit, err := r.Run(context.Background(), shellCommand(t, "echo here; sleep 300", out))
	if err != nil || !exit.Cancelled {
		t.Errorf("exit is %+v, %v; want cancelled", exit, err)
	}
}

// TestCloseInLittleTime: a step with less time than the grace still kills.
func TestCloseInLittleTime(t *testing.T) {
	r, o := start(t, func(p *Params) { p.Config.GraceMs = 300_000 })
	const mark = "PROCESSLOCAL_LITTLE=1"
	runShell(t, r, `(trap "" TERM; sleep 300; sleep 300) & echo done`, mark)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()
	if err := o.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	wantGone(t, mark)
}

// TestMaxOpen: beyond the bound the output is closed, and who writes to it ends.
func TestMaxOpen(t *testing.T) {
	r, _ := start(t, func(p *Params) { p.Config.MaxOpen = 1 })
	const first, second = "PROCESSLOCAL_MAX=1", "PROCESSLOCAL_MAX=2"
	const script = "(while :; do echo x; sleep 0.02; done) & echo done"
	runShell(t, r, script, first)
	runShell(t, r, script, second)
	wantGone(t, second)
	if pids, err := processtest.Marked(first); err != nil || len(pids) == 0 {
		t.Errorf("the first program: processes %v, error %v, want it alive", pids, err)
	}
}

// TestSlowListener: what a program wrote before it ended is not lost when it is
// taken late, as on a busy machine.
func TestSlowListener(t *testing.T) {
	r, _ := start(t)
	out := &processtest.Buffer{OnWrite: func() { time.Sleep(2 * lateLimit) }}
	if _, err := r.Run(t.Context(), shellCommand(t, "printf x; sleep 0.1; head -c 65000 /dev/zero; echo end", out)); err != nil {
		t.Fatal(err)
	}
	if n := out.Len(); n != 65_005 {
		t.Errorf("%d bytes came, want 65005", n)
	}
}

// TestAccount: what has ended by itself is forgotten, so that a session that
// starts many programs in the background holds few.
func TestAccount(t *testing.T) {
	r, _ := start(t)
	for range 5 {
		runShell(t, r, "sleep 0.2 & echo done")
	}
	time.Sleep(300 * time.Millisecond)
	runShell(t, r, "sleep 300 & echo done")
	r.mu.Lock()
	n := len(r.sessions["s"].programs)
	r.mu.Unlock()
	if n > 2 {
		t.Errorf("the session holds %d programs, of which one lives", n)
	}
}

// TestNested: the marker of a harness around this one stays visible.
func TestNested(t *testing.T) {
	t.Setenv(markerVariable, "outer.1.1.")
	r, _ := start(t)
	got, _ := runShell(t, r, "echo $"+markerVariable)
	if want := "outer.1.1.:" + r.marker + ".1.1.\n"; got != want {
		t.Errorf("marker is %q, want %q", got, want)
	}
}

// BenchmarkEndSession is what the end of a session costs that ran a program.
func BenchmarkEndSession(b *testing.B) {
	r, _ := start(b)
	for b.Loop() {
		s := &owned{marker: r.marker + ".none."}
		r.sessions["s"] = s
		if err := r.EndSession(context.Background(), "s"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExec is the least that a program costs, to compare with.
func BenchmarkExec(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("bash", "-c", "true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTrue(b *testing.B) {
	r, _ := start(b)
	c := shellCommand(b, "true", nil)
	c.Output = nil
	for b.Loop() {
		if exit, err := r.Run(context.Background(), c); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
	}
}
