package streamjson

import (
	"cmp"
	"context"
	"fmt"

	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/hook"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/streamjson/project"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// Sources of a session that begins (spec stream-json 6.2).
const (
	sourceStartup = "startup"
	sourceResume  = "resume"
	sourceFork    = "fork"
)

// prepare opens the session and tells the client of it, once: what system/init
// lists must be there by then (spec stream-json 3.2). An error of opening it is
// the next message's; then it is tried again.
func (s *Server) prepare(ctx context.Context) error {
	s.mu.Lock()
	done, a, due := s.initDone, s.agent, s.initDue
	s.mu.Unlock()
	if done && a != nil {
		return nil
	}
	if !due {
		if err := s.withoutInitialize(ctx); err != nil {
			return err
		}
	}
	if !done {
		s.settle(ctx)
	}
	failed := s.open(ctx)
	if done {
		s.tellCleared(ctx)
		return failed
	}
	s.startHooks(ctx)
	s.told.flush(ctx)
	s.tellSession(ctx)
	if err := s.transcripts.flush(ctx); err != nil {
		s.Log.Debug("a line was not written", "error", err)
	}
	s.with(func() { s.initDone = true })
	return failed
}

// withoutInitialize lets the config alone say what the session is, because its
// first message came before any initialize.
func (s *Server) withoutInitialize(ctx context.Context) error {
	if s.Ready != nil {
		if err := s.Ready.Wait(ctx); err != nil {
			return err
		}
	}
	asked, err := s.choose(&streamjson.Initialize{})
	if err != nil {
		return err
	}
	s.attach(s.Config.SDKServers, nil)
	s.with(func() {
		s.asked, s.initDue = asked, true
		s.output.Require(s.id, asked.schema)
	})
	return nil
}

// settle waits for the MCP servers, each of which has a limit of its own. A client
// that has gone without a message waits for none.
func (s *Server) settle(ctx context.Context) {
	if s.MCP == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	settled := make(chan struct{})
	go func() {
		defer s.with(func() { close(settled) })
		if err := s.MCP.Settled(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("the mcp servers did not settle", "error", err)
		}
	}()
	_ = s.await(ctx, func() bool { // an error is the end of ctx
		return isClosed(settled) || s.eof && len(s.queue.list) == 0 && s.current == nil
	})
	cancel()
	<-settled
}

// open opens the agent of the session.
func (s *Server) open(ctx context.Context) error {
	opened := s.view.isSet()
	s.mu.Lock()
	asked, resumed, begins := s.asked, s.resumed, s.origin
	route := s.mainRoute(asked.agent, s.route)
	if !opened {
		s.route = route
		s.launch = s.mainRoute(asked.agent, s.launch)
	}
	s.mu.Unlock()
	if !opened {
		p := s.projector(asked.forward)
		if resumed {
			s.recall(ctx, p)
		}
		for _, d := range begins.seed {
			p.Past(&session.Record{Event: sdkproto.Event{Type: d.Type}, Data: d.Data})
		}
		s.view.set(p)
	}
	spec := s.spec()
	spec.Route, spec.Fallbacks, spec.Seed, spec.Cut = s.fit(route), s.fallbacks(), begins.seed, begins.cut
	mode := agent.OpenNew
	if resumed {
		mode = agent.OpenResume
	}
	a, err := s.Agents.Open(ctx, spec, mode)
	if err != nil {
		return fmt.Errorf("open the session: %w", err)
	}
	s.transcripts.open(ctx, a)
	a.Log().Subscribe(s.sub)
	s.with(func() {
		s.agent = a
		begins = s.origin
		s.origin = origin{source: s.origin.source}
	})
	if begins.title != "" {
		if err := s.rename(begins.title); err != nil {
			s.Log.Warn("the name of the session is left out", "error", err)
		}
	}
	if d := asked.agent; d != nil && d.PermissionMode != "" && s.Policy != nil && !s.isCleared() {
		if err := s.Policy.SetMode(a.ID(), s.cwd, d.PermissionMode); err != nil {
			s.Log.Warn("the permission mode of the main agent is left out", "error", err)
		}
	}
	return nil
}

// recall tells the projector what the session, with its subagents, has used before:
// the total cost goes on (spec stream-json 3.7). A log that cannot be read is the
// business of opening it.
func (s *Server) recall(ctx context.Context, p *project.Projector) {
	id := s.sessionID()
	delegates := false
	read := func(id string) {
		err := s.Agents.Events(ctx, id, 0, func(r *session.Record) error {
			delegates = delegates || r.Event.Type == sdkproto.TypeToolCall
			p.Past(r)
			return nil
		})
		if err != nil {
			s.Log.Warn("what the session has cost before is not known", "session", id, "error", err)
		}
	}
	read(id)
	if !delegates {
		return
	}
	headers, err := s.Agents.List(ctx, s.cwd)
	if err != nil {
		s.Log.Warn("what the subagents of the session have cost before is not known", "session", id, "error", err)
		return
	}
	for family := []string{id}; len(family) > 0; family = family[1:] {
		for _, h := range headers {
			if h.ParentSession == family[0] {
				family = append(family, h.ID)
				read(h.ID)
			}
		}
	}
}

func (s *Server) projector(forward bool) *project.Projector {
	o := project.Options{
		SessionID: s.sessionID(), Partial: s.Config.PartialMessages, Legacy: s.Config.LegacyLines, ForwardSubagentText: forward,
		Info: s.info, Job: s.job,
	}
	if s.Policy != nil {
		o.Denials = func(id string, turn int) []approval.Denial { return s.Policy.Denials(id, turn) }
	}
	o.Image = s.image()
	return project.New(o)
}

// image reads images; nil where none are kept.
func (s *Server) image() func(context.Context, *sdkproto.Attachment) ([]byte, error) {
	if s.Images == nil {
		return nil
	}
	return func(ctx context.Context, a *sdkproto.Attachment) ([]byte, error) {
		return s.Images.Read(ctx, a.AttachmentID)
	}
}

// startHooks tells the hooks that the session begins.
func (s *Server) startHooks(ctx context.Context) {
	if s.Hooks == nil || !s.Hooks.Any(s.cwd, hook.SessionStart) {
		return
	}
	s.mu.Lock()
	source, id, model := sourceStartup, s.id, s.route.Model
	if s.resumed {
		source = sourceResume
	}
	source = cmp.Or(s.origin.source, source)
	if s.cleared {
		source = reasonClear
	}
	s.mu.Unlock()
	s.Hooks.Run(ctx, hook.Input{
		Event: hook.SessionStart, SessionID: id, CWD: s.cwd, Match: source,
		Members: map[string]any{"source": source, "model": model},
	})
}

// describeSession makes the line system/init.
func (s *Server) describeSession() streamjson.Init {
	s.mu.Lock()
	route, filter := s.route, s.filter()
	s.mu.Unlock()
	id := s.sessionID()
	init := streamjson.Init{
		Head: s.head(streamjson.TypeSystem, streamjson.SystemInit), CWD: s.cwd, Model: s.modelID(route), PermissionMode: modes()[0],
		Tools: []string{}, MCPServers: []streamjson.InitMCP{}, Commands: []string{}, Agents: []string{}, Skills: []string{},
		Plugins: []streamjson.InitEntry{}, OutputStyle: s.outputStyle(), APIKeySource: s.Models.Credential(route), Version: s.Config.Version,
		Capabilities: []string{streamjson.CapabilityInterruptReceipt, streamjson.CapabilityInterruptCancelQueued},
	}
	if s.Policy != nil {
		init.PermissionMode = s.Policy.Mode(id, s.cwd)
	}
	var filters []*tool.Filter
	if filter != nil {
		filters = append(filters, filter)
	}
	for _, t := range s.Tools.View(filters).For(tool.Viewer{SessionID: id, CWD: s.cwd}).List() {
		init.Tools = append(init.Tools, nameOf(t))
	}
	if s.MCP != nil {
		for _, server := range s.MCP.List() {
			init.MCPServers = append(init.MCPServers, streamjson.InitMCP{Name: server.Name, Status: server.State})
		}
	}
	for _, c := range s.commandInfos() {
		init.Commands = append(init.Commands, c.Name)
	}
	if s.Definitions != nil {
		for _, d := range s.Definitions.List() {
			init.Agents = append(init.Agents, d.Name)
		}
	}
	s.describeContent(&init)
	return init
}

// modelID is the id of the model that answers on a route.
func (s *Server) modelID(route llm.Route) string {
	if resolved, err := s.Agents.CheckRoute(s.fit(route)); err == nil {
		return resolved.Model
	}
	return route.Model
}
