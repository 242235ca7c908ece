package chatwire

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"dsh/kernel/llm"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// Messages is the Messages protocol: blocks of content instead of texts, and
// events of a stream that say which block they belong to.
type Messages struct {
	// Version is the header anthropic-version; Betas go into anthropic-beta.
	Version string
	Betas   []string
	// Caching marks what is worth keeping in the provider's cache.
	Caching bool
	// Budgets are the tokens that a model of form ThinkBudget may think, by effort.
	Budgets map[string]int64
	// Display is what adaptive thinking shows of itself, such as summarized; "" is
	// the endpoint's own choice.
	Display string
	// Thinking says how a model is asked to think.
	Thinking func(model string) Thinking

	stale staleThoughts
}

// Thinking says how a model is asked to think.
type Thinking struct {
	// Form is one of the Think constants.
	Form string `json:"form"`
	// Off is what switches adaptive thinking off: a type of thinking, or the effort
	// to fall back to where it cannot be switched off.
	Off string `json:"off"`
	// Efforts are sent as another word, by effort: {xhigh: high}.
	Efforts map[string]string `json:"efforts"`
}

// Forms of thinking.
const (
	ThinkNone = "none"
	// ThinkBudget allows a number of tokens.
	ThinkBudget = "budget"
	// ThinkAdaptive leaves it to the model, guided by an effort.
	ThinkAdaptive = "adaptive"
)

// Ways of switching adaptive thinking off; anything else is an effort.
const (
	OffDisabled     = "disabled"
	OffBetweenTools = "between_tools"
)

// Validate checks what is data of a deployment.
func (t *Thinking) Validate() error {
	switch t.Form {
	case ThinkNone, ThinkBudget:
		return nil
	case ThinkAdaptive:
		if t.Off == "" {
			return fmt.Errorf("off must say what %q is sent as: %s, %s or an effort", EffortOff, OffDisabled, OffBetweenTools)
		}
		return nil
	}
	return fmt.Errorf("form %q is not one of %s, %s, %s", t.Form, ThinkNone, ThinkBudget, ThinkAdaptive)
}

func (m *Messages) path() []string { return []string{"v1", "messages"} }

func (m *Messages) prepare(h http.Header) {
	h.Set("anthropic-version", m.Version)
	if len(m.Betas) > 0 {
		h.Set("anthropic-beta", strings.Join(m.Betas, ","))
	}
}

func (m *Messages) authorize(h http.Header, key *key) {
	if key.bearer {
		h.Set("authorization", "Bearer "+key.Reveal())
		return
	}
	h.Set("x-api-key", key.Reveal())
}

func (m *Messages) reader(yield func(sdkproto.Chunk) bool, from *response) reader {
	return &messageReader{yield: yield, from: from}
}

// CountTokens asks the endpoint how many tokens a request would hold. It is
// llm.TokenCounter's, and makes one attempt.
func (c *Client) CountTokens(ctx context.Context, req llm.Request) (int64, error) {
	m, ok := c.protocol.(*Messages)
	if !ok {
		return 0, fmt.Errorf("%s counts no tokens", c.host)
	}
	var tokens int64
	err := c.exchange(ctx, &exchange{
		path: append(m.path(), "count_tokens"),
		body: func(run context.Context) ([]byte, error) {
			s, err := c.shared.of(m, &req.Header)
			if err != nil {
				return nil, err
			}
			return m.appendCount(run, make([]byte, 0, sizeOf(&req, s)), &req, s)
		},
		answer: func(_ *http.Response, body io.Reader, _ *response) error {
			data, err := io.ReadAll(io.LimitReader(body, maxErrorBytes))
			if err != nil {
				return err
			}
			var counted struct {
				InputTokens *int64 `json:"input_tokens"`
			}
			if err := wirejson.Unmarshal(data, &counted); err != nil || counted.InputTokens == nil {
				return malformed("the count of tokens cannot be read: %s", shorten(string(data), 200))
			}
			tokens = *counted.InputTokens
			return nil
		},
	})
	return tokens, err
}

// statusOf gives the status that a kind of error inside a stream stands for; 0 for
// an unknown one.
func statusOf(kind string) int {
	switch kind {
	case "invalid_request_error":
		return http.StatusBadRequest
	case "authentication_error":
		return http.StatusUnauthorized
	case "billing_error":
		return http.StatusPaymentRequired
	case "permission_error":
		return http.StatusForbidden
	case "not_found_error":
		return http.StatusNotFound
	case "request_too_large":
		return http.StatusRequestEntityTooLarge
	case "rate_limit_error":
		return http.StatusTooManyRequests
	case "api_error":
		return http.StatusInternalServerError
	case "timeout_error":
		return http.StatusGatewayTimeout
	case "overloaded_error":
		return 529
	}
	return 0
}

// reportedKind makes the error of a failure inside a stream of messages, whose
// kind stands for a status.
func (r *response) reportedKind(body []byte) *llm.Error {
	e := r.reported(body)
	found := readReport(body)
	if e.Status = statusOf(found.kind); e.Status != 0 {
		e.Code = classify(e.Status, found)
		e = r.signed(e)
	}
	return e
}

// thinks gives the members of a request that are about thinking: thinking and
// output_config. A budget must leave room for the answer; fresh says that the
// request does not go on with an answer that did not think.
func (m *Messages) thinks(dst []byte, config *sdkproto.RequestConfig, fresh bool) (out []byte, active bool) {
	t := m.Thinking(config.Model)
	effort := config.ReasoningEffort
	switch t.Form {
	case ThinkBudget:
		budget := min(m.Budgets[effort], config.MaxTokens/2)
		const least = 1024
		if !fresh || budget < least {
			return dst, false
		}
		dst = append(dst, `,"thinking":{"type":"enabled","budget_tokens":`...)
		return append(wirejson.AppendInt(dst, budget), '}'), true
	case ThinkAdaptive:
		if effort == EffortOff {
			if t.Off == OffDisabled || t.Off == OffBetweenTools {
				dst = append(dst, `,"thinking":{"type":`...)
				return append(wirejson.AppendString(dst, t.Off), '}'), t.Off != OffDisabled
			}
			effort = t.Off
		}
		dst = append(dst, `,"thinking":{"type":"adaptive"`...)
		if m.Display != "" {
			dst = append(dst, `,"display":`...)
			dst = wirejson.AppendString(dst, m.Display)
		}
		dst = append(dst, '}')
		if effort != "" {
			dst = append(dst, `,"output_config":{"effort":`...)
			dst = append(wirejson.AppendString(dst, cmp.Or(t.Efforts[effort], effort)), '}')
		}
		return dst, true
	}
	return dst, false
}
