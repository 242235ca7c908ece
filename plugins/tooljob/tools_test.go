//go:build unix

package tooljob_test

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

	"dsh/kernel"
	"dsh/kernel/job"
	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
	"dsh/plugins/internal/dialect"
	"dsh/plugins/tooljob"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// desk is the tools on a board, without agents.
type desk struct {
	t     *testing.T
	board *job.Board
	tools *tool.Registry
	dir   string
}

func newDesk(t *testing.T, d dialect.Dialect) *desk {
	t.Helper()
	w := &desk{t: t, board: job.NewBoard(), tools: tool.NewRegistry(), dir: t.TempDir()}
	owner := kernel.NewOwner(context.Background(), "test")
	t.Cleanup(func() {
		if err := owner.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	config := tooljob.Plugin.Defaults().(*tooljob.Config)
	config.Dialect = d
	rows := kernel.Instance{Owner: owner, Log: slog.New(slog.DiscardHandler)}
	if err := tooljob.Register(tooljob.Params{Self: rows, Config: *config, Tools: w.tools, Board: w.board}); err != nil {
		t.Fatal(err)
	}
	return w
}

// put puts a task of session s1 on the board; it ends soon after it is stopped.
func (w *desk) put(id, output string, change ...func(*job.Work)) *job.Entry {
	w.t.Helper()
	file := filepath.Join(w.dir, id)
	if err := os.WriteFile(file, []byte(output), 0o600); err != nil {
		w.t.Fatal(err)
	}
	var entry *job.Entry
	var all sync.WaitGroup
	all.Add(1)
	work := job.Work{
		Job:  job.Job{ID: id, SessionID: "s1", CallID: "c", Kind: job.KindShell, Description: "run " + id, Command: "run", OutputFile: file, Background: true},
		Stop: func() { go func() { all.Wait(); entry.End(job.End{Status: job.Stopped, Summary: "it was stopped"}) }() },
	}
	for _, f := range change {
		f(&work)
	}
	var err error
	if entry, err = w.board.Start(work); err != nil {
		w.t.Fatal(err)
	}
	all.Done()
	return entry
}

func (w *desk) call(name, arguments string) tool.Result {
	w.t.Helper()
	return tool.NewPipeline().Call(context.Background(), w.tools.View(nil), name, arguments, tool.Invocation{SessionID: "s1", CWD: w.dir, CallID: "c2"})
}

func (w *desk) tool(name string) tool.Tool {
	w.t.Helper()
	tl, ok := w.tools.View(nil).Lookup(name)
	if !ok {
		w.t.Fatalf("no tool %s", name)
	}
	return tl
}

func TestConformance(t *testing.T) {
	for _, tc := range []struct {
		dialect dialect.Dialect
		tool    string
		o       tooltest.Options
	}{
		{dialect.Claude, "TaskOutput", tooltest.Options{
			Good: []string{`{"task_id":"b2","block":true,"timeout":5}`, `{"task_id":"b1","block":false}`, `{"task_id":"b1","timeout":5}`},
			Slow: `{"task_id":"b1","timeout":600000}`, NotEmpty: []string{"task_id"},
		}},
		{dialect.Claude, "TaskStop", tooltest.Options{Good: []string{`{"task_id":"b2","shell_id":"b2"}`}}},
		{dialect.DSH, "job_list", tooltest.Options{Good: []string{`{}`}}},
		{dialect.DSH, "job_output", tooltest.Options{
			Good: []string{`{"id":"b2","waitMs":5}`, `{"id":"b1"}`}, Slow: `{"id":"b1","waitMs":600000}`, NotEmpty: []string{"id"},
		}},
		{dialect.DSH, "job_kill", tooltest.Options{Good: []string{`{"id":"b2"}`}, NotEmpty: []string{"id"}}},
	} {
		t.Run(tc.tool, func(t *testing.T) {
			w := newDesk(t, tc.dialect)
			w.put("b1", strings.Repeat("long 世界\n", 20_000))
			w.put("b2", "done\n").End(job.End{Status: job.Completed, Summary: "it completed"})
			tc.o.Limit = 200_000 // 30,000 characters of up to four bytes, and a remark
			tooltest.TestTool(t, w.tool(tc.tool), tc.o)
		})
	}
}

// TestSpecs: spec stream-json 9 for TaskOutput and TaskStop with its old names;
// plan mode has them, because they touch nothing outside of the session.
func TestSpecs(t *testing.T) {
	for _, tc := range []struct {
		dialect     dialect.Dialect
		name, input string
	}{
		{dialect.Claude, "TaskOutput", "block? task_id timeout?"},
		{dialect.Claude, "TaskStop", "shell_id? task_id?"},
		{dialect.Claude, "KillShell", "shell_id? task_id?"},
		{dialect.Claude, "KillBash", "shell_id? task_id?"},
		{dialect.DSH, "job_list", ""},
		{dialect.DSH, "job_output", "id waitMs?"},
		{dialect.DSH, "job_kill", "id"},
	} {
		tl := newDesk(t, tc.dialect).tool(tc.name)
		if got := tooltest.Inputs(t, tl); got != tc.input {
			t.Errorf("%s: inputs %s", tc.name, got)
		}
		if spec := tl.Spec(); !spec.ReadOnly || !spec.Parallel || spec.Destructive {
			t.Errorf("%s: spec %+v", tc.name, spec)
		}
	}
}

// TestTaskOutput: spec stream-json 9.
func TestTaskOutput(t *testing.T) {
	four := 4
	for _, tc := range []struct {
		name, arguments string
		end             *job.End
		retrieval, text string
	}{
		{"not waited for", `{"task_id":"b1","block":false}`, nil, "not_ready", "Task b1 (run b1) is running, for 0s."},
		{"waited for in vain", `{"task_id":"b1","timeout":20}`, nil, "timeout", "Task b1 (run b1) is running, for 0s."},
		{"no time to wait", `{"task_id":"b1","timeout":0}`, nil, "timeout", "Task b1 (run b1) is running, for 0s."},
		{"ended", `{"task_id":"b1"}`, &job.End{Status: job.Failed, Summary: "it failed", ExitCode: &four}, "success", "Task b1 has ended as failed, after 0s: it failed."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newDesk(t, dialect.Claude)
			e := w.put("b1", "one\ntwo 渐\n")
			status := job.Running
			if tc.end != nil {
				e.End(*tc.end)
				status = tc.end.Status
			}
			res := w.call("TaskOutput", tc.arguments)
			if want := fmt.Sprintf("%s Its output, from %s:\n\none\ntwo 渐\n", tc.text, filepath.Join(w.dir, "b1")); res.IsError || text(res) != want {
				t.Errorf("text %q, want %q", text(res), want)
			}
			task := map[string]any{"task_id": "b1", "task_type": "local_bash", "status": status, "description": "run b1", "output": "one\ntwo 渐\n"}
			if tc.end != nil {
				task["exitCode"] = 4.0
			}
			meta(t, res, map[string]any{"retrieval_status": tc.retrieval, "task": task})
		})
	}
}

// TestTaskOutputWaits: a call that waits is back when the task ends.
func TestTaskOutputWaits(t *testing.T) {
	w := newDesk(t, dialect.Claude)
	e := w.put("b1", "")
	time.AfterFunc(50*time.Millisecond, func() { e.End(job.End{Status: job.Completed, Summary: "it completed"}) })
	res := w.call("TaskOutput", `{"task_id":"b1","timeout":600000}`)
	if !strings.Contains(text(res), "ended as completed") || !strings.HasSuffix(text(res), "It has given no output.") {
		t.Errorf("text %q", text(res))
	}
}

// TestTail: of long output the end is shown, in whole characters (cases B67 and
// B92).
func TestTail(t *testing.T) {
	for name, output := range map[string]string{
		"bytes":      strings.Repeat("x", 200_000),
		"characters": strings.Repeat("渐🚀é—한", 20_000),
		"shifted":    "a" + strings.Repeat("🚀", 40_000),
		"not UTF-8":  strings.Repeat("\xff", 200_000),
	} {
		t.Run(name, func(t *testing.T) {
			for _, d := range []dialect.Dialect{dialect.Claude, dialect.DSH} {
				w := newDesk(t, d)
				w.put("b1", output)
				name, arguments := "TaskOutput", `{"task_id":"b1","block":false}`
				if d == dialect.DSH {
					name, arguments = "job_output", `{"id":"b1"}`
				}
				res := w.call(name, arguments)
				head, said, _ := strings.Cut(text(res), "\n\n")
				if n := utf8.RuneCountInString(said); n != 30_000 || !strings.HasSuffix(strings.ToValidUTF8(output, "\uFFFD"), said) && name != "not UTF-8" && utf8.ValidString(output) {
					t.Errorf("%d characters, beginning with %.20q", n, said)
				}
				if !strings.Contains(head, fmt.Sprintf("(%d bytes)", len(output))) {
					t.Errorf("the text begins with %q", head)
				}
			}
		})
	}
}

// TestTaskStop: a task that runs is stopped, one that has ended is no error, and
// one that never was, or belongs to another session, is (S055, spec stream-json
// 4.14).
func TestTaskStop(t *testing.T) {
	for _, tc := range []struct{ name, tool, arguments, text, code string }{
		{"running", "TaskStop", `{"task_id":"b1"}`, "Task b1 (run b1) was stopped.", ""},
		{"under its old name", "KillShell", `{"shell_id":"b1"}`, "Task b1 (run b1) was stopped.", ""},
		{"under its older name", "KillBash", `{"shell_id":"b1"}`, "Task b1 (run b1) was stopped.", ""},
		{"ended", "TaskStop", `{"task_id":"b2"}`, "Task b2 had ended already: it completed.", ""},
		{"never", "TaskStop", `{"task_id":"b9"}`, "No task found with ID: b9; of this conversation there are b1, b2", "UNKNOWN_TASK"},
		{"another's", "TaskStop", `{"task_id":"other"}`, "No task found with ID: other; of this conversation there are b1, b2", "UNKNOWN_TASK"},
		{"a call that waits", "TaskStop", `{"task_id":"front"}`, "No task found with ID: front; of this conversation there are b1, b2", "UNKNOWN_TASK"},
		{"nothing", "TaskStop", `{}`, "task_id is missing; say which task to stop", "INVALID_ARGUMENTS"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newDesk(t, dialect.Claude)
			w.put("b1", "")
			w.put("b2", "").End(job.End{Status: job.Completed, Summary: "it completed"})
			w.put("other", "", func(x *job.Work) { x.SessionID = "s2" })
			w.put("front", "", func(x *job.Work) { x.Background = false })
			res := w.call(tc.tool, tc.arguments)
			code := ""
			if res.Error != nil {
				code = res.Error.Code
			}
			if text(res) != tc.text || code != tc.code {
				t.Errorf("got %q %q, want %q %q", text(res), code, tc.text, tc.code)
			}
			if tc.code == "" {
				meta(t, res, map[string]any{"message": tc.text, "task_id": strings.Fields(tc.text)[1], "task_type": "local_bash", "command": "run"})
			}
			for _, id := range []string{"other", "front"} {
				if j, _ := w.board.Lookup(id); j.Over() {
					t.Errorf("%s was stopped", id)
				}
			}
		})
	}
}

// TestStopTakesLong: a task that does not end in time is said to be on its way.
func TestStopTakesLong(t *testing.T) {
	w := newDesk(t, dialect.DSH)
	w.put("b1", "", func(x *job.Work) { x.Stop = func() {} })
	if res := w.call("job_kill", `{"id":"b1"}`); res.IsError || text(res) != "Task b1 (run b1) is being stopped, and has not ended yet." {
		t.Errorf("text %q", text(res))
	}
}

func TestJobList(t *testing.T) {
	w := newDesk(t, dialect.DSH)
	if got := text(w.call("job_list", "")); got != "There is no background job." {
		t.Errorf("text %q", got)
	}
	w.put("b1", "")
	w.put("b2", "", func(x *job.Work) { x.Kind = job.KindAgent }).End(job.End{Status: job.Failed, Summary: "it failed"})
	w.put("other", "", func(x *job.Work) { x.SessionID = "s2" })
	w.put("front", "", func(x *job.Work) { x.Background = false })
	want := "shell command b1 (run b1), running, for 0s\nagent b2 (run b2), failed, after 0s"
	if got := text(w.call("job_list", "{}")); got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}

// TestAgentAndNoFile: an agent is a task like any other; a task without a file has
// no output to show.
func TestAgentAndNoFile(t *testing.T) {
	w := newDesk(t, dialect.Claude)
	w.put("a1", "the answer", func(x *job.Work) { x.Kind, x.Command = job.KindAgent, "" }).End(job.End{Status: job.Completed, Summary: "it completed"})
	w.put("b1", "", func(x *job.Work) { x.OutputFile = "" })
	if got := text(w.call("TaskOutput", `{"task_id":"a1"}`)); !strings.HasSuffix(got, "\n\nthe answer") {
		t.Errorf("text %q", got)
	}
	meta(t, w.call("TaskStop", `{"task_id":"a1"}`), map[string]any{
		"message": "Task a1 had ended already: it completed.", "task_id": "a1", "task_type": "local_agent",
	})
	if got := text(w.call("TaskOutput", `{"task_id":"b1","block":false}`)); !strings.HasSuffix(got, " There is no file with its output.") {
		t.Errorf("text %q", got)
	}
}

func TestRefused(t *testing.T) {
	w := newDesk(t, dialect.Claude)
	if got := text(w.call("TaskOutput", `{"task_id":"b1","timeout":-1}`)); got != "timeout is -1; it must be 0 or more" {
		t.Errorf("text %q", got)
	}
	if got := text(w.call("TaskOutput", `{"task_id":"b1"}`)); got != "No task found with ID: b1; of this conversation there is none" {
		t.Errorf("text %q", got)
	}
}

func text(res tool.Result) string { return sdkproto.TextOf(res.Content) }

func meta(t *testing.T, res tool.Result, want map[string]any) {
	t.Helper()
	var got map[string]any
	if err := wirejson.Unmarshal(json.RawMessage(res.Meta), &got); err != nil {
		t.Fatalf("meta of %q: %v", text(res), err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("meta (-want +got):\n%s", diff)
	}
}
