//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"dsh/kernel/process/processtest"
)

// taskID is what a script says for the id of the task that the last call started.
const taskID = "{{slice result 47 60}}"

// inBackground is a call that does not wait for its command.
func inBackground(command string) use {
	return use{"Bash", object{"command": command, "description": "the task", "run_in_background": true}}
}

// shellScript starts a task with the prompt "go" and answers anything else with
// done.
func shellScript(rounds ...[]use) string {
	return encode(object{"rules": append(steps(object{"text": "go"}, rounds...), object{"reply": "done"})})
}

// allTools lets the model make every call without asking.
var allTools = []string{"--permission-mode", "bypassPermissions", "--allow-dangerously-skip-permissions"}

// A background command's call is back at once with its id and output file; TaskOutput
// shows what it has said; its end by itself starts a turn of its own (spec
// stream-json 9, 11.8).
func TestBackgroundShell(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(shellScript(
		[]use{inBackground("echo 渐🚀; touch started; while [ ! -e gate ]; do sleep 0.02; done; echo the end; exit 3")},
		[]use{{"TaskOutput", object{"task_id": taskID, "block": false}}},
	))
	h := r.start(allTools...)
	h.user("go")
	h.result(1)
	var background object
	for _, l := range h.of("user") {
		if o, _ := l["tool_use_result"].(object); o["backgroundTaskId"] != nil {
			background = o
		}
	}
	id, _ := background["backgroundTaskId"].(string)
	results := h.toolResults()
	if id == "" || len(results) != 2 || !strings.Contains(contentText(results[0]), id) {
		t.Fatalf("results %v, structured %v", results, background)
	}
	r.write("gate", "")
	result := h.result(2)
	if result["subtype"] != "success" || result["result"] != "done" {
		t.Errorf("the turn of the end: %v", result)
	}
	if got := contentText(h.toolResults()[1]); !strings.Contains(got, "Task "+id+" (the task) is running") {
		t.Errorf("TaskOutput said %q", got)
	}
	if code := h.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TaskStop ends the whole group, under its old names, too; no turn follows
// (S055).
func TestTaskStop(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"TaskStop", "KillShell", "KillBash"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).script(shellScript(
				[]use{inBackground("sleep 300 & sleep 300 & wait")},
				[]use{{name, object{"shell_id": taskID}}},
			))
			h := r.start(allTools...)
			h.user("go")
			h.result(1)
			results := h.toolResults()
			if len(results) != 2 || !strings.Contains(contentText(results[1]), "was stopped") {
				t.Fatalf("results %v", results)
			}
			h.user("again")
			if result := h.result(2); result["result"] != "done" {
				t.Errorf("result %v", result)
			}
			h.end()
			if n := len(h.of("result")); n != 2 {
				t.Errorf("%d results, want those of the two prompts", n)
			}
		})
	}
}

// A command that takes too long goes on in the background, with what it has said
// (spec stream-json 9, output limits).
func TestTimeOutMoves(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(shellScript([]use{{"Bash", object{"command": "echo so far; while [ ! -e gate ]; do sleep 0.02; done", "timeout": 1500}}}))
	h := r.start(allTools...)
	h.user("go")
	h.result(1)
	results := h.toolResults()
	if len(results) != 1 || results[0]["is_error"] == true || !strings.HasSuffix(contentText(results[0]), "so far") {
		t.Fatalf("results %v", results)
	}
	r.write("gate", "")
	h.result(2)
	h.end()
}

// What runs in the background is gone with the program, however that ends (case
// B76): at the end of its input, by a signal, and by kill -9, behind which the
// guard ends it.
func TestNothingLeftRunning(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(h *host){
		"end of input": func(h *host) { _ = h.stdin.Close() },
		"SIGTERM":      func(h *host) { _ = h.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGKILL":      func(h *host) { _ = h.cmd.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).script(shellScript([]use{inBackground("echo up; sleep 300 & sleep 300")}))
			mark := r.mark()
			h := r.start(append([]string{"--set", "front.shellsLimit=1s"}, allTools...)...)
			h.user("go")
			h.result(1)
			// The program itself, its guard, and at least two of the task.
			for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
				pids, err := processtest.Marked(mark)
				if err == nil && len(pids) >= 4 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("processes %v, %v: nothing runs", pids, err)
				}
			}
			end(h)
			h.exit()
			gone(t, mark)
		})
	}
}
