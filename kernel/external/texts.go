package external

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dsh/kernel"
	"dsh/kernel/command"
	"dsh/kernel/prompt"
	"dsh/sdkproto"
	pb "dsh/sdkproto/plugin/pb/v1"
	"dsh/sdkproto/wirejson"
)

// renderLimit bounds the rendering of a section, for which a session's start
// waits.
const renderLimit = 2 * time.Second

func (r *row) registerSections(o *kernel.Owner, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if r.in.Sections == nil {
		return missing("prompt sections", "*prompt.Sections")
	}
	for _, name := range names {
		section := func(f prompt.Facts) string { return r.render(name, f) }
		if err := r.in.Sections.Register(o, r.entry.ID+" "+name, section); err != nil {
			return err
		}
	}
	return nil
}

func (r *row) render(name string, f prompt.Facts) string {
	var text string
	err := r.sup.call(r.in.Self.Owner.Context(), renderLimit, func(ctx context.Context, i *instance) error {
		answer, err := pb.NewPromptServiceClient(i.conn).Render(ctx, &pb.RenderRequest{
			Name: name, SessionId: f.SessionID, Cwd: f.CWD, Provider: f.Provider, Model: f.Model, Tools: f.Tools,
		})
		text = answer.GetText()
		return err
	})
	if err == nil && len(text) > maxSection {
		err = fmt.Errorf("it has %d bytes, more than %d", len(text), maxSection)
	}
	if err != nil {
		r.in.Self.Log.Warn("a section of the system prompt is left out", "section", name, "session", f.SessionID, "error", err)
		return ""
	}
	return text
}

// maxSection bounds a section of the system prompt, in bytes.
const maxSection = 64 << 10

func (r *row) registerCommands(o *kernel.Owner, commands []*pb.Command) error {
	if len(commands) == 0 {
		return nil
	}
	if r.in.Commands == nil {
		return missing("slash commands", "*command.Registry")
	}
	for _, c := range commands {
		if err := r.in.Commands.Register(o, command.Command{
			Name: c.GetName(), Description: c.GetDescription(), ArgumentHint: c.GetArgumentHint(),
			Expand: func(ctx context.Context, in command.Invocation) ([]sdkproto.Block, error) {
				return r.expand(ctx, c.GetName(), in)
			},
		}); err != nil {
			return err
		}
	}
	return nil
}

func (r *row) expand(ctx context.Context, name string, in command.Invocation) ([]sdkproto.Block, error) {
	var content []sdkproto.Block
	err := r.sup.call(ctx, r.in.Config.Host.callTimeout(), func(ctx context.Context, i *instance) error {
		answer, err := pb.NewCommandServiceClient(i.conn).Expand(ctx, &pb.ExpandRequest{Name: name, Args: in.Args, SessionId: in.SessionID, Cwd: in.CWD})
		if err != nil {
			return err
		}
		if err := wirejson.Unmarshal(answer.GetContent(), &content); err != nil {
			return fmt.Errorf("content: %w", err)
		}
		if len(content) == 0 {
			return errors.New("it gave no content")
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("command /%s: %w", name, err)
	}
	return admit(ctx, r.in.Images, content), nil
}
