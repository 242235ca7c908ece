package subagent_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/job"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/subagent"
	"dsh/sdkproto"
)

// only gives the lines that end with one of the words.
func (r *rig) only(words ...string) []string {
	var lines []string
	for _, line := range r.lines(r.all()) {
		for _, w := range words {
			if strings.HasSuffix(line, " "+w) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// idles waits until a session has come to rest n times.
func (r *rig) idles(id string, n int) {
	r.t.Helper()
	r.await(fmt.Sprintf("rest %d of %s", n, id), func(all []session.Entry) bool {
		seen := 0
		for _, e := range all {
			if e.SessionID == id && e.Status == sdkproto.StatusIdle {
				seen++
			}
		}
		return seen >= n
	})
}

// notices are the reports that a session got.
func (r *rig) notices(id string) []sdkproto.Message {
	var found []sdkproto.Message
	for _, s := range of[sdkproto.AgentInboxSpliced](r, id, sdkproto.TypeAgentInboxSpliced) {
		for _, m := range s.Inserted {
			if m.Source.Kind == sdkproto.SourceSubagentSettled {
				found = append(found, m)
			}
		}
	}
	return found
}

// TestBackground is the order of spec jsonrpc 8.3: the parent comes to rest while
// the child works, and the child's report wakes it.
func TestBackground(t *testing.T) {
	r := newRig(t)
	root := r.open("root", nil)
	if got := r.ask(root, "bg gate"); !strings.HasPrefix(got, "started subagent ") {
		t.Errorf("the parent got %q", got)
	}
	r.crowd(1)
	id := r.children()[0]
	if said, code := r.result("root"); said != "started subagent "+id || code != "" {
		t.Errorf("%q %q", code, said)
	}
	r.gate.release()
	r.idles("root", 2)
	ends := r.settled(1)
	if want := (session.Settled{
		Provider: "spawn", Parent: "root", AgentID: id, Call: "call_1_1_1", StopReason: "completed", Last: []sdkproto.Block{sdkproto.Text("through")}, Local: true,
	}); len(ends) != 1 || fmt.Sprint(want) != fmt.Sprint(*ends[0].Settled) {
		t.Errorf("settled %+v", ends[0].Settled)
	}

	lines := r.lines(r.all())
	at := func(line string, after int) int {
		t.Helper()
		i := slices.Index(lines[after:], line)
		if i < 0 {
			t.Fatalf("%q does not come after line %d of\n%s", line, after, strings.Join(lines, "\n"))
		}
		return after + i
	}
	call := at("root tool/call", 0)
	started := at("child1 subagent/descriptor", call)
	at("root tool/result", started)
	rest := at("root idle", started)
	done := at("child1 idle", max(rest, at("child1 running", started)))
	woken := at("root running", at("root agent/inbox/spliced", done))
	at("child1 settled completed", woken)
	at("root idle", woken)

	for _, s := range of[sdkproto.AgentInboxSpliced](r, "root", sdkproto.TypeAgentInboxSpliced) {
		if s.Target != sdkproto.TargetNextTurn {
			t.Errorf("the parent gets messages for %s", s.Target)
		}
	}
	notices := r.notices("root")
	if len(notices) != 1 {
		t.Fatalf("%d notices", len(notices))
	}
	source := sdkproto.Source{Kind: "subagent-settled", Form: "notice", Summary: "Subagent " + id + " (do gate) has ended: completed", SenderSessionID: id}
	if fmt.Sprint(notices[0].Source) != fmt.Sprint(source) {
		t.Errorf("source %+v", notices[0].Source)
	}
	if text := sdkproto.TextOf(notices[0].Content); !strings.HasSuffix(text, "\n\nthrough") {
		t.Errorf("text %q", text)
	}
	if _, live := r.agents.Get(id); live {
		t.Error("the child is live after its end")
	}
}

// TestBackgroundFailure: the report says what went wrong.
func TestBackgroundFailure(t *testing.T) {
	r := newRig(t)
	r.send(r.open("root", nil), "bg broken")
	r.settled(1)
	notices := r.notices("root")
	if len(notices) != 1 {
		t.Fatalf("%d notices", len(notices))
	}
	for _, part := range []string{"has ended: error", "the key is not valid (AUTH)", "So far"} {
		if text := sdkproto.TextOf(notices[0].Content); !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
}

// TestBackgroundByDefault: the row says what a call means that does not.
func TestBackgroundByDefault(t *testing.T) {
	for background, want := range map[string]string{"false": "so I am", "true": "started subagent "} {
		r := newRig(t, "subagent.background="+background)
		r.send(r.open("root", nil), "default think")
		r.settled(1)
		r.idles("root", 1)
		if got, _ := r.result("root"); !strings.HasPrefix(got, want) {
			t.Errorf("background %s: %q", background, got)
		}
	}
}

// TestBackgroundOutlivesTurn: a child in the background belongs to the session
// and not to the turn.
func TestBackgroundOutlivesTurn(t *testing.T) {
	r := newRig(t)
	root := r.open("root", nil)
	r.ask(root, "bg gate")
	r.crowd(1)
	r.send(root, "pause")
	r.hanging(1)
	root.Cancel(agent.Cause{Kind: sdkproto.AbortUser}, "")
	r.idles("root", 2)
	if ends := r.only("settled aborted", "settled completed"); len(ends) > 0 {
		t.Errorf("ends %v", ends)
	}
	r.gate.release()
	r.idles("root", 3)
	if end := r.settled(1)[0].Settled; end.StopReason != sdkproto.StopCompleted {
		t.Errorf("settled %+v", end)
	}
}

// TestParentCloses: children in the background, and theirs, end with the session.
func TestParentCloses(t *testing.T) {
	r := newRig(t)
	root := r.open("root", nil)
	r.ask(root, "bg bg hang")
	r.hanging(1)
	if err := r.agents.Close(context.Background(), "root", agent.Cause{Kind: sdkproto.AbortUser}); err != nil {
		t.Fatal(err)
	}
	r.settled(2)
	if diff := cmp.Diff([]string{"child2 settled aborted", "child1 settled aborted"}, r.only("settled aborted", "settled completed")); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
	for _, id := range append(r.children(), "root") {
		if notices := r.notices(id); len(notices) > 0 {
			t.Errorf("%s is told %v", id, notices)
		}
		if _, live := r.agents.Get(id); live {
			t.Errorf("%s is live", id)
		}
	}
}

// TestGrandchildInBackground: a child that waits for one of its own is not done.
func TestGrandchildInBackground(t *testing.T) {
	r := newRig(t)
	root := r.open("root", nil)
	r.send(root, "fg bg gate")
	r.crowd(1)
	child := r.children()[0]
	r.idles(child, 1)
	if ends := r.only("settled completed"); len(ends) > 0 {
		t.Errorf("ends %v", ends)
	}
	r.gate.release()
	r.idles("root", 1)
	if said, code := r.result("root"); said != "I have been told" || code != "" {
		t.Errorf("%q %q", code, said)
	}
	if diff := cmp.Diff([]string{"child2 settled completed", "child1 settled completed"}, r.only("settled completed")); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
}

// TestLimit is case B90: no more children than allowed, an error that names those
// at work, no place for a new one while another is being stopped, and no effect
// on other sessions.
func TestLimit(t *testing.T) {
	r := newRig(t, "subagent.maxChildren=2")
	root, other := r.open("root", nil), r.open("other", nil)
	r.ask(root, "bg gate")
	r.ask(root, "bg gate")
	r.crowd(2)
	ids := r.children()
	refused := func(parts ...string) {
		t.Helper()
		r.ask(root, "bg gate")
		said, code := r.result("root")
		if code != "SUBAGENT_LIMIT" {
			t.Errorf("code %q: %s", code, said)
		}
		for _, part := range append(parts, "maxChildren", "interrupt_agent") {
			if !strings.Contains(said, part) {
				t.Errorf("%q lacks %q", said, part)
			}
		}
	}
	refused(ids[0]+" (do gate), in the background", ids[1]+" (do gate), in the background")
	if got := r.ask(other, "fg think"); got != "so I am" {
		t.Errorf("another session got %q", got)
	}
	if got := r.ask(other, `call interrupt_agent {"id":"`+ids[0]+`"}`); !strings.Contains(got, "no subagent") {
		t.Errorf("another session stops it: %q", got)
	}
	if got := r.ask(root, `call interrupt_agent {"id":"`+ids[0]+`"}`); got != "Subagent "+ids[0]+" is being stopped." {
		t.Errorf("got %q", got)
	}
	refused(ids[0]+" (do gate), being stopped", ids[1])
	r.settled(2) // one of the other session, one that was stopped
	r.await("a report", func([]session.Entry) bool { return len(r.notices("root")) == 1 })
	if text := sdkproto.TextOf(r.notices("root")[0].Content); !strings.Contains(text, ids[0]) || !strings.Contains(text, "aborted") {
		t.Errorf("report %q", text)
	}
	if err := root.WhenIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		got := r.ask(root, "bg think")
		if strings.HasPrefix(got, "started") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no place: %q", got)
		}
	}
}

// TestFamily: a whole tree has a limit, too, however it is spread.
func TestFamily(t *testing.T) {
	r := newRig(t, "subagent.maxDescendants=2")
	if got := r.ask(r.open("root", nil), "fg fg fg think"); !strings.Contains(got, "maxDescendants") || strings.Count(got, "failed: ") != 1 {
		t.Errorf("got %q", got)
	}
	if n := len(r.children()); n != 2 {
		t.Errorf("%d children", n)
	}
}

func TestList(t *testing.T) {
	r := newRig(t)
	root := r.open("root", nil)
	if got := r.ask(root, "call list_agents"); got != "No subagent is at work." {
		t.Errorf("got %q", got)
	}
	r.ask(root, "bg gate")
	r.crowd(1)
	if got := r.ask(root, "call list_agents"); !strings.HasPrefix(got, r.children()[0]+" (do gate), in the background, for ") {
		t.Errorf("got %q", got)
	}
	if got := r.ask(r.open("other", nil), "call list_agents"); got != "No subagent is at work." {
		t.Errorf("another session got %q", got)
	}
}

// TestQuiesce: the end of the process ends all children in time, in the
// foreground and in the background, tells of each, and leaves every log in order.
func TestQuiesce(t *testing.T) {
	r := newRig(t)
	r.ask(r.open("a", nil), "bg fg hang")
	r.send(r.open("b", nil), "fg bg hang")
	r.await("four children", func([]session.Entry) bool { return len(r.children()) == 4 })
	r.hanging(2)
	if err := r.Kernel.Root().Quiesce(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Whoever drains what was said then has the ends, too.
	if err := r.sub.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ends := r.only("settled aborted"); len(ends) != 4 {
		t.Errorf("ends %v", ends)
	}
	for _, id := range append(r.children(), "a", "b") {
		last := ""
		if err := r.agents.Events(context.Background(), id, 0, func(rec *session.Record) error {
			last = rec.Event.Type
			return nil
		}); err != nil || last != sdkproto.TypeTurnEnd {
			t.Errorf("the log of %s ends with %s: %v", id, last, err)
		}
	}
}

// TestRowCloses: a row that is taken away takes its children with it, and waits
// for them.
func TestRowCloses(t *testing.T) {
	r := boot(t, rows)
	owner := kernel.NewOwner(context.Background(), "row subagent")
	s := subagent.New(subagent.Params{
		Self:   kernel.Instance{Owner: owner, Root: r.Kernel.Root(), Log: slog.New(slog.DiscardHandler)},
		Config: *subagent.Plugin.Defaults().(*subagent.Config), Tools: seam[*tool.Registry](r), Agents: r.agents, Board: seam[*job.Board](r),
	})
	if err := s.Register(); err != nil {
		t.Fatal(err)
	}
	r.ask(r.open("root", nil), "bg hang")
	r.hanging(1)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := owner.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := r.sub.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"child1 settled aborted"}, r.only("settled aborted", "settled completed")); diff != "" {
		t.Fatalf("ends (-want +got):\n%s", diff)
	}
	if last := r.settled(1)[0].Settled.Last; sdkproto.TextOf(last) != "Here I stay" {
		t.Errorf("last %v", last)
	}
	if _, live := r.agents.Get(r.children()[0]); live {
		t.Error("the child is live")
	}
	if _, there := seam[*tool.Registry](r).View(nil).Lookup("subagent"); there {
		t.Error("the tool is there")
	}
}
