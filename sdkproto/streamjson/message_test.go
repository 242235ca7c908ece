package streamjson_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// TestResult: the members that the published clients need are on every result,
// and what is absent is absent (spec stream-json 0.2, 3.7; F1, F7).
func TestResult(t *testing.T) {
	for name, tc := range map[string]struct {
		result streamjson.Result
		want   string
	}{
		"nothing set": {
			streamjson.Result{},
			`{"type":"","session_id":"","uuid":"","is_error":false,"duration_ms":0,"duration_api_ms":0,"num_turns":0,"result":"","stop_reason":null,` +
				`"total_cost_usd":0,"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0,` +
				`"server_tool_use":{"web_search_requests":0},"service_tier":""},"modelUsage":{},"permission_denials":[]}`,
		},
		"an error": {
			streamjson.Result{
				Head:    streamjson.Head{Type: streamjson.TypeResult, Subtype: streamjson.ResultMaxTurns, SessionID: "S", UUID: "U"},
				IsError: true, Errors: []string{"e"}, APIErrorStatus: json.RawMessage(`null`), QueuedTurnCount: new(int),
				DeferredToolUse: &streamjson.DeferredTool{ID: "i", Name: "n", Input: json.RawMessage(`{}`)},
			},
			`{"type":"result","subtype":"error_max_turns","session_id":"S","uuid":"U","is_error":true,"duration_ms":0,"duration_api_ms":0,"num_turns":0,"result":"","stop_reason":null,` +
				`"total_cost_usd":0,"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0,` +
				`"server_tool_use":{"web_search_requests":0},"service_tier":""},"modelUsage":{},"permission_denials":[],"errors":["e"],"api_error_status":null,` +
				`"deferred_tool_use":{"id":"i","name":"n","input":{}},"queued_turn_count":0}`,
		},
	} {
		got, err := wirejson.Marshal(&tc.result)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestBlocks: each block has the members of its kind (spec stream-json 3.3, 3.4,
// 8.4; F3).
func TestBlocks(t *testing.T) {
	for want, b := range map[string]streamjson.Block{
		`{"type":"text","text":"a\u2028"}`:                      {Type: streamjson.BlockText, Text: "a\u2028", ID: "not shown"},
		`{"type":"thinking","thinking":"t","signature":""}`:     {Type: streamjson.BlockThinking, Text: "t"},
		`{"type":"redacted_thinking","data":"d"}`:               {Type: streamjson.BlockRedacted, Data: "d"},
		`{"type":"tool_use","id":"i","name":"n","input":{}}`:    {Type: streamjson.BlockToolUse, ID: "i", Name: "n", Input: json.RawMessage(`{}`)},
		`{"type":"tool_result","tool_use_id":"i","content":""}`: {Type: streamjson.BlockToolResult, ToolUseID: "i", Content: json.RawMessage(`""`)},
		`{"type":"tool_result","tool_use_id":"i","content":[],"is_error":true}`: {
			Type: streamjson.BlockToolResult, ToolUseID: "i", Content: json.RawMessage(`[]`), IsError: true,
		},
		`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}`: {Type: streamjson.BlockImage, MediaType: "image/png", Data: "AA=="},
	} {
		if got := string(b.AppendJSON(nil)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got, err := wirejson.Marshal(b); err != nil || string(got) != want {
			t.Errorf("encoded: %s, %v, want %s", got, err, want)
		}
	}
}

// TestIDs: ids have the shapes that hosts parse, and follow from what they are
// made of (S077, case B98).
func TestIDs(t *testing.T) {
	if id := streamjson.MessageID("msg_01", "s", 4); id != "msg_01" {
		t.Errorf("the provider's id became %q", id)
	}
	message := regexp.MustCompile(`^msg_[0-9a-f]{32}$`)
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]string{}
	for _, session := range []string{"a", "b", ""} {
		for n := range 300 {
			for kind, id := range map[string]string{
				"message": streamjson.MessageID([]string{"", "chatcmpl-1"}[n%2], session, int64(n)), "block": streamjson.BlockUUID(session, n),
			} {
				from := fmt.Sprint(kind, session, n)
				if kind == "message" && !message.MatchString(id) || kind == "block" && !form.MatchString(id) {
					t.Errorf("%s: %q", kind, id)
				}
				if old, twice := seen[id]; twice {
					t.Errorf("%s and %s are both %q", old, from, id)
				}
				seen[id] = from
			}
		}
	}
	if one, again := streamjson.BlockUUID("m", 1), streamjson.BlockUUID("m", 1); one != again {
		t.Error("a uuid does not follow from the message and the place")
	}
}

// TestStream are the events to the letter (spec stream-json 3.6).
func TestStream(t *testing.T) {
	s := streamjson.NewStream("S")
	u := &streamjson.Usage{InputTokens: 1, OutputTokens: 2}
	must := func(b []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const usage = `{"input_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":2}`
	for want, got := range map[string][]byte{
		`{"type":"message_start","message":{"id":"i","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":` + usage + `}}`: must(
			s.MessageStart(nil, "U", &streamjson.Message{ID: "i", Type: "message", Role: "assistant", Model: "m", Usage: *u})),
		`{"type":"content_block_start","index":3,"content_block":{"type":"text","text":""}}`:                     s.BlockStart(nil, "U", 3, &streamjson.Block{Type: streamjson.BlockText}),
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\n"}}`:                    s.Delta(nil, "U", 0, streamjson.KindText, "a\n"),
		`{"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"a"}}`:              s.Delta(nil, "U", 1, streamjson.KindThinking, "a"),
		`{"type":"content_block_delta","index":2,"delta":{"type":"signature_delta","signature":"a"}}`:            s.Delta(nil, "U", 2, streamjson.KindSignature, "a"),
		`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{"}}`:        s.Delta(nil, "U", 3, streamjson.KindInput, "{"),
		`{"type":"content_block_stop","index":12}`:                                                               s.BlockStop(nil, "U", 12),
		`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":` + usage + `}`: must(s.MessageDelta(nil, "U", "end_turn", "", u)),
		`{"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"\"END"},"usage":` + usage + `}`: must(
			s.MessageDelta(nil, "U", "stop_sequence", `"END`, u)),
		`{"type":"message_stop"}`: s.MessageStop(nil, "U"),
	} {
		want = `{"type":"stream_event","session_id":"S","uuid":"U","parent_tool_use_id":null,"event":` + want + `}`
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	long := s.Delta(nil, strings.Repeat("u", 36), 1000, streamjson.KindSignature, "")
	if len(long) > s.Size() {
		t.Errorf("a line of %d bytes, and Size says %d", len(long), s.Size())
	}
}
