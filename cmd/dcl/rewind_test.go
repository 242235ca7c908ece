package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// turns has the model make calls in the turn of each prompt, which is its key, one
// list for each request, and then say done.
func (r *room) turns(turns map[string][][]use) *room {
	r.t.Helper()
	var rules []any
	for prompt, rounds := range turns {
		rules = append(rules, steps(object{"matches": "^" + prompt + "$"}, rounds...)...)
	}
	return r.script(encode(object{"rules": append(rules, object{"reply": "done"})}))
}

// git runs git in the workspace.
func (r *room) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.work
	cmd.Env = append(slices.Clone(r.env), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// rewinder is a host that sends user messages with uuids, as the SDK for TypeScript
// does, and rewinds to them.
type rewinder struct {
	*host
	turns, rewinds int
}

// freely are the flags of a session that asks for nothing.
var freely = []string{"--permission-mode", "bypassPermissions"}

func (r *room) rewinder(flags ...string) *rewinder {
	r.t.Helper()
	h := &rewinder{host: r.start(append(slices.Clone(freely), flags...)...)}
	h.initialize(nil)
	return h
}

// say runs one turn and gives the uuid of its message.
func (h *rewinder) say(text string) string {
	h.t.Helper()
	id := uuid.NewString()
	h.sayAs(id, text)
	return id
}

func (h *rewinder) sayAs(id, text string) {
	h.t.Helper()
	h.turns++
	h.send(object{"type": "user", "uuid": id, "session_id": "", "parent_tool_use_id": nil, "message": object{"role": "user", "content": text}})
	if result := h.result(h.turns); result["subtype"] != "success" {
		h.t.Fatalf("the turn ended with %v", result)
	}
}

// rewind gives the answer to rewind_files, which must be a success.
func (h *rewinder) rewind(id string, dry any) object {
	h.t.Helper()
	h.rewinds++
	request := object{"user_message_id": id}
	if dry != nil {
		request["dry_run"] = dry
	}
	got := h.control(fmt.Sprint("rewind-", h.rewinds), "rewind_files", request)
	if got["subtype"] != "success" {
		h.t.Fatalf("got %v", got)
	}
	answer, _ := got["response"].(object)
	return answer
}

// S015, S056, S057 and checklist 85: edits, writes, shell commands and what a
// subagent does are undone back to any message, by the uuid that the host sent; a dry
// run says the same and changes nothing, and the repository is left alone.
func TestRewindFiles(t *testing.T) {
	t.Parallel()
	r := newRoom(t).turns(map[string][][]use{
		"first": {
			{{"Edit", object{"file_path": "tracked", "old_string": "old", "new_string": "new"}}, {"Write", object{"file_path": "made", "content": "1\n2\n"}}},
			{bash("rm gone; mv moved other; chmod +x script; ln -s tracked link; echo more >ignored; mkdir -p deep/er; echo 1 >deep/er/f")},
		},
		"second": {{{"Agent", object{"description": "d", "prompt": "child", "subagent_type": "general-purpose"}}}},
		"child":  {{bash("echo child >by-child; echo child >>tracked")}},
	})
	r.write("tracked", "a\nold\nb\n")
	r.write("gone", "gone\n")
	r.write("moved", "moved\n")
	r.write("script", "script\n")
	r.write("ignored", "1\n")
	r.write(".gitignore", "ignored\n")
	r.git("init", "-q")
	r.git("add", "tracked", "moved")
	r.git("commit", "-qm", "x")
	status := r.git("status", "--porcelain")
	h := r.rewinder()
	first, second := h.say("first"), h.say("second")
	var files []any
	for _, f := range []string{"by-child", "deep/er/f", "gone", "link", "made", "moved", "other", "script", "tracked"} {
		files = append(files, r.work+"/"+f)
	}
	index := r.read(".git/index")
	// gone and moved come back, of tracked one line does; what goes are the lines of
	// by-child, f, made (2), other, tracked (2) and the link.
	want := object{"canRewind": true, "filesChanged": files, "insertions": 3.0, "deletions": 8.0}
	if diff := cmp.Diff(want, h.rewind(first, true)); diff != "" {
		t.Errorf("dry run (-want +got):\n%s", diff)
	}
	if !r.exists("by-child") || r.exists("gone") {
		t.Error("the dry run changed files")
	}
	got := h.rewind(second, nil)
	if got["canRewind"] != true || r.read("tracked") != "a\nnew\nb\n" || r.exists("by-child") || !r.exists("made") {
		t.Errorf("got %v, tracked is %q", got, r.read("tracked"))
	}
	got = h.rewind(first, false)
	if got["canRewind"] != true || r.read("tracked") != "a\nold\nb\n" || r.read("gone") != "gone\n" || r.exists("deep") || r.read("ignored") != "more\n" {
		t.Errorf("got %v, tracked is %q", got, r.read("tracked"))
	}
	if diff := cmp.Diff(index, r.read(".git/index")); diff != "" {
		t.Error("the index of the repository has changed")
	}
	if got := r.git("status", "--porcelain"); got != status {
		t.Errorf("status was %q and is %q", status, got)
	}
	if got := h.of("system/informational"); len(got) > 0 {
		t.Errorf("told %v", got)
	}
	// The conversation goes on from where it was.
	h.say("third")
	if code := h.end(); code != 0 || h.errorOutput() != "" {
		t.Errorf("code %d, said %q", code, h.errorOutput())
	}
}

// S058, S059: every refusal is an answer with the reason, for dry and for real runs,
// touches nothing, and for a real run a line tells of it, too (spec 4.16).
func TestRewindRefused(t *testing.T) {
	t.Parallel()
	writes := map[string][][]use{"go": {{{"Write", object{"file_path": "f", "content": "ours\n"}}}}}
	for name, tc := range map[string]struct {
		prepare, after func(r *room)
		id             string
		reason         string
	}{
		"outside of git":    {reason: "not in a Git work tree"},
		"bare":              {prepare: func(r *room) { r.git("init", "-q", "--bare") }, reason: "not in a work tree"},
		"unknown message":   {prepare: func(r *room) { r.git("init", "-q") }, id: "eeeeeeee-0000-4000-8000-000000000000", reason: "No file checkpoint found for this message."},
		"changed by others": {prepare: func(r *room) { r.git("init", "-q") }, after: func(r *room) { r.write("f", "theirs\n") }, reason: filepath.Join("work", "f")},
		"no git": {prepare: func(r *room) {
			r.git("init", "-q")
			shell, err := exec.LookPath("sh")
			if err == nil {
				r.write(r.root+"/bin/empty", "")
				err = os.Symlink(shell, r.root+"/bin/sh")
			}
			if err != nil {
				r.t.Fatal(err)
			}
			r.set("PATH", r.root+"/bin")
		}, reason: "the program git"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).turns(writes)
			if tc.prepare != nil {
				tc.prepare(r)
			}
			h := r.rewinder()
			id := h.say("go")
			if tc.after != nil {
				tc.after(r)
			}
			if tc.id != "" {
				id = tc.id
			}
			before := r.read("f")
			dry := h.rewind(id, true)
			if got := h.of("system/informational"); len(got) > 0 {
				t.Errorf("a dry run told %v", got)
			}
			real := h.rewind(id, nil)
			why, _ := real["error"].(string)
			if diff := cmp.Diff(object{"canRewind": false, "error": why}, real); diff != "" || !strings.Contains(why, tc.reason) {
				t.Errorf("got %v, want a refusal with %q", real, tc.reason)
			}
			if diff := cmp.Diff(dry, real); diff != "" {
				t.Errorf("dry and real run differ:\n%s", diff)
			}
			told := h.wait("a warning", func(l object) bool { return l["subtype"] == "informational" })
			if text, _ := told["content"].(string); told["level"] != "warning" || !strings.Contains(text, why) {
				t.Errorf("told %v", told)
			}
			if r.read("f") != before {
				t.Errorf("f was %q and is %q", before, r.read("f"))
			}
			if code := h.end(); code != 0 || h.errorOutput() != "" {
				t.Errorf("code %d, said %q", code, h.errorOutput())
			}
		})
	}
}

// Checkpoints survive the end of the process; a message may have any uuid; a turn
// that is interrupted can be undone, and none that runs (checklist 26).
func TestRewindLater(t *testing.T) {
	t.Parallel()
	r := newRoom(t).turns(map[string][][]use{
		"one":   {{bash("echo 1 >f")}},
		"two":   {{bash("echo 2 >f; echo 2 >g")}},
		"three": {{bash("echo 3 >f; touch started; sleep 300")}},
	})
	r.write("f", "0\n")
	r.git("init", "-q")
	h := r.rewinder()
	one := h.say("one")
	session, _ := h.result(1)["session_id"].(string)
	if code := h.end(); code != 0 {
		t.Fatalf("code %d", code)
	}
	h = r.rewinder("--resume", session)
	if got := h.rewind(one, true); got["canRewind"] != true || got["insertions"] != 1.0 || r.read("f") != "1\n" {
		t.Errorf("got %v before the first turn of a resumed session", got)
	}
	two := "not-a-uuid"
	h.sayAs(two, "two")
	if got := h.rewind(two, nil); got["canRewind"] != true || r.read("f") != "1\n" || r.exists("g") {
		t.Errorf("got %v, f is %q", got, r.read("f"))
	}
	three := uuid.NewString()
	h.send(object{"type": "user", "uuid": three, "message": object{"role": "user", "content": "three"}})
	eventually(t, "the command", func() bool { return r.exists("started") })
	refused := h.control("early", "rewind_files", object{"user_message_id": one})
	if refused["subtype"] != "error" || refused["error_code"] != "turn_running" || r.read("f") != "3\n" {
		t.Errorf("got %v while a turn runs, f is %q", refused, r.read("f"))
	}
	h.control("stop", "interrupt", nil)
	h.result(2)
	if got := h.rewind(three, nil); got["canRewind"] != true || r.read("f") != "1\n" || r.exists("started") {
		t.Errorf("got %v, f is %q", got, r.read("f"))
	}
	if got := h.rewind(one, nil); got["canRewind"] != true || r.read("f") != "0\n" {
		t.Errorf("got %v, f is %q", got, r.read("f"))
	}
	if code := h.end(); code != 0 && code != 1 {
		t.Errorf("code %d", code)
	}
}

// What hooks do to files behind a call and at the end of a turn is undone with it.
func TestRewindHooks(t *testing.T) {
	t.Parallel()
	r := newRoom(t).turns(map[string][][]use{"go": {{{"Write", object{"file_path": "f", "content": "ours\n"}}}}})
	r.write("g", "0\n")
	r.git("init", "-q")
	command := func(text string) []object {
		return []object{{"hooks": []object{{"type": "command", "command": text}}}}
	}
	h := r.rewinder("--settings", encode(object{"hooks": object{
		"PostToolUse": command("sleep 0.2; echo formatted >>f; echo 1 >>g"), "Stop": command("sleep 0.2; echo stopped >>f"),
	}}))
	id := h.say("go")
	if r.read("f") != "ours\nformatted\nstopped\n" {
		t.Fatalf("f is %q", r.read("f"))
	}
	if got := h.rewind(id, nil); got["canRewind"] != true || r.exists("f") || r.read("g") != "0\n" {
		t.Errorf("got %v, f is %q, g %q", got, r.read("f"), r.read("g"))
	}
}

// S058: who changes a file once the result is read is somebody else, also where a
// turn does not end well. The tree is large, so that a snapshot takes its time.
func TestRewindBehindErrors(t *testing.T) {
	t.Parallel()
	r := newRoom(t).turns(map[string][][]use{"go": {{{"Write", object{"file_path": "f", "content": "ours\n"}}}, {bash("true")}}})
	for i := range 3000 {
		r.write(fmt.Sprintf("tree/%d/%d", i/100, i), "0\n")
	}
	r.git("init", "-q")
	h := r.rewinder("--max-turns", "1")
	id := uuid.NewString()
	h.send(object{"type": "user", "uuid": id, "message": object{"role": "user", "content": "go"}})
	if got := h.result(1)["subtype"]; got != "error_max_turns" {
		t.Fatalf("the turn ended with %v", got)
	}
	r.write("f", "theirs\n")
	got := h.rewind(id, nil)
	if why, _ := got["error"].(string); got["canRewind"] != false || !strings.Contains(why, "f") || r.read("f") != "theirs\n" {
		t.Errorf("got %v, f is %q", got, r.read("f"))
	}
}

// What is wrong with a request is an error, and does nothing.
func TestRewindRequests(t *testing.T) {
	t.Parallel()
	h := newRoom(t).script("rules: [{reply: done}]").rewinder()
	for name, request := range map[string]object{
		"user_message_id": {}, "user_message_id ": {"user_message_id": 1}, " user_message_id": {"user_message_id": ""},
		"dry_run": {"user_message_id": "x", "dry_run": "yes"},
	} {
		got := h.control("r"+name, "rewind_files", request)
		if text, _ := got["error"].(string); got["subtype"] != "error" || !strings.Contains(text, strings.TrimSpace(name)) {
			t.Errorf("%v: got %v", request, got)
		}
	}
}
