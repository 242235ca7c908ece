package chatwire

import (
	"encoding/json"
	"fmt"
	"strings"

	"dsh/kernel/llm"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// Types of the events of a stream of messages.
const (
	eventMessageStart = "message_start"
	eventBlockStart   = "content_block_start"
	eventBlockDelta   = "content_block_delta"
	eventBlockStop    = "content_block_stop"
	eventMessageDelta = "message_delta"
	eventMessageStop  = "message_stop"
	eventError        = "error"
)

// Words of stop_reason.
const (
	stopEndTurn  = "end_turn"
	stopToolUse  = "tool_use"
	stopMaxTok   = "max_tokens"
	stopSequence = "stop_sequence"
	stopRefusal  = "refusal"
	stopPause    = "pause_turn"
	stopWindow   = "model_context_window_exceeded"
)

// messageEvent is any event of a stream, or a whole answer.
type messageEvent struct {
	Type    string         `json:"type"`
	Message *messageHead   `json:"message"`
	Index   int64          `json:"index"`
	Block   messageBlock   `json:"content_block"`
	Delta   messageDelta   `json:"delta"`
	Usage   *messagesUsage `json:"usage"`
}

type messageHead struct {
	ID           string         `json:"id"`
	Content      []messageBlock `json:"content"`
	StopReason   string         `json:"stop_reason"`
	StopSequence string         `json:"stop_sequence"`
	Usage        *messagesUsage `json:"usage"`
}

type messageBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
}

type messageDelta struct {
	Type         string `json:"type"`
	Text         string `json:"text"`
	Thinking     string `json:"thinking"`
	Signature    string `json:"signature"`
	PartialJSON  string `json:"partial_json"`
	StopReason   string `json:"stop_reason"`
	StopSequence string `json:"stop_sequence"`
}

// messagesUsage is the account of tokens so far: its numbers are totals, and a
// later account may leave out what an earlier one told.
type messagesUsage struct {
	Input      *int64 `json:"input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	Output     *int64 `json:"output_tokens"`
}

// messageReader turns the events of one answer into chunks. A block ends as soon
// as the provider ends it.
type messageReader struct {
	yield func(sdkproto.Chunk) bool
	from  *response

	current messageEvent
	id      string
	usage   *sdkproto.Usage
	// block is the one that is open, nil between two; wire is its index in the
	// stream, and skip says that it is of a kind nobody knows.
	block *block
	wire  int64
	skip  bool
	// blocks and calls count those opened.
	blocks, calls  int
	stop, sequence string
}

func (a *messageReader) last(data []byte) bool {
	var e struct {
		Type string `json:"type"`
	}
	return wirejson.Unmarshal(data, &e) == nil && e.Type == eventMessageStop
}

func (a *messageReader) event(name string, data []byte) (done bool, err error) {
	switch name {
	case "ping":
		return false, nil
	case eventError:
		return false, a.fail(a.from.reportedKind(data))
	}
	e := &a.current
	*e = messageEvent{Block: messageBlock{Input: e.Block.Input[:0]}}
	if err := wirejson.Unmarshal(data, e); err != nil {
		return false, malformed("an event of the stream cannot be read: %v: %s", err, shorten(string(data), 200))
	}
	switch e.Type {
	case eventError:
		return false, a.fail(a.from.reportedKind(data))
	case eventMessageStart:
		return false, a.head(e.Message)
	case eventBlockStart:
		return false, a.open(e.Index, &e.Block)
	case eventBlockDelta:
		return false, a.grow(e.Index, &e.Delta)
	case eventBlockStop:
		return false, a.close()
	case eventMessageDelta:
		if e.Delta.StopReason != "" {
			a.stop, a.sequence = e.Delta.StopReason, e.Delta.StopSequence
		}
		a.count(e.Usage)
	case eventMessageStop:
		return true, a.end()
	case "":
		return false, malformed("an event of the stream has no type: %s", shorten(string(data), 200))
	}
	return false, nil
}

func (a *messageReader) whole(data []byte) error {
	var e struct {
		messageHead

		Type string `json:"type"`
	}
	if err := wirejson.Unmarshal(data, &e); err != nil {
		return malformed("the answer cannot be read: %v: %s", err, shorten(string(data), 200))
	}
	switch e.Type {
	case eventError:
		return a.from.reportedKind(data)
	case "message":
	default:
		return malformed("the answer is no message: %s", shorten(string(data), 200))
	}
	if err := a.head(&e.messageHead); err != nil {
		return err
	}
	for i := range e.Content {
		if err := a.open(int64(i), &e.Content[i]); err != nil {
			return err
		}
		if err := a.close(); err != nil {
			return err
		}
	}
	a.stop, a.sequence = e.StopReason, e.StopSequence
	return a.end()
}

func (a *messageReader) send(c sdkproto.Chunk) error {
	if !a.yield(c) {
		return errStopped
	}
	return nil
}

// head tells the provider's id of the answer before its first block.
func (a *messageReader) head(m *messageHead) error {
	if m == nil || a.id != "" || a.usage != nil {
		return nil
	}
	a.id = m.ID
	a.count(m.Usage)
	if a.id == "" {
		return nil
	}
	return a.account()
}

func (a *messageReader) count(u *messagesUsage) {
	if u == nil {
		return
	}
	if a.usage == nil {
		a.usage = &sdkproto.Usage{}
	}
	for _, n := range []struct {
		told *int64
		into *int64
	}{
		{u.Input, &a.usage.InputTokens}, {u.CacheWrite, &a.usage.CacheWriteTokens},
		{u.CacheRead, &a.usage.CacheReadTokens}, {u.Output, &a.usage.OutputTokens},
	} {
		if n.told != nil && *n.told >= 0 {
			*n.into = *n.told
		}
	}
}

// account hands on what is known of the tokens.
func (a *messageReader) account() error {
	usage := sdkproto.Usage{}
	if a.usage != nil {
		usage = *a.usage
	} else if a.id == "" {
		return nil
	}
	return a.send(sdkproto.Chunk{Type: sdkproto.ChunkUsage, Usage: &usage, MessageID: a.id})
}

// open begins a block. One that is still open then has ended: some endpoints do
// not say so.
func (a *messageReader) open(index int64, b *messageBlock) error {
	if err := a.close(); err != nil {
		return err
	}
	a.wire, a.skip = index, false
	opened := &block{Block: sdkproto.Block{ID: b.ID, Name: b.Name, Data: b.Data, Signature: b.Signature}, index: a.blocks}
	begins := messageDelta{Text: b.Text, Thinking: b.Thinking}
	switch b.Type {
	case "text":
		opened.Type, begins.Type = sdkproto.BlockText, "text_delta"
	case "thinking":
		opened.Type, begins.Type = sdkproto.BlockReasoning, "thinking_delta"
	case "redacted_thinking":
		opened.Type = sdkproto.BlockRedacted
	case "tool_use":
		opened.Type = sdkproto.BlockToolCall
		a.calls++
		// A stream tells the input piece by piece; what stands here already is that
		// of an endpoint that does not.
		if says(b.Input) && string(b.Input) != "{}" {
			begins = messageDelta{Type: "input_json_delta", PartialJSON: string(b.Input)}
		}
	default:
		a.skip = true
		return nil
	}
	a.block = opened
	a.blocks++
	if err := a.send(sdkproto.Chunk{Type: sdkproto.ChunkBlockStart, Index: opened.index, BlockType: opened.Type}); err != nil {
		return err
	}
	if opened.Type == sdkproto.BlockToolCall {
		if err := a.send(sdkproto.Chunk{Type: sdkproto.ChunkToolCallDelta, Index: opened.index, ID: b.ID, Name: b.Name}); err != nil {
			return err
		}
	}
	return a.grow(index, &begins)
}

// grow adds a piece to the open block.
func (a *messageReader) grow(index int64, d *messageDelta) error {
	b := a.block
	switch {
	case index == a.wire && a.skip:
		return nil
	case b == nil || index != a.wire:
		return malformed("the stream goes on with block %d, which is not open", index)
	}
	kind, piece := "", ""
	c := sdkproto.Chunk{Index: b.index}
	switch d.Type {
	case "text_delta":
		kind, piece = sdkproto.BlockText, d.Text
		c.Type, c.Text = sdkproto.ChunkTextDelta, piece
	case "thinking_delta":
		kind, piece = sdkproto.BlockReasoning, d.Thinking
		c.Type, c.Text = sdkproto.ChunkReasoningDelta, piece
	case "input_json_delta":
		kind, piece = sdkproto.BlockToolCall, d.PartialJSON
		c.Type, c.ID, c.ArgumentsDelta = sdkproto.ChunkToolCallDelta, b.ID, piece
	case "signature_delta":
		b.Signature += d.Signature
		return nil
	}
	switch {
	case piece == "":
		return nil
	case kind != b.Type:
		return malformed("the stream goes on with a %s in a block of %s", d.Type, b.Type)
	}
	b.text.WriteString(piece)
	return a.send(c)
}

func (a *messageReader) close() error {
	b := a.block
	a.block, a.skip = nil, false
	if b == nil {
		return nil
	}
	if b.Type == sdkproto.BlockToolCall {
		b.Arguments = b.text.String()
	} else {
		b.Text = b.text.String()
	}
	return a.send(sdkproto.Chunk{Type: sdkproto.ChunkBlockEnd, Index: b.index, Block: &b.Block})
}

// end closes an answer that its terminator ended (case B54).
func (a *messageReader) end() error {
	if b := a.block; b != nil {
		if b.Type == sdkproto.BlockToolCall && a.stop != stopMaxTok && a.stop != stopWindow {
			return a.fail(&llm.Error{Code: llm.CodeStreamClosed, Message: "the stream ended within a tool call"})
		}
		if err := a.close(); err != nil {
			return err
		}
	}
	reason := sdkproto.FinishReason{Kind: sdkproto.FinishStop, Sequence: a.sequence}
	nothing := &llm.Error{Code: llm.CodeEmptyResponse, Message: "the model answered with nothing"}
	switch a.stop {
	case stopEndTurn, stopToolUse:
		switch {
		case a.blocks == 0:
			return a.fail(nothing)
		case a.stop == stopToolUse && a.calls > 0:
			reason.Kind = sdkproto.FinishToolCalls
		}
	case stopSequence:
		reason.Native = a.stop
	case stopMaxTok:
		reason.Kind = sdkproto.FinishMaxTokens
	case stopWindow:
		reason.Kind, reason.Native = sdkproto.FinishMaxTokens, a.stop
	case stopRefusal, stopPause:
		// What was said stands, with the word for why there is no more of it (spec
		// stream-json 12.3). A call is not run: the answer is not whole.
		if a.blocks == 0 || a.calls > 0 {
			return a.fail(a.unfinished())
		}
		reason.Native = a.stop
	case "":
		switch {
		case a.calls > 0:
			return a.fail(&llm.Error{Code: llm.CodeStreamClosed, Message: "the stream ended behind a tool call, without a stop reason"})
		case a.blocks == 0:
			return a.fail(nothing)
		}
	default:
		return a.fail(a.unfinished())
	}
	if err := a.account(); err != nil {
		return err
	}
	return a.send(sdkproto.Chunk{Type: sdkproto.ChunkFinish, Reason: &reason})
}

func (a *messageReader) cut() error {
	switch a.stop {
	case "", stopEndTurn, stopToolUse, stopMaxTok, stopSequence, stopWindow:
		return a.fail(&llm.Error{Code: llm.CodeStreamClosed, Message: "the stream ended without its terminator"})
	}
	return a.fail(a.unfinished())
}

// unfinished is the error of a stop reason that means no answer.
func (a *messageReader) unfinished() *llm.Error {
	message := fmt.Sprintf("the model stopped before its answer was complete; the stop reason is %q", shorten(a.stop, 100))
	if a.stop == stopRefusal {
		message = "the model refused to answer"
	}
	return &llm.Error{Code: codeOf(strings.TrimSpace(a.stop)), Message: message}
}

// fail hands on what the attempt has cost before its error.
func (a *messageReader) fail(err *llm.Error) error {
	if a.usage == nil {
		return err
	}
	if e := a.account(); e != nil {
		return e
	}
	return err
}
