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
	"dsh/kernel/approval"
	"dsh/kernel/job"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/internal/dialect"
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
	codeRunning   = "SUBAGENT_RUNNING"
	codeKind      = "UNKNOWN_AGENT_TYPE"
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
	Resume      string    `json:"resume,omitzero" jsonschema:"The id of a subagent of this conversation that has ended: it goes on with the prompt, and knows what it knew. It keeps its tools."`
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
	store   session.Store
	board   *job.Board
	policy  approval.Policy
	hooks   *agent.Hooks
	spiller tool.Spiller
	kinds   *agent.Definitions
	models  llm.Models
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
		tools: p.Tools, agents: p.Agents, store: p.Store, board: p.Board, policy: p.Policy, hooks: p.Hooks, spiller: p.Spiller, kinds: p.Kinds, models: p.Models, changed: make(chan struct{}),
	}
	if p.Config.Dialect == dialect.Claude {
		s.offered = []tool.Tool{s.claude()}
		return s
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
				"It has your working directory, and nobody can be asked for its permissions. " + wait + " " +
				"With resume a subagent that has ended goes on where it was; list_agents tells the ids.",
			Parallel: true,
			// As long as there are no kinds of agents, a rule speaks of all of them.
			Subject: tool.Subject{Rule: "Agent"},
		}, s.spawn),
		tool.Typed(tool.Spec{
			Name:        "list_agents",
			Description: "Lists the subagents of this conversation: those that are still at work, and those that have ended, which can be taken up again.",
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
	if s.config.Dialect == dialect.Claude && s.kinds != nil {
		if err := s.kinds.Register(s.owner, generalPurpose()); err != nil {
			return err
		}
	}
	if s.hooks != nil {
		if err := s.hooks.OnContext(s.owner, contextOrder, "subagent", s.whatItIs); err != nil {
			return err
		}
	}
	// When the agents rest, their ends are still to be told.
	s.root.OnQuiesce(s.owner, "subagents", settleLimit, s.allEnded)
	return s.owner.OnClose("subagents", s.allEnded)
}

// contextOrder puts what an agent is in front of what it should know.
const contextOrder = 10

// whatItIs tells a child what it is (spec jsonrpc 10.7).
func (s *Subagents) whatItIs(_ context.Context, o agent.Opening) ([]sdkproto.Message, error) {
	if o.Depth == 0 {
		return nil, nil
	}
	text := "You are a subagent: another agent has given you the task that follows. " +
		"It sees nothing of your work but your last answer, so put all it needs in there. You cannot ask anybody: " +
		"a call that would need a permission is refused. If you cannot do the task, say why."
	if s.config.Dialect == dialect.Claude {
		text = "You are a subagent: another agent has given you the task that follows. " +
			"It sees nothing of your work but your last answer, so put all it needs in there. You cannot ask it anything. " +
			"If you cannot do the task, say why."
	}
	return []sdkproto.Message{{
		Content: []sdkproto.Block{sdkproto.Text(text)},
		Source:  sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: "subagent", Form: "instructions"},
	}}, nil
}

func (s *Subagents) spawn(ctx context.Context, in tool.Invocation, p spawn) (tool.Result, error) {
	t := task{label: p.Description, prompt: p.Prompt, call: in.CallID, background: s.config.Background, resume: p.Resume}
	if r := t.check(); r != nil {
		return *r, nil
	}
	if p.Resume != "" {
		if p.Tools != nil {
			return refuse(codeArguments, "a subagent that goes on keeps its tools; leave tools out"), nil
		}
		d, refused, err := s.earlier(ctx, in.SessionID, p.Resume)
		if err != nil || refused != nil {
			return deref(refused), err
		}
		s.again(&t, in.SessionID, d)
	}
	if p.Tools != nil {
		// An empty list means none, one that is absent all (case B24).
		t.filter = &tool.Filter{Allow: *p.Tools, AllowNone: len(*p.Tools) == 0}
		if err := s.agents.CheckTools(t.filter); err != nil {
			return refuse(codeArguments, "a subagent with these tools cannot be made: %v", err), nil
		}
	}
	if p.Background != nil {
		t.background = *p.Background
	}
	r, refused, err := s.start(ctx, in, t)
	if err != nil || refused != nil {
		return deref(refused), err
	}
	if t.background {
		return tool.TextResult("started subagent " + r.id), nil
	}
	switch detached, refused := r.wait(ctx); {
	case refused != nil:
		return *refused, nil
	case detached:
		return tool.TextResult("subagent " + r.id + " goes on in the background; a message will tell you when it has ended"), nil
	}
	return r.outcome.result(s, in), nil
}

// task is what a child is to do, and how.
type task struct {
	label, prompt string
	// call is the id of the call that delegates.
	call       string
	background bool
	// filter restricts the tools further than the parent's; nil does not.
	filter *tool.Filter
	// kind is the zero Definition where there are no kinds.
	kind agent.Definition
	// route is nil for the parent's.
	route *llm.Route
	// resume is the id of the child that is to go on, "" for a new one.
	resume string
}

// check says what is wrong with a task, and makes the label one line.
func (t *task) check() *tool.Result {
	var r tool.Result
	if strings.TrimSpace(t.prompt) == "" {
		r = refuse(codeArguments, "the prompt is empty; describe the whole task")
		return &r
	}
	if t.label = oneLine(t.label); t.label == "" {
		r = refuse(codeArguments, "the description is empty; say in a few words what the subagent is to do")
		return &r
	}
	return nil
}

// start makes a child and sets it to work, or says why it must not.
func (s *Subagents) start(ctx context.Context, in tool.Invocation, t task) (*run, *tool.Result, error) {
	parent, ok := s.agents.Get(in.SessionID)
	if !ok {
		return nil, nil, fmt.Errorf("delegate: session %s is not live", in.SessionID)
	}
	// The header knows the depth of a resumed child, too.
	depth := parent.Log().Header().DelegationDepth
	if depth >= s.config.MaxDepth {
		r := refuse(codeDepth, "this agent is a subagent of depth %d, and delegation ends there (limit maxDepth); do the task yourself", depth)
		return nil, &r, nil
	}
	r, err := s.begin(ctx, parent, depth+1, in, t)
	if refused := refusal(err); refused != nil {
		return nil, refused, nil
	}
	if err != nil {
		return nil, nil, err
	}
	go s.drive(r, t.prompt)
	return r, nil, nil
}

// begin gives a task a place, a run on the board, and a child.
func (s *Subagents) begin(ctx context.Context, parent agent.Agent, depth int, in tool.Invocation, t task) (*run, error) {
	r, err := s.place(ctx, parent, t)
	if err != nil {
		return nil, err
	}
	if err := s.put(r, in); err != nil {
		s.leave(r)
		return nil, err
	}
	if err := s.open(ctx, r, depth, t, in.Confinement); err != nil {
		r.finish()
		s.leave(r)
		r.entry.End(job.End{Status: job.Failed, Summary: "Subagent " + r.id + " could not be started"})
		return nil, errors.Join(err, closeFile(r.file))
	}
	return r, nil
}

// place is admit, after a run of the same child that is at its end has left.
func (s *Subagents) place(ctx context.Context, parent agent.Agent, t task) (*run, error) {
	for {
		r, err := s.admit(ctx, parent, t)
		var busy *busyError
		if !errors.As(err, &busy) || !busy.isOver() {
			return r, err
		}
		select {
		case <-busy.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// refusal is an error that the model is told of; nil for others.
func refusal(err error) *tool.Result {
	var full *limitError
	var busy *busyError
	var held *session.InUseError
	code := ""
	switch {
	case errors.As(err, &full), errors.Is(err, job.ErrFull):
		code = codeLimit
	case errors.As(err, &busy), errors.As(err, &held), errors.Is(err, errElsewhere):
		code = codeRunning
	case errors.Is(err, session.ErrNotFound):
		code = codeUnknown
	default:
		return nil
	}
	r := refuse(code, "%v", err)
	return &r
}

// wait returns when the child has ended, or does not need the call any more, or
// with a result soon after the call was cancelled.
func (r *run) wait(ctx context.Context) (detached bool, refused *tool.Result) {
	select {
	case <-r.done:
	case <-r.detached:
	case <-ctx.Done():
		timer := time.NewTimer(callLimit)
		defer timer.Stop()
		select {
		case <-r.done:
		case <-r.detached:
		case <-timer.C:
			res := refuse(codeAborted, "the call was cancelled; subagent %s is still being stopped", r.id)
			return false, &res
		}
	}
	select {
	case <-r.detached:
		return true, nil // whether or not it has ended since
	default:
		return false, nil
	}
}

func deref(r *tool.Result) tool.Result {
	if r == nil {
		return tool.Result{}
	}
	return *r
}

func (s *Subagents) list(ctx context.Context, in tool.Invocation, _ nothing) (tool.Result, error) {
	running := map[string]bool{}
	var lines []string
	s.mu.Lock()
	for _, r := range s.runs {
		if r.parent.ID() == in.SessionID {
			lines = append(lines, fmt.Sprintf("%s, for %v", r, time.Since(r.began).Round(time.Second)))
			running[r.id] = true
		}
	}
	s.mu.Unlock()
	if len(lines) == 0 {
		lines = append(lines, "No subagent is at work.")
	}
	ended, err := s.ended(ctx, in, running)
	if err != nil {
		return tool.Result{}, err
	}
	return tool.TextResult(strings.Join(append(lines, ended...), "\n")), nil
}

func (s *Subagents) interrupt(_ context.Context, in tool.Invocation, p interrupt) (tool.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.runs, func(r *run) bool { return r.id == p.ID && r.parent.ID() == in.SessionID })
	if i < 0 {
		return refuse(codeUnknown, "no subagent %s of this conversation is at work; list_agents tells which are", clip(p.ID, 100)), nil
	}
	s.runs[i].stop(errInterrupted)
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
