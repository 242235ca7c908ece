package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dsh/sdkproto/wirejson"
)

// overStream runs dcl for one prompt in the place and gives its result line.
func (at *place) overStream(t *testing.T, prompt string, flags ...string) map[string]any {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "dcl", append([]string{"--input-format", "stream-json", "--output-format", "stream-json"}, flags...)...)
	cmd.Dir = at.ws
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/no-home", "CLAUDE_CONFIG_DIR=" + filepath.Join(at.root, "config"), "DSH_HOME=" + at.home, "DSH_SCRIPT=" + at.model}
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"type":"user","message":{"role":"user","content":%q}}`+"\n", prompt))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("dcl %q: %v\n%s%s", flags, err, out, stderr.String())
	}
	last := out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:]
	var result map[string]any
	if err := wirejson.Unmarshal(bytes.TrimSpace(last), &result); err != nil || result["type"] != "result" {
		t.Fatalf("the last line is %s: %v", last, err)
	}
	return result
}

// One log, two wires: a session that was begun over JSON-RPC goes on over
// stream-json, with a transcript of all of it, and back again; so does one that was
// begun over stream-json, and one whose end was cut off there (spec stream-json 10.3,
// 10.4; spec jsonrpc 7.5).
func TestTwoWires(t *testing.T) {
	t.Parallel()
	const ours, theirs = "6f0c0b9e-3f0e-4b0e-9a55-1d0a7d8f6f11", "7f0c0b9e-3f0e-4b0e-9a55-1d0a7d8f6f22"
	at := newPlace(t, `
rules:
  - when: {text: work, step: 1}
    reply: [{text: "I look."}, {call: {tool: todo_write, args: {todos: []}}}]
  - reply: "{{turn}}: {{user}}"
`)
	over := func(session, text string) string {
		p := at.start(t)
		if err := p.send(promptFrame("p", session, text)); err != nil {
			t.Fatal(err)
		}
		if _, err := p.answer("p"); err != nil {
			t.Fatal(err)
		}
		if err := p.expect(map[string]any{"params": map[string]any{"sessionId": session, "status": "idle"}}); err != nil {
			t.Fatal(err)
		}
		answer := ""
		for _, e := range p.lines() {
			if event := member(e.value, "params", "event"); member(event, "type") == "assistant/message" {
				if blocks := list(member(event, "data", "message", "content")); len(blocks) > 0 {
					answer, _ = member(blocks[len(blocks)-1], "text").(string)
				}
			}
		}
		if err := p.closeInput(); err != nil {
			t.Fatal(err)
		}
		if err := p.wantExit(0); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	step := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	stream := func(text string, flags ...string) string {
		t.Helper()
		result := at.overStream(t, text, flags...)
		return fmt.Sprint(result["result"], " of ", result["session_id"])
	}
	step("begun over JSON-RPC", over(ours, "work"), "1: work")
	step("gone on over stream-json", stream("more", "--resume="+ours), "2: more of "+ours)
	step("and back", over(ours, "again"), "3: again")
	step("the newest of the folder", stream("on", "--continue"), "4: on of "+ours)
	step("begun over stream-json", stream("work", "--session-id="+theirs), "1: work of "+theirs)
	step("gone on over JSON-RPC", over(theirs, "more"), "2: more")

	found, err := filepath.Glob(filepath.Join(at.root, "config", "projects", "*", "*.jsonl"))
	if err != nil || len(found) != 2 {
		t.Fatalf("transcripts %q, %v", found, err)
	}
	data, err := os.ReadFile(filepath.Join(filepath.Dir(found[0]), ours+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	from := 0
	for _, text := range []string{`"content":"work"`, "I look.", "tool_result", "1: work", `"content":"more"`, "2: more", `"content":"again"`, "3: again", `"content":"on"`, "4: on"} {
		i := strings.Index(string(data[from:]), text)
		if i < 0 {
			t.Fatalf("no %s behind the rest in %s", text, data)
		}
		from += i
	}
	first := ""
	for line := range strings.Lines(string(data)) {
		var e map[string]any
		if wirejson.Unmarshal([]byte(line), &e) == nil && strings.Contains(line, "1: work") {
			first, _ = e["uuid"].(string)
		}
	}
	// What is cut off over one wire is gone over the other.
	step("cut off over stream-json", stream("instead", "--resume="+ours, "--resume-session-at="+first), "2: instead of "+ours)
	step("and over JSON-RPC", over(ours, "last"), "3: last")
	events, err := readStored(at.stored(theirs))
	if err == nil {
		err = checkStored(events)
	}
	if err != nil {
		t.Error(err)
	}
}
