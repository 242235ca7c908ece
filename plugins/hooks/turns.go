package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"dsh/kernel/agent"
	"dsh/kernel/hook"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/internal/transcript"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

const (
	// chain is the place in the chains of agents: behind the profile's own.
	chain = 100
	// maxBlocks is how often in a row hooks may make a turn go on (spec stream-json
	// 6.5 rule 5).
	maxBlocks = 8
	// startContext signs what hooks say at the start of a session or a subagent.
	startContext = "start-hooks"
)

func (e *Engine) register() error {
	o := e.owner
	if err := e.with.Pipeline.Use(o, order, "hooks", e.stage); err != nil {
		return err
	}
	if err := e.with.Hooks.OnPrompt(o, chain, "hooks", e.admit); err != nil {
		return err
	}
	if err := e.with.Hooks.OnContext(o, chain, "hooks", e.context); err != nil {
		return err
	}
	if err := e.with.Hooks.OnStop(o, chain, "hooks", e.stop); err != nil {
		return err
	}
	if err := e.with.Hooks.OnCalls(o, chain, "hooks", e.batch); err != nil {
		return err
	}
	if err := e.with.Desk.Arbitrate(o, "hooks", arbiter{e}); err != nil {
		return err
	}
	if e.with.Agents == nil {
		return nil
	}
	return e.with.Agents.Watch(o, e.watch)
}

// admit implements agent.Admit: it tells of the prompts of a user, not of what one
// agent gives another to do.
func (e *Engine) admit(ctx context.Context, p agent.Prompt) (agent.Verdict, error) {
	if p.Depth > 0 || !e.Any(p.CWD, hook.UserPromptSubmit) {
		return agent.Verdict{}, nil
	}
	out := e.Run(ctx, hook.Input{Event: hook.UserPromptSubmit, SessionID: p.SessionID, CWD: p.CWD, Members: map[string]any{
		"prompt": sdkproto.TextOf(p.Message.Content),
	}})
	v := agent.Verdict{Block: out.Decision == hook.Block || out.Stopped, Reason: out.Reason}
	if v.Reason == "" {
		v.Reason = out.StopReason
	}
	for _, text := range out.Context {
		v.Context = append(v.Context, reminder("%s hook additional context: %s", hook.UserPromptSubmit, text))
	}
	return v, nil
}

// told is what hooks have said at the start of a session.
type told struct {
	sessionID string
	text      string
}

// maxTold bounds the sessions whose start is remembered.
const maxTold = 256

// keep remembers what hooks said at the start of a session, in the place of what
// they said before; nothing is remembered, too.
func (e *Engine) keep(sessionID string, texts []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.said = slices.DeleteFunc(e.said, func(t told) bool { return t.sessionID == sessionID })
	if len(e.said) >= maxTold {
		e.said = slices.Delete(e.said, 0, 1)
	}
	e.said = append(e.said, told{sessionID, strings.Join(texts, "\n\n")})
}

func (e *Engine) kept(sessionID string) (text string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.said, func(t told) bool { return t.sessionID == sessionID })
	if i < 0 {
		return "", false
	}
	return e.said[i].text, true
}

// context implements agent.Context: what hooks said when the session started. The
// loop takes it once, and again where compaction has taken it out. A subagent's
// start is told of here, before its model is first asked.
func (e *Engine) context(ctx context.Context, o agent.Opening) ([]sdkproto.Message, error) {
	text, ok := e.kept(o.SessionID)
	event := hook.SessionStart
	if o.Depth > 0 {
		event = hook.SubagentStart
		if !ok && o.First && e.Any(o.CWD, event) {
			kind := e.lineage(o.SessionID).kind
			out := e.Run(ctx, hook.Input{Event: event, SessionID: o.SessionID, CWD: o.CWD, Match: cmp.Or(kind, generalPurpose)})
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			e.keep(o.SessionID, out.Context)
			text, _ = e.kept(o.SessionID)
		}
	}
	if text == "" {
		return nil, nil
	}
	return []sdkproto.Message{{
		Content: []sdkproto.Block{sdkproto.Text(reminder("%s hook additional context: %s", event, text))},
		Source:  sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: startContext, Form: "notice", Summary: "context from a hook"},
	}}, nil
}

// stop implements agent.Stop.
func (e *Engine) stop(ctx context.Context, s agent.Stopping) (agent.Onward, error) {
	spec := s.Agent.Spec()
	in := hook.Input{Event: hook.Stop, SessionID: spec.ID, CWD: spec.CWD, Members: map[string]any{"stop_hook_active": s.Continued > 0}}
	if s.Last != "" {
		in.Members["last_assistant_message"] = s.Last
	}
	if spec.Parent != "" {
		in.Event = hook.SubagentStop
	}
	if !e.Any(spec.CWD, in.Event) {
		return agent.Onward{}, nil
	}
	if spec.Parent != "" {
		l := e.lineage(spec.ID)
		in.Match = cmp.Or(l.kind, generalPurpose)
		in.Members["agent_id"], in.Members["agent_type"] = spec.ID, in.Match
		in.Members["agent_transcript_path"] = transcript.AgentPath(e.dir(), spec.CWD, l.root, spec.ID)
	}
	out := e.Run(ctx, in)
	if ctx.Err() != nil {
		return agent.Onward{}, context.Cause(ctx)
	}
	if out.Stopped {
		return agent.Onward{End: stopped(out)}, nil
	}
	var prompt []string
	if out.Decision == hook.Block {
		prompt = append(prompt, in.Event+" hook feedback:\n"+cmp.Or(out.Reason, "Go on; a hook does not let you stop here, and gives no reason."))
	}
	// A turn that ends would leave nobody to read it.
	for _, text := range out.Context {
		prompt = append(prompt, reminder("%s hook additional context: %s", in.Event, text))
	}
	if len(prompt) > 0 && s.Continued >= maxBlocks {
		e.inform(&in, levelWarning, "%s hooks have made the turn go on %d times in a row; it ends now", in.Event, s.Continued)
		return agent.Onward{}, nil
	}
	return agent.Onward{Prompt: strings.Join(prompt, "\n\n")}, nil
}

// called is a call of a batch, as hooks see it.
type called struct {
	Name     string          `json:"tool_name"`
	Input    json.RawMessage `json:"tool_input"`
	ID       string          `json:"tool_use_id"`
	Response any             `json:"tool_response"`
}

// batch implements agent.AfterCalls. The response of a call is what the model gets
// of it. A decision of block ends the turn, as continue false does (spec stream-json
// 6.2).
func (e *Engine) batch(ctx context.Context, b agent.Batch) (agent.Onward, error) {
	spec := b.Agent.Spec()
	if !e.Any(spec.CWD, hook.PostToolBatch) {
		return agent.Onward{}, nil
	}
	calls := make([]called, len(b.Calls))
	for i, c := range b.Calls {
		calls[i] = called{c.Name, json.RawMessage(c.Arguments), c.ID, response(tool.Result{Content: c.Result.Content})}
		if !wirejson.Valid(calls[i].Input) {
			calls[i].Input = wirejson.AppendString(nil, c.Arguments)
		}
	}
	out := e.Run(ctx, hook.Input{Event: hook.PostToolBatch, SessionID: spec.ID, CWD: spec.CWD, Members: map[string]any{"tool_calls": calls}})
	switch {
	case ctx.Err() != nil:
		return agent.Onward{}, context.Cause(ctx)
	case out.Decision == hook.Block && !out.Stopped:
		out.StopReason = out.Reason
		fallthrough
	case out.Stopped:
		return agent.Onward{End: stopped(out)}, nil
	}
	var prompt []string
	for _, text := range out.Context {
		prompt = append(prompt, reminder("%s hook additional context: %s", hook.PostToolBatch, text))
	}
	return agent.Onward{Prompt: strings.Join(prompt, "\n\n")}, nil
}

// failures tells hooks of turns that ended in an error.
type failures struct {
	once sync.Once
	sub  *session.Subscription
}

// failureEntries may wait to be looked at before a model is held back.
const failureEntries = 4096

// watch has the log of a session at the root followed if a hook wants to hear of
// turns that fail. Hooks that come later hear of sessions that come later.
func (e *Engine) watch(a agent.Agent, spec agent.Spec) {
	if spec.Parent != "" || !e.Any(spec.CWD, hook.StopFailure) {
		return
	}
	e.mu.Lock()
	if e.failures == nil {
		e.failures = &failures{}
	}
	f := e.failures
	e.mu.Unlock()
	f.once.Do(func() { f.sub = session.NewSubscription(e.owner, e.log, "hooks", failureEntries, e.failure) })
	a.Log().Subscribe(f.sub)
}

func (e *Engine) failure(_ context.Context, entry session.Entry) error {
	if entry.Record == nil || entry.Record.Event.Type != sdkproto.TypeTurnEnd {
		return nil
	}
	end, err := session.Decode[sdkproto.TurnEnd](entry.Record)
	if err != nil || end.Reason.Kind != sdkproto.EndError || end.Reason.Error == nil {
		return err
	}
	a, ok := e.with.Agents.Get(entry.SessionID)
	if !ok {
		return nil
	}
	in := hook.Input{Event: hook.StopFailure, SessionID: entry.SessionID, CWD: a.Spec().CWD, Members: map[string]any{
		"error": category(end.Reason.Error), "error_details": end.Reason.Error.Message,
	}}
	// The log must not wait for a hook.
	e.owner.Go("hooks on a turn that failed", func(ctx context.Context) { e.Run(ctx, in) })
	return nil
}

// category is the word of spec stream-json 12.1 for a failure.
func category(f *sdkproto.Failure) string {
	switch {
	case f.Status == 401, f.Status == 403, f.Code == llm.CodeAuth, f.Code == llm.CodeMissingCredential, f.Code == llm.CodeInvalidCredential:
		return "authentication_failed"
	case f.Status == 402, f.Code == llm.CodeQuota:
		return "billing_error"
	case f.Status == 529:
		return "overloaded"
	case f.Status == 429, f.Code == llm.CodeRateLimit:
		return "rate_limit"
	case f.Status == 404:
		return "model_not_found"
	case f.Status == 400, f.Code == llm.CodeInvalidRequest, f.Code == llm.CodeContextWindow:
		return "invalid_request"
	case f.Status >= 500, f.Code == llm.CodeServer, f.Code == llm.CodeTransport, f.Code == llm.CodeTimeout:
		return "server_error"
	}
	return "unknown"
}
