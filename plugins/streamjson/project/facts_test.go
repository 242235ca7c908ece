package project_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/llm"
	"dsh/plugins/streamjson/project"
	"dsh/sdkproto"
)

// TestCategories is the table of spec stream-json 12.1.
func TestCategories(t *testing.T) {
	for _, tc := range []struct {
		code   string
		status int
		want   string
	}{
		{llm.CodeAuth, 401, "authentication_failed"}, {"", 403, "authentication_failed"}, {llm.CodeInvalidCredential, 0, "authentication_failed"},
		{llm.CodeQuota, 402, "billing_error"}, {llm.CodeQuota, 429, "billing_error"}, {llm.CodeQuota, 400, "billing_error"}, {"X", 402, "billing_error"},
		{llm.CodeRateLimit, 429, "rate_limit"}, {"HTTP_429", 429, "rate_limit"},
		{llm.CodeServer, 529, "overloaded"}, {"INSUFFICIENT_SYSTEM_RESOURCE", 503, "overloaded"},
		{llm.CodeInvalidRequest, 400, "invalid_request"}, {"HTTP_422", 422, "invalid_request"}, {"CONTENT_FILTER", 0, "invalid_request"},
		{llm.CodeInvalidRequest, 404, "model_not_found"},
		{llm.CodeServer, 500, "server_error"}, {llm.CodeTransport, 0, "server_error"}, {llm.CodeTimeout, 0, "server_error"},
		{llm.CodeStreamClosed, 0, "server_error"}, {llm.CodeMalformedResponse, 200, "server_error"}, {"X", 502, "server_error"},
		{"X", 0, "unknown"},
	} {
		p := project.New(options())
		p.Begin(theTurn)
		s := newScript().begin("m")
		s.add(root, sdkproto.TypeLLMRetry, &sdkproto.LLMRetry{Retry: 1, Failure: sdkproto.Failure{Code: tc.code, Status: tc.status}})
		got := show(t, p, s.end(failure(tc.code, tc.status, "text")).entries)
		for _, l := range []line{of(got, "system api_retry")[0], of(got, "assistant text")[0]} {
			if l.str("error") != tc.want {
				t.Errorf("%s %d is %q in %s, want %q", tc.code, tc.status, l.str("error"), l.kind(), tc.want)
			}
		}
		if status := of(got, "system api_retry")[0]["error_status"]; tc.status == 0 && status != nil || tc.status != 0 && status != float64(tc.status) {
			t.Errorf("error_status %v for %d", status, tc.status)
		}
		if m := of(got, "assistant text")[0]; m.str("message", "model") != "<synthetic>" {
			t.Errorf("model %q", m.str("message", "model"))
		}
	}
}

// TestCompaction are the lines of spec stream-json 3.10.
func TestCompaction(t *testing.T) {
	s := newScript().begin("m").say(root, "m", &sdkproto.Usage{InputTokens: 10, CacheReadTokens: 90_000, CacheWriteTokens: 900, OutputTokens: 90}, toolCall("c", "Read", "{}"))
	s.result(root, "c", sdkproto.ToolResult{}, sdkproto.Text("x"))
	before := len(s.entries)
	s.add(root, sdkproto.TypeCompactionStart, &sdkproto.CompactionStart{CompactionID: "k"})
	s.later(20).add(root, sdkproto.TypeCompactionEnd, &sdkproto.CompactionEnd{CompactionID: "k"})
	s.add(root, sdkproto.TypeCompactionStart, &sdkproto.CompactionStart{CompactionID: "l", SourceCommandID: "x"})
	s.add(root, sdkproto.TypeCompactionEnd, &sdkproto.CompactionEnd{CompactionID: "l", Error: "the summary is too long"})
	s.add(childID, sdkproto.TypeCompactionStart, &sdkproto.CompactionStart{CompactionID: "m"})
	p := project.New(options())
	p.Begin(theTurn)
	show(t, p, s.entries[:before])
	got := show(t, p, s.entries[before:])
	for _, l := range got {
		delete(l, "uuid")
	}
	want(t, got,
		`{"type":"system","subtype":"status","session_id":"$S","status":"compacting"}`,
		`{"type":"system","subtype":"status","session_id":"$S","status":null,"compact_result":"success"}`,
		`{"type":"system","subtype":"compact_boundary","session_id":"$S","compact_metadata":{"trigger":"auto","pre_tokens":91000,"duration_ms":20}}`,
		`{"type":"system","subtype":"status","session_id":"$S","status":"compacting"}`,
		`{"type":"system","subtype":"status","session_id":"$S","status":null,"compact_result":"failed","compact_error":"the summary is too long"}`)
}

// TestRoomMade: a request that was too long is made again behind a compaction,
// and its time counts from there.
func TestRoomMade(t *testing.T) {
	s := newScript().begin("m").later(3).chunks(finish(sdkproto.FinishError))
	s.add(root, sdkproto.TypeCompactionStart, &sdkproto.CompactionStart{CompactionID: "k"})
	s.later(100).add(root, sdkproto.TypeCompactionEnd, &sdkproto.CompactionEnd{CompactionID: "k"})
	s.later(40).say(root, "m", nil, sdkproto.Text("x")).end(kind(sdkproto.EndCompleted))
	p := project.New(options())
	p.Begin(theTurn)
	got := show(t, p, s.entries)
	// 4 from step/start over the header to the failure, 40 to the answer.
	if r := got[len(got)-1]; r["duration_api_ms"] != 44.0 {
		t.Errorf("duration_api_ms %v", r["duration_api_ms"])
	}
}

// TestDenied: a refusal by a rule is told of when nobody was asked (spec stream-json 3.10).
func TestDenied(t *testing.T) {
	deny := func(call, behavior, rule string) sdkproto.PermissionDecision {
		return sdkproto.PermissionDecision{CallID: call, ToolName: "Bash", Behavior: behavior, Reason: "it is not wanted", Rule: rule}
	}
	s := newScript().begin("m")
	s.add(root, sdkproto.TypeApprovalAsked, sdkproto.ApprovalAsked{CallID: "asked"})
	s.add(root, sdkproto.TypePermissionDecision, deny("asked", "deny", "Bash"))
	s.add(root, sdkproto.TypePermissionDecision, deny("b", "ask", "Bash"))
	s.add(root, sdkproto.TypePermissionDecision, deny("d", "deny", ""))
	s.add(root, sdkproto.TypePermissionDecision, deny("c", "deny", "Bash(rm:*)"))
	// The modes' own refusals: plan is the seed's example, which has no such line.
	for call, mode := range map[string]string{"plan": "plan", "dontAsk": "dontAsk"} {
		d := deny(call, "deny", "")
		d.Mode = mode
		s.add(root, sdkproto.TypePermissionDecision, d)
	}
	p := project.New(options())
	p.Begin(theTurn)
	got := show(t, p, s.entries)
	for _, l := range got {
		delete(l, "uuid")
	}
	want(t, got, `{"type":"system","subtype":"permission_denied","session_id":"$S","tool_name":"Bash","tool_use_id":"c","message":"it is not wanted",
		"decision_reason_type":"rule","decision_reason":"it is not wanted"}`,
		`{"type":"system","subtype":"permission_denied","session_id":"$S","tool_name":"Bash","tool_use_id":"dontAsk","message":"it is not wanted",
		"decision_reason_type":"mode","decision_reason":"it is not wanted"}`)
}

// TestFallback: the client is told which model answers in the place of another
// (spec stream-json 12.3).
func TestFallback(t *testing.T) {
	header := func(model string) *sdkproto.RequestHeader {
		return &sdkproto.RequestHeader{Header: sdkproto.Header{Config: sdkproto.RequestConfig{Model: model}}, Reason: sdkproto.HeaderChange}
	}
	s := newScript().begin("big")
	s.add(root, sdkproto.TypeRequestHeader, header("big"))
	s.chunks(sdkproto.Chunk{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: sdkproto.FinishError}})
	s.add(root, sdkproto.TypeRequestHeader, header("other"))
	s.say(root, "other", nil, sdkproto.Text("I am here.")).end(kind(sdkproto.EndCompleted))
	s.post(message).open("big").say(root, "big", nil, sdkproto.Text("Me too."))
	p := project.New(options())
	p.Begin(theTurn)
	got := show(t, p, s.entries)
	if diff := cmp.Diff([]string{"system informational", "assistant text", "result success", "assistant text"}, kinds(got)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if text := got[0].str("content"); text != "The model big cannot answer; other answers in its place for the rest of this turn." {
		t.Errorf("text %q", text)
	}
}
