// Package llm holds the contract between the agent loop and model adapters: a
// route, a request, a stream of chunks, errors with codes, and the router that
// finds the adapter of a provider id.
//
// An adapter makes one attempt per Stream call and hides nothing: retries live
// above it, as visible events.
package llm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"dsh/kernel"
	"dsh/sdkproto"
)

// Route says which model answers and how.
type Route struct {
	// Provider is the id an adapter is registered under; Model is passed through
	// to it.
	Provider, Model string
	// MaxTokens caps the output of one request, in tokens; 0 leaves it to the
	// adapter.
	MaxTokens int64
	// ReasoningEffort is the adapter's word for it; "" leaves it to the adapter.
	ReasoningEffort string
}

// Info is what is known of a resolved route.
type Info struct {
	// ContextWindow is in tokens; 0 is unknown.
	ContextWindow int64
	// MaxOutput is the most that one answer may hold, in tokens; 0 is unknown.
	MaxOutput int64
	// Images says that the model takes images.
	Images bool
	// Price is nil when it is not known; nobody may guess it then (case B87).
	Price *Price
}

// Price is what a model costs, in one currency, per million tokens.
type Price struct {
	// Currency is its three-letter code, such as USD.
	Currency string `json:"currency"`
	// Input counts for tokens that came from no cache, CacheRead for those that
	// did, Output for reasoning too.
	Input     float64 `json:"input"`
	CacheRead float64 `json:"cacheRead"`
	// CacheWrite counts for tokens that were put into the cache; 0 where the
	// provider charges them like Input and counts them there.
	CacheWrite float64 `json:"cacheWrite,omitzero"`
	Output     float64 `json:"output"`
	// Long is the price of a request with a long prompt, all of it; nil where the
	// length makes no difference.
	Long *LongPrice `json:"long,omitzero"`
}

// LongPrice is what a request costs whose prompt has more than Above tokens,
// those from and for the cache included.
type LongPrice struct {
	Above      int64   `json:"above"`
	Input      float64 `json:"input"`
	CacheRead  float64 `json:"cacheRead"`
	CacheWrite float64 `json:"cacheWrite,omitzero"`
	Output     float64 `json:"output"`
}

// Cost is what one request came to, in Currency; a sum of requests may have
// another price than its parts. A nil Price costs nothing that is known: 0.
func (p *Price) Cost(u *sdkproto.Usage) float64 {
	if p == nil || u == nil {
		return 0
	}
	if l := p.Long; l != nil && u.InputTokens+u.CacheReadTokens+u.CacheWriteTokens > l.Above {
		p = &Price{Input: l.Input, CacheRead: l.CacheRead, CacheWrite: l.CacheWrite, Output: l.Output}
	}
	const million = 1e6
	return (float64(u.InputTokens)*p.Input + float64(u.CacheReadTokens)*p.CacheRead +
		float64(u.CacheWriteTokens)*p.CacheWrite + float64(u.OutputTokens)*p.Output) / million
}

// Request is one model request. It is a pure function of the session's log.
type Request struct {
	SessionID string
	Header    sdkproto.Header
	// Messages is the history after Project.
	Messages []sdkproto.Message
	// Image reads the bytes of an attachment; nil when the composition keeps none.
	// An image that cannot be read is sent as a placeholder text.
	Image func(ctx context.Context, a *sdkproto.Attachment) ([]byte, error)
}

// SuggestionPlugin is the Source.Plugin of the message that asks a model what the
// user may say next (spec stream-json 3.9); it is the last of its request. The
// scripted model knows such a request by it.
const SuggestionPlugin = "prompt-suggestion"

// Adapter speaks to one provider. Its methods may be called from any goroutine.
type Adapter interface {
	// Resolve fills in the adapter's defaults and says which they were. It makes
	// no request, and refuses an effort it does not know.
	Resolve(Route) (Route, sdkproto.AdapterDefaults, Info, error)
	// Stream makes one attempt. The last pair of a good answer is a finish chunk;
	// of a bad one an error, an *Error where its kind is known. A context that
	// ends stops the stream with the context's error. No chunk is yielded after
	// either.
	Stream(context.Context, Request) iter.Seq2[sdkproto.Chunk, error]
}

// Codes of Error (spec jsonrpc 10.6).
const (
	CodeAuth              = "AUTH"
	CodeQuota             = "QUOTA"
	CodeRateLimit         = "RATE_LIMIT"
	CodeContextWindow     = "CONTEXT_WINDOW_EXCEEDED"
	CodeInvalidRequest    = "INVALID_REQUEST"
	CodeServer            = "SERVER"
	CodeTransport         = "TRANSPORT"
	CodeTimeout           = "TIMEOUT"
	CodeEmptyResponse     = "EMPTY_RESPONSE"
	CodeStreamClosed      = "STREAM_CLOSED"
	CodeMalformedResponse = "MALFORMED_RESPONSE"
	CodeMissingCredential = "MISSING_CREDENTIAL"
	CodeInvalidCredential = "INVALID_CREDENTIAL"
	CodeAborted           = "ABORTED"
	// CodeBudget: a budget has no room for the request; it was not sent.
	CodeBudget = "BUDGET_EXCEEDED"
	// CodeInternal marks a failure of the harness itself.
	CodeInternal = "INTERNAL"
)

// Error is a failed model request.
type Error struct {
	// Code is one of the Code constants or a provider's own, upper case.
	Code    string
	Message string
	// Status is the HTTP status, 0 without one.
	Status int
	// RetryAfter is what the provider asked for, 0 without.
	RetryAfter time.Duration
	RequestID  string
}

func (e *Error) Error() string { return e.Message }

// Retryable reports whether another attempt may help (spec jsonrpc 10.4, 10.6;
// decision R7).
func (e *Error) Retryable() bool {
	switch e.Code {
	case CodeRateLimit, CodeServer, CodeTransport, CodeTimeout, CodeEmptyResponse, CodeStreamClosed, "INSUFFICIENT_SYSTEM_RESOURCE":
		return true
	}
	return false
}

// Failure gives the wire form of any error of a model request or loop stage.
func Failure(err error) sdkproto.Failure {
	var e *Error
	if !errors.As(err, &e) {
		return sdkproto.Failure{Message: err.Error(), Code: CodeInternal}
	}
	return sdkproto.Failure{
		Message: e.Message, Code: e.Code, Status: e.Status,
		ProviderRetryAfterMs: e.RetryAfter.Milliseconds(), RequestID: e.RequestID,
	}
}

// NoAdapterError says that nobody answers for a provider id.
type NoAdapterError struct {
	Provider string
	// Known are the registered ids, sorted.
	Known []string
}

func (e *NoAdapterError) Error() string {
	known := "none"
	if len(e.Known) > 0 {
		known = strings.Join(e.Known, ", ")
	}
	return fmt.Sprintf("no adapter registered for provider %q; registered providers: %s", e.Provider, known)
}

// Router finds the adapter of a provider id.
type Router struct {
	mu       sync.RWMutex
	adapters []registered
	guard    Guard
}

type registered struct {
	owner    *kernel.Owner
	provider string
	adapter  Adapter
}

// NewRouter makes an empty router.
func NewRouter() *Router { return &Router{} }

// Register answers for a provider id with a until o is closed. An id that is
// taken is an error.
func (r *Router) Register(o *kernel.Owner, provider string, a Adapter) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.adapters {
		if x.provider == provider && kernel.Clash(x.owner, o) {
			return fmt.Errorf("provider %q is registered already; give one of the rows another provider id", provider)
		}
	}
	if err := o.OnClose("provider "+provider, func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.adapters = slices.DeleteFunc(r.adapters, func(x registered) bool { return x.owner == o && x.provider == provider })
		return nil
	}); err != nil {
		return err
	}
	r.adapters = append(r.adapters, registered{o, provider, a})
	return nil
}

// Lookup gives the adapter of a provider id, or a *NoAdapterError.
func (r *Router) Lookup(provider string) (Adapter, error) { return r.LookupAt(kernel.Now, provider) }

// LookupAt is Lookup for a turn that began under generation g.
func (r *Router) LookupAt(g kernel.Generation, provider string) (Adapter, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, x := range r.adapters {
		if x.provider == provider && x.owner.LiveAt(g) {
			if r.guard != nil {
				return guardedBy(r.guard, x.adapter), nil
			}
			return x.adapter, nil
		}
	}
	return nil, &NoAdapterError{provider, r.providers()}
}

// Providers lists the registered ids, sorted.
func (r *Router) Providers() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.providers()
}

func (r *Router) providers() []string {
	ids := make([]string, 0, len(r.adapters))
	for _, x := range r.adapters {
		if x.owner.LiveAt(kernel.Now) {
			ids = append(ids, x.provider)
		}
	}
	slices.Sort(ids)
	return ids
}
