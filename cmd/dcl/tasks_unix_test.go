//go:build unix

package main

import (
	"syscall"
	"testing"
)

// A task has its end also where the process is ended (F13).
func TestTasksAtSignal(t *testing.T) {
	t.Parallel()
	h := newRoom(t).tasking(map[string][]use{"both": {behind("trap '' TERM; echo > deaf; while :; do sleep 1; done"), background("sub task")}},
		object{"when": object{"text": "sub task"}, "reply": []any{object{"text": "some"}, object{"delay": "60s"}}}).start("--permission-mode", anything)
	h.user("both")
	h.result(1)
	h.task(2)
	h.room.awaitFile("deaf")
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := h.exit(); code != 143 {
		t.Errorf("exit %d", code)
	}
	h.paired()
}
