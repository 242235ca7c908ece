package sdkproto

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"dsh/sdkproto/wirejson"
)

// Block types (spec jsonrpc 6). Blocks of other types are kept and skipped for
// the model.
const (
	BlockText       = "text"
	BlockReasoning  = "reasoning"
	BlockToolCall   = "tool-call"
	BlockToolResult = "tool-result"
	BlockImage      = "image"
	// BlockRedacted is reasoning that the provider gave in a form only it can read.
	BlockRedacted = "redacted-reasoning"
)

// Block is one content block; Type says which members it has. A block that was
// decoded is a value to read: it is encoded again exactly as it came, unknown
// members included, whatever its fields are set to afterwards.
type Block struct {
	Type string
	// Text is that of a text or reasoning block.
	Text string
	// Signature proves to the provider that a reasoning block is its own; "" where
	// it gives none. It goes back to the same model only (case B59).
	Signature string
	// ID, Name and Arguments make a tool-call; Arguments is JSON text.
	ID, Name, Arguments string
	// ToolCallID, Content and IsError make a tool-result.
	ToolCallID string
	Content    []Block
	IsError    bool
	// Attachment refers to stored bytes (image).
	Attachment *Attachment
	// Data and MimeType are an inline image, and Name its name if it has one:
	// base64, only ever inside session/prompt. Data is also the text of a
	// redacted-reasoning block.
	Data, MimeType string

	// raw is kept only when the fields above do not say it all.
	raw json.RawMessage
}

// Attachment refers to content-addressed bytes.
type Attachment struct {
	// AttachmentID is "sha256:" and 64 hex digits.
	AttachmentID string `json:"attachmentId"`
	MediaType    string `json:"mediaType"`
	Bytes        int64  `json:"bytes"`
	// Width and Height are in pixels.
	Width              int         `json:"width,omitzero"`
	Height             int         `json:"height,omitzero"`
	Name               string      `json:"name,omitzero"`
	OriginalDimensions *Dimensions `json:"originalDimensions,omitzero"`
}

// Dimensions are in pixels.
type Dimensions struct {
	Width  int `json:"width"`
	Height int `json:"height"`
}

// Text makes a text block.
func Text(s string) Block { return Block{Type: BlockText, Text: s} }

// InlineImage makes an image block of a session/prompt; the server keeps the
// image and replaces the block by a reference to it. mimeType is image/png,
// image/jpeg, image/webp or image/gif; name may be empty.
func InlineImage(name, mimeType string, image []byte) Block {
	return Block{Type: BlockImage, Data: base64.StdEncoding.EncodeToString(image), MimeType: mimeType, Name: name}
}

type blockFields struct {
	Type       string      `json:"type"`
	Text       string      `json:"text"`
	Signature  string      `json:"signature"`
	ID         string      `json:"id"`
	Name       string      `json:"name"`
	Arguments  string      `json:"arguments"`
	ToolCallID string      `json:"toolCallId"`
	Content    []Block     `json:"content"`
	IsError    bool        `json:"isError"`
	Attachment *Attachment `json:"attachment"`
	Data       string      `json:"data"`
	MimeType   string      `json:"mimeType"`
}

// UnmarshalJSON takes any object with a string type.
func (b *Block) UnmarshalJSON(data []byte) error {
	if k := firstByte(data); k != '{' {
		return errors.New("a content block must be an object")
	}
	var t struct {
		Type json.RawMessage `json:"type"`
	}
	if err := wirejson.Unmarshal(data, &t); err != nil {
		return err
	}
	if firstByte(t.Type) != '"' {
		return errors.New(`a content block must have a string "type"`)
	}
	var f blockFields
	if err := wirejson.Unmarshal(data, &f); err != nil {
		// A foreign block may use a known member name for something else.
		var typ string
		if err := wirejson.Unmarshal(t.Type, &typ); err != nil {
			return err
		}
		switch typ {
		case BlockText, BlockReasoning, BlockRedacted, BlockToolCall, BlockToolResult, BlockImage:
			return err
		}
		f = blockFields{Type: typ}
	}
	*b = Block{
		Type: f.Type, Text: f.Text, Signature: f.Signature, ID: f.ID, Name: f.Name, Arguments: f.Arguments, ToolCallID: f.ToolCallID,
		Content: f.Content, IsError: f.IsError, Attachment: f.Attachment, Data: f.Data, MimeType: f.MimeType,
	}
	compact, err := wirejson.Compact(data)
	if err != nil {
		return err
	}
	if own, err := b.MarshalJSON(); err != nil || !bytes.Equal(own, compact) {
		b.raw = compact
	}
	return nil
}

// MarshalJSON writes the members of the block's type in the order of the spec.
func (b Block) MarshalJSON() ([]byte, error) {
	if b.raw != nil {
		return b.raw, nil
	}
	dst := append(make([]byte, 0, 64+len(b.Text)+len(b.Arguments)), `{"type":`...)
	dst = wirejson.AppendString(dst, b.Type)
	member := func(name, value string) {
		dst = append(dst, ',', '"')
		dst = append(dst, name...)
		dst = append(dst, '"', ':')
		dst = wirejson.AppendString(dst, value)
	}
	var err error
	switch b.Type {
	case BlockText, BlockReasoning:
		member("text", b.Text)
		if b.Type == BlockReasoning && b.Signature != "" {
			member("signature", b.Signature)
		}
	case BlockRedacted:
		member("data", b.Data)
	case BlockToolCall:
		member("id", b.ID)
		member("name", b.Name)
		member("arguments", b.Arguments)
	case BlockToolResult:
		member("toolCallId", b.ToolCallID)
		dst = append(dst, `,"content":`...)
		if dst, err = wirejson.Append(dst, b.Content); err != nil {
			return nil, err
		}
		if b.IsError {
			dst = append(dst, `,"isError":true`...)
		} else {
			dst = append(dst, `,"isError":false`...)
		}
	case BlockImage:
		if b.Attachment != nil {
			dst = append(dst, `,"attachment":`...)
			if dst, err = wirejson.Append(dst, b.Attachment); err != nil {
				return nil, err
			}
		} else {
			member("data", b.Data)
			member("mimeType", b.MimeType)
			if b.Name != "" {
				member("name", b.Name)
			}
		}
	}
	return append(dst, '}'), nil
}

// Message roles.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
)

// Message is one entry of the history: a user message, a model's answer, or a
// tool result (which has the user's role).
type Message struct {
	Content []Block `json:"content"`
	Source  Source  `json:"source"`
	Role    string  `json:"role"`
	// ID is a UUID v4; a user message keeps the one its prompt was answered with.
	ID string `json:"id"`
}

// Source kinds.
const (
	SourceUser   = "user"
	SourcePlugin = "plugin"
	SourceModel  = "model"
	SourceTool   = "tool"
)

// Source says where a message comes from: an open union keyed by Kind. Like a
// Block, a decoded Source is encoded again as it came.
type Source struct {
	Kind string
	// Plugin and Form belong to kind plugin; Form is one of instructions,
	// catalog, snapshot, notice, relay, recall.
	Plugin, Form string
	// Summary belongs to form notice; SenderSessionID to kind subagent-settled.
	Summary, SenderSessionID string
	// CallID belongs to kind tool.
	CallID string
	// Provider, Model and ReplayState belong to kind model.
	Provider, Model string
	ReplayState     json.RawMessage

	raw json.RawMessage
}

type sourceFields struct {
	Kind        string          `json:"kind"`
	Plugin      string          `json:"plugin,omitzero"`
	Form        string          `json:"form,omitzero"`
	Summary     string          `json:"summary,omitzero"`
	Sender      string          `json:"senderSessionId,omitzero"`
	CallID      string          `json:"callId,omitzero"`
	Provider    string          `json:"provider,omitzero"`
	Model       string          `json:"model,omitzero"`
	ReplayState json.RawMessage `json:"replayState,omitzero"`
}

// UnmarshalJSON takes any object with a string kind.
func (s *Source) UnmarshalJSON(data []byte) error {
	var f sourceFields
	if err := wirejson.Unmarshal(data, &f); err != nil {
		return err
	}
	*s = Source{Kind: f.Kind, Plugin: f.Plugin, Form: f.Form, Summary: f.Summary, SenderSessionID: f.Sender, CallID: f.CallID, Provider: f.Provider, Model: f.Model, ReplayState: f.ReplayState}
	compact, err := wirejson.Compact(data)
	if err != nil {
		return err
	}
	if own, err := s.MarshalJSON(); err != nil || !bytes.Equal(own, compact) {
		s.raw = compact
	}
	return nil
}

// MarshalJSON writes the members that are set.
func (s Source) MarshalJSON() ([]byte, error) {
	if s.raw != nil {
		return s.raw, nil
	}
	return wirejson.Marshal(sourceFields{s.Kind, s.Plugin, s.Form, s.Summary, s.SenderSessionID, s.CallID, s.Provider, s.Model, s.ReplayState})
}

// TextOf concatenates the text blocks of a message.
func TextOf(blocks []Block) string {
	var sb strings.Builder
	for i := range blocks {
		if blocks[i].Type == BlockText {
			sb.WriteString(blocks[i].Text)
		}
	}
	return sb.String()
}

// Brief gives the first words of the text blocks of a message on one line, most
// characters at most, for a title or a list.
func Brief(blocks []Block, most int) string {
	var words []string
	length := 0
	for i := range blocks {
		if blocks[i].Type != BlockText {
			continue
		}
		for word := range strings.FieldsSeq(blocks[i].Text) {
			words = append(words, word)
			if length += len(word) + 1; length > most*4 {
				break
			}
		}
	}
	text := []rune(strings.Join(words, " "))
	return strings.TrimSpace(string(text[:min(len(text), most)]))
}

func firstByte(data []byte) byte {
	for _, c := range data {
		switch c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}
