package external

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-plugin/runner"

	"dsh/kernel/process"
	"dsh/kernel/process/group"
	"dsh/sdkproto/plugin"
)

// program is one running executable, in a process group of its own. It is what
// go-plugin calls a runner: that library speaks to the program, while this type
// starts it, reads what it prints and ends it, so that no step is without a
// bound.
type program struct {
	path string
	dir  string
	env  []string
	out  *output
	// marker is in the environment of all that comes from the program.
	marker      string
	confiner    process.Confiner
	confinement *process.Confinement
	reached     process.Reached

	// starting bounds the start: when it ends before unwatch is called, the program
	// is killed.
	starting context.Context
	unwatch  func() bool

	cmd *exec.Cmd
	// alive is the end of the program's standard input that only we hold.
	alive *os.File
	// shake carries the handshake line to go-plugin, which reads shaken to its end.
	shake  *io.PipeWriter
	shaken *io.PipeReader

	mu sync.Mutex
	// wrong says why the start failed, when the program itself is to blame.
	wrong error

	// done is closed when the program and its group have ended and its output was
	// read. exit says then how.
	done chan struct{}
	exit string
}

var _ runner.Runner = (*program)(nil)

// Limits of what a program prints before its handshake (case B69).
const (
	maxNoiseLines = 20
	maxNoiseBytes = 4 << 10
)

// drainLimit is how long output is read that somebody outside of the group
// holds open.
const drainLimit = 100 * time.Millisecond

// Start implements runner.Runner.
func (p *program) Start(context.Context) error {
	if p.starting.Err() != nil {
		return context.Cause(p.starting)
	}
	var pipes [3]struct{ r, w *os.File }
	closeAll := func() {
		for _, one := range pipes {
			if one.r != nil {
				one.r.Close()
				one.w.Close()
			}
		}
	}
	for i := range pipes {
		var err error
		if pipes[i].r, pipes[i].w, err = os.Pipe(); err != nil {
			closeAll()
			return fmt.Errorf("make a pipe: %w", err)
		}
	}
	stdin, stdout, stderr := pipes[0], pipes[1], pipes[2]
	cmd := exec.Command(p.path)
	cmd.Dir, cmd.Env = p.dir, p.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin.r, stdout.w, stderr.w
	cmd.SysProcAttr = group.Apart()
	if err := p.launch(cmd); err != nil {
		closeAll()
		return err
	}
	stdin.r.Close()
	stdout.w.Close()
	stderr.w.Close()
	p.cmd, p.alive = cmd, stdin.w
	p.unwatch = context.AfterFunc(p.starting, func() { group.Signal(cmd.Process.Pid, true) })

	var reading sync.WaitGroup
	reading.Go(func() { p.readStdout(stdout.r) })
	reading.Go(func() { readLines(stderr.r, func(line []byte) bool { p.out.stderr(line); return true }) })
	go func() {
		p.wait()
		read := make(chan struct{})
		go func() { reading.Wait(); close(read) }()
		select {
		case <-read:
		case <-time.After(drainLimit):
		}
		stdout.r.Close()
		stderr.r.Close()
		<-read
		p.alive.Close()
		close(p.done)
	}()
	return nil
}

func (p *program) launch(cmd *exec.Cmd) error {
	var err error
	p.reached, err = process.Start(p.confiner, cmd, p.confinement)
	return err
}

// reap waits for a program and ends the rest of its group. Until the leader is
// waited for, nobody else can get the group's number.
func reap(cmd *exec.Cmd) {
	if group.AwaitEnd(cmd.Process.Pid) {
		group.Signal(cmd.Process.Pid, true)
	}
	_ = cmd.Wait() // says again what the state says
	if !group.Visible && group.Exists(cmd.Process.Pid) {
		group.Signal(cmd.Process.Pid, true)
	}
}

// endMarked ends what carries the marker and has left the group: nothing that a
// plugin starts may outlive it (case B76).
func endMarked(marker string) {
	for range 5 {
		left := group.Marked(markerVariable + "=" + marker)
		for _, pid := range left {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
				_ = p.Release()
			}
		}
		if len(left) == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// wait waits for the program and ends its group, so that nothing it started
// outlives it.
func (p *program) wait() {
	reap(p.cmd)
	endMarked(p.marker)
	p.exit = p.cmd.ProcessState.String()
}

// readStdout looks for the handshake line and hands it to go-plugin; what comes
// later is logged.
func (p *program) readStdout(r io.Reader) {
	noise, size := []string{}, 0
	found := false
	readLines(r, func(line []byte) bool {
		if found {
			p.out.stdout(line)
			return true
		}
		if parts := strings.Split(strings.TrimSpace(string(line)), "|"); len(parts) > 1 {
			if _, err := strconv.Atoi(parts[0]); err == nil {
				if err := checkHandshake(parts); err != nil {
					p.fail(err)
					return false
				}
				found = true
				// An error says that nobody waits for it any more.
				_, _ = p.shake.Write(append(line[:len(line):len(line)], '\n'))
				p.shake.Close()
				return true
			}
		}
		noise = append(noise, clip(p.out.redact(string(line)), 200))
		p.out.stdout(line)
		if size += len(line) + 1; len(noise) > maxNoiseLines || size > maxNoiseBytes {
			p.fail(fmt.Errorf("it prints to standard output before its handshake, such as %q; a plugin must print nothing there, and may log to standard error", noise[0]))
			return false
		}
		return true
	})
	p.shake.Close()
	// Whoever still writes must not be held up.
	_, _ = io.Copy(io.Discard, r)
}

// checkHandshake says what is wrong with the fields of a handshake line.
func checkHandshake(parts []string) error {
	if len(parts) < 5 {
		return fmt.Errorf("its handshake line %q has %d fields instead of 5; see plugin.proto", clip(strings.Join(parts, "|"), 200), len(parts))
	}
	if parts[0] != "1" {
		return fmt.Errorf("it speaks version %s of the handshake and this harness version 1; build it again with the dsh/sdkproto/plugin of this harness", clip(parts[0], 20))
	}
	if version := strconv.Itoa(plugin.ProtocolVersion); parts[1] != version {
		return fmt.Errorf("it speaks version %s of the plugin contract and this harness version %s; install a version of the plugin that speaks %s, or a harness that speaks %s",
			clip(parts[1], 20), version, version, clip(parts[1], 20))
	}
	if parts[4] != "grpc" {
		return fmt.Errorf("it wants to speak %q; only grpc is spoken", clip(parts[4], 20))
	}
	return nil
}

// fail notes why the start failed and ends the program.
func (p *program) fail(err error) {
	p.mu.Lock()
	p.wrong = err
	p.mu.Unlock()
	group.Signal(p.cmd.Process.Pid, true)
}

func (p *program) blame() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wrong
}

// end ends the program and its group: TERM, a wait, KILL. It returns when they
// are gone, or have not gone within a second after KILL.
func (p *program) end(grace time.Duration) error {
	if p.cmd == nil {
		return nil
	}
	select {
	case <-p.done:
		return nil
	default:
	}
	group.Signal(p.cmd.Process.Pid, false)
	select {
	case <-p.done:
		return nil
	case <-time.After(grace):
	}
	group.Signal(p.cmd.Process.Pid, true)
	select {
	case <-p.done:
		return nil
	case <-time.After(killLimit):
		return fmt.Errorf("process %d is still there after KILL", p.cmd.Process.Pid)
	}
}

// kill ends the program and all that came from it, now.
func (p *program) kill() {
	select {
	case <-p.done:
	default:
		group.Signal(p.cmd.Process.Pid, true)
	}
}

// killLimit is how long what was killed may take to go.
const killLimit = time.Second

// Wait implements runner.Runner.
func (p *program) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Kill implements runner.Runner.
func (p *program) Kill(context.Context) error { return p.end(0) }

// Diagnose implements runner.Runner.
func (p *program) Diagnose(context.Context) string { return "" }

// Stdout implements runner.Runner: it is the handshake line and no more.
func (p *program) Stdout() io.ReadCloser { return io.NopCloser(p.shaken) }

// Stderr implements runner.Runner: what the program prints there is read by us.
func (p *program) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name implements runner.Runner.
func (p *program) Name() string { return filepath.Base(p.path) }

// ID implements runner.Runner.
func (p *program) ID() string {
	if p.cmd == nil {
		return ""
	}
	return strconv.Itoa(p.cmd.Process.Pid)
}

// PluginToHost implements runner.Runner.
func (p *program) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin implements runner.Runner.
func (p *program) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
