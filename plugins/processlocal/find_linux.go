package processlocal

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const fionread = unix.TIOCINQ

// maxEnviron bounds how much of a process's environment is searched.
const maxEnviron = 1 << 20

// find gives the living processes that came from programs: members of the
// process group or session that a program began with, and, with a marker, those
// that carry it in their environment wherever they went. One that left both and
// dropped its environment is not found, nor is one whose environment the system
// does not show us because it runs as somebody else.
func find(programs []*program, marker string) []survivor {
	procs, err := processes()
	if err != nil {
		return findByGroup(programs)
	}
	self := os.Getpid()
	var born uint64
	for _, p := range procs {
		if p.pid == self {
			born = p.start
		}
	}
	ours := make(map[int]*program, len(programs))
	for _, p := range programs {
		if p.group > 0 {
			ours[p.group] = p
		}
	}
	// verified are the groups that are still ours: the number of one that was
	// empty for a moment may be somebody else's now.
	verified := make(map[int]bool, len(programs))
	for g, p := range ours {
		verified[g] = p.known.Load() == nil
	}
	var buf []byte
	marked := make([]bool, len(procs))
	for i, p := range procs {
		if p.pid == self || p.start < born {
			continue
		}
		owner := ours[p.group]
		if owner == nil {
			owner = ours[p.session]
		}
		if owner != nil && verified[owner.group] {
			continue
		}
		if owner != nil {
			start, known := (*owner.known.Load())[p.pid]
			verified[owner.group] = known && start == p.start
		}
		if marker != "" && (owner == nil || !verified[owner.group]) {
			marked[i], buf = carries(p.pid, marker, buf)
			if owner != nil && marked[i] {
				verified[owner.group] = true
			}
		}
	}
	var left []survivor
	for i, p := range procs {
		if p.pid != self && (marked[i] || verified[p.group] || verified[p.session]) {
			left = append(left, p)
		}
	}
	return left
}

// processes lists the living processes; dead ones that nobody has waited for do
// not count.
func processes() ([]survivor, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	procs := make([]survivor, 0, len(names))
	var buf [1024]byte
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		n, err := readInto("/proc/"+name+"/stat", buf[:])
		if err != nil {
			continue // it has ended meanwhile
		}
		if p, ok := parseStat(pid, buf[:n]); ok {
			procs = append(procs, p)
		}
	}
	if len(procs) == 0 {
		return nil, errors.New("/proc shows no process")
	}
	return procs, nil
}

// parseStat reads a line of /proc/PID/stat (man 5 proc). The second field is a
// name in parentheses, which may hold anything.
func parseStat(pid int, line []byte) (survivor, bool) {
	const (
		state   = 0
		group   = 2
		session = 3
		start   = 19
	)
	end := bytes.LastIndexByte(line, ')')
	if end < 0 {
		return survivor{}, false
	}
	fields := bytes.Fields(line[end+1:])
	if len(fields) <= start || fields[state][0] == 'Z' || fields[state][0] == 'X' {
		return survivor{}, false
	}
	p := survivor{pid: pid}
	var err [3]error
	p.group, err[0] = strconv.Atoi(string(fields[group]))
	p.session, err[1] = strconv.Atoi(string(fields[session]))
	p.start, err[2] = strconv.ParseUint(string(fields[start]), 10, 64)
	return p, errors.Join(err[:]...) == nil
}

// carries says whether a process was started with the marker in its
// environment. buf is scratch that is handed back.
func carries(pid int, marker string, buf []byte) (bool, []byte) {
	if buf == nil {
		buf = make([]byte, 32<<10)
	}
	for {
		n, err := readInto("/proc/"+strconv.Itoa(pid)+"/environ", buf)
		if err != nil || n < len(buf) || n >= maxEnviron {
			return err == nil && bytes.Contains(buf[:n], []byte(marker)), buf
		}
		buf = make([]byte, 2*len(buf))
	}
}

// readInto reads a file up to the size of buf, without the poller's overhead.
func readInto(path string, buf []byte) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	n := 0
	for n < len(buf) {
		m, err := unix.Read(fd, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if m == 0 {
			break
		}
		n += m
	}
	return n, nil
}
