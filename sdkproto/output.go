package sdkproto

import "encoding/json"

// Events of what a client has asked for beside the answers. They are ours, and
// ignorable.
const (
	// TypeStructuredOutput: a call gave the result of its turn in the form that the
	// client wants.
	TypeStructuredOutput = "output/structured"
	// TypePromptSuggestion: a model was asked what the user may say next.
	TypePromptSuggestion = "prompt/suggestion"
	// TypeSideRequest: a model was asked something else that is not part of the
	// history.
	TypeSideRequest = "request/aside"
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

// Purposes of a SideRequest.
const (
	// AsideSummary: what a subagent is doing, of which the log is.
	AsideSummary = "progress-summary"
	// AsideTitle: what to call the session.
	AsideTitle = "session-title"
	// AsideQuestion: what the user wanted to know beside the conversation.
	AsideQuestion = "side-question"
	// AsideAttempt: the session's own request, whose answer broke off and is no part
	// of the history.
	AsideAttempt = "failed-attempt"
	// AsideCompaction: a summary of a part of the history that is not used.
	AsideCompaction = "failed-compaction"
)

// SideRequest records a request beside the session's own, which is not part of
// the history, and what it used.
type SideRequest struct {
	// Purpose is one of the Aside constants.
	Purpose string `json:"purpose"`
	// Text is what came of it, empty for nothing.
	Text     string `json:"text,omitzero"`
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Usage    *Usage `json:"usage,omitzero"`
}
