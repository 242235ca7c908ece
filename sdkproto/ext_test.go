package sdkproto_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// Spec jsonrpc 13.3: the shapes of what peers exchange.
func TestExtensionShapes(t *testing.T) {
	chunks, limit := false, int64(0)
	for _, tt := range []struct {
		name  string
		value any
		want  string
	}{
		{"nothing asked for", sdkproto.InitializeExtensions{}, `{}`},
		{"asked for", sdkproto.InitializeExtensions{ProtocolVersion: 1, Capabilities: &sdkproto.ClientCapabilities{
			Notifications: []string{sdkproto.NotifyUsage}, Chunks: &chunks, HeartbeatSeconds: 5,
		}}, `{"protocolVersion":1,"capabilities":{"notifications":["session.usage"],"chunks":false,"heartbeatSeconds":5}}`},
		{"prompt", sdkproto.PromptExtensions{}, `{}`},
		{"options", sdkproto.PromptExtensions{Options: &sdkproto.RouteOptions{Model: "m"}, IdempotencyKey: "k"}, `{"options":{"model":"m"},"idempotencyKey":"k"}`},
		{"cancel", sdkproto.CancelParams{SessionID: "s"}, `{"sessionId":"s"}`},
		{"wait", sdkproto.WaitParams{SessionID: "s", MessageID: "m", TimeoutMs: &limit}, `{"sessionId":"s","messageId":"m","timeoutMs":0}`},
		{"dropped", sdkproto.PromptFinished{SessionID: "s", MessageID: "m", Reason: sdkproto.TurnEndReason{Kind: sdkproto.EndCanceled}},
			`{"sessionId":"s","messageId":"m","reason":{"kind":"canceled"},"finalText":""}`},
		{"waited", sdkproto.WaitResult{Finished: true, PromptFinished: sdkproto.PromptFinished{
			SessionID: "s", MessageID: "m", Turn: 2, Reason: sdkproto.TurnEndReason{Kind: "completed"}, FinalText: "x", Usage: &sdkproto.Usage{InputTokens: 1},
		}}, `{"finished":true,"sessionId":"s","messageId":"m","turn":2,"reason":{"kind":"completed"},"finalText":"x","usage":{"inputTokens":1,"outputTokens":0}}`},
		{"error", sdkproto.ErrorData{Code: sdkproto.ErrInboxFull, Retryable: true}, `{"code":"INBOX_FULL","retryable":true}`},
	} {
		got, err := wirejson.Marshal(tt.value)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, string(got)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestDetails(t *testing.T) {
	e := &sdkproto.RPCError{Data: []byte(`{"code":"X","retryable":true,"field":"a.b","more":1}`)}
	if diff := cmp.Diff(sdkproto.ErrorData{Code: "X", Retryable: true, Field: "a.b"}, e.Details()); diff != "" {
		t.Error(diff)
	}
	for _, data := range []string{``, `null`, `"text"`, `[1]`, `{"code":1}`} {
		if got := (&sdkproto.RPCError{Data: []byte(data)}).Details(); got != (sdkproto.ErrorData{}) {
			t.Errorf("%s: %+v", data, got)
		}
	}
}
