package plugin

import (
	"context"
	"iter"
	"time"

	"dsh/sdkproto"
)

// Models answers model requests for the routes of its providers.
type Models struct {
	Providers []Provider
	// Stream makes one attempt; the harness retries. The last pair of a good answer
	// is a finish chunk; of a bad one an error, a *ModelError where its kind is
	// known. Nothing follows either.
	Stream func(ctx context.Context, r ModelRequest) iter.Seq2[sdkproto.Chunk, error]
}

// Provider is an id that routes name, with all that is needed to check a route.
type Provider struct {
	ID string
	// Models are those that are known; a route may name others when AnyModel is
	// set.
	Models   []Model
	AnyModel bool
	// ReasoningEfforts are the words a route may use; none means that no effort is
	// taken. DefaultReasoningEffort is used when the route has none.
	ReasoningEfforts       []string
	DefaultReasoningEffort string
	// DefaultMaxTokens caps the output when the route does not; 0 for no cap.
	DefaultMaxTokens int64
}

// Model is one model of a provider.
type Model struct {
	ID string
	// ContextWindow is in tokens; 0 is unknown.
	ContextWindow int64
	// Images says that the model takes images.
	Images bool
	// Price is nil when it is not known.
	Price *Price
}

// Price is what a model costs per million tokens.
type Price struct {
	// Currency is its three-letter code, such as USD.
	Currency                 string
	Input, CacheRead, Output float64
}

// ModelRequest is one model request.
type ModelRequest struct {
	SessionID string
	Header    sdkproto.Header
	// Messages is the history. Image blocks have Data and MimeType.
	Messages []sdkproto.Message
}

// ModelError is a failed model request.
type ModelError struct {
	// Code is one of those that plugin.proto lists, or a provider's own, upper
	// case.
	Code    string
	Message string
	// Status is the HTTP status, 0 without one.
	Status int
	// RetryAfter is what the provider asked for, 0 without.
	RetryAfter time.Duration
	RequestID  string
}

func (e *ModelError) Error() string { return e.Message }
