package sdkproto_test

import (
	"encoding/json"
	"testing"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// A frozen header, and an event that carries it, are written as an unfrozen one.
func TestFrozenHeaderIsWrittenTheSame(t *testing.T) {
	h := sdkproto.Header{
		Config: sdkproto.RequestConfig{Provider: "p", Model: "m", MaxTokens: 7},
		System: "<you> & \"I\"",
		Tools:  []sdkproto.ToolSchema{{Name: "read", Description: "Reads.", Parameters: json.RawMessage(`{"type":"object"}`)}},
	}
	const want = `{"header":{"config":{"provider":"p","model":"m","maxTokens":7},"system":"<you> & \"I\"","tools":[{"name":"read","description":"Reads.","parameters":{"type":"object"}}]},"reason":"initial"}`
	write := func() string {
		t.Helper()
		event := &sdkproto.RequestHeader{Header: h, Reason: sdkproto.HeaderInitial}
		appended, err := event.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		marshalled, err := wirejson.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		if string(appended) != string(marshalled) {
			t.Errorf("appended   %s\nmarshalled %s", appended, marshalled)
		}
		return string(appended)
	}
	if got := write(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := h.Freeze(); err != nil {
		t.Fatal(err)
	}
	if got := write(); got != want {
		t.Errorf("frozen: got %s\nwant %s", got, want)
	}
}
