package llmscripted

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dsh/kernel/llm"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// errStopped says that nobody listens any more.
var errStopped = errors.New("nobody listens")

// speaker gives one answer, chunk by chunk.
type speaker struct {
	ctx   context.Context
	yield func(sdkproto.Chunk, error) bool
	facts *facts

	blocks []*block
	calls  int
	usage  *sdkproto.Usage
	finish string
}

// block is one that has been started.
type block struct {
	sdkproto.Block

	text strings.Builder
}

// action is one item of a reply.
type action interface {
	do(s *speaker) error
}

// answer speaks the reply of the first rule that matches.
func (s *speaker) answer(sc *script, attempt int) error {
	for _, r := range sc.rules {
		match, ok := r.when.matches(s.facts)
		if !ok || r.times > 0 && attempt > r.times {
			continue
		}
		s.facts.match = match
		for _, it := range r.reply {
			if err := it.action.do(s); err != nil {
				var broken *scriptError
				if errors.As(err, &broken) {
					return &llm.Error{Code: CodeScript, Message: fmt.Sprintf("%s:%d: %v", sc.name, it.line, broken.err)}
				}
				return err
			}
		}
		return s.end()
	}
	if err := (say{texts: []text{{plain: sc.noRule(s.facts)}}, repeat: 1}).do(s); err != nil {
		return err
	}
	return s.end()
}

// scriptError is a failure of the script at the item that runs.
type scriptError struct{ err error }

func (e *scriptError) Error() string { return e.err.Error() }

func (s *speaker) render(t text) (string, error) {
	out, err := t.render(s.facts)
	if err != nil {
		return "", &scriptError{err}
	}
	return out, nil
}

func (s *speaker) chunk(c sdkproto.Chunk) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if !s.yield(c, nil) {
		return errStopped
	}
	return nil
}

func (s *speaker) wait(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// block starts a block, or goes on with the last one when that is text or
// reasoning of the same kind (spec jsonrpc 10.4).
func (s *speaker) block(kind string) (*block, int, error) {
	if last := len(s.blocks) - 1; last >= 0 && s.blocks[last].Type == kind && kind != sdkproto.BlockToolCall {
		return s.blocks[last], last, nil
	}
	b, index := &block{Block: sdkproto.Block{Type: kind}}, len(s.blocks)
	s.blocks = append(s.blocks, b)
	return b, index, s.chunk(sdkproto.Chunk{Type: sdkproto.ChunkBlockStart, Index: index, BlockType: kind})
}

// end closes an answer in the order of spec jsonrpc 5.5: all block-ends, the
// usage, the finish.
func (s *speaker) end() error {
	said, reasoned := 0, 0
	for i, b := range s.blocks {
		switch b.Type {
		case sdkproto.BlockToolCall:
			said += characters(b.Name) + characters(b.Arguments)
		default:
			b.Text = b.text.String()
			said += characters(b.Text)
			if b.Type == sdkproto.BlockReasoning {
				reasoned += characters(b.Text)
			}
		}
		if err := s.chunk(sdkproto.Chunk{Type: sdkproto.ChunkBlockEnd, Index: i, Block: &b.Block}); err != nil {
			return err
		}
	}
	if s.usage == nil {
		s.usage = &sdkproto.Usage{InputTokens: tokens(s.facts.sent), OutputTokens: tokens(said), ReasoningTokens: tokens(reasoned)}
	}
	if err := s.chunk(sdkproto.Chunk{Type: sdkproto.ChunkUsage, Usage: s.usage}); err != nil {
		return err
	}
	kind := s.finish
	if kind == "" {
		kind = sdkproto.FinishStop
		if s.calls > 0 {
			kind = sdkproto.FinishToolCalls
		}
	}
	return s.chunk(sdkproto.Chunk{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: kind}})
}

// say speaks or thinks.
type say struct {
	reasoning bool
	texts     []text
	// exact gives each text as one chunk; else a text is cut into words.
	exact  bool
	repeat int
	// every is the pause after each chunk.
	every time.Duration
}

func (a say) do(s *speaker) error {
	var pieces []string
	for _, t := range a.texts {
		out, err := s.render(t)
		if err != nil {
			return err
		}
		if a.exact {
			pieces = append(pieces, out)
		} else {
			pieces = append(pieces, words(out)...)
		}
	}
	kind, delta := sdkproto.BlockText, sdkproto.ChunkTextDelta
	if a.reasoning {
		kind, delta = sdkproto.BlockReasoning, sdkproto.ChunkReasoningDelta
	}
	for range a.repeat {
		for _, piece := range pieces {
			if piece == "" {
				continue // opens no block (spec jsonrpc 10.4)
			}
			b, index, err := s.block(kind)
			if err != nil {
				return err
			}
			b.text.WriteString(piece)
			if err := s.chunk(sdkproto.Chunk{Type: delta, Index: index, Text: piece}); err != nil {
				return err
			}
			if a.every > 0 {
				if err := s.wait(a.every); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// call calls a tool.
type call struct {
	tool, id text
	// arguments is a text, or a tree of values whose strings are texts.
	arguments any
}

func (a call) do(s *speaker) error {
	s.calls++
	name, err := s.render(a.tool)
	if err != nil {
		return err
	}
	id, err := s.render(a.id)
	if err != nil {
		return err
	}
	if id == "" {
		id = fmt.Sprintf("call_%d_%d_%d", s.facts.turn, s.facts.step, s.calls)
	}
	arguments, err := s.arguments(a.arguments)
	if err != nil {
		return err
	}
	b, index, err := s.block(sdkproto.BlockToolCall)
	if err != nil {
		return err
	}
	name = s.facts.offered(name)
	b.ID, b.Name, b.Arguments = id, name, arguments
	if err := s.chunk(sdkproto.Chunk{Type: sdkproto.ChunkToolCallDelta, Index: index, ID: id, Name: name}); err != nil {
		return err
	}
	for _, piece := range words(arguments) {
		if err := s.chunk(sdkproto.Chunk{Type: sdkproto.ChunkToolCallDelta, Index: index, ID: id, ArgumentsDelta: piece}); err != nil {
			return err
		}
	}
	return nil
}

func (s *speaker) arguments(v any) (string, error) {
	if raw, ok := v.(text); ok {
		return s.render(raw)
	}
	tree, err := s.fill(v)
	if err != nil {
		return "", err
	}
	data, err := wirejson.Marshal(tree)
	if err != nil {
		return "", &scriptError{fmt.Errorf("args: %w", err)}
	}
	return string(data), nil
}

// fill gives a copy of a tree with its texts rendered.
func (s *speaker) fill(v any) (any, error) {
	switch v := v.(type) {
	case text:
		return s.render(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			var err error
			if out[i], err = s.fill(v[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			var err error
			if out[key], err = s.fill(v[key]); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

// pause waits, or as long as anybody wants the answer.
type pause time.Duration

func (a pause) do(s *speaker) error { return s.wait(time.Duration(a)) }

// fail ends the attempt with an error.
type fail struct {
	llm.Error

	message text
}

func (a fail) do(s *speaker) error {
	message, err := s.render(a.message)
	if err != nil {
		return err
	}
	e := a.Error
	e.Message = message
	return &e
}

// account replaces the estimated usage.
type account sdkproto.Usage

func (a account) do(s *speaker) error {
	u := sdkproto.Usage(a)
	s.usage = &u
	return nil
}

// finish replaces the reason for the end.
type finish string

func (a finish) do(s *speaker) error {
	s.finish = string(a)
	return nil
}
