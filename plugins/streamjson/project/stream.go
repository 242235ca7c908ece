package project

import (
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// bracket is the attempt at an answer whose pieces come: between message_start
// and message_stop, which are always both there (S025).
//
// The Messages API has one block after the other, and a chunk may name any block
// at any time. So a block is shown as it comes while it is the current one, and
// what comes for a later one waits. Text and thinking are over when the next
// block begins; a call only when its end was told, because the pieces of several
// calls may alternate, and the end of all blocks may come last (spec jsonrpc 5.5).
type bracket struct {
	p *Projector
	// events is nil when nobody wants the pieces. The answer's id and its end are
	// known here all the same.
	events *streamjson.Stream
	// open says that there was a chunk of the attempt, shown that there was a
	// message_start and no message_stop.
	open, shown bool
	id          string
	usage       sdkproto.Usage
	// reason is why a whole answer ended.
	reason string
	blocks []*piece
	// current is the place of the block that is shown in blocks, index its place on
	// the wire, where blocks without content have none.
	current, index int
}

// piece is one block of an answer that comes.
type piece struct {
	index int // of the chunks
	kind  string
	id    string
	name  string
	// text waits to be shown; begun says that the block's start was.
	text  []byte
	begun bool
	// whole is the block once its end was told.
	whole *sdkproto.Block
}

func (b *bracket) chunk(seq int64, c *sdkproto.Chunk) {
	if !b.open {
		*b = bracket{p: b.p, events: b.events, open: true}
		b.id = streamjson.MessageID(c.MessageID, b.p.options.SessionID, seq)
	}
	if c.Type == sdkproto.ChunkFinish {
		b.finish(c.Reason)
		return
	}
	if c.Type == sdkproto.ChunkUsage {
		if c.Usage != nil {
			b.usage = *c.Usage
		}
		if c.MessageID != "" && !b.shown {
			b.id = streamjson.MessageID(c.MessageID, b.p.options.SessionID, seq)
		}
	}
	if b.events == nil {
		return
	}
	b.start()
	switch c.Type {
	case sdkproto.ChunkBlockStart:
		b.block(c.Index, c.BlockType)
	case sdkproto.ChunkTextDelta:
		b.delta(b.block(c.Index, sdkproto.BlockText), c.Text)
	case sdkproto.ChunkReasoningDelta:
		b.delta(b.block(c.Index, sdkproto.BlockReasoning), c.Text)
	case sdkproto.ChunkToolCallDelta:
		one := b.block(c.Index, sdkproto.BlockToolCall)
		if one.id == "" {
			one.id = c.ID
		}
		if one.name == "" {
			one.name = c.Name
		}
		b.delta(one, c.ArgumentsDelta)
	case sdkproto.ChunkBlockEnd:
		if c.Block != nil {
			b.block(c.Index, c.Block.Type).whole = c.Block
			b.pump(false)
		}
	}
}

func (b *bracket) block(index int, kind string) *piece {
	for i := len(b.blocks) - 1; i >= 0; i-- {
		if b.blocks[i].index == index {
			return b.blocks[i]
		}
	}
	one := &piece{index: index, kind: kind}
	b.blocks = append(b.blocks, one)
	return one
}

func (b *bracket) delta(one *piece, text string) {
	if one.begun && len(one.text) == 0 && b.current < len(b.blocks) && b.blocks[b.current] == one {
		if text != "" {
			b.write(one, text)
		}
		return
	}
	one.text = append(one.text, text...)
	b.pump(false)
}

// pump shows what can be shown by now; over says that no more comes.
func (b *bracket) pump(over bool) {
	for b.current < len(b.blocks) {
		one := b.blocks[b.current]
		b.show(one)
		next := b.current+1 < len(b.blocks) && one.kind != sdkproto.BlockToolCall
		if one.whole == nil && !next && !over {
			return
		}
		if one.begun {
			if one.whole != nil && one.whole.Signature != "" {
				b.add(b.events.Delta(nil, b.p.uuid(), b.index, streamjson.KindSignature, one.whole.Signature))
			}
			b.stop()
		}
		b.current++
	}
}

// show begins a block that has something to show, and shows it.
func (b *bracket) show(one *piece) {
	if !one.begun {
		if w := one.whole; w != nil {
			one.id, one.name = w.ID, w.Name
			if len(one.text) == 0 {
				one.text = append(append(one.text, w.Text...), w.Arguments...)
			}
		}
		var begin streamjson.Block
		switch one.kind {
		case sdkproto.BlockText:
			begin.Type = streamjson.BlockText
		case sdkproto.BlockReasoning:
			begin.Type = streamjson.BlockThinking
		case sdkproto.BlockToolCall:
			begin = streamjson.Block{Type: streamjson.BlockToolUse, ID: one.id, Name: one.name, Input: []byte(`{}`)}
		case sdkproto.BlockRedacted:
			if one.whole == nil {
				return
			}
			begin = streamjson.Block{Type: streamjson.BlockRedacted, Data: one.whole.Data}
			one.text = nil
		default:
			return
		}
		signed := one.whole != nil && one.whole.Signature != ""
		empty := len(one.text) == 0 && !signed
		if empty && (begin.Type == streamjson.BlockText || begin.Type == streamjson.BlockThinking) ||
			begin.Type == streamjson.BlockToolUse && one.id == "" && one.name == "" && empty {
			return
		}
		b.add(b.events.BlockStart(nil, b.p.uuid(), b.index, &begin))
		one.begun = true
	}
	if len(one.text) > 0 {
		b.write(one, string(one.text))
		one.text = nil
	}
}

func (b *bracket) write(one *piece, text string) {
	kind := streamjson.KindText
	switch one.kind {
	case sdkproto.BlockReasoning:
		kind = streamjson.KindThinking
	case sdkproto.BlockToolCall:
		kind = streamjson.KindInput
	}
	line := make([]byte, 0, b.events.Size()+len(text)+len(text)/16)
	b.add(b.events.Delta(line, b.p.uuid(), b.index, kind, text))
}

func (b *bracket) add(line []byte) { b.p.out = append(b.p.out, line) }

func (b *bracket) stop() {
	b.add(b.events.BlockStop(nil, b.p.uuid(), b.index))
	b.index++
}

// start shows the beginning of the answer, once.
func (b *bracket) start() {
	if b.shown || b.events == nil {
		return
	}
	line, err := b.events.MessageStart(nil, b.p.uuid(), &streamjson.Message{
		ID: b.id, Type: "message", Role: "assistant", Model: b.p.model, Content: []streamjson.Block{}, Usage: usage(&b.usage),
	})
	if err == nil {
		b.add(line)
		b.shown = true
	}
}

// finish ends the attempt: a whole answer with the reason for its end, anything
// else by cutting it off.
func (b *bracket) finish(r *sdkproto.FinishReason) {
	reason := ""
	if r != nil {
		reason = stopReason(r)
	}
	if reason == "" {
		b.cut()
		return
	}
	b.start()
	if b.shown {
		b.pump(true)
		u := usage(&b.usage)
		if line, err := b.events.MessageDelta(nil, b.p.uuid(), reason, r.Sequence, &u); err == nil {
			b.add(line)
		}
		b.end()
	}
	b.reason = reason
}

// cut ends an attempt that gives no more: the block that is open is closed.
func (b *bracket) cut() {
	if b.shown {
		if b.current < len(b.blocks) && b.blocks[b.current].begun {
			b.stop()
		}
		b.end()
	}
	b.open, b.reason = false, ""
}

func (b *bracket) end() {
	b.add(b.events.MessageStop(nil, b.p.uuid()))
	b.shown, b.blocks, b.current, b.index = false, nil, 0, 0
}

// commit makes sure that an answer that is about to be shown has had its events,
// also where the model gave it in one piece, and gives its id and why it ended;
// "" where that is not known.
func (b *bracket) commit(m *sdkproto.AssistantMessage, id string) (messageID, reason string) {
	switch {
	case b.open:
		id, reason = b.id, b.reason
		b.cut() // nothing is open any more after a finish
	case b.events != nil:
		*b = bracket{p: b.p, events: b.events, open: true, id: id}
		if m.Usage != nil {
			b.usage = *m.Usage
		}
		b.start()
		for i := range m.Message.Content {
			one := &m.Message.Content[i]
			b.blocks = append(b.blocks, &piece{index: i, kind: one.Type, whole: one})
		}
		finish := sdkproto.FinishReason{Kind: finishOf(m), Native: m.Native, Sequence: m.Sequence}
		if m.Interrupted {
			b.pump(true)
			b.cut()
		} else {
			b.finish(&finish)
		}
	}
	b.open, b.reason = false, ""
	if reason == "" && !m.Interrupted {
		reason = stopReason(&sdkproto.FinishReason{Kind: finishOf(m), Native: m.Native})
	}
	return id, reason
}

// finishOf guesses why an answer ended of which no piece was seen.
func finishOf(m *sdkproto.AssistantMessage) string {
	for i := range m.Message.Content {
		if m.Message.Content[i].Type == sdkproto.BlockToolCall {
			return sdkproto.FinishToolCalls
		}
	}
	return sdkproto.FinishStop
}

// stopReason is the word of the Messages API for why an answer ended; "" for one
// that did not end well.
func stopReason(r *sdkproto.FinishReason) string {
	word := ""
	switch r.Kind {
	case sdkproto.FinishStop:
		word = streamjson.StopEndTurn
	case sdkproto.FinishToolCalls:
		word = streamjson.StopToolUse
	case sdkproto.FinishMaxTokens:
		word = streamjson.StopMaxTokens
	default:
		return ""
	}
	if r.Native != "" {
		return r.Native
	}
	return word
}
