//go:build unix

package toolbash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dsh/kernel/job"
	"dsh/kernel/process"
	"dsh/kernel/process/processtest"
	"dsh/kernel/tool"
	"dsh/sdkproto/wirejson"
)

// stop stops a job as its tool does, and gives what it is then.
func (w *world) stop(id string) job.Job {
	w.t.Helper()
	if err := w.board.Stop(id); err != nil {
		w.t.Fatal(err)
	}
	return w.ended(id)
}

// ended waits for the end of a job.
func (w *world) ended(id string) job.Job {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	j, err := w.board.Wait(ctx, id)
	if err != nil {
		w.t.Fatalf("job %s: %v", id, err)
	}
	return j
}

// started runs a command in the background and gives its job.
func (w *world) started(command string) job.Job {
	w.t.Helper()
	return w.jobOf(w.run(map[string]any{"command": command, "run_in_background": true}))
}

func (w *world) jobOf(res tool.Result) job.Job {
	w.t.Helper()
	for _, j := range w.board.List("main") {
		if j.Background && strings.Contains(text(res), j.ID) {
			if res.IsError || !strings.Contains(text(res), j.OutputFile) {
				w.t.Errorf("result %+v of job %+v", res, j)
			}
			return j
		}
	}
	w.t.Fatalf("no job is named in %+v", res)
	return job.Job{}
}

// says waits until the output of a job holds a text.
func (w *world) says(j job.Job, what string) {
	w.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		out, err := j.Tail(1 << 20)
		if err != nil {
			w.t.Fatal(err)
		}
		if strings.Contains(out.Text, what) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("job %v has said %q, want %q", j, out.Text, what)
		}
	}
}

func content(t *testing.T, j job.Job) string {
	t.Helper()
	got, err := os.ReadFile(j.OutputFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// marker marks what is started from now on.
func marker(t *testing.T) (alive func() int) {
	t.Helper()
	value := fmt.Sprintf("%d.%d", os.Getpid(), time.Now().UnixNano())
	t.Setenv("TOOLBASH_BACKGROUND", value)
	return func() int {
		pids, err := processtest.Marked("TOOLBASH_BACKGROUND=" + value)
		if err != nil {
			t.Fatal(err)
		}
		return len(pids)
	}
}

// TestRunInBackground: the call returns at once with the task's id and output file
// in its text and its structured result, and the output grows while the command
// runs (spec stream-json 9).
func TestRunInBackground(t *testing.T) {
	w := claudeWorld(t)
	gate := filepath.Join(w.cwd, "gate")
	res := w.run(map[string]any{
		"command":     "echo first; while [ ! -e gate ]; do sleep 0.01; done; echo second >&2; exit 3",
		"description": "Two\twords", "run_in_background": true, "timeout": 50,
	})
	var meta claudeResult
	if err := wirejson.Unmarshal(res.Meta, &meta); err != nil {
		t.Fatal(err)
	}
	j := w.jobOf(res)
	if want := (claudeResult{BackgroundTaskID: j.ID}); meta != want && meta != (claudeResult{BackgroundTaskID: j.ID, Stdout: "first"}) {
		t.Errorf("meta %+v", meta)
	}
	if j.Kind != job.KindShell || j.CallID != "call_1" || j.Description != "Two words" || !strings.HasPrefix(j.Command, "echo first") || j.Over() {
		t.Errorf("job %+v", j)
	}
	w.says(j, "first\n")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j = w.ended(j.ID)
	if j.Status != job.Failed || j.ExitCode == nil || *j.ExitCode != 3 || !strings.Contains(j.Summary, "Two words") {
		t.Errorf("job %+v", j)
	}
	if got := content(t, j); got != "first\nsecond\n" {
		t.Errorf("the file holds %q", got)
	}
}

// TestRunInBackgroundDSH: the extension of bash has no time limit there.
func TestRunInBackgroundDSH(t *testing.T) {
	w := newWorld(t)
	res := w.run(map[string]any{"command": "sleep 0.4; echo done", "run_in_background": true, "timeoutMs": 50})
	j := w.jobOf(res)
	if j.Description != "sleep 0.4; echo done" || res.Meta != nil {
		t.Errorf("job %+v, result %+v", j, res)
	}
	if j = w.ended(j.ID); j.Status != job.Completed || content(t, j) != "done\n" {
		t.Errorf("job %+v", j)
	}
}

// TestHowItEnded: a command that ends by itself has completed or failed.
func TestHowItEnded(t *testing.T) {
	w := claudeWorld(t)
	for command, want := range map[string]string{
		"true":                       "completed 0",
		"exit 1":                     "failed 1",
		"grep x /dev/null":           "completed 1",
		"kill -SEGV $$":              "failed -",
		"echo -e 'a\\nb'\necho more": "completed 0",
	} {
		j := w.ended(w.started(command).ID)
		code := "-"
		if j.ExitCode != nil {
			code = fmt.Sprint(*j.ExitCode)
		}
		if got := j.Status + " " + code; got != want || strings.Contains(j.Summary, "\n") {
			t.Errorf("%q: %s, %q; want %s", command, got, j.Summary, want)
		}
	}
}

// TestStopEndsTheGroup: stopping ends the whole process group, those that ignore
// TERM included (cases B63 and B90).
func TestStopEndsTheGroup(t *testing.T) {
	for _, command := range []string{
		"echo up; sleep 300",
		"sleep 300 & sleep 300 & echo up; wait",
		`bash -c 'trap "" TERM; echo up; while :; do sleep 300; done'`,
	} {
		t.Run(command, func(t *testing.T) {
			alive := marker(t)
			w := claudeWorld(t)
			j := w.started(command)
			w.says(j, "up")
			if alive() <= guards {
				t.Error("nothing runs")
			}
			if j = w.stop(j.ID); j.Status != job.Stopped || j.ExitCode != nil || !j.StopAsked {
				t.Errorf("job %+v", j)
			}
			if n := alive(); n > guards {
				t.Errorf("%d processes are left", n-guards)
			}
		})
	}
}

// TestEndsWithSession: what runs in the background ends with its session, or with
// the row.
func TestEndsWithSession(t *testing.T) {
	for name, end := range map[string]func(w *world) error{
		"session": func(w *world) error { return w.runner.EndSession(context.Background(), "main") },
		"row": func(w *world) error {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			return w.owner.Close(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			alive := marker(t)
			w := claudeWorld(t)
			j := w.started("echo up; sleep 300")
			w.says(j, "up")
			if err := end(w); err != nil {
				t.Error(err)
			}
			if j = w.ended(j.ID); j.Status != job.Stopped {
				t.Errorf("job %+v", j)
			}
			if n := alive(); n > guards {
				t.Errorf("%d processes are left", n-guards)
			}
		})
	}
	t.Run("another session", func(t *testing.T) {
		w := claudeWorld(t)
		j := w.started("echo up; sleep 300")
		if err := w.runner.EndSession(context.Background(), "other"); err != nil {
			t.Error(err)
		}
		if j, _ = w.board.Lookup(j.ID); j.Over() {
			t.Errorf("job %+v", j)
		}
		w.stop(j.ID)
	})
}

// TestDetach: a call that waits returns when somebody moves it to the background,
// with what was said so far; the command goes on into its file.
func TestDetach(t *testing.T) {
	for _, d := range []string{"claude", "dsh"} {
		t.Run(d, func(t *testing.T) {
			w := newWorld(t, func(p *Params) { p.Config.Dialect = "claude"; p.Config.MaxOutput = 1000 }, func(p *Params) {
				if d == "dsh" {
					p.Config.Dialect = "dsh"
				}
			})
			result, said := make(chan tool.Result, 1), make(chan string, 100)
			go func() {
				result <- w.invoke(context.Background(), map[string]any{"command": "seq 1 500; while [ ! -e gate ]; do sleep 0.01; done; echo last"},
					func(in *tool.Invocation) { in.Progress = func(line string) { said <- line } })
			}()
			for <-said != "500" {
			}
			if w.board.Detach("main", "call_2") || !w.board.Detach("main", "call_1") || w.board.Detach("main", "") {
				t.Error("not moved once")
			}
			res := <-result
			j := w.jobOf(res)
			if !strings.Contains(text(res), "499\n500") || !strings.Contains(text(res), "characters left out; the output is in "+j.OutputFile) {
				t.Errorf("text %q", text(res))
			}
			if err := os.WriteFile(filepath.Join(w.cwd, "gate"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if j = w.ended(j.ID); j.Status != job.Completed {
				t.Errorf("job %+v", j)
			}
			var want strings.Builder
			for i := range 500 {
				fmt.Fprintln(&want, i+1)
			}
			if got := content(t, j); got != want.String()+"last\n" {
				t.Errorf("the file holds %d bytes: %.100q", len(got), got)
			}
		})
	}
}

// TestDetachRaces: moved, cancelled, stopped and ended at the same moment, a call
// has one outcome, and nothing is left running behind a call that says so.
func TestDetachRaces(t *testing.T) {
	w := claudeWorld(t)
	for i := range 60 {
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		pause := time.Duration(i%6) * time.Millisecond
		for _, f := range []func(){func() { w.board.Detach("main", "call_1") }, cancel, func() {
			for _, j := range w.board.List("main") {
				if i%2 == 0 {
					_ = w.board.Stop(j.ID)
				}
			}
		}} {
			all.Go(func() {
				time.Sleep(pause)
				f()
			})
		}
		res := w.invoke(ctx, map[string]any{"command": fmt.Sprintf("echo out; sleep 0.0%d", i%7)})
		all.Wait()
		cancel()
		var meta claudeResult
		if res.Meta != nil {
			if err := wirejson.Unmarshal(res.Meta, &meta); err != nil {
				t.Fatal(err)
			}
		}
		if meta.BackgroundTaskID != "" {
			if j := w.ended(meta.BackgroundTaskID); !j.StopAsked && j.Status != job.Completed {
				t.Errorf("round %d: what goes on behind its call was ended with it: %+v", i, j)
			}
			continue
		}
		for _, j := range w.board.List("main") {
			if !j.Over() {
				t.Errorf("round %d: the result is %q, and job %+v runs", i, text(res), j)
			}
		}
	}
}

// TestCancelKills: a call that is cancelled ends its command (case B63), and one
// that went to the background before does not.
func TestCancelKills(t *testing.T) {
	alive := marker(t)
	w := claudeWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	res := w.invoke(ctx, map[string]any{"command": "echo up; sleep 300", "run_in_background": true})
	cancel()
	j := w.jobOf(res)
	w.says(j, "up")
	if j, _ = w.board.Lookup(j.ID); j.Over() {
		t.Errorf("job %+v", j)
	}
	w.stop(j.ID)
	ctx, cancel = context.WithCancel(context.Background())
	time.AfterFunc(200*time.Millisecond, cancel)
	if res := w.invoke(ctx, map[string]any{"command": "echo out; sleep 300"}); !res.IsError || res.Error.Code != "ABORTED" {
		t.Errorf("result %+v", res)
	}
	if n := alive(); n > guards {
		t.Errorf("%d processes are left", n-guards)
	}
}

// TestCutBehind: once a command goes on behind its call, the end of that call does
// not end it any more, however close the two are.
func TestCutBehind(t *testing.T) {
	w := claudeWorld(t)
	c, err := w.bash.start(tool.Invocation{SessionID: "main", CallID: "call_1"}, order{command: "sleep 300"}, "sh", w.cwd)
	if err != nil {
		t.Fatal(err)
	}
	if !c.detach() || c.cut(errCancelled) || c.detach() {
		t.Error("a command behind its call was cut, or moved twice")
	}
	if j, _ := w.board.Lookup(c.id); j.Over() || !c.isBehind() {
		t.Errorf("job %+v", j)
	}
	if j := w.stop(c.id); j.Status != job.Stopped {
		t.Errorf("job %+v", j)
	}
}

// TestTooMany: a call beyond what a session may run is refused with the names of
// what can be stopped; another session is not affected (case B90).
func TestTooMany(t *testing.T) {
	w := claudeWorld(t)
	for i := range 200 {
		if _, err := w.board.Start(job.Work{Job: job.Job{ID: fmt.Sprint("full", i), SessionID: "main", Kind: job.KindShell, Background: true}}); err != nil {
			t.Fatal(err)
		}
	}
	res := w.run(map[string]any{"command": "true", "run_in_background": true})
	if !res.IsError || res.Error.Code != "TOO_MANY_TASKS" || !strings.Contains(text(res), "full0, full1") || strings.Contains(text(res), "full20") {
		t.Errorf("result %+v", res)
	}
	res = w.invoke(context.Background(), map[string]any{"command": "echo fine"}, func(in *tool.Invocation) { in.SessionID = "other" })
	if res.IsError || text(res) != "fine" {
		t.Errorf("result %+v", res)
	}
}

// TestBackgroundOutput: 5 MB go to the file as they are; past the limit the file
// says so, and has the end of the output.
func TestBackgroundOutput(t *testing.T) {
	const size = 5 << 20
	command := fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; echo; echo the end", size)
	w := claudeWorld(t)
	j := w.ended(w.started(command).ID)
	if got := content(t, j); len(got) != size+9 || !strings.HasSuffix(got, "x\nthe end\n") {
		t.Errorf("the file has %d bytes and ends with %q", len(got), got[max(0, len(got)-20):])
	}
	w = claudeWorld(t, func(p *Params) { p.Config.MaxSpillBytes = 100_000 })
	j = w.ended(w.started(command).ID)
	got := content(t, j)
	for _, want := range []string{
		"xxx\n… only the first 100000 bytes of the output are kept …\n",
		fmt.Sprintf("… %d bytes are left out; the end of the output is …\n", size+9-100_000),
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("the file lacks %q once", want)
		}
	}
	if len(got) > 200_000 || !strings.HasSuffix(got, "\nthe end\n") {
		t.Errorf("the file has %d bytes and ends with %q", len(got), got[max(0, len(got)-20):])
	}
}

// TestBackgroundUnicode: characters whose bytes come apart are whole in the file,
// also where the other stream speaks in between (case B92).
func TestBackgroundUnicode(t *testing.T) {
	w := claudeWorld(t)
	command := `for i in 1 2 3; do printf '\346\270'; sleep 0.05; printf 'err\n' >&2; sleep 0.05; printf '\220\n'; done; printf '\360\237'; sleep 0.05; printf '\232\200'; printf '\346'`
	j := w.ended(w.started(command).ID)
	got := content(t, j)
	if strings.Count(got, "渐\n") != 3 || strings.Count(got, "err\n") != 3 || !strings.HasSuffix(got, "\n🚀\xe6") || len(got) != 3*4+3*4+5 {
		t.Errorf("the file holds %q", got)
	}
}

// TestBackgroundInput is case B64 in the background.
func TestBackgroundInput(t *testing.T) {
	w := claudeWorld(t)
	if j := w.ended(w.started("cat; read x; echo got:$x").ID); content(t, j) != "got:\n" {
		t.Errorf("job %+v: %q", j, content(t, j))
	}
}

// TestBackgroundWithoutSpiller: a command without a place for its output runs all
// the same, and the result says that its output is lost.
func TestBackgroundWithoutSpiller(t *testing.T) {
	for name, change := range map[string]func(*Params){
		"no spiller":  func(p *Params) { p.Spiller = nil },
		"no bytes":    func(p *Params) { p.Config.MaxSpillBytes = 0 },
		"a full disk": func(p *Params) { p.Spiller = full{} },
	} {
		t.Run(name, func(t *testing.T) {
			w := claudeWorld(t, change)
			res := w.run(map[string]any{"command": "echo hi", "run_in_background": true})
			j := w.jobOf(res)
			if j.OutputFile != "" || !strings.Contains(text(res), "its output is not kept") {
				t.Errorf("job %+v, text %q", j, text(res))
			}
			if j = w.ended(j.ID); j.Status != job.Completed {
				t.Errorf("job %+v", j)
			}
		})
	}
}

type full struct{}

func (full) Spill(string, string) (tool.SpillFile, error) { return nil, errors.New("disk full") }

// TestNotStarted: what cannot be started is not in the background.
func TestNotStarted(t *testing.T) {
	w := claudeWorld(t)
	res := w.run(map[string]any{"command": "echo " + strings.Repeat("x", 3<<20), "run_in_background": true})
	if !res.IsError || res.Error.Code != "START_FAILED" || len(w.board.List("main")) != 0 {
		t.Errorf("result %.200q, board %v", text(res), w.board.List("main"))
	}
}

// TestDisableSandbox: an argument of the model lifts no confinement; where nothing
// is confined it changes nothing.
func TestDisableSandbox(t *testing.T) {
	w := claudeWorld(t)
	arguments := map[string]any{"command": "echo ran", "dangerouslyDisableSandbox": true}
	if res := w.run(arguments); res.IsError || text(res) != "ran" {
		t.Errorf("result %+v", res)
	}
	confined := func(in *tool.Invocation) { in.Confinement = &process.Confinement{Mode: process.ReadOnly} }
	if res := w.invoke(context.Background(), arguments, confined); !res.IsError || !strings.HasPrefix(text(res), "dangerouslyDisableSandbox cannot be used") {
		t.Errorf("result %+v", res)
	}
	arguments["dangerouslyDisableSandbox"] = false
	if res := w.invoke(context.Background(), arguments, confined); res.IsError || !strings.HasPrefix(text(res), "ran") {
		t.Errorf("result %+v", res)
	}
}

func TestKeeps(t *testing.T) {
	for command, want := range map[string]bool{
		"make":              true,
		"sleep 5":           false,
		"  sleep 5":         false,
		"sleepy 5":          true,
		"make; sleep 5":     true,
		"git status":        false,
		"cd x && git push":  false,
		"/usr/bin/git push": false,
		"ls .git":           false,
		"digit":             true,
		"gitter":            true,
		"":                  false,
	} {
		if got := keeps(command); got != want {
			t.Errorf("%q: %v", command, got)
		}
	}
}

// TestTwoStreams: the limit is for both streams together, each may have half and
// what the other leaves of it.
func TestTwoStreams(t *testing.T) {
	for _, tc := range []struct {
		name     string
		out, err int
		whole    string
	}{
		{"both fit", 500, 500, "both"},
		{"little standard error", 5000, 100, "err"},
		{"little standard output", 100, 5000, "out"},
		{"half of both", 5000, 5000, ""},
		{"just too much", 600, 600, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &memory{}
			o := newOutput(1000, 1<<20, m.open)
			for i := range max(tc.out, tc.err) / 10 {
				if i < tc.out/10 {
					fmt.Fprintf(&o.out, "o%08d\n", i)
				}
				if i < tc.err/10 {
					fmt.Fprintf(&o.err, "e%08d\n", i)
				}
			}
			s := o.finish()
			if n := len([]rune(s.text())); n > 1000 {
				t.Errorf("%d characters", n)
			}
			for part, got := range map[string]struct {
				text string
				size int
			}{"out": {s.out, tc.out}, "err": {s.err, tc.err}} {
				whole := tc.whole == part || tc.whole == "both"
				first, last := fmt.Sprintf("%c%08d\n", part[0], 0), fmt.Sprintf("%c%08d\n", part[0], got.size/10-1)
				if whole != (len(got.text) == got.size) || !strings.HasPrefix(got.text, first) || !strings.HasSuffix(got.text, last) {
					t.Errorf("%s: %q", part, got.text)
				}
			}
			if want := tc.out + tc.err; tc.whole != "both" && m.Len() != want {
				t.Errorf("the file has %d bytes, want %d", m.Len(), want)
			}
		})
	}
}
