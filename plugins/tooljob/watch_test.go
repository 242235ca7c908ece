//go:build unix

package tooljob_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/agent"
	"dsh/kernel/job"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// TestEndWakes: a command in the background is in the log before its call's
// result; when it ends by itself an idle agent takes a turn with the message of it
// (spec stream-json 11.8).
func TestEndWakes(t *testing.T) {
	for _, tc := range []struct{ name, end, status, told string }{
		{"completes", "echo all is well", job.Completed, "all is well"},
		{"fails", "echo it broke >&2; exit 4", job.Failed, "exit code 4"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			a := r.open("main")
			r.ask(a, "bg while [ ! -e gate ]; do sleep 0.01; done; "+tc.end)
			j := r.running("main")
			started := of[sdkproto.JobStarted](r, "main", sdkproto.TypeJobStarted)
			want := []sdkproto.JobStarted{{JobID: j.ID, Kind: job.KindShell, CallID: "call_1_1_1", Description: "a task", Command: j.Command, OutputFile: j.OutputFile}}
			if diff := cmp.Diff(want, started); diff != "" {
				t.Errorf("started (-want +got):\n%s", diff)
			}
			types := r.types("main")
			if slices.Index(types, sdkproto.TypeJobStarted) > slices.Index(types, sdkproto.TypeToolResult) {
				t.Errorf("the start is behind the result: %q", types)
			}
			if err := os.WriteFile(filepath.Join(r.cwd, "gate"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r.idles("main", 2)
			ended := of[sdkproto.JobEnded](r, "main", sdkproto.TypeJobEnded)
			if len(ended) != 1 || ended[0].JobID != j.ID || ended[0].Status != tc.status || ended[0].ExitCode == nil {
				t.Fatalf("ended %+v", ended)
			}
			told := r.told("main", "job")
			if len(told) != 1 || !strings.Contains(told[0], j.ID) || !strings.Contains(told[0], j.OutputFile) || !strings.Contains(told[0], tc.told) {
				t.Errorf("told %q", told)
			}
			if n := len(of[sdkproto.TurnStart](r, "main", sdkproto.TypeTurnStart)); n != 2 {
				t.Errorf("%d turns, want the prompt's and that of the message", n)
			}
			for _, e := range r.all() {
				if e.Record != nil && strings.HasPrefix(e.Record.Event.Type, "job/") && !e.Record.Event.Ignorable {
					t.Errorf("event %s is not ignorable", e.Record.Raw)
				}
			}
		})
	}
}

// TestDetachedIsRecorded: a call that waits is no task in the background until it
// is moved there; then its start is in the log before its result.
func TestDetachedIsRecorded(t *testing.T) {
	r := newRig(t)
	a := r.open("main")
	if _, err := a.Send(context.Background(), []sdkproto.Block{sdkproto.Text("fg echo up >up; while [ ! -e gate ]; do sleep 0.01; done")}, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn); err != nil {
		t.Fatal(err)
	}
	r.await("the call", func(all []session.Entry) bool { return len(r.board.List("main")) == 1 })
	if r.board.List("main")[0].Background {
		t.Fatal("a call that waits is in the background")
	}
	if n := len(of[sdkproto.JobStarted](r, "main", sdkproto.TypeJobStarted)); n != 0 {
		t.Errorf("%d tasks are recorded", n)
	}
	if !r.board.Detach("main", "call_1_1_1") {
		t.Fatal("not moved")
	}
	r.idles("main", 1)
	types := r.types("main")
	at, result := slices.Index(types, sdkproto.TypeJobStarted), slices.Index(types, sdkproto.TypeToolResult)
	if at < 0 || at > result {
		t.Errorf("events %q", types)
	}
	if err := os.WriteFile(filepath.Join(r.cwd, "gate"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.idles("main", 2)
	if told := r.told("main", "job"); len(told) != 1 {
		t.Errorf("told %q", told)
	}
}

// TestForegroundLeavesNothing: a call that is waited for is in no log and on no
// board afterwards.
func TestForegroundLeavesNothing(t *testing.T) {
	r := newRig(t)
	r.ask(r.open("main"), "fg echo hello")
	for _, typ := range r.types("main") {
		if strings.HasPrefix(typ, "job/") {
			t.Errorf("event %s", typ)
		}
	}
	if jobs := r.board.List("main"); len(jobs) > 0 {
		t.Errorf("board %v", jobs)
	}
}

// TestStoppedByModel: what the model has stopped wakes nobody and is not told
// again.
func TestStoppedByModel(t *testing.T) {
	r := newRig(t)
	a := r.open("main")
	r.ask(a, "kill echo up; sleep 300")
	ended := of[sdkproto.JobEnded](r, "main", sdkproto.TypeJobEnded)
	if len(ended) != 1 || ended[0].Status != job.Stopped || ended[0].ExitCode != nil {
		t.Fatalf("ended %+v", ended)
	}
	r.ask(a, "hello")
	if told := append(r.told("main", "job"), r.told("main", "job-stopped")...); len(told) > 0 {
		t.Errorf("told %q", told)
	}
	if n := len(of[sdkproto.TurnStart](r, "main", sdkproto.TypeTurnStart)); n != 2 {
		t.Errorf("%d turns, want those of the two prompts", n)
	}
}

// TestStoppedByOthers: what somebody else has stopped wakes nobody either; it is
// told with the next prompt, once, in front of it.
func TestStoppedByOthers(t *testing.T) {
	r := newRig(t)
	a := r.open("main")
	for i := range 2 {
		r.ask(a, "bg sleep 300")
		j := r.running("main")
		if err := r.board.Stop(j.ID); err != nil {
			t.Fatal(err)
		}
		if j = r.ended(j.ID); j.Status != job.Stopped {
			t.Fatalf("job %+v", j)
		}
		r.ask(a, "hello")
		r.ask(a, "hello again")
		told := r.told("main", "job-stopped")
		if len(told) != i+1 || !strings.Contains(told[i], j.ID) || strings.Count(told[i], "a task") != i+1 {
			t.Fatalf("told %q", told)
		}
	}
	if told := r.told("main", "job"); len(told) > 0 {
		t.Errorf("told %q", told)
	}
	if n := len(of[sdkproto.TurnStart](r, "main", sdkproto.TypeTurnStart)); n != 6 {
		t.Errorf("%d turns, want those of the six prompts", n)
	}
}

// TestSessionCloses: with its session a task ends and is forgotten; the end is in
// the log, and the next life of the session hears nothing of it.
func TestSessionCloses(t *testing.T) {
	r := newRig(t)
	a := r.open("main")
	r.ask(a, "bg sleep 300")
	j := r.running("main")
	if err := r.agents.Close(context.Background(), "main", agent.Cause{Kind: sdkproto.AbortUser}); err != nil {
		t.Fatal(err)
	}
	r.await("the end", func([]session.Entry) bool { return len(of[sdkproto.JobEnded](r, "main", sdkproto.TypeJobEnded)) == 1 })
	r.await("nothing on the board", func([]session.Entry) bool { _, ok := r.board.Lookup(j.ID); return !ok })
	r.ask(r.open("main"), "hello")
	if told := append(r.told("main", "job"), r.told("main", "job-stopped")...); len(told) > 0 {
		t.Errorf("told %q", told)
	}
}
