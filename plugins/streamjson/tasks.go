package streamjson

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"dsh/kernel/job"
	"dsh/kernel/session"
	"dsh/plugins/streamjson/project"
	"dsh/sdkproto"
)

// What goes on in the background (spec stream-json 11.8). The lines about it come
// from the logs, in package project; here is what the client may do to it, what an
// interrupt and the end of the input do, and what the board alone knows.

// tasks is what the server knows of work in the background; Server.mu guards it.
type tasks struct {
	// shells are the shell commands in the background that run.
	shells map[string]bool
	// endings counts the commands of the session that ended by themselves, notices the
	// messages that told the model of such an end: a turn comes of each.
	endings, notices int
	// cut are tasks that an interrupt has stopped: the client is told of their end
	// before the result.
	cut map[string]bool
	// summaries are those of the subagents at work, by session.
	summaries map[string]*summary
}

const (
	// endLimit is how long the end of commands in the background may take when the
	// input has ended.
	endLimit = 3 * time.Second
	// jobNoticeLimit is how long the message about the end of a command is waited for.
	jobNoticeLimit = time.Second
)

// jobPlugin is the Source.Plugin of messages that tell of the end of a command.
const jobPlugin = "job"

// watchTasks follows the board. The end of a command of the session counts when
// the log has it, because its message to the model comes with that.
func (s *Server) watchTasks(j job.Job) {
	if j.Kind != job.KindShell || !j.Background {
		return
	}
	forget := func() { s.with(func() { delete(s.shells, j.ID) }) }
	switch {
	case !j.Over():
		s.with(func() { s.shells[j.ID] = true })
	case j.SessionID == s.sessionID():
		time.AfterFunc(jobNoticeLimit, forget) // a log that takes no more says nothing
	default:
		forget()
	}
}

// trackJob follows what the session's log says of commands.
func (s *Server) trackJob(r *session.Record) {
	ended, err := session.Decode[sdkproto.JobEnded](r)
	if err != nil {
		return
	}
	s.with(func() {
		delete(s.shells, ended.JobID)
		if ended.Status == job.Stopped {
			return
		}
		s.endings++
	})
	time.AfterFunc(jobNoticeLimit, func() { s.with(func() { s.notices = max(s.notices, s.endings) }) })
}

// job looks a task up.
func (s *Server) job(id string) (job.Job, bool) {
	if s.Jobs == nil {
		return job.Job{}, false
	}
	return s.Jobs.Lookup(id)
}

// family are the session and its subagents at work.
func (s *Server) family() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{s.id}, slices.Sorted(maps.Keys(s.children))...)
}

// stopTasks is the part of an interrupt that is about the background: what runs
// there ends, too, unless the client's users can end it task by task (spec
// stream-json 11.2 rule 2).
func (s *Server) stopTasks() {
	s.mu.Lock()
	spared := s.Jobs == nil || s.asked.perTask && !s.eof
	s.mu.Unlock()
	if spared {
		return
	}
	for _, id := range s.family() {
		for _, j := range s.Jobs.List(id) {
			if !j.Background || j.Over() {
				continue
			}
			s.with(func() { s.cut[j.ID] = true })
			s.stopTask(j.ID)
		}
	}
}

func (s *Server) stopTask(id string) {
	if err := s.Jobs.Stop(id); err != nil {
		s.Log.Debug("a task was not stopped", "task", id, "error", err)
	}
}

// tellCut tells of the end of what an interrupt has stopped.
func (s *Server) tellCut(ctx context.Context) {
	var cut map[string]bool
	s.mu.Lock()
	if cut = s.cut; len(cut) > 0 {
		s.cut = map[string]bool{}
	}
	s.mu.Unlock()
	if len(cut) > 0 {
		s.tellEnds(ctx, func(id string) bool { return cut[id] })
	}
}

// tellEnds tells of the end of tasks without their logs.
func (s *Server) tellEnds(ctx context.Context, stops func(id string) bool) {
	var lines [][]byte
	s.view.with(func(p *project.Projector) { lines = p.EndTasks(stops) })
	if err := s.write(ctx, lines...); err != nil {
		s.Log.Debug("the end of a task was not told", "error", err)
	}
}

// rests reports whether nothing is at work but commands in the background. The
// caller holds mu.
func (s *Server) rests() bool {
	return !s.busy && len(s.children) == 0 && !s.running && s.notices >= s.endings
}

// stopShells ends the commands that are left behind the last result; those that do
// not end hold the process up no longer.
func (s *Server) stopShells() {
	s.mu.Lock()
	shells := slices.Sorted(maps.Keys(s.shells))
	rests := s.rests()
	s.mu.Unlock()
	if !rests {
		return
	}
	for _, id := range shells {
		s.stopTask(id)
	}
	time.AfterFunc(endLimit, func() { s.with(func() { s.ending = s.ending || s.rests() && len(s.shells) > 0 }) })
}

// noTask is the error for an id that no task has had (spec stream-json 4.14).
func noTask(id string) error {
	//lint:ignore ST1005 these are the words of the wire (spec stream-json 4.14)
	return fmt.Errorf("No task found with ID: %s", clip(id))
}

// taskID reads the id of a task out of a request.
func taskID(r *request) (string, error) {
	in, err := fields[struct {
		TaskID json.RawMessage `json:"task_id"`
	}](r)
	if err != nil {
		return "", err
	}
	return required("task_id", in.TaskID)
}

// endTask answers stop_task (S055). That the task has ended is told when it has.
func (s *Server) endTask(_ context.Context, r *request) (any, error) {
	id, err := taskID(r)
	if err != nil {
		return nil, err
	}
	err = job.ErrUnknown
	if s.Jobs != nil {
		err = s.Jobs.Stop(id)
	}
	if errors.Is(err, job.ErrUnknown) {
		known := false
		s.view.with(func(p *project.Projector) { known = p.Knows(id) })
		if !known {
			return nil, noTask(id)
		}
		err = nil // it has ended long ago
	}
	return struct{}{}, err
}

// detachTasks answers background_tasks: calls that wait for their work go on
// without it (spec stream-json 4.18).
func (s *Server) detachTasks(_ context.Context, r *request) (any, error) {
	in, err := fields[struct {
		ToolUseID json.RawMessage `json:"tool_use_id"`
	}](r)
	if err != nil {
		return nil, err
	}
	call := ""
	if !isUnset(in.ToolUseID) {
		if call, err = required("tool_use_id", in.ToolUseID); err != nil {
			return nil, err
		}
	}
	done := false
	if s.Jobs != nil {
		family := s.family()
		if call == "" {
			family = family[:1] // what a subagent waits for goes with it
		}
		for _, id := range family {
			done = s.Jobs.Detach(id, call) || done
		}
	}
	return map[string]bool{"backgrounded": done}, nil
}

// outputTail is how much of a task's output is told.
const outputTail = 8 << 10

// taskOutput answers get_task_output (spec stream-json 4.18).
func (s *Server) taskOutput(_ context.Context, r *request) (any, error) {
	id, err := taskID(r)
	if err != nil {
		return nil, err
	}
	j, ok := s.job(id)
	if !ok {
		return nil, noTask(id)
	}
	out, err := j.Tail(outputTail)
	if err != nil {
		return nil, err
	}
	text := out.Text
	truncated := out.Total > int64(len(text))
	for truncated && text != "" && !utf8.RuneStart(text[0]) {
		text = text[1:] // the rest of a character that is cut in two
	}
	return map[string]any{"output": strings.ToValidUTF8(text, "\ufffd"), "total_bytes": out.Total, "truncated": truncated}, nil
}
