package client

import (
	"encoding/json"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// Notification is one frame of the server that is not an answer. Several
// consumers get the same one: what it refers to is for reading only.
type Notification struct {
	// Method is one of the sdkproto.Notify constants or a newer one.
	Method string
	// Params is the payload as it came, nil if there was none.
	Params json.RawMessage
	// SessionID is the payload's sessionId, "" if it has none (the subagent
	// notifications name their sessions otherwise).
	SessionID string

	// At most one of these is set, that of the method; none for another method
	// and for a payload that does not have the shape of its method.

	// Event is the fact of a session.event.
	Event *sdkproto.Event
	// Status is that of a session.status.
	Status sdkproto.Status
	// Started is the payload of a subagent.started.
	Started *sdkproto.SubagentStarted
	// Finished is the payload of a subagent.finished.
	Finished *sdkproto.SubagentFinished

	// These come only to those who asked for them in Initialize.

	// Prompt is the payload of a session.prompt.finished.
	Prompt *sdkproto.PromptFinished
	// Usage is the payload of a session.usage.
	Usage *sdkproto.UsageReport
	// Tree is the payload of a session.tree-status.
	Tree *sdkproto.TreeStatus
	// Clock is the payload of a runtime.heartbeat.
	Clock *sdkproto.Clock
}

// newNotification reads what it can of the payload.
func newNotification(method string, params json.RawMessage) Notification {
	n := Notification{Method: method, Params: params}
	if len(params) == 0 {
		return n
	}
	switch method {
	case sdkproto.NotifySessionEvent:
		var p sdkproto.SessionEvent
		if wirejson.Unmarshal(params, &p) == nil && p.Event.Type != "" {
			n.SessionID, n.Event = p.SessionID, &p.Event
			return n
		}
	case sdkproto.NotifySessionStatus:
		var p sdkproto.SessionStatus
		if wirejson.Unmarshal(params, &p) == nil {
			n.SessionID, n.Status = p.SessionID, p.Status
			return n
		}
	case sdkproto.NotifySubagentStarted:
		var p sdkproto.SubagentStarted
		if wirejson.Unmarshal(params, &p) == nil && p.ChildSessionID != "" {
			n.Started = &p
			return n
		}
	case sdkproto.NotifySubagentFinished:
		var p sdkproto.SubagentFinished
		if wirejson.Unmarshal(params, &p) == nil {
			n.Finished = &p
			return n
		}
	case sdkproto.NotifyPromptFinished:
		var p sdkproto.PromptFinished
		if wirejson.Unmarshal(params, &p) == nil && p.MessageID != "" {
			n.SessionID, n.Prompt = p.SessionID, &p
			return n
		}
	case sdkproto.NotifyUsage:
		var p sdkproto.UsageReport
		if wirejson.Unmarshal(params, &p) == nil {
			n.SessionID, n.Usage = p.SessionID, &p
			return n
		}
	case sdkproto.NotifyTreeStatus:
		var p sdkproto.TreeStatus
		if wirejson.Unmarshal(params, &p) == nil {
			n.SessionID, n.Tree = p.SessionID, &p
			return n
		}
	case sdkproto.NotifyHeartbeat:
		var p sdkproto.Clock
		if wirejson.Unmarshal(params, &p) == nil {
			n.Clock = &p
			return n
		}
	}
	var p struct {
		SessionID string `json:"sessionId"`
	}
	if wirejson.Unmarshal(params, &p) == nil {
		n.SessionID = p.SessionID
	}
	return n
}

// TextDelta returns the piece of visible text that the notification carries, if
// it carries one: an assistant/chunk of type text-delta.
func (n Notification) TextDelta() (text string, ok bool) {
	if n.Event == nil || n.Event.Type != sdkproto.TypeAssistantChunk {
		return "", false
	}
	var p sdkproto.AssistantChunk
	if err := wirejson.Unmarshal(n.Event.Data, &p); err != nil || p.Chunk.Type != sdkproto.ChunkTextDelta {
		return "", false
	}
	return p.Chunk.Text, true
}
