package streamjson

import (
	"encoding/json"

	"dsh/sdkproto/wirejson"
)

// Types of a Block.
const (
	BlockText       = "text"
	BlockThinking   = "thinking"
	BlockRedacted   = "redacted_thinking"
	BlockToolUse    = "tool_use"
	BlockToolResult = "tool_result"
	BlockImage      = "image"
)

// Block is one block of content; Type says which members it has on the wire
// (spec stream-json 3.3, 3.4, 8.4).
type Block struct {
	Type string
	// Text is that of a text block, and the thinking of a thinking block.
	Text string
	// Signature goes with thinking, "" where the provider gives none.
	Signature string
	// Data is the text of redacted_thinking, or an image in base64.
	Data string
	// ID, Name and Input make a tool_use; Input is an object.
	ID, Name string
	Input    json.RawMessage
	// ToolUseID, Content and IsError make a tool_result. Content is a string or an
	// array of blocks.
	ToolUseID string
	Content   json.RawMessage
	IsError   bool
	// MediaType is that of an image.
	MediaType string
}

// AppendJSON appends the members of the block's type.
func (b *Block) AppendJSON(dst []byte) []byte {
	dst = wirejson.AppendString(append(dst, `{"type":`...), b.Type)
	switch b.Type {
	case BlockText:
		dst = wirejson.AppendString(append(dst, `,"text":`...), b.Text)
	case BlockThinking:
		// A client fails on thinking without a signature (F3).
		dst = wirejson.AppendString(append(dst, `,"thinking":`...), b.Text)
		dst = wirejson.AppendString(append(dst, `,"signature":`...), b.Signature)
	case BlockRedacted:
		dst = wirejson.AppendString(append(dst, `,"data":`...), b.Data)
	case BlockToolUse:
		dst = wirejson.AppendString(append(dst, `,"id":`...), b.ID)
		dst = wirejson.AppendString(append(dst, `,"name":`...), b.Name)
		dst = append(append(dst, `,"input":`...), b.Input...)
	case BlockToolResult:
		dst = wirejson.AppendString(append(dst, `,"tool_use_id":`...), b.ToolUseID)
		dst = append(append(dst, `,"content":`...), b.Content...)
		if b.IsError {
			dst = append(dst, `,"is_error":true`...)
		}
	case BlockImage:
		dst = wirejson.AppendString(append(dst, `,"source":{"type":"base64","media_type":`...), b.MediaType)
		dst = append(wirejson.AppendString(append(dst, `,"data":`...), b.Data), '}')
	}
	return append(dst, '}')
}

// MarshalJSON is AppendJSON for encoders that know no better.
func (b Block) MarshalJSON() ([]byte, error) {
	return b.AppendJSON(make([]byte, 0, 96+len(b.Text)+len(b.Data)+len(b.Input)+len(b.Content))), nil
}

// UnmarshalJSON reads the members of the block's type. Of a type that is none of
// the Block constants it keeps the type alone.
func (b *Block) UnmarshalJSON(data []byte) error {
	var in struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		Data      string          `json:"data"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
		ToolUseID string          `json:"tool_use_id"`
		Content   json.RawMessage `json:"content"`
		IsError   bool            `json:"is_error"`
		Source    ImageSource     `json:"source"`
	}
	*b = Block{}
	var head struct {
		Type string `json:"type"`
	}
	if err := wirejson.Unmarshal(data, &head); err != nil {
		return err
	}
	b.Type = head.Type
	switch b.Type {
	case BlockText, BlockThinking, BlockRedacted, BlockToolUse, BlockToolResult, BlockImage:
	default:
		return nil
	}
	if err := wirejson.Unmarshal(data, &in); err != nil {
		return err
	}
	switch b.Type {
	case BlockText:
		b.Text = in.Text
	case BlockThinking:
		b.Text, b.Signature = in.Thinking, in.Signature
	case BlockRedacted:
		b.Data = in.Data
	case BlockToolUse:
		b.ID, b.Name, b.Input = in.ID, in.Name, in.Input
	case BlockToolResult:
		b.ToolUseID, b.Content, b.IsError = in.ToolUseID, in.Content, in.IsError
	case BlockImage:
		b.MediaType, b.Data = in.Source.MediaType, in.Source.Data
	}
	return nil
}
