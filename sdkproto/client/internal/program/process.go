// Package program runs the server's process for the clients of both wires: its
// pipes, the end of its stderr for errors, and its end.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

const (
	// drainTime is how long the pipes of an ended process are read on. What the
	// process itself wrote is there at once; only a descendant that inherited
	// the pipe keeps it open (spec jsonrpc 0.3, row 7).
	drainTime = time.Second
	// exitTime is how long a server that closed its output may take to end
	// before the two are reported as different things. It is longer than
	// drainTime, which delays the news of an exit.
	exitTime = 2 * time.Second
)

// Options say what to run.
type Options struct {
	// Command is looked up as a shell does.
	Command string
	Args    []string
	// Dir is the working directory, "" for that of the caller.
	Dir string
	// Env is the whole environment, nil for that of the caller.
	Env []string
	// Stderr gets a copy of what the process writes there, unless nil.
	Stderr io.Writer
}

// Limits bound the end of a process: Exit before it is asked to end, Terminate
// before it is killed, Kill before it is given up.
type Limits struct{ Exit, Terminate, Kill time.Duration }

// Process is a server that Start started.
//
// It stays in the process group of its parent: a signal from the terminal has
// to reach the server as it reaches any other command.
type Process struct {
	cmd *exec.Cmd
	// Out is our end of its stdout. Who reads it calls OutRead afterwards.
	Out  *os.File
	errs *os.File
	tail tail
	// outDone and errDone are closed when nobody reads Out and errs any more.
	outDone, errDone chan struct{}
	// exited is closed when the process has ended and its pipes are read; state
	// and waitErr are set before.
	exited  chan struct{}
	state   *os.ProcessState
	waitErr error
}

// Start starts the process. in is our end of its stdin.
func Start(o Options) (p *Process, in *os.File, err error) {
	if o.Command == "" {
		return nil, nil, errors.New("options name no command")
	}
	cmd := exec.Command(o.Command, o.Args...)
	cmd.Dir, cmd.Env = o.Dir, o.Env

	// The pipes are made here because those of exec.Cmd are closed by Wait,
	// together with what the process wrote last.
	var theirs, ours []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
		if err != nil {
			for _, f := range ours {
				f.Close()
			}
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	stdin, in := pipe()
	out, stdout := pipe()
	errs, stderr := pipe()
	for _, f := range []*os.File{stdin, stdout, stderr} {
		if f != nil {
			theirs = append(theirs, f)
		}
	}
	for _, f := range []*os.File{in, out, errs} {
		if f != nil {
			ours = append(ours, f)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("make its pipes: %w", err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	p = &Process{
		cmd: cmd, Out: out, errs: errs,
		outDone: make(chan struct{}), errDone: make(chan struct{}), exited: make(chan struct{}),
	}
	go func() {
		defer close(p.errDone)
		defer errs.Close()
		p.tail.follow(errs, o.Stderr)
	}()
	go p.watch()
	return p, in, nil
}

// watch reaps the process and bounds the reading of its pipes.
func (p *Process) watch() {
	defer close(p.exited)
	p.waitErr = p.cmd.Wait()
	p.state = p.cmd.ProcessState
	limit := time.NewTimer(drainTime)
	defer limit.Stop()
	for _, done := range []chan struct{}{p.outDone, p.errDone} {
		select {
		case <-done:
		case <-limit.C:
			p.Out.Close()
			p.errs.Close()
			return
		}
	}
}

// PID is the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// OutRead says that nobody reads Out any more, and closes it.
func (p *Process) OutRead() {
	p.Out.Close()
	close(p.outDone)
}

// ErrDone is closed when nobody reads the stderr of the process any more.
func (p *Process) ErrDone() <-chan struct{} { return p.errDone }

// Exit describes how the process ended, an *ExitError as a rule; nil while it
// runs.
func (p *Process) Exit() error {
	select {
	case <-p.exited:
		return p.exit()
	default:
		return nil
	}
}

// Lost says why nothing comes from a process any more that closed its output.
func (p *Process) Lost() error {
	if Wait(context.Background(), p.exited, exitTime) {
		return p.exit()
	}
	return fmt.Errorf("%w: process %d closed its output but still runs%s", ErrLost, p.PID(), shown(p.tail.String()))
}

func (p *Process) exit() error {
	if p.state == nil {
		return fmt.Errorf("%w: wait for process %d: %w", ErrLost, p.cmd.Process.Pid, p.waitErr)
	}
	return &ExitError{Code: p.state.ExitCode(), Status: p.state.String(), Stderr: p.tail.String()}
}

// End sees the process out, whose stdin is closed: it waits, terminates, waits,
// kills and waits. The end of ctx ends the first two waits. The error says
// that the process is still there.
func (p *Process) End(ctx context.Context, l Limits) error {
	if Wait(ctx, p.exited, l.Exit) {
		return nil
	}
	// An error means that it has just ended, or is answered by the kill.
	_ = terminate(p.cmd.Process)
	if Wait(ctx, p.exited, l.Terminate) {
		return nil
	}
	killErr := p.cmd.Process.Kill()
	if errors.Is(killErr, os.ErrProcessDone) {
		killErr = nil
	}
	if Wait(context.WithoutCancel(ctx), p.exited, l.Kill) {
		return nil
	}
	return errors.Join(fmt.Errorf("process %d still runs %s after it was killed", p.cmd.Process.Pid, l.Kill), killErr)
}

// Wait reports whether done was closed in time.
func Wait(ctx context.Context, done <-chan struct{}, limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	case <-t.C:
	}
	select {
	case <-done:
		return true
	default:
		return false
	}
}
