package agentloop_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/agent"
	"dsh/plugins/agentloop"
	"dsh/sdkproto"
)

func posted(text, target string) agent.Message {
	return agent.Message{Content: []sdkproto.Block{sdkproto.Text(text)}, Source: sdkproto.Source{Kind: sdkproto.SourceUser}, Target: target}
}

// Spec jsonrpc 7.2, 14 line 6: messages that are posted together are one stretch
// of work, even when the model takes no time; each has its own receipt, and what
// is refused does not stop the others.
func TestPostedTogether(t *testing.T) {
	for range 50 {
		r := newRig(t, func(p *agentloop.Params) { p.Config.MaxQueued = 2 })
		a, rec := r.open("s")
		receipts := a.Post(
			posted("a", sdkproto.TargetNextTurn), posted("b", sdkproto.TargetNextTurn),
			posted("full", sdkproto.TargetNextTurn), posted("where", "nowhere"), posted("c", sdkproto.TargetNextStep),
		)
		idle(t, a)
		want := []string{
			`inbox next-turn at 0 -0 +["a"]`, "running", `inbox next-turn at 1 -0 +["b"]`, `inbox next-step at 0 -0 +["c"]`,
			"turn/start 1", "inbox next-step at 0 -1 +[]", "inbox next-turn at 0 -1 +[]", "step/start 1.1", "user a", "user c", "assistant ok", "step/end 1.1", "turn/end 1 completed",
			"turn/start 2", "inbox next-turn at 0 -1 +[]", "step/start 2.1", "user b", "assistant ok", "step/end 2.1", "turn/end 2 completed",
			"idle",
		}
		if d := cmp.Diff(want, rec.brief()); d != "" {
			t.Fatal(d)
		}
		if !errors.Is(receipts[2].Err, agent.ErrInboxFull) || !errors.Is(receipts[2].Wait(t.Context()), agent.ErrInboxFull) || receipts[2].ID != "" {
			t.Errorf("a full inbox gave %+v", receipts[2])
		}
		if receipts[3].Err == nil || receipts[3].ID != "" {
			t.Errorf("an unknown list gave %+v", receipts[3])
		}
		for i, seq := range map[int]int64{0: 0, 1: 1, 4: 2} {
			if err := receipts[i].Wait(t.Context()); err != nil {
				t.Errorf("receipt %d: %v", i, err)
			}
			m := decode[sdkproto.AgentInboxSpliced](r.store.records("s")[seq]).Inserted[0]
			if receipts[i].Seq != seq || receipts[i].ID != m.ID || m.ID == "" {
				t.Errorf("receipt %d is %+v, the event has %s", i, receipts[i], m.ID)
			}
		}
	}
}

func TestPostToClosed(t *testing.T) {
	r := newRig(t)
	a, _ := r.open("s")
	must(t, r.reg.Close(t.Context(), "s", agent.Cause{Kind: sdkproto.AbortUser}))
	for _, receipt := range a.Post(posted("a", sdkproto.TargetNextTurn), posted("b", sdkproto.TargetNextStep)) {
		if !errors.Is(receipt.Wait(t.Context()), agent.ErrClosing) {
			t.Errorf("got %+v", receipt)
		}
	}
}
