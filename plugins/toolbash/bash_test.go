//go:build unix

package toolbash

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/job"
	"dsh/kernel/process/processtest"
	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
	"dsh/plugins/processlocal"
	"dsh/plugins/spill"
	"dsh/sdkproto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is the tool with a runner and a spiller, composed by hand.
type world struct {
	t      testing.TB
	bash   *Bash
	runner *processlocal.Runner
	board  *job.Board
	owner  *kernel.Owner
	home   string
	cwd    string
}

func newWorld(t testing.TB, change ...func(*Params)) *world {
	t.Helper()
	w := &world{t: t, home: t.TempDir(), cwd: t.TempDir(), board: job.NewBoard()}
	w.owner = kernel.NewOwner(context.Background(), "test")
	self := kernel.Instance{
		ID: "shell", Owner: w.owner, Root: kernel.NewRoot(w.owner), Log: slog.New(slog.DiscardHandler),
		Ready: kernel.NewReady(w.owner, slog.New(slog.DiscardHandler)), Home: w.home,
		CredentialEnv: kernel.NewCredentialEnv("TEST_PROVIDER_KEY"),
	}
	var err error
	w.runner, err = processlocal.New(processlocal.Params{Self: self, Config: *processlocal.Plugin.Defaults().(*processlocal.Config)})
	if err != nil {
		t.Fatal(err)
	}
	p := Params{Self: self, Config: defaults(), Tools: tool.NewRegistry(), Runner: w.runner, Board: w.board, Spiller: spill.New(w.home)}
	for _, f := range change {
		f(&p)
	}
	w.bash = New(p)
	if err := w.bash.register(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := w.runner.EndSession(ctx, "main"); err != nil {
			t.Error(err)
		}
		if err := w.owner.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) invoke(ctx context.Context, a map[string]any, change ...func(*tool.Invocation)) tool.Result {
	w.t.Helper()
	arguments, err := json.Marshal(a)
	if err != nil {
		w.t.Fatal(err)
	}
	in := tool.Invocation{SessionID: "main", CWD: w.cwd, CallID: "call_1", Arguments: arguments}
	for _, f := range change {
		f(&in)
	}
	res, err := w.bash.tool.Call(ctx, in)
	if err != nil {
		w.t.Fatalf("call %s: %v", arguments, err)
	}
	if len(res.Content) != 1 || !utf8.ValidString(res.Content[0].Text) {
		w.t.Fatalf("call %s: result %+v is not one block of UTF-8", arguments, res)
	}
	return res
}

// run is a call that must be back long before a `sleep 300` ends.
func (w *world) run(a map[string]any) tool.Result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	res := w.invoke(ctx, a)
	if ctx.Err() != nil {
		w.t.Fatalf("%v: hangs", a)
	}
	return res
}

func text(res tool.Result) string { return res.Content[0].Text }

func TestConformance(t *testing.T) {
	// Among the odd strings is one that makes ten thousand commands.
	w := newWorld(t, func(p *Params) { p.Config.TimeoutMs = 2000 })
	if got := tooltest.Inputs(t, w.bash.tool); w.bash.tool.Spec().Name != "bash" || got != "command description? run_in_background? timeoutMs? workdir?" {
		t.Errorf("tool %s with inputs %s", w.bash.tool.Spec().Name, got)
	}
	tooltest.TestTool(t, w.bash.tool, tooltest.Options{
		CWD:      w.cwd,
		Good:     []string{`{"command":"echo hello"}`, `{"command":"pwd; exit 2","description":"where am I","timeoutMs":20000,"workdir":"."}`},
		NotEmpty: []string{"command"},
		Slow:     `{"command":"echo out; sleep 300"}`,
		Prompt:   30 * time.Second,
	})
	if err := w.runner.EndSession(context.Background(), "s1"); err != nil {
		t.Error(err)
	}
}

func TestResults(t *testing.T) {
	w := newWorld(t)
	if err := os.Mkdir(filepath.Join(w.cwd, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.cwd, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	type args = map[string]any
	for _, tc := range []struct {
		name  string
		args  args
		want  string
		error *sdkproto.ToolError
	}{
		// The first three are what the reference implementation answers
		// (peers/dsh/05-parallel-tools).
		{"output", args{"command": "sleep 0.01; echo one", "description": "a"}, "one\n", nil},
		{"status without output", args{"command": "exit 3", "description": "b"}, "(no output)\n[exit code: 3]", nil},
		{"nothing", args{"command": "true"}, "(no output)", nil},
		{"output and status", args{"command": "echo out; echo err >&2; exit 1"}, "out\nerr\n[exit code: 1]", nil},
		{"no line end", args{"command": "printf out; exit 1"}, "out\n[exit code: 1]", nil},
		{"signal", args{"command": "kill -SEGV $$"}, "(no output)\n[ended by signal: SIGSEGV]", nil},
		{"line ends stay", args{"command": `printf 'a\r\nb'`}, "a\r\nb", nil},
		{"not UTF-8", args{"command": `printf 'a\377b\346\270'`}, "a\uFFFDb\uFFFD\uFFFD", nil},
		{"a command like an option", args{"command": "-no-such-command"}, "-no-such-command", nil},
		{"workdir", args{"command": "basename $PWD", "workdir": "sub"}, "sub\n", nil},
		{"workdir is missing", args{"command": "pwd", "workdir": "nowhere"}, "nowhere does not exist", &sdkproto.ToolError{Name: "ToolArgumentsError", Code: "INVALID_ARGUMENTS"}},
		{"workdir is a file", args{"command": "pwd", "workdir": "file"}, "file is not a directory", &sdkproto.ToolError{Name: "ToolArgumentsError", Code: "INVALID_ARGUMENTS"}},
		{"negative timeout", args{"command": "pwd", "timeoutMs": -1}, "timeoutMs is -1", &sdkproto.ToolError{Name: "ToolArgumentsError", Code: "INVALID_ARGUMENTS"}},
		{"too long a timeout", args{"command": "echo x", "timeoutMs": 900000}, "x\n[timeoutMs was lowered from 900000 to 600000, the most that is allowed]", nil},
		{"timeout", args{"command": "echo out; sleep 300", "timeoutMs": 300}, "out\n[timed out after 300ms: ", &sdkproto.ToolError{Name: "TimeoutError", Code: "TIMEOUT"}},
		{"too long for the system", args{"command": "echo " + strings.Repeat("x", 3<<20)}, "too long for the system", &sdkproto.ToolError{Name: "ShellError", Code: "START_FAILED"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res := w.run(tc.args)
			if tc.error == nil && text(res) != tc.want && tc.name != "a command like an option" || !strings.Contains(text(res), tc.want) {
				t.Errorf("text is %.300q, want %q", text(res), tc.want)
			}
			if diff := cmp.Diff(tc.error, res.Error); diff != "" || res.IsError != (tc.error != nil) {
				t.Errorf("isError %v, error (-want +got):\n%s", res.IsError, diff)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(300*time.Millisecond, cancel)
	res := w.invoke(ctx, map[string]any{"command": "echo out; sleep 300"})
	if !res.IsError || res.Error == nil || res.Error.Code != "ABORTED" || !strings.HasPrefix(text(res), "out\n[cancelled after ") {
		t.Errorf("result is %+v", res)
	}
}

// TestBackground is case B62 as the model sees it.
func TestBackground(t *testing.T) {
	for _, command := range []string{
		"sleep 300 & echo done",
		"(while :; do echo x; sleep 0.1; done) & echo done",
		"nohup sleep 300 >log 2>&1 & echo done",
		"yes & sleep 1; echo done",
	} {
		t.Run(command, func(t *testing.T) {
			value := fmt.Sprintf("%d.%d", os.Getpid(), time.Now().UnixNano())
			t.Setenv("TOOLBASH_BACKGROUND", value)
			mark := "TOOLBASH_BACKGROUND=" + value
			w := newWorld(t)
			res := w.run(map[string]any{"command": command})
			if res.IsError || !strings.Contains(text(res), "done\n") {
				t.Errorf("isError %v, and the text of %d bytes ends with %q", res.IsError, len(text(res)), text(res)[max(0, len(text(res))-300):])
			}
			if want := "[1 background process is still running; it ends with the session]"; !strings.HasSuffix(text(res), want) && !strings.Contains(command, "while") {
				t.Errorf("the text ends with %q, want %q", text(res)[max(0, len(text(res))-100):], want)
			}
			if pids, err := processtest.Marked(mark); err != nil || len(pids) < guards+1 {
				t.Errorf("processes %v, error %v: the child should live", pids, err)
			}
			if err := w.runner.EndSession(context.Background(), "main"); err != nil {
				t.Error(err)
			}
			if pids, err := processtest.Marked(mark); err != nil || len(pids) > guards {
				t.Errorf("processes %v, error %v: nothing should outlive the session", pids, err)
			}
		})
	}
}

// TestInput is case B64 as the model sees it.
func TestInput(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct{ command, want string }{
		{"cat", "(no output)"},
		{"read x; echo got:$x", "got:\n"},
		{"cat & wait", "(no output)"},
		{"{ read x; echo got:$x; } & wait", "got:\n"},
		{"git init -q . && git -c user.name=n -c user.email=e commit --allow-empty", "[exit code: 1]"},
		{`python3 -c 'input()'`, "EOFError"},
		{`f=$(mktemp) && rm $f && ssh-keygen -q -t ed25519 -N secret -f $f && ssh-keygen -y -f $f; echo "code $?"; rm -f $f $f.pub`, "code "},
	} {
		t.Run(tc.command, func(t *testing.T) {
			if got := text(w.run(map[string]any{"command": tc.command})); !strings.Contains(got, tc.want) {
				t.Errorf("text is %q, want %q in it", got, tc.want)
			}
		})
	}
}

// large is the size of the outputs below, in bytes; the real ones of case B67
// take the tag `long`.
func TestLargeOutput(t *testing.T) {
	for _, tc := range []struct {
		name, command, end string
		bytes              int64
	}{
		{"yes", fmt.Sprintf("yes | head -c %d", large), "more times …\n", large},
		{"on standard error", fmt.Sprintf("yes | head -c %d >&2", large), "more times …\n", large},
		{"short lines", fmt.Sprintf("seq -f '%%07.0f' %d", large/100), fmt.Sprintf("\n%07d\n", large/100), large / 100 * 8},
		{"one line", fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", large*2/5), "xxx", large * 2 / 5},
		{"noise", fmt.Sprintf("head -c %d /dev/urandom", large/20), "", large / 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			var wg sync.WaitGroup
			for i := range 4 { // four of them at once
				wg.Go(func() {
					res := w.invoke(context.Background(), map[string]any{"command": tc.command}, func(in *tool.Invocation) {
						in.CallID = fmt.Sprint("call_", i)
					})
					got := text(res)
					if n := utf8.RuneCountInString(got); res.IsError || n > 30_000 || !strings.HasSuffix(got, tc.end) {
						t.Errorf("isError %v, %d characters, end %q", res.IsError, n, got[max(0, len(got)-100):])
					}
					path := filepath.Join(w.home, "spill", "main", fmt.Sprint("call_", i))
					if !strings.Contains(got, path) {
						t.Errorf("the text does not name the file %s", path)
					}
					if info, err := os.Stat(path); err != nil || info.Size() != min(tc.bytes, defaults().MaxSpillBytes) {
						t.Errorf("the file: %v, %v; want %d bytes or the most that is kept", info, err, tc.bytes)
					}
				})
			}
			wg.Wait()
			wantFlat(t)
		})
	}
}

func TestProgress(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var said []string
	over := false
	res := w.invoke(ctx, map[string]any{"command": "echo step 1; sleep 300"}, func(in *tool.Invocation) {
		in.Progress = func(s string) {
			if over {
				t.Error("progress after the call")
			}
			said = append(said, s)
			cancel()
		}
	})
	over = true
	if diff := cmp.Diff([]string{"step 1"}, said); diff != "" {
		t.Errorf("progress (-want +got):\n%s\nresult %q", diff, text(res))
	}
}

func TestSecretsAndRcFiles(t *testing.T) {
	rc := filepath.Join(t.TempDir(), "rc")
	if err := os.WriteFile(rc, []byte("echo from the rc file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BASH_ENV", rc)
	t.Setenv("TEST_PROVIDER_KEY", "secret-value")
	w := newWorld(t)
	if got := text(w.run(map[string]any{"command": "env | grep -c secret-value"})); got != "0\n[exit code: 1]" {
		t.Errorf("text is %q; want no credential and nothing of an rc file", got)
	}
}

func TestWithoutSpiller(t *testing.T) {
	w := newWorld(t, func(p *Params) { p.Spiller = nil })
	if got := text(w.run(map[string]any{"command": "seq 100000"})); !strings.Contains(got, " characters left out …\n") || !strings.HasSuffix(got, "\n100000\n") {
		t.Errorf("text ends with %q", got[len(got)-100:])
	}
}

func TestShell(t *testing.T) {
	for _, tc := range []struct{ name, config, want string }{
		{"default", "", ""},
		{"by name", "sh", ""},
		{"missing", "no-such-shell", `look up the shell "no-such-shell"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, func(p *Params) { p.Config.Shell = tc.config })
			err := w.bash.params.Self.Ready.Wait(context.Background())
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("ready: %v, want %q", err, tc.want)
			}
		})
	}
	t.Run("none at all", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		w := newWorld(t)
		if err := w.bash.params.Self.Ready.Wait(context.Background()); err == nil || !strings.Contains(err.Error(), "neither bash nor sh") {
			t.Errorf("ready: %v", err)
		}
	})
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"defaults", func(*Config) {}, ""},
		{"relative shell", func(c *Config) { c.Shell = "bin/bash" }, "relative path"},
		{"timeouts crossed", func(c *Config) { c.TimeoutMs = 700_000 }, "700000 or more"},
		{"no output", func(c *Config) { c.MaxOutput = 10 }, "1000 or more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := defaults()
			tc.change(&c)
			if err := c.Validate(); tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func BenchmarkTrue(b *testing.B) {
	w := newWorld(b)
	for b.Loop() {
		w.invoke(context.Background(), map[string]any{"command": "true"})
	}
}
