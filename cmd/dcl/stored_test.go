package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// storedLogs puts the logs of a folder of testdata into a room's store, as sessions
// of the room's folder whose ids this wire can name; it gives the ids by name.
func (r *room) storedLogs(dir string) map[string]string {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join("../../testdata/logs", dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		r.t.Fatalf("no logs in %s: %v", dir, err)
	}
	ids := map[string]string{}
	for i, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		id := fmt.Sprintf("%08x-0000-4000-8000-000000000000", 16*len(dir)+i)
		stored, err := os.ReadFile(file)
		if err != nil {
			r.t.Fatal(err)
		}
		head, rest, _ := strings.Cut(string(stored), "\n")
		head = strings.Replace(head, `"id":`+quoted(name), `"id":`+quoted(id), 1)
		head = strings.Replace(head, `"cwd":"/"`, `"cwd":`+quoted(r.work), 1)
		r.write(filepath.Join(r.home, "sessions.d", id+".jsonl"), head+"\n"+rest)
		ids[name] = id
	}
	return ids
}

// Case B48 on this wire: a session that any version has left goes on, and only adds
// to its log; one that cannot be used fails its own start with a text that says
// where, keeps its log as it is, and disturbs no other.
func TestStoredVersions(t *testing.T) {
	t.Parallel()
	refused := map[string]string{"newer": "version", "unknown": "acme/must-know", "broken": ".jsonl:3"}
	versions, err := os.ReadDir("../../testdata/logs")
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		if !version.IsDir() || version.Name() == "refused" {
			continue
		}
		t.Run(version.Name(), func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).script("rules: [{reply: going on}]")
			bad := r.storedLogs("refused")
			for name, id := range r.storedLogs(version.Name()) {
				if name == "child" {
					continue // of a subagent: not for a host to go on with
				}
				before := r.log(id)
				h := r.start("--resume", id)
				h.initialize(nil)
				if result := h.prompt(1); result["session_id"] != id || endOf(result) != "success ok completed" || result["result"] != "going on" {
					t.Errorf("%s: %v", name, result)
				}
				if code := h.end(); code != 0 {
					t.Errorf("%s: exit code %d: %s", name, code, h.errorOutput())
				}
				whole := before[:strings.LastIndexByte(before, '\n')+1]
				if after := r.log(id); !strings.HasPrefix(after, whole) || len(after) <= len(whole) {
					t.Errorf("%s: the log was rewritten", name)
				}
			}
			list := r.complete("", "sessions", "list", "--all")
			for name, id := range bad {
				before := r.log(id)
				c, lines := r.speak(requests("i", "initialize", nil)+asks("go on"), "--resume", id)
				results := only(lines, "result")
				if c.code != 1 || len(results) != 1 || len(lines) != 1 {
					t.Fatalf("%s: exit code %d, %q", name, c.code, kinds(lines))
				}
				said, _ := results[0]["result"].(string)
				if !strings.Contains(said, refused[name]) || refused[name] == "" || !strings.Contains(said, id) || strings.Count(c.stderr, said) != 1 {
					t.Errorf("%s: result %q, standard error %q, want %q", name, said, c.stderr, refused[name])
				}
				if after := r.log(id); before != after {
					t.Errorf("%s: the log was changed", name)
				}
			}
			if list.code != 0 || strings.Count(list.stdout, "0000-4000-8000") < 3 {
				t.Errorf("sessions list: code %d, %s", list.code, list.stdout)
			}
		})
	}
}
