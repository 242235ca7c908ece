package streamjson

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"dsh/kernel/mcp"
	"dsh/plugins/streamjson/host"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// transportSDK is the transport of a server that the client hosts.
const transportSDK = "sdk"

// hosted is a server of the client, which gets a call behind the lines that tell of
// it (S072).
type hosted struct {
	s *Server
	mcp.Host
	limit time.Duration
}

// Limit implements mcp.Limited.
func (h *hosted) Limit() time.Duration { return h.limit }

// Call implements mcp.Host.
func (h *hosted) Call(ctx context.Context, message json.RawMessage) (json.RawMessage, error) {
	_ = h.s.sub.Drain(ctx) // ctx is over, then
	return h.Host.Call(ctx, message)
}

// attach makes servers of the client's known, each once (decision D10). It does
// not wait for their handshakes (spec stream-json 8.2). configs are those of
// initialize.
func (s *Server) attach(names []string, configs json.RawMessage) {
	for _, name := range names {
		s.mu.Lock()
		_, known := s.delivers[name]
		s.mu.Unlock()
		if known || name == "" {
			continue
		}
		if s.MCP == nil {
			s.Log.Warn("the client's mcp servers are left out: the profile has no row of mcp", "server", clip(name))
			continue
		}
		deliver, err := s.MCP.Attach(s.Owner, name, &hosted{s, host.Server(s.host, name), s.limitOf(name, configs)})
		if err != nil {
			s.Log.Warn("an mcp server of the client is left out", "server", clip(name), "error", err)
			continue
		}
		s.with(func() { s.delivers[name] = deliver })
	}
}

// limitOf is how long a call of a server may go on without a sign of life, 0 for the
// usual. What is no limit is passed over: older programs of this protocol do not look
// at it either.
func (s *Server) limitOf(name string, configs json.RawMessage) time.Duration {
	if isUnset(configs) {
		return 0
	}
	var all map[string]json.RawMessage
	var c streamjson.SDKServerConfig
	err := wirejson.Unmarshal(configs, &all)
	if err == nil && !isUnset(all[name]) {
		err = wirejson.Unmarshal(all[name], &c)
	}
	if err != nil {
		s.Log.Warn("what sdkMcpServerConfigs says of a server is not used", "server", clip(name), "error", err)
	}
	if c.Timeout < 1000 || err != nil {
		return 0
	}
	return time.Duration(min(c.Timeout, math.MaxInt32)) * time.Millisecond
}

// mcpMessage takes what a server of the client sends by itself (spec stream-json
// 8.5).
func (s *Server) mcpMessage(_ context.Context, r *request) (any, error) {
	in, err := fields[struct {
		Server  json.RawMessage `json:"server_name"`
		Message json.RawMessage `json:"message"`
	}](r)
	if err != nil {
		return nil, err
	}
	name, err := required("server_name", in.Server)
	if err != nil {
		return nil, err
	}
	if kindOf(in.Message) != '{' {
		return nil, errors.New("message must be an object")
	}
	s.mu.Lock()
	deliver := s.delivers[name]
	s.mu.Unlock()
	if deliver == nil {
		return nil, notFound(name)
	}
	if err := deliver(in.Message); err != nil {
		return nil, err
	}
	return struct{}{}, nil
}

func notFound(name string) error { return fmt.Errorf("Server not found: %s", clip(name)) }

// mcpStatus is spec stream-json 4.10.
func (s *Server) mcpStatus(context.Context, *request) (any, error) {
	return streamjson.MCPStatus{Servers: s.serverRows()}, nil
}

func (s *Server) serverRows() []streamjson.MCPServer {
	list := []streamjson.MCPServer{}
	if s.MCP == nil {
		return list
	}
	for _, server := range s.MCP.List() {
		one := streamjson.MCPServer{
			Name: server.Name, Status: server.State, Error: server.Error, Scope: server.Scope,
			Config: &streamjson.MCPConfig{Type: server.Transport},
		}
		if server.Transport == transportSDK {
			one.Config.Name = server.Name
		}
		if server.State == mcp.Connected {
			one.ServerInfo = &streamjson.MCPServerInfo{Name: server.Program, Version: server.Release}
		}
		for _, o := range server.Offers {
			one.Tools = append(one.Tools, streamjson.MCPTool{Name: o.Name, Description: o.Description, Annotations: streamjson.MCPAnnotations{
				ReadOnly: o.ReadOnly, Destructive: o.Destructive, OpenWorld: o.OpenWorld,
			}})
		}
		list = append(list, one)
	}
	return list
}

// server reads the name of a server that there is.
func (s *Server) server(raw json.RawMessage) (string, error) {
	name, err := required("serverName", raw)
	if err != nil {
		return "", err
	}
	if s.MCP == nil || !slices.ContainsFunc(s.MCP.List(), func(x mcp.Server) bool { return x.Name == name }) {
		return "", notFound(name)
	}
	return name, nil
}

func (s *Server) mcpToggle(ctx context.Context, r *request) (any, error) {
	in, err := fields[struct {
		Server  json.RawMessage `json:"serverName"`
		Enabled json.RawMessage `json:"enabled"`
	}](r)
	if err != nil {
		return nil, err
	}
	enabled := string(in.Enabled) == "true"
	if !enabled && string(in.Enabled) != "false" {
		return nil, errors.New("enabled must be true or false")
	}
	name, err := s.server(in.Server)
	if err != nil {
		return nil, err
	}
	return struct{}{}, s.MCP.Enable(ctx, name, enabled)
}

func (s *Server) mcpReconnect(ctx context.Context, r *request) (any, error) {
	in, err := fields[struct {
		Server json.RawMessage `json:"serverName"`
	}](r)
	if err != nil {
		return nil, err
	}
	name, err := s.server(in.Server)
	if err != nil {
		return nil, err
	}
	return struct{}{}, s.MCP.Reconnect(ctx, name)
}

func mcpSetServers(context.Context, *request) (any, error) {
	return nil, &fault{
		text: `mcp_set_servers is not supported; configure servers with "dcl mcp add" or pass them in initialize.sdkMcpServers`,
		code: streamjson.CodeUnsupportedRequest,
	}
}
