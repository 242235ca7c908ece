package toolbash

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"dsh/kernel/job"
	"dsh/kernel/tool"
	"dsh/kernel/workspace"
	"dsh/plugins/internal/dialect"
	"dsh/sdkproto"
)

// progressEvery is how often a long call says what it is doing.
const progressEvery = time.Second

// arguments of bash (decision D20).
type arguments struct {
	Command     string  `json:"command" jsonschema:"The command line, as for bash -c."`
	Description string  `json:"description,omitzero" jsonschema:"What the command does, in a few words, for the person who watches."`
	TimeoutMs   float64 `json:"timeoutMs,omitzero" jsonschema:"How long the command may run, in milliseconds."`
	Workdir     string  `json:"workdir,omitzero" jsonschema:"The directory to run in, absolute or relative to the session's; by default the session's."`
	// Background is not recorded from the peer; it is ours.
	Background bool `json:"run_in_background,omitzero" jsonschema:"Whether to go on at once while the command runs; it then has no time limit."`
}

// Bash offers the tool bash, or Bash.
type Bash struct {
	params Params
	tool   tool.Tool
	// shell looks the shell up once.
	shell func() (string, error)

	mu     sync.Mutex
	closed bool
	// commands counts those that run.
	commands sync.WaitGroup
}

// New makes the tool; register puts it where the agents find it.
func New(p Params) *Bash {
	b := &Bash{params: p}
	b.shell = sync.OnceValues(func() (string, error) { return lookShell(p.Config.Shell) })
	if p.Config.Dialect == dialect.Claude {
		b.params.Config.MaxTimeoutMs = max(p.Config.TimeoutMs, p.Config.MaxTimeoutMs)
		b.tool = b.claude()
		return b
	}
	b.tool = tool.Typed(tool.Spec{
		Name: "bash",
		Description: fmt.Sprintf("Runs a shell command (bash -c) in the session's directory and returns what it wrote to standard output and standard error. "+
			"Every call starts afresh: directory changes and variables do not last; use workdir. "+
			"There is no input and no terminal: a program that asks something fails, so use options that answer in advance. "+
			"A command may run %v, or up to %v with timeoutMs; then it is ended with all its children. "+
			"With run_in_background you get an id and the name of a file with the output at once, and a message when the command has ended; "+
			"use it for servers and long jobs, which live until the session ends. "+
			"Of output over %d characters you get the beginning, the end, and the name of a file with the rest. "+
			"For reading, searching and changing files prefer the tools made for it.",
			milliseconds(p.Config.TimeoutMs), milliseconds(p.Config.MaxTimeoutMs), p.Config.MaxOutput),
		Destructive: true,
		MaxText:     p.Config.MaxOutput + aside,
		Subject:     tool.Subject{Rule: "Bash", Kind: tool.SubjectCommand, Member: "command", Dir: "workdir"},
	}, b.call)
	return b
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func (b *Bash) register() error {
	b.params.Self.Ready.Go("look up the shell", true, func(context.Context) error {
		_, err := b.shell()
		return err
	})
	if err := b.params.Self.Owner.OnClose("shell commands", b.close); err != nil {
		return err
	}
	return b.params.Tools.Register(b.params.Self.Owner, b.tool)
}

// lookShell finds the configured shell, or bash, or sh.
func lookShell(configured string) (string, error) {
	if configured != "" {
		path, err := exec.LookPath(configured)
		if err != nil {
			return "", fmt.Errorf("look up the shell %q: %w; install it or change `shell` of the row", configured, err)
		}
		return path, nil
	}
	for _, name := range []string{"bash", "sh"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("look up the shell: neither bash nor sh is in PATH; install one or set `shell` of the row to its path")
}

// close waits for the commands, which end with the owner's context.
func (b *Bash) close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		b.commands.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for shell commands to end: %w", context.Cause(ctx))
	}
}

func (b *Bash) call(ctx context.Context, in tool.Invocation, a arguments) (tool.Result, error) {
	r, refused, err := b.run(ctx, in, order{
		command: a.Command, description: a.Description, timeout: a.TimeoutMs, workdir: a.Workdir, background: a.Background, named: "timeoutMs",
	})
	if err != nil || refused != nil {
		return deref(refused), err
	}
	if r.isBehind() {
		remark := fmt.Sprintf("[the command goes on in the background as job %s; %s]", r.id, r.whereToLook("job_output", "job_kill"))
		return tool.TextResult(below(r.out.soFar().text(), append(r.remarks(), remark))), nil
	}
	text := r.out.finish().text()
	if r.err != nil {
		return notStarted(ctx, r.err), nil
	}
	if text == "" {
		text = noOutput
	}
	return outcome(text, r), nil
}

// noOutput stands for the output of a command that gave none.
const noOutput = "(no output)"

// order is what is to be run, and how.
type order struct {
	command, description string
	// timeout is in milliseconds, 0 for the usual one; named is what its parameter
	// is called.
	timeout float64
	named   string
	workdir string
	// background: the call does not wait. keeps: when the time is up the command goes
	// on behind its call. apart: standard error is told from standard output.
	background, keeps, apart bool
}

// ran is how a command went, as far as its call has waited for it.
type ran struct {
	*command
	// limit is the time it was given, clamped what was asked for if that was too
	// much.
	limit, clamped time.Duration
}

// run runs a command until it has ended or goes on behind the call, or says why it
// must not be run.
func (b *Bash) run(ctx context.Context, in tool.Invocation, o order) (ran, *tool.Result, error) {
	refused := func(r tool.Result) (ran, *tool.Result, error) { return ran{}, &r, nil }
	if strings.TrimSpace(o.command) == "" {
		return refused(refuse("the command is empty; say what to run"))
	}
	if strings.ContainsRune(o.command, 0) {
		return refused(refuse("the command contains a NUL byte, which no shell takes"))
	}
	limit, clamped, err := b.timeout(o)
	if err != nil {
		return refused(refuse(err.Error()))
	}
	dir, err := workdir(in.CWD, o.workdir)
	if err != nil {
		return refused(refuse(err.Error()))
	}
	if ctx.Err() != nil {
		return refused(notStarted(ctx, ctx.Err()))
	}
	shell, err := b.shell()
	if err != nil {
		return ran{}, nil, err
	}
	c, err := b.start(in, o, shell, dir)
	switch {
	case errors.Is(err, job.ErrFull):
		return refused(tool.ErrorResult("ShellError", "TOO_MANY_TASKS", "Error: "+err.Error()+b.runningNow(in.SessionID)))
	case err != nil:
		return refused(notStarted(ctx, err))
	}
	r := ran{command: c, limit: limit, clamped: clamped}
	if o.background {
		r.clamped = 0 // it has no limit
	}
	stop := report(in.Progress, c.out)
	defer stop()
	c.wait(ctx, limit, o.keeps)
	return r, nil, nil
}

// maxNamed bounds the tasks that an error names.
const maxNamed = 20

// runningNow names the tasks of a session that can be stopped (case B90).
func (b *Bash) runningNow(sessionID string) string {
	var ids []string
	for _, j := range b.params.Board.List(sessionID) {
		if j.Background && !j.Over() && len(ids) < maxNamed {
			ids = append(ids, j.ID)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return ". In the background run, oldest first: " + strings.Join(ids, ", ")
}

// whereToLook says how to hear of a command that goes on, by the names of the
// tools for it.
func (c *command) whereToLook(look, stop string) string {
	where := "its output is not kept"
	if c.out.path != "" {
		where = "its output goes to " + c.out.path
	}
	return fmt.Sprintf("%s. A message will tell you when it has ended; %s shows how it is doing, %s ends it", where, look, stop)
}

// opener gives what makes the file of a call's output, nil where none is kept.
func (b *Bash) opener(in tool.Invocation) func() (tool.SpillFile, error) {
	s := b.params.Spiller
	if s == nil {
		return nil
	}
	return func() (tool.SpillFile, error) { return s.Spill(in.SessionID, in.CallID) }
}

func deref(r *tool.Result) tool.Result {
	if r == nil {
		return tool.Result{}
	}
	return *r
}

// timeout is the limit of a call; clamped is what the model asked for if that
// was too much, else 0.
func (b *Bash) timeout(o order) (limit, clamped time.Duration, err error) {
	most := milliseconds(b.params.Config.MaxTimeoutMs)
	switch {
	case o.timeout == 0:
		return milliseconds(b.params.Config.TimeoutMs), 0, nil
	case o.timeout < 0:
		return 0, 0, fmt.Errorf("%s is %v; it must be greater than 0", o.named, o.timeout)
	}
	limit = time.Duration(min(o.timeout, math.MaxInt32) * float64(time.Millisecond))
	if limit > most {
		return most, limit, nil
	}
	return max(limit, time.Millisecond), 0, nil
}

func workdir(cwd, asked string) (string, error) {
	dir := cwd
	if asked != "" {
		var err error
		if dir, err = workspace.Resolve(cwd, asked); err != nil {
			return "", fmt.Errorf("workdir: %w", err)
		}
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("the directory %s does not exist; create it or use another workdir", dir)
	case err != nil:
		return "", fmt.Errorf("the directory cannot be used: %w", err)
	case !info.IsDir():
		return "", fmt.Errorf("%s is not a directory; use another workdir", dir)
	}
	return dir, nil
}

// report passes the last line on now and then until stop is called.
func report(progress func(string), out *output) (stop func()) {
	if progress == nil {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		said := ""
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			if line := out.lastLine(); line != "" && line != said {
				progress(line)
				said = line
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// refuse keeps short what quotes the model's own words.
func refuse(why string) tool.Result {
	return tool.ErrorResult("ToolArgumentsError", "INVALID_ARGUMENTS", fmt.Sprintf("Error: %.1000s", why))
}

func notStarted(ctx context.Context, err error) tool.Result {
	switch {
	case ctx.Err() != nil:
		return tool.ErrorResult("AbortError", "ABORTED", "Error: the command was cancelled before it started")
	case errors.Is(err, syscall.E2BIG):
		return tool.ErrorResult("ShellError", "START_FAILED", "Error: the command is too long for the system; write it to a file and run that")
	}
	return tool.ErrorResult("ShellError", "START_FAILED", fmt.Sprintf("Error: the command could not be started: %.1000v", err))
}

// outcome puts remarks on how the command ended below its output. A command
// that failed by itself is an answer, not an error of the tool; so the
// reference implementation has it.
func outcome(text string, r ran) tool.Result {
	var res tool.Result
	var remarks []string
	switch {
	case r.exit.TimedOut:
		res.IsError, res.Error = true, &sdkproto.ToolError{Name: "TimeoutError", Code: "TIMEOUT"}
		remarks = append(remarks, fmt.Sprintf("[timed out after %v: the command and its process group were ended. If it needs longer, give a larger timeoutMs or run it in the background]", r.limit))
	case r.exit.Cancelled:
		res.IsError, res.Error = true, &sdkproto.ToolError{Name: "AbortError", Code: "ABORTED"}
		remarks = append(remarks, r.cancelled())
	case r.exit.Signal != "":
		remarks = append(remarks, fmt.Sprintf("[ended by signal: %s]", r.exit.Signal))
	case r.exit.Code != 0:
		remarks = append(remarks, fmt.Sprintf("[exit code: %d]", r.exit.Code))
	}
	res.Content = []sdkproto.Block{sdkproto.Text(below(text, append(remarks, r.remarks()...)))}
	return res
}

func (r *ran) cancelled() string {
	return fmt.Sprintf("[cancelled after %v: the command and its process group were ended]", r.took.Round(10*time.Millisecond))
}

// remarks say what else there is to know of a run.
func (r *ran) remarks() []string {
	var remarks []string
	if r.clamped > 0 {
		remarks = append(remarks, fmt.Sprintf("[%s was lowered from %d to %d, the most that is allowed]", r.named, r.clamped.Milliseconds(), r.limit.Milliseconds()))
	}
	if r.isBehind() {
		return remarks // how it ends is not known
	}
	switch {
	case r.exit.Left == 1:
		remarks = append(remarks, "[1 background process is still running; it ends with the session]")
	case r.exit.Left > 1:
		remarks = append(remarks, fmt.Sprintf("[%d background processes are still running; they end with the session]", r.exit.Left))
	}
	if r.exit.Reached.Missing != "" {
		remarks = append(remarks, fmt.Sprintf("[the command was confined less than was asked for: %s]", r.exit.Reached.Missing))
	}
	return remarks
}

// below puts remarks on lines of their own.
func below(text string, remarks []string) string {
	if len(remarks) > 0 && text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + strings.Join(remarks, "\n")
}
