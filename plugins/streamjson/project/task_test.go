package project_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/agent"
	"dsh/kernel/job"
	"dsh/plugins/streamjson/project"
	"dsh/sdkproto"
)

// board is what the process knows of tasks.
type board map[string]job.Job

func (b board) projector() *project.Projector {
	o := options()
	o.Job = func(id string) (job.Job, bool) { j, ok := b[id]; return j, ok }
	p := project.New(o)
	p.Begin(theTurn)
	return p
}

// bare gives lines without their uuids.
func bare(lines []line) []line {
	for _, l := range lines {
		delete(l, "uuid")
	}
	return lines
}

func (s *script) shell(id, job, call string) *script {
	return s.add(id, sdkproto.TypeJobStarted, &sdkproto.JobStarted{
		JobID: job, Kind: "local_bash", CallID: call, Description: "Serve", Command: "serve", OutputFile: "/tmp/" + job,
	})
}

// TestShell: a shell command in the background is a task from job/started to
// job/ended, also outside of turns, and the list of such tasks is told after each
// change (spec stream-json 3.10, 11.8).
func TestShell(t *testing.T) {
	s := newScript().begin("m")
	s.entries = nil
	s.shell(root, "b1", "c1").shell(root, "b2", "c2").end(kind(sdkproto.EndCompleted))
	code := 3
	s.add(root, sdkproto.TypeJobEnded, &sdkproto.JobEnded{JobID: "b1", Status: "failed", Summary: "Serve ended with exit code 3", ExitCode: &code})
	s.add(root, sdkproto.TypeJobEnded, &sdkproto.JobEnded{JobID: "b1", Status: "stopped"})
	s.add(root, sdkproto.TypeJobEnded, &sdkproto.JobEnded{JobID: "never", Status: "completed"})
	want(t, bare(of(show(t, board{}.projector(), s.entries), "system task_started")),
		`{"type":"system","subtype":"task_started","session_id":"$S","task_id":"b1","tool_use_id":"c1","description":"Serve","task_type":"local_bash","is_backgrounded":true}`,
		`{"type":"system","subtype":"task_started","session_id":"$S","task_id":"b2","tool_use_id":"c2","description":"Serve","task_type":"local_bash","is_backgrounded":true}`)

	p := board{}.projector()
	lines := show(t, p, s.entries)
	if diff := cmp.Diff([]string{
		"system task_started", "system background_tasks_changed", "system task_started", "system background_tasks_changed",
		"system task_notification", "system background_tasks_changed",
	}, kinds(lines)); diff != "" {
		t.Fatalf("lines (-want +got):\n%s", diff)
	}
	want(t, bare(lines[3:]),
		`{"type":"system","subtype":"background_tasks_changed","session_id":"$S","tasks":[
			{"task_id":"b1","task_type":"local_bash","description":"Serve"},{"task_id":"b2","task_type":"local_bash","description":"Serve"}]}`,
		`{"type":"system","subtype":"task_notification","session_id":"$S","task_id":"b1","tool_use_id":"c1","status":"failed","output_file":"/tmp/b1","summary":"Serve ended with exit code 3"}`,
		`{"type":"system","subtype":"background_tasks_changed","session_id":"$S","tasks":[{"task_id":"b2","task_type":"local_bash","description":"Serve"}]}`)
	if !p.Knows("b1") || !p.Knows("b2") || p.Knows("never") {
		t.Error("what was told of is not known")
	}
}

// TestEndTasks: what is stopped without its log has exactly one end, with its calls
// and its own subagents (F13; checklist 54; spec stream-json 11.2).
func TestEndTasks(t *testing.T) {
	b := board{childID: {ID: childID, Kind: job.KindAgent, Status: job.Running, Background: true, OutputFile: "/tmp/answer"}}
	p := b.projector()
	p.Child(agent.Spec{ID: childID, Parent: root, ParentCall: "c1", Depth: 1})
	p.Child(agent.Spec{ID: grandchildID, Parent: childID, ParentCall: "c2", Depth: 2})
	s := newScript()
	s.add(childID, sdkproto.TypeSubagentDescriptor, &sdkproto.SubagentDescriptor{Label: "outer"})
	s.say(childID, "m", nil, toolCall("c2", "Agent", "{}"))
	s.add(grandchildID, sdkproto.TypeSubagentDescriptor, &sdkproto.SubagentDescriptor{Label: "inner"})
	s.shell(root, "b1", "c3").shell(root, "b2", "c4").shell(childID, "b3", "c5")
	var c checker
	take := func() {
		t.Helper()
		for _, e := range s.entries {
			lines, end := p.Entry(t.Context(), e)
			c.add(t, lines, end)
		}
		s.entries = nil
	}
	take()
	if starts := bare(of(c.lines, "system task_started")); len(starts) != 5 || starts[0]["is_backgrounded"] != true || starts[0]["parent_task_id"] != nil ||
		starts[1]["parent_task_id"] != childID || starts[1]["spawn_depth"] != 2.0 || starts[1]["is_backgrounded"] != nil || starts[4]["parent_task_id"] != childID {
		t.Errorf("started %v", starts)
	}
	before := len(c.lines)
	c.add(t, p.EndTasks(func(id string) bool { return id == childID || id == "b1" }), nil)
	if diff := cmp.Diff([]string{
		"user tool_result", "system task_notification", "system task_notification", "system task_notification", "system task_notification",
		"system background_tasks_changed",
	}, kinds(c.lines[before:])); diff != "" {
		t.Fatalf("lines (-want +got):\n%s", diff)
	}
	var ended []string
	for _, l := range of(c.lines, "system task_notification") {
		ended = append(ended, l.str("task_id")+" "+l.str("status")+" "+l.str("output_file"))
	}
	if diff := cmp.Diff([]string{childID + " stopped /tmp/answer", grandchildID + " stopped ", "b1 stopped /tmp/b1", "b3 stopped /tmp/b3"}, ended); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
	if left, _ := c.lines[len(c.lines)-1]["tasks"].([]any); len(left) != 1 {
		t.Errorf("left %v", left)
	}
	// What their logs say of it later is in no line, but what they used counts.
	before = len(c.lines)
	s.result(childID, "c2", sdkproto.ToolResult{Error: &sdkproto.ToolError{Code: "ABORTED"}})
	s.say(childID, "m", &sdkproto.Usage{InputTokens: 7}, sdkproto.Text("late"))
	s.add(childID, sdkproto.TypeJobEnded, &sdkproto.JobEnded{JobID: "b3", Status: "stopped"})
	s.settled(grandchildID, sdkproto.StopAborted)
	s.settled(childID, sdkproto.StopAborted)
	take()
	if len(c.lines) > before {
		t.Errorf("later: %v", c.lines[before:])
	}
	c.answered(t)
	if used := p.Local(theTurn, "", false).Result.ModelUsage["m"]; used.InputTokens != 7 {
		t.Errorf("used %+v", used)
	}
}

// TestTakenUpAgain: each run of a subagent has its own pair of lines, also when the
// second begins before the end of the first was heard of (F13).
func TestTakenUpAgain(t *testing.T) {
	b := board{}
	p := b.projector()
	p.Child(agent.Spec{ID: childID, Parent: root, ParentCall: "c1", Type: "Explore"})
	s := newScript()
	s.add(childID, sdkproto.TypeSubagentDescriptor, &sdkproto.SubagentDescriptor{Label: "Look"})
	s.settled(childID, sdkproto.StopCompleted, sdkproto.Text("one"))
	p.Child(agent.Spec{ID: childID, Parent: root, ParentCall: "c2", Type: "Explore"})
	b[childID] = job.Job{ID: childID, Kind: job.KindAgent, Status: job.Running, Description: "Look again"}
	s.add(childID, sdkproto.TypeTurnStart, &sdkproto.TurnStart{Turn: 2})
	s.say(childID, "m", nil, toolCall("x", "Read", "{}"))
	s.settled(childID, sdkproto.StopAborted)
	s.settled(childID, sdkproto.StopAborted)
	var got []string
	for _, l := range show(t, p, s.entries) {
		if l.str("type") == "system" {
			got = append(got, l.str("subtype")+" "+l.str("tool_use_id")+" "+l.str("description")+l.str("summary"))
		} else if l.str("parent_tool_use_id") != "c2" {
			t.Errorf("a line under %s", l.str("parent_tool_use_id"))
		}
	}
	if diff := cmp.Diff([]string{"task_started c1 Look", "task_notification c1 one", "task_started c2 Look again", "task_notification c2 Look again"}, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// TestMoved: a subagent whose call does not wait any more is in the background
// (spec stream-json 3.10); one whose call was cut off is not.
func TestMoved(t *testing.T) {
	for name, background := range map[string]bool{"moved": true, "cut off": false} {
		t.Run(name, func(t *testing.T) {
			b := board{childID: {ID: childID, Kind: job.KindAgent, Status: job.Running}}
			p := b.projector()
			p.Child(agent.Spec{ID: childID, Parent: root, ParentCall: "c1"})
			s := newScript().begin("m").say(root, "m", nil, toolCall("c0", "Read", "{}"), toolCall("c1", "Agent", "{}"))
			s.add(childID, sdkproto.TypeSubagentDescriptor, &sdkproto.SubagentDescriptor{Label: "Look"})
			s.result(root, "c0", sdkproto.ToolResult{})
			show(t, p, s.entries)
			s.entries = nil
			b[childID] = job.Job{ID: childID, Kind: job.KindAgent, Status: job.Running, Background: background}
			s.result(root, "c1", sdkproto.ToolResult{}, sdkproto.Text("launched"))
			s.settled(childID, sdkproto.StopCompleted)
			expected := []string{"user tool_result", "system task_notification"}
			if background {
				expected = []string{"user tool_result", "system task_updated", "system background_tasks_changed", "system task_notification", "system background_tasks_changed"}
			}
			got := show(t, p, s.entries)
			if diff := cmp.Diff(expected, kinds(got)); diff != "" {
				t.Fatalf("lines (-want +got):\n%s", diff)
			}
			if background {
				want(t, bare(got[1:3]), `{"type":"system","subtype":"task_updated","session_id":"$S","task_id":"`+childID+`","patch":{"is_backgrounded":true}}`,
					`{"type":"system","subtype":"background_tasks_changed","session_id":"$S","tasks":[{"task_id":"`+childID+`","task_type":"local_agent","description":"Look"}]}`)
			}
		})
	}
}

// TestProgress: a call of a subagent is told of at most once a second, what a model
// says of its work at once (S038, spec stream-json 3.10), and that request counts.
func TestProgress(t *testing.T) {
	p := board{}.projector()
	p.Child(agent.Spec{ID: childID, Parent: root, ParentCall: "c1", Type: "Explore"})
	s := newScript()
	s.add(childID, sdkproto.TypeSubagentDescriptor, &sdkproto.SubagentDescriptor{Label: "Look"})
	s.say(childID, "m", &sdkproto.Usage{InputTokens: 10, OutputTokens: 1}, toolCall("x", "Read", "{}"))
	s.call(childID, "x", "Read", "{}")
	s.later(998).call(childID, "y", "Grep", "{}")
	s.later(2).call(childID, "z", "Glob", "{}")
	s.add(childID, sdkproto.TypeSideRequest, &sdkproto.SideRequest{
		Purpose: sdkproto.AsideSummary, Text: "Looking around", Model: "m", Usage: &sdkproto.Usage{InputTokens: 100},
	})
	s.add(childID, sdkproto.TypeSideRequest, &sdkproto.SideRequest{Purpose: sdkproto.AsideSummary, Model: "m", Usage: &sdkproto.Usage{InputTokens: 1000}})
	got := bare(of(show(t, p, s.entries), "system task_progress"))
	of := func(tool string, uses, ms, more string) string {
		return `{"type":"system","subtype":"task_progress","session_id":"$S","task_id":"` + childID + `","tool_use_id":"c1","description":"Look","subagent_type":"Explore",
			"usage":{"total_tokens":11,"tool_uses":` + uses + `,"duration_ms":` + ms + `},"last_tool_name":"` + tool + `"` + more + `}`
	}
	want(t, got, of("Read", "1", "2", ""), of("Glob", "3", "1002", ""), of("Glob", "3", "1003", `,"summary":"Looking around"`))
	if used := p.Local(theTurn, "", false).Result.ModelUsage["m"]; used.InputTokens != 1110 {
		t.Errorf("used %+v", used)
	}
}

// TestShellOfSubagent: what a subagent has left running ends with it, with the end
// that the process knows of.
func TestShellOfSubagent(t *testing.T) {
	b := board{"b2": {ID: "b2", Status: job.Failed, Summary: "it broke"}}
	p := b.projector()
	p.Child(agent.Spec{ID: childID, Parent: root, ParentCall: "c1"})
	s := newScript()
	s.shell(childID, "b1", "x").shell(childID, "b2", "y").shell(root, "b3", "z")
	s.settled(childID, sdkproto.StopCompleted, sdkproto.Text("done"))
	var got []string
	for _, l := range of(show(t, p, s.entries), "system task_notification") {
		got = append(got, l.str("task_id")+" "+l.str("status")+" "+l.str("summary"))
	}
	if diff := cmp.Diff([]string{"b1 stopped Serve", "b2 failed it broke", childID + " completed done"}, got); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
}
