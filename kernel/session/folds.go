package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// Surface is the model-visible history: the fold of the surface operations in
// seq order (spec jsonrpc 5.1).
type Surface struct {
	nodes    []surfaceNode
	rewrites int
	rewriter string
}

type surfaceNode struct {
	seq int64
	msg sdkproto.Message
}

// Apply takes up one record.
func (s *Surface) Apply(r *Record) error {
	var msg sdkproto.Message
	switch r.Event.Type {
	case sdkproto.TypeUserMessage:
		m, err := Decode[sdkproto.Message](r)
		if err != nil {
			return err
		}
		msg = m
	case sdkproto.TypeAssistantMessage:
		m, err := Decode[sdkproto.AssistantMessage](r)
		if err != nil {
			return err
		}
		msg = m.Message
	case sdkproto.TypeToolResult:
		m, err := Decode[sdkproto.ToolResult](r)
		if err != nil {
			return err
		}
		msg = m.Message
	default:
		return nil
	}
	node := surfaceNode{r.Event.Seq, msg}
	if string(r.Event.SurfaceOp) == sdkproto.SurfaceAppend {
		s.nodes = append(s.nodes, node)
		return nil
	}
	var op struct {
		Op    string `json:"op"`
		Start int64  `json:"start"`
		End   int64  `json:"end"`
	}
	if err := wirejson.Unmarshal(r.Event.SurfaceOp, &op); err != nil || op.Op != "replace" {
		return fmt.Errorf("event %d (%s): unknown surface operation %s", r.Event.Seq, r.Event.Type, r.Event.SurfaceOp)
	}
	from := slices.IndexFunc(s.nodes, func(n surfaceNode) bool { return n.seq == op.Start })
	to := slices.IndexFunc(s.nodes, func(n surfaceNode) bool { return n.seq == op.End })
	if from < 0 || to < from {
		return fmt.Errorf("event %d (%s): replaces %d to %d, which are not in the history", r.Event.Seq, r.Event.Type, op.Start, op.End)
	}
	s.nodes = slices.Replace(s.nodes, from, to+1, node)
	s.rewrites++
	s.rewriter = cmp.Or(msg.Source.Plugin, msg.Source.Kind)
	return nil
}

// Rewrites counts the replacements there have been, and names the plugin, or
// else the kind of source, of the last one.
func (s *Surface) Rewrites() (count int, by string) { return s.rewrites, s.rewriter }

// Messages gives the history; the slice is the caller's, the messages are
// shared.
func (s *Surface) Messages() []sdkproto.Message {
	msgs := make([]sdkproto.Message, len(s.nodes))
	for i := range s.nodes {
		msgs[i] = s.nodes[i].msg
	}
	return msgs
}

// Node is a message of the history with the seq of its event.
type Node struct {
	Seq     int64
	Message sdkproto.Message
}

// Tail gives what the history has behind the last answer of the model.
func (s *Surface) Tail() []Node {
	var tail []Node
	for _, n := range slices.Backward(s.nodes) {
		if n.msg.Role == sdkproto.RoleAssistant {
			break
		}
		tail = append(tail, Node{n.seq, n.msg})
	}
	slices.Reverse(tail)
	return tail
}

// Nodes gives the history with the seqs of its events; the slice is the
// caller's, the messages are shared.
func (s *Surface) Nodes() []Node {
	nodes := make([]Node, len(s.nodes))
	for i, n := range s.nodes {
		nodes[i] = Node{n.seq, n.msg}
	}
	return nodes
}

// Replace is the surface operation that puts an event in the place of the nodes
// from start to end, both seqs of nodes (spec jsonrpc 5.1).
func Replace(start, end int64) json.RawMessage {
	return fmt.Appendf(nil, `{"op":"replace","start":%d,"end":%d}`, start, end)
}

// Inbox is what has been accepted and not yet claimed by a turn.
type Inbox struct {
	lists map[string][]sdkproto.Message
}

// Apply takes up one record.
func (b *Inbox) Apply(r *Record) error {
	if r.Event.Type != sdkproto.TypeAgentInboxSpliced {
		return nil
	}
	s, err := Decode[sdkproto.AgentInboxSpliced](r)
	if err != nil {
		return err
	}
	list := b.lists[s.Target]
	if !b.fits(&s) {
		return fmt.Errorf("event %d (%s): splices %d at %d of %d messages", r.Event.Seq, r.Event.Type, s.RemovedCount, s.Start, len(list))
	}
	if len(list)-s.RemovedCount+len(s.Inserted) == 0 {
		delete(b.lists, s.Target)
		return nil
	}
	if b.lists == nil {
		b.lists = map[string][]sdkproto.Message{}
	}
	// A new slice, because Pending hands them out.
	b.lists[s.Target] = slices.Concat(list[:s.Start], s.Inserted, list[s.Start+s.RemovedCount:])
	return nil
}

func (b *Inbox) fits(s *sdkproto.AgentInboxSpliced) bool {
	n := len(b.lists[s.Target])
	return s.Start >= 0 && s.Start <= n && s.RemovedCount >= 0 && s.RemovedCount <= n-s.Start
}

// cut gives what the splice takes out; nil when it does not fit.
func (b *Inbox) cut(s *sdkproto.AgentInboxSpliced) []sdkproto.Message {
	if !b.fits(s) {
		return nil
	}
	return b.lists[s.Target][s.Start : s.Start+s.RemovedCount]
}

// Pending gives the messages of one list, oldest first; they are shared.
func (b *Inbox) Pending(target string) []sdkproto.Message { return b.lists[target] }

// HeaderFold is the last request header and context.
type HeaderFold struct {
	// Header is nil before the first request.
	Header  *sdkproto.Header
	Context sdkproto.RequestContext
	// Pool, when set, makes equal headers of several sessions one in memory.
	Pool *HeaderPool
}

// Apply takes up one record.
func (h *HeaderFold) Apply(r *Record) error {
	switch r.Event.Type {
	case sdkproto.TypeRequestHeader:
		v, err := Decode[sdkproto.RequestHeader](r)
		if err != nil {
			return err
		}
		header := v.Header
		h.Header = h.Pool.Intern(&header)
	case sdkproto.TypeRequestContext:
		v, err := Decode[sdkproto.RequestContext](r)
		if err != nil {
			return err
		}
		h.Context = v
	}
	return nil
}

// OpenCall is a tool call of the model that has no result yet.
type OpenCall struct {
	ID, Name string
	// Seq is that of its tool/call event; Started says there is one.
	Seq     int64
	Started bool
}

// Brackets is what has been opened and not closed: the turn, the step and the
// calls of the last answer.
type Brackets struct {
	// Turn is the last turn opened, 0 before the first; Step is the last step of
	// it.
	Turn, Step int
	TurnOpen   bool
	StepOpen   bool
	// Calls are in the model's order.
	Calls []OpenCall
	// Compaction is the one that has begun and not ended, nil without.
	Compaction *sdkproto.CompactionStart
	// Titled says the session has a title.
	Titled bool
}

// Apply takes up one record.
func (b *Brackets) Apply(r *Record) error {
	switch r.Event.Type {
	case sdkproto.TypeTurnStart:
		v, err := Decode[sdkproto.TurnStart](r)
		if err != nil {
			return err
		}
		b.Turn, b.Step, b.TurnOpen = v.Turn, 0, true
	case sdkproto.TypeTurnEnd:
		b.TurnOpen, b.StepOpen, b.Calls = false, false, nil
	case sdkproto.TypeStepStart:
		v, err := Decode[sdkproto.StepStart](r)
		if err != nil {
			return err
		}
		b.Step, b.StepOpen = v.Step, true
	case sdkproto.TypeStepEnd:
		b.StepOpen, b.Calls = false, nil
	case sdkproto.TypeAssistantMessage:
		v, err := Decode[sdkproto.AssistantMessage](r)
		if err != nil {
			return err
		}
		b.Calls = nil
		for _, blk := range v.Message.Content {
			if blk.Type == sdkproto.BlockToolCall {
				b.Calls = append(b.Calls, OpenCall{ID: blk.ID, Name: blk.Name})
			}
		}
	case sdkproto.TypeToolCall:
		v, err := Decode[sdkproto.ToolCall](r)
		if err != nil {
			return err
		}
		for i := range b.Calls {
			if b.Calls[i].ID == v.CallID && !b.Calls[i].Started {
				b.Calls[i].Seq, b.Calls[i].Started = r.Event.Seq, true
				break
			}
		}
	case sdkproto.TypeToolResult:
		v, err := Decode[sdkproto.ToolResult](r)
		if err != nil {
			return err
		}
		b.closeCall(v.Message.Source.CallID, r.Event.SourceEventSeqs)
	case sdkproto.TypeCompactionStart:
		v, err := Decode[sdkproto.CompactionStart](r)
		if err != nil {
			return err
		}
		b.Compaction = &v
	case sdkproto.TypeCompactionEnd:
		b.Compaction = nil
	case sdkproto.TypeSessionTitle:
		b.Titled = true
	}
	return nil
}

// closeCall takes one call off the list: ids may repeat within one answer, and
// each call has its own result. The one whose tool/call is cited goes first.
func (b *Brackets) closeCall(id string, cited []int64) {
	i := slices.IndexFunc(b.Calls, func(c OpenCall) bool { return c.ID == id && c.Started && slices.Contains(cited, c.Seq) })
	if i < 0 {
		i = slices.IndexFunc(b.Calls, func(c OpenCall) bool { return c.ID == id })
	}
	if i < 0 {
		return
	}
	b.Calls = slices.Delete(b.Calls, i, i+1)
	if len(b.Calls) == 0 {
		b.Calls = nil
	}
}
