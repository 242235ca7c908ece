package streamjson

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/hook"
	"dsh/kernel/llm"
	"dsh/kernel/tool"
	"dsh/plugins/streamjson/host"
	"dsh/plugins/streamjson/structured"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// textInitialized is the answer to a second initialize (decision D2 of spec
// stream-json 0.4).
const textInitialized = "Already initialized"

// choices are what a client or the config says about the session.
type choices struct {
	// system is nil where the sections make the prompt.
	system *agent.System
	// agent is that of the main thread, nil for none.
	agent *agent.Definition
	// forward shows what subagents say, too.
	forward bool
	// schema is what results have to match, nil for anything.
	schema *structured.Schema
	// suggest says what the user may say next, behind each turn; summaries says what
	// subagents are doing.
	suggest, summaries bool
	// perTask: the client's users can end what runs in the background task by task.
	perTask bool
}

// initialize is the handshake (spec stream-json 4.1). It succeeds once; one that
// fails changes nothing and does not count. What comes later than the first turn
// holds from the next one on.
func (s *Server) initialize(ctx context.Context, r *request) (any, error) {
	s.mu.Lock()
	again := s.initialized
	s.mu.Unlock()
	if again {
		pending := s.host.Pending("can_use_tool")
		if pending == nil {
			pending = []json.RawMessage{}
		}
		return nil, &fault{text: textInitialized, pending: pending}
	}
	in, err := fields[streamjson.Initialize](r)
	if err != nil {
		return nil, err
	}
	if s.Ready != nil {
		if err := s.Ready.Wait(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.await(ctx, func() bool { return !s.running && s.current == nil }); err != nil {
		return nil, err
	}
	owner := s.Owner.Child("initialize")
	response, asked, err := s.apply(ctx, owner, &in)
	if err != nil {
		closing, cancel := context.WithTimeout(context.Background(), kernel.ReleaseLimit)
		defer cancel()
		return nil, errors.Join(err, owner.Close(closing))
	}
	var old agent.Agent
	s.with(func() {
		s.initialized = true
		if s.initDue && (in.SystemPrompt != nil || in.AppendSystemPrompt != "" || in.Agent != "" || !isUnset(in.JSONSchema)) {
			// What an agent is cannot change; it is opened again for the next turn.
			old, s.agent = s.agent, nil
		}
		s.asked = asked
		s.output.Require(s.id, asked.schema)
	})
	if old != nil {
		if err := s.Agents.Close(ctx, old.ID(), agent.Cause{Kind: sdkproto.AbortDisposed}); err != nil {
			s.Log.Warn("the session was not closed well", "error", err)
		}
		s.with(func() { s.resumed = true })
	}
	// The handshakes with the client's servers begin behind the answer.
	r.after = func() {
		s.attach(append(slices.Clone(in.SDKMCPServers), s.Config.SDKServers...), in.SDKMCPServerConfigs)
		s.with(func() { s.initDue = true })
	}
	return response, nil
}

// inOrder has the client asked behind the lines of what the question is about.
func (s *Server) inOrder(call func(context.Context, hook.Call) (json.RawMessage, error)) func(context.Context, hook.Call) (json.RawMessage, error) {
	return func(ctx context.Context, in hook.Call) (json.RawMessage, error) {
		_ = s.sub.Drain(ctx) // ctx is over, then
		return call(ctx, in)
	}
}

// needed is inOrder for a hook without which no tool call runs: where the client
// has closed its end that is a refusal like that of a question (case B09).
func (s *Server) needed(call func(context.Context, hook.Call) (json.RawMessage, error)) func(context.Context, hook.Call) (json.RawMessage, error) {
	ask := s.inOrder(call)
	return func(ctx context.Context, in hook.Call) (json.RawMessage, error) {
		out, err := ask(ctx, in)
		if errors.Is(err, host.ErrClosed) {
			s.refused(ctx)
		}
		return out, err
	}
}

// apply registers what a request brings, under owner.
func (s *Server) apply(ctx context.Context, owner *kernel.Owner, in *streamjson.Initialize) (*streamjson.Initialized, choices, error) {
	plugged, err := s.plug(ctx, owner, "plugins", in.Plugins)
	if err != nil {
		return nil, choices{}, err
	}
	if err := s.define(owner, in.Agents); err != nil {
		return nil, choices{}, err
	}
	asked, err := s.choose(in)
	if err != nil {
		return nil, choices{}, err
	}
	onFailure := false
	var hooks []hook.Hook
	for _, event := range sortedKeys(in.Hooks) {
		for _, m := range in.Hooks[event] {
			onFailure = onFailure || m.OnFailure == "block"
			for _, id := range m.HookCallbackIDs {
				call := s.inOrder(host.Callback(s.host, id))
				if event == hook.PreToolUse && m.OnFailure == "block" {
					call = s.needed(host.Callback(s.host, id))
				}
				hooks = append(hooks, hook.Hook{
					Event: event, Matcher: m.Matcher, Name: "callback", Limit: time.Duration(max(m.Timeout, 0) * float64(time.Second)),
					BlockOnFailure: m.OnFailure == "block", Call: call,
				})
			}
		}
	}
	if len(hooks) > 0 && s.Hooks != nil {
		if err := s.Hooks.Register(owner, hooks); err != nil {
			return nil, choices{}, fmt.Errorf("invalid field hooks: %w", err)
		}
	}
	delivered, err := s.deliver(in.Settings)
	if err != nil {
		return nil, choices{}, err
	}
	out := s.describe()
	confirm := func(asked bool, to **bool, done bool) {
		if asked {
			*to = &done
		}
	}
	confirm(len(in.Hooks) > 0, &out.HooksApplied, s.Hooks != nil)
	confirm(onFailure, &out.HookOnFailureSupported, s.Hooks != nil)
	// The others are delivered by flags; what a request says of them is not taken, and
	// nothing is claimed that is not so.
	confirm(!isUnset(in.MCPServers), &out.MCPServersApplied, false)
	confirm(!isUnset(in.Settings), &out.SettingsApplied, delivered)
	confirm(!isUnset(in.ManagedSettings), &out.ManagedSettingsApplied, false)
	confirm(!isUnset(in.Plugins), &out.PluginsApplied, plugged)
	confirm(in.DisallowedTools != nil, &out.DisallowedToolsApplied, s.disallow(in.DisallowedTools))
	return out, asked, nil
}

// disallow puts deny rules in force for the session.
func (s *Server) disallow(rules []string) bool {
	if len(rules) == 0 {
		return true
	}
	if s.Policy == nil {
		return false
	}
	update := approval.Update{Type: approval.AddRules, Behavior: approval.Deny, Destination: approval.DestinationSession}
	for _, rule := range rules {
		name, content, _ := strings.Cut(strings.TrimSuffix(rule, ")"), "(")
		update.Rules = append(update.Rules, approval.Rule{ToolName: name, RuleContent: content})
	}
	if err := s.Policy.Update(s.sessionID(), s.cwd, []approval.Update{update}); err != nil {
		s.Log.Warn("tools that the client disallows were not all taken", "error", err)
		return false
	}
	return true
}

// describe is what an initialize is answered with.
func (s *Server) describe() *streamjson.Initialized {
	s.mu.Lock()
	route := s.route
	s.mu.Unlock()
	credential := s.Models.Credential(route)
	style := s.outputStyle()
	out := &streamjson.Initialized{
		Commands: []streamjson.CommandInfo{}, Agents: []streamjson.AgentInfo{}, Models: s.modelInfos(),
		OutputStyle: style, AvailableOutputStyles: s.styleNames(),
		Account: streamjson.Account{TokenSource: "none", APIKeySource: credential},
		Version: s.Config.Version, PID: os.Getpid(),
	}
	out.Commands = append(out.Commands, s.commandInfos()...)
	out.Agents = append(out.Agents, s.agentInfos()...)
	return out
}

// agentInfos lists the kinds of agents for the client.
func (s *Server) agentInfos() (list []streamjson.AgentInfo) {
	if s.Definitions == nil {
		return nil
	}
	for _, d := range s.Definitions.List() {
		list = append(list, streamjson.AgentInfo{Name: d.Name, Description: d.Description, Model: d.Model})
	}
	return list
}

// defaultStyle is the output style of a session that names none.
const defaultStyle = "default"

// outputStyle is what the settings say; a later layer wins (spec stream-json 3.2).
func (s *Server) outputStyle() string { return cmp.Or(s.setting("outputStyle"), defaultStyle) }

// define registers kinds of agents of the client's. One that is no good is left
// out (spec stream-json 11.7).
func (s *Server) define(owner *kernel.Owner, agents map[string]json.RawMessage) error {
	if s.Definitions == nil {
		return nil
	}
	for _, name := range sortedKeys(agents) {
		var d streamjson.AgentDefinition
		err := wirejson.Unmarshal(agents[name], &d)
		if err == nil && (d.Description == "" || d.Prompt == "" || name == "") {
			err = errors.New("it needs a name, a description and a prompt")
		}
		if err != nil {
			s.Log.Warn("an agent of the client is left out", "agent", clip(name), "error", err)
			continue
		}
		if err := s.Definitions.Register(owner, agent.Definition{
			Name: name, Description: d.Description, Prompt: d.Prompt, Tools: d.Tools, DisallowedTools: d.DisallowedTools,
			Model: d.Model, Effort: effortWord(d.Effort), MaxTurns: d.MaxTurns, PermissionMode: d.PermissionMode,
			Background: d.Background, InitialPrompt: d.InitialPrompt, Skills: d.Skills, Source: agent.SourceClient,
		}); err != nil {
			return err
		}
	}
	return nil
}

// choose settles what the session is to be, from a request and the config.
func (s *Server) choose(in *streamjson.Initialize) (choices, error) {
	asked := choices{forward: s.Config.ForwardSubagentText || in.ForwardSubagentText, perTask: in.PerTaskStopAffordance}
	system := agent.System{Replace: s.Config.SystemPrompt, Append: s.Config.AppendSystemPrompt}
	if !isUnset(in.SystemPrompt) {
		var parts []string
		if one, ok := text(in.SystemPrompt); ok {
			parts = []string{one}
		} else if err := wirejson.Unmarshal(in.SystemPrompt, &parts); err != nil {
			return asked, errors.New("invalid field systemPrompt: it must be a string or a list of strings")
		}
		whole := strings.Join(parts, "\n\n")
		system.Replace = &whole
	}
	if in.AppendSystemPrompt != "" {
		system.Append = in.AppendSystemPrompt
	}
	name := in.Agent
	if name == "" {
		name = s.Config.Agent
	}
	if name != "" {
		d, ok := agent.Definition{}, false
		if s.Definitions != nil {
			d, ok = s.Definitions.Lookup(name)
		}
		if !ok {
			return asked, fmt.Errorf("there is no agent %q; define it in agents", clip(name))
		}
		asked.agent = &d
		// A client sends an empty prompt when it has none of its own.
		if d.Prompt != "" && (system.Replace == nil || strings.TrimSpace(*system.Replace) == "") {
			system.Replace = &d.Prompt
		}
	}
	if system.Replace != nil || system.Append != "" {
		asked.system = &system
	}
	var err error
	if asked.schema, err = s.schema(in.JSONSchema); err != nil {
		return asked, err
	}
	asked.suggest = s.Turns != nil && s.speaks() && (s.Config.PromptSuggestions || in.PromptSuggestions)
	asked.summaries = s.Turns != nil && s.speaks() && in.AgentProgressSummaries
	if s.Turns != nil {
		err = s.followRequests()
	}
	return asked, err
}

// schema is what results have to match: what the client says goes ahead of the
// config (spec stream-json 4.1). The tool for it is made known.
func (s *Server) schema(raw json.RawMessage) (*structured.Schema, error) {
	if isUnset(raw) {
		raw = s.Config.JSONSchema
	}
	if isUnset(raw) {
		return nil, nil
	}
	if kindOf(raw) != '{' {
		return nil, errors.New("invalid field jsonSchema: it must be an object")
	}
	schema, err := structured.Compile(raw)
	if err != nil {
		return nil, fmt.Errorf("invalid field jsonSchema: %w", err)
	}
	return schema, s.output.Register(s.Owner, s.Tools, s.Turns)
}

// spec is the agent to open.
func (s *Server) spec() agent.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	spec := agent.Spec{
		ID: s.id, CWD: s.cwd, System: s.asked.system, MaxSteps: s.Config.MaxTurns, Tools: s.filter(), Format: s.Config.APIFormat,
	}
	if d := s.asked.agent; d != nil {
		spec.Type = d.Name
		if spec.MaxSteps == 0 {
			spec.MaxSteps = d.MaxTurns
		}
	}
	return spec
}

// mainRoute is the route of a session whose main thread is an agent: its model
// holds unless the launch names one, and its effort, too.
func (s *Server) mainRoute(d *agent.Definition, to llm.Route) llm.Route {
	if d == nil {
		return to
	}
	if s.Config.Model == "" && d.Model != "" && d.Model != "inherit" {
		if its, err := s.Models.Resolve(s.Config.APIFormat, d.Model); err == nil {
			its.ReasoningEffort = to.ReasoningEffort
			to = its
		} else {
			s.Log.Warn("the model of the main agent is left out", "model", clip(d.Model), "error", err)
		}
	}
	if to.ReasoningEffort == "" {
		to.ReasoningEffort = d.Effort
	}
	return to
}

// mcpPrefix begins the names of all tools of MCP servers.
const mcpPrefix = "mcp__"

// filter restricts the session's tools to those that the launch and the main
// agent leave. The launch speaks of built-in tools only, so what MCP servers offer
// later is not touched (spec stream-json 1.3). The caller holds mu.
func (s *Server) filter() *tool.Filter {
	if s.Config.Tools == nil && s.asked.agent == nil {
		return nil
	}
	var f tool.Filter
	var names []string
	for _, t := range s.Tools.View(nil).List() {
		names = append(names, nameOf(t))
	}
	if list := s.Config.Tools; list != nil {
		for _, name := range names {
			if !strings.HasPrefix(name, mcpPrefix) && !slices.ContainsFunc(*list, func(n string) bool { return n == name || n == "default" }) {
				f.Deny = append(f.Deny, name)
			}
		}
	}
	if d := s.asked.agent; d != nil {
		for _, rule := range d.DisallowedTools {
			if slices.Contains(names, rule) && !slices.Contains(f.Deny, rule) {
				f.Deny = append(f.Deny, rule)
			}
		}
		if d.Tools != nil && !slices.Contains(d.Tools, "*") {
			for _, rule := range d.Tools {
				name, _, _ := strings.Cut(rule, "(")
				if slices.Contains(names, name) && !slices.Contains(f.Allow, name) {
					f.Allow = append(f.Allow, name)
				}
			}
			if s.asked.schema != nil {
				f.Allow = append(f.Allow, structured.Tool)
			}
			if len(f.Allow) == 0 {
				return &tool.Filter{AllowNone: true}
			}
		}
	}
	if len(f.Allow)+len(f.Deny) == 0 {
		return nil
	}
	return &f
}

// nameOf gives a tool's name without its schema, where it can.
func nameOf(t tool.Tool) string {
	if n, ok := t.(interface{ Name() string }); ok {
		return n.Name()
	}
	return t.Spec().Name
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
