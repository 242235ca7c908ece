package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// memory gives a line of /proc/PID/status, in bytes: VmRSS is what a process
// holds, VmHWM the most it ever held.
func memory(t *testing.T, pid int, line string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(status), line+":")
	fields := strings.Fields(rest)
	if !ok || len(fields) == 0 {
		t.Fatalf("no %s in %s", line, status)
	}
	kb, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

// busy is how long a process has been working so far.
func busy(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// Behind the name, which may hold anything, fields 12 and 13 count ticks of
	// 10 ms.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// TestB75Stalled lets a client stop reading while 50 MB are due: the process holds
// little, does nothing, goes on with what needs no output, and everything comes
// once the client reads again (case B75 d).
func TestB75Stalled(t *testing.T) {
	t.Parallel()
	u := startUnreadAt(t, goneModel())
	pid := u.cmd.Process.Pid
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(u.send(promptFrame("work", "work", "work")))
	awaitFile(t, filepath.Join(u.ws, "ready"))
	must(u.send(promptFrame("flood", "flood", "flood")))
	awaitRest(t, u.stored("flood"))

	// On a loaded machine it may take a while to come to rest; what spins never does.
	share := 1.0
	for windows := 0; share > 0.05 && windows < 5; windows++ {
		before, began := busy(t, pid), time.Now()
		time.Sleep(stall)
		share = float64(busy(t, pid)-before) / float64(time.Since(began))
	}
	if share > 0.05 {
		t.Errorf("it works %.0f%% of the time it waits", share*100)
	}
	if peak := memory(t, pid, "VmHWM"); peak > 150<<20 {
		t.Errorf("it came to hold %d MiB for a client that does not read", peak>>20)
	}
	must(os.WriteFile(filepath.Join(u.ws, "go"), nil, 0o600))
	awaitFile(t, filepath.Join(u.ws, "went"))
	must(u.send(promptFrame("late", "late", "hello"))) // it is accepted: on the disk
	awaitFile(t, u.stored("late"))

	go u.read(u.out)
	ended := map[string]bool{}
	for deadline := time.Now().Add(10 * patience); len(ended) < 3; {
		if time.Now().After(deadline) {
			t.Fatalf("only %v came to rest", ended)
		}
		time.Sleep(50 * time.Millisecond)
		for _, e := range u.lines() {
			if member(e.value, "params", "status") == "idle" {
				ended[text(member(e.value, "params", "sessionId"))] = true
			}
		}
	}
	must(u.send([]byte(shutdownFrame)))
	must(u.wantExit(0))
	total := 0
	for _, e := range u.lines() {
		total += len(e.line)
	}
	if total < 50<<20 {
		t.Errorf("only %d MiB were due", total>>20)
	}
	for _, session := range []string{"work", "flood", "late"} {
		events, err := readStored(u.stored(session))
		must(err)
		must(checkStored(events))
		must(checkStreamed(session, events, u.lines(), true))
	}
	wantGone(t, u.mark)
}

// TestB62Memory looks at the process while a program that outlived its call writes
// without end (case B62).
func TestB62Memory(t *testing.T) {
	t.Parallel()
	d := startDoing(t)
	if got := d.bash("s", "yes & sleep 0.2; echo done"); !strings.Contains(got.text, "done\n") {
		t.Fatalf("%+v", got)
	}
	before := memory(t, d.peer.cmd.Process.Pid, "VmRSS")
	time.Sleep(stall)
	if after := memory(t, d.peer.cmd.Process.Pid, "VmRSS"); after > before+32<<20 {
		t.Errorf("it holds %d MiB, %d before", after>>20, before>>20)
	}
	d.end()
}

// TestB67 lets four sessions at once run what writes far too much, and search and
// read what is far too large: the process holds little, the model gets a bounded
// text that says where the rest is, no frame is longer than 1 MiB (cases B67,
// B01).
func TestB67(t *testing.T) {
	d := startDoing(t)
	d.must(os.Mkdir(filepath.Join(d.ws, "many"), 0o700))
	hits := strings.Repeat("a line with a needle in it\n", largeOutput/185/27)
	for i := range 10 {
		d.must(os.WriteFile(filepath.Join(d.ws, "many", fmt.Sprint(i)), []byte(hits), 0o600))
	}
	d.bash("make", fmt.Sprintf("yes 'one of the lines of a very large file' | head -c %d > huge.txt", 2*largeOutput))
	idle := memory(t, d.peer.cmd.Process.Pid, "VmRSS")
	for name, tc := range map[string]struct {
		tool string
		args map[string]any
		want string
	}{
		"output":      {"bash", map[string]any{"command": fmt.Sprintf("yes | head -c %d", largeOutput)}, "spill"},
		"errors":      {"bash", map[string]any{"command": fmt.Sprintf("yes | head -c %d >&2", largeOutput)}, "spill"},
		"short lines": {"bash", map[string]any{"command": fmt.Sprintf("seq %d", largeOutput/100)}, fmt.Sprint(largeOutput / 100)},
		"one line":    {"bash", map[string]any{"command": fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x`, largeOutput*2/5)}, "spill"},
		"search":      {"grep", map[string]any{"pattern": "needle"}, "needle"},
		"read":        {"read", map[string]any{"file_path": "huge.txt"}, "one of the lines"},
	} {
		for i := range 4 {
			d.ask(strings.ReplaceAll(fmt.Sprint(name, i), " ", "-"), tc.tool, tc.args)
		}
		for i := range 4 {
			got := d.result(strings.ReplaceAll(fmt.Sprint(name, i), " ", "-"))
			if got.failed || !strings.Contains(got.text, tc.want) || len(got.text) > 256<<10 || got.line > 1<<20 {
				t.Errorf("%s: failed %v, a text of %d bytes in a frame of %d: %.300q", name, got.failed, len(got.text), got.line, got.text)
			}
		}
	}
	if peak := memory(t, d.peer.cmd.Process.Pid, "VmHWM"); peak > idle+200<<20 {
		t.Errorf("it came to hold %d MiB, %d before", peak>>20, idle>>20)
	} else {
		t.Logf("%d MiB at most, %d before", peak>>20, idle>>20)
	}
	d.end()
}
