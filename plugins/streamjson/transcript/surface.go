package transcript

import (
	"context"
	"slices"

	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// node is one message of the history, with what shows it.
type node struct {
	seq, time int64
	// One of these is set.
	user   *sdkproto.Message
	answer *sdkproto.AssistantMessage
	result *sdkproto.ToolResult
	// shown is the id under which an answer is shown.
	shown string
	// uuids are those of its entries, blocks says which block of the message each
	// shows.
	uuids  []string
	blocks []int
	// trailing are entries behind it that are not part of the history.
	trailing []string
}

// whole stands for all blocks of a message.
const whole = -1

func (n *node) message() *sdkproto.Message {
	switch {
	case n.user != nil:
		return n.user
	case n.answer != nil:
		return &n.answer.Message
	}
	return &n.result.Message
}

// put takes a message into the history as its surface operation says (spec
// jsonrpc 5.1), and gives the entries for it.
func (p *Projector) put(ctx context.Context, e *sdkproto.Event, n node) []Line {
	if !e.Replaces() {
		lines := p.show(ctx, &n)
		p.nodes = append(p.nodes, n)
		return lines
	}
	var op struct {
		Start int64 `json:"start"`
		End   int64 `json:"end"`
	}
	if wirejson.Unmarshal(e.SurfaceOp, &op) != nil {
		return nil
	}
	from := slices.IndexFunc(p.nodes, func(x node) bool { return x.seq == op.Start })
	to := slices.IndexFunc(p.nodes, func(x node) bool { return x.seq == op.End })
	if from < 0 || to < from {
		return nil
	}
	switch {
	case n.message().ID == p.nodes[from].message().ID:
		p.cut(from, n)
		return nil
	case n.user != nil && isSummary(n.user):
		return p.compacted(ctx, n, from, to)
	}
	// The model's history has less than the transcript: a result was shortened, a
	// message was set aside.
	for _, old := range p.nodes[from : to+1] {
		n.uuids = append(n.uuids, old.uuids...)
		n.trailing = append(n.trailing, old.trailing...)
	}
	n.blocks = slices.Repeat([]int{whole}, len(n.uuids))
	p.nodes = slices.Replace(p.nodes, from, to+1, n)
	return nil
}

// cut follows a cut of the history (session.State.Cut): the entries behind it stay
// in the file, and the chain goes on without them.
func (p *Projector) cut(at int, n node) {
	old := p.nodes[at]
	n.shown, n.time = old.shown, old.time
	if n.answer != nil && old.answer != nil {
		restated := *n.answer
		restated.Usage, restated.MessageID = nil, old.answer.MessageID
		n.answer = &restated
	}
	if n.result != nil && old.result != nil {
		n.result = old.result
	}
	stay := len(n.message().Content)
	for i, block := range old.blocks {
		if block < stay {
			n.uuids, n.blocks = append(n.uuids, old.uuids[i]), append(n.blocks, block)
		}
	}
	p.nodes = append(p.nodes[:at:at], n)
	p.last = ""
	for _, x := range slices.Backward(p.nodes) {
		if len(x.uuids) > 0 {
			p.last = x.uuids[len(x.uuids)-1]
			break
		}
	}
}

// compacted shows that a summary stands for a part of the history (spec
// stream-json 10.2): a boundary, where the chain begins anew, and behind it what
// the model still sees, the summary in its place. The messages that stay are the
// same, with the uuids that they have, behind new parents.
func (p *Projector) compacted(ctx context.Context, n node, from, to int) (lines []Line) {
	before, behind := slices.Clone(p.nodes[:from]), slices.Clone(p.nodes[to+1:])
	boundary := p.entry(typeSystem, streamjson.BlockUUID(p.compacting.id, 0), n.time)
	boundary.LogicalParentUUID, boundary.ParentUUID = p.last, nil
	boundary.Subtype, boundary.Content, boundary.Level = streamjson.SystemCompactBoundary, "Conversation compacted", "info"
	boundary.CompactMetadata = &compactMetadata{p.compacting.trigger, p.tokens}
	lines = p.add(boundary)
	prompt := p.prompt
	p.nodes = nil
	leading := true
	again := func(x node) {
		leading = leading && x.user != nil && isMeta(x.user)
		if !leading {
			p.again = x.seq != n.seq
			lines = append(lines, p.show(ctx, &x)...)
			p.again = false
		}
		p.nodes = append(p.nodes, x)
	}
	for _, x := range before {
		again(x)
	}
	leading = false
	again(n)
	for _, x := range behind {
		again(x)
	}
	p.prompt = prompt
	return lines
}
