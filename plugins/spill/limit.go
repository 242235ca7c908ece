package spill

import (
	"context"

	"dsh/kernel"
	"dsh/kernel/tool"
)

// limit adds the stage that bounds results.
func (s *Spill) limit(o *kernel.Owner, p *tool.Pipeline, most int) error {
	if most == 0 {
		return nil
	}
	return p.Use(o, tool.OrderLimit, "limit", func(ctx context.Context, t tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
		r, err := next(ctx, t, in)
		if err != nil || len(r.Content) == 0 {
			return r, err
		}
		return tool.Bound(r, max(most, t.Spec().MaxText), s, in), nil
	})
}
