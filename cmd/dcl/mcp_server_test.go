package main

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// sdkServer is an MCP server in the host, as the SDKs have them: it answers the
// messages that reach it in mcp_message.
type sdkServer struct {
	// tools is the answer to tools/list; with pages, one of them for each request.
	tools []object
	pages [][]object
	// call gives the result of a call, or a failure; nil echoes the argument text.
	// A nil result leaves the call open.
	call func(id any, name string, arguments object) any
	// handshake, when set, is the answer to initialize.
	handshake any

	mu       sync.Mutex
	messages []object
}

// rpcError is a JSON-RPC error.
type rpcError struct {
	code int
	text string
}

// answer implements answers.mcp.
func (s *sdkServer) answer(_ string, message object) any {
	s.mu.Lock()
	s.messages = append(s.messages, message)
	s.mu.Unlock()
	id, method := message["id"], message["method"]
	if id == nil {
		return object{"mcp_response": object{"jsonrpc": "2.0", "result": object{}}} // the dummy of the SDKs
	}
	switch method {
	case "initialize":
		s.mu.Lock()
		handshake := s.handshake
		s.mu.Unlock()
		if handshake != nil {
			return s.reply(id, handshake)
		}
		return s.reply(id, object{
			"protocolVersion": "2025-06-18", "capabilities": object{"tools": object{"listChanged": true}}, "serverInfo": object{"name": "app", "version": "1.0.0"},
		})
	case "tools/list":
		if s.pages != nil {
			page := 0
			if cursor, ok := dig(message, "params", "cursor").(string); ok {
				_, _ = fmt.Sscan(cursor, &page)
			}
			result := object{"tools": s.pages[page]}
			if page+1 < len(s.pages) {
				result["nextCursor"] = fmt.Sprint(page + 1)
			}
			return s.reply(id, result)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.reply(id, object{"tools": s.tools})
	case "tools/call":
		name, _ := dig(message, "params", "name").(string)
		arguments, _ := dig(message, "params", "arguments").(object)
		s.mu.Lock()
		call := s.call
		s.mu.Unlock()
		if call == nil {
			return s.reply(id, texts(fmt.Sprint(name, " ", arguments["text"])))
		}
		return s.reply(id, call(id, name, arguments))
	}
	return s.reply(id, rpcError{-32601, "Method not found"})
}

func (s *sdkServer) reply(id, result any) any {
	switch r := result.(type) {
	case nil:
		return nil
	case failure:
		return r
	case rpcError:
		return object{"mcp_response": object{"jsonrpc": "2.0", "id": id, "error": object{"code": r.code, "message": r.text}}}
	}
	return object{"mcp_response": object{"jsonrpc": "2.0", "id": id, "result": result}}
}

// got gives the messages of a method so far.
func (s *sdkServer) got(method string) (list []object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		if m["method"] == method {
			list = append(list, m)
		}
	}
	return list
}

func (s *sdkServer) called() []object { return s.got("tools/call") }

// offer replaces the tools.
func (s *sdkServer) offer(tools ...object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = tools
}

// texts is a tool's result of text blocks.
func texts(list ...string) object {
	var content []object
	for _, text := range list {
		content = append(content, object{"type": "text", "text": text})
	}
	return object{"content": content}
}

func aTool(name string) object {
	return object{"name": name, "description": "Does " + name, "inputSchema": object{"type": "object", "properties": object{"text": object{"type": "string"}}}}
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}
