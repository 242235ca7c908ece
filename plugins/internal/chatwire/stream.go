package chatwire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"dsh/kernel/llm"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// errStopped says that nobody listens any more.
var errStopped = errors.New("nobody listens")

// answer turns the chunks of one response into those of spec jsonrpc 5.5.
type answer struct {
	yield func(sdkproto.Chunk) bool
	// failure makes an error of what a provider reports inside a stream.
	failure func(report []byte) *llm.Error

	chunk           chunk
	blocks          []*block
	text, reasoning *block
	calls           []*block
	finish          string
	usage           *sdkproto.Usage
}

// block is one that has been opened.
type block struct {
	sdkproto.Block

	index int
	// wire is the index of a call in the stream, -1 where the endpoint sends none.
	wire int64
	text strings.Builder
}

// reader makes chunks of what an endpoint answers. The errors of its methods are
// errStopped or an *llm.Error.
type reader interface {
	// last reports whether some data is that of the event that ends a stream.
	last(data []byte) bool
	// event takes one event; done says that it was the last.
	event(name string, data []byte) (done bool, err error)
	// whole takes an answer that came in one piece.
	whole(data []byte) error
	// cut is the end of a body without a terminator.
	cut() error
}

// readStream reads an event stream to its end. Its error is errStopped, an
// *llm.Error for what the provider sent, or what reading gave.
func readStream(r reader, body io.Reader) error {
	for in := newEvents(body, r.last); ; {
		name, data, err := in.next()
		switch {
		case errors.Is(err, io.EOF):
			return r.cut()
		case errors.Is(err, errEventTooLarge):
			return malformed("%v", err)
		case err != nil:
			return err
		}
		if done, err := r.event(name, data); done || err != nil {
			return err
		}
	}
}

// readWhole reads an answer that came in one piece.
func readWhole(r reader, body io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(body, maxEventBytes+1))
	switch {
	case err != nil:
		return err
	case len(data) > maxEventBytes:
		return malformed("the answer is larger than %d MiB", maxEventBytes>>20)
	case len(bytes.TrimSpace(data)) == 0:
		return r.cut()
	}
	return r.whole(data)
}

func (a *answer) last(data []byte) bool { return string(bytes.TrimSpace(data)) == "[DONE]" }

func (a *answer) event(name string, data []byte) (done bool, err error) {
	switch {
	case a.last(data):
		return true, a.end()
	case name == "ping":
		return false, nil
	case name == "error":
		return false, a.failure(data)
	}
	return false, a.take(data)
}

func (a *answer) whole(data []byte) error {
	if err := a.take(data); err != nil {
		return err
	}
	return a.end()
}

func malformed(format string, args ...any) *llm.Error {
	return &llm.Error{Code: llm.CodeMalformedResponse, Message: fmt.Sprintf(format, args...)}
}

// take reads one chunk of chat completions.
func (a *answer) take(data []byte) error {
	c := &a.chunk
	c.reset()
	if err := wirejson.Unmarshal(data, c); err != nil {
		return malformed("an event of the stream cannot be read: %v: %s", err, shorten(string(data), 200))
	}
	if says(c.Error) {
		return a.failure(data)
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Index != 0 {
			continue
		}
		for _, m := range []*message{&choice.Delta, &choice.Message} {
			if err := a.message(m); err != nil {
				return err
			}
		}
		if choice.FinishReason != "" {
			a.finish = choice.FinishReason
		}
	}
	if says(c.Usage) {
		a.usage = account(c.Usage)
	}
	return nil
}

func (a *answer) message(m *message) error {
	if r := m.reasoning(); r != "" {
		if err := a.grow(&a.reasoning, sdkproto.BlockReasoning, sdkproto.ChunkReasoningDelta, r); err != nil {
			return err
		}
	}
	if m.Content != "" {
		if err := a.grow(&a.text, sdkproto.BlockText, sdkproto.ChunkTextDelta, m.Content); err != nil {
			return err
		}
	}
	for i := range m.ToolCalls {
		if err := a.call(&m.ToolCalls[i]); err != nil {
			return err
		}
	}
	return nil
}

func (a *answer) send(c sdkproto.Chunk) error {
	if !a.yield(c) {
		return errStopped
	}
	return nil
}

func (a *answer) open(kind string) (*block, error) {
	b := &block{Block: sdkproto.Block{Type: kind}, index: len(a.blocks), wire: -1}
	a.blocks = append(a.blocks, b)
	return b, a.send(sdkproto.Chunk{Type: sdkproto.ChunkBlockStart, Index: b.index, BlockType: kind})
}

// grow adds to the answer's one block of text or of reasoning.
func (a *answer) grow(at **block, kind, delta, text string) error {
	if *at == nil {
		var err error
		if *at, err = a.open(kind); err != nil {
			return err
		}
	}
	b := *at
	b.text.WriteString(text)
	return a.send(sdkproto.Chunk{Type: delta, Index: b.index, Text: text})
}

func (a *answer) call(c *toolCall) error {
	b := a.callOf(c)
	first := b == nil
	if first {
		if c.Index == nil && c.ID == "" && c.Function.Name == "" && c.Function.Arguments == "" {
			return nil
		}
		var err error
		if b, err = a.open(sdkproto.BlockToolCall); err != nil {
			return err
		}
		if c.Index != nil {
			b.wire = *c.Index
		}
		a.calls = append(a.calls, b)
	}
	delta := sdkproto.Chunk{Type: sdkproto.ChunkToolCallDelta, Index: b.index, ArgumentsDelta: c.Function.Arguments}
	if b.ID == "" {
		b.ID = c.ID
	}
	if b.Name == "" {
		b.Name, delta.Name = c.Function.Name, c.Function.Name
	}
	delta.ID = b.ID
	b.text.WriteString(c.Function.Arguments)
	if !first && delta.Name == "" && delta.ArgumentsDelta == "" {
		return nil
	}
	return a.send(delta)
}

// callOf finds the call that a fragment goes on with. Endpoints number their
// calls, but some give all of them the same number, or none: there another id
// begins another call.
func (a *answer) callOf(c *toolCall) *block {
	for i := len(a.calls) - 1; i >= 0; i-- {
		b := a.calls[i]
		if c.Index != nil && *c.Index != b.wire {
			continue
		}
		if c.ID == "" || b.ID == "" || c.ID == b.ID {
			return b
		}
		if c.Index != nil {
			return nil
		}
	}
	return nil
}

// Words of finish_reason.
const (
	reasonStop      = "stop"
	reasonToolCalls = "tool_calls"
	reasonLength    = "length"
)

// end closes an answer that its terminator ended: all block-ends, the usage, the
// finish (spec jsonrpc 5.5, 10.4; decision R16).
func (a *answer) end() error {
	kind := sdkproto.FinishStop
	switch a.finish {
	case reasonStop, reasonToolCalls:
		switch {
		case len(a.blocks) == 0:
			return a.fail(&llm.Error{Code: llm.CodeEmptyResponse, Message: "the model answered with nothing"})
		case a.finish == reasonToolCalls && len(a.calls) > 0:
			kind = sdkproto.FinishToolCalls
		}
	case reasonLength:
		kind = sdkproto.FinishMaxTokens
	case "":
		switch {
		case len(a.calls) > 0:
			return a.fail(&llm.Error{Code: llm.CodeStreamClosed, Message: "the stream ended within a tool call, without a finish reason"})
		case len(a.blocks) == 0:
			return a.fail(&llm.Error{Code: llm.CodeEmptyResponse, Message: "the model answered with nothing"})
		}
	default:
		return a.fail(a.unfinished())
	}
	for _, b := range a.blocks {
		if b.Type == sdkproto.BlockToolCall {
			b.Arguments = b.text.String()
		} else {
			b.Text = b.text.String()
		}
		if err := a.send(sdkproto.Chunk{Type: sdkproto.ChunkBlockEnd, Index: b.index, Block: &b.Block}); err != nil {
			return err
		}
	}
	if err := a.account(); err != nil {
		return err
	}
	return a.send(sdkproto.Chunk{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: kind}})
}

// cut is the end of a body without a terminator. A reason to fail that came
// before it is the better explanation.
func (a *answer) cut() error {
	switch a.finish {
	case "", reasonStop, reasonToolCalls, reasonLength:
		return a.fail(&llm.Error{Code: llm.CodeStreamClosed, Message: "the stream ended without its terminator"})
	}
	return a.fail(a.unfinished())
}

// unfinished is the error of a finish reason that means no answer.
func (a *answer) unfinished() *llm.Error {
	return &llm.Error{Code: codeOf(a.finish), Message: fmt.Sprintf("the model stopped before its answer was complete; the finish reason is %q", shorten(a.finish, 100))}
}

// codeOf makes a code of a provider's word.
func codeOf(word string) string {
	code := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, word)
	return code[:min(len(code), 64)]
}

// fail hands on what the attempt has cost before its error.
func (a *answer) fail(err *llm.Error) error {
	if e := a.account(); e != nil {
		return e
	}
	return err
}

func (a *answer) account() error {
	if a.usage == nil {
		return nil
	}
	return a.send(sdkproto.Chunk{Type: sdkproto.ChunkUsage, Usage: a.usage})
}
