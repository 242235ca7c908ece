package chatwire

import (
	"encoding/json"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// chunk is one event of a stream, or a whole answer of an endpoint that does not
// stream. It is decoded into again and again.
type chunk struct {
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Index        int64   `json:"index"`
	Delta        message `json:"delta"`
	Message      message `json:"message"`
	FinishReason string  `json:"finish_reason"`
}

type message struct {
	Content          string     `json:"content"`
	ReasoningContent string     `json:"reasoning_content"`
	Reasoning        string     `json:"reasoning"`
	ToolCalls        []toolCall `json:"tool_calls"`
}

// reasoning gives the reasoning under whichever name it came; some endpoints
// send it under both.
func (m *message) reasoning() string {
	if m.ReasoningContent != "" {
		return m.ReasoningContent
	}
	return m.Reasoning
}

type toolCall struct {
	// Index is nil where an endpoint sends none.
	Index    *int64 `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// reset clears what the decoder would leave of the chunk before.
func (c *chunk) reset() {
	choices := c.Choices[:cap(c.Choices)]
	clear(choices)
	*c = chunk{Choices: choices[:0], Usage: c.Usage[:0], Error: c.Error[:0]}
}

// says reports whether a member is there and not null.
func says(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] != 'n' }

// usage is the account of tokens (spec jsonrpc 10.5).
type usage struct {
	PromptTokens     int64  `json:"prompt_tokens"`
	CompletionTokens int64  `json:"completion_tokens"`
	CacheHit         *int64 `json:"prompt_cache_hit_tokens"`
	PromptDetails    struct {
		Cached *int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// account reads the account of an answer; nil when it cannot be read, which is
// no reason to lose the answer.
func account(raw json.RawMessage) *sdkproto.Usage {
	var u usage
	if err := wirejson.Unmarshal(raw, &u); err != nil {
		return nil
	}
	cached := u.PromptDetails.Cached
	if cached == nil {
		cached = u.CacheHit
	}
	out := &sdkproto.Usage{InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens, ReasoningTokens: u.CompletionDetails.Reasoning}
	if cached != nil {
		out.CacheReadTokens = *cached
		out.InputTokens = max(0, u.PromptTokens-*cached)
	}
	return out
}
