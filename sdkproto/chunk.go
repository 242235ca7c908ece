package sdkproto

import (
	"encoding/json"
	"fmt"

	"dsh/sdkproto/wirejson"
)

// Chunk types (spec jsonrpc 5.5).
const (
	ChunkBlockStart     = "block-start"
	ChunkTextDelta      = "text-delta"
	ChunkReasoningDelta = "reasoning-delta"
	ChunkToolCallDelta  = "tool-call-delta"
	ChunkBlockEnd       = "block-end"
	ChunkUsage          = "usage"
	ChunkFinish         = "finish"
)

// Chunk is one piece of a streamed model answer; Type says which members it has.
type Chunk struct {
	Type string `json:"type"`
	// Index counts the blocks of one answer from 0. Every type but usage and
	// finish has it.
	Index int `json:"index"`
	// BlockType is text, reasoning or tool-call (block-start).
	BlockType string `json:"blockType"`
	// Text is the piece (text-delta, reasoning-delta).
	Text string `json:"text"`
	// ID is the call's id (tool-call-delta).
	ID string `json:"id"`
	// Name is the tool's name (first tool-call-delta of a block).
	Name string `json:"name"`
	// ArgumentsDelta is a piece of the arguments text (tool-call-delta).
	ArgumentsDelta string `json:"argumentsDelta"`
	// Block is the complete block (block-end).
	Block *Block `json:"block"`
	// Usage is the account so far (usage).
	Usage *Usage `json:"usage"`
	// MessageID is the provider's id of the answer, where it tells one (usage). An
	// adapter that knows it sends a usage chunk before the first block.
	MessageID string `json:"messageId"`
	// Reason says why the answer ended (finish).
	Reason *FinishReason `json:"reason"`
	// ReplayState is opaque to everybody but the adapter that made it, which
	// wants it back with the message (finish).
	ReplayState json.RawMessage `json:"replayState"`
}

// FinishReason says why a model stopped.
type FinishReason struct {
	// Kind is stop, tool-calls, max-tokens, aborted or error.
	Kind string `json:"kind"`
	// Failure is set for kind error.
	Failure *Failure `json:"failure,omitzero"`
	// Native is the provider's own word where Kind says less than it, such as
	// refusal or stop_sequence of the Messages API; "" elsewhere.
	Native string `json:"native,omitzero"`
	// Sequence is the stop sequence that was met, "" without one.
	Sequence string `json:"sequence,omitzero"`
}

// Kinds of FinishReason.
const (
	FinishStop      = "stop"
	FinishToolCalls = "tool-calls"
	FinishMaxTokens = "max-tokens"
	FinishAborted   = "aborted"
	FinishError     = "error"
)

// Usage counts the tokens of one model request. The input members are disjoint;
// reasoning is a part of the output (spec jsonrpc 5.5).
type Usage struct {
	// InputTokens counts prompt tokens that came from no cache.
	InputTokens      int64 `json:"inputTokens"`
	OutputTokens     int64 `json:"outputTokens"`
	CacheReadTokens  int64 `json:"cacheReadTokens,omitzero"`
	CacheWriteTokens int64 `json:"cacheWriteTokens,omitzero"`
	ReasoningTokens  int64 `json:"reasoningTokens,omitzero"`
}

// Add adds the account of one more request.
func (u *Usage) Add(one *Usage) {
	u.InputTokens += one.InputTokens
	u.OutputTokens += one.OutputTokens
	u.CacheReadTokens += one.CacheReadTokens
	u.CacheWriteTokens += one.CacheWriteTokens
	u.ReasoningTokens += one.ReasoningTokens
}

// IsDelta reports whether the chunk is a piece of text, reasoning or arguments:
// the kinds that come in long runs.
func (c *Chunk) IsDelta() bool {
	switch c.Type {
	case ChunkTextDelta, ChunkReasoningDelta, ChunkToolCallDelta:
		return true
	}
	return false
}

// AppendJSON appends the chunk with exactly the members of its type.
func (c *Chunk) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, `{"type":`...)
	dst = wirejson.AppendString(dst, c.Type)
	member := func(name, value string) {
		dst = append(dst, ',', '"')
		dst = append(dst, name...)
		dst = append(dst, '"', ':')
		dst = wirejson.AppendString(dst, value)
	}
	if c.Type != ChunkUsage && c.Type != ChunkFinish {
		dst = append(dst, `,"index":`...)
		dst = wirejson.AppendInt(dst, int64(c.Index))
	}
	var err error
	switch c.Type {
	case ChunkBlockStart:
		member("blockType", c.BlockType)
	case ChunkTextDelta, ChunkReasoningDelta:
		member("text", c.Text)
	case ChunkToolCallDelta:
		member("id", c.ID)
		if c.Name != "" {
			member("name", c.Name)
		}
		member("argumentsDelta", c.ArgumentsDelta)
	case ChunkBlockEnd:
		dst = append(dst, `,"block":`...)
		dst, err = wirejson.Append(dst, c.Block)
	case ChunkUsage:
		dst = append(dst, `,"usage":`...)
		dst, err = wirejson.Append(dst, c.Usage)
		if c.MessageID != "" {
			member("messageId", c.MessageID)
		}
	case ChunkFinish:
		dst = append(dst, `,"reason":`...)
		dst, err = wirejson.Append(dst, c.Reason)
		if len(c.ReplayState) > 0 {
			dst = append(dst, `,"replayState":`...)
			dst = append(dst, c.ReplayState...)
		}
	}
	if err != nil {
		return dst, fmt.Errorf("encode chunk %s: %w", c.Type, err)
	}
	return append(dst, '}'), nil
}

// MarshalJSON is AppendJSON for encoders that know no better.
func (c Chunk) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }
