package streamjson

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"dsh/kernel/agent"
	"dsh/kernel/compaction"
	"dsh/plugins/streamjson/project"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// local is a slash command that the front end answers itself, without a turn of
// the model (spec stream-json 2.1). Its name is taken: a command of a file or of a
// server under the same name is not reached.
type local struct {
	streamjson.CommandInfo
	// run gives the text of the answer.
	run func(ctx context.Context, t *turn, args string) (text string, err error)
	// quiet ones have no line of their own beside the result.
	quiet bool
}

func (s *Server) locals() []local {
	info := func(name, description, hint string) streamjson.CommandInfo {
		return streamjson.CommandInfo{Name: name, Description: description, ArgumentHint: hint, Builtin: true}
	}
	list := []local{
		{info("clear", "Begin a new conversation; the old one stays stored", ""), s.clear, true},
		{info("context", "Show what the last model request held", ""), s.showContext, false},
		{info("cost", "Show what this conversation has cost so far", ""), s.showCost, false},
		{info("help", "List the commands", ""), s.showHelp, false},
		{info("model", "Show the model, or choose another one", "[model]"), s.chooseModel, false},
	}
	if s.Compactor != nil {
		list = slices.Insert(list, 1, local{info("compact", "Put a summary in the place of the conversation so far", "[what to keep in mind]"), s.compact, true})
	}
	return list
}

func (s *Server) localNamed(name string) (local, bool) {
	list := s.locals()
	if at := slices.IndexFunc(list, func(l local) bool { return l.Name == name }); at >= 0 {
		return list[at], true
	}
	return local{}, false
}

// commandInfos lists all commands for the client, the built-in ones first.
func (s *Server) commandInfos() (list []streamjson.CommandInfo) {
	for _, l := range s.locals() {
		list = append(list, l.CommandInfo)
	}
	if s.Commands == nil {
		return list
	}
	for _, c := range s.Commands.List() {
		if _, taken := s.localNamed(c.Name); !taken {
			list = append(list, streamjson.CommandInfo{Name: c.Name, Description: c.Description, ArgumentHint: c.ArgumentHint})
		}
	}
	return list
}

// errAborted is why the work on a built-in command is given up.
var errAborted = errors.New("the request was aborted")

// runLocal answers a built-in command. An interrupt ends it like a turn.
func (s *Server) runLocal(ctx context.Context, t *turn, c local, args string) {
	work := ctx
	ctx, stop := context.WithCancelCause(work)
	defer stop(nil)
	s.with(func() { t.stop = stop })
	if s.isInterrupted(t) { // it came before there was anything to stop
		stop(errAborted)
	}
	text := ""
	err := fmt.Errorf("the command /%s failed; standard error says more", c.Name)
	s.contain("the command "+c.Name, func() { text, err = c.run(ctx, t, args) })
	aborted := ctx.Err() != nil && err != nil
	s.with(func() { t.stop = nil })
	if err := s.sub.Drain(work); err != nil { // what it has appended is told before its result
		s.Log.Debug("the end of a command was not waited for", "command", c.Name, "error", err)
	}
	var end *project.End
	switch {
	case aborted:
		end = s.local(t, textAborted, true)
		end.Result.TerminalReason = streamjson.ReasonAbortedStreaming
	case err != nil:
		end = s.local(t, fmt.Sprintf("/%s: %v", c.Name, err), true)
	case c.quiet:
		end = s.local(t, text, false)
	default:
		s.view.with(func(p *project.Projector) {
			p.Say(text)
			end = p.Local(project.Turn{UUID: t.m.id, Origin: t.m.origin, Began: t.began}, text, false)
		})
	}
	end.Result.LocalCommand = c.Name
	s.conclude(work, t, end)
}

func (s *Server) showContext(ctx context.Context, _ *turn, _ string) (string, error) {
	usage := s.contextUsage(ctx)
	return contextText(&usage), nil
}

func (s *Server) showCost(context.Context, *turn, string) (string, error) { return s.costText(), nil }

// costText is what the conversation has cost, and what each model has used in this
// process (cases B86, B87).
func (s *Server) costText() string {
	var total float64
	var models map[string]streamjson.ModelUsage
	s.view.with(func(p *project.Projector) { total, models = p.Total(), p.Models() })
	var b strings.Builder
	fmt.Fprintf(&b, "Total cost: $%.4f", total)
	for _, name := range slices.Sorted(maps.Keys(models)) {
		m := models[name]
		fmt.Fprintf(&b, "\n%s: %d input, %d output, %d cache read, %d cache write ($%.4f)",
			name, m.InputTokens, m.OutputTokens, m.CacheReadInputTokens, m.CacheCreationInputTokens, m.CostUSD)
	}
	return b.String()
}

func (s *Server) showHelp(context.Context, *turn, string) (string, error) {
	var b strings.Builder
	b.WriteString("Commands:")
	for _, c := range s.commandInfos() {
		fmt.Fprintf(&b, "\n/%s", c.Name)
		if c.ArgumentHint != "" {
			b.WriteString(" " + c.ArgumentHint)
		}
		if c.Description != "" {
			b.WriteString(": " + c.Description)
		}
	}
	return b.String(), nil
}

// chooseModel is set_model as a command.
func (s *Server) chooseModel(_ context.Context, _ *turn, args string) (string, error) {
	if args == "" {
		s.mu.Lock()
		route := s.route
		s.mu.Unlock()
		names := []string{}
		for _, m := range s.modelInfos() {
			names = append(names, m.Value)
		}
		return fmt.Sprintf("The model is %s. Choose another with /model NAME, one of %s or any id.", s.modelID(route), strings.Join(names, ", ")), nil
	}
	to, err := s.resolve(args)
	if err != nil {
		return "", err
	}
	if _, err := s.change(s.model(to)); err != nil {
		return "", err
	}
	return fmt.Sprintf("The model is %s from now on.", s.modelID(to)), nil
}

// compact is /compact (spec stream-json 11.9): the log and the lines say what
// becomes of it.
func (s *Server) compact(ctx context.Context, _ *turn, args string) (string, error) {
	s.mu.Lock()
	a := s.agent
	s.mu.Unlock()
	rests, ok := a.(agent.Resting)
	if !ok {
		return "", errors.New("this agent's history cannot be worked on")
	}
	id := uuid.NewString()
	var done compaction.Done
	for {
		err := rests.AtRest(ctx, func(ctx context.Context, step agent.Step) (err error) {
			s.note(a, sdkproto.TypeCommandRun, sdkproto.CommandRun{CommandID: id, Name: "compact", Args: args, Source: sdkproto.SourceUser})
			done, err = s.Compactor.Compact(ctx, step, compaction.Order{Instructions: args, CommandID: id})
			outcome := sdkproto.CommandDone{CommandID: id, Kind: "text"}
			if err != nil {
				outcome.Kind, outcome.Text = "error", err.Error()
			}
			s.note(a, sdkproto.TypeCommandDone, outcome)
			return err
		})
		switch {
		case errors.Is(err, agent.ErrBusy): // with a turn that nobody asked for
			if err := a.WhenIdle(ctx); err != nil {
				return "", err
			}
			continue
		case errors.Is(err, compaction.ErrNothing):
			return "There is nothing to compact yet.", nil
		case err != nil:
			return "", cmp.Or(context.Cause(ctx), err)
		}
		return fmt.Sprintf("Compacted: a request held about %d tokens and now holds about %d.", done.Before, done.After), nil
	}
}
