package compaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"dsh/kernel/hook"
)

// errForbidden says that a hook does not let the history be shortened.
var errForbidden = errors.New("a hook has forbidden to shorten the history")

// trigger is why a round begins: nobody has asked for it, or somebody has.
func (r *room) trigger() string {
	if r.order == nil {
		return "auto"
	}
	return "manual"
}

// before tells hooks that a part of the history is about to be replaced, once for
// each model request.
func (r *room) before(ctx context.Context) error {
	if r.told || r.engine == nil || !r.engine.Any(r.step.Agent.Spec().CWD, hook.PreCompact) {
		return nil
	}
	var instructions any // null without
	if r.order != nil && r.order.Instructions != "" {
		instructions = r.order.Instructions
	}
	out := r.run(ctx, hook.PreCompact, map[string]any{"trigger": r.trigger(), "custom_instructions": instructions})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case out.Decision == hook.Block || out.Stopped:
		return fmt.Errorf("%w: %s", errForbidden, cmp.Or(out.Reason, out.StopReason, "it gives no reason"))
	}
	r.told = true
	return nil
}

// after tells hooks what stands in the place of a part of the history.
func (r *room) after(ctx context.Context, summary string) {
	if r.engine != nil && r.engine.Any(r.step.Agent.Spec().CWD, hook.PostCompact) {
		r.run(ctx, hook.PostCompact, map[string]any{"trigger": r.trigger(), "compact_summary": summary})
	}
}

func (r *room) run(ctx context.Context, event string, members map[string]any) hook.Outcome {
	spec := r.step.Agent.Spec()
	return r.engine.Run(ctx, hook.Input{Event: event, SessionID: spec.ID, CWD: spec.CWD, Match: r.trigger(), Members: members})
}
