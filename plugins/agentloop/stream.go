package agentloop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// pipeBound is how many chunks may wait between an adapter and the log. They
// are taken all at once, so it also bounds a batch.
const pipeBound = 256

// pipe carries chunks from an adapter's goroutine to the turn. It takes no
// memory while the model is silent.
type pipe struct {
	turn, step int
	room, come chan struct{} // capacity 1 each

	mu     sync.Mutex
	chunks []sdkproto.AssistantChunk
	ended  bool
	err    error // why the stream ended; nil after its finish
}

func newPipe(turn, step int) *pipe {
	return &pipe{turn: turn, step: step, room: make(chan struct{}, 1), come: make(chan struct{}, 1)}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// fill hands on what the adapter yields, until its finish, its error or ctx's
// end.
func (p *pipe) fill(ctx context.Context, stream func() iter.Seq2[sdkproto.Chunk, error]) {
	err := guard("the model adapter", func() error {
		for c, err := range stream() {
			if err != nil {
				return err
			}
			if err := checkChunk(&c); err != nil {
				return err
			}
			if err := p.put(ctx, c); err != nil {
				return err
			}
			if c.Type == sdkproto.ChunkFinish {
				return nil
			}
		}
		return &llm.Error{Code: llm.CodeStreamClosed, Message: "the model adapter ended its stream without a finish"}
	})
	p.mu.Lock()
	p.ended, p.err = true, err
	p.mu.Unlock()
	poke(p.come)
}

func (p *pipe) put(ctx context.Context, c sdkproto.Chunk) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.mu.Lock()
		if len(p.chunks) < pipeBound {
			p.chunks = append(p.chunks, sdkproto.AssistantChunk{Turn: p.turn, Step: p.step, Chunk: c})
			p.mu.Unlock()
			poke(p.come)
			return nil
		}
		p.mu.Unlock()
		select {
		case <-p.room:
		case <-ctx.Done():
		}
	}
}

// take waits for chunks and gives all there are. Without any it gives the end
// of the stream.
func (p *pipe) take(ctx context.Context) (chunks []sdkproto.AssistantChunk, ended bool, err error) {
	for {
		p.mu.Lock()
		chunks, p.chunks = p.chunks, nil
		ended, err = p.ended, p.err
		p.mu.Unlock()
		if len(chunks) > 0 {
			poke(p.room)
			return chunks, false, nil
		}
		if ended {
			return nil, true, err
		}
		select {
		case <-p.come:
		case <-ctx.Done():
			return nil, true, context.Cause(ctx)
		}
	}
}

// checkChunk refuses what could not be written to the log or read back.
func checkChunk(c *sdkproto.Chunk) error {
	missing := ""
	switch c.Type {
	case sdkproto.ChunkBlockStart, sdkproto.ChunkTextDelta, sdkproto.ChunkReasoningDelta, sdkproto.ChunkToolCallDelta:
	case sdkproto.ChunkBlockEnd:
		if c.Block == nil {
			missing = "its block"
		}
	case sdkproto.ChunkUsage:
		if c.Usage == nil {
			missing = "its usage"
		}
	case sdkproto.ChunkFinish:
		switch {
		case c.Reason == nil:
			missing = "its reason"
		case len(c.ReplayState) > 0:
			state, err := wirejson.Compact(c.ReplayState)
			if err != nil {
				return &llm.Error{Code: llm.CodeMalformedResponse, Message: fmt.Sprintf("the model adapter gave a replay state that is not JSON: %v", err)}
			}
			c.ReplayState = state
		}
	default:
		return &llm.Error{Code: llm.CodeMalformedResponse, Message: fmt.Sprintf("the model adapter sent a chunk of unknown type %q", c.Type)}
	}
	if missing != "" {
		return &llm.Error{Code: llm.CodeMalformedResponse, Message: fmt.Sprintf("the model adapter sent a %s chunk without %s", c.Type, missing)}
	}
	return nil
}

// answer is what one attempt has given so far.
type answer struct {
	seqs   []int64
	blocks []*block
	usage  *sdkproto.Usage
	// finish is the kind of the finish chunk, "" before it.
	finish  string
	failure *sdkproto.Failure
	replay  []byte
	// messageID, native and sequence are what the provider said of the answer.
	messageID, native, sequence string
	// content is that of the committed message.
	content []sdkproto.Block
}

// block is one block of an answer: whole, or the pieces it has so far.
type block struct {
	index    int
	kind     string
	id, name string
	text     strings.Builder // text, reasoning or arguments
	whole    *sdkproto.Block
}

func (b *block) value() sdkproto.Block {
	switch {
	case b.whole != nil:
		return *b.whole
	case b.kind == sdkproto.BlockToolCall:
		return sdkproto.Block{Type: b.kind, ID: b.id, Name: b.name, Arguments: b.text.String()}
	}
	return sdkproto.Block{Type: b.kind, Text: b.text.String()}
}

func (a *answer) block(index int, kind string) *block {
	// The block that grows is nearly always the last one.
	for i := len(a.blocks) - 1; i >= 0; i-- {
		if a.blocks[i].index == index {
			return a.blocks[i]
		}
	}
	b := &block{index: index, kind: kind}
	a.blocks = append(a.blocks, b)
	return b
}

func (a *answer) add(c *sdkproto.Chunk) {
	switch c.Type {
	case sdkproto.ChunkBlockStart:
		a.block(c.Index, c.BlockType)
	case sdkproto.ChunkTextDelta:
		a.block(c.Index, sdkproto.BlockText).text.WriteString(c.Text)
	case sdkproto.ChunkReasoningDelta:
		a.block(c.Index, sdkproto.BlockReasoning).text.WriteString(c.Text)
	case sdkproto.ChunkToolCallDelta:
		b := a.block(c.Index, sdkproto.BlockToolCall)
		b.id, b.name = cmp.Or(b.id, c.ID), cmp.Or(b.name, c.Name)
		b.text.WriteString(c.ArgumentsDelta)
	case sdkproto.ChunkBlockEnd:
		a.block(c.Index, c.Block.Type).whole = c.Block
	case sdkproto.ChunkUsage:
		a.usage, a.messageID = c.Usage, cmp.Or(c.MessageID, a.messageID)
	case sdkproto.ChunkFinish:
		a.finish, a.failure, a.replay = c.Reason.Kind, c.Reason.Failure, c.ReplayState
		a.native, a.sequence = c.Reason.Native, c.Reason.Sequence
	}
}

// values gives the blocks by index.
func (a *answer) values() []sdkproto.Block {
	slices.SortStableFunc(a.blocks, func(x, y *block) int { return cmp.Compare(x.index, y.index) })
	values := make([]sdkproto.Block, len(a.blocks))
	for i, b := range a.blocks {
		values[i] = b.value()
		if values[i].Type == sdkproto.BlockToolCall && values[i].ID == "" {
			// A call without an id could not be given its result.
			values[i] = sdkproto.Block{Type: sdkproto.BlockToolCall, ID: "call_" + uuid.NewString(), Name: values[i].Name, Arguments: values[i].Arguments}
		}
	}
	return values
}

// calls gives the tool calls of the committed message.
func (a *answer) calls() []sdkproto.Block {
	var calls []sdkproto.Block
	for _, b := range a.content {
		if b.Type == sdkproto.BlockToolCall {
			calls = append(calls, b)
		}
	}
	return calls
}

// request gets an answer from the model, with retries, and commits it. When
// the turn is cancelled meanwhile, what had streamed is committed as
// interrupted, without calls.
func (t *turn) request(p prepared) (*answer, error) {
	var again *retrier
	cramped := false
	for made := 0; ; {
		if err := t.barrier(); err != nil {
			return nil, err
		}
		ans, err := t.attempt(p)
		if err == nil {
			return ans, t.commit(ans)
		}
		if t.ctx.Err() != nil {
			return nil, errors.Join(err, t.interrupt(ans))
		}
		if broken := t.spent(ans); broken != nil {
			return nil, errors.Join(err, broken)
		}
		if tooLong(err) && made < maxRoomMade {
			made++
			changed, broken := t.makeRoom(p, ans, err)
			switch {
			case broken != nil:
				return nil, broken
			case changed:
				continue
			}
			cramped = true
		}
		if again == nil {
			again = newRetrier(t.a.r.config.Retries)
		}
		if err := t.wait(again, ans, err); err != nil {
			// Where no room can be made, what the request brought is what is too long.
			t.refused = refusesContent(err) || cramped && t.a.r.hooks.Keeps(t.generation)
			return nil, err
		}
	}
}

// barrier holds a request back until everything it says is on the disk.
func (t *turn) barrier() error {
	if err := t.a.session.Sync(t.ctx); err != nil {
		return err
	}
	if !t.a.r.config.VerifyRequests {
		return t.ctx.Err()
	}
	var err error
	t.a.session.View(func() { err = session.CheckHistory(t.ctx, t.a.r.store, t.a.spec.ID, t.a.state) })
	if err != nil {
		return fmt.Errorf("the request is not what the log says: %w", err)
	}
	return t.ctx.Err()
}

// attempt makes one model request and logs what it yields. The answer is what
// came before the error, if there is one.
func (t *turn) attempt(p prepared) (*answer, error) {
	req := llm.Request{SessionID: t.a.spec.ID}
	if images := t.a.r.images; images != nil {
		req.Image = func(ctx context.Context, a *sdkproto.Attachment) ([]byte, error) {
			return images.Read(ctx, a.AttachmentID)
		}
	}
	t.a.session.View(func() {
		req.Header = *t.a.state.Header.Header
		req.Messages = t.a.state.Surface.Messages()
	})
	req.Messages = llm.Project(req.Messages)
	ans := &answer{}
	ctx, cancel := context.WithCancel(t.ctx)
	pipe := newPipe(t.number, t.step)
	// The owner waits for an adapter that does not end with its context; the
	// turn does not.
	t.a.owner.Go("model request", func(context.Context) {
		defer cancel()
		pipe.fill(ctx, func() iter.Seq2[sdkproto.Chunk, error] { return p.adapter.Stream(ctx, req) })
	})
	for {
		chunks, ended, err := pipe.take(t.ctx)
		if ended {
			if err == nil {
				err = ans.fault()
			}
			return ans, err
		}
		if err := t.log(ans, chunks); err != nil {
			cancel()
			return ans, err
		}
	}
}

// log appends chunks once every subscriber has room for them.
func (t *turn) log(ans *answer, chunks []sdkproto.AssistantChunk) error {
	if err := t.a.session.Room(t.ctx); err != nil {
		return err
	}
	drafts := make([]session.Draft, len(chunks))
	for i := range chunks {
		drafts[i] = session.Draft{Type: sdkproto.TypeAssistantChunk, Data: &chunks[i]}
	}
	first, err := t.a.session.Append(drafts...)
	if err != nil {
		return err
	}
	for i := range chunks {
		ans.seqs = append(ans.seqs, first+int64(i))
		ans.add(&chunks[i].Chunk)
	}
	return nil
}

// fault says what is wrong with an answer whose stream ended well.
func (a *answer) fault() error {
	switch a.finish {
	case sdkproto.FinishStop, sdkproto.FinishToolCalls:
		if len(a.blocks) == 0 {
			return &llm.Error{Code: llm.CodeEmptyResponse, Message: "the model answered with nothing"}
		}
		return nil
	case sdkproto.FinishMaxTokens:
		return nil
	case sdkproto.FinishAborted:
		return &llm.Error{Code: llm.CodeAborted, Message: "the model provider aborted the answer"}
	case sdkproto.FinishError:
		if f := a.failure; f != nil {
			return &llm.Error{Code: f.Code, Message: f.Message, Status: f.Status, RetryAfter: milliseconds(f.ProviderRetryAfterMs), RequestID: f.RequestID}
		}
		return &llm.Error{Code: llm.CodeMalformedResponse, Message: "the model adapter reported an error and did not say which"}
	}
	return &llm.Error{Code: llm.CodeMalformedResponse, Message: fmt.Sprintf("the model finished for an unknown reason %q", a.finish)}
}

// commit appends a good answer. Calls of one that was cut off by the output
// limit are left out: they may be incomplete (spec jsonrpc 5.4).
func (t *turn) commit(ans *answer) error {
	ans.content = ans.values()
	if ans.finish == sdkproto.FinishMaxTokens {
		ans.content = slices.DeleteFunc(ans.content, func(b sdkproto.Block) bool { return b.Type == sdkproto.BlockToolCall })
	}
	return t.appendAnswer(ans, false)
}

// interrupt appends the text and the reasoning of an answer that was cut off.
func (t *turn) interrupt(ans *answer) error {
	if ans == nil {
		return nil
	}
	ans.content = slices.DeleteFunc(ans.values(), func(b sdkproto.Block) bool {
		return b.Type != sdkproto.BlockText && b.Type != sdkproto.BlockReasoning || b.Text == ""
	})
	if len(ans.content) == 0 {
		return t.spent(ans)
	}
	return t.appendAnswer(ans, true)
}

// spent records what an answer has used that is no part of the history.
func (t *turn) spent(ans *answer) error {
	if ans == nil || ans.usage == nil {
		return nil
	}
	var config sdkproto.RequestConfig
	t.a.session.View(func() { config = t.a.state.Header.Header.Config })
	_, err := t.a.session.Append(session.Draft{Type: sdkproto.TypeSideRequest, Ignorable: true, Data: &sdkproto.SideRequest{
		Purpose: sdkproto.AsideAttempt, Provider: config.Provider, Model: config.Model, Usage: ans.usage,
	}})
	return err
}

func (t *turn) appendAnswer(ans *answer, interrupted bool) error {
	var config sdkproto.RequestConfig
	t.a.session.View(func() { config = t.a.state.Header.Header.Config })
	_, err := t.a.session.Append(session.Draft{
		Type: sdkproto.TypeAssistantMessage,
		Data: &sdkproto.AssistantMessage{
			Turn: t.number, Step: t.step, Usage: ans.usage, Interrupted: interrupted,
			MessageID: ans.messageID, Native: ans.native, Sequence: ans.sequence,
			Message: sdkproto.Message{
				Content: ans.content,
				Source:  sdkproto.Source{Kind: sdkproto.SourceModel, Provider: config.Provider, Model: config.Model, ReplayState: ans.replay},
				Role:    sdkproto.RoleAssistant, ID: uuid.NewString(),
			},
		},
		Sources: ans.seqs,
	})
	return err
}
