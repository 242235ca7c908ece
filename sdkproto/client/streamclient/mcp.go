package streamclient

import (
	"context"
	"encoding/json"
	"fmt"

	"dsh/sdkproto/wirejson"
)

// MCPServer is an MCP server in this process: it gets one JSON-RPC message and
// gives the answer, nil for a notification. It is called from many goroutines. An
// error fails that one call; for one that the model should read, answer with a
// JSON-RPC error or a result with isError.
type MCPServer func(ctx context.Context, message json.RawMessage) (json.RawMessage, error)

// Tool is a tool of a server that NewToolServer makes.
type Tool struct {
	Name        string
	Description string
	// InputSchema is a JSON schema of type object; nil is one without properties.
	InputSchema json.RawMessage
	// ReadOnly tools change nothing; they may run in plan mode.
	ReadOnly bool
	// Call gets an object. The model reads what it returns, and an error as one.
	Call func(ctx context.Context, arguments json.RawMessage) (string, error)
}

// mcpVersion is the version of the protocol that a tool server speaks.
const mcpVersion = "2025-06-18"

// Codes of JSON-RPC errors.
const (
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
)

// NewToolServer makes an MCP server of plain functions. What goes beyond tools
// (resources, prompts, questions to the user) needs an MCPServer of your own.
func NewToolServer(name, version string, tools ...Tool) MCPServer {
	s := &toolServer{name: name, version: version, tools: tools}
	return s.serve
}

type toolServer struct {
	name, version string
	tools         []Tool
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (s *toolServer) serve(ctx context.Context, message json.RawMessage) (json.RawMessage, error) {
	var in struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := wirejson.Unmarshal(message, &in); err != nil {
		return nil, fmt.Errorf("not a json-rpc message: %w", err)
	}
	if in.ID == nil || in.Method == "" {
		return nil, nil
	}
	out := struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result,omitzero"`
		Error   *rpcError       `json:"error,omitzero"`
	}{JSONRPC: "2.0", ID: in.ID}
	out.Result, out.Error = s.call(ctx, in.Method, in.Params)
	return wirejson.Marshal(out)
}

type (
	// mcpTool is a tool in the answer to tools/list.
	mcpTool struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitzero"`
		InputSchema json.RawMessage `json:"inputSchema"`
		Annotations mcpHints        `json:"annotations,omitzero"`
	}
	mcpHints struct {
		ReadOnly bool `json:"readOnlyHint,omitzero"`
	}
	// mcpText is a block of text in the answer to tools/call.
	mcpText struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
)

func (s *toolServer) call(ctx context.Context, method string, params json.RawMessage) (any, *rpcError) {
	switch method {
	case "initialize":
		return map[string]any{
			"protocolVersion": mcpVersion,
			"capabilities":    map[string]any{"tools": map[string]any{}},
			"serverInfo":      map[string]any{"name": s.name, "version": s.version},
		}, nil
	case "ping":
		return map[string]any{}, nil
	case "tools/list":
		list := make([]mcpTool, len(s.tools))
		for i, t := range s.tools {
			list[i] = mcpTool{t.Name, t.Description, t.InputSchema, mcpHints{t.ReadOnly}}
			if t.InputSchema == nil {
				list[i].InputSchema = json.RawMessage(`{"type":"object"}`)
			}
		}
		return map[string]any{"tools": list}, nil
	case "tools/call":
		return s.run(ctx, params)
	}
	return nil, &rpcError{codeMethodNotFound, "method not found: " + method}
}

func (s *toolServer) run(ctx context.Context, params json.RawMessage) (any, *rpcError) {
	var in struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := wirejson.Unmarshal(params, &in); err != nil {
		return nil, &rpcError{codeInvalidParams, err.Error()}
	}
	if in.Arguments == nil {
		in.Arguments = json.RawMessage("{}")
	}
	for _, t := range s.tools {
		if t.Name != in.Name {
			continue
		}
		text, err := t.Call(ctx, in.Arguments)
		if err != nil {
			text = err.Error()
		}
		return map[string]any{"content": []mcpText{{"text", text}}, "isError": err != nil}, nil
	}
	return nil, &rpcError{codeInvalidParams, "unknown tool: " + in.Name}
}
