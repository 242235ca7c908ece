package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// Hooks at the end of a session run before the channel to the host closes (case B31;
// spec stream-json 1.7, 5.2, 6.2): the command in each case; the callback where the
// host can still answer, and without noise where it cannot.
func TestEndOfSessionHooks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(h *host) int
		// called: the callback is.
		called bool
		code   int
	}{
		{"end of input", (*host).end, false, 0},
		{"TERM", func(h *host) int { return h.signal(syscall.SIGTERM) }, true, 143},
		{"TERM, no answer", func(h *host) int {
			h.with(&answers{hook: func(string, object) any { return nil }})
			return h.signal(syscall.SIGTERM)
		}, true, 143},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).rounds()
			a := &answers{}
			h := r.start("--settings", commands("SessionEnd", nil, "cat > "+r.root+"/ended; cat "+r.root+"/ended >/dev/null")).with(a)
			h.initialize(hooksOf(nil, "SessionEnd"))
			h.prompt(1)
			if code := tt.end(h); code != tt.code {
				t.Errorf("exit code %d", code)
			}
			in := jsonOf(t, r.read(r.root+"/ended"))
			if in["hook_event_name"] != "SessionEnd" || !is(in["reason"], "text") {
				t.Errorf("the command was given %v", in)
			}
			if called := len(h.asks("hook_callback")) == 1; called != tt.called {
				t.Errorf("called: %v", h.asks("hook_callback"))
			}
			if noise := h.errorOutput(); strings.Contains(strings.ToLower(noise), "closed") || strings.Contains(noise, "ERROR") || strings.Contains(noise, "WARN") {
				t.Errorf("standard error: %s", noise)
			}
			if len(h.of("system/hook_started")) != 0 {
				t.Error("the life of a SessionEnd hook is shown")
			}
		})
	}
	t.Run("the host goes away", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t).rounds()
		h := r.start("--settings", commands("SessionEnd", nil, "echo x > "+r.root+"/ended"))
		h.initialize(hooksOf(nil, "SessionEnd"))
		h.prompt(1)
		_ = h.stdout.Close()
		h.user("more") // what it has to say about this has nowhere to go
		if code := h.exit(); code != 1 && code != 0 {
			t.Errorf("exit code %d", code)
		}
		r.awaitFile(r.root + "/ended")
	})
}

// signal sends a signal and gives the exit code.
func (h *host) signal(s os.Signal) int {
	h.t.Helper()
	if err := h.cmd.Process.Signal(s); err != nil {
		h.t.Fatal(err)
	}
	return h.exit()
}
