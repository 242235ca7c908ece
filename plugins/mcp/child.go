package mcp

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"dsh/kernel/process"
	"dsh/kernel/process/group"
)

// markerVariable marks what comes from servers of ours, so that what left its
// process group can still be found. The value is the markers of the harnesses
// around this one and of this one, joined by colons.
const markerVariable = "DSH_MCP_PROCESS"

const (
	// partingLimit is how long the output of a program that has ended is read
	// when somebody it started still holds it.
	partingLimit = 250 * time.Millisecond
	// sweepLimit bounds ending what a program leaves behind.
	sweepLimit = 2 * time.Second
)

// grace is how long after the end of its input a program is asked to end, and
// how long after that it is ended.
type grace struct{ term, kill time.Duration }

var (
	// calm is for a connection that ends while the harness goes on.
	calm = grace{500 * time.Millisecond, 2 * time.Second}
	// brisk is for the end of the harness (decision R13).
	brisk = grace{100 * time.Millisecond, 250 * time.Millisecond}
)

// child is the program of a stdio server with whatever it starts.
type child struct {
	cmd    *exec.Cmd
	group  int
	marker string
	stdin  *os.File
	stdout *os.File
	errors *tail
	guard  *group.Guard

	// exited is closed when the program itself has ended, heard when its standard
	// error has, gone when nothing of it is left and its descriptors are closed.
	exited, heard, gone chan struct{}
	ending              sync.Once
	// hurry is closed to end it at once.
	hurry   chan struct{}
	hurried sync.Once
}

// start starts the program of a server. said gets the lines of its standard
// error.
func (s *server) start(t *target, marker string, said *talk) (c *child, err error) {
	var files [6]*os.File
	defer func() {
		if err != nil {
			for _, f := range files {
				if f != nil {
					f.Close()
				}
			}
		}
	}()
	for i := 0; i < len(files); i += 2 {
		if files[i], files[i+1], err = os.Pipe(); err != nil {
			return nil, fmt.Errorf("make a pipe: %w", err)
		}
	}
	theirIn, in, out, theirOut, errs, theirErr := files[0], files[1], files[2], files[3], files[4], files[5]
	cmd := exec.Command(s.Command, t.args...)
	cmd.Dir = t.dir
	mark := marker
	if outer := os.Getenv(markerVariable); outer != "" {
		mark = outer + ":" + marker
	}
	cmd.Env = append(slices.Clip(t.env), "PWD="+t.dir, markerVariable+"="+mark)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, theirErr
	cmd.SysProcAttr = group.Apart()
	if err := s.launch(cmd, t.dir); err != nil {
		if info, dirErr := os.Stat(t.dir); dirErr != nil {
			return nil, fmt.Errorf("working directory: %w", dirErr)
		} else if !info.IsDir() {
			return nil, fmt.Errorf("working directory: %s is not a directory", t.dir)
		}
		return nil, err
	}
	theirIn.Close()
	theirOut.Close()
	theirErr.Close()
	c = &child{
		cmd: cmd, group: cmd.Process.Pid, marker: marker, stdin: in, stdout: out, errors: &tail{}, guard: s.m.guarded(),
		exited: make(chan struct{}), heard: make(chan struct{}), gone: make(chan struct{}), hurry: make(chan struct{}),
	}
	c.guard.Watch(c.group)
	said.redact = t.redact
	go func() {
		defer close(c.heard)
		lines(errs, 64<<10, func(line []byte) bool {
			c.errors.add([]byte(t.redact(clip(string(line), maxLogLine))))
			said.say(slog.LevelInfo, "mcp server says", string(line))
			return true
		}, func(head, _ []byte) bool {
			said.say(slog.LevelInfo, "mcp server says", string(head)+"…")
			return true
		})
	}()
	go c.watch(errs)
	return c, nil
}

// launch starts a prepared command under the server's confinement.
func (s *server) launch(cmd *exec.Cmd, dir string) error {
	confinement, err := s.confinement(dir)
	if err != nil {
		return err
	}
	reached, err := process.Start(s.m.confiner, cmd, confinement)
	if err == nil && confinement != nil && reached.Missing != "" {
		s.log.Warn("the program of an mcp server is less confined than asked", "mode", confinement.Mode, "missing", reached.Missing)
	}
	return err
}

func (s *server) confinement(dir string) (*process.Confinement, error) {
	var policy *process.Confinement
	if s.m.policy != nil {
		policy = s.m.policy.Confinement(dir)
	}
	switch {
	case s.Confine == "":
		return policy, nil
	case s.Confine == process.FullAccess:
		return nil, nil
	case s.m.confiner == nil:
		return nil, fmt.Errorf("it is to be confined (%s) and no row of the profile can confine programs; add one, or remove confine", s.Confine)
	}
	var c process.Confinement
	if policy != nil {
		c = *policy
	}
	switch {
	case s.Confine == process.ReadOnly:
		c.Write = nil
	case c.Mode != process.WorkspaceWrite:
		c.Write = []string{dir, filepath.Clean(os.TempDir())}
	}
	c.Mode = s.Confine
	return &c, nil
}

// watch waits for the end of the program and tidies up after it.
func (c *child) watch(errs *os.File) {
	defer close(c.gone)
	if group.AwaitEnd(c.group) {
		// As long as nobody has waited for the program its group's number is not given
		// to anybody else.
		group.Signal(c.group, false)
	}
	_ = c.cmd.Wait() // says again what the state says
	close(c.exited)
	parting := time.NewTimer(partingLimit)
	select {
	case <-c.heard:
	case <-parting.C:
	case <-c.hurry:
	}
	parting.Stop()
	c.sweep()
	c.guard.Forget(c.group)
	// Readers that somebody else's hold on the pipe would keep end here.
	errs.Close()
	<-c.heard
	c.stdin.Close()
	c.stdout.Close()
}

// sweep ends what the program has started and left.
func (c *child) sweep() {
	begin := time.Now()
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		left := c.left()
		if len(left) == 0 || time.Since(begin) > sweepLimit {
			return
		}
		kill := time.Since(begin) > brisk.kill
		select {
		case <-c.hurry:
			kill = true
		default:
		}
		for _, id := range left {
			group.Signal(id, kill)
		}
		time.Sleep(pause)
	}
}

// end ends the program, at first by the end of its input. It does not wait.
func (c *child) end(g grace) {
	c.ending.Do(func() {
		c.stdin.Close()
		go func() {
			steps := []struct {
				after time.Duration
				kill  bool
			}{{g.term, false}, {g.kill, true}}
			for _, step := range steps {
				timer := time.NewTimer(step.after)
				select {
				case <-c.exited:
					timer.Stop()
					return
				case <-c.hurry:
					timer.Stop()
				case <-timer.C:
				}
				group.Signal(c.group, step.kill)
			}
			<-c.exited
		}()
	})
}

// kill ends the program without any patience.
func (c *child) kill() {
	c.hurried.Do(func() { close(c.hurry) })
	c.end(brisk)
}

// childError says what became of a program.
type childError struct{ text string }

func (e *childError) Error() string { return e.text }

// why says how the program ended, with the last of what it said.
func (c *child) why() error {
	late := time.NewTimer(partingLimit)
	defer late.Stop()
	select {
	case <-c.exited:
	case <-late.C:
		return &childError{"the program has closed its output" + c.saying()}
	}
	select {
	case <-c.heard:
	case <-late.C:
	}
	return &childError{"the program has ended: " + c.cmd.ProcessState.String() + c.saying()}
}

// saying is what the program said last, in words that go behind others.
func (c *child) saying() string {
	if text := c.errors.String(); text != "" {
		return "; it last said: " + strconv.Quote(text)
	}
	return ""
}

// left gives the process groups of what came from the program and lives: all
// that carries its marker, wherever it went, or the program's own group where
// markers cannot be seen.
func (c *child) left() []int {
	if !group.Visible {
		if group.Exists(c.group) {
			return []int{c.group}
		}
		return nil
	}
	var groups []int
	for _, pid := range group.Marked(c.marker) {
		if id, err := group.Of(pid); err == nil && !slices.Contains(groups, id) {
			groups = append(groups, id)
		}
	}
	return groups
}
