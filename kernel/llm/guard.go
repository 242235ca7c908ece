package llm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http/httptrace"
	"sync/atomic"
	"time"

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

// Bounded is what a Reservation may be beside: one that holds only until a moment.
type Bounded interface {
	// Deadline is when the attempt is cut short, the zero time for never; late then
	// gives the error that it ends with.
	Deadline() (at time.Time, late func() error)
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

// guardedCounter is one that counts tokens, too; that is free.
type guardedCounter struct {
	guarded
	TokenCounter
}

func guardedBy(g Guard, a Adapter) Adapter {
	if counter, ok := a.(TokenCounter); ok {
		return &guardedCounter{guarded{a, g}, counter}
	}
	return &guarded{a, g}
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
		one := attempt{most: r.Header.Config.MaxTokens}
		defer func() { held.Settle(one.outcome()) }()
		outer := ctx
		var late func() error
		if b, ok := held.(Bounded); ok {
			var at time.Time
			if at, late = b.Deadline(); !at.IsZero() {
				var cancel context.CancelFunc
				ctx, cancel = context.WithDeadline(ctx, at)
				defer cancel()
			}
		}
		for chunk, err := range a.Adapter.Stream(one.trace(ctx), r) {
			one.see(&chunk, err)
			if err != nil && outer.Err() == nil && late != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				err = late()
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}

// attempt finds out what one attempt may have cost.
type attempt struct {
	// most bounds the output, in tokens; 0 is no bound.
	most    int64
	usage   *sdkproto.Usage
	began   bool // something of an answer has come
	ended   bool // all of it has
	refused bool // the provider, or the adapter before it, would not have it
	// unreached says that no connection could be made, reached that there was one:
	// only adapters that speak HTTP tell.
	unreached, reached atomic.Bool
}

// trace has the connections of an attempt watched.
func (a *attempt) trace(ctx context.Context) context.Context {
	failed := func(err error) {
		if err != nil {
			a.unreached.Store(true)
		}
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSDone:     func(i httptrace.DNSDoneInfo) { failed(i.Err) },
		ConnectDone: func(_, _ string, err error) { failed(err) },
		GotConn:     func(httptrace.GotConnInfo) { a.reached.Store(true) },
	})
}

func (a *attempt) see(chunk *sdkproto.Chunk, err error) {
	if err != nil {
		var failed *Error
		// Providers charge nothing for what they refuse; what breaks later they do.
		a.refused = !a.began && errors.As(err, &failed) &&
			(failed.Status >= 400 || failed.Code == CodeMissingCredential || failed.Code == CodeInvalidCredential)
		return
	}
	a.began = true
	if chunk.Usage != nil {
		a.usage = chunk.Usage
	}
	a.ended = a.ended || chunk.Type == sdkproto.ChunkFinish
}

// outcome is what is known when the attempt is over. What the provider had told of
// an answer that was cut off counts its input; the output may have been as long as
// it was allowed to be.
func (a *attempt) outcome() (usage *sdkproto.Usage, sent bool) {
	switch {
	case a.ended || a.usage == nil:
		return a.usage, !a.refused && (a.began || a.reached.Load() || !a.unreached.Load())
	case a.most <= 0:
		return nil, true
	}
	cut := *a.usage
	cut.OutputTokens = max(cut.OutputTokens, a.most)
	return &cut, true
}
