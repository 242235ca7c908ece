package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto/wirejson"
)

// echoes is a model that says which turn it is and what it was asked.
func echoes() string {
	return encode(object{"rules": append(steps(object{"text": "run it"}, []use{bash("echo made")}), object{"reply": "turn {{turn}} of {{user}}"})})
}

// Uuids of prompts.
const (
	promptA = "aaaaaaaa-0000-4000-8000-000000000001"
	promptB = "bbbbbbbb-0000-4000-8000-000000000002"
	promptC = "cccccccc-0000-4000-8000-000000000003"
	otherID = "0f0c0b9e-3f0e-4b0e-9a55-1d0a7d8f6f99"
)

// project is the folder of a room's transcripts: every character of the working
// folder that is no letter or digit is a dash (spec stream-json 10.1).
func (r *room) project() string {
	return filepath.Join(r.settings, "projects", regexp.MustCompile(`[^A-Za-z0-9]`).ReplaceAllString(r.work, "-"))
}

func (r *room) transcript(id string) string { return filepath.Join(r.project(), id+".jsonl") }

// entries reads a transcript.
func (r *room) entries(path string) (list []object) {
	r.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	for raw := range bytes.Lines(data) {
		var e object
		if err := wirejson.Unmarshal(raw, &e); err != nil {
			r.t.Fatalf("%v in %q", err, raw)
		}
		list = append(list, e)
	}
	return list
}

// log gives the stored log of a session.
func (r *room) log(id string) string { return r.read(filepath.Join(r.home, "sessions.d", id+".jsonl")) }

// chained follows the parents from what was said last, as the readers of the SDKs
// do, and gives what is visible: type and text, or the kind of the block.
func chained(entries []object) (said []string, uuids []string) {
	place := map[any]int{}
	parents := map[any]bool{nil: true}
	for i, e := range entries {
		if e["uuid"] != nil {
			place[e["uuid"]] = i
			parents[e["parentUuid"]] = true
		}
	}
	leaf := -1
	for i, e := range entries {
		if e["uuid"] != nil && place[e["uuid"]] == i && !parents[e["uuid"]] && (e["type"] == "user" || e["type"] == "assistant") && e["isMeta"] != true {
			leaf = i
		}
	}
	for at, ok := leaf, leaf >= 0; ok; at, ok = place[entries[at]["parentUuid"]] {
		e := entries[at]
		if e["isMeta"] == true || e["type"] != "user" && e["type"] != "assistant" {
			continue
		}
		text, isText := dig(e, "message", "content").(string)
		if b := block(e); !isText && b != nil {
			if text, isText = b["text"].(string); !isText {
				text, _ = b["type"].(string)
			}
		}
		said, uuids = append(said, fmt.Sprint(e["type"], " ", text)), append(uuids, e["uuid"].(string))
	}
	slices.Reverse(said)
	slices.Reverse(uuids)
	return said, uuids
}

// say runs one process for the prompts, each a uuid and a text, and gives its
// results and all its lines.
func (r *room) say(flags []string, prompts ...[2]string) (results, lines []object) {
	r.t.Helper()
	in := ""
	for _, p := range prompts {
		in += asksAs(p[0], p[1])
	}
	c, lines := r.speak(in, flags...)
	results = only(lines, "result")
	if c.code != 0 || len(results) != len(prompts) || c.stderr != "" {
		r.t.Fatalf("%q: exit code %d, %d results: %s", flags, c.code, len(results), c.stderr)
	}
	return results, lines
}

// Checklist 76, spec stream-json 10.1, 10.2: the transcript is where the SDKs look,
// private, has every line that the client saw under its uuid, prompts as they were
// sent, one chain, and what a listing shows.
func TestTranscript(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(echoes())
	r.write(".git/HEAD", "ref: refs/heads/topic/one\n")
	_, lines := r.say([]string{"--session-id=" + someID, "--tools", "Bash", "--allowedTools", "Bash"},
		[2]string{promptA, "hello"}, [2]string{promptB, "run it"})
	entries := r.entries(r.transcript(someID))
	said, uuids := chained(entries)
	want := []string{"user hello", "assistant turn 1 of hello", "user run it", "assistant tool_use", "user tool_result", "assistant turn 2 of run it"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	var seen []string
	for _, l := range lines {
		if l["type"] == "assistant" || l["type"] == "user" {
			seen = append(seen, l["uuid"].(string))
		}
	}
	if diff := cmp.Diff([]string{promptA, seen[0], promptB, seen[1], seen[2], seen[3]}, uuids); diff != "" {
		t.Errorf("uuids of the stream and of the chain: %s", diff)
	}
	var last string
	for _, e := range entries {
		if e["type"] == "last-prompt" {
			last, _ = e["lastPrompt"].(string)
			continue
		}
		if e["sessionId"] != someID || e["cwd"] != r.work || e["version"] != "2.1.240" || e["gitBranch"] != "topic/one" ||
			e["isSidechain"] != false || e["userType"] != "external" || !regexp.MustCompile(`^\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z$`).MatchString(e["timestamp"].(string)) {
			t.Errorf("entry %v", e)
		}
		if _, isString := dig(e, "message", "content").(string); e["type"] == "user" && e["isMeta"] == nil && block(e)["type"] == nil && !isString {
			t.Errorf("a prompt that is no string: %v", e)
		}
	}
	if last != "run it" {
		t.Errorf("the last prompt is %q", last)
	}
	for path, mode := range map[string]os.FileMode{r.transcript(someID): 0o600, r.project(): 0o700, filepath.Dir(r.project()): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if raw := r.read(r.transcript(someID)); strings.Contains(raw, `": `) || !strings.HasPrefix(raw, `{"type":`) {
		t.Errorf("not compact: %.200s", raw)
	}
}

// Spec stream-json 10.3: without persistence nothing is written, and nothing is
// resumed.
func TestTranscriptOff(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(echoes())
	r.say([]string{"--no-session-persistence", "--session-mirror"}, [2]string{"", "hello"})
	if _, err := os.Stat(r.settings); err == nil {
		t.Errorf("there is %s", r.settings)
	}
	r.say([]string{"--session-id=" + someID}, [2]string{"", "hello"})
	if c, _ := r.speak(asks("again"), "--no-session-persistence", "--resume="+someID); c.code != 1 || !strings.Contains(c.stderr, "No conversation found with session ID: "+someID) {
		t.Errorf("exit code %d, %s", c.code, c.stderr)
	}
}

// Spec stream-json 0.2, 10.6: what is too long for a line is cut in the file as in the
// mirror, and the two stay equal.
func TestTranscriptMirrorLong(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(encode(object{"rules": []object{{"reply": "ok"}}}))
	long := strings.Repeat("a\"é ", 500_000)
	_, lines := r.say([]string{"--session-id=" + someID, "--session-mirror"}, [2]string{promptA, long}, [2]string{promptB, long})
	var mirrored []object
	for _, l := range only(lines, "transcript_mirror") {
		if n := len(encode(l)); n >= 1_000_000 {
			t.Errorf("a frame of %d bytes", n)
		}
		for _, e := range l["entries"].([]any) {
			mirrored = append(mirrored, e.(object))
		}
	}
	entries := r.entries(r.transcript(someID))
	if len(entries) < 4 || !cmp.Equal(entries, mirrored) {
		t.Errorf("the file has %d entries, the mirror %d, and not the same", len(entries), len(mirrored))
	}
	if text, _ := dig(entries[0], "message", "content").(string); len(text) < 400_000 || !strings.HasSuffix(text, "bytes are left out of this line.]") {
		t.Errorf("the prompt is %d bytes in the file: …%s", len(text), text[max(0, len(text)-80):])
	}
}

// Checklist 79, spec stream-json 10.6: what is added to transcripts is mirrored in
// order, before the result of its turn, also what a resume adds; without the flag
// nothing is.
func TestTranscriptMirror(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(echoes())
	mirrored := func(lines []object) (entries []object) {
		for _, l := range only(lines, "transcript_mirror") {
			if l["filePath"] != r.transcript(someID) {
				t.Errorf("path %v", l["filePath"])
			}
			for _, e := range l["entries"].([]any) {
				entries = append(entries, e.(object))
			}
		}
		return entries
	}
	_, lines := r.say([]string{"--session-id=" + someID, "--session-mirror"}, [2]string{promptA, "hello"}, [2]string{promptB, "more"})
	if diff := cmp.Diff(r.entries(r.transcript(someID)), mirrored(lines)); diff != "" {
		t.Errorf("file and mirror: %s", diff)
	}
	if kinds := kinds(lines); kinds[0] != "system/init" || kinds[len(kinds)-1] != "result/success" {
		t.Errorf("lines %q", kinds)
	}
	if _, lines := r.say([]string{"--resume=" + someID}, [2]string{promptC, "more"}); len(only(lines, "transcript_mirror")) != 0 {
		t.Error("mirrored without the flag")
	}
	// A file that is behind its log is made up, a torn line stays by itself, and what
	// others have written is kept.
	before := r.read(r.transcript(someID))
	cut := strings.Index(before, promptB)
	torn := `{"type":"custom-title","customTitle":"mine","sessionId":"` + someID + "\"}\n" + before[:cut]
	if err := os.WriteFile(r.transcript(someID), []byte(torn), 0o600); err != nil {
		t.Fatal(err)
	}
	_, lines = r.say([]string{"--resume=" + someID, "--session-mirror"}, [2]string{"", "last"})
	now := r.read(r.transcript(someID))
	if !strings.HasPrefix(now, torn+"\n") || strings.Count(now, "custom-title") != 1 {
		t.Errorf("the file is %s", now)
	}
	if err := os.WriteFile(r.transcript(someID), []byte(strings.TrimPrefix(now, torn+"\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.entries(r.transcript(someID)), mirrored(lines)); diff != "" {
		t.Errorf("added and mirrored: %s", diff)
	}
	if err := os.WriteFile(r.transcript(someID), []byte(now[:strings.LastIndexByte(torn, '\n')+1]+strings.TrimPrefix(now, torn+"\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	said, _ := chained(r.entries(r.transcript(someID)))
	want := []string{"user hello", "assistant turn 1 of hello", "user more", "assistant turn 2 of more", "user more", "assistant turn 3 of more", "user last", "assistant turn 4 of last"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
}

// Decision: a session whose transcript was deleted is in no list of the SDKs, and
// is still resumed by its id; then it has one again.
func TestTranscriptDeleted(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(echoes())
	r.say([]string{"--session-id=" + someID}, [2]string{promptA, "hello"})
	whole := r.entries(r.transcript(someID))
	if err := os.Remove(r.transcript(someID)); err != nil {
		t.Fatal(err)
	}
	results, _ := r.say([]string{"--resume=" + someID}, [2]string{promptB, "more"})
	if results[0]["result"] != "turn 2 of more" {
		t.Errorf("result %v", results[0])
	}
	now := r.entries(r.transcript(someID))
	without := func(list []object) []object {
		return slices.DeleteFunc(slices.Clone(list), func(e object) bool { return e["type"] == "last-prompt" })
	}
	if diff := cmp.Diff(without(whole), without(now)[:len(without(whole))]); diff != "" {
		t.Errorf("made anew: %s", diff)
	}
}

// Checklist 77, case B44, spec stream-json 10.3: a fork has a new id, the model sees
// the earlier history, nothing of the source changes, and its costs are not told
// twice.
func TestFork(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(echoes())
	r.write(".claude/settings.json", `{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"cat > source.json"}]}]}}`)
	r.say([]string{"--session-id=" + someID, "--setting-sources=project"}, [2]string{promptA, "hello"}, [2]string{promptB, "more"})
	log, file := r.log(someID), r.read(r.transcript(someID))
	if len(log) == 0 || len(file) == 0 {
		t.Fatal("nothing is stored")
	}
	results, lines := r.say([]string{"--resume=" + someID, "--fork-session", "--session-id=" + otherID, "--setting-sources=project"}, [2]string{promptC, "and now"})
	if results[0]["result"] != "turn 3 of and now" || results[0]["session_id"] != otherID {
		t.Errorf("result %v", results[0])
	}
	for _, l := range lines {
		if l["session_id"] != otherID {
			t.Errorf("session_id of %v", l)
		}
	}
	if source := shown(t, r.read(filepath.Join(r.work, "source.json")))["source"]; source != "fork" {
		t.Errorf("hooks are told the source %v", source)
	}
	if r.log(someID) != log || r.read(r.transcript(someID)) != file {
		t.Error("the source was changed")
	}
	want := []string{"user hello", "assistant turn 1 of hello", "user more", "assistant turn 2 of more", "user and now", "assistant turn 3 of and now"}
	entries := r.entries(r.transcript(otherID))
	said, _ := chained(entries)
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	for _, e := range entries {
		if e["uuid"] == nil {
			continue
		}
		inherited := dig(e, "message", "content") != "and now" && block(e)["text"] != "turn 3 of and now"
		if got := dig(e, "forkedFrom", "sessionId") == someID; got != inherited || e["sessionId"] != otherID {
			t.Errorf("forkedFrom %v in %v", e["forkedFrom"], e)
		}
	}
	// Without an id the fork gets a new one; the newest is forked the same way.
	results, _ = r.say([]string{"--continue", "--fork-session", "--setting-sources=project"}, [2]string{"", "again"})
	if id := results[0]["session_id"]; id == someID || id == otherID || results[0]["result"] != "turn 4 of again" {
		t.Errorf("a fork of the newest: %v", results[0])
	}
	// An id that is taken is refused, whichever way a session has it.
	if c, _ := r.speak(asks("x"), "--resume="+someID, "--fork-session", "--session-id="+otherID); c.code != 1 || !strings.Contains(c.stderr, otherID+" is already in use") {
		t.Errorf("exit code %d: %s", c.code, c.stderr)
	}
	// The fork goes on like any other.
	if results, _ = r.say([]string{"--resume=" + otherID, "--setting-sources="}, [2]string{"", "on"}); results[0]["result"] != "turn 4 of on" {
		t.Errorf("resumed: %v", results[0])
	}
}

// threeTurns makes a session of three turns and gives the uuids of its chain.
func threeTurns(t *testing.T) (*room, []string) {
	t.Helper()
	r := newRoom(t).script(echoes())
	r.say([]string{"--session-id=" + someID}, [2]string{promptA, "one"}, [2]string{promptB, "two"}, [2]string{promptC, "three"})
	_, uuids := chained(r.entries(r.transcript(someID)))
	if len(uuids) != 6 {
		t.Fatalf("chain %q", uuids)
	}
	return r, uuids
}

// Checklist 78, spec stream-json 10.4: the history ends with the entry that is
// named; the old end stays in the file and is out of the chain; a later resume
// agrees; with a fork the source is whole.
func TestResumeAt(t *testing.T) {
	t.Parallel()
	for _, fork := range []bool{false, true} {
		t.Run(fmt.Sprintf("fork %v", fork), func(t *testing.T) {
			t.Parallel()
			r, uuids := threeTurns(t)
			log, file := r.log(someID), r.read(r.transcript(someID))
			flags := []string{"--resume=" + someID, "--resume-session-at=" + uuids[3], "--resume-drops-turn=" + promptC}
			if fork {
				flags = append(flags, "--fork-session")
			}
			results, _ := r.say(flags, [2]string{"", "instead"})
			id, _ := results[0]["session_id"].(string)
			if fork == (id == someID) {
				t.Errorf("session %s", id)
			}
			if fork && (r.log(someID) != log || r.read(r.transcript(someID)) != file) {
				t.Error("the source was changed")
			}
			if !fork && !strings.HasPrefix(r.read(r.transcript(someID)), file) {
				t.Error("the file was not only extended")
			}
			want := []string{"user one", "assistant turn 1 of one", "user two", "assistant turn 2 of two", "user instead"}
			said, _ := chained(r.entries(r.transcript(id)))
			if len(said) != 6 || !cmp.Equal(want, said[:5]) || said[5] != "assistant turn 3 of instead" {
				t.Errorf("chain %q", said)
			}
			results, _ = r.say([]string{"--resume=" + id}, [2]string{"", "on"})
			if results[0]["result"] != "turn 4 of on" {
				t.Errorf("resumed: %v", results[0]["result"])
			}
			if said, _ = chained(r.entries(r.transcript(id))); len(said) != 8 || !cmp.Equal(want, said[:5]) {
				t.Errorf("chain after a resume %q", said)
			}
		})
	}
}

// Checklist 78, spec stream-json 10.4, 3.8: what would drop more than was expected
// is refused, and nothing is written.
func TestResumeDropsTurn(t *testing.T) {
	t.Parallel()
	r, uuids := threeTurns(t)
	const rejected = "Resume rejected by --resume-drops-turn:"
	log, file, files := r.log(someID), r.read(r.transcript(someID)), r.files()
	for name, tc := range map[string]struct {
		flags []string
		says  string // "" is taken
	}{
		"two turns go":          {[]string{"--resume-session-at=" + uuids[1], "--resume-drops-turn=" + promptB}, rejected},
		"another turn goes":     {[]string{"--resume-session-at=" + uuids[3], "--resume-drops-turn=" + promptB}, rejected},
		"half a turn goes":      {[]string{"--resume-session-at=" + uuids[2], "--resume-drops-turn=" + promptC}, rejected},
		"something goes":        {[]string{"--resume-session-at=" + uuids[3], "--resume-drops-turn="}, rejected},
		"no such entry":         {[]string{"--resume-session-at=" + unknownID}, unknownID},
		"no such entry, forked": {[]string{"--resume-session-at=" + unknownID, "--fork-session"}, unknownID},
		"forked":                {[]string{"--resume-session-at=" + uuids[1], "--resume-drops-turn=" + promptC, "--fork-session"}, rejected},
		"nothing goes":          {[]string{"--resume-session-at=" + uuids[5], "--resume-drops-turn="}, ""},
		"nothing is named":      {[]string{"--resume-drops-turn="}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.says == "" {
				if c, lines := r.speak("", append(tc.flags, "--resume="+someID)...); c.code != 0 || len(lines) != 0 {
					t.Errorf("exit code %d: %s", c.code, c.stderr)
				}
				return
			}
			c, lines := r.speak(requests("i", "initialize", nil), append(tc.flags, "--resume="+someID)...)
			if c.code != 1 || len(lines) != 1 || lines[0]["subtype"] != "error_during_execution" {
				t.Fatalf("exit code %d, %v", c.code, lines)
			}
			reason, _ := lines[0]["result"].(string)
			if !strings.Contains(reason, tc.says) || tc.says == rejected && !strings.HasPrefix(reason, rejected) || !strings.Contains(c.stderr, reason) {
				t.Errorf("the reason is %q, standard error %q", reason, c.stderr)
			}
		})
	}
	if r.log(someID) != log || r.read(r.transcript(someID)) != file || !slices.Equal(files, r.files()) {
		t.Error("something was written")
	}
}

// A cut behind a call takes its result away: the model gets one that says so, and
// the request is one that a provider takes (case B41).
func TestResumeAtCall(t *testing.T) {
	t.Parallel()
	eachSpeech(t, func(t *testing.T, p *provider) {
		p.server.Script(p.calls("call_1", "Bash", `{"command":"echo made","description":"Say it"}`), p.says("said it"))
		p.launch("--session-id="+someID, "--allowedTools", "Bash")
		p.prompt(1)
		p.end()
		_, uuids := chained(p.room.entries(p.room.transcript(someID)))
		if len(uuids) != 4 {
			t.Fatalf("chain %q", uuids)
		}
		p.launch("--resume="+someID, "--resume-session-at="+uuids[1])
		p.goesOn(1)
		last := p.body(p.attempts() - 1)
		if strings.Contains(last, "said it") || !strings.Contains(last, "echo made") || !strings.Contains(last, "not part of the conversation any more") {
			t.Errorf("the request is %.3000s", last)
		}
	})
}

// foreign is a transcript as the SDKs copy one, with what makes readers stumble.
func foreign(cwd, id string) string {
	entry := func(kind, uuid, parent string, message object, more object) string {
		e := object{"type": kind, "parentUuid": parent, "isSidechain": false, "cwd": cwd, "sessionId": id, "message": message, "uuid": uuid, "timestamp": "2026-08-22T09:00:00.000Z"}
		if parent == "" {
			e["parentUuid"] = nil
		}
		for k, v := range more {
			e[k] = v
		}
		return wire(e)
	}
	answer := func(id string, b object) object {
		return object{"id": id, "type": "message", "role": "assistant", "model": "claude-x", "content": []any{b}, "usage": object{"input_tokens": 5, "output_tokens": 1}}
	}
	results := []any{object{"type": "tool_result", "tool_use_id": "toolu_1", "content": "the listing"}}
	return "not json\n[]\n\n{\"type\":\"user\",\"uuid\":7}\n" +
		`{"type":"permission-mode","permissionMode":"default","sessionId":"` + id + "\"}\n" +
		entry("user", promptA, "", object{"role": "user", "content": "the abandoned prompt"}, nil) +
		entry("user", promptB, "", object{"role": "user", "content": "list the files"}, nil) +
		entry("progress", "10000000-0000-4000-8000-000000000000", promptB, nil, nil) +
		entry("assistant", "20000000-0000-4000-8000-000000000000", "10000000-0000-4000-8000-000000000000", answer("msg_1", object{"type": "text", "text": "I will look."}), nil) +
		entry("assistant", "30000000-0000-4000-8000-000000000000", "20000000-0000-4000-8000-000000000000", answer("msg_1", object{"type": "tool_use", "id": "toolu_1", "name": "Glob", "input": object{"pattern": "*"}}), nil) +
		entry("user", "40000000-0000-4000-8000-000000000000", "30000000-0000-4000-8000-000000000000", object{"role": "user", "content": results}, nil) +
		entry("user", "50000000-0000-4000-8000-000000000000", "40000000-0000-4000-8000-000000000000", object{"role": "user", "content": "side"}, object{"isSidechain": true}) +
		entry("assistant", "60000000-0000-4000-8000-000000000000", "40000000-0000-4000-8000-000000000000", answer("msg_2", object{"type": "text", "text": "Two files."}), nil) +
		`{"type":"custom-title","customTitle":"listing","sessionId":"` + id + "\"}\n" +
		`{"type":"user","uuid":"7000`
}

// Spec stream-json 10.5: a session that is only a transcript, as the SDKs write one
// for a resume or copy one, goes on: the model sees its chain, its calls and their
// results, and nothing else; the file is only extended; broken lines do not matter.
func TestResumeTranscript(t *testing.T) {
	t.Parallel()
	eachSpeech(t, func(t *testing.T, p *provider) {
		r := p.room
		r.write(r.transcript(someID), foreign(r.work, someID))
		before := r.read(r.transcript(someID))
		p.launch("--resume=" + someID)
		p.goesOn(1)
		body := p.body(0)
		at := 0
		for _, part := range []string{"list the files", "I will look.", "toolu_1", "the listing", "Two files.", "go 1"} {
			i := strings.Index(body[at:], part)
			if i < 0 {
				t.Fatalf("no %q behind the rest in %.4000s", part, body)
			}
			at += i
		}
		for _, part := range []string{"abandoned", "side\""} {
			if strings.Contains(body, part) {
				t.Errorf("%q is in the request", part)
			}
		}
		if id := p.result(1)["session_id"]; id != someID {
			t.Errorf("session %v", id)
		}
		p.end()
		now := r.read(r.transcript(someID))
		if !strings.HasPrefix(now, before+"\n") {
			t.Fatal("the file was not only extended")
		}
		added, _ := chained(r.entries(writeFile(r, strings.TrimPrefix(now, before+"\n"))))
		if diff := cmp.Diff([]string{"user go 1", "assistant fine"}, added); diff != "" {
			t.Error(diff)
		}
		if strings.Contains(strings.TrimPrefix(now, before+"\n"), `"uuid":"20000000`) {
			t.Error("an entry of the file was added once more")
		}
		if parent := r.entries(filepath.Join(r.root, "part.jsonl"))[0]["parentUuid"]; parent == nil {
			t.Error("what was added begins a chain of its own")
		}
		// The uuids of the file name its entries in later truncations, too.
		p.launch("--resume="+someID, "--resume-session-at=20000000-0000-4000-8000-000000000000")
		p.goesOn(1)
		if last := p.body(p.attempts() - 1); strings.Contains(last, "toolu_1") || !strings.Contains(last, "I will look.") || strings.Contains(last, "Two files.") {
			t.Errorf("the request is %.4000s", last)
		}
		p.end()
		// It has a log now, which a fork begins with.
		p.launch("--resume="+someID, "--fork-session", "--resume-session-at="+promptB)
		p.goesOn(1)
		if last := p.body(p.attempts() - 1); strings.Contains(last, "I will look.") || !strings.Contains(last, "list the files") {
			t.Errorf("the request is %.4000s", last)
		}
		p.end()
	})
}

// writeFile puts a text where entries can read it.
func writeFile(r *room, text string) string {
	path := filepath.Join(r.root, "part.jsonl")
	r.write(path, text)
	return path
}

// A session that went on somewhere else has more in its transcript than in its log:
// the log takes it up (spec stream-json 10.5).
func TestResumeTranscriptAhead(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(echoes())
	r.say([]string{"--session-id=" + someID}, [2]string{promptA, "one"})
	log := r.log(someID)
	r.say([]string{"--resume=" + someID}, [2]string{promptB, "two"})
	// The log of this machine is as it was before.
	if err := os.WriteFile(filepath.Join(r.home, "sessions.d", someID+".jsonl"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	results, _ := r.say([]string{"--resume=" + someID}, [2]string{promptC, "three"})
	if results[0]["result"] != "turn 3 of three" {
		t.Errorf("result %v", results[0]["result"])
	}
	said, _ := chained(r.entries(r.transcript(someID)))
	want := []string{"user one", "assistant turn 1 of one", "user two", "assistant turn 2 of two", "user three", "assistant turn 3 of three"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
}

// Spec stream-json 10.3: --continue takes the session of the folder that was used
// last, of transcripts, too.
func TestContinue(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(echoes())
	r.say([]string{"--session-id=" + someID}, [2]string{"", "older"})
	r.say([]string{"--session-id=" + otherID}, [2]string{"", "newer"})
	r.say([]string{"--resume=" + someID}, [2]string{"", "older"})
	if results, _ := r.say([]string{"--continue"}, [2]string{"", "x"}); results[0]["session_id"] != someID || results[0]["result"] != "turn 3 of x" {
		t.Errorf("result %v", results[0])
	}
	// A copy that the SDK has made is newer still; one without messages is none.
	const copied, empty = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	r.write(r.transcript(copied), foreign(r.work, copied))
	r.write(r.transcript(empty), `{"type":"custom-title","customTitle":"x","sessionId":"`+empty+"\"}\n")
	if results, _ := r.say([]string{"--continue"}, [2]string{"", "x"}); results[0]["session_id"] != copied {
		t.Errorf("session %v", results[0]["session_id"])
	}
	// An id that only a transcript has is taken as well.
	if c, _ := r.speak(asks("x"), "--session-id="+empty); c.code != 1 || !strings.Contains(c.stderr, empty+" is already in use") {
		t.Errorf("exit code %d: %s", c.code, c.stderr)
	}
}

// Spec stream-json 4.18, 10.2: a name is in the transcript and in the log, whether
// it comes with a flag, before the first message or later; it stays where a listing
// looks for it.
func TestRename(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(`rules: [{reply: "` + strings.Repeat("long ", 8000) + `"}]`)
	titles := func() (list []string) {
		for _, e := range r.entries(r.transcript(someID)) {
			if e["type"] == "custom-title" {
				list = append(list, fmt.Sprint(e["customTitle"]))
			}
		}
		return list
	}
	h := r.start("--session-id="+someID, "--name", "by flag")
	if got := h.control("r", "rename_session", object{"title": " "}); got["subtype"] != "error" {
		t.Errorf("a blank name: %v", got)
	}
	if _, err := os.Stat(r.transcript(someID)); err == nil {
		t.Error("there is a transcript before the first message")
	}
	h.prompt(1)
	if diff := cmp.Diff([]string{"by flag"}, titles()); diff != "" {
		t.Error(diff)
	}
	if got := h.control("s", "rename_session", object{"title": " a new\nname "}); got["subtype"] != "success" {
		t.Errorf("renamed: %v", got)
	}
	h.prompt(2)
	h.prompt(3)
	h.end()
	all := titles()
	if all[0] != "by flag" || all[1] != "a new name" || all[len(all)-1] != "a new name" {
		t.Errorf("titles %q", all)
	}
	tail := r.read(r.transcript(someID))
	if tail = tail[max(0, len(tail)-64<<10):]; !strings.Contains(tail, `"customTitle":"a new name"`) || !strings.Contains(tail, `"lastPrompt":"go 3"`) {
		t.Error("the name is out of sight of a listing")
	}
	if !strings.Contains(r.log(someID), `"title":"a new name"`) {
		t.Error("the log has no name")
	}
	c := r.complete("", "sessions", "list")
	if c.code != 0 || !strings.Contains(c.stdout, someID) || !strings.Contains(c.stdout, "a new name") || strings.Contains(c.stdout, "by flag") {
		t.Errorf("dcl sessions list: %s%s", c.stdout, c.stderr)
	}
}

// A process that is killed between two entries leaves what the next one makes up:
// the transcript has every message of the log once (cases B42, B06; spec
// stream-json 1.8).
func TestTranscriptAfterKill(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(encode(object{"rules": append(steps(object{"text": "run it"}, []use{bash("touch began; sleep 60")}), object{"reply": "after it"})}))
	h := r.start("--session-id="+someID, "--allowedTools", "Bash")
	h.send(asksAs(promptA, "run it"))
	h.wait("the call", func(l object) bool { return l["type"] == "assistant" })
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	h.exit()
	said, _ := chained(r.entries(r.transcript(someID)))
	if diff := cmp.Diff([]string{"user run it", "assistant tool_use"}, said); diff != "" {
		t.Errorf("what the client saw is not on the disk: %s", diff)
	}
	results, _ := r.say([]string{"--resume=" + someID}, [2]string{promptB, "go on"})
	if results[0]["result"] != "after it" {
		t.Errorf("result %v", results[0])
	}
	said, _ = chained(r.entries(r.transcript(someID)))
	if diff := cmp.Diff([]string{"user run it", "assistant tool_use", "user tool_result", "user go on", "assistant after it"}, said); diff != "" {
		t.Error(diff)
	}
}

// Spec stream-json 10.2: a compaction is a boundary where the chain begins anew, with
// the summary and what the model still sees.
func TestTranscriptCompaction(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script("rules: [{reply: '" + strings.Repeat("many words of an answer ", 40) + "'}]")
	h := r.start("--session-id=" + someID)
	h.prompt(1)
	h.prompt(2)
	h.user("/compact")
	h.result(3)
	h.prompt(4)
	h.end()
	entries := r.entries(r.transcript(someID))
	at := slices.IndexFunc(entries, func(e object) bool { return e["subtype"] == "compact_boundary" })
	if at < 0 {
		t.Fatalf("no boundary in %v", entries)
	}
	boundary := entries[at]
	if boundary["type"] != "system" || boundary["parentUuid"] != nil || boundary["logicalParentUuid"] == nil || dig(boundary, "compactMetadata", "trigger") != "manual" {
		t.Errorf("boundary %v", boundary)
	}
	if told := h.of("system/compact_boundary"); len(told) != 1 || told[0]["uuid"] != boundary["uuid"] {
		t.Errorf("the client was told of %v", told)
	}
	summaries := 0
	for _, e := range entries {
		if e["isCompactSummary"] == true {
			summaries++
		}
	}
	said, _ := chained(entries)
	if summaries != 1 || len(said) == 0 || strings.Contains(strings.Join(said, "\n"), "user go 1") || said[len(said)-2] != "user go 4" {
		t.Errorf("%d summaries, chain %.300q", summaries, said)
	}
}

// Spec stream-json 10.2, 10.6: a subagent has a file of its own, which says whose
// it is.
func TestTranscriptSubagent(t *testing.T) {
	t.Parallel()
	rules := append(steps(object{"text": "delegate"}, []use{{"Agent", object{"description": "Look around", "prompt": "sub task", "subagent_type": "general-purpose"}}}),
		object{"when": object{"text": "sub task"}, "reply": "the finding"}, object{"reply": "done"})
	r := newRoom(t).script(encode(object{"rules": rules}))
	_, lines := r.say([]string{"--session-id=" + someID, "--session-mirror"}, [2]string{promptA, "delegate"})
	task, _ := only(lines, "system/task_started")[0]["task_id"].(string)
	path := filepath.Join(r.project(), someID, "subagents", "agent-"+task+".jsonl")
	entries := r.entries(path)
	var said []string
	for _, e := range entries {
		if e["isSidechain"] != true || e["sessionId"] != someID || e["agentId"] != task {
			t.Errorf("entry %v", e)
		}
		if e["type"] == "assistant" {
			said = append(said, block(e)["text"].(string))
		}
	}
	if diff := cmp.Diff([]string{"the finding"}, said); diff != "" {
		t.Error(diff)
	}
	meta := shown(t, r.read(strings.TrimSuffix(path, ".jsonl")+".meta.json"))
	if meta["agentType"] != "general-purpose" || meta["toolUseId"] != "call_1_1_1" {
		t.Errorf("beside it: %v", meta)
	}
	var mirrored []object
	for _, l := range only(lines, "transcript_mirror") {
		if l["filePath"] == path {
			for _, e := range l["entries"].([]any) {
				mirrored = append(mirrored, e.(object))
			}
		}
	}
	if len(mirrored) == 0 || mirrored[0]["type"] != "agent_metadata" || mirrored[0]["toolUseId"] != "call_1_1_1" {
		t.Fatalf("mirrored %v", mirrored)
	}
	if diff := cmp.Diff(entries, mirrored[1:]); diff != "" {
		t.Errorf("file and mirror: %s", diff)
	}
	if said, _ := chained(r.entries(r.transcript(someID))); len(said) != 4 {
		t.Errorf("the main chain is %q", said)
	}
}

// What cannot be written is told, and fails nothing.
func TestTranscriptUnwritable(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(echoes())
	r.write(filepath.Join(r.settings, "projects"), "a file in the way")
	c, lines := r.speak(asks("hello")+asks("more"), "--session-id="+someID)
	if c.code != 0 || len(only(lines, "result/success")) != 2 || strings.Count(c.stderr, "level=WARN") != 1 || !strings.Contains(c.stderr, "transcript") {
		t.Errorf("exit code %d, %q: %s", c.code, kinds(lines), c.stderr)
	}
}

// Spec stream-json 10.3, case B86: what a session has cost goes on with it, also
// where only its transcript is left; a fork begins at nothing, now and when it is
// resumed.
func TestCostOfForks(t *testing.T) {
	t.Parallel()
	p := provide(t, speeches()[2])
	flags := []string{"--model", "a", "--api-format", "anthropic", "--set", prices}
	p.server.Script(p.calls("c1", "Bash", `{"command":"echo 1"}`), p.says("done"))
	total := func(want float64, more ...string) {
		t.Helper()
		p.host = p.room.start(slices.Concat(flags, more)...)
		near(t, fmt.Sprintf("total of %q", more), p.prompt(1)["total_cost_usd"], want)
		p.end()
	}
	total(2*costA, "--session-id="+someID)
	total(costA, "--resume="+someID, "--fork-session", "--session-id="+otherID)
	total(2*costA, "--resume="+otherID)
	total(3*costA, "--resume="+someID)
	if err := os.Remove(filepath.Join(p.room.home, "sessions.d", someID+".jsonl")); err != nil {
		t.Fatal(err)
	}
	total(4*costA, "--resume="+someID)
	total(5*costA, "--resume="+someID)
}
