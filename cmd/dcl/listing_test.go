package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto/wirejson"
)

// TestSessionsList: the command lists what is stored and what has only a
// transcript in the SDKs' layout, with the titles that their listings show (spec
// stream-json 10.2), and a name that an SDK gave a stored session.
func TestSessionsList(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(echoes())
	r.say([]string{"--session-id=" + someID}, [2]string{promptA, "hello"})
	said := func(text string, more object) string {
		e := object{
			"type": "user", "uuid": promptA, "parentUuid": nil, "isSidechain": false, "cwd": r.work, "timestamp": "2026-01-02T03:04:05.678Z",
			"message": object{"role": "user", "content": text},
		}
		for k, v := range more {
			e[k] = v
		}
		return encode(e) + "\n"
	}
	meta := func(kind, key, text string) string { return encode(object{"type": kind, key: text}) + "\n" }
	long := said(strings.Repeat("x", 300_000), nil)
	other := filepath.Join(r.settings, "projects", "-elsewhere")
	for name, text := range map[string]string{
		"00000000-0000-4000-8000-00000000000a.jsonl": said("  first\nprompt ", nil) + said("second", nil),
		"00000000-0000-4000-8000-00000000000b.jsonl": said("about", object{"isMeta": true}) + said("said", nil) + meta("last-prompt", "lastPrompt", "the last"),
		"00000000-0000-4000-8000-00000000000c.jsonl": said("x", nil) + meta("custom-title", "customTitle", "one") + meta("ai-title", "aiTitle", "made") + meta("custom-title", "customTitle", "two"),
		"00000000-0000-4000-8000-00000000000d.jsonl": said("begin", nil) + long + meta("ai-title", "aiTitle", "of the end"),
		"00000000-0000-4000-8000-00000000000e.jsonl": said("x", object{"isSidechain": true}) + meta("custom-title", "customTitle", "hidden"),
		"00000000-0000-4000-8000-00000000000f.jsonl": meta("tag", "tag", "nothing was said"),
		"no-uuid.jsonl": said("x", nil),
		other + "/10000000-0000-4000-8000-00000000000a.jsonl": said("of another folder", object{"cwd": "/elsewhere"}),
	} {
		if !filepath.IsAbs(name) {
			name = filepath.Join(r.project(), name)
		}
		r.write(name, text)
	}
	list := func(flags ...string) map[string]string {
		t.Helper()
		var all []struct {
			ID         string `json:"id"`
			CWD        string `json:"cwd"`
			Title      string `json:"title"`
			Transcript string `json:"transcript"`
			CreatedAt  int64  `json:"createdAt"`
		}
		if err := wirejson.Unmarshal([]byte(r.command(append([]string{"sessions", "list", "--json"}, flags...)...)), &all); err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for i, s := range all {
			id := s.ID
			if s.Transcript != "" {
				id = filepath.Base(s.Transcript)[:1] + s.ID[len(s.ID)-1:]
				if s.CreatedAt != 1767323045678 || s.CWD == "" {
					t.Errorf("%s was created at %d in %q", s.ID, s.CreatedAt, s.CWD)
				}
			}
			if i == 0 && s.ID != someID {
				t.Errorf("the newest is %s", s.ID)
			}
			found[id] = s.Title
		}
		return found
	}
	want := map[string]string{someID: "hello", "0a": "first prompt", "0b": "the last", "0c": "two", "0d": "of the end"}
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Error(diff)
	}
	want["1a"] = "of another folder"
	if diff := cmp.Diff(want, list("--all")); diff != "" {
		t.Errorf("all: %s", diff)
	}
	r.write(r.transcript(someID), r.read(r.transcript(someID))+meta("custom-title", "customTitle", "renamed by an sdk"))
	if got := list()[someID]; got != "renamed by an sdk" {
		t.Errorf("title %q", got)
	}
	c := r.complete("", "sessions", "show", "00000000-0000-4000-8000-00000000000a")
	if c.code == 0 || !strings.Contains(c.stderr, "dcl --resume 00000000-0000-4000-8000-00000000000a") {
		t.Errorf("exit code %d: %s", c.code, c.stderr)
	}
}
