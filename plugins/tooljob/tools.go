package tooljob

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"dsh/kernel/job"
	"dsh/kernel/tool"
)

// stopLimit is how long a call waits for the end of what it has stopped: longer
// than a program has between TERM and KILL.
const stopLimit = 4 * time.Second

// Codes of the results of calls that failed.
const (
	codeArguments = "INVALID_ARGUMENTS"
	codeUnknown   = "UNKNOWN_TASK"
)

func refuse(code, format string, args ...any) *tool.Result {
	name := "TaskError"
	if code == codeArguments {
		name = "ToolArgumentsError"
	}
	r := tool.ErrorResult(name, code, "Error: "+fmt.Sprintf(format, args...))
	return &r
}

// list holds the arguments of job_list.
type list struct{}

// show holds the arguments of job_output.
type show struct {
	ID     string  `json:"id" jsonschema:"The id of the job."`
	WaitMs float64 `json:"waitMs,omitzero" jsonschema:"How long to wait for its end first, in milliseconds; by default not at all."`
}

// kill holds the arguments of job_kill.
type kill struct {
	ID string `json:"id" jsonschema:"The id of the job."`
}

// dsh gives the tools of the dialect dsh. Their names are those of spec jsonrpc
// 11.4, which leaves the parameters open.
func (j *Jobs) dsh() []tool.Tool {
	return []tool.Tool{
		tool.Typed(tool.Spec{
			Name:        "job_list",
			Description: "Lists the background jobs of this conversation, shell commands and subagents, those that have ended included.",
			ReadOnly:    true, Parallel: true,
		}, j.list),
		tool.Typed(tool.Spec{
			Name: "job_output",
			Description: "Shows how a background job is doing, and the end of its output so far. " +
				fmt.Sprintf("With waitMs it waits for the job to end, up to %v. ", maxWait) +
				"A message tells you when a job has ended, so do not ask again and again.",
			ReadOnly: true, Parallel: true,
		}, j.show),
		tool.Typed(tool.Spec{
			Name:        "job_kill",
			Description: "Ends a background job with all its processes. Its output so far stays.",
			ReadOnly:    true, Parallel: true, // what it ends belongs to the session
		}, j.kill),
	}
}

func (j *Jobs) list(_ context.Context, in tool.Invocation, _ list) (tool.Result, error) {
	var lines []string
	for _, x := range j.board.List(in.SessionID) {
		if x.Background {
			lines = append(lines, x.String()+", "+age(x))
		}
	}
	if len(lines) == 0 {
		return tool.TextResult("There is no background job."), nil
	}
	return tool.TextResult(strings.Join(lines, "\n")), nil
}

// age says how long a job runs, or has run.
func age(x job.Job) string {
	if x.Over() {
		return fmt.Sprintf("after %v", x.Ended.Sub(x.Began).Round(time.Second))
	}
	return fmt.Sprintf("for %v", time.Since(x.Began).Round(time.Second))
}

func (j *Jobs) show(ctx context.Context, in tool.Invocation, p show) (tool.Result, error) {
	if p.WaitMs < 0 {
		return *refuse(codeArguments, "waitMs is %v; it must be 0 or more", p.WaitMs), nil
	}
	x, refused, err := j.await(ctx, in, p.ID, wait(p.WaitMs))
	if err != nil || refused != nil {
		return deref(refused), err
	}
	return tool.TextResult(state(x) + outputOf(x, j.config.MaxOutput).text()), nil
}

func (j *Jobs) kill(ctx context.Context, in tool.Invocation, p kill) (tool.Result, error) {
	_, said, refused, err := j.stop(ctx, in, p.ID)
	if err != nil || refused != nil {
		return deref(refused), err
	}
	return tool.TextResult(said), nil
}

// maxWait is how long a call waits for the end of a task at most.
const maxWait = 10 * time.Minute

// wait is a time in milliseconds, of at most maxWait.
func wait(ms float64) time.Duration {
	return time.Duration(min(ms, float64(maxWait.Milliseconds())) * float64(time.Millisecond))
}

// find gives a task of the session, or says that there is none.
func (j *Jobs) find(in tool.Invocation, id string) (job.Job, *tool.Result) {
	x, ok := j.board.Lookup(id)
	if ok && x.SessionID == in.SessionID && x.Background {
		return x, nil
	}
	var known []string
	for _, x := range j.board.List(in.SessionID) {
		if x.Background {
			known = append(known, x.ID)
		}
	}
	hint := "there is none"
	if len(known) > 0 {
		hint = "there are " + strings.Join(known[max(0, len(known)-maxStopped):], ", ")
	}
	return job.Job{}, refuse(codeUnknown, "No task found with ID: %s; of this conversation %s", clip(id, 100), hint)
}

// await gives a task when it has ended, or after so long.
func (j *Jobs) await(ctx context.Context, in tool.Invocation, id string, limit time.Duration) (job.Job, *tool.Result, error) {
	x, refused := j.find(in, id)
	if refused != nil || limit <= 0 || x.Over() {
		return x, refused, nil
	}
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	x, err := j.board.Wait(timed, x.ID)
	switch {
	case ctx.Err() != nil:
		return x, nil, context.Cause(ctx)
	case errors.Is(err, job.ErrUnknown):
		return x, refuse(codeUnknown, "task %s is gone with its conversation", id), nil
	}
	return x, nil, nil
}

// stop ends a task of the session, and says what became of it.
func (j *Jobs) stop(ctx context.Context, in tool.Invocation, id string) (job.Job, string, *tool.Result, error) {
	x, refused := j.find(in, id)
	if refused != nil {
		return x, "", refused, nil
	}
	if x.Over() {
		return x, fmt.Sprintf("Task %s had ended already: %s.", x.ID, x.Summary), nil, nil
	}
	if t := j.of(in.SessionID); t != nil {
		j.mu.Lock()
		t.ending[x.ID] = true
		j.mu.Unlock()
	}
	if err := j.board.Stop(x.ID); err != nil {
		return x, "", refuse(codeUnknown, "task %s is gone with its conversation", x.ID), nil
	}
	x, refused, err := j.await(ctx, in, x.ID, stopLimit)
	switch {
	case err != nil || refused != nil:
		return x, "", refused, err
	case !x.Over():
		return x, fmt.Sprintf("Task %s (%s) is being stopped, and has not ended yet.", x.ID, x.Description), nil, nil
	case x.Status != job.Stopped:
		return x, fmt.Sprintf("Task %s ended before it was stopped: %s.", x.ID, x.Summary), nil, nil
	}
	return x, fmt.Sprintf("Task %s (%s) was stopped.", x.ID, x.Description), nil, nil
}

// state says in a sentence how a task is doing.
func state(x job.Job) string {
	if !x.Over() {
		return fmt.Sprintf("Task %s (%s) is running, %s.", x.ID, x.Description, age(x))
	}
	return fmt.Sprintf("Task %s has ended as %s, %s: %s.", x.ID, x.Status, age(x), x.Summary)
}

// output is the end of what a task has said.
type output struct {
	said string
	// of says in a sentence what it is the end of, or why it is nothing.
	of string
}

// text is the output below a sentence on its task.
func (o output) text() string {
	if o.said == "" {
		return " " + o.of
	}
	return " " + o.of + "\n\n" + o.said
}

// outputOf reads the end of a task's output, of at most so many characters.
func outputOf(x job.Job, most int) output {
	if x.OutputFile == "" {
		return output{of: "There is no file with its output."}
	}
	got, err := x.Tail(int64(most) * utf8.UTFMax)
	if err != nil {
		return output{of: fmt.Sprintf("Its output cannot be shown: %v.", err)}
	}
	raw := []byte(got.Text)
	cut := got.Total > int64(len(raw))
	for cut && len(raw) > 0 && !utf8.RuneStart(raw[0]) {
		raw = raw[1:]
	}
	all := []rune(string(raw))
	last := all[max(0, len(all)-most):]
	switch {
	case got.Total == 0 && x.Over():
		return output{of: "It has given no output."}
	case got.Total == 0:
		return output{of: "It has given no output so far."}
	case cut || len(last) < len(all):
		return output{string(last), fmt.Sprintf("The end of its output, from %s (%d bytes):", x.OutputFile, got.Total)}
	}
	return output{string(last), fmt.Sprintf("Its output, from %s:", x.OutputFile)}
}

func deref(r *tool.Result) tool.Result {
	if r == nil {
		return tool.Result{}
	}
	return *r
}

// clip keeps short what quotes the model's own words.
func clip(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}
