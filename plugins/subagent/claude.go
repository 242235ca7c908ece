package subagent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/llm"
	"dsh/kernel/tool"
	"dsh/plugins/internal/dialect"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// claudeSpawn holds the arguments of Agent (spec stream-json 9); resume is ours.
// isolation is not offered.
type claudeSpawn struct {
	Description string `json:"description" jsonschema:"What the agent is to do, in a few words."`
	Prompt      string `json:"prompt" jsonschema:"The whole task. The agent knows nothing of this conversation."`
	Type        string `json:"subagent_type,omitzero" jsonschema:"Which kind of agent; general-purpose by default."`
	Model       string `json:"model,omitzero" jsonschema:"The model of the agent, an alias or an id; by default that of its kind, or else yours."`
	Effort      string `json:"effort,omitzero" jsonschema:"How much the agent is to think; by default that of its kind, or else its model's." enum:"low,medium,high,xhigh,max"`
	Background  *bool  `json:"run_in_background,omitzero" jsonschema:"Whether to go on without waiting for the answer, which then comes as a message."`
	Label       string `json:"name,omitzero" jsonschema:"A short name that tells this agent from others."`
	Resume      string `json:"resume,omitzero" jsonschema:"The agentId of an agent of this conversation that has ended: it goes on with the prompt, and knows what it knew. It keeps its kind, its tools and, unless model is given, its model."`
}

// generalName is the kind of a call that names none.
const generalName = "general-purpose"

func generalPurpose() agent.Definition {
	return agent.Definition{
		Name:        generalName,
		Description: "For searching widely, for questions that take many steps, and for any task that no other kind is made for. It has all tools.",
		Source:      "built-in",
	}
}

// agentTool is Agent. Its description tells the kinds there are, which clients add
// before the first turn.
type agentTool struct {
	tool.Tool
	s *Subagents
}

// Name spares those who only want to know it the rest.
func (agentTool) Name() string { return "Agent" }

// CheckArguments is that of the tool inside.
func (t agentTool) CheckArguments(arguments json.RawMessage) error {
	return tool.CheckArguments(t.Tool, arguments)
}

func (t agentTool) Spec() tool.Spec {
	spec := t.Tool.Spec()
	spec.Description += t.s.kindsText()
	return spec
}

func (s *Subagents) claude() tool.Tool {
	wait := "You wait for its answer, which is the result of the call; with run_in_background you go on, and a message tells you when it has ended."
	if s.config.Background {
		wait = "You go on at once, and a message tells you when it has ended; with run_in_background false you wait for its answer, which is the result of the call."
	}
	return agentTool{s: s, Tool: tool.Typed(tool.Spec{
		Name: "Agent",
		// What this tool was called before; clients and models still say so (spec
		// stream-json 9).
		Aliases: []string{"Task"},
		Description: "Starts another agent, with a conversation of its own, for a task that can be described in full. " +
			"Use it to search widely or to do independent work side by side: make several calls in one answer. " +
			"The agent sees only the prompt, so name files, facts and what its answer should contain. " +
			"It has your working directory. " + wait + " " +
			"With resume an agent that has ended goes on where it was.",
		Parallel: true,
		Subject:  tool.Subject{Rule: "Agent", Kind: tool.SubjectText, Member: "subagent_type", Default: generalName},
	}, s.callClaude)}
}

const (
	// maxKind bounds what is told of one kind, in characters, and maxKinds all of it,
	// in bytes.
	maxKind  = 1000
	maxKinds = 16 << 10
)

// kindsText lists the kinds of agents for the model.
func (s *Subagents) kindsText() string {
	var b strings.Builder
	b.WriteString("\n\nKinds of agents for subagent_type:")
	for _, d := range s.definitions() {
		line := "\n- " + d.Name + ": " + clip(strings.Join(strings.Fields(d.Description), " "), maxKind)
		if b.Len()+len(line) > maxKinds {
			b.WriteString("\n(there are more)")
			break
		}
		b.WriteString(line)
	}
	return b.String()
}

func (s *Subagents) definitions() []agent.Definition {
	if s.kinds == nil {
		return []agent.Definition{generalPurpose()}
	}
	return s.kinds.List()
}

// claudeDone is the structured result of a child that was waited for.
type claudeDone struct {
	Status            string        `json:"status"`
	AgentID           string        `json:"agentId"`
	AgentType         string        `json:"agentType"`
	Content           []claudeBlock `json:"content"`
	TotalToolUseCount int           `json:"totalToolUseCount"`
	TotalDurationMs   int64         `json:"totalDurationMs"`
	TotalTokens       int64         `json:"totalTokens"`
	Usage             claudeUsage   `json:"usage"`
	Prompt            string        `json:"prompt"`
}

type claudeBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type claudeUsage struct {
	InputTokens              int64 `json:"input_tokens"`
	OutputTokens             int64 `json:"output_tokens"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens"`
}

// claudeLaunched is that of a child in the background.
type claudeLaunched struct {
	IsAsync     bool   `json:"isAsync"`
	Status      string `json:"status"`
	AgentID     string `json:"agentId"`
	Description string `json:"description"`
	Prompt      string `json:"prompt"`
	// OutputFile is a file that will hold the answer.
	OutputFile string `json:"outputFile,omitzero"`
}

func (s *Subagents) callClaude(ctx context.Context, in tool.Invocation, p claudeSpawn) (tool.Result, error) {
	t := task{label: p.Description, prompt: p.Prompt, call: in.CallID, resume: p.Resume}
	if r := t.check(); r != nil {
		return dialect.Bare(*r), nil
	}
	if p.Label != "" {
		t.label = oneLine(p.Label + ": " + t.label)
	}
	choose := s.choose
	if p.Resume != "" {
		choose = s.chooseAgain
	}
	if refused, err := choose(ctx, in, p, &t); err != nil || refused != nil {
		return dialect.Bare(deref(refused)), err
	}
	t.background = s.config.Background || t.kind.Background
	if p.Background != nil {
		t.background = *p.Background
	}
	r, refused, err := s.start(ctx, in, t)
	if err != nil || refused != nil {
		return dialect.Bare(deref(refused)), err
	}
	if t.background {
		return r.launched(t)
	}
	switch detached, refused := r.wait(ctx); {
	case refused != nil:
		return dialect.Bare(*refused), nil
	case detached:
		return r.launched(t)
	}
	return r.outcome.completed(s, in, t)
}

// choose settles what a new child is, or says why it cannot be.
func (s *Subagents) choose(_ context.Context, in tool.Invocation, p claudeSpawn, t *task) (*tool.Result, error) {
	name := cmp.Or(p.Type, generalName)
	kinds := s.definitions()
	i := slices.IndexFunc(kinds, func(d agent.Definition) bool { return d.Name == name })
	if i < 0 {
		r := refuse(codeKind, "there is no kind of agent %q; %s", clip(name, 100), kindNames(kinds))
		return &r, nil
	}
	t.kind = kinds[i]
	t.filter = s.toolsOf(t.kind)
	parent, ok := s.agents.Get(in.SessionID)
	if !ok {
		return nil, nil // start says so
	}
	return s.routeTo(t, parent.Spec(), cmp.Or(notInherit(p.Model), t.kind.Model), cmp.Or(p.Effort, t.kind.Effort)), nil
}

// chooseAgain settles what a child is that goes on, or says why it cannot.
func (s *Subagents) chooseAgain(ctx context.Context, in tool.Invocation, p claudeSpawn, t *task) (*tool.Result, error) {
	d, refused, err := s.earlier(ctx, in.SessionID, p.Resume)
	if err != nil || refused != nil {
		return refused, err
	}
	if p.Type != "" && p.Type != d.AgentType {
		r := refuse(codeArguments, "agent %s is of the kind %s, and stays so; leave subagent_type out", p.Resume, d.AgentType)
		return &r, nil
	}
	if p.Type == "" && s.forbids(in, d.AgentType) {
		r := refuse(codeKind, "agents of the kind %s must not be used", d.AgentType)
		return &r, nil
	}
	s.again(t, in.SessionID, d)
	if s.kinds != nil {
		known, _ := s.kinds.Lookup(d.AgentType)
		t.kind.Background = known.Background
	}
	parent, ok := s.agents.Get(in.SessionID)
	if !ok {
		return nil, nil // start says so
	}
	return s.routeTo(t, parent.Spec(), notInherit(p.Model), p.Effort), nil
}

// forbids reports whether a rule is against a kind that a call does not name, so
// that no rule saw it.
func (s *Subagents) forbids(in tool.Invocation, kind string) bool {
	if s.policy == nil {
		return false
	}
	arguments, err := wirejson.Marshal(map[string]string{"subagent_type": kind})
	if err != nil {
		return true
	}
	in.Arguments = arguments
	return s.policy.Judge(s.offered[0].Spec(), in).Behavior == approval.Deny
}

func kindNames(kinds []agent.Definition) string {
	if len(kinds) == 0 {
		return "there are none"
	}
	names := make([]string, len(kinds))
	for i, d := range kinds {
		names[i] = d.Name
	}
	return clip("there are "+strings.Join(names, ", "), 2000)
}

// toolsOf makes the filter of a kind: of its lists only the names count, rules such
// as Bash(git:*) included, and what there is no tool for is left out, because a
// list is often written for more than one product. nil restricts nothing.
func (s *Subagents) toolsOf(d agent.Definition) *tool.Filter {
	var known []tool.Spec
	for _, t := range s.tools.View(nil).List() {
		known = append(known, tool.Spec{Name: nameOf(t), Aliases: aliasesOf(t)})
	}
	var f tool.Filter
	for _, spec := range known {
		if d.Tools != nil && slices.ContainsFunc(d.Tools, func(rule string) bool { return names(rule, spec) }) {
			f.Allow = append(f.Allow, spec.Name)
		}
		if slices.ContainsFunc(d.DisallowedTools, func(rule string) bool { return names(rule, spec) && bare(rule) }) {
			f.Deny = append(f.Deny, spec.Name)
		}
	}
	switch {
	case d.Tools != nil && len(f.Allow) == 0:
		return &tool.Filter{AllowNone: true}
	case len(f.Allow)+len(f.Deny) == 0:
		return nil
	}
	return &f
}

func nameOf(t tool.Tool) string {
	if n, ok := t.(interface{ Name() string }); ok {
		return n.Name()
	}
	return t.Spec().Name
}

// aliasesOf asks only the one tool that has some: a whole spec costs a schema.
func aliasesOf(t tool.Tool) []string {
	if own, ok := t.(agentTool); ok {
		return own.Tool.Spec().Aliases
	}
	return nil
}

// bare reports whether a rule is about all calls of its tool.
func bare(rule string) bool {
	_, content, ok := strings.Cut(rule, "(")
	return !ok || content == ")" || content == "*)"
}

// names reports whether a rule is about a tool: by its name, an old name, or the
// server of an MCP tool.
func names(rule string, spec tool.Spec) bool {
	name, _, _ := strings.Cut(strings.TrimSpace(rule), "(")
	if name == "*" || name == spec.Name || slices.Contains(spec.Aliases, name) {
		return true
	}
	server, _ := strings.CutSuffix(name, "__*")
	return strings.HasPrefix(server, "mcp__") && strings.HasPrefix(spec.Name, server+"__")
}

// routeTo settles the route of a child: the one it has already, else the parent's,
// or that of a model and with an effort that are wanted, if any are. It says what is
// wrong with the model.
func (s *Subagents) routeTo(t *task, parent agent.Spec, model, effort string) *tool.Result {
	route := parent.Route
	if t.route != nil {
		route = *t.route
	}
	if model = notInherit(model); model != "" && s.models != nil {
		var err error
		if route, err = s.resolve(parent, model); err != nil {
			r := refuse(codeArguments, "the model cannot be used: %v", err)
			return &r
		}
		if route.MaxTokens == 0 {
			route.MaxTokens = parent.Route.MaxTokens
		}
	}
	if effort != "" {
		route.ReasoningEffort = effort
		route = agent.Fit(s.agents, route)
	}
	if t.route = nil; route != parent.Route {
		t.route = &route
	}
	return nil
}

// notInherit gives the model that is named, "" for the parent's.
func notInherit(model string) string {
	if model == "inherit" {
		return ""
	}
	return model
}

// resolve gives the route of a model. A session of the scripted model stays with
// it, and one whose client has named a format with that. A name that leads to a
// provider without a credential, or is one of another format, means the parent's
// model: kinds of agents name models that are usual with one provider, and run with
// any.
func (s *Subagents) resolve(parent agent.Spec, model string) (llm.Route, error) {
	if mock, err := s.models.Resolve(llm.FormatMock, model); err == nil && mock.Provider == parent.Route.Provider {
		return mock, nil
	}
	route, err := s.models.Resolve(parent.Format, model)
	if err != nil {
		return parent.Route, err
	}
	if parent.Format != "" && route.Model == model {
		// The format knows the name as a model's id at best; another one may know it as
		// an alias.
		other, err := s.models.Resolve("", model)
		if err == nil && other.Provider != route.Provider && other.Model != model {
			s.log.Info("a subagent has its parent's model, because its own is one of another format", "model", model, "format", parent.Format)
			return parent.Route, nil
		}
	}
	if !s.keyed(parent.Route, route) {
		s.log.Info("a subagent has its parent's model, because there is no credential for its own", "model", model, "provider", route.Provider)
		return parent.Route, nil
	}
	return route, nil
}

// keyed reports whether a route can be used where its parent's can.
func (s *Subagents) keyed(parent, route llm.Route) bool {
	return route.Provider == parent.Provider || s.models == nil || s.models.Credential(route) != "none"
}

// completed is the result of the call that waited: the answer, and what it cost.
func (o *outcome) completed(s *Subagents, in tool.Invocation, t task) (tool.Result, error) {
	if o.stop != sdkproto.StopCompleted {
		return dialect.Bare(o.result(s, in)), nil
	}
	said := s.fit(in, o.said())
	if said == "" {
		said = "(the agent ended without an answer)"
	}
	u := o.usage
	m := claudeDone{
		Status: "completed", AgentID: o.run.id, AgentType: t.kind.Name, Content: []claudeBlock{{"text", said}},
		TotalToolUseCount: o.calls, TotalDurationMs: o.took.Milliseconds(),
		TotalTokens: u.InputTokens + u.OutputTokens + u.CacheReadTokens + u.CacheWriteTokens,
		Usage:       claudeUsage{u.InputTokens, u.OutputTokens, u.CacheWriteTokens, u.CacheReadTokens},
		Prompt:      clip(t.prompt, maxPrompt),
	}
	note := fmt.Sprintf("agentId: %s\ntotal_tokens: %d\ntool_uses: %d\nduration_ms: %d", o.run.id, m.TotalTokens, m.TotalToolUseCount, m.TotalDurationMs)
	meta, err := wirejson.Marshal(m)
	return tool.Result{Content: []sdkproto.Block{sdkproto.Text(said), sdkproto.Text(note)}, Meta: meta}, err
}

// maxPrompt bounds the prompt that a structured result repeats, in characters.
const maxPrompt = 16_000

// launched is the result of a call that does not wait.
func (r *run) launched(t task) (tool.Result, error) {
	m := claudeLaunched{IsAsync: true, Status: "async_launched", AgentID: r.id, Description: t.label, Prompt: clip(t.prompt, maxPrompt)}
	text := fmt.Sprintf("The agent %s is at work in the background. A message will tell you when it has ended; go on with something else until then.", r.id)
	if m.OutputFile = pathOf(r.file); m.OutputFile != "" {
		text += " Its answer will also be in " + m.OutputFile + "."
	}
	meta, err := wirejson.Marshal(m)
	return tool.Result{Content: []sdkproto.Block{sdkproto.Text(text)}, Meta: meta}, err
}
