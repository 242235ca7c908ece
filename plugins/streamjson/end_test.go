package streamjson_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dsh/kernel"
	"dsh/kernel/profile"
	"dsh/plugins"
	"dsh/profiles"
)

// The exit code is 1 when the last result is an error, and only then (checklist
// 12; spec stream-json 1.7); nothing follows that result (F15, checklist 52).
func TestExitCode(t *testing.T) {
	for prompts, want := range map[string]int{"one,fail": 1, "fail,one": 0} {
		c := start(t)
		for prompt := range strings.SplitSeq(prompts, ",") {
			c.send(user(prompt))
		}
		lines, code := c.rest()
		if code != want || len(results(lines)) != 2 || lines[len(lines)-1].str("type") != "result" {
			t.Errorf("%s: code %d: %s", prompts, code, c.show())
		}
	}
}

// A question after the end of input is refused and not asked; a model that goes on
// asking is stopped after three more requests, with the reason (F14, D8; checklist
// 60; case B09; spec stream-json 1.8).
func TestQuestionsAfterTheEnd(t *testing.T) {
	c := start(t)
	c.send(control("i", "initialize"), user("touch"))
	lines, code := c.rest()
	r := results(lines)
	if len(r) != 1 || r[0].str("result") != "refused" || code != 0 || slices.Contains(kinds(lines), "control_request/can_use_tool") {
		t.Fatalf("code %d: %s", code, c.show())
	}

	c = start(t)
	c.send(control("i", "initialize"), user("nag"), user("after"))
	lines, code = c.rest()
	r = results(lines)
	if len(r) != 2 || r[0].str("subtype") != "error_during_execution" || !strings.Contains(r[0].str("errors", "0"), "Stream closed") || code != 0 {
		t.Errorf("code %d: %s", code, c.show())
	}
	if n := strings.Count(strings.Join(kinds(lines), "\n"), "assistant/tool_use"); n > 4 {
		t.Errorf("%d calls after the end of input", n)
	}
	if _, err := os.Stat("made"); err == nil {
		t.Error("a call ran that nobody approved")
	}
}

// An end of input while a question is open refuses it (spec stream-json 5.6).
func TestEndDuringAQuestion(t *testing.T) {
	c := start(t)
	c.send(control("i", "initialize"), user("touch"))
	c.kind("control_request/can_use_tool")
	lines, code := c.rest()
	if r := results(lines); len(r) != 1 || r[0].str("result") != "refused" || code != 0 {
		t.Errorf("code %d: %s", code, c.show())
	}
}

// A start that cannot work says why in a result, after the first line was read and
// without an answer to it (F21; checklist 12; cases B14, B44; spec stream-json 3.8).
func TestFailedStart(t *testing.T) {
	for name, tc := range map[string]struct{ set, want string }{
		"unknown":   {"front.resume=00000000-0000-4000-8000-000000000000", "No conversation found with session ID: 00000000-0000-4000-8000-000000000000"},
		"malformed": {"front.resume=-x", "No conversation found with session ID: -x"},
		"a fork":    {"front.forkSession=true,front.resume=00000000-0000-4000-8000-000000000000", "No conversation found with session ID: 00000000-0000-4000-8000-000000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, strings.Split(tc.set, ",")...)
			c.send(control("i", "initialize"))
			code := c.WaitExit(t)
			lines := c.settled()
			if len(lines) != 1 || code != 1 {
				t.Fatalf("code %d: %s", code, c.show())
			}
			r := lines[0]
			if r.str("subtype") != "error_during_execution" || r.at("is_error") != true || !strings.Contains(r.str("errors", "0"), tc.want) || r.at("num_turns") != 0.0 {
				t.Errorf("got %v", r)
			}
			for _, key := range []string{"duration_ms", "duration_api_ms", "session_id", "usage", "modelUsage", "permission_denials"} { // F1
				if _, there := r[key]; !there {
					t.Errorf("%s is missing: %v", key, r)
				}
			}
			if entries, _ := os.ReadDir(filepath.Join(c.Home, "sessions.d")); len(entries) != 0 {
				t.Errorf("it left %v", entries)
			}
		})
	}
}

// A session goes on under its id, and continue finds the newest of the folder; an
// id that is taken is refused (case B44; spec stream-json 10.3).
func TestResume(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Chdir(dir)
	home := t.TempDir()
	once := func(sets ...string) (line, line) {
		t.Helper()
		c := startHere(t, home, sets...)
		c.send(control("i", "initialize"), user("one"))
		lines, _ := c.rest()
		i := slices.Index(kinds(lines), "system/init")
		r := results(lines)
		if i < 0 || len(r) != 1 {
			t.Fatalf("%v: %s", sets, c.show())
		}
		return lines[i], r[0]
	}
	const id = "12345678-1234-4123-8123-123456789abc"
	init, result := once("front.sessionId=" + id)
	if init.str("session_id") != id || result.str("session_id") != id {
		t.Errorf("got %v", init)
	}
	if init, _ := once("front.resume=" + id); init.str("session_id") != id {
		t.Errorf("resumed: %v", init)
	}
	if init, _ := once("front.continue=true"); init.str("session_id") != id {
		t.Errorf("continued: %v", init)
	}
	c := startHere(t, home, "front.sessionId="+id)
	c.send(control("i", "initialize"))
	code := c.WaitExit(t)
	if lines := c.settled(); code != 1 || len(lines) != 1 || !strings.Contains(lines[0].str("errors", "0"), id+" is already in use") {
		t.Errorf("taken: code %d, %v", code, lines)
	}
	if init, _ := once(); init.str("session_id") == id {
		t.Errorf("new: %v", init)
	}
}

// A model that costs nothing fits into every budget of money (spec stream-json 11.3).
// The model's prices come from its adapter.
func TestBudgetOfAFreeModel(t *testing.T) {
	c := start(t, "budget.process.usd=0.000001")
	c.send(user("one"), user("two"))
	lines, code := c.rest()
	if got := texts(lines); code != 0 || len(got) != 2 || got[1] != "said two" {
		t.Errorf("code %d: %s", code, c.show())
	}
}

// A client that reads no more ends the session (case B75).
func TestBrokenOutput(t *testing.T) {
	c := start(t)
	c.send(user("hang"))
	c.kind("system/init")
	must(t, c.Out.Close())
	c.send(control("i", "initialize"), control("s", "mcp_status"))
	if code := c.WaitExit(t); code != 1 {
		t.Errorf("code %d", code)
	}
}

// A line that is longer than it may be is answered, and the next is served (case
// B01).
func TestLongLines(t *testing.T) {
	c := start(t, "front.maxLine=100000")
	long := strings.Repeat("x", 200_000)
	c.send(`{"type":"control_request","request_id":"r","request":{"subtype":"seed_read_state","path":"`+long+`"}}`,
		`{"type":"user","message":{"role":"user","content":"`+long+`"}}`, user(strings.Repeat("y", 90_000)))
	if got := c.response("r"); !strings.Contains(got.str("response", "error"), "100000") {
		t.Errorf("got %v", got)
	}
	lines, code := c.rest()
	r := results(lines)
	if len(r) != 2 || !strings.Contains(r[0].str("errors", "0"), "100000") || r[1].str("subtype") != "success" || code != 0 {
		t.Errorf("code %d: %v", code, r)
	}
}

// A big message is taken whole in small pieces (cases B01, B06, B92).
func TestPieces(t *testing.T) {
	c := start(t)
	raw := fmt.Sprintf(`{"type":"user","message":{"role":"user","content":"%s"}}`+"\n", strings.Repeat("渐🚀é—한 ", 200))
	for len(raw) > 0 {
		n := min(len(raw), 7)
		if _, err := c.In.WriteString(raw[:n]); err != nil {
			t.Fatal(err)
		}
		raw = raw[n:]
	}
	lines, _ := c.rest()
	if got := texts(lines); len(got) != 1 || !strings.HasPrefix(got[0], "said 渐🚀é—한 渐") || strings.Contains(got[0], "\ufffd") {
		t.Errorf("got %.200q", got)
	}
}

// A profile's own mistakes are found before anything runs (S007; checklist 4).
func TestValidate(t *testing.T) {
	for set, want := range map[string]string{
		"front.outputFormat=json":     "stream-json",
		"front.inputFormat=xml":       "xml",
		"front.sessionId=7":           "UUID",
		"front.effort=huge":           "huge",
		"front.apiFormat=morse":       "morse",
		"front.maxTurns=-1":           "-1",
		"front.shellsLimit=0s":        "shellsLimit",
		"front.suggestionLimit=-1s":   "suggestionLimit",
		`front.jsonSchema={"type":7}`: "jsonSchema",
		`front.agents=[]`:             "agents",
	} {
		p, err := profile.Load(profile.Options{Name: "stream-json", Embedded: profiles.FS, Home: t.TempDir(), Sets: []string{set}})
		must(t, err)
		err = (kernel.Options{Plugins: plugins.Builtin(), Profile: p}).Check()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", set, err)
		}
	}
}
