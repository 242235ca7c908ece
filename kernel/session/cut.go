package session

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"dsh/sdkproto"
)

// textTakenOut is the result of a call whose own was cut off with the end of the
// history.
const textTakenOut = "The result of this call is not part of the conversation any more: " +
	"the user went back to a point before it. The call may have taken effect; check the present state before you repeat it."

// The error of such a result.
const (
	errorTakenOut = "ResultTakenOutError"
	codeTakenOut  = "RESULT_TAKEN_OUT"
)

// Cut gives the events that take everything behind one message out of the
// history, to be appended in one batch while no turn runs. seq names the message,
// a node of the history; blocks says how many of its blocks stay, 0 for all.
//
// The message is stated again, with the id that it has, in the place of all that
// goes (spec jsonrpc 5.1): so every reader of the log has the same history. A call
// that loses its result gets one that says so, because a model takes no call
// without one (case B41), and what waits in the inbox is dropped. What the
// message had cost is not told a second time. There are no events when nothing
// goes. The error is a seq that names no node.
func (s *State) Cut(seq int64, blocks int) ([]Draft, error) {
	nodes := s.Surface.nodes
	at := slices.IndexFunc(nodes, func(n surfaceNode) bool { return n.seq == seq })
	if at < 0 {
		return nil, fmt.Errorf("event %d is not in the history, so nothing can be cut off behind it", seq)
	}
	last := nodes[at].msg
	if blocks <= 0 || blocks > len(last.Content) {
		blocks = len(last.Content)
	}
	var drafts []Draft
	if at < len(nodes)-1 || blocks < len(last.Content) {
		last.Content = slices.Clone(last.Content[:blocks])
		drafts = append(drafts, s.restated(last, Replace(seq, nodes[len(nodes)-1].seq)))
		kept := append(slices.Clone(nodes[:at]), surfaceNode{seq, last})
		for _, call := range unanswered(kept) {
			drafts = append(drafts, s.restated(TakenOut(call), nil))
		}
	}
	for _, target := range [...]string{sdkproto.TargetNextStep, sdkproto.TargetNextTurn} {
		if n := len(s.Inbox.Pending(target)); n > 0 {
			drafts = append(drafts, Draft{Type: sdkproto.TypeAgentInboxSpliced, Data: &sdkproto.AgentInboxSpliced{
				Target: target, RemovedCount: n, Outcome: sdkproto.OutcomeCanceled,
			}})
		}
	}
	return drafts, nil
}

// TakenOut is the result of a call whose own is not part of the conversation.
func TakenOut(callID string) sdkproto.Message {
	return sdkproto.Message{
		Source: sdkproto.Source{Kind: sdkproto.SourceTool, CallID: callID},
		Content: []sdkproto.Block{{
			Type: sdkproto.BlockToolResult, ToolCallID: callID, IsError: true, Content: []sdkproto.Block{sdkproto.Text(textTakenOut)},
		}},
		Role: sdkproto.RoleUser, ID: uuid.NewString(),
	}
}

// restated gives the event of a message; surface is nil for one that is added.
func (s *State) restated(m sdkproto.Message, surface []byte) Draft {
	d := Draft{Type: sdkproto.TypeUserMessage, Data: m, Surface: surface}
	switch {
	case m.Role == sdkproto.RoleAssistant:
		d.Type, d.Data = sdkproto.TypeAssistantMessage, &sdkproto.AssistantMessage{Turn: s.Brackets.Turn, Step: s.Brackets.Step, Message: m}
	case m.Source.Kind == sdkproto.SourceTool:
		r := &sdkproto.ToolResult{Turn: s.Brackets.Turn, Step: s.Brackets.Step, Message: m}
		if surface == nil {
			r.Error = &sdkproto.ToolError{Name: errorTakenOut, Code: codeTakenOut}
		}
		d.Type, d.Data = sdkproto.TypeToolResult, r
	}
	return d
}

// unanswered gives the calls of the last answer that have no result behind it.
func unanswered(nodes []surfaceNode) (calls []string) {
	answered := map[string]int{}
	for _, n := range slices.Backward(nodes) {
		if n.msg.Role != sdkproto.RoleAssistant {
			if n.msg.Source.Kind == sdkproto.SourceTool {
				answered[n.msg.Source.CallID]++
			}
			continue
		}
		for i := range n.msg.Content {
			if b := &n.msg.Content[i]; b.Type == sdkproto.BlockToolCall {
				if answered[b.ID]--; answered[b.ID] < 0 {
					calls = append(calls, b.ID)
				}
			}
		}
		break
	}
	return calls
}
