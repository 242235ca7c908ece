package streamjson

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"dsh/kernel"
	"dsh/kernel/content"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// typeLocal is the only type of plugins that clients name: a folder.
const typeLocal = "local"

// plugins reads a list of plugins that the client names in a field.
func plugins(field string, raw json.RawMessage) (list []content.Folder, err error) {
	if isUnset(raw) {
		return nil, nil
	}
	var named []struct {
		Type      string `json:"type"`
		Path      string `json:"path"`
		NoServers bool   `json:"skipMcpDiscovery"`
	}
	if err := wirejson.Unmarshal(raw, &named); err != nil {
		return nil, fmt.Errorf("invalid field %s: it must be a list of objects with type and path: %w", field, err)
	}
	for i, p := range named {
		switch {
		case p.Type != typeLocal:
			return nil, fmt.Errorf("invalid field %s: the type of item %d must be %q", field, i, typeLocal)
		case p.Path == "":
			return nil, fmt.Errorf("invalid field %s: item %d has no path", field, i)
		}
		list = append(list, content.Folder{Path: p.Path, NoServers: p.NoServers})
	}
	return list, nil
}

// plug adds the plugins of a field; all reports whether each of them can be used.
func (s *Server) plug(ctx context.Context, owner *kernel.Owner, field string, raw json.RawMessage) (all bool, err error) {
	folders, err := plugins(field, raw)
	switch {
	case err != nil:
		return false, err
	case len(folders) == 0:
		return true, nil
	case s.Content == nil:
		s.Log.Warn("the client's plugins are left out: the profile has no row of content plugins")
		return false, nil
	}
	problems, err := s.Content.Add(ctx, owner, folders)
	if err != nil {
		s.Log.Warn("the client's plugins are not there as a whole", "error", err)
	}
	return len(problems) == 0 && err == nil, nil
}

// describeContent tells of plugins and skills.
func (s *Server) describeContent(init *streamjson.Init) {
	if s.Content == nil {
		return
	}
	init.Plugins = s.pluginEntries()
	for _, p := range s.Content.Problems() {
		init.PluginErrors = append(init.PluginErrors, streamjson.PluginError{Plugin: p.Plugin, Type: streamjson.PluginErrorLoad, Message: p.Err.Error()})
	}
	for _, skill := range s.Content.Skills(s.cwd) {
		init.Skills = append(init.Skills, skill.Name)
	}
}

func (s *Server) pluginEntries() []streamjson.InitEntry {
	list := []streamjson.InitEntry{}
	if s.Content == nil {
		return list
	}
	for _, p := range s.Content.Plugins() {
		list = append(list, streamjson.InitEntry{Name: p.Name, Path: p.Path, Source: p.Source, Version: p.Version})
	}
	return list
}

// styleNames lists the output styles; one that the settings name counts as there.
func (s *Server) styleNames() []string {
	names := []string{defaultStyle}
	if s.Styles != nil {
		for _, style := range s.Styles.List(s.cwd) {
			names = append(names, style.Name)
		}
	}
	if style := s.outputStyle(); !slices.Contains(names, style) {
		names = append(names, style)
	}
	return names
}

// reloaded is the answer to reload_plugins (spec stream-json 4.13).
type reloaded struct {
	Commands   []streamjson.CommandInfo `json:"commands"`
	Agents     []streamjson.AgentInfo   `json:"agents"`
	Plugins    []streamjson.InitEntry   `json:"plugins"`
	Servers    []streamjson.MCPServer   `json:"mcpServers"`
	ErrorCount int                      `json:"error_count"`
}

// connectLimit is how long the answer to reload_plugins waits for new servers.
const connectLimit = 10 * time.Second

// reloadPlugins reads plugins, commands, agents and skills again (S054). What fails
// leaves what there is as it is, and is counted and told of.
func (s *Server) reloadPlugins(ctx context.Context, r *request) (any, error) {
	in, err := fields[struct {
		Add json.RawMessage `json:"add_plugins"`
	}](r)
	if err != nil {
		return nil, err
	}
	added, err := plugins("add_plugins", in.Add)
	if err != nil {
		return nil, err
	}
	for _, f := range added {
		if !filepath.IsAbs(f.Path) {
			return nil, fmt.Errorf("invalid field add_plugins: %q is no absolute path", clip(f.Path))
		}
	}
	out := reloaded{Commands: []streamjson.CommandInfo{}, Agents: []streamjson.AgentInfo{}}
	problems := s.readAgain(ctx, added)
	for _, p := range problems {
		s.warn(ctx, fmt.Sprintf("plugin %s: %v", p.Plugin, p.Err))
	}
	out.ErrorCount = len(problems)
	if s.MCP != nil {
		waiting, cancel := context.WithTimeout(ctx, connectLimit)
		if err := s.MCP.Settled(waiting); err != nil {
			s.Log.Debug("servers are still connecting after a reload", "error", err)
		}
		cancel()
	}
	out.Commands = append(out.Commands, s.commandInfos()...)
	out.Agents = append(out.Agents, s.agentInfos()...)
	out.Plugins = s.pluginEntries()
	out.Servers = s.serverRows()
	return out, nil
}

// readAgain reloads the plugins that are programs, then those that are folders; after
// a failure the rest stays as it is.
func (s *Server) readAgain(ctx context.Context, added []content.Folder) []content.Problem {
	if s.Reload != nil {
		rows, err := s.Reload(ctx)
		if err != nil {
			return []content.Problem{{Plugin: "profile", Err: err}}
		}
		if len(rows) > 0 {
			s.Log.Info("rows of the profile were reloaded", "rows", rows)
		}
	}
	if s.Content == nil {
		return nil
	}
	if problems := s.Content.Reload(ctx); len(problems) > 0 || len(added) == 0 {
		return problems
	}
	problems, err := s.Content.Add(ctx, s.Owner, added)
	if err != nil {
		problems = append(problems, content.Problem{Plugin: "add_plugins", Err: err})
	}
	return problems
}

// warn tells the client's people what went wrong with what they asked for.
func (s *Server) warn(ctx context.Context, text string) {
	s.say(ctx, streamjson.Informational{
		Head: s.head(streamjson.TypeSystem, streamjson.SystemInformational), Content: text, Level: "warning",
	})
}

// reloadSkills answers with the skills, which are read from files whenever they are
// needed (spec stream-json 4.18).
func (s *Server) reloadSkills(context.Context, *request) (any, error) {
	list := []streamjson.CommandInfo{}
	if s.Content != nil {
		for _, skill := range s.Content.Skills(s.cwd) {
			list = append(list, streamjson.CommandInfo{Name: skill.Name, Description: skill.Description})
		}
	}
	return map[string]any{"skills": list}, nil
}

// reloadStyles answers with the output styles, which are read like skills.
func (s *Server) reloadStyles(context.Context, *request) (any, error) {
	return map[string]any{"available_output_styles": s.styleNames()}, nil
}
