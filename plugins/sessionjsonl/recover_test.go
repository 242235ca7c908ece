package sessionjsonl_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dsh/kernel/session"
	"dsh/plugins/sessionjsonl"
)

const (
	headRow  = `{"type":"session","version":0,"id":"s","createdAt":1,"cwd":"/w","delegationDepth":0}` + "\n"
	turnRow  = `{"type":"turn/start","seq":0,"time":5,"data":{"turn":1}}` + "\n"
	stepRow  = `{"type":"step/start","seq":1,"time":6,"data":{"turn":1,"step":1}}` + "\n"
	textRow  = `{"type":"text-chunks","seq0":2,"time0":7,"data":{"turn":1,"step":1,"index":0,"dt":[1,3],"texts":["a","b","c"]}}` + "\n"
	endRow   = `{"type":"turn/end","seq":5,"time":12,"data":{"turn":1,"reason":{"kind":"completed"}}}` + "\n"
	goodRows = headRow + turnRow + stepRow + textRow + endRow
)

// TestRecovery is spec jsonrpc 9.6 rules 1 to 3.
func TestRecovery(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		// records is how many come back, left what remains of the file ("" for all);
		// both only without err.
		records int
		left    string
		err     error
		say     string // part of the error or warning
	}{
		{name: "whole", text: goodRows, records: 6},
		{name: "header only", text: headRow, records: 0},
		{name: "unknown members and white space are kept", text: headRow + `{ "seq": 0, "time":5, "vendor":[1], "type":"turn/start", "data": {"turn":1} }` + "\n", records: 1},
		{name: "last line without newline", text: goodRows + `{"type":"turn/start","seq":6,"time":12,"da`, records: 6, left: goodRows, say: "half written"},
		{name: "whole last row without newline", text: goodRows + strings.TrimSuffix(strings.Replace(turnRow, `"seq":0`, `"seq":6`, 1), "\n"), records: 6, left: goodRows, say: "half written"},
		{name: "zeros at the end", text: goodRows + strings.Repeat("\x00", 5000), records: 6, left: goodRows, say: "half written"},
		{name: "last row is no JSON", text: goodRows + "{\"type\":\n", records: 6, left: goodRows, say: "half written"},
		{name: "empty last row", text: goodRows + "\n", records: 6, left: goodRows, say: "half written"},
		{name: "bad rows with good ones behind, no turn ends", text: headRow + turnRow + "garbage\n" + stepRow + textRow, records: 1, left: headRow + turnRow, say: "half written"},
		{name: "a gap in seq, no turn ends", text: headRow + turnRow + strings.Replace(stepRow, `"seq":1`, `"seq":2`, 1), records: 1, left: headRow + turnRow, say: "half written"},
		{name: "seq twice, no turn ends", text: headRow + turnRow + turnRow, records: 1, left: headRow + turnRow, say: "half written"},
		{name: "a gap before a packed row", text: headRow + turnRow + textRow, records: 1, left: headRow + turnRow, say: "half written"},
		{name: "packed row with a time too few", text: headRow + turnRow + stepRow + strings.Replace(textRow, "[1,3]", "[1]", 1), records: 2, left: headRow + turnRow + stepRow, say: "half written"},
		{name: "row without time", text: headRow + `{"type":"turn/start","seq":0,"data":{"turn":1}}` + "\n", records: 0, left: headRow, say: "half written"},
		{name: "row without data", text: headRow + `{"type":"turn/start","seq":0,"time":1}` + "\n", records: 0, left: headRow, say: "half written"},
		{name: "a torn end of turn does not commit", text: headRow + turnRow + "garbage\n" + strings.TrimSuffix(endRow, "\n"), records: 1, left: headRow + turnRow, say: "half written"},
		{name: "text about turn/end does not commit", text: headRow + turnRow + "garbage\n" + `{"type":"vendor/x","seq":1,"time":1,"data":"turn/end","ignorable":true}` + "\n", records: 1, left: headRow + turnRow, say: "half written"},

		{name: "bad row in the committed part", text: headRow + turnRow + "garbage\n" + textRow + endRow, err: session.ErrCorrupt, say: "s.jsonl:3: "},
		{name: "a gap in the committed part", text: headRow + stepRow + textRow + endRow, err: session.ErrCorrupt, say: "s.jsonl:2: "},
		{name: "no header", text: turnRow + stepRow, err: session.ErrCorrupt, say: "s.jsonl:1: "},
		{name: "header is garbage", text: "garbage\n" + turnRow, err: session.ErrCorrupt, say: "s.jsonl:1: "},
		{name: "header of another session", text: strings.Replace(headRow, `"id":"s"`, `"id":"other"`, 1) + turnRow, err: session.ErrCorrupt, say: `"other"`},
		{name: "header without id", text: `{"type":"session","version":0,"createdAt":1}` + "\n", err: session.ErrCorrupt, say: "no id"},
		{name: "foreign version", text: strings.Replace(headRow, `"version":0`, `"version":3`, 1) + "garbage\n" + endRow, err: session.ErrUnsupported, say: "version"},
		{name: "version is text", text: strings.Replace(headRow, `"version":0`, `"version":"0"`, 1) + turnRow, err: session.ErrUnsupported, say: "version"},
		{name: "no version", text: strings.Replace(headRow, `"version":0,`, ``, 1) + turnRow, err: session.ErrUnsupported, say: "version"},
		{name: "unknown type", text: headRow + `{"type":"future/thing","seq":0,"time":1,"data":{}}` + "\n" + "torn", err: session.ErrUnsupported, say: "future/thing"},
		{name: "unknown type that may be ignored", text: headRow + `{"type":"future/thing","seq":0,"time":1,"data":{},"ignorable":true}` + "\n", records: 1},
		{name: "known type of another plugin", text: headRow + `{"type":"compaction/start","seq":0,"time":1,"data":{}}` + "\n", records: 1},

		{name: "empty file", text: "", err: session.ErrNotFound},
		{name: "torn header", text: headRow[:20], err: session.ErrNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			home := t.TempDir()
			path := file(home, "s")
			put(t, path, tc.text)
			var said bytes.Buffer
			st := sessionjsonl.NewStore(filepath.Join(home, "sessions.d"), "", slog.New(slog.NewTextHandler(&said, nil)))
			var raw []string
			w, err := st.Open(t.Context(), "s", "/w", func(_ session.Header, r *session.Record) error {
				raw = append(raw, string(r.Raw))
				return nil
			})
			if err == nil {
				if err := w.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
			if !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) {
				t.Fatalf("Open: got error %v, want %v", err, tc.err)
			}
			left, readErr := os.ReadFile(path)
			if readErr != nil {
				t.Fatal(readErr)
			}
			want := tc.left
			if want == "" {
				want = tc.text
			}
			if string(left) != want {
				t.Errorf("the file holds afterwards\n%s\nwant\n%s", left, want)
			}
			about := said.String()
			if err != nil {
				if about != "" {
					t.Errorf("a refused Open logs %q", about)
				}
				about = err.Error()
			} else if tc.say == "" && about != "" {
				t.Errorf("a good file is warned about: %s", about)
			}
			if !strings.Contains(about, tc.say) {
				t.Errorf("message %q does not say %q", about, tc.say)
			}
			if err == nil && len(raw) != tc.records {
				t.Errorf("%d records came back, want %d: %q", len(raw), tc.records, raw)
			}
		})
	}
}

// The packed row of spec jsonrpc 9.2, read by hand.
func TestPackedRow(t *testing.T) {
	home := t.TempDir()
	put(t, file(home, "s"), goodRows)
	var got []string
	if err := quiet(home).Read(t.Context(), "s", 2, func(r *session.Record) error {
		got = append(got, string(r.Raw))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		`{"type":"assistant/chunk","seq":2,"time":7,"data":{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"a"}}}`,
		`{"type":"assistant/chunk","seq":3,"time":8,"data":{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"b"}}}`,
		`{"type":"assistant/chunk","seq":4,"time":11,"data":{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"c"}}}`,
		strings.TrimSuffix(endRow, "\n"),
	} {
		if i >= len(got) || got[i] != want {
			t.Errorf("record %d is not %s\ngot %q", i, want, got)
		}
	}
}

// What an append leaves on the disk: the layout, its modes and the packing.
func TestLayout(t *testing.T) {
	home := filepath.Join(t.TempDir(), "new", "home")
	if err := play(t.Context(), quiet(home), func(bool, int64) {}); err != nil {
		t.Fatal(err)
	}
	const name = "session~002Fwith~0020~007E~0020odd.id.jsonl"
	text, err := os.ReadFile(filepath.Join(home, "sessions.d", name))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if want := `{"type":"session","version":0,"id":"session/with ~ odd.id","createdAt":1,"cwd":"/srv/space","delegationDepth":0}`; lines[0] != want {
		t.Errorf("header row is\n%s\nwant\n%s", lines[0], want)
	}
	packed, single := 0, 0
	for _, l := range lines {
		switch {
		case strings.HasPrefix(l, `{"type":"text-chunks","seq0":`):
			packed++
		case strings.HasPrefix(l, `{"type":"assistant/chunk","seq":`):
			single++
		}
	}
	// Runs of 4, 4 and 4 deltas; three batches of one delta each.
	if packed != 3 || single != 3 {
		t.Errorf("%d packed rows and %d single deltas, want 3 and 3:\n%s", packed, single, text)
	}
}

// A session file that was torn before its header was whole is used again.
func TestTornBeginning(t *testing.T) {
	for _, text := range []string{"", headRow[:30], "\x00\x00\x00"} {
		t.Run(fmt.Sprintf("%q", text), func(t *testing.T) {
			home := t.TempDir()
			put(t, file(home, scriptID), text)
			st := quiet(home)
			if list, err := st.List(t.Context(), ""); err != nil || len(list) > 0 {
				t.Errorf("List gives %v, %v", list, err)
			}
			if err := st.Delete(t.Context(), scriptID); !errors.Is(err, session.ErrNotFound) {
				t.Errorf("Delete: got error %v, want %v", err, session.ErrNotFound)
			}
			if err := play(t.Context(), st, func(bool, int64) {}); err != nil {
				t.Fatalf("a new session of that id: %v", err)
			}
			if end := checkRepaired(t, home); end.next == 0 || end.repaired {
				t.Errorf("the new session came back as %+v", end)
			}
		})
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// FuzzOpen opens any bytes as a session. Whatever is accepted has seqs without
// gaps, reads the same again, and can be opened again with the same result.
func FuzzOpen(f *testing.F) {
	f.Add([]byte(goodRows))
	f.Add([]byte(headRow + turnRow + "garbage\n" + stepRow))
	f.Add([]byte(headRow + `{"type":"tool-call-chunks","seq0":0,"time0":-7,"data":{"turn":1,"step":1,"index":0,"id":"c\u0031","name":"n","dt":[1,-3],"args":["a","\ud83d\ude00","c\\\""]}}` + "\n"))
	f.Add([]byte(headRow + `{"type":"agent/inbox/spliced","seq":0,"time":0,"data":{"target":"next-turn","start":9223372036854775807,"removedCount":1,"inserted":[]}}` + "\n"))
	f.Add([]byte(headRow + `{"type":"user/message","seq":0,"time":0,"data":{"content":[],"source":{"kind":"user"},"role":"user","id":"x"},"surfaceOp":{"op":"replace","start":0,"end":0}}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		home := t.TempDir()
		put(t, file(home, "s"), string(text))
		st := quiet(home)
		open := func() (raw []string, err error) {
			var state session.State
			next := int64(0)
			w, err := st.Open(t.Context(), "s", "", func(_ session.Header, r *session.Record) error {
				if r.Event.Seq != next {
					t.Fatalf("seq %d in place of %d", r.Event.Seq, next)
				}
				next++
				raw = append(raw, string(r.Raw))
				// A log may say anything; folding it must not do more than fail.
				_ = state.Apply(r)
				return nil
			})
			if err != nil {
				return nil, err
			}
			state.Repairs(0)
			return raw, w.Close()
		}
		first, err := open()
		if err != nil {
			if again, err := open(); err == nil {
				t.Fatalf("refused at first, then opened: %q", again)
			}
			return
		}
		second, err := open()
		if err != nil {
			t.Fatalf("opened at first, then refused: %v", err)
		}
		var third []string
		if err := st.Read(t.Context(), "s", 0, func(r *session.Record) error { third = append(third, string(r.Raw)); return nil }); err != nil {
			t.Fatalf("opened, but not to be read: %v", err)
		}
		if a, b, c := strings.Join(first, "\n"), strings.Join(second, "\n"), strings.Join(third, "\n"); a != b || b != c {
			t.Fatalf("three readings differ:\n%s\n\n%s\n\n%s", a, b, c)
		}
	})
}
