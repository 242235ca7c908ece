package streamjson

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"dsh/kernel/agent"
	"dsh/kernel/session"
	"dsh/plugins/streamjson/structured"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// heldRequest is what is known of the last model request of the main thread: with the
// state of its session it tells what the request held.
type heldRequest struct {
	agent.Step
	// next is the seq behind the last event that the request was made of; rewrites
	// counts the replacements in the history that it saw.
	next     int64
	rewrites int
	// tokens is what it was expected to hold, measured the part of it that a provider
	// had counted before.
	tokens, measured int64
}

// afterKeepers is the order of a hook that sees requests as they are made: behind
// those that make room in the history.
const afterKeepers = 1 << 20

// watchRequests remembers the last request, which costs next to nothing; what it
// held is counted when somebody asks.
func (s *Server) watchRequests() error {
	if s.Turns == nil {
		return nil
	}
	return s.Turns.OnStep(s.Owner, afterKeepers, "context usage", func(_ context.Context, step agent.Step) (bool, error) {
		if step.Agent.ID() != s.sessionID() {
			return false, nil
		}
		h := hold(step)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.holds = h
		return false, nil
	})
}

// hold looks at a step whose request is about to be made.
func hold(step agent.Step) *heldRequest {
	h := &heldRequest{Step: step, next: step.Agent.Log().Next()}
	step.Agent.Log().View(func() {
		counted := false
		if h.tokens, counted = step.State.Usage.Context(); counted {
			h.measured = inputSide(&step.State.Usage.Last)
		}
		h.rewrites, _ = step.State.Surface.Rewrites()
	})
	return h
}

// inputSide is what a request held: the members of a usage are disjoint.
func inputSide(u *sdkproto.Usage) int64 {
	return u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens
}

// recalled is the last request of a session that this process goes on with and has
// not asked for anything yet; nil when there was none, or a turn is on its way.
func (s *Server) recalled(ctx context.Context) (h *heldRequest) {
	s.mu.Lock()
	a, resumed := s.agent, s.resumed
	s.mu.Unlock()
	rests, ok := a.(agent.Resting)
	if !ok || !resumed {
		return nil
	}
	err := rests.AtRest(ctx, func(_ context.Context, step agent.Step) error {
		one := hold(step)
		step.Agent.Log().View(func() {
			u, header := &step.State.Usage, step.State.Header.Header
			if u.LastSeq == 0 || header == nil {
				return
			}
			one.Header, h = header, one
			if one.measured > 0 { // else the history was shortened since
				one.next = u.LastSeq
			}
		})
		return nil
	})
	if err != nil {
		s.Log.Debug("the last request of the session is not known", "error", err)
	}
	return h
}

// getContextUsage is spec stream-json 4.11 (S051).
func (s *Server) getContextUsage(ctx context.Context, _ *request) (any, error) {
	return s.contextUsage(ctx), nil
}

// part is something that a request held; weight is a guess of its tokens, which
// the provider's count scales.
type part struct {
	category, name string
	weight         int64
	tokens         int64
}

// Ids of the categories, in order.
const (
	categorySystem   = "system_prompt"
	categoryTools    = "system_tools"
	categoryMCP      = "mcp_tools"
	categorySchema   = "output_schema"
	categoryMessages = "messages"
	categoryBuffer   = "autocompact_buffer"
	categoryFree     = "free_space"
)

// contextUsage counts what the last request held. The total is the provider's where
// it has told one: the parts are guessed and scaled to it. What no provider has
// counted, the request that is under way or a history that was shortened since, is
// an estimate, and said to be.
func (s *Server) contextUsage(ctx context.Context) streamjson.ContextUsage {
	s.mu.Lock()
	h, route := s.holds, s.route
	s.mu.Unlock()
	if h == nil {
		h = s.recalled(ctx)
	}
	out := streamjson.ContextUsage{
		Model: s.modelID(route), RawMaxTokens: s.info(route.Provider, s.modelID(route)).ContextWindow,
		GridRows: []json.RawMessage{}, IsAutoCompactEnabled: s.Compactor != nil,
		MemoryFiles: []streamjson.ContextMemoryFile{}, MCPTools: []streamjson.ContextMCPTool{}, Agents: []streamjson.ContextAgent{},
	}
	var parts []part
	if h != nil {
		out.Model, out.RawMaxTokens = h.Header.Config.Model, h.Info.ContextWindow
		parts = h.parts(&out)
		share(parts, out.TotalTokens)
		if s.Compactor != nil {
			out.AutoCompactThreshold = s.Compactor.Limit(h.Step)
		}
	}
	s.detail(&out, parts)
	out.MaxTokens = out.RawMaxTokens
	sum := map[string]int64{}
	for _, p := range parts {
		sum[p.category] += p.tokens
	}
	add := func(id, name, color, kind string, tokens int64) {
		out.Categories = append(out.Categories, streamjson.ContextCategory{ID: id, Name: name, Tokens: tokens, Color: color, Kind: kind})
	}
	for _, c := range [][3]string{
		{categorySystem, "System prompt", "promptBorder"}, {categoryTools, "System tools", "inactive"}, {categoryMCP, "MCP tools", "cyan"},
		{categorySchema, "Output schema", "warning"}, {categoryMessages, "Messages", "purple"},
	} {
		add(c[0], c[1], c[2], streamjson.ContextUsed, sum[c[0]])
	}
	free := max(out.MaxTokens-out.TotalTokens, 0)
	if limit := out.AutoCompactThreshold; limit > 0 {
		buffer := min(max(out.MaxTokens-limit, 0), free)
		free -= buffer
		add(categoryBuffer, "Autocompact buffer", "inactive", streamjson.ContextBuffer, buffer)
	}
	add(categoryFree, "Free space", "promptBorder", streamjson.ContextFree, free)
	if out.MaxTokens > 0 {
		out.Percentage = min(float64(out.TotalTokens)/float64(out.MaxTokens)*100, 100)
	}
	return out
}

// parts lists what the request held, and puts the total and the provider's own
// account into out.
func (h *heldRequest) parts(out *streamjson.ContextUsage) []part {
	var parts []part
	h.Agent.Log().View(func() {
		u := &h.State.Usage
		total, measured := h.tokens, h.measured
		rewrites, _ := h.State.Surface.Rewrites()
		whole := rewrites != h.rewrites // what the request held is not there any more
		switch {
		case whole:
			counted := false
			if total, counted = u.Context(); !counted {
				measured = 0
			} else {
				measured = inputSide(&u.Last)
			}
		case u.LastSeq >= h.next:
			total = inputSide(&u.Last)
			measured = total
		}
		out.TotalTokens, out.EstimatedTokens = total, total-min(measured, total)
		if u.LastSeq > 0 {
			last := u.Last
			out.APIUsage = &streamjson.Usage{
				InputTokens: last.InputTokens, OutputTokens: last.OutputTokens,
				CacheCreationInputTokens: last.CacheWriteTokens, CacheReadInputTokens: last.CacheReadTokens,
			}
		}
		parts = append(parts, part{category: categorySystem, weight: u.EstimateBytes(len(h.Header.System))})
		for i := range h.Header.Tools {
			t := &h.Header.Tools[i]
			one := part{category: categoryTools, name: t.Name, weight: u.EstimateBytes(len(t.Name) + len(t.Description) + len(t.Parameters))}
			switch {
			case t.Name == structured.Tool:
				one.category = categorySchema
			case strings.HasPrefix(t.Name, mcpPrefix):
				one.category = categoryMCP
			}
			parts = append(parts, one)
		}
		for _, n := range h.State.Surface.Nodes() {
			if whole || n.Seq < h.next {
				parts = append(parts, part{category: categoryMessages, name: memoryFile(&n), weight: u.Estimate(n.Message)})
			}
		}
	})
	return parts
}

// sourceInstructions is the kind of source of a file of instructions; its path is
// the source's plugin.
const sourceInstructions = "agent-instructions"

func memoryFile(n *session.Node) string {
	if n.Message.Source.Kind == sourceInstructions {
		return n.Message.Source.Plugin
	}
	return ""
}

// memoryType says whose a file of instructions is: the workspace's when it stands in
// the working directory or above it.
func (s *Server) memoryType(file string) string {
	if rel, err := filepath.Rel(filepath.Dir(file), s.cwd); err == nil && filepath.IsLocal(rel) {
		return "Project"
	}
	return "User"
}

// share scales the weights of parts so that their tokens sum up to total.
func share(parts []part, total int64) {
	var sum, before int64
	for _, p := range parts {
		sum += p.weight
	}
	if sum == 0 {
		return
	}
	var given int64
	for i := range parts {
		// Each ends where its share of the whole ends, so nothing is lost by rounding.
		before += parts[i].weight
		end := int64(float64(total) * (float64(before) / float64(sum)))
		parts[i].tokens, given = end-given, end
	}
}

// detail lists the parts that have names.
func (s *Server) detail(out *streamjson.ContextUsage, parts []part) {
	servers := map[string]string{}
	if s.MCP != nil {
		for _, server := range s.MCP.List() {
			for _, name := range server.Tools {
				servers[name] = server.Name
			}
		}
	}
	var agentTool int64
	for _, p := range parts {
		switch {
		case p.category == categoryMCP:
			server, known := servers[p.name]
			if !known { // it has gone since
				server, _, _ = strings.Cut(strings.TrimPrefix(p.name, mcpPrefix), "__")
			}
			out.MCPTools = append(out.MCPTools, streamjson.ContextMCPTool{Name: p.name, ServerName: server, Tokens: p.tokens, IsLoaded: true})
		case p.category == categoryMessages && p.name != "":
			out.MemoryFiles = append(out.MemoryFiles, streamjson.ContextMemoryFile{Path: p.name, Type: s.memoryType(p.name), Tokens: p.tokens})
		case p.name == toolAgent:
			agentTool = p.tokens
		}
	}
	if agentTool == 0 || s.Definitions == nil {
		return
	}
	// The tool's description names each kind with its own.
	const bytesPerToken = 4
	for _, d := range s.Definitions.List() {
		tokens := int64(len(d.Name)+len(d.Description)) / bytesPerToken
		out.Agents = append(out.Agents, streamjson.ContextAgent{AgentType: d.Name, Source: d.Source, Tokens: min(tokens, agentTool)})
	}
}

// toolAgent is the tool whose description lists the kinds of agents.
const toolAgent = "Agent"

// contextText is the answer to /context.
func contextText(u *streamjson.ContextUsage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Context usage\n\nModel: %s\n", u.Model)
	if u.MaxTokens > 0 {
		fmt.Fprintf(&b, "Tokens: %d of %d (%.1f%%)\n", u.TotalTokens, u.MaxTokens, u.Percentage)
	} else {
		fmt.Fprintf(&b, "Tokens: %d\n", u.TotalTokens)
	}
	if u.EstimatedTokens > 0 {
		fmt.Fprintf(&b, "Estimated: %d of them\n", u.EstimatedTokens)
	}
	b.WriteString("\n| Category | Tokens |\n|---|---|\n")
	for _, c := range u.Categories {
		fmt.Fprintf(&b, "| %s | %d |\n", c.Name, c.Tokens)
	}
	for _, f := range u.MemoryFiles {
		fmt.Fprintf(&b, "\n%s: %d tokens", f.Path, f.Tokens)
	}
	for _, t := range u.MCPTools {
		fmt.Fprintf(&b, "\n%s (%s): %d tokens", t.Name, t.ServerName, t.Tokens)
	}
	return strings.TrimRight(b.String(), "\n")
}
