package processlocal

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"dsh/kernel/process/processtest"
)

const (
	victimVariable = "PROCESSLOCAL_VICTIM"
	guardMark      = "PROCESSLOCAL_GUARD"
)

// TestKilledHarness: after a KILL of the harness nothing is left a few seconds
// later (case B76). The harness is this test in another process.
func TestKilledHarness(t *testing.T) {
	if os.Getenv(victimVariable) != "" {
		victim(t)
		return
	}
	mark := fmt.Sprintf("%s=%d.%d", guardMark, os.Getpid(), time.Now().UnixNano())
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledHarness$")
	cmd.Env = append(os.Environ(), victimVariable+"=1", mark)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if ready = strings.Contains(lines.Text(), "victim is ready"); ready {
			break
		}
	}
	// The harness, its guard, and at least four of its programs.
	if pids, err := processtest.Marked(mark); err != nil || len(pids) < 6 {
		t.Errorf("before: processes %v, error %v", pids, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // says that it was killed
	if !ready {
		t.Error("the other process was never ready")
	}
	wantGoneWithin(t, mark, 30*time.Second)
}

// victim starts programs and waits to be killed.
func victim(t *testing.T) {
	r, _ := start(t)
	runShell(t, r, `(trap "" TERM; sleep 300; sleep 300) & setsid sleep 300 >/dev/null 2>&1 & echo done`)
	ready := &processtest.Buffer{OnWrite: func() { fmt.Println("victim is ready") }}
	if _, err := r.Run(context.Background(), shellCommand(t, "echo here; sleep 300", ready)); err != nil {
		t.Error(err)
	}
}

// TestGuardGoes: closing the row leaves no guard.
func TestGuardGoes(t *testing.T) {
	mark := fmt.Sprintf("%s=%d.%d", guardMark, os.Getpid(), time.Now().UnixNano())
	name, value, _ := strings.Cut(mark, "=")
	t.Setenv(name, value)
	r, o := start(t)
	runShell(t, r, "true")
	if pids, err := processtest.Marked(mark); err != nil || len(pids) != 1 {
		t.Errorf("processes %v, error %v, want the guard", pids, err)
	}
	if err := o.Close(context.Background()); err != nil {
		t.Error(err)
	}
	wantGoneWithin(t, mark, 5*time.Second)
}
