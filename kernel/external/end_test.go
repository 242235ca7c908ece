package external

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"dsh/kernel"
)

// stop ends the composition and says how long that may take at most: the limits
// of decision R13.
func (b *booted) stop(t *testing.T) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- b.kernel.Stop() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("stop: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
}

// A plugin is told of its end, once, and ends by itself (case B74).
func TestEnd(t *testing.T) {
	b := up(t, "good", "")
	pid := b.pid(t)
	b.stop(t)
	if n := strings.Count(b.log.String(), "msg=stopped"); n != 1 {
		t.Errorf("it was told %d times of its end", n)
	}
	if n := strings.Count(b.log.String(), "msg=started"); n != 1 {
		t.Errorf("it was started %d times", n)
	}
	if alive(pid) {
		t.Errorf("process %d is there", pid)
	}
	if _, ok := b.tools.View(nil).Lookup("do"); ok {
		t.Error("its tool is there")
	}
	if strings.Contains(b.log.String(), "is started again") {
		t.Error("its end counts as a crash")
	}
}

// Neither a Stop that does not return nor a deaf ear for TERM keep a plugin (cases
// B74, B76).
func TestEndStubborn(t *testing.T) {
	b := up(t, "stubborn", "")
	pid := b.pid(t)
	b.stop(t)
	eventually(t, "the process is gone", func() bool { return !alive(pid) })
}

// A plugin that is stopped altogether is ended, too.
func TestEndFrozen(t *testing.T) {
	b := up(t, "tools", "")
	pid := b.pid(t)
	freeze(t, pid)
	b.stop(t)
	eventually(t, "the process is gone", func() bool { return !alive(pid) })
}

// What a plugin has started goes with it: in its group, outside of it, when the
// plugin is ended and when it crashes (case B76).
func TestEndChildren(t *testing.T) {
	for _, where := range []string{"beside", "away"} {
		for _, how := range []string{"end", "crash"} {
			t.Run(where+" "+how, func(t *testing.T) {
				b := up(t, "tools", "")
				child, err := strconv.Atoi(text(b.do(t.Context(), "fork", where)))
				if err != nil {
					t.Fatal(err)
				}
				if !alive(child) {
					t.Fatal("there is no child")
				}
				if how == "end" {
					b.stop(t)
				} else {
					b.do(t.Context(), "exit", "")
				}
				eventually(t, "the child is gone", func() bool { return !alive(child) })
			})
		}
	}
}

// When the harness is killed its plugins end by themselves, with what they have
// started (case B76).
func TestHarnessKilled(t *testing.T) {
	if rows := os.Getenv("PLUGIN_TEST_HARNESS"); rows != "" {
		harness(t, rows)
		return
	}
	dir := shortTemp(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^TestHarnessKilled$")
	cmd.Env = append(os.Environ(), "PLUGIN_TEST_HARNESS="+rowOf(t, "it", "tools", ""), "PLUGIN_TEST_DIR="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []string
	eventually(t, "the harness runs", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "pids"))
		pids = strings.Fields(string(text))
		return len(pids) == 3
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
	for _, word := range pids[:2] {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "process "+word+" is gone", func() bool { return !alive(pid) })
	}
}

// harness runs a plugin with a child until it is killed.
func harness(t *testing.T, rows string) {
	b := boot(t, rows)
	if err := b.ready(t, "it"); err != nil {
		t.Fatal(err)
	}
	pids := strconv.Itoa(b.pid(t)) + " " + text(b.do(t.Context(), "fork", "beside")) + " end"
	if err := os.WriteFile(filepath.Join(os.Getenv("PLUGIN_TEST_DIR"), "pids"), []byte(pids), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
}

// A row that is unloaded while its plugin starts leaves nothing.
func TestUnloadedWhileStarting(t *testing.T) {
	b := boot(t, rowOf(t, "it", "silent", ""))
	time.Sleep(50 * time.Millisecond)
	b.stop(t)
}

// shortTemp makes a folder for temporary files whose name is short enough for
// sockets, and gives it to plugins.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "x")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("TMPDIR", dir)
	return dir
}

// Sockets and their folders go with the plugin.
func TestEndTidies(t *testing.T) {
	dir := shortTemp(t)
	left := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "dsh-*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	b := boot(t, rowOf(t, "it", "tools", "")+rowOf(t, "bad", "quitting", "")+rowOf(t, "worse", "newer", ""))
	if err := b.ready(t, "it"); err != nil {
		t.Fatal(err)
	}
	if n := len(left()); n != 1 {
		t.Errorf("%d folders are there for one plugin: %v", n, left())
	}
	b.do(t.Context(), "exit", "")
	if got := text(b.do(t.Context(), "count", "")); got != "1" {
		t.Errorf("after a crash: %q", got)
	}
	if n := len(left()); n != 1 {
		t.Errorf("%d folders are there after a crash: %v", n, left())
	}
	b.stop(t)
	if n := len(left()); n != 0 {
		t.Errorf("%d folders are left: %v", n, left())
	}
}

// Five plugins end together, not one after the other, within the limits of the
// process (decision R13).
func TestEndMany(t *testing.T) {
	var rows string
	for i := range 5 {
		rows += rowOf(t, "it"+strconv.Itoa(i), "stubborn bare", "")
	}
	b := boot(t, rows)
	for i := range 5 {
		if err := b.ready(t, "it"+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	b.stop(t)
	if d := time.Since(begin); d > kernel.QuiesceLimit+kernel.FlushLimit+kernel.ReleaseLimit {
		t.Errorf("the end took %v", d)
	}
}
