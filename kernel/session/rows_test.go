package session_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dsh/kernel/session"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// unpack reads rows that start at seq back into records.
func unpack(rows []byte, seq int64) (records []session.Record, lines int, err error) {
	for line := range bytes.Lines(rows) {
		lines++
		seq, err = session.ParseRow(bytes.TrimSuffix(line, []byte("\n")), seq, func(r *session.Record) error {
			records = append(records, *r)
			return nil
		})
		if err != nil {
			return nil, lines, err
		}
	}
	return records, lines, nil
}

// anyDraft favours deltas, the one thing that is packed, and what could break a
// run of them: another block, another id, a name, odd text.
func anyDraft(t *rapid.T) session.Draft {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", `"`, `\`, "\n", "\xff", "\u2028", `"}}}`, "<&>", "\x00", "\ufffd", `\u0041`}))
	d := session.Draft{Time: rapid.SampledFrom([]int64{0, 0, 0, 1 << 60, 1<<60 + 7}).Draw(t, "time")}
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		d.Type, d.Data, d.Ignorable = "vendor/"+strings.ToValidUTF8(text.Draw(t, "type"), ""), map[string]any{text.Draw(t, "key"): text.Draw(t, "value")}, true
	case 1:
		d.Type, d.Data = sdkproto.TypeUserMessage, &sdkproto.Message{Content: []sdkproto.Block{sdkproto.Text(text.Draw(t, "text"))}}
		d.Surface = rapid.SampledFrom([][]byte{nil, []byte(sdkproto.SurfaceAppend), []byte("{ \"op\":\"replace\",\n\"start\":0,\"end\":0}")}).Draw(t, "surface")
	case 2:
		d.Type, d.Data = sdkproto.TypeAssistantChunk, &sdkproto.AssistantChunk{Chunk: sdkproto.Chunk{
			Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: "stop"}, ReplayState: []byte("{\n \"a\": [1, 2.50]\n}"),
		}}
	default:
		c := sdkproto.Chunk{
			Type:  rapid.SampledFrom([]string{sdkproto.ChunkTextDelta, sdkproto.ChunkReasoningDelta, sdkproto.ChunkToolCallDelta}).Draw(t, "chunk"),
			Index: rapid.SampledFrom([]int{0, 0, 0, 0, 1, -1}).Draw(t, "index"),
		}
		c.Text = text.Draw(t, "piece")
		c.ArgumentsDelta = c.Text
		c.ID = rapid.SampledFrom([]string{"c1", "c1", "c1", `c"2`, ""}).Draw(t, "id")
		c.Name = rapid.SampledFrom([]string{"", "", "", "bash", "\n"}).Draw(t, "name")
		d.Type = sdkproto.TypeAssistantChunk
		d.Data = &sdkproto.AssistantChunk{Turn: rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "turn"), Step: 1, Chunk: c}
		if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
			d.Ignorable = true
		}
		if rapid.IntRange(0, 9).Draw(t, "sourced") == 0 {
			d.Sources = []int64{0, 5}
		}
	}
	return d
}

// anyBatch has runs of deltas that differ in nothing but their text and, on the
// first, a name.
func anyBatch(t *rapid.T) []session.Draft {
	var batch []session.Draft
	for range rapid.IntRange(1, 6).Draw(t, "runs") {
		d := anyDraft(t)
		batch = append(batch, d)
		c, ok := d.Data.(*sdkproto.AssistantChunk)
		if !ok {
			continue
		}
		for range rapid.IntRange(0, 6).Draw(t, "length") {
			next := *c
			next.Chunk.Name, next.Chunk.Text = "", rapid.String().Draw(t, "next")
			next.Chunk.ArgumentsDelta = next.Chunk.Text
			batch = append(batch, session.Draft{Type: d.Type, Data: &next, Time: d.Time})
		}
	}
	return batch
}

// Whatever is packed comes back with exactly the bytes it had.
func TestRowsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &memory{}
		first := rapid.SampledFrom([]int64{0, 9, 1 << 40}).Draw(t, "first")
		l := session.NewLog(session.Header{ID: "s"}, w, first, 0)
		if _, err := l.Append(anyBatch(t)...); err != nil {
			t.Fatal(err)
		}
		want := w.records
		rows := session.AppendRows(nil, want)
		got, _, err := unpack(rows, first)
		if err != nil {
			t.Fatalf("%v\n%s", err, rows)
		}
		if len(got) != len(want) {
			t.Fatalf("%d records came back of %d:\n%s", len(got), len(want), rows)
		}
		for i := range want {
			if !bytes.Equal(got[i].Raw, want[i].Raw) {
				t.Fatalf("record %d came back as\n%s\nwant\n%s\nrows:\n%s", i, got[i].Raw, want[i].Raw, rows)
			}
			if diff := cmp.Diff(want[i].Event, got[i].Event); diff != "" {
				t.Fatalf("event %d (-appended +read):\n%s", i, diff)
			}
			if got[i].Data == nil {
				continue
			}
			// Payloads that come with the row are those that the bytes say.
			var fresh sdkproto.AssistantChunk
			if err := wirejson.Unmarshal(got[i].Event.Data, &fresh); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&fresh, got[i].Data); diff != "" {
				t.Fatalf("payload %d (-decoded +handed on):\n%s", i, diff)
			}
		}
		if again := session.AppendRows(nil, got); !bytes.Equal(again, rows) {
			t.Fatalf("packed again it is\n%s\nwant\n%s", again, rows)
		}
	})
}

func rawDelta(seq, time int64, rest string) string {
	return fmt.Sprintf(`{"type":"assistant/chunk","seq":%d,"time":%d,"data":{"turn":1,"step":2,"chunk":%s}}`, seq, time, rest)
}

// The rows of spec jsonrpc 9.2, letter by letter.
func TestAppendRows(t *testing.T) {
	text := func(index int, s string) string {
		return fmt.Sprintf(`{"type":"text-delta","index":%d,"text":"%s"}`, index, s)
	}
	call := func(id, name, args string) string {
		if name != "" {
			name = `,"name":"` + name + `"`
		}
		return fmt.Sprintf(`{"type":"tool-call-delta","index":1,"id":"%s"%s,"argumentsDelta":"%s"}`, id, name, args)
	}
	for _, tc := range []struct {
		name string
		raw  []string
		rows []string // "" stands for the raw form at that place
	}{
		{"text", []string{rawDelta(7, 10, text(0, "a")), rawDelta(8, 11, text(0, "b")), rawDelta(9, 14, text(0, `c\n`))},
			[]string{`{"type":"text-chunks","seq0":7,"time0":10,"data":{"turn":1,"step":2,"index":0,"dt":[1,3],"texts":["a","b","c\n"]}}`}},
		{"reasoning", []string{
			rawDelta(7, 10, `{"type":"reasoning-delta","index":0,"text":"a"}`), rawDelta(8, 10, `{"type":"reasoning-delta","index":0,"text":""}`),
			rawDelta(9, 10, `{"type":"reasoning-delta","index":0,"text":"c"}`)},
			[]string{`{"type":"reasoning-chunks","seq0":7,"time0":10,"data":{"turn":1,"step":2,"index":0,"dt":[0,0],"texts":["a","","c"]}}`}},
		{"call with a name", []string{rawDelta(7, 10, call("c", "bash", "{")), rawDelta(8, 10, call("c", "", "1")), rawDelta(9, 10, call("c", "", "}"))},
			[]string{`{"type":"tool-call-chunks","seq0":7,"time0":10,"data":{"turn":1,"step":2,"index":1,"id":"c","name":"bash","dt":[0,0],"args":["{","1","}"]}}`}},
		{"call without a name", []string{rawDelta(7, 10, call("c", "", "{")), rawDelta(8, 10, call("c", "", "1")), rawDelta(9, 10, call("c", "", "}"))},
			[]string{`{"type":"tool-call-chunks","seq0":7,"time0":10,"data":{"turn":1,"step":2,"index":1,"id":"c","dt":[0,0],"args":["{","1","}"]}}`}},
		{"two are no run", []string{rawDelta(7, 10, text(0, "a")), rawDelta(8, 11, text(0, "b"))}, []string{"", ""}},
		{"another block ends a run", []string{
			rawDelta(7, 10, text(0, "a")), rawDelta(8, 10, text(0, "b")), rawDelta(9, 10, text(1, "c")), rawDelta(10, 10, text(1, "d")), rawDelta(11, 10, text(1, "e"))},
			[]string{"", "", `{"type":"text-chunks","seq0":9,"time0":10,"data":{"turn":1,"step":2,"index":1,"dt":[0,0],"texts":["c","d","e"]}}`}},
		{"a second name ends a run", []string{rawDelta(7, 10, call("c", "x", "{")), rawDelta(8, 10, call("c", "", "1")), rawDelta(9, 10, call("c", "x", "}"))}, []string{"", "", ""}},
		{"a gap in seq ends a run", []string{rawDelta(7, 10, text(0, "a")), rawDelta(8, 10, text(0, "b")), rawDelta(10, 10, text(0, "c"))}, []string{"", "", ""}},
		{"another turn ends a run", []string{rawDelta(7, 10, text(0, "a")), rawDelta(8, 10, text(0, "b")), strings.Replace(rawDelta(9, 10, text(0, "c")), `"turn":1`, `"turn":2`, 1)},
			[]string{"", "", ""}},
		{"another id ends a run", []string{rawDelta(7, 10, call("c", "", "{")), rawDelta(8, 10, call("d", "", "1")), rawDelta(9, 10, call("c", "", "}"))}, []string{"", "", ""}},
		{"members that a packed row has no place for", []string{
			rawDelta(7, 10, `{"type":"text-delta","index":0,"text":"a","x":1}`), rawDelta(8, 10, `{"type":"text-delta","index":0,"text":"a","x":1}`),
			rawDelta(9, 10, `{"type":"text-delta","index":0,"text":"a","x":1}`)}, []string{"", "", ""}},
		{"numbers in another form", []string{
			rawDelta(7, 10, `{"type":"text-delta","index":00,"text":"a"}`), rawDelta(8, 10, `{"type":"text-delta","index":1e0,"text":"a"}`),
			rawDelta(9, 10, `{"type":"text-delta","index":-0,"text":"a"}`)}, []string{"", "", ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var records []session.Record
			for _, raw := range tc.raw {
				records = append(records, session.Record{Raw: []byte(raw)})
			}
			var want strings.Builder
			for i, row := range tc.rows {
				if row == "" {
					row = tc.raw[i]
				}
				want.WriteString(row + "\n")
			}
			if got := string(session.AppendRows(nil, records)); got != want.String() {
				t.Errorf("got\n%swant\n%s", got, want.String())
			}
			if len(tc.rows) > 1 {
				return
			}
			back, _, err := unpack([]byte(want.String()), 7)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range back {
				got = append(got, string(r.Raw))
			}
			if diff := cmp.Diff(tc.raw, got); diff != "" {
				t.Errorf("unpacked it is (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRowRefuses(t *testing.T) {
	for name, row := range map[string]string{
		"no JSON":                      `{"type"`,
		"no object":                    `[1]`,
		"empty":                        ``,
		"no type":                      `{"seq":7,"time":1,"data":{}}`,
		"no seq":                       `{"type":"turn/start","time":1,"data":{}}`,
		"no time":                      `{"type":"turn/start","seq":7,"data":{}}`,
		"no data":                      `{"type":"turn/start","seq":7,"time":1}`,
		"other seq":                    `{"type":"turn/start","seq":8,"time":1,"data":{}}`,
		"seq is no integer":            `{"type":"turn/start","seq":7.5,"time":1,"data":{}}`,
		"packed, other seq":            `{"type":"text-chunks","seq0":8,"time0":1,"data":{"turn":1,"step":1,"index":0,"dt":[],"texts":["a"]}}`,
		"packed, unknown type":         `{"type":"image-chunks","seq0":7,"time0":1,"data":{"turn":1,"step":1,"index":0,"dt":[],"texts":["a"]}}`,
		"packed, no data":              `{"type":"text-chunks","seq0":7,"time0":1}`,
		"packed, no time":              `{"type":"text-chunks","seq0":7,"data":{"turn":1,"step":1,"index":0,"dt":[],"texts":["a"]}}`,
		"packed, no turn":              `{"type":"text-chunks","seq0":7,"time0":1,"data":{"step":1,"index":0,"dt":[],"texts":["a"]}}`,
		"packed, no pieces":            `{"type":"text-chunks","seq0":7,"time0":1,"data":{"turn":1,"step":1,"index":0,"dt":[],"texts":[]}}`,
		"packed, a time too many":      `{"type":"text-chunks","seq0":7,"time0":1,"data":{"turn":1,"step":1,"index":0,"dt":[1],"texts":["a"]}}`,
		"packed, a piece is no text":   `{"type":"text-chunks","seq0":7,"time0":1,"data":{"turn":1,"step":1,"index":0,"dt":[1],"texts":["a",5]}}`,
		"packed, text with an id":      `{"type":"text-chunks","seq0":7,"time0":1,"data":{"turn":1,"step":1,"index":0,"id":"c","dt":[],"texts":["a"]}}`,
		"packed, text with a name":     `{"type":"text-chunks","seq0":7,"time0":1,"data":{"turn":1,"step":1,"index":0,"name":"c","dt":[],"texts":["a"]}}`,
		"packed, call without id":      `{"type":"tool-call-chunks","seq0":7,"time0":1,"data":{"turn":1,"step":1,"index":0,"dt":[],"args":["a"]}}`,
		"packed, call with texts":      `{"type":"tool-call-chunks","seq0":7,"time0":1,"data":{"turn":1,"step":1,"index":0,"id":"c","dt":[],"texts":["a"]}}`,
		"packed, name is a number":     `{"type":"tool-call-chunks","seq0":7,"time0":1,"data":{"turn":1,"step":1,"index":0,"id":"c","name":1,"dt":[],"args":["a"]}}`,
		"two values":                   `{"type":"turn/start","seq":7,"time":1,"data":{}} {}`,
		"member names are cased right": `{"Type":"turn/start","Seq":7,"Time":1,"Data":{}}`,
	} {
		next, err := session.ParseRow([]byte(row), 7, func(r *session.Record) error {
			t.Errorf("%s: handed on %s", name, r.Raw)
			return nil
		})
		var bad *session.RowError
		if !errors.As(err, &bad) || next != 7 {
			t.Errorf("%s: got next %d, error %v, want 7 and *RowError", name, next, err)
		}
	}
	stop := errors.New("stop")
	_, err := session.ParseRow([]byte(`{"type":"turn/start","seq":7,"time":1,"data":null}`), 7, func(*session.Record) error { return stop })
	var bad *session.RowError
	if !errors.Is(err, stop) || errors.As(err, &bad) {
		t.Errorf("the function's own error came back as %v", err)
	}
}

func TestHeaderRow(t *testing.T) {
	h := session.Header{ID: "643f", CreatedAt: 1796028872480, CWD: "/w", ParentSession: "session-7f", SeedLength: 12, Origin: "subagent", DelegationDepth: 1, AgentPreset: "p"}
	row, err := session.AppendHeader(nil, &h)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"type":"session","version":0,"id":"643f","createdAt":1796028872480,"cwd":"/w","parentSession":"session-7f","seedLength":12,"origin":"subagent","delegationDepth":1,"agentPreset":"p"}` + "\n"
	if string(row) != want {
		t.Errorf("got\n%swant\n%s", row, want)
	}
	back, err := session.ParseHeader(row)
	if err != nil || back != h {
		t.Errorf("it comes back as %+v, %v", back, err)
	}
	for text, target := range map[string]error{
		`{"type":"session","version":1,"id":"x"}`:                                   session.ErrUnsupported,
		`{"type":"session","version":null,"id":"x"}`:                                session.ErrUnsupported,
		`{"type":"session","version":0.5,"id":"x"}`:                                 session.ErrUnsupported,
		`{"type":"session","id":"x"}`:                                               session.ErrUnsupported,
		`{"type":"session","version":0}`:                                            session.ErrCorrupt,
		`{"type":"session","version":0,"id":"x","createdAt":"now"}`:                 session.ErrCorrupt,
		`{"type":"turn/start","seq":0,"time":0,"data":{}}`:                          session.ErrCorrupt,
		`{"version":0,"id":"x"}`:                                                    session.ErrCorrupt,
		`nonsense`:                                                                  session.ErrCorrupt,
		`{"type":"session","version":0,"id":"x","createdAt":1,"futureMember":true}`: nil,
	} {
		if _, err := session.ParseHeader([]byte(text)); !errors.Is(err, target) || (err == nil) != (target == nil) {
			t.Errorf("ParseHeader(%s): got error %v, want %v", text, err, target)
		}
	}
}

func TestEncodeID(t *testing.T) {
	for id, want := range map[string]string{
		"session-7f": "session-7f", "A.z_0-9": "A.z_0-9", ".": "~002E", "..": "~002E~002E", "...": "...", "a/b": "a~002Fb", "~": "~007E",
		"я": "~044F", "\U0001F600": "~D83D~DE00", "a\n": "a~000A", "": "",
	} {
		if got := session.EncodeID(id); got != want {
			t.Errorf("EncodeID(%q) = %q, want %q", id, got, want)
		}
	}
	for id, ok := range map[string]bool{
		"": false, "a": true, strings.Repeat("a", 200): true, strings.Repeat("a", 201): false, strings.Repeat("/", 40): true, strings.Repeat("/", 41): false,
	} {
		if err := session.CheckID(id); (err == nil) != ok {
			t.Errorf("CheckID(%q): error %v, want ok=%v", id, err, ok)
		}
	}
}

func TestEncodeIDKeepsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		if (session.EncodeID(a) == session.EncodeID(b)) != (a == b) {
			t.Fatalf("%q and %q are %q and %q", a, b, session.EncodeID(a), session.EncodeID(b))
		}
	})
}
