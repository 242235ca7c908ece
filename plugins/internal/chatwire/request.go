package chatwire

import (
	"fmt"
	"strings"

	"dsh/kernel/llm"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// noOutput stands in for a tool result without text (spec jsonrpc 10.3).
const noOutput = "(no output)"

// appendRequest appends the body of a request (spec jsonrpc 10.3).
func (d *Dialect) appendRequest(dst []byte, req *llm.Request, s *shared) ([]byte, error) {
	config := &req.Header.Config
	dst = append(dst, `{"model":`...)
	dst = wirejson.AppendString(dst, config.Model)
	dst = append(dst, `,"messages":[`...)
	begin := len(dst)
	dst = append(dst, s.system...)
	ids := callIDs{dialect: d}
	for i := range req.Messages {
		dst = d.appendMessage(dst, &req.Messages[i], &ids, begin)
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
// one for each tool result in it.
func (d *Dialect) appendMessage(dst []byte, m *sdkproto.Message, ids *callIDs, begin int) []byte {
	if m.Role == sdkproto.RoleAssistant {
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
		text := textOf(b.Content)
		if strings.TrimSpace(text) == "" {
			text = noOutput
		}
		dst = append(wirejson.AppendString(dst, text), '}')
	}
	if results == len(m.Content) && results > 0 {
		return dst
	}
	text := textOf(m.Content)
	if strings.TrimSpace(text) == "" {
		if results > 0 {
			return dst
		}
		text = llm.EmptyMessage
	}
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
	text := textOf(m.Content)
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

// textOf joins the text of blocks; an image, which this wire does not carry yet,
// becomes a line that says so.
func textOf(blocks []sdkproto.Block) string {
	if len(blocks) == 1 && blocks[0].Type == sdkproto.BlockText {
		return blocks[0].Text
	}
	var b strings.Builder
	line := false // the text so far ends in a line of ours
	for i := range blocks {
		switch block := &blocks[i]; block.Type {
		case sdkproto.BlockText:
			if line && block.Text != "" {
				b.WriteByte('\n')
				line = false
			}
			b.WriteString(block.Text)
		case sdkproto.BlockImage:
			if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
				b.WriteByte('\n')
			}
			b.WriteString(imageNote(block))
			line = true
		}
	}
	return b.String()
}

func imageNote(b *sdkproto.Block) string {
	a := b.Attachment
	if a == nil {
		return "[image omitted: this model is given text only]"
	}
	what := a.MediaType
	if a.Name != "" {
		what = a.Name + ", " + what
	}
	if a.Width > 0 && a.Height > 0 {
		what += fmt.Sprintf(", %dx%d pixels", a.Width, a.Height)
	}
	return "[image omitted: " + what + "; this model is given text only]"
}
