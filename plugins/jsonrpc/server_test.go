package jsonrpc_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Spec jsonrpc 2.1, 2.2, 2.4 and 2.5: the frames, byte for byte.
func TestFrames(t *testing.T) {
	p := serve(t, setup{})
	p.begin()
	p.send(prompt(`"req_2"`, "session-7f", "hello"))
	got := p.until(`"status":"idle"`)
	answer := `{"jsonrpc":"2.0","id":"req_2","result":{"messageId":"session-7f-m1"}}`
	// The answer may come anywhere among the events.
	answers := 0
	var events []string
	for _, l := range got {
		if l == answer {
			answers++
			continue
		}
		events = append(events, l)
	}
	if answers == 0 {
		if a, _ := p.answer(`"req_2"`); a != answer {
			t.Errorf("answered %s", a)
		}
	}
	if answers > 1 {
		t.Errorf("answered %d times", answers)
	}
	want := []string{
		`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"session-7f","event":{"type":"agent/inbox/spliced","seq":0,"time":1,"data":{"target":"next-turn","start":0,"inserted":[{"content":[{"type":"text","text":"hello"}],"source":{"kind":"user"},"role":"user","id":"session-7f-m1"}]}}}}`,
		`{"jsonrpc":"2.0","method":"session.status","params":{"sessionId":"session-7f","status":"running"}}`,
		`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"session-7f","event":{"type":"turn/start","seq":1,"time":1,"data":{"turn":1}}}}`,
		`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"session-7f","event":{"type":"agent/inbox/spliced","seq":2,"time":1,"data":{"target":"next-turn","start":0,"removedCount":1,"inserted":[]}}}}`,
		`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"session-7f","event":{"type":"turn/end","seq":3,"time":1,"data":{"turn":1,"reason":{"kind":"completed"}}}}}`,
		`{"jsonrpc":"2.0","method":"session.status","params":{"sessionId":"session-7f","status":"idle"}}`,
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Error(diff)
	}
	p.send(`{"jsonrpc":"2.0","id":"req_9","method":"shutdown","params":{}}`)
	if a, before := p.answer(`"req_9"`); a != `{"jsonrpc":"2.0","id":"req_9","result":{}}` || len(before) > 0 {
		t.Errorf("shutdown answered %s behind %q", a, before)
	}
	if code, rest := p.ended(); code != 0 || len(rest) > 0 {
		t.Errorf("exit %d, then %q", code, rest)
	}
}

const probe = `{"jsonrpc":"2.0","id":"probe","method":"nope"}`

const probed = `{"jsonrpc":"2.0","id":"probe","error":{"code":-32601,"message":"unknown DeepSeek Harness SDK runtime method: nope"}}`

// Spec jsonrpc 1.1, 1.2 and 14 line 4.
func TestFraming(t *testing.T) {
	unknown := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32601,"message":"unknown DeepSeek Harness SDK runtime method: m"}}`
	}
	tests := []struct {
		name, in string
		want     []string // without the probe's
	}{
		{"plain", `{"jsonrpc":"2.0","id":"a","method":"m"}` + "\n", []string{unknown(`"a"`)}},
		{"carriage return", `{"jsonrpc":"2.0","id":1,"method":"m"}` + "\r\n", []string{unknown(`1`)}},
		{"byte order mark", "\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"m"}` + "\n", []string{unknown(`1`)}},
		{"white space around", " \t" + `{"jsonrpc":"2.0","id":1,"method":"m"}` + "  \n", []string{unknown(`1`)}},
		{"white space inside", `{ "jsonrpc" : "2.0" , "id" : 1 , "method" : "m" }` + "\n", []string{unknown(`1`)}},
		{"blank lines", "\n\r\n   \n", nil},
		{"batch array", `[{"jsonrpc":"2.0","id":1,"method":"m"}]` + "\n", nil},
		{"empty array", "[]\n", nil},
		{"scalars", "1\n\"x\"\ntrue\nnull\n", nil},
		{"empty object", "{}\n", nil},
		{"not JSON", "hello\n{\"id\":1,\"method\":\"m\"\n", nil},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"shutdown"}` + "\n", nil},
		{"boolean id", `{"jsonrpc":"2.0","id":true,"method":"m"}` + "\n", nil},
		{"object id", `{"jsonrpc":"2.0","id":{},"method":"m"}` + "\n", nil},
		{"notification", `{"jsonrpc":"2.0","method":"shutdown"}` + "\n", nil},
		{"no version", `{"id":1,"method":"m"}` + "\n", []string{unknown(`1`)}},
		{"other version", `{"jsonrpc":1,"id":1,"method":"m"}` + "\n", []string{unknown(`1`)}},
		{"fraction id", `{"id":1.5,"method":"m"}` + "\n", []string{unknown(`1.5`)}},
		{"1.0 id", `{"id":1.0,"method":"m"}` + "\n", []string{unknown(`1.0`)}},
		{"negative id", `{"id":-3,"method":"m"}` + "\n", []string{unknown(`-3`)}},
		{"large id", `{"id":18446744073709551617,"method":"m"}` + "\n", []string{unknown(`18446744073709551617`)}},
		{"empty id", `{"id":"","method":"m"}` + "\n", []string{unknown(`""`)}},
		{"escaped id", `{"id":"\u00e9\ud800\n","method":"m"}` + "\n", []string{unknown(`"\u00e9\ud800\n"`)}},
		{"id that is not UTF-8", "{\"id\":\"a\xff\xfeb\",\"method\":\"m\"}\n", []string{unknown("\"a\ufffd\ufffdb\"")}},
		{"id that would end a line (B91)", "{\"id\":\"a\u2028\u0085b\",\"method\":\"m\"}\n", []string{unknown(`"a\u2028\u0085b"`)}},
		{"two objects on one line", `{"id":1,"method":"m"}{"id":2,"method":"m"}` + "\n", nil},
		{"two objects and a space", `{"id":1,"method":"m"} {"id":2,"method":"m"}` + "\n", nil},
		{"pretty-printed", "{\n  \"id\": 1,\n  \"method\": \"m\"\n}\n", nil},
		{"duplicate names", `{"id":1,"method":"x","id":2,"method":"m"}` + "\n", []string{unknown(`2`)}},
		{"case matters", `{"ID":1,"METHOD":"m"}` + "\n", nil},
		{"method not a string", `{"id":1,"method":7}` + "\n", nil},
		{"response", `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n" + `{"id":"x","error":{"code":1,"message":"m"}}` + "\n", nil},
		{"params of every kind", `{"id":1,"method":"m","params":[1]}` + "\n" + `{"id":2,"method":"m","params":null}` + "\n" + `{"id":3,"method":"m","params":"x"}` + "\n",
			[]string{unknown(`1`), unknown(`2`), unknown(`3`)}},
		{"deep nesting", `{"id":1,"method":"m","params":` + strings.Repeat("[", 100_000) + "\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := serve(t, setup{})
			p.write(tt.in)
			p.send(probe)
			for _, want := range append(tt.want, probed) {
				if got := p.next(); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			}
		})
	}
}

func TestUnterminatedLastLineIsNotExecuted(t *testing.T) {
	p := serve(t, setup{})
	p.write(`{"id":1,"method":"m"}`)
	p.in.Close()
	if code, rest := p.ended(); code != 0 || len(rest) > 0 {
		t.Errorf("exit %d, wrote %q", code, rest)
	}
	if said := p.logs.String(); !strings.Contains(said, "ended inside a line") {
		t.Errorf("the log says nothing of it: %q", said)
	}
}
