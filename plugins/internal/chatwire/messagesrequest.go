package chatwire

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"dsh/kernel/llm"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// keep marks the end of what the provider is to keep in its cache. A request may
// have four marks: the system prompt, the tools and two messages have one each.
const keep = `,"cache_control":{"type":"ephemeral"}`

func (m *Messages) encodeHeader(h *sdkproto.Header) (*shared, error) {
	s := &shared{}
	if strings.TrimSpace(h.System) != "" {
		s.system = append(s.system, `,"system":[{"type":"text","text":`...)
		s.system = appendText(s.system, h.System)
		s.system = append(m.mark(s.system), "}]"...)
	}
	if len(h.Tools) == 0 {
		return s, nil
	}
	s.tools = append(s.tools, `,"tools":[`...)
	begin := len(s.tools)
	for i := range h.Tools {
		t := &h.Tools[i]
		s.tools = append(opens(s.tools, begin), `{"name":`...)
		s.tools = wirejson.AppendString(s.tools, t.Name)
		s.tools = append(s.tools, `,"description":`...)
		s.tools = appendText(s.tools, t.Description)
		s.tools = append(s.tools, `,"input_schema":`...)
		if len(t.Parameters) == 0 {
			s.tools = append(s.tools, `{"type":"object"}`...)
		} else {
			parameters, err := wirejson.Compact(t.Parameters)
			if err != nil {
				return nil, fmt.Errorf("encode the parameters of tool %s: %w", t.Name, err)
			}
			s.tools = append(s.tools, parameters...)
		}
		if i == len(h.Tools)-1 {
			s.tools = m.mark(s.tools)
		}
		s.tools = append(s.tools, '}')
	}
	s.tools = append(s.tools, ']')
	return s, nil
}

func (m *Messages) mark(dst []byte) []byte {
	if m.Caching {
		dst = append(dst, keep...)
	}
	return dst
}

// appendRequest appends the body of a request. The history comes last but for
// what does not depend on it.
func (m *Messages) appendRequest(ctx context.Context, dst []byte, req *llm.Request, s *shared) ([]byte, error) {
	config := &req.Header.Config
	turns := m.turns(req)
	dst = append(dst, `{"model":`...)
	dst = wirejson.AppendString(dst, config.Model)
	dst = append(dst, `,"max_tokens":`...)
	dst = wirejson.AppendInt(dst, config.MaxTokens)
	dst, thinking := m.thinks(dst, config, fresh(turns))
	if config.Temperature != nil && !thinking {
		// With thinking the endpoints take no temperature.
		var err error
		dst = append(dst, `,"temperature":`...)
		if dst, err = wirejson.Append(dst, *config.Temperature); err != nil {
			return nil, fmt.Errorf("encode the temperature: %w", err)
		}
	}
	if len(config.Stop) > 0 {
		var err error
		dst = append(dst, `,"stop_sequences":`...)
		if dst, err = wirejson.Append(dst, config.Stop); err != nil {
			return nil, fmt.Errorf("encode the stop texts: %w", err)
		}
	}
	dst, err := m.appendHistory(ctx, dst, req, s, turns)
	return append(dst, `,"stream":true}`...), err
}

// appendCount appends the body of a request to count tokens, which takes fewer
// members.
func (m *Messages) appendCount(ctx context.Context, dst []byte, req *llm.Request, s *shared) ([]byte, error) {
	turns := m.turns(req)
	dst = append(dst, `{"model":`...)
	dst = wirejson.AppendString(dst, req.Header.Config.Model)
	dst, _ = m.thinks(dst, &req.Header.Config, fresh(turns))
	dst, err := m.appendHistory(ctx, dst, req, s, turns)
	return append(dst, '}'), err
}

func (m *Messages) appendHistory(ctx context.Context, dst []byte, req *llm.Request, s *shared, turns []turn) ([]byte, error) {
	dst = append(dst, s.system...)
	dst = append(dst, s.tools...)
	dst = append(dst, `,"messages":[`...)
	images := viewer{ctx: ctx, read: req.Image}
	marks := 2 // the last two messages of the user
	for i := range turns {
		left := 0
		for _, later := range turns[i:] {
			if later.role == sdkproto.RoleUser {
				left++
			}
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = m.appendTurn(dst, &turns[i], &images, turns[i].role == sdkproto.RoleUser && left <= marks)
	}
	return append(dst, ']'), images.err
}

// turn is one message of a request: those of one side that stand together in the
// history are joined, because the sides take turns.
type turn struct {
	role  string
	parts []segment
}

// segment is a block of a message, a call or a result with the id it is sent under.
type segment struct {
	*sdkproto.Block

	id string
}

// turns arranges a history as the protocol demands: the user's message behind
// calls begins with their results, every call has one, the first message is the
// user's and the last too, and no message is empty.
func (m *Messages) turns(req *llm.Request) []turn {
	t := arrangement{ids: callIDs{form: messagesID}}
	config := &req.Header.Config
	stale := m.stale.of(req.SessionID)
	for i := range req.Messages {
		msg := &req.Messages[i]
		// A signature is good for the model that made it and nobody else (case B59).
		own := i >= stale && ownAnswer(msg, config)
		for j := range msg.Content {
			b := &msg.Content[j]
			switch {
			case msg.Role == sdkproto.RoleAssistant:
				t.answer(b, own)
			case b.Type == sdkproto.BlockToolResult:
				t.result(b)
			case b.Type == sdkproto.BlockText && strings.TrimSpace(b.Text) != "", b.Type == sdkproto.BlockImage:
				t.add(sdkproto.RoleUser, segment{Block: b})
			}
		}
	}
	return t.end()
}

type arrangement struct {
	turns []turn
	ids   callIDs
	// open are the ids, as sent, of the calls of the last answer without a result.
	open []string
}

func (a *arrangement) add(role string, p segment) {
	if n := len(a.turns); n == 0 || a.turns[n-1].role != role {
		switch {
		case n == 0 && role == sdkproto.RoleAssistant:
			a.add(sdkproto.RoleUser, textSegment(llm.EmptyMessage))
		case role == sdkproto.RoleAssistant:
			a.close()
		}
		a.turns = append(a.turns, turn{role: role})
	}
	t := &a.turns[len(a.turns)-1]
	t.parts = append(t.parts, p)
}

func textSegment(text string) segment {
	b := sdkproto.Text(text)
	return segment{Block: &b}
}

// answer adds a block of an answer. Reasoning without a signature of the model's
// own would be refused.
func (a *arrangement) answer(b *sdkproto.Block, own bool) {
	switch b.Type {
	case sdkproto.BlockText:
		if strings.TrimSpace(b.Text) == "" {
			return
		}
		a.add(sdkproto.RoleAssistant, segment{Block: b})
	case sdkproto.BlockReasoning:
		if own && b.Signature != "" {
			a.add(sdkproto.RoleAssistant, segment{Block: b})
		}
	case sdkproto.BlockRedacted:
		if own && b.Data != "" {
			a.add(sdkproto.RoleAssistant, segment{Block: b})
		}
	case sdkproto.BlockToolCall:
		id := a.ids.call(b.ID)
		a.add(sdkproto.RoleAssistant, segment{b, id})
		a.open = append(a.open, id)
	}
}

// result adds the result of a call, before everything else the user says. One
// that no call waits for is told as text.
func (a *arrangement) result(b *sdkproto.Block) {
	id := a.ids.result(b.ToolCallID)
	at := slices.Index(a.open, id)
	if at < 0 {
		if text := textOf(b.Content, omitted); strings.TrimSpace(text) != "" {
			a.add(sdkproto.RoleUser, textSegment(text))
		}
		return
	}
	a.open = slices.Delete(a.open, at, at+1)
	a.first(segment{b, id})
}

// first adds a part behind the results of the user's message.
func (a *arrangement) first(p segment) {
	a.add(sdkproto.RoleUser, p)
	parts := a.turns[len(a.turns)-1].parts
	at := slices.IndexFunc(parts, func(p segment) bool { return p.Type != sdkproto.BlockToolResult })
	if at >= 0 {
		copy(parts[at+1:], parts[at:len(parts)-1])
		parts[at] = p
	}
}

// close gives calls that have no result one that says so.
func (a *arrangement) close() {
	open := a.open
	a.open = nil
	for _, id := range open {
		b := &sdkproto.Block{Type: sdkproto.BlockToolResult, IsError: true, Content: []sdkproto.Block{sdkproto.Text("(no result)")}}
		a.first(segment{b, id})
	}
}

func (a *arrangement) end() []turn {
	a.close()
	if n := len(a.turns); n == 0 || a.turns[n-1].role == sdkproto.RoleAssistant {
		// Models no longer go on with an answer that was begun for them.
		a.add(sdkproto.RoleUser, textSegment(llm.EmptyMessage))
	}
	return a.turns
}

// fresh reports whether a request may begin to think: within the calls of an
// answer that did not, endpoints refuse it.
func fresh(turns []turn) bool {
	last := &turns[len(turns)-1]
	if slices.ContainsFunc(last.parts, func(p segment) bool { return p.Type != sdkproto.BlockToolResult }) {
		return true
	}
	before := &turns[len(turns)-2] // the answer with the calls
	first := before.parts[0].Type
	return first == sdkproto.BlockReasoning || first == sdkproto.BlockRedacted
}

// messagesID gives an id of a call that the endpoint takes.
func messagesID(id string) string {
	const most = 64
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}
	if id == "" || len(id) > most || strings.ContainsFunc(id, odd) {
		return "toolu_" + hashID(id, 24)
	}
	return id
}

func (m *Messages) appendTurn(dst []byte, t *turn, images *viewer, marked bool) []byte {
	dst = append(dst, `{"role":`...)
	dst = wirejson.AppendString(dst, t.role)
	dst = append(dst, `,"content":[`...)
	begin := len(dst)
	for _, p := range t.parts {
		dst = appendSegment(opens(dst, begin), p, images)
	}
	if marked && m.Caching {
		// Every block is an object, and the last is marked as its last member.
		dst = append(append(dst[:len(dst)-1], keep...), '}')
	}
	return append(dst, "]}"...)
}

func appendSegment(dst []byte, p segment, images *viewer) []byte {
	switch p.Type {
	case sdkproto.BlockImage:
		return appendImage(dst, p.Block, images)
	case sdkproto.BlockReasoning:
		dst = append(dst, `{"type":"thinking","thinking":`...)
		dst = wirejson.AppendString(dst, p.Text)
		dst = append(dst, `,"signature":`...)
		dst = wirejson.AppendString(dst, p.Signature)
	case sdkproto.BlockRedacted:
		dst = append(dst, `{"type":"redacted_thinking","data":`...)
		dst = wirejson.AppendString(dst, p.Data)
	case sdkproto.BlockToolCall:
		dst = append(dst, `{"type":"tool_use","id":`...)
		dst = wirejson.AppendString(dst, p.id)
		dst = append(dst, `,"name":`...)
		dst = wirejson.AppendString(dst, p.Name)
		dst = append(dst, `,"input":`...)
		dst = append(dst, withoutNull(p.Arguments)...)
	case sdkproto.BlockToolResult:
		return appendResult(dst, p, images)
	default:
		return appendTextBlock(dst, p.Text)
	}
	return append(dst, '}')
}

func appendTextBlock(dst []byte, text string) []byte {
	dst = append(dst, `{"type":"text","text":`...)
	return append(appendText(dst, text), '}')
}

// appendImage appends an image, or says in its place that there is none.
func appendImage(dst []byte, b *sdkproto.Block, images *viewer) []byte {
	if !images.shows() {
		return appendTextBlock(dst, omitted(b))
	}
	mediaType, data, ok := images.load(b)
	if !ok {
		return appendTextBlock(dst, imageNote(b, unreadable))
	}
	dst = append(dst, `{"type":"image","source":{"type":"base64","media_type":"`...)
	dst = append(dst, mediaType...)
	dst = append(dst, `","data":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, `"}}`...)
}

// appendResult appends the result of a call: a text, or blocks where it has
// images that are shown. A failure may have text only.
func appendResult(dst []byte, p segment, images *viewer) []byte {
	dst = append(dst, `{"type":"tool_result","tool_use_id":`...)
	dst = wirejson.AppendString(dst, p.id)
	dst = append(dst, `,"content":`...)
	if images.shows() && !p.IsError && hasImage(p.Content) {
		dst = append(dst, '[')
		begin := len(dst)
		for i := range p.Content {
			switch b := &p.Content[i]; {
			case b.Type == sdkproto.BlockImage:
				dst = appendImage(opens(dst, begin), b, images)
			case b.Type == sdkproto.BlockText && strings.TrimSpace(b.Text) != "":
				dst = appendTextBlock(opens(dst, begin), b.Text)
			}
		}
		dst = append(dst, ']')
	} else {
		text := textOf(p.Content, omitted)
		if strings.TrimSpace(text) == "" {
			text = noOutput
		}
		dst = appendText(dst, text)
	}
	if p.IsError {
		dst = append(dst, `,"is_error":true`...)
	}
	return append(dst, '}')
}

// appendText appends a text without the one character that endpoints refuse.
func appendText(dst []byte, text string) []byte {
	if strings.IndexByte(text, 0) >= 0 {
		text = strings.ReplaceAll(text, "\x00", "\ufffd")
	}
	return wirejson.AppendString(dst, text)
}

// withoutNull is appendText for JSON, where that character is an escape.
func withoutNull(text string) string {
	const escape = `\u0000`
	if !strings.Contains(text, escape) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '\\':
			out.WriteByte(text[i])
		case strings.HasPrefix(text[i:], escape):
			out.WriteString(`\ufffd`)
			i += len(escape) - 1
		default: // an escape and what it escapes
			out.WriteString(text[i:min(i+2, len(text))])
			i++
		}
	}
	return out.String()
}
