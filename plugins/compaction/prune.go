package compaction

import (
	"fmt"

	"github.com/google/uuid"

	"dsh/kernel/session"
	"dsh/sdkproto"
)

// prune cuts the large tool results that are older than the tail, and of the
// tail as many, the largest first, as stand in the way of any other measure.
func (r *room) prune(h *history) (changed bool, err error) {
	tail := h.tail(r.keep)
	left := h.tokens // when everything that can be taken out is
	for _, s := range h.spans(r.keep) {
		left -= s.tokens
	}
	var list []cut
	for i := range tail {
		if size := r.config.PruneOver; h.isResult(i) && h.sizes[i] > size {
			list = append(list, cut{i, size / 2})
		}
	}
	if left > r.goal {
		list = append(list, h.cuts(tail, r.config.PruneOver, left-r.goal)...)
	}
	var drafts []session.Draft
	for _, c := range list {
		n, size := &h.nodes[c.node], h.sizes[c.node]
		short, ok := shorten(&n.Message, float64(c.size)/float64(size))
		if !ok {
			continue
		}
		drafts = append(drafts,
			session.Draft{Type: sdkproto.TypeCompactionPrune, Data: &sdkproto.CompactionPrune{
				ShadowedRange: sdkproto.ShadowedRange{Start: n.Seq, End: n.Seq}, ShadowedSeqs: []int64{n.Seq}, ShadowedTokenCount: size,
			}},
			session.Draft{
				Type: sdkproto.TypeToolResult, Surface: session.Replace(n.Seq, n.Seq), Sources: []int64{n.Seq},
				Data: &sdkproto.ToolResult{Turn: r.step.Turn, Step: r.step.Step, Message: short},
			})
	}
	if len(drafts) == 0 {
		return false, nil
	}
	if err := r.append(drafts...); err != nil {
		return false, err
	}
	return true, nil
}

// shorten gives a tool result with about a share of its text and no images; it
// reports false when nothing is gained.
func shorten(m *sdkproto.Message, share float64) (short sdkproto.Message, ok bool) {
	short = sdkproto.Message{Source: m.Source, Role: m.Role, ID: uuid.NewString()}
	for _, b := range m.Content {
		if b.Type != sdkproto.BlockToolResult {
			short.Content = append(short.Content, b)
			continue
		}
		text := sdkproto.TextOf(b.Content)
		cut := clip(text, int(float64(len(text))*share), "of this result")
		images := 0
		for i := range b.Content {
			if b.Content[i].Type == sdkproto.BlockImage {
				images++
			}
		}
		if images > 0 {
			cut += fmt.Sprintf("\n[%d images of this result were left out to make room]", images)
		}
		ok = ok || images > 0 || len(cut) < len(text)
		short.Content = append(short.Content, sdkproto.Block{
			Type: b.Type, ToolCallID: b.ToolCallID, IsError: b.IsError, Content: []sdkproto.Block{sdkproto.Text(cut)},
		})
	}
	return short, ok
}
