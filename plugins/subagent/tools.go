package subagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// provider names this kind of delegation (spec jsonrpc 2.7).
const provider = "spawn"

// Codes of the results of calls that failed.
const (
	codeArguments = "INVALID_ARGUMENTS"
	codeDepth     = "SUBAGENT_DEPTH"
	codeLimit     = "SUBAGENT_LIMIT"
	codeUnknown   = "UNKNOWN_SUBAGENT"
	codeAborted   = "ABORTED"
	codeFailed    = "SUBAGENT_FAILED"
	codeMaxTokens = "SUBAGENT_MAX_TOKENS"
	codeRefused   = "SUBAGENT_REFUSED"
)

func refuse(code, format string, args ...any) tool.Result {
	name := "SubagentError"
	switch code {
	case codeArguments:
		name = "ToolArgumentsError"
	case codeAborted:
		name = "AbortError"
	}
	return tool.ErrorResult(name, code, "Error: "+fmt.Sprintf(format, args...))
}

// spawn holds the arguments of subagent.
type spawn struct {
	Description string    `json:"description" jsonschema:"What the subagent is to do, in a few words."`
	Prompt      string    `json:"prompt" jsonschema:"The whole task. The subagent knows nothing of this conversation."`
	Background  *bool     `json:"run_in_background,omitzero" jsonschema:"Whether to go on without waiting for the answer, which then comes as a message."`
	Tools       *[]string `json:"tools,omitzero" jsonschema:"Names of the only tools that the subagent may use; by default all of yours."`
}

type nothing struct{}

// interrupt holds the arguments of interrupt_agent.
type interrupt struct {
	ID string `json:"id" jsonschema:"The id of the subagent."`
}

// Subagents offers the tools and runs the children.
type Subagents struct {
	config  Config
	owner   *kernel.Owner
	root    *kernel.Root
	log     *slog.Logger
	tools   *tool.Registry
	agents  agent.Registry
	hooks   *agent.Hooks
	spiller tool.Spiller
	offered []tool.Tool

	mu   sync.Mutex
	runs []*run // oldest first
	// changed is closed and replaced when a run has left.
	changed chan struct{}
}

// New makes the tools; register puts them where the agents find them.
func New(p Params) *Subagents {
	s := &Subagents{
		config: p.Config, owner: p.Self.Owner, root: p.Self.Root, log: p.Self.Log,
		tools: p.Tools, agents: p.Agents, hooks: p.Hooks, spiller: p.Spiller, changed: make(chan struct{}),
	}
	wait := "By default you wait for its answer, which is the result of the call; with run_in_background you go on, and a message tells you when it has ended."
	if p.Config.Background {
		wait = "By default you go on at once, and a message tells you when it has ended; with run_in_background false you wait for its answer, which is the result of the call."
	}
	s.offered = []tool.Tool{
		tool.Typed(tool.Spec{
			Name: "subagent",
			Description: "Starts another agent, with a conversation of its own, for a task that can be described in full. " +
				"Use it to search widely or to do independent work side by side: make several calls in one answer. " +
				"The subagent sees only the prompt, so name files, facts and what its answer should contain. " +
				"It has your working directory, and nobody can be asked for its permissions. " + wait,
			Parallel: true,
			// As long as there are no kinds of agents, a rule speaks of all of them.
			Subject: tool.Subject{Rule: "Agent"},
		}, s.spawn),
		tool.Typed(tool.Spec{
			Name:        "list_agents",
			Description: "Lists the subagents of this conversation that are still at work.",
			ReadOnly:    true, Parallel: true,
		}, s.list),
		tool.Typed(tool.Spec{
			Name:        "interrupt_agent",
			Description: "Ends a subagent that is still at work. What it has done stays done.",
			ReadOnly:    true, Parallel: true, // what it ends belongs to the session
		}, s.interrupt),
	}
	return s
}

func (s *Subagents) register() error {
	for _, t := range s.offered {
		if err := s.tools.Register(s.owner, t); err != nil {
			return err
		}
	}
	if s.hooks != nil {
		if err := s.hooks.OnContext(s.owner, contextOrder, "subagent", whatItIs); err != nil {
			return err
		}
	}
	// When the agents rest, their ends are still to be told.
	s.root.OnQuiesce(s.owner, "subagents", settleLimit, s.ended)
	return s.owner.OnClose("subagents", s.ended)
}

// contextOrder puts what an agent is in front of what it should know.
const contextOrder = 10

// whatItIs tells a child what it is (spec jsonrpc 10.7).
func whatItIs(_ context.Context, o agent.Opening) ([]sdkproto.Message, error) {
	if o.Depth == 0 {
		return nil, nil
	}
	return []sdkproto.Message{{
		Content: []sdkproto.Block{sdkproto.Text("You are a subagent: another agent has given you the task that follows. " +
			"It sees nothing of your work but your last answer, so put all it needs in there. You cannot ask anybody: " +
			"a call that would need a permission is refused. If you cannot do the task, say why.")},
		Source: sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: "subagent", Form: "instructions"},
	}}, nil
}

func (s *Subagents) spawn(ctx context.Context, in tool.Invocation, p spawn) (tool.Result, error) {
	if strings.TrimSpace(p.Prompt) == "" {
		return refuse(codeArguments, "the prompt is empty; describe the whole task"), nil
	}
	label := oneLine(p.Description)
	if label == "" {
		return refuse(codeArguments, "the description is empty; say in a few words what the subagent is to do"), nil
	}
	var filter *tool.Filter
	if p.Tools != nil {
		// An empty list means none, one that is absent all (case B24).
		filter = &tool.Filter{Allow: *p.Tools, AllowNone: len(*p.Tools) == 0}
		if err := s.agents.CheckTools(filter); err != nil {
			return refuse(codeArguments, "a subagent with these tools cannot be made: %v", err), nil
		}
	}
	parent, ok := s.agents.Get(in.SessionID)
	if !ok {
		return tool.Result{}, fmt.Errorf("delegate: session %s is not live", in.SessionID)
	}
	// The header knows the depth of a resumed child, too.
	depth := parent.Log().Header().DelegationDepth
	if depth >= s.config.MaxDepth {
		return refuse(codeDepth, "this agent is a subagent of depth %d, and delegation ends there (limit maxDepth); do the task yourself", depth), nil
	}
	background := s.config.Background
	if p.Background != nil {
		background = *p.Background
	}
	life := ctx
	if background {
		life = parent.Life()
	}
	r, err := s.admit(life, parent, label, background)
	var full *limitError
	if errors.As(err, &full) {
		return refuse(codeLimit, "%v", err), nil
	}
	if err != nil {
		return tool.Result{}, err
	}
	if err := s.open(ctx, r, depth+1, filter, in.Confinement); err != nil {
		s.leave(r)
		return tool.Result{}, err
	}
	go s.drive(r, p.Prompt)
	if background {
		return tool.TextResult("started subagent " + r.id), nil
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		timer := time.NewTimer(callLimit)
		defer timer.Stop()
		select {
		case <-r.done:
		case <-timer.C:
			return refuse(codeAborted, "the call was cancelled; subagent %s is still being stopped", r.id), nil
		}
	}
	return r.outcome.result(s, in), nil
}

func (s *Subagents) list(_ context.Context, in tool.Invocation, _ nothing) (tool.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, r := range s.runs {
		if r.parent.ID() == in.SessionID {
			lines = append(lines, fmt.Sprintf("%s, for %v", r, time.Since(r.began).Round(time.Second)))
		}
	}
	if len(lines) == 0 {
		return tool.TextResult("No subagent is at work."), nil
	}
	return tool.TextResult(strings.Join(lines, "\n")), nil
}

func (s *Subagents) interrupt(_ context.Context, in tool.Invocation, p interrupt) (tool.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.runs, func(r *run) bool { return r.id == p.ID && r.parent.ID() == in.SessionID })
	if i < 0 {
		return refuse(codeUnknown, "no subagent %s of this conversation is at work; list_agents tells which are", clip(p.ID, 100)), nil
	}
	s.runs[i].stopping = true
	s.runs[i].end(errInterrupted)
	return tool.TextResult(fmt.Sprintf("Subagent %s is being stopped.", p.ID)), nil
}

// maxLabel bounds a label, in characters.
const maxLabel = 100

// oneLine makes a label of what a model wrote.
func oneLine(s string) string { return clip(strings.Join(strings.Fields(s), " "), maxLabel) }

func clip(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}
