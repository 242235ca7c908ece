package toollsp

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"dsh/kernel/process"
	"dsh/kernel/process/group"
)

// markerVariable marks what comes from language servers of ours, so that what left
// its process group can still be found. The value is the markers of the harnesses
// around this one and of this one, joined by colons.
const markerVariable = "DSH_LSP_PROCESS"

const (
	// partingLimit is how long the output of a program that has ended is read when
	// somebody it started still holds it.
	partingLimit = 250 * time.Millisecond
	// sweepLimit bounds ending what a program leaves behind.
	sweepLimit = 2 * time.Second
)

// grace is how long a server may take to end by itself, and how long after TERM it
// gets KILL.
type grace struct{ quit, kill time.Duration }

func calm() grace { return grace{2 * time.Second, 2 * time.Second} }

// brisk is for the end of the harness (decision R13).
func brisk() grace { return grace{100 * time.Millisecond, 150 * time.Millisecond} }

// program is the program of a language server with whatever it starts.
type program struct {
	cmd    *exec.Cmd
	group  int
	marker string
	stdin  *os.File
	stdout *os.File
	said   *sayings
	guard  *group.Guard

	// exited is closed when the program itself has ended, heard when its standard
	// error has, gone when nothing of it is left and its descriptors are closed.
	exited, heard, gone chan struct{}
	// killed is closed when it is to end at once.
	killed chan struct{}
	once   sync.Once
}

// startProgram starts the program of a server in the folder root.
func (l *LSP) startProgram(how *launch, root, marker string, c *process.Confinement, said *sayings) (p *program, err error) {
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
	mark := marker
	if outer := os.Getenv(markerVariable); outer != "" {
		mark = outer + ":" + marker
	}
	cmd := exec.Command(how.path, how.args...)
	cmd.Dir = root
	cmd.Env = childEnv(os.Environ(), l.self.CredentialEnv.Names())
	for name, value := range how.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, "PWD="+root, markerVariable+"="+mark)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, theirErr
	cmd.SysProcAttr = group.Apart()
	reached, err := process.Start(l.confiner, cmd, c)
	if err != nil {
		return nil, err
	}
	if c != nil && reached.Missing != "" {
		l.log.Warn("a language server is less confined than asked", "program", how.program, "mode", c.Mode, "missing", reached.Missing)
	}
	theirIn.Close()
	theirOut.Close()
	theirErr.Close()
	p = &program{
		cmd: cmd, group: cmd.Process.Pid, marker: marker, stdin: in, stdout: out, said: said, guard: l.guarded(),
		exited: make(chan struct{}), heard: make(chan struct{}), gone: make(chan struct{}), killed: make(chan struct{}),
	}
	p.guard.Watch(p.group)
	go func() {
		defer close(p.heard)
		said.read(errs)
	}()
	go p.watch(errs)
	return p, nil
}

// watch waits for the end of the program and tidies up after it.
func (p *program) watch(errs *os.File) {
	defer close(p.gone)
	if group.AwaitEnd(p.group) {
		// As long as nobody has waited for the program its group's number is not given to
		// anybody else.
		group.Signal(p.group, false)
	}
	_ = p.cmd.Wait() // the state says it again
	close(p.exited)
	parting := time.NewTimer(partingLimit)
	select {
	case <-p.heard:
	case <-parting.C:
	case <-p.killed:
	}
	parting.Stop()
	p.sweep()
	p.guard.Forget(p.group)
	// Readers that somebody else's hold on the pipe would keep end here.
	errs.Close()
	<-p.heard
	p.stdin.Close()
	p.stdout.Close()
}

// sweep ends what the program has started and left.
func (p *program) sweep() {
	begin := time.Now()
	for pause := 2 * time.Millisecond; time.Since(begin) < sweepLimit; pause = min(2*pause, 50*time.Millisecond) {
		left := p.left()
		if len(left) == 0 {
			return
		}
		kill := time.Since(begin) > brisk().kill
		select {
		case <-p.killed:
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
// carries its marker, or the program's own group where markers cannot be seen.
func (p *program) left() []int {
	if !group.Visible {
		if group.Exists(p.group) {
			return []int{p.group}
		}
		return nil
	}
	var groups []int
	for _, pid := range group.Marked(p.marker) {
		if id, err := group.Of(pid); err == nil && !slices.Contains(groups, id) {
			groups = append(groups, id)
		}
	}
	return groups
}

// end waits for the program to end by itself, then ends it, and returns when
// nothing of it is left.
func (p *program) end(g grace) {
	quit := time.NewTimer(g.quit)
	defer quit.Stop()
	select {
	case <-p.exited:
	case <-p.killed:
	case <-quit.C:
		group.Signal(p.group, false)
		kill := time.NewTimer(g.kill)
		defer kill.Stop()
		select {
		case <-p.exited:
		case <-p.killed:
		case <-kill.C:
			p.kill()
		}
	}
	<-p.gone
}

// kill ends the program at once. It does not wait.
func (p *program) kill() {
	p.once.Do(func() {
		close(p.killed)
		group.Signal(p.group, true)
	})
}

// why says how the program ended, with the last of what it said.
func (p *program) why() string {
	late := time.NewTimer(partingLimit)
	defer late.Stop()
	select {
	case <-p.exited:
	case <-late.C:
		return "it has closed its output" + p.said.last()
	}
	select {
	case <-p.heard:
	case <-late.C:
	}
	return "it has ended with " + p.cmd.ProcessState.String() + p.said.last()
}

// childEnv is the harness's environment without its credentials (decision D28).
func childEnv(parent, credentials []string) []string {
	env := make([]string, 0, len(parent)+8)
	for _, v := range parent {
		name, _, _ := strings.Cut(v, "=")
		is := func(other string) bool {
			return name == other || runtime.GOOS == "windows" && strings.EqualFold(name, other)
		}
		if slices.ContainsFunc(credentials, is) || is(markerVariable) || is("PWD") || is("OLDPWD") {
			continue
		}
		env = append(env, v)
	}
	return env
}

const (
	maxLine   = 2 << 10
	maxTail   = 1 << 10
	logBurst  = 40
	logPerSec = 5
)

// sayings logs what a server says beside its answers, as much of it as is good, and
// remembers the end of its standard error. It may be used from any goroutine.
type sayings struct {
	log *slog.Logger
	// secrets are values of the config that are kept out.
	secrets []string

	mu    sync.Mutex
	tail  string
	spare float64
	at    time.Time
}

func newSayings(log *slog.Logger, env map[string]string) *sayings {
	s := &sayings{log: log, spare: logBurst, at: time.Now()}
	for _, value := range env {
		// Short ones are switches, and would be found everywhere.
		if len(value) >= 6 {
			s.secrets = append(s.secrets, value)
		}
	}
	return s
}

func (s *sayings) clean(text []byte) string {
	t := strings.ToValidUTF8(string(text[:min(len(text), maxLine)]), "\ufffd")
	for _, secret := range s.secrets {
		t = strings.ReplaceAll(t, secret, "***")
	}
	return t
}

// say logs a text.
func (s *sayings) say(what string, text []byte) {
	s.mu.Lock()
	now := time.Now()
	s.spare = min(logBurst, s.spare+now.Sub(s.at).Seconds()*logPerSec)
	s.at = now
	if s.spare < 1 {
		s.mu.Unlock()
		return
	}
	s.spare--
	s.mu.Unlock()
	s.log.Debug(what, "text", s.clean(text))
}

// read reads a server's standard error to its end, in lines of bounded length.
func (s *sayings) read(errs *os.File) {
	lines := bufio.NewReaderSize(errs, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			s.say("a language server says", line)
			text := s.clean(line)
			s.mu.Lock()
			s.tail += text
			s.tail = s.tail[max(0, len(s.tail)-maxTail):]
			s.mu.Unlock()
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// last is what the server said last, in words that go behind others.
func (s *sayings) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := strings.TrimSpace(strings.ToValidUTF8(s.tail, "")); text != "" {
		return "; it last said: " + strconv.Quote(text)
	}
	return ""
}
