package chatwire

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// attached begins the message that shows the images of tool results: the wire
// takes only text in the results themselves (spec jsonrpc 10.3).
const attached = "Attached image(s) from tool result:"

// viewer shows images to the model. What a request says of an image depends on
// the history and the stored bytes only.
type viewer struct {
	ctx context.Context
	// read is nil when the model is shown none.
	read func(context.Context, *sdkproto.Attachment) ([]byte, error)
	// held are the images of the tool results so far, not shown yet.
	held []*sdkproto.Block
	// err is set when the request is given up.
	err error
}

func (v *viewer) shows() bool { return v.read != nil }

// load gives the bytes of an image and what they are; false when they cannot be
// read or are none of the four types.
func (v *viewer) load(b *sdkproto.Block) (mediaType string, data []byte, ok bool) {
	if b.Attachment == nil || v.err != nil {
		return "", nil, false
	}
	data, err := v.read(v.ctx, b.Attachment)
	if v.ctx.Err() != nil {
		v.err = v.ctx.Err()
	}
	// What the reference says of the type may be anybody's word.
	mediaType = typeOf(data)
	return mediaType, data, err == nil && mediaType != ""
}

// typeOf tells the media type by the first bytes; "" for one that no model takes.
func typeOf(data []byte) string {
	head := string(data[:min(len(data), 12)])
	switch {
	case strings.HasPrefix(head, "\x89PNG\r\n\x1a\n"):
		return "image/png"
	case strings.HasPrefix(head, "\xff\xd8\xff"):
		return "image/jpeg"
	case strings.HasPrefix(head, "GIF8"):
		return "image/gif"
	case strings.HasPrefix(head, "RIFF") && strings.HasSuffix(head, "WEBP"):
		return "image/webp"
	}
	return ""
}

// hold keeps the images of a tool result for the message behind the results,
// and gives what stands in their places.
func (v *viewer) hold(b *sdkproto.Block) string {
	if !v.shows() || b.Attachment == nil {
		return omitted(b)
	}
	v.held = append(v.held, b)
	return fmt.Sprintf("[image %d: %s; it follows behind the tool results]", len(v.held), describe(b.Attachment))
}

// showHeld appends the message with the images of the results before it.
func (v *viewer) showHeld(dst []byte, begin int) []byte {
	if len(v.held) == 0 {
		return dst
	}
	p := v.parts(opens(dst, begin))
	p.text.line(attached)
	for i, b := range v.held {
		p.text.line(fmt.Sprintf("[image %d]", i+1))
		p.image(b)
	}
	v.held = nil
	return p.end()
}

// appendParts appends a user message with images.
func (v *viewer) appendParts(dst []byte, blocks []sdkproto.Block) []byte {
	p := v.parts(dst)
	for i := range blocks {
		switch b := &blocks[i]; b.Type {
		case sdkproto.BlockText:
			p.text.say(b.Text)
		case sdkproto.BlockImage:
			if b.Attachment != nil && b.Attachment.Name != "" {
				p.text.line("[image: " + b.Attachment.Name + "]")
			}
			p.image(b)
		}
	}
	return p.end()
}

// parts is the content of one user message: texts and images.
type parts struct {
	v     *viewer
	dst   []byte
	begin int
	text  lines // that has no part yet
}

func (v *viewer) parts(dst []byte) *parts {
	dst = append(dst, `{"role":"user","content":[`...)
	return &parts{v: v, dst: dst, begin: len(dst)}
}

// image appends an image, or says in its place that there is none.
func (p *parts) image(b *sdkproto.Block) {
	mediaType, data, ok := p.v.load(b)
	if !ok {
		p.text.line(imageNote(b, unreadable))
		return
	}
	p.flush()
	p.dst = append(opens(p.dst, p.begin), `{"type":"image_url","image_url":{"url":"data:`...)
	p.dst = append(p.dst, mediaType...)
	p.dst = append(p.dst, ";base64,"...)
	p.dst = base64.StdEncoding.AppendEncode(p.dst, data)
	p.dst = append(p.dst, `"}}`...)
}

// flush makes a part of the text; blank text is none (case B46).
func (p *parts) flush() {
	text := p.text.String()
	p.text = lines{}
	if strings.TrimSpace(text) == "" {
		return
	}
	p.dst = append(opens(p.dst, p.begin), `{"type":"text","text":`...)
	p.dst = append(wirejson.AppendString(p.dst, text), '}')
}

func (p *parts) end() []byte {
	p.flush()
	return append(p.dst, "]}"...)
}

// lines is text in which some lines are ours.
type lines struct {
	strings.Builder
	ours bool // the text so far ends in one
}

func (l *lines) say(text string) {
	if l.ours && text != "" {
		l.WriteByte('\n')
		l.ours = false
	}
	l.WriteString(text)
}

func (l *lines) line(text string) {
	if s := l.String(); s != "" && !strings.HasSuffix(s, "\n") {
		l.WriteByte('\n')
	}
	l.WriteString(text)
	l.ours = true
}

// textOf joins the text of blocks; image gives the line that stands for an
// image.
func textOf(blocks []sdkproto.Block, image func(*sdkproto.Block) string) string {
	if len(blocks) == 1 && blocks[0].Type == sdkproto.BlockText {
		return blocks[0].Text
	}
	var l lines
	for i := range blocks {
		switch b := &blocks[i]; b.Type {
		case sdkproto.BlockText:
			l.say(b.Text)
		case sdkproto.BlockImage:
			l.line(image(b))
		}
	}
	return l.String()
}

// Why an image is not shown.
const (
	textOnly   = "this model is given text only"
	unreadable = "it cannot be read any more"
)

// omitted stands for an image that the model is not shown.
func omitted(b *sdkproto.Block) string { return imageNote(b, textOnly) }

func imageNote(b *sdkproto.Block, why string) string {
	if b.Attachment == nil {
		return "[image omitted: " + why + "]"
	}
	return "[image omitted: " + describe(b.Attachment) + "; " + why + "]"
}

func describe(a *sdkproto.Attachment) string {
	what := a.MediaType
	if a.Name != "" {
		what = a.Name + ", " + what
	}
	if a.Width > 0 && a.Height > 0 {
		what += fmt.Sprintf(", %dx%d pixels", a.Width, a.Height)
	}
	return what
}

func hasImage(blocks []sdkproto.Block) bool {
	for i := range blocks {
		if blocks[i].Type == sdkproto.BlockImage {
			return true
		}
	}
	return false
}

// scrub takes encoded bytes out of what a provider says: some quote the request.
func scrub(text string) string {
	const marker, longest = "base64,", 100
	var out strings.Builder
	for text != "" {
		run := 0
		for run < len(text) && isBase64(text[run]) {
			run++
		}
		if run >= longest || run > 0 && strings.HasSuffix(out.String(), marker) {
			out.WriteString("...")
		} else {
			out.WriteString(text[:run])
		}
		text = text[run:]
		other := 0
		for other < len(text) && !isBase64(text[other]) {
			other++
		}
		out.WriteString(text[:other])
		text = text[other:]
	}
	return out.String()
}

func isBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '='
}
