package streamclient

import (
	"encoding/json"

	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// Line is a line of the program's output that is no part of the control channel.
// It is for reading only: consumers share it.
type Line struct {
	// Type and Subtype are one of the streamjson constants, or a newer one.
	Type, Subtype string
	// SessionID and UUID are "" where the line has none.
	SessionID, UUID string
	// ParentToolUseID is the call that started the subagent whose line it is, "" in
	// the main thread.
	ParentToolUseID string
	// Body is the line as a type: a *streamjson.Init, Assistant, Result, Status,
	// CompactBoundary, APIRetry, TaskStarted, TaskProgress, TaskUpdated,
	// TaskNotification, BackgroundTasks, PermissionDenied, Informational,
	// HookStarted, HookResponse, PromptSuggestion or ConversationReset, or a *User
	// or *StreamEvent of this package. It is nil for what this package does not
	// know and for what does not have the shape of its type.
	Body any
	// Raw is the whole line.
	Raw json.RawMessage
}

// User is the outcome of a tool call, a note to the conversation, or a message of
// this client whose turn begins (spec stream-json 3.4, 3.5).
type User struct {
	streamjson.Head
	streamjson.Origin
	Message UserContent `json:"message"`
	// ToolUseResult is the tool's structured output, or a string for errors.
	ToolUseResult json.RawMessage `json:"tool_use_result"`
	// IsReplay: the message is this client's, whose turn begins.
	IsReplay bool `json:"isReplay"`
}

// UserContent is the message of a User.
type UserContent struct {
	Role    string `json:"role"`
	Content Blocks `json:"content"`
}

// Blocks is content. A string on the wire is one block of text.
type Blocks []streamjson.Block

// UnmarshalJSON reads a string or a list of blocks.
func (b *Blocks) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		var text string
		if err := wirejson.Unmarshal(data, &text); err != nil {
			return err
		}
		*b = Blocks{{Type: streamjson.BlockText, Text: text}}
		return nil
	}
	var list []streamjson.Block
	err := wirejson.Unmarshal(data, &list)
	*b = list
	return err
}

// StreamEvent is one event of the Messages API while an answer comes, with the
// flag --include-partial-messages (spec stream-json 3.6).
type StreamEvent struct {
	streamjson.Head
	ParentToolUseID *string `json:"parent_tool_use_id"`
	Event           Event   `json:"event"`
}

// Event is the part of a stream event that tells what it is about; Line.Raw has
// the whole.
type Event struct {
	// Type is message_start, content_block_start, content_block_delta,
	// content_block_stop, message_delta or message_stop.
	Type string `json:"type"`
	// Index is that of the block.
	Index int   `json:"index"`
	Delta Delta `json:"delta"`
}

// Delta is a piece of a block: Type is text_delta, thinking_delta, signature_delta
// or input_json_delta, and the member of that name is set.
type Delta struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Thinking    string `json:"thinking"`
	Signature   string `json:"signature"`
	PartialJSON string `json:"partial_json"`
}

// Decode reads the whole line into v, a pointer.
func (l *Line) Decode(v any) error { return wirejson.Unmarshal(l.Raw, v) }

// Text is the text of an assistant line of the main thread; ok is false for any
// other line, and for a block that is no text.
func (l *Line) Text() (text string, ok bool) {
	a, isAssistant := l.Body.(*streamjson.Assistant)
	if !isAssistant || l.ParentToolUseID != "" {
		return "", false
	}
	for _, b := range a.Message.Content {
		if b.Type == streamjson.BlockText {
			text, ok = text+b.Text, true
		}
	}
	return text, ok
}

// TextDelta is a piece of text of the main thread, from a StreamEvent.
func (l *Line) TextDelta() (text string, ok bool) {
	e, isEvent := l.Body.(*StreamEvent)
	if !isEvent || l.ParentToolUseID != "" || e.Event.Delta.Type != "text_delta" {
		return "", false
	}
	return e.Event.Delta.Text, true
}

// body decodes a line as its type.
func body(l *Line) any {
	switch l.Type {
	case streamjson.TypeAssistant:
		return as[streamjson.Assistant](l)
	case streamjson.TypeUser:
		return as[User](l)
	case streamjson.TypeStreamEvent:
		return as[StreamEvent](l)
	case streamjson.TypeResult:
		return as[streamjson.Result](l)
	case streamjson.TypePromptSuggestion:
		return as[streamjson.PromptSuggestion](l)
	case streamjson.TypeConversationReset:
		return as[streamjson.ConversationReset](l)
	case streamjson.TypeSystem:
		return system(l)
	}
	return nil
}

func system(l *Line) any {
	switch l.Subtype {
	case streamjson.SystemInit:
		return as[streamjson.Init](l)
	case streamjson.SystemStatus:
		return as[streamjson.Status](l)
	case streamjson.SystemCompactBoundary:
		return as[streamjson.CompactBoundary](l)
	case streamjson.SystemAPIRetry:
		return as[streamjson.APIRetry](l)
	case streamjson.SystemTaskStarted:
		return as[streamjson.TaskStarted](l)
	case streamjson.SystemTaskProgress:
		return as[streamjson.TaskProgress](l)
	case streamjson.SystemTaskUpdated:
		return as[streamjson.TaskUpdated](l)
	case streamjson.SystemTaskNotification:
		return as[streamjson.TaskNotification](l)
	case streamjson.SystemBackgroundTasks:
		return as[streamjson.BackgroundTasks](l)
	case streamjson.SystemPermissionDenied:
		return as[streamjson.PermissionDenied](l)
	case streamjson.SystemInformational:
		return as[streamjson.Informational](l)
	case streamjson.SystemHookStarted:
		return as[streamjson.HookStarted](l)
	case streamjson.SystemHookResponse:
		return as[streamjson.HookResponse](l)
	}
	return nil
}

// as decodes a line, nil if that cannot be done.
func as[T any](l *Line) any {
	v := new(T)
	if l.Decode(v) != nil {
		return nil
	}
	return v
}
