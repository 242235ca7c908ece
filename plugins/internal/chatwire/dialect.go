// Package chatwire speaks the streaming protocols of model providers: chat
// completions, which DeepSeek and OpenAI-compatible endpoints share, and the
// Messages protocol of Anthropic. It encodes requests, decodes streams and
// classifies errors, one visible attempt per call. What differs between endpoints
// is data, a Dialect or a Messages.
//
// A request is a pure function of the history, and what one request says of the
// history is the beginning of what the next one says (spec jsonrpc 10.7).
package chatwire

import (
	"errors"
	"fmt"
)

// Dialect says how one endpoint differs. The zero value sends the least.
type Dialect struct {
	// MaxTokens names the member that caps the output: max_tokens or
	// max_completion_tokens; "" sends no cap.
	MaxTokens string
	// Reasoning names the member that carries a message's reasoning:
	// reasoning_content or reasoning; "" sends none back. Both are read.
	Reasoning string
	// RequireReasoning sends that member, empty, also with tool calls that came
	// without reasoning (decision R16, case B49).
	RequireReasoning bool
	// SystemRole is the role of the first message, system or developer.
	SystemRole string
	// StreamUsage asks for the account of tokens by stream_options.
	StreamUsage bool
	// Effort is the form of the reasoning effort, one of the Effort constants.
	Effort string
	// EmptyContent is the content of an answer that has only tool calls, one of
	// the Content constants.
	EmptyContent string
	// CallIDs reports whether the endpoint takes an id of a tool call; nil takes
	// all. Another id is replaced by CallIDLength letters and digits that are made
	// of it. CallIDForm tells people what CallIDs takes.
	CallIDs      func(id string) bool
	CallIDForm   string
	CallIDLength int
	// KeyHeader is the header of the key; "" is authorization, where "Bearer "
	// goes before it.
	KeyHeader string
}

// Forms of the reasoning effort.
const (
	EffortNone = "none"
	// EffortField is the member reasoning_effort.
	EffortField = "reasoning_effort"
	// EffortThinking adds thinking {type: enabled}, and has an effort "off" that
	// is thinking {type: disabled} (spec jsonrpc 10.2).
	EffortThinking = "thinking"
	// EffortObject is the member reasoning {effort}.
	EffortObject = "reasoning"
)

// EffortOff is the effort that switches reasoning off where that is possible.
const EffortOff = "off"

// Contents of an answer that has only tool calls.
const (
	ContentEmpty = "empty" // ""
	ContentNull  = "null"
	ContentOmit  = "omit" // no such member
)

// Validate checks what is data of a deployment.
func (d *Dialect) Validate() error {
	var errs []error
	one := func(what, value string, of ...string) {
		for _, v := range of {
			if v == value {
				return
			}
		}
		errs = append(errs, fmt.Errorf("%s %q is not one of %q", what, value, of))
	}
	one("maxTokens", d.MaxTokens, "max_tokens", "max_completion_tokens", "")
	one("reasoning", d.Reasoning, "reasoning_content", "reasoning", "")
	one("systemRole", d.SystemRole, "system", "developer")
	one("effort", d.Effort, EffortNone, EffortField, EffortThinking, EffortObject)
	one("emptyContent", d.EmptyContent, ContentEmpty, ContentNull, ContentOmit)
	if d.CallIDs != nil {
		if made := d.callID("an id"); d.CallIDLength < 1 || d.CallIDLength > maxCallID || !d.CallIDs(made) {
			errs = append(errs, fmt.Errorf("callIdLength %d makes ids that do not match %s; use another length, at most %d, or a pattern for letters and digits", d.CallIDLength, d.CallIDForm, maxCallID))
		}
	}
	return errors.Join(errs...)
}
