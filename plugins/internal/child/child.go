// Package child runs a program that is spoken to through its standard input and
// output for as long as a connection lasts: a server of MCP or of a language. It
// ends it with whatever it has started, and nothing outlives a killed harness.
//
// Programs of tools are another matter: they run to their end, see kernel/process.
package child

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"dsh/kernel/process"
	"dsh/kernel/process/group"
)

const (
	// partingLimit is how long the output of a program that has ended is read when
	// somebody it started still holds it.
	partingLimit = 250 * time.Millisecond
	// sweepLimit bounds ending what a program leaves behind, and sweepPatience is how
	// long that is asked to end before it is made to.
	sweepLimit    = 2 * time.Second
	sweepPatience = 250 * time.Millisecond
)

// Program is what to start.
type Program struct {
	// Path is absolute or found in PATH; Args leave it out. Dir is the absolute
	// working directory.
	Path string
	Args []string
	Dir  string
	// Env is the whole environment but for PWD and Variable.
	Env []string
	// Variable is the name of the variable that marks what comes from the program,
	// so that what left its process group can still be found; Marker is its value. In
	// a harness inside a harness the outer one's marker stands before it.
	Variable, Marker string
	// Confiner holds Confinement; both may be nil.
	Confiner    process.Confiner
	Confinement *process.Confinement
	// Guard ends the program when the harness is killed; nil for none.
	Guard *group.Guard
	// Heard reads the program's standard error until it ends.
	Heard func(errors *os.File)
}

// Child is a program that runs, with whatever it starts. Its methods may be called
// from any goroutine.
type Child struct {
	// Stdin and Stdout are the ends to write to and to read from. They are closed
	// when nothing of the program is left.
	Stdin, Stdout *os.File

	cmd    *exec.Cmd
	group  int
	marker string
	guard  *group.Guard
	// exited is closed when the program itself has ended, heard when its standard
	// error has, gone when nothing of it is left, hurry when it is to end at once.
	exited, heard, gone, hurry chan struct{}
	ending, hurried            sync.Once
}

// Grace is how long a program may take to end by itself, and how long after TERM
// it gets KILL.
type Grace struct{ Quit, Kill time.Duration }

// Start starts a program. An error means that nothing was started.
func Start(p Program) (c *Child, reached process.Reached, err error) {
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
			return nil, reached, fmt.Errorf("make a pipe: %w", err)
		}
	}
	theirIn, in, out, theirOut, errs, theirErr := files[0], files[1], files[2], files[3], files[4], files[5]
	mark := p.Marker
	if outer := os.Getenv(p.Variable); outer != "" {
		mark = outer + ":" + mark
	}
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Dir = p.Dir
	cmd.Env = slices.Concat(p.Env, []string{"PWD=" + p.Dir, p.Variable + "=" + mark})
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, theirErr
	cmd.SysProcAttr = group.Apart()
	if reached, err = process.Start(p.Confiner, cmd, p.Confinement); err != nil {
		// The system names the program, even when it is the directory that is missing.
		if info, dirErr := os.Stat(p.Dir); dirErr != nil {
			return nil, reached, fmt.Errorf("working directory: %w", dirErr)
		} else if !info.IsDir() {
			return nil, reached, fmt.Errorf("working directory: %s is not a directory", p.Dir)
		}
		return nil, reached, err
	}
	theirIn.Close()
	theirOut.Close()
	theirErr.Close()
	c = &Child{
		Stdin: in, Stdout: out, cmd: cmd, group: cmd.Process.Pid, marker: p.Marker, guard: p.Guard,
		exited: make(chan struct{}), heard: make(chan struct{}), gone: make(chan struct{}), hurry: make(chan struct{}),
	}
	c.guard.Watch(c.group)
	go func() {
		defer close(c.heard)
		p.Heard(errs)
	}()
	go c.watch(errs)
	return c, reached, nil
}

// Gone is closed when nothing of the program is left.
func (c *Child) Gone() <-chan struct{} { return c.gone }

// watch waits for the end of the program and tidies up after it.
func (c *Child) watch(errs *os.File) {
	defer close(c.gone)
	if group.AwaitEnd(c.group) {
		// As long as nobody has waited for the program its group's number is not given
		// to anybody else.
		group.Signal(c.group, false)
	}
	_ = c.cmd.Wait() // the state says it again
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
	c.Stdin.Close()
	c.Stdout.Close()
}

// sweep ends what the program has started and left.
func (c *Child) sweep() {
	begin := time.Now()
	for pause := 2 * time.Millisecond; time.Since(begin) < sweepLimit; pause = min(2*pause, 50*time.Millisecond) {
		left := c.left()
		if len(left) == 0 {
			return
		}
		kill := time.Since(begin) > sweepPatience
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

// left gives the process groups of what came from the program and lives: all that
// carries its marker, wherever it went, or the program's own group where markers
// cannot be seen.
func (c *Child) left() []int {
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

// End waits for the program to end by itself, and else ends it. It does not wait
// for that: Gone tells. Only the first call counts.
func (c *Child) End(g Grace) {
	c.ending.Do(func() {
		go func() {
			for _, step := range []struct {
				after time.Duration
				kill  bool
			}{{g.Quit, false}, {g.Kill, true}} {
				timer := time.NewTimer(step.after)
				select {
				case <-c.exited:
				case <-c.hurry:
				case <-timer.C:
					if step.kill {
						c.Kill()
					} else {
						group.Signal(c.group, false)
					}
				}
				timer.Stop()
			}
			<-c.exited
		}()
	})
}

// Kill ends the program at once. It does not wait.
func (c *Child) Kill() {
	c.hurried.Do(func() {
		close(c.hurry)
		group.Signal(c.group, true)
	})
}

// Why says how the program ended, in words that go behind a name. It waits a
// moment for the end, and for the last of what the program has said.
func (c *Child) Why() string {
	late := time.NewTimer(partingLimit)
	defer late.Stop()
	select {
	case <-c.exited:
	case <-late.C:
		return "has closed its output"
	}
	select {
	case <-c.heard:
	case <-late.C:
	}
	return "has ended: " + c.cmd.ProcessState.String()
}
