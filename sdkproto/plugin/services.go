package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"dsh/sdkproto"
	pb "dsh/sdkproto/plugin/pb/v1"
	"dsh/sdkproto/wirejson"
)

type toolServer struct {
	pb.UnimplementedToolServiceServer
	server *server
}

func toolsOf(p *Plugin) ([]Tool, bool) { return p.Tools, p.Tools != nil }

func (t toolServer) ListTools(context.Context, *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	tools, err := offered(t.server, toolsOf)
	if err != nil {
		return nil, err
	}
	out := &pb.ListToolsResponse{}
	for _, one := range tools {
		if c, ok := one.(interface{ check() error }); ok {
			if err := c.check(); err != nil {
				return nil, err
			}
		}
		spec := one.Spec()
		wire := &pb.ToolSpec{
			Name: spec.Name, Description: spec.Description, Parameters: spec.Parameters,
			ReadOnly: spec.ReadOnly, Destructive: spec.Destructive, Parallel: spec.Parallel,
		}
		if s := spec.Subject; s != (Subject{}) {
			wire.Subject = &pb.Subject{Rule: s.Rule, Kind: s.Kind, Member: s.Member}
		}
		out.Tools = append(out.Tools, wire)
	}
	return out, nil
}

func (t toolServer) CallTool(r *pb.CallToolRequest, out grpc.ServerStreamingServer[pb.CallToolResponse]) error {
	tools, err := offered(t.server, toolsOf)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(tools, func(one Tool) bool { return one.Spec().Name == r.GetName() })
	if i < 0 {
		return status.Errorf(codes.NotFound, "there is no tool %q", r.GetName())
	}
	// Progress may be told from any goroutine, and also too late.
	var mu sync.Mutex
	over := false
	progress := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			// What cannot be sent is of no use to anybody any more.
			_ = out.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Progress{Progress: valid(line)}})
		}
	}
	result, err := tools[i].Call(out.Context(), Call{
		SessionID: r.GetSessionId(), CWD: r.GetCwd(), CallID: r.GetCallId(), Turn: int(r.GetTurn()), Step: int(r.GetStep()),
		Arguments: r.GetArguments(), Progress: progress,
	})
	mu.Lock()
	defer mu.Unlock()
	over = true
	if err != nil {
		return err
	}
	wire, err := encodeResult(&result)
	if err != nil {
		return err
	}
	return out.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Result{Result: wire}})
}

func encodeResult(r *Result) (*pb.ToolResult, error) {
	content, err := wirejson.Marshal(r.Content)
	if err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	wire := &pb.ToolResult{Content: content, IsError: r.IsError, Meta: r.Meta}
	if r.Error != nil {
		wire.Error = &pb.ToolError{Name: r.Error.Name, Code: r.Error.Code}
	}
	return wire, nil
}

type modelServer struct {
	pb.UnimplementedModelServiceServer
	server *server
}

func modelsOf(p *Plugin) (*Models, bool) { return p.Models, p.Models != nil }

func (m modelServer) ListModels(context.Context, *pb.ListModelsRequest) (*pb.ListModelsResponse, error) {
	models, err := offered(m.server, modelsOf)
	if err != nil {
		return nil, err
	}
	out := &pb.ListModelsResponse{}
	for _, p := range models.Providers {
		wire := &pb.Provider{
			Id: p.ID, AnyModel: p.AnyModel, ReasoningEfforts: p.ReasoningEfforts,
			DefaultReasoningEffort: p.DefaultReasoningEffort, DefaultMaxTokens: p.DefaultMaxTokens,
		}
		for _, one := range p.Models {
			model := &pb.Model{Id: one.ID, ContextWindow: one.ContextWindow, Images: one.Images}
			if c := one.Price; c != nil {
				model.Price = &pb.Price{Currency: c.Currency, Input: c.Input, CacheRead: c.CacheRead, Output: c.Output}
			}
			wire.Models = append(wire.Models, model)
		}
		out.Providers = append(out.Providers, wire)
	}
	return out, nil
}

func (m modelServer) Stream(r *pb.StreamRequest, out grpc.ServerStreamingServer[pb.StreamResponse]) error {
	models, err := offered(m.server, modelsOf)
	if err != nil {
		return err
	}
	request := ModelRequest{SessionID: r.GetSessionId()}
	if err := wirejson.Unmarshal(r.GetHeader(), &request.Header); err != nil {
		return status.Errorf(codes.InvalidArgument, "header: %v", err)
	}
	if err := wirejson.Unmarshal(r.GetMessages(), &request.Messages); err != nil {
		return status.Errorf(codes.InvalidArgument, "messages: %v", err)
	}
	for chunk, err := range models.Stream(out.Context(), request) {
		if failed := (*ModelError)(nil); errors.As(err, &failed) {
			return out.Send(&pb.StreamResponse{Error: &pb.ModelError{
				Code: failed.Code, Message: valid(failed.Message), Status: int32(failed.Status),
				RetryAfterMs: failed.RetryAfter.Milliseconds(), RequestId: valid(failed.RequestID),
			}})
		}
		if err != nil {
			return err
		}
		text, err := chunk.AppendJSON(nil)
		if err != nil {
			return err
		}
		if err := out.Send(&pb.StreamResponse{Chunks: [][]byte{text}}); err != nil {
			return err
		}
	}
	return nil
}

type hookServer struct {
	pb.UnimplementedHookServiceServer
	server *server
}

func (h hookServer) Handle(ctx context.Context, r *pb.HandleRequest) (*pb.HandleResponse, error) {
	hooks, err := offered(h.server, func(p *Plugin) (*Hooks, bool) { return p.Hooks, p.Hooks != nil })
	if err != nil {
		return nil, err
	}
	if !slices.Contains(hooks.names(), r.GetEvent()) {
		return nil, status.Errorf(codes.Unimplemented, "there is no hook for %q", r.GetEvent())
	}
	if r.GetEvent() == HookPrompt {
		var p Prompt
		if err := wirejson.Unmarshal(r.GetData(), &p); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "data: %v", err)
		}
		v, err := hooks.Prompt(ctx, p)
		if err != nil {
			return nil, err
		}
		out := &pb.HandleResponse{Deny: v.Block, Reason: valid(v.Reason)}
		for _, text := range v.Context {
			out.Context = append(out.Context, valid(text))
		}
		return out, nil
	}
	var e ToolEvent
	if err := wirejson.Unmarshal(r.GetData(), &e); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "data: %v", err)
	}
	if r.GetEvent() == HookToolBefore {
		b, err := hooks.BeforeTool(ctx, e.ToolCall)
		if err != nil {
			return nil, err
		}
		return &pb.HandleResponse{Deny: b.Deny, Reason: valid(b.Reason), Arguments: b.Arguments}, nil
	}
	if e.Result == nil {
		return nil, status.Error(codes.InvalidArgument, "data: there is no result")
	}
	a, err := hooks.AfterTool(ctx, e.ToolCall, Result{Content: e.Result.Content, IsError: e.Result.IsError})
	if err != nil {
		return nil, err
	}
	out := &pb.HandleResponse{Deny: a.Deny, Reason: valid(a.Reason)}
	if a.Result != nil {
		if out.Result, err = encodeResult(a.Result); err != nil {
			return nil, err
		}
	}
	return out, nil
}

type promptServer struct {
	pb.UnimplementedPromptServiceServer
	server *server
}

func sectionsOf(p *Plugin) ([]Section, bool) { return p.Sections, p.Sections != nil }

func (s promptServer) ListSections(context.Context, *pb.ListSectionsRequest) (*pb.ListSectionsResponse, error) {
	sections, err := offered(s.server, sectionsOf)
	if err != nil {
		return nil, err
	}
	out := &pb.ListSectionsResponse{}
	for _, one := range sections {
		out.Names = append(out.Names, one.Name)
	}
	return out, nil
}

func (s promptServer) Render(ctx context.Context, r *pb.RenderRequest) (*pb.RenderResponse, error) {
	sections, err := offered(s.server, sectionsOf)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(sections, func(one Section) bool { return one.Name == r.GetName() })
	if i < 0 {
		return nil, status.Errorf(codes.NotFound, "there is no section %q", r.GetName())
	}
	text, err := sections[i].Text(ctx, Facts{
		SessionID: r.GetSessionId(), CWD: r.GetCwd(), Provider: r.GetProvider(), Model: r.GetModel(), Tools: r.GetTools(),
	})
	if err != nil {
		return nil, err
	}
	return &pb.RenderResponse{Text: valid(text)}, nil
}

type commandServer struct {
	pb.UnimplementedCommandServiceServer
	server *server
}

func commandsOf(p *Plugin) ([]Command, bool) { return p.Commands, p.Commands != nil }

func (c commandServer) ListCommands(context.Context, *pb.ListCommandsRequest) (*pb.ListCommandsResponse, error) {
	commands, err := offered(c.server, commandsOf)
	if err != nil {
		return nil, err
	}
	out := &pb.ListCommandsResponse{}
	for _, one := range commands {
		out.Commands = append(out.Commands, &pb.Command{Name: one.Name, Description: one.Description, ArgumentHint: one.ArgumentHint})
	}
	return out, nil
}

func (c commandServer) Expand(ctx context.Context, r *pb.ExpandRequest) (*pb.ExpandResponse, error) {
	commands, err := offered(c.server, commandsOf)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(commands, func(one Command) bool { return one.Name == r.GetName() })
	if i < 0 {
		return nil, status.Errorf(codes.NotFound, "there is no command %q", r.GetName())
	}
	blocks, err := commands[i].Expand(ctx, Use{SessionID: r.GetSessionId(), CWD: r.GetCwd(), Args: r.GetArgs()})
	if err != nil {
		return nil, err
	}
	content, err := wirejson.Marshal(blocks)
	if err != nil {
		return nil, fmt.Errorf("encode the content: %w", err)
	}
	return &pb.ExpandResponse{Content: content}, nil
}

type eventServer struct {
	pb.UnimplementedEventSinkServiceServer
	server *server
}

func (e eventServer) Consume(in grpc.BidiStreamingServer[pb.ConsumeRequest, pb.ConsumeResponse]) error {
	events, err := offered(e.server, func(p *Plugin) (*Events, bool) { return p.Events, p.Events != nil })
	if err != nil {
		return err
	}
	for {
		r, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var event sdkproto.Event
		if err := wirejson.Unmarshal(r.GetEvent(), &event); err != nil {
			return status.Errorf(codes.InvalidArgument, "event %d of session %s: %v", r.GetSeq(), r.GetSessionId(), err)
		}
		if err := events.Handle(in.Context(), r.GetSessionId(), event); err != nil {
			return err
		}
		if err := in.Send(&pb.ConsumeResponse{SessionId: r.GetSessionId(), Seq: r.GetSeq()}); err != nil {
			return err
		}
	}
}
