//go:build unix

package group

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
)

// guardScript reads process groups as they begin and end. When its input ends,
// which happens when the harness is gone however it went, it ends those that are
// left and, where the system shows environments, whatever carries the marker.
const guardScript = `groups=' '
while read -r what group; do
	case $what in
	+) groups="$groups$group " ;;
	-) groups="${groups%% $group *} ${groups#* $group }" ;;
	esac
done
for signal in TERM KILL; do
	for group in $groups; do kill -"$signal" -- "-$group"; done
	for file in /proc/[0-9]*/environ; do
		if grep -qF "$0" "$file"; then
			pid=${file#/proc/}
			kill -"$signal" "${pid%/environ}"
		fi
	done
	sleep 1
done 2>/dev/null`

// Guard is a process that outlives the harness for a moment, to end what the
// harness could not because it was killed (case B76). The methods of a nil Guard
// do nothing.
type Guard struct {
	cmd *exec.Cmd
	// tell is the end of the guard's input that only this process holds.
	tell *os.File
}

// StartGuard starts the guard of what carries the marker, with env, which must hold
// PATH, as its whole environment. Its output is the null
// device, so that nobody who waits for the end of ours waits for it.
func StartGuard(marker string, env []string) (*Guard, error) {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer theirs.Close()
	cmd := exec.Command("sh", "-c", guardScript, marker)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.SysProcAttr = "/", env, theirs, Apart()
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, err
	}
	return &Guard{cmd, ours}, nil
}

// Watch adds a process group to those that the guard ends.
func (g *Guard) Watch(group int) { g.say("+", group) }

// Forget takes a group out that has ended.
func (g *Guard) Forget(group int) { g.say("-", group) }

func (g *Guard) say(what string, group int) {
	if g != nil {
		// A guard that is gone is no reason to do without the program.
		_, _ = g.tell.WriteString(what + " " + strconv.Itoa(group) + "\n")
	}
}

// Dismiss ends the guard while there is nothing to be guarded any more.
func (g *Guard) Dismiss() {
	if g == nil {
		return
	}
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait() // says that it was killed
	g.tell.Close()
}
