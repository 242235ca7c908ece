//go:build unix

package mcp

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
)

// guardScript reads the process groups of servers as they start and end. When
// its input ends, which happens when the harness is gone however it went, it
// ends those that are left and, where the system shows environments, whatever
// carries the harness's marker (case B76).
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

// guard is a process that outlives the harness for a moment, to end what the
// harness could not because it was killed.
type guard struct {
	cmd  *exec.Cmd
	tell *os.File
}

// guarded starts the guard before the first program.
func (m *Manager) guarded() *guard {
	m.guardOnce.Do(func() {
		var err error
		if m.guard, err = startGuard(m.marker); err != nil {
			m.log.Warn("no guard: if the harness is killed, programs of mcp servers may be left running", "error", err)
		}
	})
	return m.guard
}

func startGuard(marker string) (*guard, error) {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer theirs.Close()
	cmd := exec.Command("sh", "-c", guardScript, marker)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.SysProcAttr = "/", []string{"PATH=" + os.Getenv("PATH")}, theirs, apart()
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, err
	}
	return &guard{cmd, ours}, nil
}

func (g *guard) watch(group int) { g.say("+", group) }

func (g *guard) forget(group int) { g.say("-", group) }

func (g *guard) say(what string, group int) {
	if g != nil {
		// A guard that is gone is no reason to do without the server.
		_, _ = g.tell.WriteString(what + " " + strconv.Itoa(group) + "\n")
	}
}

// dismiss ends the guard while there is nothing to be guarded any more.
func (g *guard) dismiss() {
	if g == nil {
		return
	}
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait() // says that it was killed
	g.tell.Close()
}
