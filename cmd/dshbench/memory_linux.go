package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// ticks is the unit of processor time in /proc/PID/stat: USER_HZ, which is 100
// on every Linux that Go runs on.
const ticks = 100

// memory reads a field of /proc/PID/status in MiB: "VmRSS" or "VmHWM".
func (p *process) memory(field string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte(field+":")); ok {
			words := bytes.Fields(rest)
			kib, err := strconv.ParseFloat(string(words[0]), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("no %s in /proc/%d/status", field, p.cmd.Process.Pid)
}

// running gives the processor time of a process that runs.
func (p *process) running() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The command's name is in parentheses and may hold spaces.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	user, err := strconv.ParseInt(string(fields[11]), 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * time.Second / ticks, err
}
