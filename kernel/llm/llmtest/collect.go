package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// Provider and Model are what Request routes to.
const (
	Provider = "provider"
	Model    = "model"
)

// Request makes a request as the agent loop does: the route resolved by the
// adapter, the history projected.
func Request(tb testing.TB, a llm.Adapter, history ...sdkproto.Message) llm.Request {
	tb.Helper()
	route, defaults, _, err := a.Resolve(llm.Route{Provider: Provider, Model: Model})
	if err != nil {
		tb.Fatal(err)
	}
	return llm.Request{
		SessionID: "日本/1",
		Header: sdkproto.Header{
			Config: sdkproto.RequestConfig{
				Provider: route.Provider, Model: route.Model,
				ReasoningEffort: route.ReasoningEffort, MaxTokens: route.MaxTokens,
			},
			AdapterDefaults: &defaults,
			System:          "You are a <coding> agent & more.",
			Tools: []sdkproto.ToolSchema{
				{Name: "bash", Description: "Runs a command.", Parameters: json.RawMessage(`{"type":"object"}`)},
				{Name: "read", Description: "Reads a file.", Parameters: json.RawMessage(`{"type":"object","properties":{"file_path":{"type":"string"}}}`)},
			},
		},
		Messages: llm.Project(history),
	}
}

// User makes a prompt.
func User(text string) sdkproto.Message {
	return sdkproto.Message{Role: sdkproto.RoleUser, Content: []sdkproto.Block{sdkproto.Text(text)}, Source: sdkproto.Source{Kind: sdkproto.SourceUser}}
}

// Assistant makes an answer.
func Assistant(blocks ...sdkproto.Block) sdkproto.Message {
	return sdkproto.Message{Role: sdkproto.RoleAssistant, Content: blocks, Source: sdkproto.Source{Kind: sdkproto.SourceModel, Provider: Provider, Model: Model}}
}

// Thought and Called make blocks of an answer.
func Thought(text string) sdkproto.Block {
	return sdkproto.Block{Type: sdkproto.BlockReasoning, Text: text}
}

// Called makes a tool call.
func Called(id, name, arguments string) sdkproto.Block {
	return sdkproto.Block{Type: sdkproto.BlockToolCall, ID: id, Name: name, Arguments: arguments}
}

// Result makes the result of a tool call.
func Result(callID string, content ...sdkproto.Block) sdkproto.Message {
	return sdkproto.Message{
		Role:    sdkproto.RoleUser,
		Content: []sdkproto.Block{{Type: sdkproto.BlockToolResult, ToolCallID: callID, Content: content}},
		Source:  sdkproto.Source{Kind: sdkproto.SourceTool, CallID: callID},
	}
}

// Answer is what one attempt gave.
type Answer struct {
	Chunks []sdkproto.Chunk
	// Err ended it; nil after a finish chunk.
	Err error
}

// Collect makes one attempt and checks what holds of every attempt: it ends with
// a finish chunk or an error, nothing comes after either, blocks are opened
// before their pieces, closed after them, in order, with exactly what the pieces
// said, and usage comes once, behind them; before the first block it comes too
// where the provider tells the id of its answer (spec jsonrpc 5.5).
func Collect(ctx context.Context, tb testing.TB, a llm.Adapter, req llm.Request) Answer {
	tb.Helper()
	var ans Answer
	over := false
	for c, err := range a.Stream(ctx, req) {
		if over {
			tb.Errorf("after its end the stream gave %s, %v", show(c), err)
		}
		if err != nil {
			ans.Err, over = err, true
			continue
		}
		ans.Chunks = append(ans.Chunks, c)
		over = c.Type == sdkproto.ChunkFinish
	}
	if !over {
		tb.Error("the stream ended without a finish or an error")
	}
	if err := ans.check(); err != nil {
		tb.Error(err)
	}
	return ans
}

func show(c sdkproto.Chunk) string {
	b, err := c.AppendJSON(nil)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Lines gives the chunks as they stand on the wire.
func (a Answer) Lines() []string {
	lines := make([]string, len(a.Chunks))
	for i, c := range a.Chunks {
		lines[i] = show(c)
	}
	return lines
}

// Blocks gives the blocks of a good answer.
func (a Answer) Blocks() []sdkproto.Block {
	var blocks []sdkproto.Block
	for _, c := range a.Chunks {
		if c.Type == sdkproto.ChunkBlockEnd {
			blocks = append(blocks, *c.Block)
		}
	}
	return blocks
}

// Finish gives the kind of the finish chunk, "" without one.
func (a Answer) Finish() string {
	if n := len(a.Chunks); n > 0 && a.Chunks[n-1].Type == sdkproto.ChunkFinish {
		return a.Chunks[n-1].Reason.Kind
	}
	return ""
}

// Usage gives the last account of tokens, nil without one.
func (a Answer) Usage() *sdkproto.Usage {
	for _, c := range slices.Backward(a.Chunks) {
		if c.Type == sdkproto.ChunkUsage {
			return c.Usage
		}
	}
	return nil
}

// Failure gives the error as an *llm.Error; nil when it is none.
func (a Answer) Failure() *llm.Error {
	var e *llm.Error
	if errors.As(a.Err, &e) {
		return e
	}
	return nil
}

func (a Answer) check() error {
	var blocks []sdkproto.Block
	ended, accounts, early := 0, 0, false
	for i, c := range a.Chunks {
		wrong := func(why string) error { return fmt.Errorf("chunk %d, %s: %s", i, show(c), why) }
		if c.IsDelta() {
			if c.Index < 0 || c.Index >= len(blocks) {
				return wrong("its block is not open")
			}
			if c.Index < ended || accounts > 0 {
				return wrong("a piece after the end of its block")
			}
			b := &blocks[c.Index]
			switch {
			case c.Type == sdkproto.ChunkTextDelta && b.Type == sdkproto.BlockText, c.Type == sdkproto.ChunkReasoningDelta && b.Type == sdkproto.BlockReasoning:
				if c.Text == "" {
					return wrong("an empty piece")
				}
				b.Text += c.Text
			case c.Type == sdkproto.ChunkToolCallDelta && b.Type == sdkproto.BlockToolCall:
				b.ID, b.Arguments = c.ID, b.Arguments+c.ArgumentsDelta
				if c.Name != "" {
					b.Name = c.Name
				}
			default:
				return wrong("a piece of another kind than its block")
			}
			continue
		}
		switch c.Type {
		case sdkproto.ChunkBlockStart:
			if c.Index != len(blocks) || accounts > 0 {
				return wrong("blocks are opened in order")
			}
			blocks = append(blocks, sdkproto.Block{Type: c.BlockType})
		case sdkproto.ChunkBlockEnd:
			if c.Index != ended || ended == len(blocks) {
				return wrong("blocks are closed in order, once")
			}
			if b := &blocks[ended]; b.Type == sdkproto.BlockReasoning || b.Type == sdkproto.BlockRedacted {
				// These come whole.
				b.Signature, b.Data = c.Block.Signature, c.Block.Data
			}
			want, _ := blocks[ended].MarshalJSON()
			if got, _ := c.Block.MarshalJSON(); string(got) != string(want) {
				return wrong("its pieces said " + string(want))
			}
			ended++
		case sdkproto.ChunkUsage:
			if c.MessageID != "" && len(blocks) == 0 && accounts == 0 && !early {
				early = true
				continue
			}
			accounts++
			if accounts > 1 || a.Err == nil && ended != len(blocks) {
				return wrong("usage comes once, behind the blocks")
			}
		case sdkproto.ChunkFinish:
			if ended != len(blocks) || i != len(a.Chunks)-1 {
				return wrong("the finish comes last, with all blocks closed")
			}
		default:
			return wrong("an unknown type")
		}
	}
	return nil
}
