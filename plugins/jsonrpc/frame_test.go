package jsonrpc

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"dsh/sdkproto/wirejson"
)

// FuzzClassify checks, for any line, that it is handled without a panic and
// that the answer to what counts as a request is one valid frame with the id
// that came.
func FuzzClassify(f *testing.F) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"cwd":"/w"}}`,
		`{"id":1.5,"method":"m"}`, `{"id":-3,"method":"m","id":7}`, `{"id":null,"method":"m"}`, `{"id":{},"method":[]}`,
		`[{"id":1,"method":"m"}]`, `{"id":1,"method":"m"}{"id":2}`, "{\"id\":\"\xff\",\"method\":\"\xc3\"}", `{"id":"\ud800","method":"\u0000"}`,
		`{"a":{"id":1},"id":2`, `{"id" : "x\"}" ,"p":[[[`, `null`, ``, `{`, `{"id":1e999999999,"method":"m"}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		keep := string(line)
		r, kind := classify(line)
		if string(line) != keep {
			t.Fatal("the line was changed")
		}
		if (r != nil) != (kind == kindRequest) {
			t.Fatalf("request %v of kind %d", r, kind)
		}
		if id := idOf(line); id != nil {
			checkAnswer(t, id)
		}
		if r == nil {
			return
		}
		if !wirejson.Valid(r.params) || !isObject(r.params) {
			t.Fatalf("params %q", r.params)
		}
		checkAnswer(t, r.id)
	})
}

func checkAnswer(t *testing.T, id []byte) {
	t.Helper()
	for _, frame := range [][]byte{
		appendResult(nil, id, []byte("{}")),
		appendError(nil, id, wireError(errShutdown, false)),
		appendError(nil, id, wireError(errShutdown, true)),
	} {
		if !json.Valid(frame) || !utf8.Valid(frame) {
			t.Fatalf("invalid answer %q", frame)
		}
		var got struct{ ID json.RawMessage }
		if err := json.Unmarshal(frame, &got); err != nil || string(got.ID) != string(id) {
			t.Fatalf("id %q came back as %q (%v)", id, got.ID, err)
		}
	}
}

func TestIDOf(t *testing.T) {
	tests := []struct{ prefix, want string }{
		{`{"id":1,"method":"m","params":"xxx`, `1`},
		{`{"jsonrpc":"2.0","id":"a\"b","method`, `"a\"b"`},
		{`{ "x" : [1,{"id":2}] , "id" : -1.5e3 ,`, `-1.5e3`},
		{`{"i\u0064":3,"params":[`, `3`},
		{`{"params":{"id":5,"a":"xxx`, ``},
		{`{"id":12`, ``}, // may go on
		{`{"id":"ab`, ``},
		{`{"id":null,"method":"m","id":4,`, ``},
		{`{"id":{},`, ``},
		{`{"id":1x,`, ``},
		{`[{"id":1}`, ``},
		{`{}`, ``},
		{`{,"id":1,`, ``},
		{``, ``},
	}
	for _, tt := range tests {
		if got := string(idOf([]byte(tt.prefix))); got != tt.want {
			t.Errorf("idOf(%s) = %q, want %q", tt.prefix, got, tt.want)
		}
	}
}
