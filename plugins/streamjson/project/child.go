package project

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"dsh/kernel/session"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// child is a subagent that works. It has a task_started as soon as something is
// known of it, and then exactly one task_notification, without which a client
// waits for ever (F13).
type child struct {
	thread
	// call is the id of the call that started it, kind the name of its definition.
	call, kind string
	// label says in a few words what it is for.
	label   string
	started bool
	// began and last are times of its first and its latest event, in epoch
	// milliseconds.
	began, last int64
	usage       sdkproto.Usage
	uses        int
}

const defaultLabel = "Subagent"

// childEntry shows what a subagent does: its calls and their outcomes, and the
// rest of its answers where the client wants them. A subagent has no stream_event
// and no lines for older scripts (spec stream-json 11.7).
func (p *Projector) childEntry(ctx context.Context, e session.Entry) {
	c := p.children[e.SessionID]
	if c == nil {
		return
	}
	if s := e.Settled; s != nil {
		c.interrupt(p)
		p.settle(c, taskStatus(s.StopReason), cmp.Or(strings.TrimSpace(textOf(s.Last)), c.label))
		return
	}
	if e.Record == nil {
		return
	}
	r := e.Record
	c.last = r.Event.Time
	p.start(c, r)
	switch r.Event.Type {
	case sdkproto.TypeAssistantMessage:
		m, err := session.Decode[sdkproto.AssistantMessage](r)
		if err != nil {
			return
		}
		p.spend(&m)
		if m.Usage != nil {
			c.usage.Add(m.Usage)
		}
		c.answer(p, &m, c.answerID(&r.Event, &m), func(blockType string) bool {
			return blockType == streamjson.BlockToolUse || p.options.ForwardSubagentText
		})
	case sdkproto.TypeToolCall:
		c.uses++
	case sdkproto.TypeToolResult:
		if m, err := session.Decode[sdkproto.ToolResult](r); err == nil {
			c.result(ctx, p, &r.Event, &m)
		}
	case sdkproto.TypeCompactionSummary:
		with(r, p.summarised)
	case sdkproto.TypeApprovalAsked, sdkproto.TypePermissionDecision:
		c.decided(p, r)
	}
}

// start announces a subagent with its first event, which says what it is for.
func (p *Projector) start(c *child, r *session.Record) {
	if c.started {
		return
	}
	c.started, c.began, c.label = true, r.Event.Time, defaultLabel
	if r.Event.Type == sdkproto.TypeSubagentDescriptor {
		if d, err := session.Decode[sdkproto.SubagentDescriptor](r); err == nil {
			c.label = cmp.Or(d.Label, c.label)
		}
	}
	p.emit(&streamjson.TaskStarted{
		Head: p.system(streamjson.SystemTaskStarted), TaskID: c.id, ToolUseID: c.call, Description: c.label,
		TaskType: streamjson.TaskLocalAgent, SubagentType: c.kind,
	})
}

// settle tells of the end of a subagent, and forgets it.
func (p *Projector) settle(c *child, status, summary string) {
	delete(p.children, c.id)
	if !c.started {
		return
	}
	p.emit(&streamjson.TaskNotification{
		Head: p.system(streamjson.SystemTaskNotification), TaskID: c.id, ToolUseID: c.call, Status: status, Summary: clip(summary, maxContent),
		Usage: &streamjson.TaskUsage{
			TotalTokens: c.usage.InputTokens + c.usage.CacheReadTokens + c.usage.CacheWriteTokens + c.usage.OutputTokens,
			ToolUses:    c.uses, DurationMs: c.last - c.began,
		},
	})
}

// taskStatus is the word for how a subagent's run ended (spec jsonrpc 8.2).
func taskStatus(stop string) string {
	switch stop {
	case sdkproto.StopCompleted:
		return streamjson.TaskCompleted
	case sdkproto.StopAborted:
		return streamjson.TaskStopped
	}
	return streamjson.TaskFailed
}

func (p *Projector) childrenInOrder() []*child {
	return slices.SortedFunc(maps.Values(p.children), func(a, b *child) int {
		return cmp.Or(cmp.Compare(a.began, b.began), cmp.Compare(a.id, b.id))
	})
}
