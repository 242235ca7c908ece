package compaction

import (
	"cmp"
	"slices"

	"dsh/kernel/agent"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// history is the model's history at one moment.
type history struct {
	nodes []session.Node
	// sizes are those of nodes in tokens, tokens what a request would hold.
	sizes  []int64
	tokens int64
	// head is how many nodes at the front are context that stays.
	head int
	// prompt is the place of the last prompt, -1 without one.
	prompt int
	// unseen is where that part of the running turn begins which the model has not
	// answered; a result belongs to its call.
	unseen int
}

func look(s *agent.Step) *history {
	h := &history{prompt: -1}
	s.Agent.Log().View(func() {
		u := &s.State.Usage
		h.tokens, _ = u.Context()
		h.nodes = s.State.Surface.Nodes()
		h.sizes = make([]int64, len(h.nodes))
		for i := range h.nodes {
			h.sizes[i] = u.Estimate(h.nodes[i].Message)
		}
	})
	for h.head < len(h.nodes) && isContext(&h.nodes[h.head].Message) {
		h.head++
	}
	if h.sum(0, h.head) > h.tokens/2 {
		h.head = 0
	}
	posted := -1 // what others than people and plugins have sent
	for i := range h.nodes {
		switch m := &h.nodes[i].Message; {
		case m.Role == sdkproto.RoleAssistant:
			h.unseen = i + 1
			if hasCalls(m) {
				h.unseen = i
			}
		case m.Source.Kind == sdkproto.SourceUser:
			h.prompt = i
		case m.Source.Kind != sdkproto.SourcePlugin && m.Source.Kind != sdkproto.SourceTool && !isContext(m):
			posted = i
		}
	}
	if h.prompt < 0 {
		h.prompt = posted
	}
	if s.Step == 1 && h.prompt >= 0 {
		// What stands before the prompt belongs to turns that are over.
		h.unseen = h.opening()
	}
	return h
}

// opening is where the last prompt begins, with the context in front of it.
func (h *history) opening() int {
	at := h.prompt
	for at > h.head && isContext(&h.nodes[at-1].Message) {
		at--
	}
	return at
}

// isContext reports whether a message tells facts that hold on, and not what
// happened.
func isContext(m *sdkproto.Message) bool {
	switch m.Source.Form {
	case "instructions", "catalog", "snapshot":
		return true
	}
	return m.Source.Kind == "agent-instructions" || m.Source.Kind == "skill-catalog"
}

func hasCalls(m *sdkproto.Message) bool {
	for i := range m.Content {
		if m.Content[i].Type == sdkproto.BlockToolCall {
			return true
		}
	}
	return false
}

// isOurs reports whether a message stands in for others already.
func isOurs(m *sdkproto.Message) bool {
	return m.Source.Kind == sdkproto.SourcePlugin && m.Source.Plugin == name
}

func (h *history) sum(from, to int) (tokens int64) {
	for _, size := range h.sizes[from:to] {
		tokens += size
	}
	return tokens
}

// tail is where the part begins that stays as it is: what the model has not
// answered, and before it as many whole units, a message or an answer with the
// results of its calls, as keep has room for.
func (h *history) tail(keep int64) int {
	at := h.unseen
	for sum := h.sum(at, len(h.nodes)); at > h.head; {
		unit := at - 1
		for unit > 0 && h.isResult(unit) {
			unit--
		}
		if sum += h.sum(unit, at); sum > keep {
			break
		}
		at = unit
	}
	return max(at, h.head)
}

// span is a part of the history that one message can stand in for.
type span struct {
	from, to int
	tokens   int64
	// work says that the span is what was done for the last prompt, which stands
	// before it and stays.
	work bool
}

// spans gives what may be taken out: what is older than the last prompt, and
// what has been done for it, both up to the tail.
func (h *history) spans(keep int64) []span {
	tail := h.tail(keep)
	if h.prompt < 0 || tail <= h.prompt {
		return []span{{h.head, tail, h.sum(h.head, tail), false}}
	}
	before, behind := h.opening(), h.prompt+1
	for behind < tail && isAdded(&h.nodes[behind].Message) {
		behind++
	}
	return []span{
		{h.head, before, h.sum(h.head, before), false},
		{behind, tail, h.sum(behind, tail), true},
	}
}

// isAdded reports whether a message is what plugins added to a prompt.
func isAdded(m *sdkproto.Message) bool {
	return m.Role == sdkproto.RoleUser && m.Source.Kind == sdkproto.SourcePlugin && !isOurs(m)
}

// largest gives the span that is worth most, if one is worth anything.
func (h *history) largest(keep, least int64) (best span, ok bool) {
	for _, s := range h.spans(keep) {
		again := s.to-s.from == 1 && isOurs(&h.nodes[s.from].Message)
		if s.tokens >= least && s.tokens > best.tokens && !again {
			best, ok = s, true
		}
	}
	return best, ok
}

// least is what a request would hold at least, when all measures are taken.
func (h *history) least(pruneOver int64) int64 {
	left := h.tokens
	for _, s := range h.spans(0) {
		left -= s.tokens
	}
	for _, c := range h.cuts(h.unseen, pruneOver, -1) {
		left -= h.sizes[c.node] - c.size
	}
	return left
}

// cut is a tool result that is to have a size.
type cut struct {
	node int
	size int64
}

// cuts says which tool results from a node on are to be cut so that over tokens
// are saved, or as many as can be when it is negative: the largest first, and
// those over pruneOver before smaller ones.
func (h *history) cuts(from int, pruneOver, over int64) (list []cut) {
	for i := from; i < len(h.nodes); i++ {
		if h.isResult(i) {
			list = append(list, cut{i, h.sizes[i]})
		}
	}
	slices.SortStableFunc(list, func(a, b cut) int { return cmp.Compare(b.size, a.size) })
	all := over < 0
	for size := pruneOver; size >= pruneOver/smallestResult; size /= 2 {
		for i := range list {
			if c := &list[i]; c.size > size && (all || over > 0) {
				over -= c.size - size/2
				c.size = size / 2
			}
		}
	}
	return slices.DeleteFunc(list, func(c cut) bool { return c.size == h.sizes[c.node] })
}

// smallestResult is the part of PruneOver below which no result is cut.
const smallestResult = 8

func (h *history) isResult(node int) bool {
	return h.nodes[node].Message.Source.Kind == sdkproto.SourceTool
}

// seqs names the nodes of a span.
func (h *history) seqs(s span) []int64 {
	seqs := make([]int64, 0, s.to-s.from)
	for _, n := range h.nodes[s.from:s.to] {
		seqs = append(seqs, n.Seq)
	}
	return seqs
}
