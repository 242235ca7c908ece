package llm

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"dsh/kernel"
	"dsh/sdkproto"
)

// Guard decides on every model request, whoever makes it, before it is sent: a
// budget reserves what the request may use at worst, so that no request is sent
// that might pass a cap. Its methods may be called from any goroutine.
type Guard interface {
	// Reserve sets aside what an attempt may use at worst. It may lower the request's
	// Header.Config.MaxTokens so that it fits. An error, an *Error of CodeBudget where
	// a cap is the reason, keeps the request from being sent.
	Reserve(ctx context.Context, r *Request, info Info) (Reservation, error)
}

// Reservation is what one attempt may use.
type Reservation interface {
	// Settle puts what was used in the place of what was set aside. It is called
	// once. usage is nil when the provider has not said it: then what is spent is not
	// known, and sent says whether the request may have been answered.
	Settle(usage *sdkproto.Usage, sent bool)
}

// Guard has g asked about every request from now on, until o is closed. Error:
// there is a guard already.
func (r *Router) Guard(o *kernel.Owner, g Guard) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.guard != nil {
		return errors.New("model requests have a guard already; leave one of the two rows out")
	}
	if err := o.OnClose("guard of model requests", func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.guard = nil
		return nil
	}); err != nil {
		return fmt.Errorf("guard the model requests: %w", err)
	}
	r.guard = g
	return nil
}

// guarded is an adapter whose attempts are reserved for.
type guarded struct {
	Adapter
	guard Guard
}

// Stream implements Adapter.
func (a *guarded) Stream(ctx context.Context, r Request) iter.Seq2[sdkproto.Chunk, error] {
	return func(yield func(sdkproto.Chunk, error) bool) {
		c := r.Header.Config
		_, _, info, err := a.Resolve(Route{c.Provider, c.Model, c.MaxTokens, c.ReasoningEffort})
		if err != nil {
			yield(sdkproto.Chunk{}, err)
			return
		}
		held, err := a.guard.Reserve(ctx, &r, info)
		if err != nil {
			yield(sdkproto.Chunk{}, err)
			return
		}
		var usage *sdkproto.Usage
		sent := true
		defer func() { held.Settle(usage, sent) }()
		for chunk, err := range a.Adapter.Stream(ctx, r) {
			if chunk.Usage != nil {
				usage = chunk.Usage
			}
			var failed *Error
			if errors.As(err, &failed) && failed.Status >= 400 {
				sent = false // providers charge nothing for what they refuse
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}
