package project

import (
	"cmp"
	"slices"

	"dsh/kernel/job"
	"dsh/kernel/session"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// task is what the client was told of work that has not ended: a subagent, or a
// shell command that goes on behind its call. Every task_started is followed by
// exactly one task_notification, without which a client waits for ever (F13).
type task struct {
	id, kind string
	// session is that of the call that started it, call that call.
	session, call string
	label         string
	// agentType is the kind of a subagent, agent itself; empty for a command.
	agentType string
	agent     *child
	depth     int
	// file holds what it has said, "" for none.
	file string
	// background: the call does not wait for it.
	background bool
}

// job is what is known of a task beside the logs.
func (p *Projector) job(id string) (job.Job, bool) {
	if p.options.Job == nil {
		return job.Job{}, false
	}
	return p.options.Job(id)
}

// Knows reports whether the client was told of a task of this id, be it over or
// not.
func (p *Projector) Knows(taskID string) bool { return p.known[taskID] }

// begin tells of a task.
func (p *Projector) begin(t *task) {
	p.known[t.id] = true
	p.tasks = append(p.tasks, t)
	line := &streamjson.TaskStarted{
		Head: p.system(streamjson.SystemTaskStarted), TaskID: t.id, ToolUseID: t.call, Description: t.label,
		TaskType: t.kind, SubagentType: t.agentType, IsBackgrounded: t.background, SpawnDepth: t.depth,
	}
	if t.session != p.options.SessionID {
		line.ParentTaskID = t.session
	}
	p.emit(line)
	if t.background {
		p.snapshot()
	}
}

// finish tells of the end of a task.
func (p *Projector) finish(t *task, status, summary string) {
	p.over(t, status, summary)
	if t.background {
		p.snapshot()
	}
}

// over is finish without the list of those that are left.
func (p *Projector) over(t *task, status, summary string) {
	p.tasks = slices.DeleteFunc(p.tasks, func(x *task) bool { return x == t })
	line := &streamjson.TaskNotification{
		Head: p.system(streamjson.SystemTaskNotification), TaskID: t.id, ToolUseID: t.call, Status: status,
		OutputFile: t.file, Summary: clip(cmp.Or(summary, t.label), maxContent),
	}
	if c := t.agent; c != nil {
		c.ended = true
		used := c.used()
		line.Usage = &used
		if j, ok := p.job(t.id); ok && line.OutputFile == "" {
			line.OutputFile = j.OutputFile
		}
	}
	p.emit(line)
}

// snapshot lists the tasks in the background.
func (p *Projector) snapshot() {
	line := &streamjson.BackgroundTasks{Head: p.system(streamjson.SystemBackgroundTasks), Tasks: []streamjson.BackgroundTask{}}
	for _, t := range p.tasks {
		if t.background {
			line.Tasks = append(line.Tasks, streamjson.BackgroundTask{TaskID: t.id, TaskType: t.kind, Description: t.label, SubagentType: t.agentType})
		}
	}
	p.emit(line)
}

// EndTasks tells of the end of the tasks that stops says yes to, as if each had
// been stopped: they are being stopped, or the process ends. The tasks of a
// subagent end with it. What logs say of any of them later is in no line.
func (p *Projector) EndTasks(stops func(taskID string) bool) [][]byte {
	p.endTasks(stops)
	return p.flush()
}

func (p *Projector) endTasks(stops func(taskID string) bool) {
	changed := false
	gone := map[string]bool{}
	for _, t := range slices.Clone(p.tasks) {
		if !gone[t.session] && !stops(t.id) {
			continue
		}
		if t.agent != nil {
			t.agent.interrupt(p)
			gone[t.id] = true
		}
		changed = changed || t.background
		p.over(t, streamjson.TaskStopped, "")
	}
	if changed {
		p.snapshot()
	}
}

func every(string) bool { return true }

// jobRecord takes what a log says of shell commands in the background.
func (p *Projector) jobRecord(sessionID string, r *session.Record) {
	switch r.Event.Type {
	case sdkproto.TypeJobStarted:
		with(r, func(j *sdkproto.JobStarted) *End {
			if p.find(j.JobID) == nil {
				p.begin(&task{
					id: j.JobID, kind: j.Kind, session: sessionID, call: j.CallID, label: cmp.Or(j.Description, j.Command, defaultCommand),
					file: j.OutputFile, background: true,
				})
			}
			return nil
		})
	case sdkproto.TypeJobEnded:
		with(r, func(j *sdkproto.JobEnded) *End {
			if t := p.find(j.JobID); t != nil {
				p.finish(t, j.Status, j.Summary)
			}
			return nil
		})
	}
}

const defaultCommand = "Shell command"

func (p *Projector) find(id string) *task {
	if i := slices.IndexFunc(p.tasks, func(t *task) bool { return t.id == id }); i >= 0 {
		return p.tasks[i]
	}
	return nil
}

// leave ends the commands of a session that takes no more records: they have ended
// with it.
func (p *Projector) leave(sessionID string) {
	for _, t := range slices.Clone(p.tasks) {
		if t.agent != nil || t.session != sessionID {
			continue
		}
		status, summary := streamjson.TaskStopped, ""
		if j, ok := p.job(t.id); ok && j.Over() {
			status, summary = j.Status, j.Summary
		}
		p.finish(t, status, summary)
	}
}

// moved tells of a subagent whose call has its result while it is at work: it goes
// on in the background.
func (p *Projector) moved(sessionID, call string) {
	if call == "" {
		return
	}
	for _, t := range p.tasks {
		if t.agent == nil || t.background || t.session != sessionID || t.call != call {
			continue
		}
		if j, ok := p.job(t.id); ok && j.Background {
			t.background = true
			p.emit(&streamjson.TaskUpdated{
				Head: p.system(streamjson.SystemTaskUpdated), TaskID: t.id, Patch: streamjson.TaskPatch{IsBackgrounded: true},
			})
			p.snapshot()
		}
		return
	}
}
