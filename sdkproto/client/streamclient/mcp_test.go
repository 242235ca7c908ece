package streamclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto/client/streamclient"
)

// What a tool server answers (spec stream-json 8.2, 8.4).
func TestToolServer(t *testing.T) {
	t.Parallel()
	server := streamclient.NewToolServer("app", "1", streamclient.Tool{
		Name: "echo", Description: "Says it again.", ReadOnly: true,
		Call: func(_ context.Context, arguments json.RawMessage) (string, error) {
			if string(arguments) == "{}" {
				return "", errors.New("nothing to say")
			}
			return string(arguments), nil
		},
	})
	for name, tc := range map[string]struct{ in, want string }{
		"initialize": {`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`,
			`{"jsonrpc":"2.0","id":0,"result":{"capabilities":{"tools":{}},"protocolVersion":"2025-06-18","serverInfo":{"name":"app","version":"1"}}}`},
		"initialized": {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, ``},
		"an answer":   {`{"jsonrpc":"2.0","id":1,"result":{}}`, ``},
		"ping":        {`{"jsonrpc":"2.0","id":"p","method":"ping"}`, `{"jsonrpc":"2.0","id":"p","result":{}}`},
		"list": {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
			`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"echo","description":"Says it again.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}}`},
		"call": {`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"a":1}}}`,
			`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"{\"a\":1}"}],"isError":false}}`},
		"call without arguments": {`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"}}`,
			`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"nothing to say"}],"isError":true}}`},
		"no such tool":   {`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"x"}}`, `{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"unknown tool: x"}}`},
		"no such method": {`{"jsonrpc":"2.0","id":4,"method":"prompts/list"}`, `{"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"method not found: prompts/list"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := server(t.Context(), json.RawMessage(tc.in))
			if diff := cmp.Diff(tc.want, string(got)); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
	if _, err := server(t.Context(), json.RawMessage("7")); err == nil {
		t.Error("a number is no message")
	}
}
