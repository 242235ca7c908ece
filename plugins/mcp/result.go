package mcp

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"dsh/kernel/attachment"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// content is a content block of the protocol.
type content struct {
	Type        string
	Text        string
	Data        string
	MimeType    string
	Name        string
	Title       string
	Description string
	URI         string
	Resource    *resource
	raw         json.RawMessage
}

// resource is what a resource holds.
type resource struct {
	URI, MimeType, Text, Blob string
	hasBlob                   bool
}

func readContent(raw json.RawMessage) content {
	m, _ := decode[members](raw)
	text := func(key string) string { s, _ := decode[string](m[key]); return s }
	c := content{
		Type: text("type"), Text: text("text"), Data: text("data"), MimeType: text("mimeType"),
		Name: text("name"), Title: text("title"), Description: text("description"), URI: text("uri"), raw: raw,
	}
	if len(m["resource"]) > 0 {
		r := readResource(m["resource"])
		c.Resource = &r
	}
	return c
}

func readResource(raw json.RawMessage) resource {
	m, _ := decode[members](raw)
	text := func(key string) string { s, _ := decode[string](m[key]); return s }
	return resource{URI: text("uri"), MimeType: text("mimeType"), Text: text("text"), Blob: text("blob"), hasBlob: len(m["blob"]) > 0}
}

// result makes what the model gets of the result of a call (spec stream-json
// 8.4).
func (m *Manager) result(ctx context.Context, in tool.Invocation, s *server, most int, data json.RawMessage) tool.Result {
	b := m.builder(ctx, in, most)
	top, ok := decode[members](data)
	if !ok {
		return tool.ErrorResult(errorName, codeAnswer, fmt.Sprintf("Error: the MCP server %q answered with no object: %s", s.name, clip(string(data), 500)))
	}
	blocks, _ := decode[[]json.RawMessage](top["content"])
	for _, raw := range blocks {
		b.add(readContent(raw))
	}
	if len(blocks) == 0 && len(top["structuredContent"]) > 0 {
		b.text(string(top["structuredContent"]))
	}
	if kind, _ := decode[string](top["resultType"]); kind == "input_required" {
		b.text("The server wants more input before it goes on, in a way that is not supported.")
	}
	res := tool.Result{Content: b.done("The tool gave no output.")}
	if res.IsError, _ = decode[bool](top["isError"]); res.IsError {
		res.Error = &sdkproto.ToolError{Name: errorName, Code: codeResult}
	}
	return res
}

// mostResult is the most that the environment may ask for: a line of the
// stream-json wire must stay below a million characters (spec stream-json 8.6).
const mostResult = 900_000

// builder collects the blocks of one result.
type builder struct {
	m      *Manager
	ctx    context.Context
	in     tool.Invocation
	most   int
	blocks []sdkproto.Block
	// chars counts the characters of texts.
	chars int
}

func (m *Manager) builder(ctx context.Context, in tool.Invocation, most int) *builder {
	return &builder{m: m, ctx: ctx, in: in, most: m.mostText(most)}
}

// mostText is the most that a result may have, in characters; most is what its
// tool wants.
func (m *Manager) mostText(most int) int { return max(most, m.config.Load().MaxResult) }

func (b *builder) text(text string) {
	if text == "" {
		return // providers refuse empty texts
	}
	text = strings.ToValidUTF8(text, "\ufffd")
	b.chars += utf8.RuneCountInString(text)
	b.blocks = append(b.blocks, sdkproto.Text(text))
}

func (b *builder) add(c content) {
	switch c.Type {
	case "text":
		b.text(c.Text)
	case "image":
		b.image(c.MimeType, c.Data)
	case "audio":
		b.file("audio", c.MimeType, "", c.Data)
	case "resource_link":
		line := "Resource: " + cmp.Or(c.Title, c.Name, c.URI)
		if c.URI != "" {
			line += " <" + c.URI + ">"
		}
		if c.MimeType != "" {
			line += " (" + c.MimeType + ")"
		}
		if c.Description != "" {
			line += "\n" + c.Description
		}
		b.text(line)
	case "resource":
		if c.Resource != nil {
			b.resource(*c.Resource)
		}
	default:
		b.text(string(c.raw))
	}
}

func (b *builder) resource(r resource) {
	switch {
	case !r.hasBlob:
		b.text(r.Text)
	case strings.HasPrefix(r.MimeType, "image/"):
		b.image(r.MimeType, r.Blob)
	default:
		b.file("resource", r.MimeType, r.URI, r.Blob)
	}
}

// image stores an image and refers to it; where that cannot be, it says so.
func (b *builder) image(mediaType, data string) {
	raw, err := fromBase64(data)
	if err != nil {
		b.text(fmt.Sprintf("[image %s left out: %v]", mediaType, err))
		return
	}
	if b.m.images == nil {
		b.keep("image", mediaType, "", raw, "no row of the profile stores images")
		return
	}
	refs, err := b.m.images.Admit(b.ctx, []attachment.Upload{{Bytes: raw, MediaType: mediaType}})
	var refused *attachment.Error
	switch {
	case errors.As(err, &refused):
		b.keep("image", mediaType, "", raw, refused.Message)
	case err != nil:
		b.text(fmt.Sprintf("[image %s, %d bytes, left out: %v]", mediaType, len(raw), err))
	default:
		b.blocks = append(b.blocks, sdkproto.Block{Type: sdkproto.BlockImage, Attachment: &refs[0]})
	}
}

// file keeps what the model cannot be shown in a file and says where.
func (b *builder) file(what, mediaType, uri, data string) {
	raw, err := fromBase64(data)
	if err != nil {
		b.text(fmt.Sprintf("[%s %s left out: %v]", what, mediaType, err))
		return
	}
	b.keep(what, mediaType, uri, raw, "")
}

func (b *builder) keep(what, mediaType, uri string, raw []byte, why string) {
	about := strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", what, mediaType, uri)), " ")
	if why != "" {
		why = "; not shown: " + why
	}
	path, err := b.spill(raw)
	if err != nil {
		b.text(fmt.Sprintf("[%s, %d bytes, left out: %v%s]", about, len(raw), err, why))
		return
	}
	b.text(fmt.Sprintf("[%s, %d bytes, saved to %s%s]", about, len(raw), path, why))
}

func (b *builder) spill(data ...[]byte) (path string, err error) {
	return tool.Keep(b.m.spiller, b.in.SessionID, b.in.CallID, data...)
}

// preview is how much of a text that is kept in a file the model gets at once,
// in bytes.
const preview = 2000

// done gives the blocks within the limits: text that is too long is kept in a
// file (spec stream-json 8.6), further blocks are left out.
func (b *builder) done(nothing string) []sdkproto.Block {
	most := b.m.config.Load().MaxBlocks
	if len(b.blocks) == 0 {
		return []sdkproto.Block{sdkproto.Text(nothing)}
	}
	texts := 0
	for _, block := range b.blocks {
		if block.Type == sdkproto.BlockText {
			texts++
		}
	}
	if b.chars <= b.most && len(b.blocks) <= most {
		return b.blocks
	}
	others := b.blocks[:0:0]
	var whole [][]byte
	for _, block := range b.blocks {
		if block.Type == sdkproto.BlockText {
			whole = append(whole, []byte(block.Text), []byte{'\n'})
		} else {
			others = append(others, block)
		}
	}
	var out []sdkproto.Block
	switch {
	case texts == 0:
	case b.chars <= b.most:
		var joined strings.Builder
		for _, part := range whole {
			joined.Write(part)
		}
		out = append(out, sdkproto.Text(joined.String()))
	default:
		out = append(out, sdkproto.Text(b.long(whole)))
	}
	if room := max(0, most-len(out)-1); len(others) > room {
		left := len(others) - room
		out = append(append(out, others[:room]...), sdkproto.Text(fmt.Sprintf("[%d more images left out: a result has at most %d blocks]", left, most)))
		return out
	}
	return append(out, others...)
}

// long keeps a text in a file and says where; the model gets its beginning.
func (b *builder) long(whole [][]byte) string {
	var head strings.Builder
	for _, part := range whole {
		if room := min(preview, b.most) - head.Len(); room > 0 {
			head.Write(part[:min(room, len(part))])
		}
	}
	begin := strings.ToValidUTF8(head.String(), "")
	path, err := b.spill(whole...)
	if err != nil {
		return fmt.Sprintf("%s\n[The output has %d characters, of which %d may be shown; the rest is left out: %v]", begin, b.chars, b.most, err)
	}
	return fmt.Sprintf("%s…\n[The output has %d characters, of which %d may be shown. It is saved to %s: read that file in parts, or search it.]",
		begin, b.chars, b.most, path)
}

func fromBase64(data string) ([]byte, error) {
	if strings.ContainsAny(data, "\r\n\t ") {
		data = strings.Join(strings.Fields(data), "")
	}
	data = strings.TrimRight(data, "=")
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if raw, err := e.DecodeString(data); err == nil {
			return raw, nil
		}
	}
	return nil, errors.New("its data is not base64")
}
