package processtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Marked gives the ids of the living processes that were started with the
// text NAME=VALUE in their environment.
func Marked(variable string) ([]int, error) {
	if _, err := os.Stat("/proc/self/environ"); err == nil {
		return markedByProc(variable)
	}
	list, err := exec.Command("ps", "-A", "-E", "-ww", "-o", "pid=,state=,command=").Output()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || strings.HasPrefix(fields[1], "Z") || !strings.Contains(line, variable) {
			continue
		}
		pid, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// markedByProc leaves out dead processes, whose environment is empty.
func markedByProc(variable string) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(environ, []byte(variable)) {
			continue // it ended meanwhile, or is not ours
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
