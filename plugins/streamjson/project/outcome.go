package project

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// A line is kept below what a client takes, 1,000,000 characters (spec stream-json
// 0.2): of what tools gave, the part that does not fit is left out, and the line
// says so. Bytes are counted, of which there are at least as many. What the model
// said is shown whole (case B01).
const (
	maxLine    = 960_000
	maxContent = 640_000
	// besides is what a line has beside content and structured output.
	besides = 4_000
)

// outcome is that of one call.
type outcome struct {
	// uuid is the line's, "" to make one.
	uuid    string
	content []sdkproto.Block
	isError bool
	// ran says that the tool gave the content, and not whoever kept it from running.
	ran  bool
	meta json.RawMessage
}

// show writes the user line of an outcome, and the one for older scripts.
func (t *thread) show(ctx context.Context, p *Projector, c call, o outcome) {
	head := p.head(streamjson.TypeUser, "")
	if _, err := uuid.Parse(o.uuid); err == nil {
		head.UUID = o.uuid
	}
	line := &streamjson.User{Head: head, Origin: t.origin, Message: streamjson.UserContent{Role: sdkproto.RoleUser}}
	var block streamjson.Block
	block, line.ToolUseResult = Shower{p.options.Image}.outcome(ctx, c, o)
	line.Message.Content = []streamjson.Block{block}
	p.emit(line)
	if t.isMain() && p.options.Legacy {
		p.emit(&streamjson.LegacyToolResult{
			Head: p.head(streamjson.TypeToolResult, ""), ToolUseID: c.id, Name: c.name, Content: clip(textOf(o.content), maxLine-besides), IsError: o.isError,
		})
	}
}

// outcome gives the block of a user line about a call, and the structured output
// beside it.
func (s Shower) outcome(ctx context.Context, c call, o outcome) (block streamjson.Block, structured json.RawMessage) {
	text := textOf(o.content)
	var content json.RawMessage
	structured = o.meta
	switch images := slices.ContainsFunc(o.content, isImage); {
	case images || asBlocks(c.name, o.ran, o.isError):
		content = s.Blocks(ctx, o.content)
		if images {
			structured = withoutImages(o.meta)
		}
	default:
		content = wirejson.AppendString(nil, clip(text, maxContent))
	}
	room := maxLine - besides - len(content) - len(c.id)
	if o.isError {
		// The structured output of a failure is its text (spec stream-json 3.4).
		structured = wirejson.AppendString(nil, clip(errorText(text), room))
	} else {
		structured = shorten(structured, room)
	}
	return streamjson.Block{Type: streamjson.BlockToolResult, ToolUseID: c.id, Content: content, IsError: o.isError}, structured
}

// asBlocks reports whether the content of a tool's result is an array: that of
// an MCP tool that ran, that of a subagent when it has answered (spec stream-json
// 3.4, 9). A call that was refused is answered with a string, as in the example
// of 11.11.
func asBlocks(name string, ran, isError bool) bool {
	return ran && strings.HasPrefix(name, "mcp__") || (name == "Agent" || name == "Task") && !isError
}

func errorText(text string) string {
	const prefix = "Error: "
	if strings.HasPrefix(text, prefix) {
		return text
	}
	return prefix + text
}

func isImage(b sdkproto.Block) bool { return b.Type == sdkproto.BlockImage }

// textOf is content as a string.
func textOf(content []sdkproto.Block) string {
	texts := make([]string, 0, len(content))
	for i := range content {
		switch content[i].Type {
		case sdkproto.BlockText:
			texts = append(texts, content[i].Text)
		case sdkproto.BlockImage:
			texts = append(texts, "[image]")
		}
	}
	return strings.Join(texts, "\n")
}

const textNoOutput = "(no output)"

// Blocks is content as an array, which is never empty. What does not fit any more
// is left out.
func (s Shower) Blocks(ctx context.Context, content []sdkproto.Block) json.RawMessage {
	out := []byte{'['}
	add := func(b streamjson.Block) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = b.AppendJSON(out)
	}
	left := 0
	for i := range content {
		b := &content[i]
		room := maxContent - len(out)
		switch {
		case b.Type != sdkproto.BlockText && b.Type != sdkproto.BlockImage:
		case room < besides:
			left++
		case b.Type == sdkproto.BlockText:
			add(streamjson.Block{Type: streamjson.BlockText, Text: clip(b.Text, room)})
		default:
			add(s.image(ctx, b, room))
		}
	}
	switch {
	case left > 0:
		add(streamjson.Block{Type: streamjson.BlockText, Text: fmt.Sprintf("[%d more blocks are left out of this line.]", left)})
	case len(out) == 1:
		add(streamjson.Block{Type: streamjson.BlockText, Text: textNoOutput})
	}
	return append(out, ']')
}

// image is an image with its bytes, or a text that says what is missing.
func (s Shower) image(ctx context.Context, b *sdkproto.Block, room int) streamjson.Block {
	mediaType, data := b.MimeType, b.Data
	size := base64.StdEncoding.DecodedLen(len(b.Data))
	if b.Attachment != nil {
		mediaType, size = b.Attachment.MediaType, int(b.Attachment.Bytes)
	}
	missing := func(why string) streamjson.Block {
		return streamjson.Block{Type: streamjson.BlockText, Text: fmt.Sprintf("[An image (%s, %d bytes) is left out of this line: %s.]", mediaType, size, why)}
	}
	if base64.StdEncoding.EncodedLen(size) > room {
		return missing("it is too large")
	}
	if b.Attachment != nil {
		if s.Image == nil {
			return missing("no images are kept here")
		}
		bytes, err := s.Image(ctx, b.Attachment)
		if err != nil {
			return missing("it cannot be read")
		}
		if base64.StdEncoding.EncodedLen(len(bytes)) > room {
			return missing("it is too large")
		}
		data = base64.StdEncoding.EncodeToString(bytes)
	}
	return streamjson.Block{Type: streamjson.BlockImage, MediaType: mediaType, Data: data}
}
