package toollsp

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"dsh/sdkproto/wirejson"
)

// handler answers the server. It must not block: answers to our requests come
// behind it.
type handler struct{ *server }

// Handle implements jsonrpc2.Handler.
func (h handler) Handle(ctx context.Context, conn *jsonrpc2.Conn, r *jsonrpc2.Request) {
	defer func() {
		if p := recover(); p != nil {
			h.lsp.log.Error("a message of a language server made the harness panic", "method", r.Method, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	params := []byte("null")
	if r.Params != nil {
		params = *r.Params
	}
	if r.Notif {
		h.notified(r.Method, params)
		return
	}
	result, refused := h.asked(r.Method, params)
	var err error
	if refused != nil {
		err = conn.ReplyWithError(ctx, r.ID, refused)
	} else {
		err = conn.Reply(ctx, r.ID, result)
	}
	if err != nil {
		h.said.say("a language server gets no answer", []byte(err.Error()))
	}
}

func (h handler) notified(method string, params []byte) {
	switch method {
	case "window/logMessage", "window/showMessage":
		h.said.say("a language server says", params)
	case "$/progress":
		var p lspProgress
		if wirejson.Unmarshal(params, &p) == nil {
			h.progressed(p)
		}
	case "textDocument/publishDiagnostics":
		var p lspPublished
		if err := wirejson.Unmarshal(params, &p); err != nil {
			h.said.say("diagnostics of a language server cannot be read", []byte(err.Error()))
			return
		}
		h.publish(p)
	}
}

// maxBusy bounds how many things a server can say it is doing.
const maxBusy = 64

func (h handler) progressed(p lspProgress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	token := string(p.Token)
	switch p.Value.Kind {
	case "begin":
		if len(h.busy) < maxBusy {
			h.busy[token] = p.Value.Title
		}
	case "end":
		delete(h.busy, token)
		h.free = time.Now()
		h.changed()
		return
	}
	h.changed()
	parts := []string{}
	for _, part := range []string{h.busy[token], p.Value.Message} {
		if part != "" {
			parts = append(parts, oneLine(part))
		}
	}
	if p.Value.Percentage != nil {
		parts = append(parts, fmt.Sprintf("%.0f%%", *p.Value.Percentage))
	}
	if len(parts) == 0 {
		return
	}
	text := h.how.program + ": " + strings.Join(parts, " ")
	for news := range h.listeners {
		select {
		case news <- text:
		default:
		}
	}
}

// asked answers a request of the server.
func (h handler) asked(method string, params []byte) (any, *jsonrpc2.Error) {
	switch method {
	case "workspace/configuration":
		var p struct {
			Items []struct {
				Section string `json:"section"`
			} `json:"items"`
		}
		if err := wirejson.Unmarshal(params, &p); err != nil {
			return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: err.Error()}
		}
		values := make([]any, len(p.Items))
		for i, item := range p.Items {
			values[i] = section(h.how.settings, item.Section)
		}
		return values, nil
	case "workspace/workspaceFolders":
		return []object{{"uri": uriOf(h.key.root), "name": filepath.Base(h.key.root)}}, nil
	case "client/registerCapability":
		var p struct {
			Registrations []struct {
				Method string `json:"method"`
			} `json:"registrations"`
		}
		if wirejson.Unmarshal(params, &p) == nil {
			for _, r := range p.Registrations {
				if r.Method == "textDocument/diagnostic" {
					h.mu.Lock()
					h.pull = true
					h.mu.Unlock()
				}
			}
		}
		return nil, nil
	case "workspace/applyEdit":
		return object{"applied": false, "failureReason": "files are not changed on behalf of a language server"}, nil
	case "window/showDocument":
		return object{"success": false}, nil
	case "client/unregisterCapability", "window/workDoneProgress/create", "window/showMessageRequest",
		"workspace/diagnostic/refresh", "workspace/semanticTokens/refresh", "workspace/inlayHint/refresh",
		"workspace/codeLens/refresh", "workspace/inlineValue/refresh", "workspace/foldingRange/refresh":
		return nil, nil
	}
	return nil, &jsonrpc2.Error{Code: codeMethodNotFound, Message: "this client has no " + method}
}

// section gives the part of settings that a dotted name stands for; nil for none.
func section(settings map[string]any, name string) any {
	if settings == nil {
		return nil
	}
	var at any = settings
	if name == "" {
		return at
	}
	if v, ok := settings[name]; ok {
		return v
	}
	for part := range strings.SplitSeq(name, ".") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[part]
	}
	return at
}
