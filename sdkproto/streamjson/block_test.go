package streamjson_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// Blocks are read as they are written (spec stream-json 3.3, 3.4, 8.4), and a block
// of a newer type is kept as its type.
func TestBlockReading(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]streamjson.Block{
		`{"type":"text","text":"a"}`:                                                                      {Type: "text", Text: "a"},
		`{"type":"thinking","thinking":"b","signature":"s"}`:                                              {Type: "thinking", Text: "b", Signature: "s"},
		`{"type":"redacted_thinking","data":"c"}`:                                                         {Type: "redacted_thinking", Data: "c"},
		`{"type":"tool_use","id":"i","name":"n","input":{"x":1}}`:                                         {Type: "tool_use", ID: "i", Name: "n", Input: []byte(`{"x":1}`)},
		`{"type":"tool_result","tool_use_id":"i","content":[{"type":"text","text":"d"}],"is_error":true}`: {Type: "tool_result", ToolUseID: "i", Content: []byte(`[{"type":"text","text":"d"}]`), IsError: true},
		`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}`:              {Type: "image", MediaType: "image/png", Data: "AA=="},
	} {
		var got streamjson.Block
		if err := wirejson.Unmarshal([]byte(raw), &got); err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", raw, diff)
		}
		if again := string(got.AppendJSON(nil)); again != raw {
			t.Errorf("%s is written as %s", raw, again)
		}
	}
	for raw, ok := range map[string]bool{`{"type":"newer","text":7,"source":"x"}`: true, `{"type":"text","text":7}`: false, `"text"`: false, `{"type":7}`: false} {
		got := streamjson.Block{Text: "old"}
		err := wirejson.Unmarshal([]byte(raw), &got)
		if (err == nil) != ok || ok && !cmp.Equal(got, streamjson.Block{Type: "newer"}) {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
}
