package agentloop_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/llm"
	"dsh/plugins/agentloop"
	"dsh/sdkproto"
)

// TestTextTurn holds a turn to the order of spec jsonrpc 1.4, 5.3 and 14 line 5.
func TestTextTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a, rec := r.open("s")
		id := send(t, a, "hello  there\nyou")
		idle(t, a)
		want := []string{
			`inbox next-turn at 0 -0 +["hello  there\nyou"]`,
			"running",
			"turn/start 1",
			"inbox next-turn at 0 -1 +[]",
			"step/start 1.1",
			"user hello  there\nyou",
			"session/title hello there you",
			"request/header initial",
			"request/context",
			"chunk block-start", "chunk text-delta", "chunk block-end", "chunk usage", "chunk finish stop",
			"assistant ok",
			"step/end 1.1",
			"turn/end 1 completed",
			"idle",
		}
		if d := cmp.Diff(want, rec.lines()); d != "" {
			t.Fatal(d)
		}
		var sources []int64
		for _, rd := range r.store.records("s") {
			switch rd.Event.Type {
			case sdkproto.TypeUserMessage:
				if m := decode[sdkproto.Message](rd); m.ID != id {
					t.Errorf("the user message has id %s, the receipt was %s", m.ID, id)
				}
			case sdkproto.TypeAssistantChunk:
				sources = append(sources, rd.Event.Seq)
			case sdkproto.TypeAssistantMessage:
				if d := cmp.Diff(sources, rd.Event.SourceEventSeqs); d != "" {
					t.Error(d)
				}
				if m := decode[sdkproto.AssistantMessage](rd); m.Usage == nil || m.Usage.InputTokens != 3 || m.Message.Source.Provider != "fake" {
					t.Errorf("assistant message %+v", m)
				}
			case sdkproto.TypeSessionTitle:
				if d := cmp.Diff([]int64{4}, decode[sdkproto.SessionTitle](rd).MessageSeqs); d != "" {
					t.Error(d)
				}
			}
		}
		whole(t, r.store.records("s"))

		send(t, a, "again")
		idle(t, a)
		want = append(want,
			`inbox next-turn at 0 -0 +["again"]`, "running", "turn/start 2", "inbox next-turn at 0 -1 +[]",
			"step/start 2.1", "user again",
			"chunk block-start", "chunk text-delta", "chunk block-end", "chunk usage", "chunk finish stop",
			"assistant ok", "step/end 2.1", "turn/end 2 completed", "idle",
		)
		if d := cmp.Diff(want, rec.lines()); d != "" {
			t.Fatal(d)
		}
	})
}

// TestThreePrompts is spec jsonrpc 14 line 6: one running, three turns, one
// idle.
func TestThreePrompts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hold := make(chan struct{})
		r.model.on(func(_ context.Context, n int, req llm.Request, y yield) {
			if n == 1 {
				<-hold
			}
			say(y, "re "+lastUserText(req))
		})
		a, rec := r.open("s")
		for _, text := range []string{"A", "B", "C"} {
			send(t, a, text)
			synctest.Wait()
		}
		close(hold)
		idle(t, a)
		want := []string{
			`inbox next-turn at 0 -0 +["A"]`, "running",
			"turn/start 1", "inbox next-turn at 0 -1 +[]", "step/start 1.1", "user A",
			`inbox next-turn at 0 -0 +["B"]`, `inbox next-turn at 1 -0 +["C"]`,
			"assistant re A", "step/end 1.1", "turn/end 1 completed",
			"turn/start 2", "inbox next-turn at 0 -1 +[]", "step/start 2.1", "user B", "assistant re B", "step/end 2.1", "turn/end 2 completed",
			"turn/start 3", "inbox next-turn at 0 -1 +[]", "step/start 3.1", "user C", "assistant re C", "step/end 3.1", "turn/end 3 completed",
			"idle",
		}
		if d := cmp.Diff(want, rec.brief()); d != "" {
			t.Fatal(d)
		}
	})
}

// TestRaceAtTurnEnd is spec jsonrpc 14 line 7: a prompt that comes exactly when
// a turn ends never sees an idle between its receipt and its turn.
func TestRaceAtTurnEnd(t *testing.T) {
	r := newRig(t, func(p *agentloop.Params) { p.Config.VerifyRequests = false })
	ended := make(chan struct{}, 1)
	r.model.on(func(_ context.Context, _ int, _ llm.Request, y yield) {
		say(y, "ok")
		ended <- struct{}{}
	})
	const sessions, races = 20, 50
	for n := range sessions {
		a, rec := r.open(fmt.Sprint("s", n))
		for i := range races {
			send(t, a, "first")
			<-ended
			// The answer is about to be committed, or just was.
			for range i * 3 {
				a.Status()
			}
			send(t, a, "second")
			<-ended
			if i%5 == 0 {
				idle(t, a)
			}
		}
		idle(t, a)
		waiting, turns := 0, 0
		state := sdkproto.StatusIdle
		for _, l := range rec.brief() {
			switch {
			case l == "idle" || l == "running":
				if l == string(state) {
					t.Fatalf("%s was said twice in a row", l)
				}
				if state = sdkproto.Status(l); l == "idle" && waiting > 0 {
					t.Fatalf("idle while %d receipts wait for their turn", waiting)
				}
			case strings.HasPrefix(l, "inbox ") && !strings.HasSuffix(l, "[]"):
				if state == sdkproto.StatusIdle && waiting > 0 {
					t.Fatal("a receipt did not make the agent run")
				}
				waiting++
			case strings.HasPrefix(l, "turn/end"):
				waiting--
				turns++
			}
		}
		if state != sdkproto.StatusIdle || waiting != 0 || turns != 2*races {
			t.Fatalf("ended %s with %d waiting after %d turns", state, waiting, turns)
		}
	}
}
