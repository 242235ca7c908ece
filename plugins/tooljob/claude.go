package tooljob

import (
	"context"
	"fmt"
	"time"

	"dsh/kernel/tool"
	"dsh/plugins/internal/dialect"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// usualWait is how long TaskOutput waits when the call does not say.
const usualWait = 30 * time.Second

// taskOutput holds the arguments of TaskOutput (spec stream-json 9).
type taskOutput struct {
	ID      string   `json:"task_id" jsonschema:"The id of the task."`
	Block   *bool    `json:"block,omitzero" jsonschema:"Whether to wait for the task to end; by default yes."`
	Timeout *float64 `json:"timeout,omitzero" jsonschema:"How long to wait at most, in milliseconds."`
}

// taskStop holds those of TaskStop.
type taskStop struct {
	TaskID  string `json:"task_id,omitzero" jsonschema:"The id of the task."`
	ShellID string `json:"shell_id,omitzero" jsonschema:"An old name for task_id."`
}

// Values of retrieval_status.
const (
	retrieved = "success"
	timedOut  = "timeout"
	notReady  = "not_ready"
)

// outputResult is the structured result of TaskOutput: the task as it was when the
// call returned.
type outputResult struct {
	Retrieval string       `json:"retrieval_status"`
	Task      taskOfResult `json:"task"`
}

type taskOfResult struct {
	ID          string `json:"task_id"`
	Type        string `json:"task_type"`
	Status      string `json:"status"`
	Description string `json:"description"`
	// Output is what the text shows of it.
	Output   string `json:"output"`
	ExitCode *int   `json:"exitCode,omitzero"`
}

// stopResult is the structured result of TaskStop.
type stopResult struct {
	Message string `json:"message"`
	ID      string `json:"task_id"`
	Type    string `json:"task_type"`
	Command string `json:"command,omitzero"`
}

func (j *Jobs) claude() []tool.Tool {
	return []tool.Tool{
		tool.Typed(tool.Spec{
			Name: "TaskOutput",
			Description: "Shows how a background task is doing, a shell command or an agent, and the end of its output so far. " +
				fmt.Sprintf("It waits for the task to end, for %v or as long as timeout says, up to %v; with block false it does not. ", usualWait, maxWait) +
				"A message tells you when a task has ended, so do not ask again and again.",
			ReadOnly: true, Parallel: true,
		}, j.taskOutput),
		tool.Typed(tool.Spec{
			Name: "TaskStop",
			// What this tool was called before (spec stream-json 9).
			Aliases:     []string{"KillShell", "KillBash"},
			Description: "Ends a background task, a shell command with all its processes or an agent. Its output so far stays.",
			ReadOnly:    true, Parallel: true, // what it ends belongs to the session
		}, j.taskStop),
	}
}

func (j *Jobs) taskOutput(ctx context.Context, in tool.Invocation, p taskOutput) (tool.Result, error) {
	limit := usualWait
	if p.Timeout != nil {
		if *p.Timeout < 0 {
			return dialect.Bare(*refuse(codeArguments, "timeout is %v; it must be 0 or more", *p.Timeout)), nil
		}
		limit = wait(*p.Timeout)
	}
	late := timedOut
	if p.Block != nil && !*p.Block {
		limit, late = 0, notReady
	}
	x, refused, err := j.await(ctx, in, p.ID, limit)
	if err != nil || refused != nil {
		return dialect.Bare(deref(refused)), err
	}
	out := outputOf(x, j.config.MaxOutput)
	res := outputResult{retrieved, taskOfResult{x.ID, x.Kind, x.Status, x.Description, out.said, x.ExitCode}}
	if !x.Over() {
		res.Retrieval = late
	}
	return withMeta(state(x)+out.text(), res)
}

func (j *Jobs) taskStop(ctx context.Context, in tool.Invocation, p taskStop) (tool.Result, error) {
	id := p.TaskID
	if id == "" {
		id = p.ShellID
	}
	if id == "" {
		return dialect.Bare(*refuse(codeArguments, "task_id is missing; say which task to stop")), nil
	}
	x, said, refused, err := j.stop(ctx, in, id)
	if err != nil || refused != nil {
		return dialect.Bare(deref(refused)), err
	}
	return withMeta(said, stopResult{said, x.ID, x.Kind, x.Command})
}

func withMeta(text string, v any) (tool.Result, error) {
	meta, err := wirejson.Marshal(v)
	return tool.Result{Content: []sdkproto.Block{sdkproto.Text(text)}, Meta: meta}, err
}
