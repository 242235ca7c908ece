package processlocal

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"dsh/kernel/process"
	"dsh/kernel/process/processtest"
	"dsh/kernel/stdio"
)

const descriptorsVariable = "PROCESSLOCAL_DESCRIPTORS"

// TestNoProtocolDescriptor: no program of the harness, nor its guard, holds the
// pair that the wire is on (spec jsonrpc 1.5), or a descriptor that whoever
// started the harness let slip. The harness is this test in another process.
func TestNoProtocolDescriptor(t *testing.T) {
	if os.Getenv(descriptorsVariable) != "" {
		holder(t)
		return
	}
	var pipes [3]struct{ theirs, ours *os.File }
	secret := map[string]string{}
	for i, name := range []string{"the wire's input", "the wire's output", "what slipped"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		pipes[i].theirs, pipes[i].ours = w, r
		if i == 0 {
			pipes[i].theirs, pipes[i].ours = r, w
		}
		// Both ends have the name of the pipe.
		target, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(r.Fd())))
		if err != nil {
			t.Fatal(err)
		}
		secret[target] = name
	}
	mark := fmt.Sprintf("%s=%d.%d", descriptorsVariable, os.Getpid(), time.Now().UnixNano())
	cmd := exec.Command(os.Args[0], "-test.run=^TestNoProtocolDescriptor$")
	cmd.Env = append(os.Environ(), mark)
	cmd.Stdin, cmd.Stdout, cmd.ExtraFiles = pipes[0].theirs, pipes[1].theirs, []*os.File{pipes[2].theirs}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, p := range pipes {
		p.theirs.Close()
	}
	if line, err := bufio.NewReader(pipes[1].ours).ReadString('\n'); line != "ready\n" {
		t.Errorf("the harness said %q, %v", line, err)
	}
	pids, err := processtest.Marked(mark)
	if err != nil {
		t.Fatal(err)
	}
	// The harness, its guard and a program of each kind.
	if len(pids) != 4 {
		t.Errorf("processes %v, want 4", pids)
	}
	for _, pid := range pids {
		held := map[string]bool{}
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil || len(links) < 3 {
			t.Errorf("process %d has the descriptors %v, %v", pid, links, err)
		}
		for _, link := range links {
			if target, err := os.Readlink(link); err == nil && secret[target] != "" {
				held[secret[target]] = true
			}
		}
		if pid == cmd.Process.Pid && len(held) != len(pipes) {
			t.Errorf("the harness holds only %v", held)
		} else if pid != cmd.Process.Pid && len(held) > 0 {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			t.Errorf("%q holds %v", line, held)
		}
	}
	pipes[0].ours.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	wantGoneWithin(t, mark, 30*time.Second)
}

// holder is a harness with a program of each kind, until its input ends.
func holder(t *testing.T) {
	pair, err := stdio.Take()
	if err != nil {
		t.Fatal(err)
	}
	r, _ := start(t, func(p *Params) { p.Confiner = sandbox() })
	for _, c := range []*process.Confinement{nil, {Mode: process.ReadOnly, NoNetwork: true, Strict: true}} {
		command := shellCommand(t, "exec sleep 300 >/dev/null 2>&1 &", &processtest.Buffer{})
		command.Confinement = c
		if exit, err := r.Run(t.Context(), command); err != nil || exit.Left != 1 {
			t.Errorf("exit is %+v, %v; want one program left", exit, err)
		}
	}
	if _, err := io.WriteString(pair.Out, "ready\n"); err != nil {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, pair.In); err != nil {
		t.Error(err)
	}
}
