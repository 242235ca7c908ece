package compaction

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"dsh/sdkproto"
)

// clip keeps about n bytes of a text, two thirds of them from its beginning, and
// says how many are gone. A text that would not become shorter stays as it is.
func clip(text string, n int, of string) string {
	head, tail := n*2/3, len(text)-n/3
	if n >= len(text) {
		return text
	}
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	short := text[:head] + fmt.Sprintf("\n[%d bytes %s were left out to make room]\n", tail-head, of) + text[tail:]
	if len(short) >= len(text) {
		return text
	}
	return short
}

// transcript writes messages down, at most a share of their text. First the
// longest pieces are cut, and when all are short, the oldest are left out.
func transcript(messages []sdkproto.Message, share float64) string {
	var pieces []string
	for i := range messages {
		pieces = append(pieces, told(&messages[i])...)
	}
	size := func(longest int) (sum int) {
		for _, p := range pieces {
			sum += min(len(p), longest) + len(between)
		}
		return sum
	}
	piece := largestPiece
	limit := size(math.MaxInt)
	if share < 1 {
		limit = int(float64(limit) * share)
	}
	for piece > smallestPiece && size(piece) > limit {
		piece /= 2
	}
	out := make([]string, 0, len(pieces)+1)
	for i, p := range slices.Backward(pieces) {
		p = clip(p, piece, "of this message")
		if limit -= len(p) + len(between); limit < 0 {
			out = append(out, fmt.Sprintf("[%d older parts were left out to make room]", i+1))
			break
		}
		out = append(out, p)
	}
	slices.Reverse(out)
	return strings.Join(out, between)
}

// Sizes of the pieces of a transcript, in bytes, and what stands between them.
const (
	largestPiece  = 64 << 10
	smallestPiece = 256
	between       = "\n\n"
)

// told writes down one message, each call and result by itself.
func told(m *sdkproto.Message) (pieces []string) {
	who := "User"
	switch {
	case m.Role == sdkproto.RoleAssistant:
		who = "Assistant"
	case m.Source.Kind != sdkproto.SourceUser:
		who = "Note"
	}
	for _, b := range m.Content {
		switch b.Type {
		case sdkproto.BlockText:
			pieces = append(pieces, who+": "+b.Text)
		case sdkproto.BlockToolCall:
			pieces = append(pieces, "Call of "+b.Name+": "+b.Arguments)
		case sdkproto.BlockToolResult:
			what := "Result: "
			if b.IsError {
				what = "Error: "
			}
			pieces = append(pieces, what+sdkproto.TextOf(b.Content))
		case sdkproto.BlockImage:
			pieces = append(pieces, who+": [an image]")
		}
	}
	return pieces
}
