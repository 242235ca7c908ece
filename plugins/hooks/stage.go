package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"dsh/kernel/approval"
	"dsh/kernel/hook"
	"dsh/kernel/tool"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// order puts hooks behind those of the profile's plugins, which are at
// tool.OrderGate-10, and in front of the rules, at tool.OrderGate+50.
const order = tool.OrderGate - 5

// Codes of the results of calls that did not run.
const (
	codeArguments = "INVALID_ARGUMENTS"
	codeDeferred  = "TOOL_DEFERRED"
	codeStopped   = "STOPPED_BY_HOOK"
)

// stage is the place of the hooks in the pipeline. A call of a tool that there is
// not is none that hooks hear of (spec stream-json 7.3 rule 1).
func (e *Engine) stage(ctx context.Context, t tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
	if tool.IsUnknown(t) {
		return next(ctx, t, in)
	}
	c := &call{e: e, name: nameOf(t)}
	if e.Any(in.CWD, hook.PreToolUse) {
		res, err := c.before(ctx, t, &in)
		if err != nil {
			return tool.Result{}, err
		}
		if res != nil {
			return c.finish(*res), nil
		}
	}
	began := time.Now()
	res, err := next(ctx, t, in)
	if ctx.Err() == nil {
		res, err = c.after(ctx, in, res, err, time.Since(began))
	}
	if err != nil {
		return res, err
	}
	return c.finish(res), nil
}

// call is one call on its way.
type call struct {
	e    *Engine
	name string
	// notes are texts for the model beside the result, end why the turn ends with it.
	notes []string
	end   *sdkproto.TurnEndReason
}

func (c *call) input(event string, in tool.Invocation) hook.Input {
	return hook.Input{Event: event, SessionID: in.SessionID, CWD: in.CWD, Match: c.name, ToolUseID: in.CallID, Members: map[string]any{
		"tool_name": c.name, "tool_input": in.Arguments, "tool_use_id": in.CallID,
	}}
}

// note keeps what hooks say to the model, and whether they end the turn.
func (c *call) note(event string, out hook.Outcome) {
	for _, text := range out.Context {
		c.notes = append(c.notes, reminder("%s:%s hook additional context: %s", event, c.name, text))
	}
	if out.Stopped && c.end == nil {
		c.end = stopped(out)
	}
}

// stopped is why a turn ends that a hook has ended.
func stopped(out hook.Outcome) *sdkproto.TurnEndReason {
	return &sdkproto.TurnEndReason{Kind: sdkproto.EndBlocked, Reason: &sdkproto.AbortReason{Kind: sdkproto.AbortHook, Reason: out.StopReason}}
}

// before tells of a call that is about to run. A result ends it there.
func (c *call) before(ctx context.Context, t tool.Tool, in *tool.Invocation) (*tool.Result, error) {
	out := c.e.Run(ctx, c.input(hook.PreToolUse, *in))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	c.note(hook.PreToolUse, out)
	switch {
	case out.Decision == hook.Deny && c.e.with.Policy == nil:
		// Nobody behind would act upon the advice.
		res := tool.ErrorResult("PermissionError", tool.CodePermissionDenied, cmp.Or(out.Reason, "A hook refused the call."))
		return &res, nil
	case out.Decision == hook.Deny:
		in.Advice = tool.Advice{Behavior: approval.Deny, Reason: cmp.Or(out.Reason, "A hook refused the call.")}
		return nil, nil
	case out.Decision == hook.Defer:
		res := tool.ErrorResult("DeferredError", codeDeferred, joinText("The call was put off by a hook and has not run.", out.Reason))
		res.EndTurn = &sdkproto.TurnEndReason{Kind: sdkproto.EndDeferred, Reason: &sdkproto.AbortReason{Kind: sdkproto.AbortHook, Reason: out.Reason}}
		return &res, nil
	case out.Stopped:
		res := tool.ErrorResult("AbortError", codeStopped, joinText("The call has not run, because a hook ended the turn.", out.StopReason))
		return &res, nil
	}
	if out.UpdatedInput != nil {
		if err := tool.CheckArguments(t, out.UpdatedInput); err != nil {
			res := tool.ErrorResult("ToolArgumentsError", codeArguments, clip(fmt.Sprintf("Error: the arguments that a hook made for %s are not valid: %v", c.name, err), 4000))
			return &res, nil
		}
		in.Arguments = out.UpdatedInput
	}
	if out.Decision != "" && rank(out.Decision) > rank(in.Advice.Behavior) {
		in.Advice = tool.Advice{Behavior: out.Decision, Reason: out.Reason}
	}
	return nil, nil
}

// after tells of a call that has run, or was refused.
func (c *call) after(ctx context.Context, in tool.Invocation, res tool.Result, err error, took time.Duration) (tool.Result, error) {
	event := hook.PostToolUse
	switch {
	case err == nil && res.IsError && res.Error != nil && res.Error.Code == tool.CodePermissionDenied:
		event = hook.PermissionDenied
	case err != nil, res.IsError:
		event = hook.PostToolUseFailure
	}
	if !c.e.Any(in.CWD, event) {
		return res, err
	}
	told := c.input(event, in)
	switch event {
	case hook.PostToolUse:
		told.Members["tool_response"] = response(res)
		told.Members["duration_ms"] = took.Milliseconds()
	case hook.PostToolUseFailure:
		told.Members["error"] = failure(res, err)
		told.Members["is_interrupt"] = false
		told.Members["duration_ms"] = took.Milliseconds()
	case hook.PermissionDenied:
		told.Members["reason"] = failure(res, nil)
	}
	out := c.e.Run(ctx, told)
	c.note(event, out)
	if out.Decision == hook.Block {
		c.notes = append(c.notes, reminder("%s:%s hook blocks: %s", event, c.name, cmp.Or(out.Reason, "it gives no reason")))
	}
	if out.Retry {
		c.notes = append(c.notes, reminder("A hook lets you try this call again."))
	}
	if event == hook.PostToolUse && out.UpdatedOutput != nil {
		res.Content, res.Meta = replaced(out.UpdatedOutput)
	}
	if err != nil && (len(c.notes) > 0 || c.end != nil) {
		// An error has no place for what the hooks say; its words are the pipeline's.
		res, err = tool.ErrorResult("ToolError", "TOOL_FAILED", fmt.Sprintf("Error: %s failed: %v", c.name, err)), nil
	}
	return res, err
}

// finish puts what the hooks say to a result.
func (c *call) finish(res tool.Result) tool.Result {
	if len(c.notes) > 0 {
		res.Content = slices.Clone(res.Content)
		for _, text := range c.notes {
			res.Content = append(res.Content, sdkproto.Text(text))
		}
	}
	if res.EndTurn == nil {
		res.EndTurn = c.end
	}
	return res
}

// reminder is a text for the model that is not part of what stands beside it.
func reminder(format string, args ...any) string {
	return "<system-reminder>\n" + fmt.Sprintf(format, args...) + "\n</system-reminder>"
}

func joinText(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + " " + reason
}

// failure is the text of a result or an error.
func failure(res tool.Result, err error) string {
	if err != nil {
		return err.Error()
	}
	return sdkproto.TextOf(res.Content)
}

// block is a part of a result, as hooks see it.
type block struct {
	Type string `json:"type"`
	Text string `json:"text,omitzero"`
}

// response is what hooks see of a result: its structured form if it has one, else
// its text, else the list of its blocks without what is in their files.
func response(res tool.Result) any {
	if res.Meta != nil {
		return res.Meta
	}
	if !slices.ContainsFunc(res.Content, func(b sdkproto.Block) bool { return b.Type != sdkproto.BlockText }) {
		return sdkproto.TextOf(res.Content)
	}
	list := make([]block, len(res.Content))
	for i, b := range res.Content {
		list[i] = block{string(b.Type), b.Text}
	}
	return list
}

// replaced is the content that a hook has put in the place of a result: a text, a
// list of text blocks, an object with such a content as MCP servers give, or else
// the JSON text itself. An object stands for the structured result, too.
func replaced(output json.RawMessage) (content []sdkproto.Block, meta json.RawMessage) {
	var text string
	if wirejson.Unmarshal(output, &text) == nil {
		return []sdkproto.Block{sdkproto.Text(text)}, nil
	}
	if blocks, ok := textBlocks(output); ok {
		return blocks, nil
	}
	var result struct {
		Content json.RawMessage `json:"content"`
	}
	if wirejson.Unmarshal(output, &result) == nil {
		meta = output
		if blocks, ok := textBlocks(result.Content); ok {
			return blocks, meta
		}
	}
	return []sdkproto.Block{sdkproto.Text(strings.TrimSpace(string(output)))}, meta
}

func textBlocks(raw json.RawMessage) ([]sdkproto.Block, bool) {
	var list []block
	if isNull(raw) || wirejson.Unmarshal(raw, &list) != nil {
		return nil, false
	}
	blocks := make([]sdkproto.Block, len(list))
	for i, b := range list {
		if b.Type != "text" {
			return nil, false
		}
		blocks[i] = sdkproto.Text(b.Text)
	}
	return blocks, true
}

// nameOf gives a tool's name without its schema, where it can.
func nameOf(t tool.Tool) string {
	if n, ok := t.(interface{ Name() string }); ok {
		return n.Name()
	}
	return t.Spec().Name
}
