package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"dsh/kernel/tool"
	"dsh/sdkproto/wirejson"
)

// maxResources bounds a list of resources that the model gets.
const maxResources = 1000

// lastPlace is behind every server.
const lastPlace = 1 << 30

// offerResources shows or hides the tools for resources: they are there while a
// server is that has any.
func (m *Manager) offerResources(s *server, has bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.withResources = slices.DeleteFunc(m.withResources, func(x *server) bool { return x == s })
	if has {
		m.withResources = append(m.withResources, s)
	}
	switch {
	case len(m.withResources) == 0 && m.resourceTools != nil:
		if err := m.resourceTools.Close(context.Background()); err != nil {
			m.log.Warn("the tools for resources cannot be taken back", "error", err)
		}
		m.resourceTools = nil
	case has && m.resourceTools == nil:
		m.resourceTools = m.self.Owner.ChildAt("tools for resources", lastPlace)
		for _, t := range m.resourceToolList() {
			if err := m.tools.Register(m.resourceTools, t); err != nil {
				m.log.Warn("a tool for resources is left out", "error", err)
			}
		}
	}
}

type listArguments struct {
	Server string `json:"server,omitzero" jsonschema:"The server to ask; without it all are asked."`
}

type readArguments struct {
	Server string `json:"server" jsonschema:"The server that has the resource."`
	URI    string `json:"uri" jsonschema:"The resource's URI, from list_mcp_resources."`
}

func (m *Manager) resourceToolList() []tool.Tool {
	return []tool.Tool{
		tool.Typed(tool.Spec{
			Name:        "list_mcp_resources",
			Description: "Lists the resources that MCP servers offer, and templates of further ones, as JSON. Read one with read_mcp_resource.",
			ReadOnly:    true, Parallel: true, MaxText: m.mostText(0),
		}, m.listResources),
		tool.Typed(tool.Spec{
			Name:        "read_mcp_resource",
			Description: "Reads a resource of an MCP server.",
			ReadOnly:    true, Parallel: true, MaxText: m.mostText(0),
		}, m.readResource),
	}
}

// entry is a resource or a template in the list.
type entry struct {
	Server      string `json:"server"`
	URI         string `json:"uri,omitzero"`
	URITemplate string `json:"uriTemplate,omitzero"`
	Name        string `json:"name,omitzero"`
	Description string `json:"description,omitzero"`
	MimeType    string `json:"mimeType,omitzero"`
}

func (m *Manager) listResources(ctx context.Context, in tool.Invocation, a listArguments) (tool.Result, error) {
	m.mu.Lock()
	servers := slices.Clone(m.withResources)
	m.mu.Unlock()
	if a.Server != "" {
		s := m.find(a.Server)
		if s == nil {
			return m.noServer(a.Server), nil
		}
		servers = []*server{s}
	}
	slices.SortFunc(servers, byPlace)
	type outcome struct {
		list []entry
		err  error
	}
	outcomes := make([]outcome, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() { outcomes[i].list, outcomes[i].err = s.resources(ctx) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return tool.Result{}, context.Cause(ctx)
	}
	list := []entry{}
	var bad []string
	for i, o := range outcomes {
		if o.err != nil {
			bad = append(bad, fmt.Sprintf("The MCP server %q gave no list: %v", servers[i].name, o.err))
		}
		list = append(list, o.list...)
	}
	if len(list) > maxResources {
		bad = append(bad, fmt.Sprintf("There are %d resources, of which the first %d are listed.", len(list), maxResources))
		list = list[:maxResources]
	}
	b := m.builder(ctx, in, 0)
	if len(list) > 0 || len(bad) == 0 {
		data, err := wirejson.Marshal(list)
		if err != nil {
			return tool.Result{}, fmt.Errorf("encode the list: %w", err)
		}
		b.text(string(data))
	}
	b.text(strings.Join(bad, "\n"))
	return tool.Result{Content: b.done(""), IsError: len(bad) > 0 && len(list) == 0}, nil
}

func (s *server) resources(ctx context.Context) (list []entry, err error) {
	c, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	ctx, _, end := c.begin(ctx, "", or(s.ConnectTimeout, s.m.config.Load().ConnectTimeout), nil)
	defer end()
	for _, kind := range []struct{ method, member, uri string }{
		{methodListResources, "resources", "uri"},
		{methodListTemplates, "resourceTemplates", "uriTemplate"},
	} {
		entries, err := c.all(ctx, kind.method, kind.member, maxResources+1)
		if err != nil {
			if _, answered := isAnswer(err); answered && kind.member != "resources" {
				break // many servers have no templates and say so like this
			}
			return list, c.explain(err)
		}
		for _, raw := range entries {
			m, _ := decode[members](raw)
			text := func(key string) string { t, _ := decode[string](m[key]); return t }
			e := entry{Server: s.name, Name: text("name"), Description: clip(text("description"), 300), MimeType: text("mimeType")}
			if kind.uri == "uri" {
				e.URI = text("uri")
			} else {
				e.URITemplate = text("uriTemplate")
			}
			list = append(list, e)
		}
	}
	return list, nil
}

func (m *Manager) readResource(ctx context.Context, in tool.Invocation, a readArguments) (tool.Result, error) {
	s := m.find(a.Server)
	if s == nil {
		return m.noServer(a.Server), nil
	}
	c, err := s.connected(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		return tool.ErrorResult(errorName, codeNotConnected, fmt.Sprintf("Error: the MCP server %q cannot be asked: %v", s.name, err)), nil
	}
	timed, token, end := c.begin(ctx, in.SessionID, or(s.Timeout, m.config.Load().Timeout), in.Progress)
	defer end()
	r := &request{URI: a.URI}
	r.Meta = map[string]any{"progressToken": token}
	data, err := c.request(timed, methodReadResource, r)
	if err != nil {
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		return s.failed(ctx, c, err), nil
	}
	top, _ := decode[members](data)
	contents, _ := decode[[]json.RawMessage](top["contents"])
	b := m.builder(ctx, in, 0)
	for _, raw := range contents {
		b.resource(readResource(raw))
	}
	return tool.Result{Content: b.done("The resource is empty.")}, nil
}

func (m *Manager) noServer(name string) tool.Result {
	var names []string
	for _, s := range m.all() {
		names = append(names, s.name)
	}
	known := "none"
	if len(names) > 0 {
		known = strings.Join(names, ", ")
	}
	return tool.ErrorResult("ToolArgumentsError", "INVALID_ARGUMENTS", fmt.Sprintf("Error: there is no MCP server %q; there are: %s", clip(name, 200), known))
}
