package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// process is a server that Start started.
//
// It stays in the process group of its parent: a signal from the terminal has
// to reach the server as it reaches any other command.
type process struct {
	cmd *exec.Cmd
	// out and errs are our ends of its stdout and stderr.
	out, errs *os.File
	tail      tail
	// outDone and errDone are closed when nobody reads out and errs any more.
	outDone, errDone chan struct{}
	// exited is closed when the process has ended and its pipes are read; state
	// and waitErr are set before.
	exited  chan struct{}
	state   *os.ProcessState
	waitErr error
}

// spawn starts the process. in is our end of its stdin.
func spawn(o Options) (p *process, in *os.File, err error) {
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
	p = &process{
		cmd: cmd, out: out, errs: errs,
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
func (p *process) watch() {
	defer close(p.exited)
	p.waitErr = p.cmd.Wait()
	p.state = p.cmd.ProcessState
	limit := time.NewTimer(drainTime)
	defer limit.Stop()
	for _, done := range []chan struct{}{p.outDone, p.errDone} {
		select {
		case <-done:
		case <-limit.C:
			p.out.Close()
			p.errs.Close()
			return
		}
	}
}

// exit describes the end of a process that has exited.
func (p *process) exit() error {
	if p.state == nil {
		return fmt.Errorf("%w: wait for process %d: %w", ErrLost, p.cmd.Process.Pid, p.waitErr)
	}
	return &ExitError{Code: p.state.ExitCode(), Status: p.state.String(), Stderr: p.tail.String()}
}

// end sees the process out, whose stdin is closed: it waits, terminates, waits,
// kills and waits. The end of ctx ends the first two waits. The error says
// that the process is still there.
func (p *process) end(ctx context.Context, l Limits) error {
	if wait(ctx, p.exited, l.Exit) {
		return nil
	}
	// An error means that it has just ended, or is answered by the kill.
	_ = terminate(p.cmd.Process)
	if wait(ctx, p.exited, l.Terminate) {
		return nil
	}
	killErr := p.cmd.Process.Kill()
	if errors.Is(killErr, os.ErrProcessDone) {
		killErr = nil
	}
	if wait(context.WithoutCancel(ctx), p.exited, l.Kill) {
		return nil
	}
	return errors.Join(fmt.Errorf("process %d still runs %s after it was killed", p.cmd.Process.Pid, l.Kill), killErr)
}

// directory is the working directory of a server started with these options.
func directory(o Options) (string, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	return dir, nil
}

// wait reports whether done was closed in time.
func wait(ctx context.Context, done <-chan struct{}, limit time.Duration) bool {
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
