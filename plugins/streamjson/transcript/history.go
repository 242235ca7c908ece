package transcript

import (
	"errors"
	"fmt"
	"slices"

	"dsh/kernel/agent"
	"dsh/kernel/session"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// History is a conversation, as the log of a session or a transcript has it.
type History struct {
	nodes []node
	// title is the last the session was given, nil for none; turn the number of its
	// last turn.
	title *sdkproto.SessionTitle
	turn  int
	// uploads are the images of a file that no store has yet.
	uploads []*sdkproto.Block
	// join is set where a log has only the beginning.
	join *join
}

// join is the place in a log behind which the rest of a history comes from the
// transcript of the session.
type join struct {
	own    int // how many nodes the log has
	cut    agent.Cut
	source string
}

// History is what the projector has seen so far.
func (p *Projector) History() *History {
	return &History{nodes: slices.Clone(p.nodes), title: p.anyTitle, turn: p.turn}
}

// Empty reports whether nothing was said.
func (h *History) Empty() bool { return len(h.nodes) == 0 }

// Images are the images of a transcript, which stand there with their bytes; the
// caller puts references, or texts, in their place before Seed.
func (h *History) Images() []*sdkproto.Block { return h.uploads }

// Point is a place in a History: behind a block of a message.
type Point struct {
	node int
	// entry is the place of the entry among those of the node; past all of them for
	// a trailing one.
	entry int
}

// End is behind everything.
func (h *History) End() Point {
	last := len(h.nodes) - 1
	if last < 0 {
		return Point{-1, 0}
	}
	return Point{last, len(h.nodes[last].uuids)}
}

// Find gives the place behind an entry of the chain; ok is false when there is
// none of that uuid. Of several the last counts.
func (h *History) Find(id string) (at Point, ok bool) {
	for i, n := range slices.Backward(h.nodes) {
		if j := slices.Index(n.uuids, id); j >= 0 {
			return Point{i, j}, true
		}
		if slices.Contains(n.trailing, id) {
			return Point{i, len(n.uuids)}, true
		}
	}
	return at, false
}

// textRejected begins the reason for a refusal (spec stream-json 10.4).
const textRejected = "Resume rejected by --resume-drops-turn:"

// Drops reports, as an error, what would go with everything behind a point beside
// the turn of a prompt: a client has not seen it, perhaps, and must not lose it.
// An empty prompt expects that nothing goes.
func (h *History) Drops(at Point, prompt string) error {
	refuse := func(format string, args ...any) error {
		return errors.New(textRejected + " " + fmt.Sprintf(format, args...))
	}
	if at.node >= 0 && at.entry+1 < len(h.nodes[at.node].uuids) {
		return refuse("the message %s would go with it, which belongs to an earlier turn", h.nodes[at.node].uuids[at.entry+1])
	}
	begun := false
	for _, n := range h.nodes[at.node+1:] {
		if n.user != nil && n.user.Source.Kind == sdkproto.SourcePlugin && !isSummary(n.user) {
			continue // it came with a prompt
		}
		id := n.message().ID
		if len(n.uuids) > 0 {
			id = n.uuids[0]
		}
		switch said := n.user != nil && !isSummary(n.user); {
		case prompt == "":
			return refuse("the message %s would go with it, and nothing was to go", id)
		case said && begun:
			return refuse("the message %s would go with it, which came after the prompt %s", id, prompt)
		case said && id != prompt:
			return refuse("the first prompt that would go is %s, and not %s", id, prompt)
		case !said && !begun:
			return refuse("the message %s would go with it, which belongs to an earlier turn", id)
		}
		begun = true
	}
	return nil
}

// Cut names the point for a session whose log this is the history of; nil when
// nothing lies behind it.
func (h *History) Cut(at Point) *agent.Cut {
	if at.node < 0 {
		return nil
	}
	if j := h.join; j != nil && at.node >= j.own {
		cut := j.cut
		rest := *h.Until(at)
		rest.nodes = rest.nodes[j.own:]
		cut.Behind = rest.behind(j.source, h.turn)
		return &cut
	}
	blocks := h.blocks(at)
	if h.join == nil && at.node == len(h.nodes)-1 && blocks == 0 {
		return nil
	}
	return &agent.Cut{Seq: h.nodes[at.node].seq, Blocks: blocks}
}

// blocks is how many blocks of its message a point leaves, 0 for all.
func (h *History) blocks(at Point) int {
	n := &h.nodes[at.node]
	if at.entry+1 < len(n.uuids) && n.blocks[at.entry] != whole {
		return n.blocks[at.entry] + 1
	}
	return 0
}

// Until is the history up to a point.
func (h *History) Until(at Point) *History {
	part := *h
	part.nodes = slices.Clone(h.nodes[:at.node+1])
	if at.node < 0 {
		return &part
	}
	n := &part.nodes[at.node]
	if blocks := h.blocks(at); blocks > 0 && n.answer != nil {
		answer := *n.answer
		answer.Message.Content = answer.Message.Content[:blocks]
		n.answer, n.uuids, n.blocks = &answer, n.uuids[:at.entry+1], n.blocks[:at.entry+1]
	}
	return &part
}

// Join adds to the history of a log what the transcript of the session has behind
// the last entry that both have, where the log has never had it: the session went
// on somewhere else. It gives the history of the log where there is no such thing.
func Join(p *Projector, file *History, sessionID string) *History {
	h := p.History()
	for i, n := range slices.Backward(file.nodes) {
		for _, id := range n.uuids {
			if !p.seen[id] {
				continue
			}
			at, ok := h.Find(id)
			if !ok || i == len(file.nodes)-1 {
				return h
			}
			joined := h.Until(at)
			joined.join = &join{own: at.node + 1, cut: agent.Cut{Seq: h.nodes[at.node].seq, Blocks: h.blocks(at)}, source: sessionID}
			joined.nodes = append(joined.nodes, file.nodes[i+1:]...)
			joined.uploads = file.uploads
			return joined
		}
	}
	return h
}

// seeder writes a history as the events of a log.
type seeder struct {
	drafts []session.Draft
	// base is the seq of the first event, negative when it is not known.
	base       int64
	turn, step int
	time       int64
	open       bool
	// said says that the open turn has a prompt or an answer, answered that the open
	// step has one; calls are those of it that have no result yet.
	said, answered bool
	calls          []sdkproto.Block
	// prompt is the place of the first prompt.
	prompt int
}

// Seed gives the events that a new log begins with: the history, in turns, between
// a note where it comes from and session/end-seed. What the messages had cost is
// not told again, unless costs is set: then the session is the same one.
func (h *History) Seed(kind, source string, costs bool) []session.Draft {
	s := &seeder{prompt: -1}
	s.begin(kind, source)
	h.seed(s, costs)
	if t := h.title; t != nil && t.Title != "" {
		seqs := []int64{}
		if s.prompt >= 0 {
			seqs = append(seqs, int64(s.prompt))
		}
		s.add(sdkproto.TypeSessionTitle, &sdkproto.SessionTitle{Title: t.Title, MessageSeqs: seqs, Source: t.Source})
	}
	s.add(sdkproto.TypeSessionEndSeed, sdkproto.SessionEndSeed{})
	return s.drafts
}

// behind gives the events that a log goes on with, whose last turn has a number.
func (h *History) behind(source string, turn int) []session.Draft {
	s := &seeder{prompt: -1, base: -1, turn: turn}
	s.begin(sdkproto.SeedTranscript, source)
	h.seed(s, true)
	s.add(sdkproto.TypeSessionEndSeed, sdkproto.SessionEndSeed{})
	return s.drafts
}

func (s *seeder) begin(kind, source string) {
	s.drafts = append(s.drafts, session.Draft{
		Type: sdkproto.TypeSessionSeeded, Ignorable: true, Data: &sdkproto.SessionSeeded{Kind: kind, SessionID: source},
	})
}

func (s *seeder) add(kind string, data any, sources ...int64) {
	s.drafts = append(s.drafts, session.Draft{Type: kind, Data: data, Sources: sources, Time: s.time})
}

func (h *History) seed(s *seeder, costs bool) {
	for i := range h.nodes {
		n := &h.nodes[i]
		s.time = max(s.time, n.time)
		if n.result == nil {
			s.close()
		}
		s.uuids(n)
		switch {
		case n.user != nil:
			s.user(n)
		case n.answer != nil:
			s.answer(n, costs)
		default:
			s.result(n)
		}
	}
	s.close()
	s.turnEnd()
}

// uuids notes the uuids of a message that do not follow from its id.
func (s *seeder) uuids(n *node) {
	id := n.message().ID
	list := make([]string, len(n.message().Content))
	foreign := false
	for i, block := range n.blocks {
		usual := id
		if n.answer != nil {
			usual = streamjson.BlockUUID(id, max(block, 0))
		}
		if at := max(block, 0); at < len(list) && n.uuids[i] != usual && (block != whole || len(n.uuids) == 1) {
			list[at], foreign = n.uuids[i], true
		}
	}
	if foreign {
		s.drafts = append(s.drafts, session.Draft{
			Type: sdkproto.TypeTranscriptUUIDs, Ignorable: true, Time: s.time, Data: &sdkproto.TranscriptUUIDs{MessageID: id, UUIDs: list},
		})
	}
}

func (s *seeder) turnStart() {
	s.turn++
	s.step, s.open, s.said, s.answered = 1, true, false, false
	s.add(sdkproto.TypeTurnStart, &sdkproto.TurnStart{Turn: s.turn})
	s.add(sdkproto.TypeStepStart, &sdkproto.StepStart{Turn: s.turn, Step: s.step})
}

func (s *seeder) turnEnd() {
	if !s.open {
		return
	}
	s.open = false
	s.add(sdkproto.TypeStepEnd, &sdkproto.StepEnd{Turn: s.turn, Step: s.step})
	s.add(sdkproto.TypeTurnEnd, &sdkproto.TurnEnd{Turn: s.turn, Reason: sdkproto.TurnEndReason{Kind: sdkproto.EndCompleted}})
}

// user takes what was said to the model. A prompt begins a turn; what was told
// before it belongs to it.
func (s *seeder) user(n *node) {
	prompts := !isMeta(n.user)
	if prompts && s.said {
		s.turnEnd()
	}
	if !s.open {
		s.turnStart()
	}
	s.said = s.said || prompts
	if prompts && !isSummary(n.user) && s.prompt < 0 {
		s.prompt = len(s.drafts)
	}
	s.add(sdkproto.TypeUserMessage, *n.user)
}

func (s *seeder) answer(n *node, costs bool) {
	switch {
	case !s.open:
		s.turnStart()
	case s.answered:
		s.add(sdkproto.TypeStepEnd, &sdkproto.StepEnd{Turn: s.turn, Step: s.step})
		s.step++
		s.add(sdkproto.TypeStepStart, &sdkproto.StepStart{Turn: s.turn, Step: s.step})
	}
	m := *n.answer
	m.Turn, m.Step, m.MessageID = s.turn, s.step, n.shown
	if !costs {
		m.Usage = nil
	}
	s.said, s.answered = true, true
	for i := range m.Message.Content {
		if b := m.Message.Content[i]; b.Type == sdkproto.BlockToolCall {
			s.calls = append(s.calls, b)
		}
	}
	s.add(sdkproto.TypeAssistantMessage, &m)
}

// result takes the result of a call that waits for one; others belong to nothing.
func (s *seeder) result(n *node) {
	id := n.result.Message.Source.CallID
	at := slices.IndexFunc(s.calls, func(b sdkproto.Block) bool { return b.ID == id })
	if at < 0 {
		return
	}
	call := s.calls[at]
	s.calls = slices.Delete(s.calls, at, at+1)
	m := *n.result
	s.settle(call, &m)
}

func (s *seeder) settle(call sdkproto.Block, m *sdkproto.ToolResult) {
	m.Turn, m.Step = s.turn, s.step
	var sources []int64
	if s.base >= 0 {
		sources = []int64{s.base + int64(len(s.drafts))}
	}
	s.add(sdkproto.TypeToolCall, &sdkproto.ToolCall{Turn: s.turn, Step: s.step, CallID: call.ID, Name: call.Name, Arguments: call.Arguments})
	s.add(sdkproto.TypeToolResult, m, sources...)
}

// close gives every call that has no result one that says so: a model takes no
// call without one (case B41).
func (s *seeder) close() {
	for _, call := range s.calls {
		s.settle(call, &sdkproto.ToolResult{Message: session.TakenOut(call.ID)})
	}
	s.calls = nil
}
