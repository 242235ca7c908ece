package processlocal

import (
	"fmt"
	"os"
	"os/exec"
)

// guardScript waits until its input ends, which happens when the harness is
// gone however it went, and then ends what carries the marker.
const guardScript = `read -r _
for signal in TERM KILL; do
	for file in /proc/[0-9]*/environ; do
		if grep -qF "$0" "$file"; then
			pid=${file#/proc/}
			kill -"$signal" "${pid%/environ}"
		fi
	done 2>/dev/null
	sleep 1
done`

// guard is a process that outlives the harness for a moment, to end what the
// harness could not because it was killed (case B76).
type guard struct {
	cmd *exec.Cmd
	// alive is the end of the guard's input that only this process holds.
	alive *os.File
}

// startGuard starts the guard of what carries the marker. Its descriptors are
// the null device, so that nobody who waits for the end of ours waits for it.
func startGuard(marker string, env []string) (*guard, error) {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer theirs.Close()
	cmd := exec.Command("sh", "-c", guardScript, marker)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.SysProcAttr = "/", env, theirs, apart()
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, err
	}
	return &guard{cmd, ours}, nil
}

// dismiss ends the guard while there is nothing to be guarded any more.
func (g *guard) dismiss() {
	if g == nil {
		return
	}
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait() // says that it was killed
	g.alive.Close()
}
