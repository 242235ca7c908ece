package chatwire

import (
	"context"
	"fmt"
	"strings"

	"dsh/kernel/llm"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// noOutput stands in for a tool result without text (spec jsonrpc 10.3).
const noOutput = "(no output)"

// appendRequest appends the body of a request (spec jsonrpc 10.3). ctx is for
// reading images.
func (d *Dialect) appendRequest(ctx context.Context, dst []byte, req *llm.Request, s *shared) ([]byte, error) {
	config := &req.Header.Config
	dst = append(dst, `{"model":`...)
	dst = wirejson.AppendString(dst, config.Model)
	dst = append(dst, `,"messages":[`...)
	begin := len(dst)
	dst = append(dst, s.system...)
	ids := callIDs{form: d.callID}
	images := viewer{ctx: ctx, read: req.Image}
	for i := range req.Messages {
		dst = d.appendMessage(dst, &req.Messages[i], &ids, &images, begin)
	}
	dst = images.showHeld(dst, begin)
	if images.err != nil {
		return nil, images.err
	}
	dst = append(dst, `],"stream":true`...)
	if d.StreamUsage {
		dst = append(dst, `,"stream_options":{"include_usage":true}`...)
	}
	dst = d.appendEffort(dst, config.ReasoningEffort)
	dst = append(dst, s.tools...)
	if d.MaxTokens != "" && config.MaxTokens > 0 {
		dst = append(dst, `,"`...)
		dst = append(dst, d.MaxTokens...)
		dst = append(dst, `":`...)
		dst = wirejson.AppendInt(dst, config.MaxTokens)
	}
	var err error
	if config.Temperature != nil {
		dst = append(dst, `,"temperature":`...)
		if dst, err = wirejson.Append(dst, *config.Temperature); err != nil {
			return nil, fmt.Errorf("encode the temperature: %w", err)
		}
	}
	if len(config.Stop) > 0 {
		dst = append(dst, `,"stop":`...)
		if dst, err = wirejson.Append(dst, config.Stop); err != nil {
			return nil, fmt.Errorf("encode the stop texts: %w", err)
		}
	}
	return append(dst, '}'), nil
}

func (d *Dialect) appendEffort(dst []byte, effort string) []byte {
	if effort == "" {
		return dst
	}
	switch d.Effort {
	case EffortThinking:
		if effort == EffortOff {
			return append(dst, `,"thinking":{"type":"disabled"}`...)
		}
		dst = append(dst, `,"thinking":{"type":"enabled"},"reasoning_effort":`...)
		dst = wirejson.AppendString(dst, effort)
	case EffortField:
		dst = append(dst, `,"reasoning_effort":`...)
		dst = wirejson.AppendString(dst, effort)
	case EffortObject:
		dst = append(dst, `,"reasoning":{"effort":`...)
		dst = append(wirejson.AppendString(dst, effort), '}')
	}
	return dst
}

// opens separates a message from the one before it; begin is where the list
// starts.
func opens(dst []byte, begin int) []byte {
	if len(dst) > begin {
		return append(dst, ',')
	}
	return dst
}

// appendMessage appends what a message of the history becomes: one message, or
// one for each tool result in it. The images of results come behind the last of
// the results that stand together.
func (d *Dialect) appendMessage(dst []byte, m *sdkproto.Message, ids *callIDs, images *viewer, begin int) []byte {
	if m.Role == sdkproto.RoleAssistant {
		dst = images.showHeld(dst, begin)
		return d.appendAnswer(opens(dst, begin), m, ids)
	}
	results := 0
	for i := range m.Content {
		b := &m.Content[i]
		if b.Type != sdkproto.BlockToolResult {
			continue
		}
		results++
		dst = append(opens(dst, begin), `{"role":"tool","tool_call_id":`...)
		dst = wirejson.AppendString(dst, ids.result(b.ToolCallID))
		dst = append(dst, `,"content":`...)
		text := textOf(b.Content, images.hold)
		if strings.TrimSpace(text) == "" {
			text = noOutput
		}
		dst = append(wirejson.AppendString(dst, text), '}')
	}
	if results == len(m.Content) && results > 0 {
		return dst
	}
	if images.shows() && hasImage(m.Content) {
		dst = images.showHeld(dst, begin)
		return images.appendParts(opens(dst, begin), m.Content)
	}
	text := textOf(m.Content, omitted)
	if strings.TrimSpace(text) == "" {
		if results > 0 {
			return dst
		}
		text = llm.EmptyMessage
	}
	dst = images.showHeld(dst, begin)
	dst = append(opens(dst, begin), `{"role":"user","content":`...)
	return append(wirejson.AppendString(dst, text), '}')
}

func (d *Dialect) appendAnswer(dst []byte, m *sdkproto.Message, ids *callIDs) []byte {
	calls := 0
	var reasoning string
	reasoned := false
	for i := range m.Content {
		switch b := &m.Content[i]; b.Type {
		case sdkproto.BlockToolCall:
			calls++
		case sdkproto.BlockReasoning:
			reasoning, reasoned = reasoning+b.Text, true
		}
	}
	dst = append(dst, `{"role":"assistant"`...)
	text := textOf(m.Content, omitted)
	switch {
	case text != "" || calls == 0 || d.EmptyContent == ContentEmpty:
		// A null content without calls would be refused, now and in every later
		// turn.
		dst = append(dst, `,"content":`...)
		dst = wirejson.AppendString(dst, text)
	case d.EmptyContent == ContentNull:
		dst = append(dst, `,"content":null`...)
	}
	if d.Reasoning != "" && (reasoned || calls > 0 && d.RequireReasoning) {
		dst = append(dst, `,"`...)
		dst = append(dst, d.Reasoning...)
		dst = append(dst, `":`...)
		dst = wirejson.AppendString(dst, reasoning)
	}
	if calls == 0 {
		return append(dst, '}')
	}
	dst = append(dst, `,"tool_calls":[`...)
	begin := len(dst)
	for i := range m.Content {
		b := &m.Content[i]
		if b.Type != sdkproto.BlockToolCall {
			continue
		}
		dst = append(opens(dst, begin), `{"id":`...)
		dst = wirejson.AppendString(dst, ids.call(b.ID))
		dst = append(dst, `,"type":"function","function":{"name":`...)
		dst = wirejson.AppendString(dst, b.Name)
		dst = append(dst, `,"arguments":`...)
		dst = wirejson.AppendString(dst, b.Arguments)
		dst = append(dst, "}}"...)
	}
	return append(dst, "]}"...)
}
