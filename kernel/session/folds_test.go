package session_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dsh/kernel/session"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

func message(id string) sdkproto.Message {
	return sdkproto.Message{Content: []sdkproto.Block{sdkproto.Text("text of " + id)}, Source: sdkproto.Source{Kind: sdkproto.SourceUser}, Role: sdkproto.RoleUser, ID: id}
}

func idsOf(messages []sdkproto.Message) []string {
	ids := []string{}
	for _, m := range messages {
		ids = append(ids, m.ID)
	}
	return ids
}

// record encodes a draft as a store would give it back: without its payload.
func record(t interface{ Fatal(...any) }, seq int64, d session.Draft) *session.Record {
	w := &memory{}
	l := session.NewLog(session.Header{ID: "s"}, w, seq, 0)
	if _, err := l.Append(d); err != nil {
		t.Fatal(err)
	}
	r := w.stored()[0]
	return &r
}

func splice(target string, start, removed int, inserted ...sdkproto.Message) session.Draft {
	return session.Draft{Type: sdkproto.TypeAgentInboxSpliced, Data: &sdkproto.AgentInboxSpliced{
		Target: target, Start: start, RemovedCount: removed, Inserted: inserted,
	}}
}

// The inbox is what plain splicing of two lists gives; splices that do not fit
// change nothing; lists that were handed out never change.
func TestInbox(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var inbox session.Inbox
		model := map[string][]string{}
		type handed struct {
			list []sdkproto.Message
			ids  []string
		}
		var out []handed
		for i := range rapid.IntRange(1, 30).Draw(t, "splices") {
			target := rapid.SampledFrom([]string{sdkproto.TargetNextTurn, sdkproto.TargetNextStep}).Draw(t, "target")
			list := model[target]
			odd := rapid.SampledFrom([]int{-1, 1 << 62, int(^uint(0) >> 1)})
			start := rapid.OneOf(rapid.IntRange(0, len(list)), rapid.IntRange(0, len(list)+1), odd).Draw(t, "start")
			removed := rapid.OneOf(rapid.IntRange(0, len(list)), rapid.IntRange(0, len(list)+1), odd).Draw(t, "removed")
			var inserted []sdkproto.Message
			var ids []string
			for j := range rapid.IntRange(0, 3).Draw(t, "inserted") {
				ids = append(ids, fmt.Sprintf("%d.%d", i, j))
				inserted = append(inserted, message(ids[j]))
			}
			err := inbox.Apply(record(t, 0, splice(target, start, removed, inserted...)))
			fits := start >= 0 && start <= len(list) && removed >= 0 && removed <= len(list)-start
			if (err == nil) != fits {
				t.Fatalf("splice at %d removing %d of %d: error %v", start, removed, len(list), err)
			}
			if fits {
				model[target] = slices.Concat(list[:start], ids, list[start+removed:])
			}
			for _, target := range []string{sdkproto.TargetNextTurn, sdkproto.TargetNextStep} {
				pending := inbox.Pending(target)
				if diff := cmp.Diff(append([]string{}, model[target]...), idsOf(pending)); diff != "" {
					t.Fatalf("%s (-want +got):\n%s", target, diff)
				}
				out = append(out, handed{pending, idsOf(pending)})
			}
			for _, h := range out {
				if diff := cmp.Diff(h.ids, idsOf(h.list)); diff != "" {
					t.Fatalf("a list that was handed out changed (-then +now):\n%s", diff)
				}
			}
		}
	})
}

// The surface is the fold of append and replace operations in seq order.
func TestSurface(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var surface session.Surface
		var model []int64 // seqs of the nodes
		for seq := range int64(rapid.IntRange(1, 30).Draw(t, "events")) {
			m := message(fmt.Sprint(seq))
			d := session.Draft{Type: sdkproto.TypeUserMessage, Data: &m}
			switch rapid.IntRange(0, 2).Draw(t, "type") {
			case 1:
				d = session.Draft{Type: sdkproto.TypeAssistantMessage, Data: &sdkproto.AssistantMessage{Message: m}}
			case 2:
				d = session.Draft{Type: sdkproto.TypeToolResult, Data: &sdkproto.ToolResult{Message: m}}
			}
			want := append(slices.Clone(model), seq)
			good := true
			if rapid.Bool().Draw(t, "replace") {
				bound := rapid.Int64Range(-1, seq)
				if len(model) > 0 {
					bound = rapid.OneOf(bound, rapid.SampledFrom(model))
				}
				start, end := bound.Draw(t, "start"), bound.Draw(t, "end")
				d.Surface = fmt.Appendf(nil, `{"op":"replace","start":%d,"end":%d}`, start, end)
				from, to := slices.Index(model, start), slices.Index(model, end)
				if good = from >= 0 && to >= from; good {
					want = slices.Concat(model[:from], []int64{seq}, model[to+1:])
				}
			}
			err := surface.Apply(record(t, seq, d))
			if (err == nil) != good {
				t.Fatalf("event %d, %s on %v: error %v", seq, d.Surface, model, err)
			}
			if good {
				model = want
			}
			wantIDs := []string{}
			for _, s := range model {
				wantIDs = append(wantIDs, fmt.Sprint(s))
			}
			if diff := cmp.Diff(wantIDs, idsOf(surface.Messages())); diff != "" {
				t.Fatalf("history (-want +got):\n%s", diff)
			}
		}
	})
}

func TestSurfaceRefuses(t *testing.T) {
	for _, op := range []string{`"prepend"`, `{"op":"append"}`, `{}`, `null`, ``} {
		m := message("m")
		data, err := wirejson.Marshal(&m)
		if err != nil {
			t.Fatal(err)
		}
		var surface session.Surface
		err = surface.Apply(&session.Record{Event: sdkproto.Event{Type: sdkproto.TypeUserMessage, Data: data, SurfaceOp: []byte(op)}})
		if err == nil {
			t.Errorf("surface operation %s was accepted", op)
		}
	}
}

// Ids that repeat within one answer: each call has its own result.
func TestRepeatedCallIDs(t *testing.T) {
	answer := session.Draft{Type: sdkproto.TypeAssistantMessage, Data: &sdkproto.AssistantMessage{Turn: 1, Step: 1, Message: sdkproto.Message{
		Role: sdkproto.RoleAssistant, Content: []sdkproto.Block{callBlock("a", "x"), callBlock("a", "y"), callBlock("b", "z")},
	}}}
	start := func(id string) session.Draft {
		return session.Draft{Type: sdkproto.TypeToolCall, Data: &sdkproto.ToolCall{Turn: 1, Step: 1, CallID: id}}
	}
	var b session.Brackets
	for i, tc := range []struct {
		draft session.Draft
		want  []session.OpenCall
	}{
		{answer, []session.OpenCall{{ID: "a", Name: "x"}, {ID: "a", Name: "y"}, {ID: "b", Name: "z"}}},
		{start("a"), []session.OpenCall{{ID: "a", Name: "x", Seq: 1, Started: true}, {ID: "a", Name: "y"}, {ID: "b", Name: "z"}}},
		{start("a"), []session.OpenCall{{ID: "a", Name: "x", Seq: 1, Started: true}, {ID: "a", Name: "y", Seq: 2, Started: true}, {ID: "b", Name: "z"}}},
		// The result that cites the second call closes the second.
		{resultOf("a", 2), []session.OpenCall{{ID: "a", Name: "x", Seq: 1, Started: true}, {ID: "b", Name: "z"}}},
		{resultOf("nobody"), []session.OpenCall{{ID: "a", Name: "x", Seq: 1, Started: true}, {ID: "b", Name: "z"}}},
		{resultOf("a"), []session.OpenCall{{ID: "b", Name: "z"}}},
		{resultOf("a"), []session.OpenCall{{ID: "b", Name: "z"}}},
		{resultOf("b"), nil},
	} {
		if err := b.Apply(record(t, int64(i), tc.draft)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, b.Calls); diff != "" {
			t.Errorf("after event %d (-want +got):\n%s", i, diff)
		}
	}
}

func callBlock(id, name string) sdkproto.Block {
	return sdkproto.Block{Type: sdkproto.BlockToolCall, ID: id, Name: name, Arguments: "{}"}
}

func resultOf(id string, sources ...int64) session.Draft {
	return session.Draft{Type: sdkproto.TypeToolResult, Sources: sources, Data: &sdkproto.ToolResult{Turn: 1, Step: 1, Message: sdkproto.Message{
		Source: sdkproto.Source{Kind: sdkproto.SourceTool, CallID: id},
	}}}
}

func header(system string) *sdkproto.Header {
	return &sdkproto.Header{
		Config: sdkproto.RequestConfig{Provider: "p", Model: "m"}, System: system,
		Tools: []sdkproto.ToolSchema{{Name: "bash", Description: strings.Repeat("d", 1000), Parameters: []byte(`{"type":"object"}`)}},
	}
}

// Equal headers are one value, unequal ones are not, and the pool keeps nothing
// alive.
func TestHeaderPool(t *testing.T) {
	var pool session.HeaderPool
	a, b := pool.Intern(header("a")), pool.Intern(header("b"))
	if got := pool.Intern(header("a")); got != a {
		t.Error("an equal header is a second value")
	}
	if a == b || a.System != "a" || b.System != "b" {
		t.Error("unequal headers are one value")
	}
	var none *session.HeaderPool
	if h := header("a"); none.Intern(h) != h || pool.Intern(nil) != nil {
		t.Error("no pool or no header gives another header")
	}
	// Two sessions that are read back share it as well.
	states := [2]session.State{}
	for i := range states {
		states[i].Header.Pool = &pool
		if err := states[i].Apply(record(t, 0, session.Draft{Type: sdkproto.TypeRequestHeader, Data: &sdkproto.RequestHeader{Header: *header("a")}})); err != nil {
			t.Fatal(err)
		}
		if states[i].Header.Header != a {
			t.Errorf("state %d has a header of its own", i)
		}
	}
	freed := make(chan struct{})
	runtime.AddCleanup(a, func(struct{}) { close(freed) }, struct{}{})
	states = [2]session.State{}
	a = nil
	for {
		runtime.GC()
		select {
		case <-freed:
		default:
			continue
		}
		break
	}
	if got := pool.Intern(header("b")); got != b {
		t.Error("a header that is in use left the pool")
	}
	if got := pool.Intern(header("a")); got == nil || got.System != "a" {
		t.Errorf("a header that was freed comes back as %+v", got)
	}
	runtime.KeepAlive(b)
}
