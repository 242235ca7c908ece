package session

import (
	"cmp"
	"slices"

	"dsh/sdkproto"

	"github.com/google/uuid"
)

// stream is what the attempt in progress has streamed of an answer that is not
// committed as an assistant/message.
type stream struct {
	seqs   []int64
	blocks []streamBlock
	usage  *sdkproto.Usage
}

type streamBlock struct {
	index int
	kind  string
	text  []byte
}

// Apply takes up one record.
func (s *stream) Apply(r *Record) error {
	switch r.Event.Type {
	case sdkproto.TypeAssistantChunk:
		c, ok := r.Data.(*sdkproto.AssistantChunk)
		if !ok {
			v, err := Decode[sdkproto.AssistantChunk](r)
			if err != nil {
				return err
			}
			c = &v
		}
		s.chunk(&c.Chunk)
		s.seqs = append(s.seqs, r.Event.Seq)
	case sdkproto.TypeAssistantMessage, sdkproto.TypeTurnStart, sdkproto.TypeTurnEnd, sdkproto.TypeStepStart, sdkproto.TypeStepEnd,
		sdkproto.TypeLLMRetry, sdkproto.TypeLLMRetryStarted:
		*s = stream{}
	}
	return nil
}

func (s *stream) chunk(c *sdkproto.Chunk) {
	switch c.Type {
	case sdkproto.ChunkTextDelta:
		b := s.block(c.Index, sdkproto.BlockText)
		b.text = append(b.text, c.Text...)
	case sdkproto.ChunkReasoningDelta:
		b := s.block(c.Index, sdkproto.BlockReasoning)
		b.text = append(b.text, c.Text...)
	case sdkproto.ChunkBlockEnd:
		if c.Block != nil && (c.Block.Type == sdkproto.BlockText || c.Block.Type == sdkproto.BlockReasoning) {
			b := s.block(c.Index, c.Block.Type)
			b.text = append(b.text[:0], c.Block.Text...)
		}
	case sdkproto.ChunkUsage:
		s.usage = c.Usage
	}
}

func (s *stream) block(index int, kind string) *streamBlock {
	for i := len(s.blocks) - 1; i >= 0; i-- {
		if s.blocks[i].index == index && s.blocks[i].kind == kind {
			return &s.blocks[i]
		}
	}
	s.blocks = append(s.blocks, streamBlock{index: index, kind: kind})
	return &s.blocks[len(s.blocks)-1]
}

// message is the answer as far as it came, without calls; nil when nothing was
// said.
func (s *stream) message(turn, step int, h *sdkproto.Header) *sdkproto.AssistantMessage {
	blocks := slices.Clone(s.blocks)
	slices.SortStableFunc(blocks, func(a, b streamBlock) int { return cmp.Compare(a.index, b.index) })
	var content []sdkproto.Block
	for i := range blocks {
		if len(blocks[i].text) > 0 {
			content = append(content, sdkproto.Block{Type: blocks[i].kind, Text: string(blocks[i].text)})
		}
	}
	if content == nil {
		return nil
	}
	source := sdkproto.Source{Kind: sdkproto.SourceModel}
	if h != nil {
		source.Provider, source.Model = h.Config.Provider, h.Config.Model
	}
	return &sdkproto.AssistantMessage{
		Turn: turn, Step: step, Interrupted: true, Usage: s.usage,
		Message: sdkproto.Message{Role: sdkproto.RoleAssistant, Content: content, Source: source, ID: uuid.NewString()},
	}
}
