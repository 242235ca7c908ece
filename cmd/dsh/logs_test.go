package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dsh/sdkproto"
)

const logs = "../../testdata/logs"

// TestB48 opens the sessions that every version has left: all of them are listed,
// read and gone on with, whatever else is in the folder, and nothing that they hold
// is lost. What must be refused is refused with one clear message and left as it
// is.
func TestB48(t *testing.T) {
	t.Parallel()
	refused := map[string]string{"newer": "version", "unknown": "acme/must-know", "broken": "broken.jsonl:3"}
	versions, err := os.ReadDir(logs)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		if !version.IsDir() || version.Name() == "refused" {
			continue
		}
		t.Run(version.Name(), func(t *testing.T) {
			at := newPlace(t, "rules: [{reply: 'Going on.'}]")
			good := copyLogs(t, filepath.Join(logs, version.Name()), at)
			bad := copyLogs(t, filepath.Join(logs, "refused"), at)
			p := startAt(t, at, "/")
			ask := func(id, method, params string) any {
				t.Helper()
				if err := p.send(fmt.Appendf(nil, `{"id":%q,"method":%q,"params":%s}`+"\n", id, method, params)); err != nil {
					t.Fatal(err)
				}
				frame, err := p.answer(id)
				if err != nil {
					t.Fatal(err)
				}
				return frame
			}
			listed := show(ask("list", "session/list", `{}`))
			for id := range good {
				if !strings.Contains(listed, `"sessionId":"`+id+`"`) {
					t.Errorf("session %s is not listed: %s", id, listed)
				}
			}
			for id := range bad {
				frame := ask("bad "+id, "session/prompt", fmt.Sprintf(`{"sessionId":%q,"contentBlocks":[]}`, id))
				if said := text(member(frame, "error", "message")); !strings.Contains(said, refused[id]) || refused[id] == "" || !strings.Contains(said, id+".jsonl") {
					t.Errorf("session %s is refused with %s, want %q and its file", id, show(frame), refused[id])
				}
			}
			for id, before := range good {
				frame := ask("events "+id, "session/events", fmt.Sprintf(`{"sessionId":%q,"fromSeq":0}`, id))
				if len(list(member(frame, "result", "events"))) == 0 {
					t.Errorf("session %s cannot be read: %s", id, show(frame))
				}
				frame = ask("good "+id, "session/prompt", fmt.Sprintf(`{"sessionId":%q,"contentBlocks":[{"type":"text","text":"go on"}]}`, id))
				if member(frame, "error") != nil {
					t.Errorf("session %s: %s", id, show(frame))
					continue
				}
				// The prompt that a crash left in the queue runs first.
				p.cursor = 0
				ours := map[string]any{"params": map[string]any{"sessionId": id, "event": map[string]any{
					"type": sdkproto.TypeUserMessage, "data": map[string]any{"id": member(frame, "result", "messageId")},
				}}}
				idle := map[string]any{"method": sdkproto.NotifySessionStatus, "params": map[string]any{"sessionId": id, "status": "idle"}}
				for _, pattern := range []any{ours, idle} {
					if err := p.expect(pattern); err != nil {
						t.Fatal(err)
					}
				}
				after, err := os.ReadFile(at.stored(id))
				if err != nil {
					t.Fatal(err)
				}
				whole := before[:bytes.LastIndexByte(before, '\n')+1]
				if !bytes.HasPrefix(after, whole) {
					t.Errorf("session %s: the log was rewritten", id)
				}
			}
			if err := p.send([]byte(shutdownFrame)); err != nil {
				t.Fatal(err)
			}
			if err := p.wantExit(0); err != nil {
				t.Fatal(err)
			}
			for id := range good {
				checkGoneOn(t, id, at.stored(id))
			}
			for id, before := range bad {
				after, err := os.ReadFile(at.stored(id))
				if err != nil || !bytes.Equal(before, after) {
					t.Errorf("the refused session %s was changed: %v", id, err)
				}
			}
		})
	}
}

// copyLogs puts stored sessions into a home and gives their bytes by id.
func copyLogs(t *testing.T, dir string, at *place) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no logs in %s: %v", dir, err)
	}
	if err := os.MkdirAll(filepath.Join(at.home, "sessions.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	copied := map[string][]byte{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		id := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		if err := os.WriteFile(at.stored(id), data, 0o600); err != nil {
			t.Fatal(err)
		}
		copied[id] = data
	}
	return copied
}

// startAt begins a conversation about sessions of another working directory.
func startAt(t *testing.T, at *place, cwd string) *peer {
	t.Helper()
	p := at.start(t)
	if err := p.send(fmt.Appendf(nil, `{"id":"there","method":"initialize","params":{"cwd":%q,"provider":"recorded","model":"scripted"}}`+"\n", cwd)); err != nil {
		t.Fatal(err)
	}
	if err := wantAnswer(p, "there", map[string]any{"result": map[string]any{}}); err != nil {
		t.Fatal(err)
	}
	return p
}

// checkGoneOn checks a log that was gone on with: in order, and its last turn
// complete.
func checkGoneOn(t *testing.T, id, file string) {
	t.Helper()
	events, err := readStored(file)
	if err != nil {
		t.Errorf("session %s: %v", id, err)
		return
	}
	if err := checkStored(events); err != nil {
		t.Errorf("session %s: %v", id, err)
	}
	if last := events[len(events)-1]; !matches(map[string]any{"type": sdkproto.TypeTurnEnd, "data": map[string]any{"reason": map[string]any{"kind": "completed"}}}, last) {
		t.Errorf("session %s ends with %s", id, show(last))
	}
}
