package sdkproto

import "encoding/json"

// Events of what a client has asked for beside the answers. Both are ours, and
// ignorable.
const (
	// TypeStructuredOutput: a call gave the result of its turn in the form that the
	// client wants.
	TypeStructuredOutput = "output/structured"
	// TypePromptSuggestion: a model was asked what the user may say next.
	TypePromptSuggestion = "prompt/suggestion"
)

// StructuredOutput records the result of a turn that matches the client's schema.
type StructuredOutput struct {
	Turn   int    `json:"turn"`
	CallID string `json:"callId"`
	// Value is what the schema is about, any JSON value.
	Value json.RawMessage `json:"value"`
}

// PromptSuggestion records a request beside the session's own, which is not part
// of the history, and what it used.
type PromptSuggestion struct {
	// Text is empty when nothing came of it.
	Text     string `json:"text,omitzero"`
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Usage    *Usage `json:"usage,omitzero"`
}
