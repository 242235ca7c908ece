package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"dsh/kernel"
	"dsh/kernel/attachment"
	"dsh/kernel/tool"
	"dsh/sdkproto"
	pb "dsh/sdkproto/plugin/pb/v1"
	"dsh/sdkproto/wirejson"
)

func (r *row) registerTools(o *kernel.Owner, specs []*pb.ToolSpec) error {
	if len(specs) == 0 {
		return nil
	}
	if r.in.Tools == nil {
		return missing("tools", "*tool.Registry")
	}
	for _, spec := range specs {
		t, err := newTool(r.sup, spec, r.in.Config.Host.callTimeout(), r.in.Spiller, r.in.Images)
		if err == nil {
			err = r.in.Tools.Register(o, t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remoteTool is a tool of a plugin.
type remoteTool struct {
	sup     *supervisor
	spec    tool.Spec
	checker *tool.Checker
	limit   time.Duration
	spiller tool.Spiller
	images  attachment.Store
}

var _ tool.Tool = (*remoteTool)(nil)

func newTool(sup *supervisor, s *pb.ToolSpec, limit time.Duration, spiller tool.Spiller, images attachment.Store) (*remoteTool, error) {
	checker, err := tool.NewChecker(s.GetParameters())
	if err != nil {
		return nil, fmt.Errorf("tool %q: the parameters: %w", s.GetName(), err)
	}
	subject := s.GetSubject()
	return &remoteTool{
		sup: sup, checker: checker, limit: limit, spiller: spiller, images: images,
		spec: tool.Spec{
			Name: s.GetName(), Description: s.GetDescription(), Parameters: s.GetParameters(),
			ReadOnly: s.GetReadOnly(), Destructive: s.GetDestructive(), Parallel: s.GetParallel(),
			Subject: tool.Subject{Rule: subject.GetRule(), Kind: subject.GetKind(), Member: subject.GetMember()},
		},
	}, nil
}

// Name spares those who only want to know it the rest.
func (t *remoteTool) Name() string { return t.spec.Name }

// Spec implements tool.Tool.
func (t *remoteTool) Spec() tool.Spec { return t.spec }

// CheckArguments checks a call against the schema, so that it reaches the plugin
// only when it is valid.
func (t *remoteTool) CheckArguments(arguments json.RawMessage) error {
	return t.checker.Check(arguments)
}

// Call implements tool.Tool.
func (t *remoteTool) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	var result *pb.ToolResult
	err := t.sup.call(ctx, t.limit, func(ctx context.Context, i *instance) error {
		stream, err := pb.NewToolServiceClient(i.conn).CallTool(ctx, &pb.CallToolRequest{
			Name: t.spec.Name, Arguments: in.Arguments, CallId: in.CallID,
			SessionId: in.SessionID, Cwd: in.CWD, Turn: int32(in.Turn), Step: int32(in.Step),
		})
		if err != nil {
			return err
		}
		said := throttle{every: progressEvery}
		for {
			event, err := stream.Recv()
			switch {
			case errors.Is(err, io.EOF):
				return errors.New("the call ended without a result")
			case err != nil:
				return err
			case event.GetResult() != nil:
				result = event.GetResult()
				return nil
			case event.GetProgress() != "" && in.Progress != nil && said.ok():
				in.Progress(clip(event.GetProgress(), maxProgress))
			}
		}
	})
	if err == nil {
		var r tool.Result
		if r, err = t.decode(ctx, result, in); err == nil {
			return r, nil
		}
	}
	var failed *failure
	switch {
	case ctx.Err() != nil:
		return tool.Result{}, err
	case errors.As(err, &failed) && failed.ended:
		return tool.ErrorResult("PluginError", "PLUGIN_UNAVAILABLE", "Error: "+failed.msg+notRepeated), nil
	case errors.As(err, &failed) && failed.timeout:
		return tool.ErrorResult("PluginError", "PLUGIN_TIMEOUT", "Error: "+failed.msg+notRepeated), nil
	}
	return tool.ErrorResult("PluginError", "PLUGIN_FAILED", "Error: "+err.Error()), nil
}

// notRepeated tells the model what became of a call that was lost (case B70).
const notRepeated = "\nThe call is not repeated; it may have taken effect. Check the present state before you repeat it."

// Bounds of what a call may say.
const (
	progressEvery = 50 * time.Millisecond
	maxProgress   = 500
	// maxText is how much text of a result the model gets (decision D18), in
	// characters.
	maxText = 30_000
)

// decode gives a result in the form of the kernel.
func (t *remoteTool) decode(ctx context.Context, wire *pb.ToolResult, in tool.Invocation) (tool.Result, error) {
	r, err := decodeResult(wire)
	if err != nil {
		return tool.Result{}, fmt.Errorf("the plugin %s gave a result that cannot be used: %w", t.sup.name, err)
	}
	r.Content = admit(ctx, t.images, r.Content)
	return tool.Bound(r, maxText, t.spiller, in), nil
}

func decodeResult(wire *pb.ToolResult) (tool.Result, error) {
	var r tool.Result
	if len(wire.GetContent()) > 0 {
		if err := wirejson.Unmarshal(wire.GetContent(), &r.Content); err != nil {
			return r, fmt.Errorf("content: %w", err)
		}
	}
	if meta := wire.GetMeta(); len(meta) > 0 {
		if !utf8.Valid(meta) || !wirejson.Valid(meta) {
			return r, errors.New("meta is no JSON value")
		}
		r.Meta = meta
	}
	if len(r.Content) == 0 {
		r.Content = []sdkproto.Block{sdkproto.Text("(no output)")}
	}
	r.IsError = wire.GetIsError()
	if r.IsError {
		e := wire.GetError()
		r.Error = &sdkproto.ToolError{Name: orElse(e.GetName(), "ToolError"), Code: orElse(e.GetCode(), "TOOL_FAILED")}
	}
	return r, nil
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// throttle lets one thing pass in a while.
type throttle struct {
	every time.Duration
	last  time.Time
}

func (t *throttle) ok() bool {
	now := time.Now()
	if now.Sub(t.last) < t.every {
		return false
	}
	t.last = now
	return true
}
