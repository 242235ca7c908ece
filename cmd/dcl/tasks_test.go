package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// behind is a shell command that does not keep its call waiting.
func behind(command string) use {
	return use{"Bash", object{"command": command, "description": "Serve it", "run_in_background": true}}
}

// background is a subagent that does not keep its call waiting.
func background(prompt string) use {
	return use{"Agent", object{"description": "Look around", "prompt": prompt, "subagent_type": "general-purpose", "run_in_background": true}}
}

// tasking has the model make calls in the turns whose prompt holds a word, and say
// done in all others.
func (r *room) tasking(turns map[string][]use, more ...any) *room {
	r.t.Helper()
	rules := slices.Clone(more)
	for word, calls := range turns {
		rules = append(rules, steps(object{"text": word}, calls)...)
	}
	return r.script(encode(object{"rules": append(rules, object{"reply": "done"})}))
}

const anything = "bypassPermissions"

// taskFrames are the lines about tasks, each as its subtype, its place among the
// results, and what it says of the task.
func (h *host) taskFrames() (frames []string) {
	results := 0
	for _, l := range h.all() {
		if l["type"] == "result" {
			results++
			continue
		}
		switch l["subtype"] {
		case "task_started":
			frames = append(frames, fmt.Sprint(results, " started ", l["task_type"], " ", l["is_backgrounded"]))
		case "task_notification":
			frames = append(frames, fmt.Sprint(results, " ended ", l["status"]))
		case "background_tasks_changed":
			list, _ := l["tasks"].([]any)
			frames = append(frames, fmt.Sprint(results, " left ", len(list)))
		}
	}
	return frames
}

// paired checks that every task_started has one task_notification, behind it (F13).
func (h *host) paired() {
	h.t.Helper()
	open := map[any]int{}
	for _, l := range h.all() {
		switch l["subtype"] {
		case "task_started":
			open[l["task_id"]]++
		case "task_notification":
			if open[l["task_id"]]--; open[l["task_id"]] < 0 {
				h.t.Errorf("an end too many: %v", l)
			}
		}
	}
	for id, n := range open {
		if n != 0 {
			h.t.Errorf("task %v has no end", id)
		}
	}
}

// task waits for the n-th task_started, from 1, and gives the task's id.
func (h *host) task(n int) string {
	h.t.Helper()
	count := 0
	line := h.wait("task_started", func(l object) bool {
		if l["subtype"] == "task_started" {
			count++
			return count == n
		}
		return false
	})
	id, _ := line["task_id"].(string)
	return id
}

// A background shell ends on stop_task with one notification, which wakes nobody; an
// ended task is no error, an unknown one is (checklist 38; S055; F13; spec
// stream-json 3.10, 4.14).
func TestStopTask(t *testing.T) {
	t.Parallel()
	h := newRoom(t).tasking(map[string][]use{"serve": {behind("echo up; echo $$ > pid; sleep 300")}}).start("--permission-mode", anything)
	h.control("i", "initialize", nil)
	h.user("serve")
	h.result(1)
	id := h.task(1)
	h.room.awaitFile("pid")
	started := h.of("system/task_started")[0]
	if started["tool_use_id"] != "call_1_1_1" || started["description"] != "Serve it" {
		t.Errorf("started %v", started)
	}
	for _, bad := range []object{{}, {"task_id": ""}, {"task_id": 5}, {"task_id": nil}} {
		if got := h.control(fmt.Sprint("bad", len(h.all())), "stop_task", bad); got["subtype"] != "error" || !strings.Contains(fmt.Sprint(got["error"]), "task_id") {
			t.Errorf("%v: %v", bad, got)
		}
	}
	if got := h.control("never", "stop_task", object{"task_id": "never"}); got["error"] != "No task found with ID: never" {
		t.Errorf("unknown: %v", got)
	}
	for _, request := range []string{"stop", "again"} {
		if got := h.control(request, "stop_task", object{"task_id": id}); got["subtype"] != "success" || !cmp.Equal(got["response"], any(object{})) {
			t.Errorf("%s: %v", request, got)
		}
		h.wait("the end", isType("system/task_notification"))
	}
	ended := h.of("system/task_notification")[0]
	file, _ := ended["output_file"].(string)
	if said, err := os.ReadFile(file); err != nil || string(said) != "up\n" {
		t.Errorf("the output is %q, %v", said, err)
	}
	h.user("and now?")
	h.result(2)
	if code := h.end(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if diff := cmp.Diff([]string{"0 started local_bash true", "0 left 1", "1 ended stopped", "1 left 0"}, h.taskFrames()); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
	if n := len(h.of("result")); n != 2 {
		t.Errorf("%d results", n)
	}
}

// A command that ends by itself is told of, and then a turn tells the model; its
// result says where it comes from, also when the input has ended meanwhile (spec
// stream-json 1.8, 11.1 rule 4).
func TestShellEnds(t *testing.T) {
	t.Parallel()
	for name, eof := range map[string]bool{"while the client listens": false, "behind the end of input": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).tasking(map[string][]use{"serve": {behind("while [ ! -e go ]; do sleep 0.05; done; exit 3")}}).start("--permission-mode", anything)
			h.user("serve")
			h.result(1)
			if eof {
				_ = h.stdin.Close()
			}
			h.room.write("go", "")
			second := h.result(2)
			if dig(second, "origin", "kind") != "task-notification" || second["subtype"] != "success" || second["result"] != "done" {
				t.Errorf("result %v", second)
			}
			if code := h.end(); code != 0 {
				t.Errorf("exit %d", code)
			}
			if diff := cmp.Diff([]string{"0 started local_bash true", "0 left 1", "1 ended failed", "1 left 0"}, h.taskFrames()); diff != "" {
				t.Errorf("frames (-want +got):\n%s", diff)
			}
		})
	}
}

// At the end of input a command in the background is stopped some time behind the
// last result, and the exit code is that of the result (spec stream-json 1.8).
func TestShellAtEnd(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"stream-json": streamFlags, "print": {"-p", "serve", "--output-format", "stream-json", "--verbose"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).tasking(map[string][]use{"serve": {behind("echo $$ > pid; sleep 300")}}).run(append(slices.Clone(flags), "--permission-mode", anything, "--set", "front.shellsLimit=1s")...)
			h.user("serve")
			h.result(1)
			if code := h.end(); code != 0 {
				t.Errorf("exit %d", code)
			}
			if diff := cmp.Diff([]string{"0 started local_bash true", "0 left 1", "1 ended stopped", "1 left 0"}, h.taskFrames()); diff != "" {
				t.Errorf("frames (-want +got):\n%s", diff)
			}
		})
	}
}

// An interrupt ends what goes on in the background before the result, unless the
// host's users can end each task and the input is open (spec stream-json 11.2).
func TestInterruptTasks(t *testing.T) {
	t.Parallel()
	for name, spared := range map[string]bool{"ended": false, "spared": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).tasking(map[string][]use{"both": {behind("trap '' TERM; echo > deaf; while :; do sleep 1; done"), background("sub task")}, "wait": {bash("echo > begun; sleep 300")}},
				object{"when": object{"text": "sub task"}, "reply": []any{object{"text": "some"}, object{"delay": "60s"}}}).start("--permission-mode", anything)
			h.control("i", "initialize", object{"perTaskStopAffordance": spared})
			h.user("both")
			h.result(1)
			first, second := h.task(1), h.task(2)
			h.room.awaitFile("deaf") // its end takes time
			h.user("wait")
			h.room.awaitFile("begun")
			h.control("x", "interrupt", nil)
			aborted(t, h.result(2), "aborted_tools")
			h.answeredBefore("x", 2)
			if !spared {
				ends := slices.DeleteFunc(h.taskFrames()[4:], func(f string) bool { return f == "1 left 1" })
				if diff := cmp.Diff([]string{"1 ended stopped", "1 ended stopped", "1 left 0"}, ends); diff != "" {
					t.Errorf("frames (-want +got):\n%s", diff)
				}
			} else {
				if got := h.of("system/task_notification"); len(got) != 0 {
					t.Errorf("ended %v", got)
				}
				for _, id := range []string{first, second} {
					h.control("s"+id, "stop_task", object{"task_id": id})
				}
				h.wait("the end of all", func(l object) bool {
					list, _ := l["tasks"].([]any)
					return l["subtype"] == "background_tasks_changed" && len(list) == 0
				})
			}
			h.user("and now?")
			if got := h.result(3); got["result"] != "done" || got["subtype"] != "success" {
				t.Errorf("result %v", got)
			}
			if code := h.end(); code != 0 {
				t.Errorf("exit %d", code)
			}
			h.paired()
		})
	}
}

// background_tasks has calls that wait go on without their work: one that is named,
// or all; what goes on is a task in the background (spec stream-json 3.10, 4.18).
func TestDetachTasks(t *testing.T) {
	t.Parallel()
	sub := object{"when": object{"text": "sub task"}, "reply": []any{object{"text": "some"}, object{"delay": "60s"}}}
	agent := use{"Agent", object{"description": "Look around", "prompt": "sub task", "subagent_type": "general-purpose", "run_in_background": false}}
	for name, tc := range map[string]struct {
		call    use
		request object
		frames  []string
	}{
		"a shell":  {bash("echo > begun; sleep 300"), object{"tool_use_id": "call_1_1_1"}, []string{"0 started local_bash true", "0 left 1", "1 ended stopped", "1 left 0"}},
		"an agent": {agent, object{}, []string{"0 started local_agent <nil>", "0 left 1", "1 ended stopped", "1 left 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).tasking(map[string][]use{"work": {tc.call}}, sub).start("--permission-mode", anything)
			if got := h.control("none", "background_tasks", nil); !cmp.Equal(got["response"], any(object{"backgrounded": false})) {
				t.Errorf("nothing waits: %v", got)
			}
			if got := h.control("bad", "background_tasks", object{"tool_use_id": 5}); got["subtype"] != "error" {
				t.Errorf("ill-typed: %v", got)
			}
			h.user("work")
			if tc.call.tool == "Bash" {
				h.room.awaitFile("begun")
			} else {
				h.task(1)
			}
			if got := h.control("other", "background_tasks", object{"tool_use_id": "other"}); !cmp.Equal(got["response"], any(object{"backgrounded": false})) {
				t.Errorf("another call: %v", got)
			}
			if got := h.control("now", "background_tasks", tc.request); !cmp.Equal(got["response"], any(object{"backgrounded": true})) {
				t.Errorf("got %v", got)
			}
			if got := h.result(1); got["result"] != "done" {
				t.Errorf("result %v", got)
			}
			if updated := h.of("system/task_updated"); tc.call.tool == "Agent" && (len(updated) != 1 || dig(updated[0], "patch", "is_backgrounded") != true || updated[0]["task_id"] != h.task(1)) {
				t.Errorf("updated %v", updated)
			}
			h.control("stop", "stop_task", object{"task_id": h.task(1)})
			h.wait("the end", isType("system/task_notification"))
			h.end()
			if diff := cmp.Diff(tc.frames, h.taskFrames()); diff != "" {
				t.Errorf("frames (-want +got):\n%s", diff)
			}
		})
	}
}

// get_task_output gives the last 8 KiB of what a task has said (spec stream-json
// 4.18), whole characters, while it runs and when it has ended.
func TestTaskOutput(t *testing.T) {
	t.Parallel()
	// The end of the 8 KiB falls into the middle of a character.
	h := newRoom(t).tasking(map[string][]use{"serve": {behind("i=0; while [ $i -lt 4000 ]; do printf '\\303\\251\\303\\251\\303\\251'; i=$((i+1)); done; printf x; echo > begun; sleep 300")}}).start("--permission-mode", anything)
	h.user("serve")
	h.result(1)
	id := h.task(1)
	h.room.awaitFile("begun")
	var got object
	waitsUntil(t, "the output", func() bool {
		got, _ = h.control(fmt.Sprint("o", len(h.all())), "get_task_output", object{"task_id": id})["response"].(object)
		return got["total_bytes"] == 24001.0
	})
	if diff := cmp.Diff(object{"output": strings.Repeat("é", 4095) + "x", "total_bytes": 24001.0, "truncated": true}, got); diff != "" {
		t.Errorf("output (-want +got):\n%.500s", diff)
	}
	h.control("stop", "stop_task", object{"task_id": id})
	h.wait("the end", isType("system/task_notification"))
	if again, _ := h.control("after", "get_task_output", object{"task_id": id})["response"].(object); !cmp.Equal(got, again) {
		t.Errorf("behind the end: %.200v", again)
	}
	if got := h.control("never", "get_task_output", object{"task_id": "never"}); got["error"] != "No task found with ID: never" {
		t.Errorf("unknown: %v", got)
	}
	if got := h.control("bad", "get_task_output", nil); !strings.Contains(fmt.Sprint(got["error"]), "task_id") {
		t.Errorf("missing: %v", got)
	}
	h.end()
}

// A subagent at work is told of, and where the host asked for it a model says what
// it is doing; that request is in the account of the session and holds up nothing
// (S038; spec stream-json 3.10, 4.1).
func TestProgressSummaries(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		init   object
		reply  []any
		want   []string
		tokens float64
	}{
		"asked for":     {object{"agentProgressSummaries": true}, []any{object{"text": "Counting\nthe sheep."}, object{"usage": object{"inputTokens": 1000000, "outputTokens": 1}}}, []string{"Counting the sheep."}, 1000000},
		"not asked for": {object{}, []any{object{"text": "Never"}, object{"usage": object{"inputTokens": 1000000, "outputTokens": 1}}}, nil, 0},
		"no answer":     {object{"agentProgressSummaries": true}, []any{object{"delay": "10m"}}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := append(steps(object{"text": "delegate"}, []use{{"Agent", object{"description": "Look around", "prompt": "sub task", "subagent_type": "general-purpose", "run_in_background": false}}}),
				steps(object{"text": "sub task"}, []use{bash("echo inner")}, []use{bash("sleep 1")})...)
			rules = append(rules, object{"when": object{"aside": "summary"}, "reply": tc.reply}, object{"reply": "done"})
			h := newRoom(t).script(encode(object{"rules": rules})).start("--permission-mode", anything)
			h.control("i", "initialize", tc.init)
			h.user("delegate")
			result := h.result(1)
			var summaries []string
			progress := h.of("system/task_progress")
			for _, l := range progress {
				if s, ok := l["summary"].(string); ok {
					summaries = append(summaries, s)
				}
				if l["task_id"] != h.task(1) || l["description"] != "Look around" || l["last_tool_name"] != "Bash" || l["subagent_type"] != "general-purpose" || l["tool_use_id"] != "call_1_1_1" {
					t.Errorf("progress %v", l)
				}
			}
			if uses := dig(progress[0], "usage", "tool_uses"); uses != 1.0 {
				t.Errorf("tool_uses %v", uses)
			}
			if diff := cmp.Diff(tc.want, summaries); diff != "" {
				t.Errorf("summaries (-want +got):\n%s", diff)
			}
			models, _ := result["modelUsage"].(object)
			total := 0.0
			for _, m := range models {
				n, _ := dig(m.(object), "inputTokens").(float64)
				total += n
			}
			if total < tc.tokens || total >= tc.tokens+1000000 {
				t.Errorf("%v tokens in the account", total)
			}
			h.end()
			h.paired()
		})
	}
}

// A refusal by mode dontAsk is told of, that by mode plan is not (spec stream-json
// 3.10, 11.11).
func TestModeRefusals(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]int{"dontAsk": 1, "plan": 0} {
		h := newRoom(t).rounds([]use{bash("touch made")}).start("--permission-mode", mode)
		h.user("go")
		h.result(1)
		h.end()
		got := h.of("system/permission_denied")
		if len(got) != want || want > 0 && (got[0]["tool_name"] != "Bash" || got[0]["tool_use_id"] != "call_1_1_1" || got[0]["decision_reason_type"] != "mode") {
			t.Errorf("%s: %v", mode, got)
		}
	}
}

// read_file gives what the rules let the model read unasked, and no more (spec
// stream-json 4.18; checklist 21).
func TestReadFile(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.write("a.txt", "héllo\n")
	r.write("bytes.bin", "a\xffb")
	r.write("secret/key.txt", "hush")
	r.write(filepath.Join(r.root, "outside.txt"), "out")
	if err := os.Symlink(filepath.Join(r.root, "outside.txt"), filepath.Join(r.work, "link.txt")); err != nil {
		t.Fatal(err)
	}
	h := r.start("--disallowed-tools", "Read(secret/**)")
	for name, tc := range map[string]struct {
		request object
		want    object
		wrong   string
	}{
		"whole":        {object{"path": "a.txt"}, object{"contents": "héllo\n", "absPath": filepath.Join(r.work, "a.txt")}, ""},
		"absolute":     {object{"path": filepath.Join(r.work, "a.txt"), "encoding": "utf-8"}, object{"contents": "héllo\n", "absPath": filepath.Join(r.work, "a.txt")}, ""},
		"its head":     {object{"path": "a.txt", "max_bytes": 2}, object{"contents": "h", "absPath": filepath.Join(r.work, "a.txt"), "truncated": true}, ""},
		"base64":       {object{"path": "bytes.bin", "encoding": "base64"}, object{"contents": base64.StdEncoding.EncodeToString([]byte("a\xffb")), "absPath": filepath.Join(r.work, "bytes.bin"), "encoding": "base64"}, ""},
		"no text":      {object{"path": "bytes.bin"}, object{"contents": "a\ufffdb", "absPath": filepath.Join(r.work, "bytes.bin"), "lossy": true}, ""},
		"denied":       {object{"path": "secret/key.txt"}, nil, "permission rules"},
		"outside":      {object{"path": "../outside.txt"}, nil, "permission rules"},
		"through link": {object{"path": "link.txt"}, nil, "permission rules"},
		"missing":      {object{"path": "none.txt"}, nil, "none.txt"},
		"a folder":     {object{"path": "."}, nil, "directory"},
		"no path":      {object{}, nil, "path"},
		"bad path":     {object{"path": 5}, nil, "path"},
		"bad size":     {object{"path": "a.txt", "max_bytes": 0}, nil, "max_bytes"},
		"half a byte":  {object{"path": "a.txt", "max_bytes": 1.5}, nil, "max_bytes"},
		"bad encoding": {object{"path": "a.txt", "encoding": "rot13"}, nil, "encoding"},
	} {
		got := h.control(name, "read_file", tc.request)
		if tc.wrong != "" {
			if said, _ := got["error"].(string); !strings.Contains(said, tc.wrong) || strings.Contains(encode(got), "hush") {
				t.Errorf("%s: %v, want an error that says %q", name, got, tc.wrong)
			}
			continue
		}
		if diff := cmp.Diff(any(tc.want), got["response"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%v", name, diff, got["error"])
		}
	}
	// A large file fits into the line, whatever it holds.
	r.write("large.txt", strings.Repeat("\x01", 2_000_000))
	if got, _ := h.control("large", "read_file", object{"path": "large.txt"})["response"].(object); got["truncated"] != true || len(fmt.Sprint(got["contents"])) < 50_000 {
		t.Errorf("the large file: %.100v", got)
	}
	h.end()
}

// file_suggestions finds files by a part of their path, the nearest and best first,
// without those that git ignores (spec stream-json 4.18).
func TestFileSuggestions(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	for _, name := range []string{"main.go", "src/Remain.go", "src/main/x.txt", "build/main.o", ".hidden/main.go", "docs/a/b/remain.md"} {
		r.write(name, "")
	}
	r.write(".gitignore", "build/\n")
	for i := range 40 {
		r.write(fmt.Sprintf("many/file%02d", i), "")
	}
	h := r.start()
	for query, want := range map[string][]any{
		"main":       {"main.go", "src/main/", "src/Remain.go", "docs/a/b/remain.md", "src/main/x.txt"},
		"main.go":    {"main.go", "src/Remain.go"},
		"src/r":      {"src/Remain.go"},
		"./MAIN.g":   {"main.go", "src/Remain.go"},
		".hidden/":   {".hidden/", ".hidden/main.go"},
		"none":       {},
		"../":        {},
		"":           {"docs/", "src/", "many/", "main.go"},
		"many/file0": {"many/file00", "many/file01", "many/file02", "many/file03", "many/file04", "many/file05", "many/file06", "many/file07", "many/file08", "many/file09"},
	} {
		got := h.control("q"+query, "file_suggestions", object{"query": query})
		found, _ := dig(got, "response", "suggestions").([]any)
		if query == "" {
			slices.SortFunc(found, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			slices.SortFunc(want, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
	if found, _ := dig(h.control("all", "file_suggestions", object{"query": "file"}), "response", "suggestions").([]any); len(found) != 15 {
		t.Errorf("%d suggestions", len(found))
	}
	for name, bad := range map[string]object{"missing": {}, "a number": {"query": 5}} {
		if got := h.control(name, "file_suggestions", bad); !strings.Contains(fmt.Sprint(got["error"]), "query") {
			t.Errorf("%s: %v", name, got)
		}
	}
	h.end()
}

// The small answers (spec stream-json 4.18; checklist 21): what a model says beside
// the conversation counts and changes nothing of it.
func TestSmallAnswers(t *testing.T) {
	t.Parallel()
	const model = `
rules:
  - when: {aside: title}
    reply: [{text: ' "Sheep and goats." '}, {usage: {inputTokens: 1000000, outputTokens: 1}}]
  - when: {aside: question, text: hello}
    reply: [{text: Nobody knows.}, {usage: {inputTokens: 1000000, outputTokens: 1}}]
  - reply: "turn {{turn}}, you said: {{user}}"
`
	h := newRoom(t).script(model).start()
	h.control("i", "initialize", nil)
	for name, tc := range map[string]struct {
		subtype string
		request object
		want    any
		wrong   string
	}{
		"colour":               {"set_color", object{"color": "blue"}, object{}, ""},
		"no colour":            {"set_color", object{}, nil, "color"},
		"subscribers":          {"set_has_subscribers", object{"has_subscribers": false}, object{}, ""},
		"unknown subscribers":  {"set_has_subscribers", object{"has_subscribers": nil}, object{}, ""},
		"no subscribers":       {"set_has_subscribers", object{}, nil, "has_subscribers"},
		"bad subscribers":      {"set_has_subscribers", object{"has_subscribers": "yes"}, nil, "has_subscribers"},
		"no description":       {"generate_session_title", object{}, nil, "description"},
		"bad persist":          {"generate_session_title", object{"description": "x", "persist": 5}, nil, "persist"},
		"no question":          {"side_question", object{}, nil, "question"},
		"a question too early": {"side_question", object{"question": "why?"}, nil, "send a message"},
	} {
		got := h.control(name, tc.subtype, tc.request)
		if said, _ := got["error"].(string); tc.wrong != "" && !strings.Contains(said, tc.wrong) {
			t.Errorf("%s: %v, want an error that says %q", name, got, tc.wrong)
		}
		if diff := cmp.Diff(tc.want, got["response"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	h.user("hello")
	h.result(1)
	if got := h.control("t", "generate_session_title", object{"description": "count the sheep", "persist": true}); dig(got, "response", "title") != "Sheep and goats" {
		t.Errorf("title %v", got)
	}
	if got := h.control("q", "side_question", object{"question": "how many?"}); !cmp.Equal(got["response"], any(object{"response": "Nobody knows.", "synthetic": false})) {
		t.Errorf("answer %v", got)
	}
	h.user("bye")
	second := h.result(2)
	if second["result"] != "turn 2, you said: bye" {
		t.Errorf("result %v", second)
	}
	used := 0.0
	for _, m := range second["modelUsage"].(object) {
		used += dig(m.(object), "inputTokens").(float64)
	}
	if used < 2000000 || used >= 3000000 {
		t.Errorf("%v tokens in the account", used)
	}
	h.end()
}

// A session whose model gives no title is called by the first words (spec stream-json
// 4.18).
func TestTitleWithoutModel(t *testing.T) {
	t.Parallel()
	h := newRoom(t).script("rules:\n  - when: {aside: title}\n    reply: [{error: {code: INVALID_REQUEST, status: 400}}]\n  - reply: fine\n").start()
	h.user("hello")
	h.result(1)
	for description, want := range map[string]any{
		"count all the sheep and\nthe goats of the whole farm": "count all the sheep and the goats of", " \n": nil,
	} {
		if got := h.control("t"+description, "generate_session_title", object{"description": description}); !cmp.Equal(got["response"], any(object{"title": want})) {
			t.Errorf("%q: %v", description, got)
		}
	}
	h.end()
}

// While a model thinks of a title, messages do not wait (spec stream-json 4.0).
func TestTitleHoldsUpNothing(t *testing.T) {
	t.Parallel()
	h := newRoom(t).script("rules:\n  - when: {aside: title}\n    reply: [{delay: 10m}]\n  - reply: fine\n").start()
	h.user("one")
	h.result(1)
	h.send(object{"type": "control_request", "request_id": "t", "request": object{"subtype": "generate_session_title", "description": "count the sheep"}})
	h.user("two")
	limit := time.Now().Add(15 * time.Second) // by itself the title ends after twenty
	h.result(2)
	if time.Now().After(limit) {
		t.Error("the message waited for the title")
	}
	h.send(object{"type": "control_cancel_request", "request_id": "t"})
	h.end()
}
