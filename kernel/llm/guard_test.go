package llm_test

import (
	"context"
	"iter"
	"testing"

	"dsh/kernel"
	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// echo answers with the cap that it was given as its usage, or fails.
type echo struct {
	fail error
	sent int
}

func (*echo) Resolve(r llm.Route) (llm.Route, sdkproto.AdapterDefaults, llm.Info, error) {
	return r, sdkproto.AdapterDefaults{}, llm.Info{MaxOutput: 7}, nil
}

func (e *echo) Stream(_ context.Context, r llm.Request) iter.Seq2[sdkproto.Chunk, error] {
	return func(yield func(sdkproto.Chunk, error) bool) {
		e.sent++
		if e.fail != nil {
			yield(sdkproto.Chunk{}, e.fail)
			return
		}
		usage := sdkproto.Chunk{Type: sdkproto.ChunkUsage, Usage: &sdkproto.Usage{OutputTokens: r.Header.Config.MaxTokens}}
		_ = yield(usage, nil) && yield(sdkproto.Chunk{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: sdkproto.FinishStop}}, nil)
	}
}

// keeper lowers every cap to 5, or refuses, and keeps what was settled.
type keeper struct {
	refuse  error
	usage   *sdkproto.Usage
	sent    bool
	settled int
}

func (k *keeper) Reserve(_ context.Context, r *llm.Request, info llm.Info) (llm.Reservation, error) {
	if k.refuse != nil {
		return nil, k.refuse
	}
	r.Header.Config.MaxTokens = min(5, info.MaxOutput)
	return k, nil
}

func (k *keeper) Settle(u *sdkproto.Usage, sent bool) { k.usage, k.sent, k.settled = u, sent, k.settled+1 }

func TestGuard(t *testing.T) {
	refused := &llm.Error{Code: llm.CodeBudget, Message: "no room"}
	for _, c := range []struct {
		name    string
		refuse  error
		fail    error
		sent    int
		settled int
		usage   int64 // -1 for unknown
		charged bool
	}{
		{"an answer is settled with its usage", nil, nil, 1, 1, 5, true},
		{"a refusal sends nothing", refused, nil, 0, 0, -1, false},
		{"an attempt that breaks may have cost something", nil, &llm.Error{Code: llm.CodeTransport}, 1, 1, -1, true},
		{"an attempt that the provider refuses has not", nil, &llm.Error{Code: llm.CodeRateLimit, Status: 429}, 1, 1, -1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, r := kernel.NewOwner(t.Context(), "test"), llm.NewRouter()
			a, k := &echo{fail: c.fail}, &keeper{refuse: c.refuse}
			if err := r.Register(o, "echo", a); err != nil {
				t.Fatal(err)
			}
			if err := r.Guard(o, k); err != nil {
				t.Fatal(err)
			}
			if err := r.Guard(o, k); err == nil {
				t.Error("a second guard is taken")
			}
			adapter, err := r.Lookup("echo")
			if err != nil {
				t.Fatal(err)
			}
			var failed error
			for _, err := range adapter.Stream(t.Context(), llm.Request{}) {
				failed = err
			}
			if (failed != nil) != (c.refuse != nil || c.fail != nil) {
				t.Errorf("the stream ended with %v", failed)
			}
			usage := int64(-1)
			if k.usage != nil {
				usage = k.usage.OutputTokens
			}
			if a.sent != c.sent || k.settled != c.settled || usage != c.usage || k.sent != c.charged {
				t.Errorf("sent %d, settled %d, usage %d, charged %v; want %d, %d, %d, %v", a.sent, k.settled, usage, k.sent, c.sent, c.settled, c.usage, c.charged)
			}
			if err := o.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := r.Guard(kernel.NewOwner(t.Context(), "again"), k); err != nil {
				t.Errorf("after its owner was closed: %v", err)
			}
		})
	}
}
