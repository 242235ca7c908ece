package llm_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

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

func (k *keeper) Settle(u *sdkproto.Usage, sent bool) {
	k.usage, k.sent, k.settled = u, sent, k.settled+1
}

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

// script is an adapter that yields what it is told to.
type script func(ctx context.Context, yield func(sdkproto.Chunk, error) bool)

func (script) Resolve(r llm.Route) (llm.Route, sdkproto.AdapterDefaults, llm.Info, error) {
	return r, sdkproto.AdapterDefaults{}, llm.Info{MaxOutput: 7}, nil
}

func (s script) Stream(ctx context.Context, _ llm.Request) iter.Seq2[sdkproto.Chunk, error] {
	return func(yield func(sdkproto.Chunk, error) bool) { s(ctx, yield) }
}

// counting is one whose provider counts tokens.
type counting struct{ script }

func (counting) CountTokens(context.Context, llm.Request) (int64, error) { return 42, nil }

// behind gives an adapter behind a guard.
func behind(t *testing.T, a llm.Adapter, g llm.Guard) llm.Adapter {
	t.Helper()
	o, r := kernel.NewOwner(t.Context(), "test"), llm.NewRouter()
	if err := errors.Join(r.Register(o, "p", a), r.Guard(o, g)); err != nil {
		t.Fatal(err)
	}
	guarded, err := r.Lookup("p")
	if err != nil {
		t.Fatal(err)
	}
	return guarded
}

// An adapter that counts tokens is one behind a guard, too.
func TestGuardCounts(t *testing.T) {
	c, ok := behind(t, counting{}, &keeper{}).(llm.TokenCounter)
	if !ok {
		t.Fatal("the guard hides that the provider counts")
	}
	if n, err := c.CountTokens(t.Context(), llm.Request{}); n != 42 || err != nil {
		t.Errorf("counted %d, %v", n, err)
	}
	if _, ok := behind(t, script(nil), &keeper{}).(llm.TokenCounter); ok {
		t.Error("a provider that does not count seems to")
	}
}

// What is known of an attempt that broke: of an answer that had begun its input, and
// that the output may have been as long as it was allowed to be; nothing was used
// where no connection came about.
func TestGuardOfBrokenAttempts(t *testing.T) {
	usage := sdkproto.Chunk{Type: sdkproto.ChunkUsage, Usage: &sdkproto.Usage{InputTokens: 11, OutputTokens: 1}}
	text := sdkproto.Chunk{Type: sdkproto.ChunkTextDelta, Text: "x"}
	get := func(url string) script {
		return func(ctx context.Context, yield func(sdkproto.Chunk, error) bool) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err == nil {
				var resp *http.Response
				if resp, err = (&http.Transport{DisableKeepAlives: true}).RoundTrip(req); err == nil {
					resp.Body.Close()
				}
			}
			yield(sdkproto.Chunk{}, &llm.Error{Code: llm.CodeTransport, Message: fmt.Sprint(err)})
		}
	}
	broken := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer broken.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, c := range map[string]struct {
		script script
		input  int64 // -1 for unknown
		output int64
		sent   bool
	}{
		"cut behind its usage": {func(_ context.Context, yield func(sdkproto.Chunk, error) bool) {
			_ = yield(usage, nil) && yield(text, nil) && yield(sdkproto.Chunk{}, &llm.Error{Code: llm.CodeServer, Status: 529})
		}, 11, 5, true},
		"cut behind some text": {func(_ context.Context, yield func(sdkproto.Chunk, error) bool) {
			_ = yield(text, nil) && yield(sdkproto.Chunk{}, &llm.Error{Code: llm.CodeServer, Status: 529})
		}, -1, 0, true},
		"no credential": {func(_ context.Context, yield func(sdkproto.Chunk, error) bool) {
			yield(sdkproto.Chunk{}, &llm.Error{Code: llm.CodeMissingCredential})
		}, -1, 0, false},
		"nobody listens":        {get(gone.URL), -1, 0, false},
		"the connection breaks": {get(broken.URL), -1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			k := &keeper{}
			for range behind(t, c.script, k).Stream(t.Context(), llm.Request{}) {
				continue
			}
			input, output := int64(-1), int64(0)
			if k.usage != nil {
				input, output = k.usage.InputTokens, k.usage.OutputTokens
			}
			if k.settled != 1 || k.sent != c.sent || input != c.input || output != c.output {
				t.Errorf("settled %d times with %d and %d tokens, sent %v", k.settled, input, output, k.sent)
			}
		})
	}
}

// hurried is a keeper whose reservations do not hold for long.
type hurried struct {
	keeper
	at time.Time
}

func (h *hurried) Reserve(ctx context.Context, r *llm.Request, info llm.Info) (llm.Reservation, error) {
	_, err := h.keeper.Reserve(ctx, r, info)
	return h, err
}

func (h *hurried) Deadline() (time.Time, func() error) {
	return h.at, func() error { return &llm.Error{Code: llm.CodeBudget, Message: "late"} }
}

// A reservation that ends cuts the attempt short, with its reason; a caller who leaves
// before gets his own.
func TestGuardDeadline(t *testing.T) {
	waits := script(func(ctx context.Context, yield func(sdkproto.Chunk, error) bool) {
		<-ctx.Done()
		yield(sdkproto.Chunk{}, ctx.Err())
	})
	run := func(ctx context.Context, h *hurried) (failed error) {
		for _, err := range behind(t, waits, h).Stream(ctx, llm.Request{}) {
			failed = err
		}
		return failed
	}
	if err := run(t.Context(), &hurried{at: time.Now().Add(10 * time.Millisecond)}); err == nil || err.Error() != "late" {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := run(ctx, &hurried{at: time.Now().Add(time.Hour)}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := run(ctx, &hurried{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a deadline: %v", err)
	}
}
