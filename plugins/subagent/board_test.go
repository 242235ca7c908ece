package subagent_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dsh/kernel/agent"
	"dsh/kernel/job"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

func (r *rig) board() *job.Board { return seam[*job.Board](r) }

// child waits until child i, from 0, has begun, and gives its id.
func (r *rig) child(i int) string {
	r.t.Helper()
	r.await("another child", func([]session.Entry) bool { return len(r.children()) > i })
	return r.children()[i]
}

// ends waits until a job is over, and gives it.
func (r *rig) ends(id string) job.Job {
	r.t.Helper()
	j, err := r.board().Wait(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

// A run is a job under the child's id: one in the background stays to be asked for,
// with the file that holds its answer (spec stream-json 11.8).
func TestOnBoard(t *testing.T) {
	r := newClaudeRig(t)
	root := r.open("root", nil)
	var told []string
	if err := r.board().Watch(r.owner, func(j job.Job) { told = append(told, fmt.Sprint(j.Background, " ", j.Status)) }); err != nil {
		t.Fatal(err)
	}
	r.task(root, "Agent", members{"description": "do it", "prompt": "think", "name": "ada"})
	child := r.child(0)
	if _, known := r.board().Lookup(child); known {
		t.Error("a run that was waited for is remembered")
	}
	if want := []string{"false running", "false completed"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}

	_, _, meta := r.task(root, "Agent", members{"description": "do it", "prompt": "gate", "name": "ada", "run_in_background": true})
	child = r.child(1)
	r.crowd(1)
	want := job.Job{
		ID: child, SessionID: "root", CallID: "call_2_1_1", Kind: job.KindAgent, Description: "ada: do it", AgentType: "general-purpose",
		OutputFile: meta["outputFile"].(string), Background: true, Status: job.Running,
	}
	ignore := cmpopts.IgnoreFields(job.Job{}, "Began", "Ended")
	got, _ := r.board().Lookup(child)
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("at work (-want +got):\n%s", diff)
	}
	r.gate.release()
	want.Status, want.Summary = job.Completed, "Subagent "+child+" (ada: do it) has ended: completed"
	if diff := cmp.Diff(want, r.ends(child), ignore); diff != "" {
		t.Errorf("after its end (-want +got):\n%s", diff)
	}
	if out, err := want.Tail(100); err != nil || out.Text != "through" {
		t.Errorf("it has said %+v, %v", out, err)
	}
}

// How a run ends is how its job does.
func TestBoardEnds(t *testing.T) {
	for prompt, want := range map[string]string{"broken": job.Failed, "limit": job.Failed, "think": job.Completed} {
		r := newRig(t)
		r.send(r.open("root", nil), "bg "+prompt)
		r.settled(1)
		if j := r.ends(r.child(0)); j.Status != want || !strings.HasPrefix(j.Summary, "Subagent "+j.ID+" (do "+prompt+") has ended: ") {
			t.Errorf("%s: %s, %s", prompt, j.Status, j.Summary)
		}
	}
}

// A run that is stopped through the board ends with all below it, and nobody is
// woken; the call that waits for one has a result (S055).
func TestBoardStop(t *testing.T) {
	t.Run("in the background", func(t *testing.T) {
		r := newRig(t)
		root := r.open("root", nil)
		r.ask(root, "bg fg hang")
		r.hanging(1)
		ids := r.children()
		if err := r.board().Stop(ids[0]); err != nil {
			t.Fatal(err)
		}
		if j := r.ends(ids[0]); j.Status != job.Stopped {
			t.Errorf("the job is %s", j.Status)
		}
		r.settled(2)
		if diff := cmp.Diff([]string{"child2 settled aborted", "child1 settled aborted"}, r.only("settled aborted", "settled completed")); diff != "" {
			t.Errorf("ends (-want +got):\n%s", diff)
		}
		if err := r.board().Stop(ids[0]); err != nil {
			t.Errorf("Stop of one that has ended = %v", err)
		}
		r.ask(root, "think") // whatever woke the parent would be in front
		if notices := r.notices("root"); len(notices) > 0 {
			t.Errorf("the parent is told %v", notices)
		}
	})
	t.Run("in the foreground", func(t *testing.T) {
		r := newRig(t)
		root := r.open("root", nil)
		r.send(root, "fg hang")
		r.hanging(1)
		if err := r.board().Stop(r.child(0)); err != nil {
			t.Fatal(err)
		}
		r.idles("root", 1)
		if said, code := r.result("root"); code != "ABORTED" || !strings.Contains(said, "it was stopped") || !strings.Contains(said, "Here I stay") {
			t.Errorf("%q %q", code, said)
		}
		if end := of[sdkproto.TurnEnd](r, "root", sdkproto.TypeTurnEnd); end[0].Reason.Kind != sdkproto.EndCompleted {
			t.Errorf("the parent ended as %+v", end[0].Reason)
		}
	})
	t.Run("by the model", func(t *testing.T) {
		r := newRig(t)
		root := r.open("root", nil)
		r.ask(root, "bg hang")
		r.hanging(1)
		r.ask(root, `call interrupt_agent {"id":"`+r.child(0)+`"}`)
		r.await("a report", func([]session.Entry) bool { return len(r.notices("root")) == 1 })
		if j := r.ends(r.child(0)); j.Status != job.Stopped || j.StopAsked {
			t.Errorf("the job is %+v", j)
		}
	})
}

// A call that waits can be let go: its run is one in the background then, whatever
// becomes of the turn (spec stream-json 11.8).
func TestDetach(t *testing.T) {
	r := newClaudeRig(t)
	root := r.open("root", nil)
	r.define(agent.Definition{Name: "general-purpose"})
	r.send(root, `call Agent {"description":"do it","prompt":"gate"}`)
	r.crowd(1)
	child := r.child(0)
	if r.board().Detach("root", "another call") || r.board().Detach(child, "") {
		t.Error("another call was let go")
	}
	if !r.board().Detach("root", "call_1_1_1") || r.board().Detach("root", "") {
		t.Error("the call was not let go once")
	}
	r.idles("root", 1)
	blocks, code, meta := r.last("root")
	file, _ := meta["outputFile"].(string)
	if diff := cmp.Diff(members{"isAsync": true, "status": "async_launched", "agentId": child, "description": "do it", "prompt": "gate", "outputFile": file}, meta); diff != "" || code != "" || file == "" {
		t.Errorf("%s %q: meta (-want +got):\n%s", code, blocks, diff)
	}
	if j, _ := r.board().Lookup(child); !j.Background || j.Over() || j.OutputFile != file {
		t.Errorf("the job is %+v", j)
	}
	r.send(root, "pause")
	r.hanging(1)
	root.Cancel(agent.Cause{Kind: sdkproto.AbortUser}, "")
	r.idles("root", 2)
	if ends := r.only("settled aborted", "settled completed"); len(ends) > 0 {
		t.Errorf("ends %v", ends)
	}
	r.gate.release()
	if j := r.ends(child); j.Status != job.Completed {
		t.Errorf("the job is %s", j.Status)
	}
	r.idles("root", 3)
	if notices := r.notices("root"); len(notices) != 1 || !strings.HasSuffix(sdkproto.TextOf(notices[0].Content), "through") {
		t.Errorf("notices %v", notices)
	}
	if kept, err := os.ReadFile(file); err != nil || string(kept) != "through" {
		t.Errorf("the file holds %q, %v", kept, err)
	}
}

// A run that was let go ends with its parent's session, like any other.
func TestDetachedParentCloses(t *testing.T) {
	r := newRig(t)
	r.send(r.open("root", nil), "fg hang")
	r.hanging(1)
	if !r.board().Detach("root", "") {
		t.Fatal("nothing was let go")
	}
	r.idles("root", 1)
	if said, code := r.result("root"); code != "" || said != "subagent "+r.child(0)+" goes on in the background; a message will tell you when it has ended" {
		t.Errorf("%q %q", code, said)
	}
	if err := r.agents.Close(t.Context(), "root", agent.Cause{Kind: sdkproto.AbortUser}); err != nil {
		t.Fatal(err)
	}
	if end := r.settled(1)[0].Settled; end.StopReason != sdkproto.StopAborted {
		t.Errorf("settled %+v", end)
	}
}

// However the end of a run, its being let go, and the end of the turn fall
// together: the call has one result and the run one end, and the end is told to the
// parent exactly when the call was let go.
func TestDetachRaces(t *testing.T) {
	for i := range 20 {
		r := newRig(t)
		root := r.open("root", nil)
		r.send(root, "fg gate")
		r.crowd(1)
		child := r.child(0)
		var detached bool
		var all sync.WaitGroup
		all.Go(func() { r.gate.release() })
		all.Go(func() { detached = r.board().Detach("root", "") })
		if i%2 == 0 {
			all.Go(func() { root.Cancel(agent.Cause{Kind: sdkproto.AbortUser}, "") })
		}
		all.Wait()
		r.settled(1)
		r.idles("root", 1)
		if err := root.WhenIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(of[sdkproto.ToolResult](r, "root", sdkproto.TypeToolResult)); n != 1 {
			t.Fatalf("%d results", n)
		}
		if ends := r.only("settled aborted", "settled completed"); len(ends) != 1 {
			t.Fatalf("ends %v", ends)
		}
		said, _ := r.result("root")
		if letGo := strings.Contains(said, "goes on in the background"); letGo && !detached {
			t.Fatalf("let go is %v, and the result %q", detached, said)
		}
		if n := len(r.notices("root")); n > 1 || n == 1 != detached {
			t.Fatalf("let go is %v, and the parent has %d notices", detached, n)
		}
		if _, known := r.board().Lookup(child); known != detached {
			t.Fatalf("let go is %v, and the board remembers is %v", detached, known)
		}
	}
}
