package kernel

import (
	"context"
	"sync"

	"go.uber.org/fx"
)

// hooks gives fx's start and stop hooks the limits that fx lacks: fx skips every
// remaining hook once the context of a start or stop has expired, and waits for
// a hook that ignores it (case B74). So fx gets a context that never expires,
// and each hook a bounded one of its own.
type hooks struct {
	mu  sync.Mutex
	ctx context.Context
}

// during runs f with ctx as the limit of all hooks.
func (h *hooks) during(ctx context.Context, f func(context.Context) error) error {
	h.mu.Lock()
	h.ctx = ctx
	h.mu.Unlock()
	return f(context.WithoutCancel(ctx))
}

func (h *hooks) bounded(name string, f func(context.Context) error) func(context.Context) error {
	if f == nil {
		return nil
	}
	return func(context.Context) error {
		h.mu.Lock()
		ctx := h.ctx
		h.mu.Unlock()
		return runStep(ctx, step{name, f}, 0)
	}
}

// decorate puts the limits around every hook that a row appends.
func (h *hooks) decorate() fx.Option {
	return fx.Decorate(func(lc fx.Lifecycle) fx.Lifecycle { return limited{lc, h} })
}

type limited struct {
	fx.Lifecycle
	hooks *hooks
}

func (l limited) Append(hook fx.Hook) {
	l.Lifecycle.Append(fx.Hook{OnStart: l.hooks.bounded("start hook", hook.OnStart), OnStop: l.hooks.bounded("stop hook", hook.OnStop)})
}
