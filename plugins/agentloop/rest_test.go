package agentloop_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/agent"
	"dsh/sdkproto"
)

// Work at rest is a run of the agent like a turn: what comes meanwhile runs behind
// it, a second one is refused, and what it sees is what a request would be made of.
func TestAtRest(t *testing.T) {
	r := newRig(t)
	a, rec := r.open("s")
	rests := a.(agent.Resting)
	send(t, a, "one")
	idle(t, a)
	before := len(rec.brief())
	err := rests.AtRest(t.Context(), func(_ context.Context, s agent.Step) error {
		messages := 0
		a.Log().View(func() { messages = len(s.State.Surface.Messages()) })
		if s.Agent != a || s.Turn != 1 || s.Step != 0 || s.Adapter == nil || s.Header == nil || s.Route.Model == "" || messages != 2 {
			t.Errorf("step %+v with %d messages", s, messages)
		}
		if err := rests.AtRest(t.Context(), func(context.Context, agent.Step) error { return nil }); !errors.Is(err, agent.ErrBusy) {
			t.Errorf("a second one: %v", err)
		}
		must(t, a.Post(posted("two", sdkproto.TargetNextTurn))[0].Err)
		if a.Status() != sdkproto.StatusRunning {
			t.Errorf("status %v", a.Status())
		}
		return errors.New("as it is")
	})
	if err == nil || err.Error() != "as it is" {
		t.Errorf("error %v", err)
	}
	idle(t, a)
	if d := cmp.Diff([]string{
		"running", `inbox next-turn at 0 -0 +["two"]`, "turn/start 2", "inbox next-turn at 0 -1 +[]", "step/start 2.1", "user two", "assistant ok", "step/end 2.1",
		"turn/end 2 completed", "idle",
	}, rec.brief()[before:]); d != "" {
		t.Error(d)
	}
}

// A turn that runs is not disturbed; a panic is an error of the work alone; an agent
// that is closed ends the work, and takes none.
func TestAtRestEnds(t *testing.T) {
	r := newRig(t)
	a, _ := r.open("s")
	rests := a.(agent.Resting)
	err := rests.AtRest(t.Context(), func(context.Context, agent.Step) error { panic("oh") })
	if err == nil || !strings.Contains(err.Error(), "oh") {
		t.Errorf("a panic gave %v", err)
	}
	idle(t, a)
	ctx, cancel := context.WithCancel(t.Context())
	err = rests.AtRest(ctx, func(ctx context.Context, _ agent.Step) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled one gave %v", err)
	}
	send(t, a, "still here")
	idle(t, a)

	begun, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- rests.AtRest(t.Context(), func(ctx context.Context, _ agent.Step) error {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	<-begun
	must(t, r.reg.Close(t.Context(), "s", agent.Cause{Kind: sdkproto.AbortDisposed}))
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("closing gave %v", err)
	}
	if err := rests.AtRest(t.Context(), func(context.Context, agent.Step) error { return nil }); !errors.Is(err, agent.ErrClosing) {
		t.Errorf("a closed agent gave %v", err)
	}
}
