package project

import (
	"cmp"
	"context"
	"strings"

	"dsh/kernel/agent"
	"dsh/kernel/session"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// child is one run of a subagent. It is a task as soon as something is known of
// it.
type child struct {
	thread
	// parent is the session of the call that started it, call that call, kind the
	// name of its definition.
	parent, call, kind string
	depth              int
	// label says in a few words what it is for.
	label string
	// ended: the client was told of its end, whatever it still does.
	started, ended bool
	// began and last are times of its first and its latest event, in epoch
	// milliseconds; told is that of its latest task_progress.
	began, last, told int64
	usage             sdkproto.Usage
	uses              int
	// tool is the name of the tool that it has called last.
	tool string
	// next is the run after this one, of a subagent that was taken up again before
	// the end of this one was heard of.
	next *child
}

const defaultLabel = "Subagent"

// progressEvery is the least time between two task_progress of a subagent, in
// milliseconds.
const progressEvery = 1000

// Child tells of a run of a subagent, before its first entry. One that is taken up
// again has another run under the same id.
func (p *Projector) Child(spec agent.Spec) {
	call := spec.ParentCall
	c := &child{
		thread: thread{id: spec.ID, origin: streamjson.Origin{ParentToolUseID: &call, AgentID: spec.ID, SubagentType: spec.Type}},
		parent: spec.Parent, call: call, kind: spec.Type, depth: spec.Depth, label: spec.Label,
	}
	last := p.children[spec.ID]
	if last == nil {
		p.children[spec.ID] = c
		return
	}
	for last.next != nil {
		last = last.next
	}
	last.next = c
}

// childEntry shows what a subagent does: its calls and their outcomes, and the
// rest of its answers where the client wants them. A subagent has no stream_event
// and no lines for older scripts (spec stream-json 11.7).
func (p *Projector) childEntry(ctx context.Context, e session.Entry) {
	c := p.children[e.SessionID]
	if c == nil {
		return
	}
	if s := e.Settled; s != nil {
		p.settle(c, taskStatus(s.StopReason), strings.TrimSpace(textOf(s.Last)))
		return
	}
	if e.Record == nil {
		return
	}
	r := e.Record
	p.spent(r)
	if c.ended {
		return
	}
	c.last = r.Event.Time
	p.start(c, r)
	switch r.Event.Type {
	case sdkproto.TypeAssistantMessage:
		m, err := session.Decode[sdkproto.AssistantMessage](r)
		if err != nil {
			return
		}
		if m.Usage != nil {
			c.usage.Add(m.Usage)
		}
		c.answer(p, &m, c.answerID(&r.Event, &m), func(blockType string) bool {
			return blockType == streamjson.BlockToolUse || p.options.ForwardSubagentText
		})
	case sdkproto.TypeToolCall:
		if m, err := session.Decode[sdkproto.ToolCall](r); err == nil {
			c.uses++
			c.tool = m.Name
			if c.told == 0 || c.last-c.told >= progressEvery {
				p.progress(c, "")
			}
		}
	case sdkproto.TypeToolResult:
		if m, err := session.Decode[sdkproto.ToolResult](r); err == nil {
			done, _ := c.result(ctx, p, &r.Event, &m)
			p.moved(c.id, done.id)
		}
	case sdkproto.TypeSideRequest:
		with(r, func(s *sdkproto.SideRequest) *End {
			if s.Purpose == sdkproto.AsideSummary && s.Text != "" {
				p.progress(c, s.Text)
			}
			return nil
		})
	case sdkproto.TypeJobStarted, sdkproto.TypeJobEnded:
		p.jobRecord(c.id, r)
	case sdkproto.TypeApprovalAsked, sdkproto.TypePermissionDecision:
		c.decided(p, r)
	}
}

// spent counts what a record of a subagent says that a model has used.
func (p *Projector) spent(r *session.Record) {
	switch r.Event.Type {
	case sdkproto.TypeAssistantMessage:
		with(r, func(m *sdkproto.AssistantMessage) *End { p.spend(m); return nil })
	case sdkproto.TypeCompactionSummary:
		with(r, p.summarised)
	case sdkproto.TypeSideRequest:
		with(r, p.asked)
	}
}

// start announces a subagent with its first event, which says what it is for,
// unless it was taken up again.
func (p *Projector) start(c *child, r *session.Record) {
	if c.started {
		return
	}
	c.started, c.began = true, r.Event.Time
	if r.Event.Type == sdkproto.TypeSubagentDescriptor {
		if d, err := session.Decode[sdkproto.SubagentDescriptor](r); err == nil {
			c.label = d.Label
		}
	}
	t := &task{id: c.id, kind: streamjson.TaskLocalAgent, session: c.parent, call: c.call, agentType: c.kind, agent: c, depth: c.depth}
	if j, ok := p.job(c.id); ok && !j.Over() {
		t.background = j.Background
		c.label = cmp.Or(c.label, j.Description)
	}
	c.label = cmp.Or(c.label, defaultLabel)
	t.label = c.label
	p.begin(t)
}

func (c *child) used() streamjson.TaskUsage {
	return streamjson.TaskUsage{
		TotalTokens: c.usage.InputTokens + c.usage.CacheReadTokens + c.usage.CacheWriteTokens + c.usage.OutputTokens,
		ToolUses:    c.uses, DurationMs: c.last - c.began,
	}
}

// progress tells what a subagent has done so far.
func (p *Projector) progress(c *child, summary string) {
	c.told = c.last
	p.emit(&streamjson.TaskProgress{
		Head: p.system(streamjson.SystemTaskProgress), TaskID: c.id, ToolUseID: c.call, Description: c.label, SubagentType: c.kind,
		Usage: c.used(), LastToolName: c.tool, Summary: clip(summary, maxContent),
	})
}

// settle ends a run of a subagent, and goes on to the next one.
func (p *Projector) settle(c *child, status, summary string) {
	if c.next != nil {
		p.children[c.id] = c.next
	} else {
		delete(p.children, c.id)
	}
	c.interrupt(p)
	p.leave(c.id)
	if t := p.find(c.id); t != nil && t.agent == c {
		p.finish(t, status, summary)
	}
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
