package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/tool"
	"dsh/sdkproto/plugin"
	pb "dsh/sdkproto/plugin/pb/v1"
	"dsh/sdkproto/wirejson"
)

// orderHooks puts the hooks of plugins around rules and modes: those judge what
// the hooks have made of a call.
const orderHooks = tool.OrderGate - 10

func (r *row) registerHooks(o *kernel.Owner, events []string) error {
	h := &hooks{row: r, limit: r.in.Config.Host.callTimeout(), refuse: r.required()}
	if word := r.in.Config.Host.HookFailure; word != "" {
		h.refuse = word == refuse
	}
	for _, event := range events {
		switch event {
		case plugin.HookToolBefore:
			h.before = true
		case plugin.HookToolAfter:
			h.after = true
		case plugin.HookPrompt:
			h.prompt = true
		default:
			r.in.Self.Log.Warn("the plugin has a hook that this harness does not know; it is not called", "hook", event)
		}
	}
	if h.before || h.after {
		if r.in.Pipeline == nil {
			return missing("hooks on tool calls", "*tool.Pipeline")
		}
		if err := r.in.Pipeline.Use(o, orderHooks, "plugin "+r.entry.ID, h.stage); err != nil {
			return err
		}
	}
	if h.prompt {
		if r.in.Hooks == nil {
			return missing("hooks on prompts", "*agent.Hooks")
		}
		return r.in.Hooks.OnPrompt(o, 0, "plugin "+r.entry.ID, h.admit)
	}
	return nil
}

// hooks asks a plugin about calls and prompts.
type hooks struct {
	row                   *row
	limit                 time.Duration
	before, after, prompt bool
	// refuse: what could not be judged does not pass.
	refuse bool
}

func (h *hooks) handle(ctx context.Context, event string, data any) (*pb.HandleResponse, error) {
	text, err := wirejson.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("encode the data of a hook: %w", err)
	}
	var answer *pb.HandleResponse
	err = h.row.sup.call(ctx, h.limit, func(ctx context.Context, i *instance) (err error) {
		answer, err = pb.NewHookServiceClient(i.conn).Handle(ctx, &pb.HandleRequest{Event: event, Data: text})
		return err
	})
	return answer, err
}

// stage implements tool.Stage.
func (h *hooks) stage(ctx context.Context, t tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
	if tool.IsUnknown(t) {
		return next(ctx, t, in) // the protocol tells of calls that can run
	}
	e := plugin.ToolEvent{ToolCall: plugin.ToolCall{
		SessionID: in.SessionID, CWD: in.CWD, CallID: in.CallID, Turn: in.Turn, Step: in.Step,
		Tool: name(t), Arguments: in.Arguments,
	}}
	if h.before {
		arguments, denied, err := h.judge(ctx, t, e)
		if err != nil || denied != nil {
			return orZero(denied), err
		}
		if arguments != nil {
			in.Arguments, e.Arguments = arguments, arguments
		}
	}
	result, err := next(ctx, t, in)
	if err != nil || !h.after {
		return result, err
	}
	return h.review(ctx, e, result)
}

// judge asks about a call before it runs: it gives other arguments, or a result
// that refuses it.
func (h *hooks) judge(ctx context.Context, t tool.Tool, e plugin.ToolEvent) (arguments json.RawMessage, denied *tool.Result, err error) {
	answer, err := h.handle(ctx, plugin.HookToolBefore, e)
	if err == nil && !answer.GetDeny() && len(answer.GetArguments()) > 0 {
		arguments = answer.GetArguments()
		if bad := acceptable(t, arguments); bad != nil {
			err = fmt.Errorf("the plugin %s gave arguments that the tool does not take: %w", h.row.entry.ID, bad)
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case err != nil && h.refuse:
		return nil, h.refusal("The call was refused, because it could not be judged: " + err.Error()), nil
	case err != nil:
		h.row.in.Self.Log.Warn("a hook failed; the call goes on without it", "tool", e.Tool, "error", err)
		return nil, nil, nil
	case answer.GetDeny():
		return nil, h.refusal(fmt.Sprintf("The plugin %s refused the call: %s", h.row.entry.ID, orElse(answer.GetReason(), "it gives no reason"))), nil
	}
	return arguments, nil, nil
}

// review asks about a result before the model sees it.
func (h *hooks) review(ctx context.Context, e plugin.ToolEvent, result tool.Result) (tool.Result, error) {
	e.Result = &plugin.Outcome{Content: result.Content, IsError: result.IsError}
	answer, err := h.handle(ctx, plugin.HookToolAfter, e)
	var other tool.Result
	if err == nil && answer.GetResult() != nil {
		other, err = decodeResult(answer.GetResult())
	}
	switch {
	case ctx.Err() != nil:
		return result, nil
	case err != nil && h.refuse:
		return *h.refusal("The call has run; its result is withheld, because it could not be judged: " + err.Error()), nil
	case err != nil:
		h.row.in.Self.Log.Warn("a hook failed; the result goes on without it", "tool", e.Tool, "error", err)
		return result, nil
	case answer.GetDeny():
		return *h.refusal(fmt.Sprintf("The call has run; the plugin %s withheld its result: %s", h.row.entry.ID, orElse(answer.GetReason(), "it gives no reason"))), nil
	case answer.GetResult() != nil:
		other.Content = admit(ctx, h.row.in.Images, other.Content)
		return other, nil
	}
	return result, nil
}

func (h *hooks) refusal(text string) *tool.Result {
	r := tool.ErrorResult("ToolDeniedError", "DENIED_BY_PLUGIN", "Error: "+text)
	return &r
}

// admit implements agent.Admit.
func (h *hooks) admit(ctx context.Context, p agent.Prompt) (agent.Verdict, error) {
	answer, err := h.handle(ctx, plugin.HookPrompt, plugin.Prompt{
		SessionID: p.SessionID, CWD: p.CWD, Depth: p.Depth, First: p.First,
		Provider: p.Route.Provider, Model: p.Route.Model, Message: p.Message,
	})
	if err != nil && h.refuse && ctx.Err() == nil {
		return agent.Verdict{Block: true, Reason: "the prompt could not be judged: " + err.Error()}, nil
	}
	if err != nil {
		return agent.Verdict{}, err
	}
	return agent.Verdict{Block: answer.GetDeny(), Reason: answer.GetReason(), Context: slices.Clone(answer.GetContext())}, nil
}

// acceptable checks arguments that a hook has made as the pipeline checks those
// of a model.
func acceptable(t tool.Tool, arguments json.RawMessage) error {
	var members map[string]any
	if err := wirejson.UnmarshalStrict(arguments, &members); err != nil {
		return err
	}
	if members == nil {
		return errors.New("not a JSON object")
	}
	if c, ok := t.(interface {
		CheckArguments(json.RawMessage) error
	}); ok {
		return c.CheckArguments(arguments)
	}
	return nil
}

func name(t tool.Tool) string {
	if n, ok := t.(interface{ Name() string }); ok {
		return n.Name()
	}
	return t.Spec().Name
}

func orZero(r *tool.Result) tool.Result {
	if r == nil {
		return tool.Result{}
	}
	return *r
}
