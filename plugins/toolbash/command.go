package toolbash

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"dsh/kernel/job"
	"dsh/kernel/process"
	"dsh/kernel/tool"
)

// Causes of the end of a command.
var (
	errCancelled = errors.New("the call was cancelled")
	errTimedOut  = errors.New("the command took too long")
	errStopped   = errors.New("the command was stopped")
)

// States of a command.
const (
	// waited: a call waits for it.
	waited = iota
	// ending: that call has it ended.
	ending
	// behind: it goes on behind its call.
	behind
	// over: nothing of it runs any more.
	over
)

// command is a shell command from its place on the board to its end.
type command struct {
	order
	id     string
	out    *output
	entry  *job.Entry
	cancel context.CancelCauseFunc
	// begun is closed when the program runs, or never will; moved when the call does
	// not wait any more; done when the command has ended.
	begun, moved, done chan struct{}
	// running closes begun once.
	running func()

	mu    sync.Mutex
	state int

	// What follows is set when done is closed.
	exit process.Exit
	// err says why it was not started.
	err  error
	took time.Duration
}

// start gives a command its place on the board and has it run. It belongs to its
// session, not to its call. Errors: those of job.Board.
func (b *Bash) start(in tool.Invocation, o order, shell, dir string) (*command, error) {
	if !b.enter() {
		return nil, errors.New("the harness is ending")
	}
	c := &command{
		order: o, id: "b" + strings.ToLower(rand.Text()[:12]),
		out:   newOutput(b.params.Config.MaxOutput, b.params.Config.MaxSpillBytes, b.opener(in)),
		begun: make(chan struct{}), moved: make(chan struct{}), done: make(chan struct{}),
	}
	c.running = sync.OnceFunc(func() { close(c.begun) })
	ctx, cancel := context.WithCancelCause(b.params.Self.Owner.Context())
	c.cancel = cancel
	// Whoever finds it on the board waits until its entry is known.
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, err := b.params.Board.Start(job.Work{
		Job: job.Job{
			ID: c.id, SessionID: in.SessionID, CallID: in.CallID, Kind: job.KindShell,
			Description: c.label(), Command: o.command,
		},
		Stop:   func() { cancel(errStopped) },
		Detach: c.detach,
	})
	if err != nil {
		cancel(err)
		b.commands.Done()
		return nil, err
	}
	c.entry = entry
	run := process.Command{
		Path: shell,
		Args: []string{"-c", "--", o.command},
		Dir:  dir,
		// These name files that a shell reads before its command.
		Env:         []string{"BASH_ENV=", "ENV="},
		Output:      c.out,
		SessionID:   in.SessionID,
		Confinement: in.Confinement,
		Started: func() {
			c.running()
			if o.background {
				c.detach()
			}
		},
	}
	if o.apart {
		run.Errors = &c.out.err
	}
	go func() {
		defer b.commands.Done()
		b.drive(ctx, c, run)
	}()
	return c, nil
}

// enter counts one more command, unless there may be none any more.
func (b *Bash) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.commands.Add(1)
	}
	return !b.closed
}

// drive runs a command to its end.
func (b *Bash) drive(ctx context.Context, c *command, run process.Command) {
	begin := time.Now()
	exit, err := b.params.Runner.Run(ctx, run)
	c.mu.Lock()
	c.exit, c.err, c.took = exit, err, time.Since(begin)
	if exit.Cancelled && errors.Is(context.Cause(ctx), errTimedOut) {
		c.exit.TimedOut, c.exit.Cancelled = true, false
	}
	wasBehind := c.state == behind
	c.state = over
	c.mu.Unlock()
	c.running()
	if wasBehind {
		c.out.end()
	}
	c.entry.End(c.end())
	close(c.done)
	c.cancel(nil)
}

// detach has the call that waits return, and the command go on.
func (c *command) detach() bool {
	<-c.begun
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != waited {
		return false
	}
	c.state = behind
	c.entry.Detached(c.out.goOn())
	close(c.moved)
	return true
}

// cut ends a command that is waited for; one that goes on behind its call it
// leaves alone, and says so.
func (c *command) cut(cause error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == behind {
		return false
	}
	if c.state == waited {
		c.state = ending
	}
	c.cancel(cause)
	return true
}

// wait returns when the command has ended, or goes on behind its call. keeps says
// that it does the latter when it takes longer than the limit.
func (c *command) wait(ctx context.Context, limit time.Duration, keeps bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var cause error
	select {
	case <-c.done:
		return
	case <-c.moved:
		return
	case <-ctx.Done():
		cause = errCancelled
	case <-timer.C:
		if keeps && c.detach() {
			return
		}
		cause = errTimedOut
	}
	if c.cut(cause) {
		<-c.done
	}
}

// isBehind reports whether the command goes on, or went on, behind its call.
func (c *command) isBehind() bool {
	select {
	case <-c.moved:
		return true
	default:
		return false
	}
}

// maxLabel bounds what a command is called, in characters.
const maxLabel = 100

// label says in a line what the command is for.
func (c *command) label() string {
	label := c.description
	if strings.TrimSpace(label) == "" {
		label, _, _ = strings.Cut(strings.TrimSpace(c.command), "\n")
	}
	runes := []rune(strings.ToValidUTF8(strings.Join(strings.Fields(label), " "), "\uFFFD"))
	if len(runes) > maxLabel {
		return string(runes[:maxLabel-1]) + "…"
	}
	return string(runes)
}

// end tells the board how the command ended.
func (c *command) end() job.End {
	what := fmt.Sprintf("Command %q ", c.label())
	code := c.exit.Code
	switch {
	case c.err != nil:
		return job.End{Status: job.Failed, Summary: what + "could not be started"}
	case c.exit.TimedOut:
		return job.End{Status: job.Stopped, Summary: what + "was ended because it took too long"}
	case c.exit.Cancelled:
		return job.End{Status: job.Stopped, Summary: what + "was stopped"}
	case c.exit.Signal != "":
		return job.End{Status: job.Failed, Summary: what + "was ended by signal " + c.exit.Signal}
	case code == 0, code == 1 && meansNoFailure(c.command) != "":
		return job.End{Status: job.Completed, Summary: fmt.Sprintf("%scompleted (exit code %d)", what, code), ExitCode: &code}
	}
	return job.End{Status: job.Failed, Summary: fmt.Sprintf("%sfailed with exit code %d", what, code), ExitCode: &code}
}

// keeps reports whether a command that takes too long goes on behind its call:
// not one that begins with sleep, which only waits, and none with git, which would
// hold its locks (spec stream-json 9).
func keeps(command string) bool {
	words := strings.FieldsFunc(command, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' })
	if len(words) == 0 || strings.HasPrefix(strings.TrimSpace(command), "sleep") && words[0] == "sleep" {
		return false
	}
	return !slices.Contains(words, "git")
}
