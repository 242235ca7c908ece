package llmtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"dsh/sdkproto"
)

// Event is the text of one server-sent event with some data.
func Event(data string) string { return "data: " + data + "\n\n" }

// Done ends a stream.
const Done = "data: [DONE]\n\n"

// Comment is what keeps a connection alive.
const Comment = ": keep-alive\n\n"

// Stream is a reply with one part a text, most of them events.
func Stream(texts ...string) Reply {
	r := Reply{}
	for _, t := range texts {
		r.Parts = append(r.Parts, Part{Text: t})
	}
	return r
}

// JSON is a reply with a status and one JSON text.
func JSON(status int, text string) Reply {
	return Reply{Status: status, Header: map[string]string{"content-type": "application/json"}, Parts: []Part{{Text: text}}}
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always has an encoding
	}
	return string(b)
}

// Delta is an event with the members of a delta, as JSON without braces.
func Delta(members string) string {
	return Event(`{"id":"chat-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{` + members + `},"logprobs":null,"finish_reason":null}],"usage":null}`)
}

// Text is an event with a piece of text.
func Text(s string) string { return Delta(`"content":` + quote(s)) }

// ReasoningDelta is an event with a piece of reasoning, as dialect d names it.
func (d Dialect) ReasoningDelta(s string) string {
	name := d.Reasoning
	if name == "" {
		name = "reasoning_content"
	}
	return Delta(`"content":null,"` + name + `":` + quote(s))
}

// Call begins a tool call, Arguments goes on with it.
func Call(index int, id, name string) string {
	return Delta(fmt.Sprintf(`"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]`, index, quote(id), quote(name)))
}

// Arguments is an event with a piece of a call's arguments.
func Arguments(index int, s string) string {
	return Delta(fmt.Sprintf(`"tool_calls":[{"index":%d,"function":{"arguments":%s}}]`, index, quote(s)))
}

// Finish is the event with a finish reason.
func Finish(reason string) string {
	return Event(`{"choices":[{"index":0,"delta":{"content":""},"finish_reason":` + quote(reason) + `}]}`)
}

// Usage is the event that counts tokens and has no choices.
func Usage(prompt, cached, completion, reasoning int) string {
	return Event(fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,`+
		`"prompt_tokens_details":{"cached_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}}`,
		prompt, completion, prompt+completion, cached, reasoning))
}

// Begun is the stream of an answer with these blocks up to its finish, each block
// in pieces of one word.
func (d Dialect) Begun(blocks ...sdkproto.Block) string {
	if d.Messages {
		return messageBegun(blocks)
	}
	var out strings.Builder
	calls := 0
	for _, b := range blocks {
		switch b.Type {
		case sdkproto.BlockText:
			for _, piece := range strings.SplitAfter(b.Text, " ") {
				out.WriteString(Text(piece))
			}
		case sdkproto.BlockReasoning:
			for _, piece := range strings.SplitAfter(b.Text, " ") {
				out.WriteString(d.ReasoningDelta(piece))
			}
		case sdkproto.BlockToolCall:
			out.WriteString(Call(calls, b.ID, b.Name))
			if b.Arguments != "" {
				out.WriteString(Arguments(calls, b.Arguments))
			}
			calls++
		}
	}
	return out.String()
}

// Whole is the stream of a good answer with these blocks.
func (d Dialect) Whole(blocks ...sdkproto.Block) string {
	called := slices.ContainsFunc(blocks, func(b sdkproto.Block) bool { return b.Type == sdkproto.BlockToolCall })
	reason := "stop"
	switch {
	case called && d.Messages:
		reason = "tool_use"
	case called:
		reason = "tool_calls"
	case d.Messages:
		reason = "end_turn"
	}
	end := Done
	if d.Messages {
		end = MessageStop
	}
	return d.Begun(blocks...) + d.finished(reason) + end
}

// finished is what stands before the terminator.
func (d Dialect) finished(reason string) string {
	if d.Messages {
		return MessageDelta(reason, 5)
	}
	return Finish(reason)
}
