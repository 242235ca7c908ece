package streamjson_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/job"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// seam gives what a row of the booted profile provides.
func seam[T any](c *client) T {
	c.t.Helper()
	v, ok := kernel.Seam[T](c.Kernel)
	if !ok {
		c.t.Fatalf("no row provides %T", v)
	}
	return v
}

// TestTaskWithoutEnd: a task whose end no log tells ends with the process, and keeps
// it for no longer than a command in the background may (F13; spec stream-json 1.8).
func TestTaskWithoutEnd(t *testing.T) {
	c := start(t)
	c.send(control("i", "initialize"), user("one"))
	id := c.result().str("session_id")
	a, ok := seam[agent.Registry](c).Get(id)
	if !ok {
		t.Fatal("the session is not live")
	}
	_, err := a.Log().Append(session.Draft{Type: sdkproto.TypeJobStarted, Ignorable: true, Data: sdkproto.JobStarted{
		JobID: "b1", Kind: job.KindShell, CallID: "c1", Description: "Serve", OutputFile: "/tmp/b1",
	}})
	must(t, err)
	if got := c.kind("system/task_started"); got.str("task_id") != "b1" {
		t.Errorf("got %v", got)
	}
	lines, code := c.rest()
	var ends []string
	for _, l := range lines {
		if l.str("subtype") == "task_notification" {
			ends = append(ends, fmt.Sprint(l["task_id"], l["status"], l["output_file"]))
		}
	}
	if diff := cmp.Diff([]string{"b1stopped/tmp/b1"}, ends); diff != "" || code != 0 {
		t.Errorf("code %d, ends (-want +got):\n%s", code, diff)
	}
}

// TestDeafTask: one that does not end when it is told to holds the end of the process
// up for a bounded time (spec stream-json 1.8).
func TestDeafTask(t *testing.T) {
	c := start(t)
	c.send(control("i", "initialize"), user("one"))
	id := c.result().str("session_id")
	told := make(chan struct{}, 10)
	_, err := seam[*job.Board](c).Start(job.Work{
		Job:  job.Job{ID: "deaf", SessionID: id, CallID: "c1", Kind: job.KindShell, Description: "Serve", Background: true},
		Stop: func() { told <- struct{}{} },
	})
	must(t, err)
	c.kind("system/task_started")
	lines, code := c.rest()
	if len(told) == 0 || code != 0 {
		t.Errorf("code %d, told %d times", code, len(told))
	}
	if last := lines[len(lines)-2]; last.str("subtype") != "task_notification" || last.str("status") != "stopped" {
		t.Errorf("got %v", kinds(lines))
	}
}
