package llmtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"dsh/sdkproto"
)

// Messages is the dialect of Anthropic's API.
func Messages() Dialect { return Dialect{Name: "messages", Messages: true, KeyHeader: "x-api-key"} }

// MessageEvent is an event of a stream of messages; members are JSON behind the
// type, with a comma before them.
func MessageEvent(kind, members string) string {
	return "event: " + kind + "\ndata: {\"type\":" + quote(kind) + members + "}\n\n"
}

// MessageID is the id that MessageStart tells.
const MessageID = "msg_01llmtest"

// MessageStart begins an answer and tells its tokens: 20 that came from no cache,
// 7 put into it, 10 out of it.
func MessageStart() string {
	return MessageEvent("message_start", `,"message":{"id":"`+MessageID+`","type":"message","role":"assistant","model":"model","content":[],"stop_reason":null,"stop_sequence":null,`+
		`"usage":{"input_tokens":20,"cache_creation_input_tokens":7,"cache_read_input_tokens":10,"output_tokens":1}}`)
}

// BlockStart begins a block, whose members are JSON without braces.
func BlockStart(index int, members string) string {
	return MessageEvent("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":{%s}`, index, members))
}

// BlockDelta goes on with it, and BlockStop ends it.
func BlockDelta(index int, members string) string {
	return MessageEvent("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":{%s}`, index, members))
}

// BlockStop ends a block.
func BlockStop(index int) string {
	return MessageEvent("content_block_stop", fmt.Sprintf(`,"index":%d`, index))
}

// MessageDelta tells why an answer ends, and the tokens it took.
func MessageDelta(reason string, output int) string {
	return MessageEvent("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%s,"stop_sequence":null},"usage":{"output_tokens":%d}`, quote(reason), output))
}

// MessageStop ends a stream.
const MessageStop = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

// deltas are the events of a block's pieces; member begins each.
func deltas(index int, member string, pieces []string) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(BlockDelta(index, member+quote(p)))
	}
	return b.String()
}

// TextBlock is a block of text, each piece an event.
func TextBlock(index int, pieces ...string) string {
	return BlockStart(index, `"type":"text","text":""`) + deltas(index, `"type":"text_delta","text":`, pieces) + BlockStop(index)
}

// SignatureOf is the signature of a thought of a model; the server refuses every
// other.
func SignatureOf(model, thought string) string {
	sum := sha256.Sum256([]byte(model + "\x00" + thought))
	return "sig_" + hex.EncodeToString(sum[:8])
}

// Signed is a thought as it stands in a history.
func Signed(text string) sdkproto.Block {
	return sdkproto.Block{Type: sdkproto.BlockReasoning, Text: text, Signature: SignatureOf(Model, text)}
}

// ThinkingBlock is a block of thinking with its signature.
func ThinkingBlock(index int, pieces ...string) string {
	out := BlockStart(index, `"type":"thinking","thinking":"","signature":""`) + deltas(index, `"type":"thinking_delta","thinking":`, pieces)
	return out + BlockDelta(index, `"type":"signature_delta","signature":`+quote(SignatureOf(Model, strings.Join(pieces, "")))) + BlockStop(index)
}

// ToolUseBlock is a call, its input in these pieces.
func ToolUseBlock(index int, id, name string, pieces ...string) string {
	out := BlockStart(index, fmt.Sprintf(`"type":"tool_use","id":%s,"name":%s,"input":{}`, quote(id), quote(name)))
	return out + deltas(index, `"type":"input_json_delta","partial_json":`, pieces) + BlockStop(index)
}

func messageBegun(blocks []sdkproto.Block) string {
	out := MessageStart() + MessageEvent("ping", "")
	for i, b := range blocks {
		switch b.Type {
		case sdkproto.BlockText:
			out += TextBlock(i, strings.SplitAfter(b.Text, " ")...)
		case sdkproto.BlockReasoning:
			out += ThinkingBlock(i, strings.SplitAfter(b.Text, " ")...)
		case sdkproto.BlockToolCall:
			out += ToolUseBlock(i, b.ID, b.Name, "", b.Arguments)
		}
	}
	return out
}
