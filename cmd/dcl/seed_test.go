package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto/wirejson"
)

// pipeline is the example of the seed, word for word.
const pipeline = `printf '%s\n' \
  '{"type":"control_request","request_id":"i1","request":{"subtype":"initialize"}}' \
  '{"type":"user","message":{"role":"user","content":"what time is it"}}' \
  | dcl --input-format stream-json --output-format stream-json --permission-mode plan`

// output is what the seed shows for it. Ids and durations stand for any; "…" is
// what the seed leaves out.
const output = `{"response": {"request_id": "i1", "response": {"commands": "…", "agents": "…", "models": "…"}, "subtype": "success"}, "type": "control_response"}
{"type": "system", "subtype": "init", "session_id": "4472dafa-acf8-4c0a-a281-2f9f0f03398c", "model": "mock-model", "permissionMode": "plan", "tools": ["Skill", "NotebookEdit", "LSP", "…"]}
{"type": "assistant", "message": {"content": [{"id": "time-1", "input": {}, "name": "mcp__app__server_time", "type": "tool_use"}], "id": "msg_f84582da70bb4d758add0ba12f9e1797", "role": "assistant"}, "session_id": "4472dafa-acf8-4c0a-a281-2f9f0f03398c"}
{"type": "user", "message": {"content": [{"content": "Permission denied: Plan mode: write operations are not allowed", "is_error": true, "tool_use_id": "time-1", "type": "tool_result"}], "role": "user"}, "session_id": "4472dafa-acf8-4c0a-a281-2f9f0f03398c"}
{"type": "assistant", "message": {"content": [{"text": "Tool said: Permission denied: Plan mode: write operations are not allowed", "type": "text"}], "id": "msg_73f758984d53411796b0c999fbcc9adf", "role": "assistant"}, "session_id": "4472dafa-acf8-4c0a-a281-2f9f0f03398c"}
{"type": "result", "subtype": "success", "is_error": false, "result": "Tool said: Permission denied: Plan mode: write operations are not allowed", "num_turns": 2, "duration_ms": 108, "total_cost_usd": 0.0, "permission_denials": [{"tool_input": {}, "tool_name": "mcp__app__server_time", "tool_use_id": "time-1"}], "session_id": "4472dafa-acf8-4c0a-a281-2f9f0f03398c"}`

// shown reads a line.
func shown(t *testing.T, line string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := wirejson.Unmarshal([]byte(line), &v); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return v
}

// like gives got cut down to what want shows, so that the two can be compared:
// members that want lacks are fields the seed omits, "…" is anything that is
// there. A list that ends in it begins like want in any order.
func like(want, got any) any {
	switch want := want.(type) {
	case string:
		if want == "…" && got != nil {
			return want
		}
	case map[string]any:
		members, ok := got.(map[string]any)
		if !ok {
			return got
		}
		out := map[string]any{}
		for key, member := range want {
			value, ok := members[key]
			switch {
			case !ok:
			case key == "session_id" || key == "duration_ms" || key == "id" && strings.HasPrefix(member.(string), "msg_"):
				out[key] = member // checked in TestSeed
			default:
				out[key] = like(member, value)
			}
		}
		return out
	case []any:
		items, ok := got.([]any)
		if !ok {
			return got
		}
		if n := len(want); n > 0 && want[n-1] == "…" {
			for _, w := range want[:n-1] {
				if !holds(items, w) {
					return got
				}
			}
			return want
		}
		out := make([]any, len(items))
		for i := range items {
			if out[i] = items[i]; i < len(want) {
				out[i] = like(want[i], items[i])
			}
		}
		return out
	}
	return got
}

func holds(items []any, item any) bool {
	for _, i := range items {
		if cmp.Equal(i, item) {
			return true
		}
	}
	return false
}

// shell executes a shell command line in a folder of its own and gives what it
// printed.
func shell(t *testing.T, script string) (stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	sh := exec.CommandContext(t.Context(), "sh", "-c", script)
	sh.Dir = dir
	sh.WaitDelay = time.Second
	sh.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "DSH_HOME=" + filepath.Join(dir, "home")}
	var out, errs bytes.Buffer
	sh.Stdout, sh.Stderr = &out, &errs
	if err := sh.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &out, &errs)
	}
	return out.String(), errs.String()
}

// The first acceptance test: the seed's pipeline gives the seed's lines, in their
// order, and all four kinds of the older lines among them (S031, S073, S075,
// S077).
func TestSeed(t *testing.T) {
	stdout, stderr := shell(t, pipeline)
	if stderr != "" {
		t.Errorf("standard error: %s", stderr) // checklist 9
	}
	want := strings.Split(output, "\n")
	older := map[string]bool{"text": false, "tool_start": false, "tool_result": false, "usage": false}
	session, messages := "", map[string]bool{}
	for line := range strings.Lines(stdout) {
		got := shown(t, line)
		kind, _ := got["type"].(string)
		if _, ok := older[kind]; ok {
			older[kind] = true
			continue
		}
		if kind == "system" && got["subtype"] != "init" {
			continue // advice that the seed does not show (spec stream-json 3.10)
		}
		if len(want) == 0 {
			t.Errorf("one line too many: %s", line)
			continue
		}
		w := shown(t, want[0])
		want = want[1:]
		if diff := cmp.Diff(any(w), like(w, got)); diff != "" {
			t.Errorf("%s\n%s", line, diff)
		}
		if kind == "control_response" {
			continue
		}
		switch id, _ := got["session_id"].(string); {
		case session == "":
			session = id
		case id != session:
			t.Errorf("session_id %q, want %q", id, session)
		}
		if m, ok := got["message"].(map[string]any); ok && kind == "assistant" {
			id, _ := m["id"].(string)
			if hex := strings.TrimPrefix(id, "msg_"); len(hex) != 32 || hex == id || strings.Trim(hex, "0123456789abcdef") != "" || messages[id] {
				t.Errorf("message id %q is not msg_ and 32 hex digits, or not new", id)
			}
			messages[id] = true
		}
		if ms, ok := got["duration_ms"].(float64); kind == "result" && (!ok || ms < 0 || ms != float64(int64(ms))) {
			t.Errorf("duration_ms %v is no whole number", got["duration_ms"])
		}
	}
	if len(session) != 36 {
		t.Errorf("session_id %q is no UUID", session)
	}
	for _, w := range want {
		t.Errorf("this line is missing: %s", w)
	}
	for kind, seen := range older {
		if !seen {
			t.Errorf("there is no line of type %s", kind)
		}
	}
}

// The comparison itself can fail.
func TestLike(t *testing.T) {
	for _, tc := range []struct {
		want, got string
		same      bool
	}{
		{`{"a":1}`, `{"a":1,"b":2}`, true},
		{`{"a":1}`, `{"b":2}`, false},
		{`{"a":{"b":"x"}}`, `{"a":{"b":"y"}}`, false},
		{`{"a":"…"}`, `{"a":[]}`, true},
		{`{"a":"…"}`, `{"a":null}`, false},
		{`{"a":["x","…"]}`, `{"a":["y","x"]}`, true},
		{`{"a":["x","…"]}`, `{"a":["y"]}`, false},
		{`{"a":[1]}`, `{"a":[1,2]}`, false},
		{`{"session_id":"x"}`, `{"session_id":"y"}`, true},
		{`{"id":"msg_1"}`, `{"id":"msg_2"}`, true},
		{`{"id":"time-1"}`, `{"id":"time-2"}`, false},
	} {
		w, g := shown(t, tc.want), shown(t, tc.got)
		if same := cmp.Equal(any(w), like(w, g)); same != tc.same {
			t.Errorf("%s and %s: %v, want %v", tc.want, tc.got, same, tc.same)
		}
	}
}
