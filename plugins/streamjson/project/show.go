package project

import (
	"context"
	"encoding/json"

	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// Shower gives what a log holds the form that it has on the wire, for those who
// write no lines: the transcript of a session shows the same.
type Shower struct {
	// Image reads the bytes of an attachment; nil where none are kept.
	Image func(ctx context.Context, a *sdkproto.Attachment) ([]byte, error)
}

// Answer is a block of an answer on the wire; ok is false for one that is not
// shown.
func Answer(b *sdkproto.Block) (out streamjson.Block, ok bool) { return block(b) }

// AnswerID is the id under which an answer of a session is shown, whose event e
// is.
func AnswerID(sessionID string, e *sdkproto.Event, m *sdkproto.AssistantMessage) string {
	first := e.Seq
	if len(e.SourceEventSeqs) > 0 {
		first = e.SourceEventSeqs[0]
	}
	return streamjson.MessageID(m.MessageID, sessionID, first)
}

// Usage is an account in the words of the wire; nil counts nothing.
func Usage(u *sdkproto.Usage) streamjson.Usage { return usage(u) }

// Result gives the block of a tool's result, and the structured output beside it;
// name is the tool's. ok is false for a result without a block.
func (s Shower) Result(ctx context.Context, name string, r *sdkproto.ToolResult) (block streamjson.Block, structured json.RawMessage, ok bool) {
	for i := range r.Message.Content {
		if b := &r.Message.Content[i]; b.Type == sdkproto.BlockToolResult {
			block, structured = s.outcome(ctx, call{id: b.ToolCallID, name: name}, outcomeOf(r, b))
			return block, structured, true
		}
	}
	return block, nil, false
}

// Text is a text as it can stand in one line.
func Text(text string) string { return clip(text, maxContent) }

// APIError is the answer that stands for a failed model request, and its category
// (spec stream-json 12.1); ok is false for failures that have none.
func APIError(f *sdkproto.Failure) (text, kind string, ok bool) {
	if !ofAPI(f) {
		return "", "", false
	}
	return apiErrorText(f), category(f), true
}

// outcomeOf is what a result says of its call; b is its block.
func outcomeOf(r *sdkproto.ToolResult, b *sdkproto.Block) outcome {
	o := outcome{uuid: r.Message.ID, content: b.Content, isError: b.IsError, meta: r.Meta, ran: r.Error == nil || r.Error.Name == errorMCP}
	if r.Error != nil && interrupted(r.Error) {
		o.content, o.isError, o.ran, o.meta = []sdkproto.Block{sdkproto.Text(textInterruptedCall)}, true, false, nil
	}
	return o
}
