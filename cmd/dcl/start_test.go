package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	someID    = "6f0c0b9e-3f0e-4b0e-9a55-1d0a7d8f6f11"
	unknownID = "00000000-0000-4000-8000-000000000000"
)

// Checklist 12, spec stream-json 3.8, F21, cases B14 and B44: a start that cannot
// work is told on standard error and in a result with nothing spent, the client's
// first line is read and not answered, and the exit code is 1. The reason names
// what is wrong, and nothing is stored.
func TestFailedStart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"unknown session":             {[]string{"--resume=" + unknownID}, "No conversation found with session ID: " + unknownID},
		"unknown session, two tokens": {[]string{"--resume", unknownID}, "No conversation found with session ID: " + unknownID},
		"unknown session, -r":         {[]string{"-r", unknownID}, "No conversation found with session ID: " + unknownID},
		"session outside the folder":  {[]string{"--resume=../x"}, "../x"},
		"session with a line in it":   {[]string{"--resume=a\nb"}, "a\nb"},
		"session like a flag":         {[]string{"--resume=-x"}, "-x"},
		"session that is a name":      {[]string{"--resume=sessions"}, "sessions"},
		"no file of servers":          {[]string{"--mcp-config", "gone.json"}, "gone.json"},
		"a folder of servers":         {[]string{"--mcp-config=a"}, "a"},
		"servers that are no JSON":    {[]string{"--mcp-config", `{"mcpServers":`}, "--mcp-config"},
		"a server that is none":       {[]string{"--mcp-config", `{"mcpServers":{"app":{}}}`}, `"app"`},
		"no settings file":            {[]string{"--settings", "gone.json"}, "gone.json"},
		"settings that are no JSON":   {[]string{"--settings", `{"model"`}, "--settings"},
		"no prompt file":              {[]string{"--system-prompt-file", "gone.txt"}, "gone.txt"},
		"no folder":                   {[]string{"--add-dir", "gone"}, "gone"},
		"unknown profile":             {[]string{"--profile", "nonesuch"}, "nonesuch"},
		"unknown plugin":              {[]string{"--set", "front.nokey=1"}, "nokey"},
		"a bound of no length":        {[]string{"--set", "front.maxLine=0"}, "maxLine"},
		"a truncated session":         {[]string{"--resume=" + unknownID, "--resume-session-at=" + someID}, "No conversation found with session ID: " + unknownID},
		"a dropped turn":              {[]string{"--resume=" + unknownID, "--resume-drops-turn=" + someID}, "No conversation found with session ID: " + unknownID},
		"a fork":                      {[]string{"--resume=" + unknownID, "--fork-session"}, "No conversation found with session ID: " + unknownID},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			r.place(nil)
			// The client sends initialize and keeps its end open.
			h := r.start(tc.args...)
			h.send(object{"type": "control_request", "request_id": "init-1", "request": object{"subtype": "initialize"}})
			if code := h.exit(); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			lines := h.all()
			if len(lines) != 1 || lines[0]["type"] != "result" {
				t.Fatalf("lines %q, want one result", kinds(lines))
			}
			result := lines[0]
			errors, _ := result["errors"].([]any)
			if len(errors) != 1 || result["subtype"] != "error_during_execution" || result["is_error"] != true {
				t.Fatalf("result %v", result)
			}
			reason, _ := errors[0].(string)
			if !strings.Contains(reason, tc.says) || reason != result["result"] || strings.Contains(reason, "goroutine") {
				t.Errorf("the reason is %q, and it should say %q", reason, tc.says)
			}
			if !strings.Contains(h.errorOutput(), tc.says) || strings.Contains(h.errorOutput(), "goroutine") {
				t.Errorf("standard error: %s", h.errorOutput())
			}
			for _, name := range []string{"num_turns", "duration_ms", "duration_api_ms", "total_cost_usd"} {
				if result[name] != 0.0 {
					t.Errorf("%s is %v", name, result[name])
				}
			}
			if denials, ok := result["permission_denials"].([]any); !ok || len(denials) != 0 {
				t.Errorf("permission_denials %v", result["permission_denials"])
			}
			if files := r.files(); slices.ContainsFunc(files, func(f string) bool { return strings.Contains(f, "session") }) {
				t.Errorf("it wrote %q", files)
			}
		})
	}
}

// Spec stream-json 3.8: the end of input counts as the first line.
func TestFailedStartWithoutInput(t *testing.T) {
	t.Parallel()
	c, lines := newRoom(t).speak("", "--resume="+unknownID)
	if c.code != 1 || !slices.Equal(kinds(lines), []string{"result/error_during_execution"}) {
		t.Errorf("exit code %d, lines %q", c.code, kinds(lines))
	}
}

// Spec stream-json 12.3: a model whose key is missing is no failure of the start.
func TestMissingKeyIsNoFailedStart(t *testing.T) {
	t.Parallel()
	h := newRoom(t).start("--model", "deepseek-flash")
	if got := h.control("i", "initialize", nil); got["subtype"] != "success" || dig(got, "response", "account", "apiKeySource") != "none" {
		t.Errorf("initialize: %v", got)
	}
	h.user("hello")
	if result := h.result(1); result["subtype"] != "success" || result["is_error"] != true || !strings.Contains(result["result"].(string), "DEEPSEEK_API_KEY") {
		t.Errorf("result %v", result)
	}
	if code := h.end(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
}

// sessionsOf lists the files of the stored sessions.
func sessionsOf(r *room) (list []string) {
	for _, f := range r.files() {
		if strings.HasPrefix(f, "sessions") {
			list = append(list, f)
		}
	}
	return list
}

// S011, case B44: a resumed session keeps its id and its history in each spelling
// of the flag; the newest of the folder is found without an id; a chosen id is
// taken once.
func TestResume(t *testing.T) {
	t.Parallel()
	const model = `
rules:
  - reply: "turn {{turn}} of {{user}}"
`
	said := func(t *testing.T, r *room, prompt string, flags ...string) object {
		t.Helper()
		c, lines := r.speak(asks(prompt), flags...)
		results := only(lines, "result")
		if c.code != 0 || len(results) != 1 {
			t.Fatalf("%q: exit code %d, %d results\n%s", flags, c.code, len(results), c.stderr)
		}
		for _, l := range lines {
			if id := l["session_id"]; id != results[0]["session_id"] {
				t.Errorf("%q: session_id %v in %v", flags, id, l["type"])
			}
		}
		return results[0]
	}
	r := newRoom(t).script(model)
	first := said(t, r, "one", "--session-id="+someID)
	if first["session_id"] != someID || first["result"] != "turn 1 of one" {
		t.Fatalf("first %v", first)
	}
	stored := sessionsOf(r)
	if len(stored) == 0 {
		t.Fatal("nothing is stored")
	}
	for i, flags := range [][]string{{"--resume=" + someID}, {"--resume", someID}, {"-r", someID}, {"--continue"}, {"-c"}} {
		got := said(t, r, "more", flags...)
		if want := "turn " + string(rune('2'+i)) + " of more"; got["session_id"] != someID || got["result"] != want {
			t.Errorf("%q: session %v says %q, want %q", flags, got["session_id"], got["result"], want)
		}
	}
	if now := sessionsOf(r); !slices.Equal(now, stored) {
		t.Errorf("resuming stored %q beside %q", now, stored)
	}

	c, lines := r.speak(asks("again"), "--session-id="+someID)
	if c.code != 1 || len(lines) != 1 || !strings.Contains(c.stderr, someID+" is already in use") {
		t.Errorf("the id a second time: exit code %d, %q, %s", c.code, kinds(lines), c.stderr)
	}
	if now := sessionsOf(r); !slices.Equal(now, stored) {
		t.Errorf("a refused id stored %q beside %q", now, stored)
	}

	// In another folder: there is none to continue, and one by its id is the same.
	r.write("elsewhere/x", "")
	r.work = filepath.Join(r.work, "elsewhere")
	if got := said(t, r, "new", "--continue"); got["session_id"] == someID || got["result"] != "turn 1 of new" {
		t.Errorf("--continue elsewhere: %v", got)
	}
}

// Cases B14, B44: a session that is resumed from another folder fails the start,
// which says which folder it belongs to; nothing is stored. A fork takes its history
// along.
func TestResumeElsewhere(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script("rules: [{reply: 'turn {{turn}} of {{user}}'}]")
	c, _ := r.speak(asks("hello"), "--session-id="+someID)
	if c.code != 0 {
		t.Fatal(c.stderr)
	}
	before, home := sessionsOf(r), r.work
	r.write("elsewhere/x", "")
	r.work = filepath.Join(r.work, "elsewhere")
	c, lines := r.speak(requests("i", "initialize", nil)+asks("hello"), "--resume="+someID)
	if got := kinds(lines); c.code != 1 || !slices.Equal(got, []string{"result/error_during_execution"}) {
		t.Fatalf("exit code %d, %q", c.code, got)
	}
	if text, _ := lines[0]["result"].(string); !strings.Contains(text, quoted(home)) || !strings.Contains(c.stderr, text) {
		t.Errorf("the refusal does not say %s: %q, %q", home, text, c.stderr)
	}
	if now := sessionsOf(r); !slices.Equal(now, before) {
		t.Errorf("stored %q, before it was %q", now, before)
	}
	c, lines = r.speak(asks("more"), "--resume="+someID, "--fork-session")
	if forks := only(lines, "result/success"); c.code != 0 || len(forks) != 1 || forks[0]["session_id"] == someID || forks[0]["result"] != "turn 2 of more" {
		t.Errorf("a fork: exit code %d, %v", c.code, forks)
	}
}

// S002, S012: without persistence nothing stays, and the session works.
func TestNoPersistence(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	c, lines := r.speak(asks("hello")+asks("hello"), "--no-session-persistence")
	if c.code != 0 || len(only(lines, "result/success")) != 2 {
		t.Errorf("exit code %d, %q", c.code, kinds(lines))
	}
	if stored := sessionsOf(r); stored != nil {
		t.Errorf("stored %q", stored)
	}
}
