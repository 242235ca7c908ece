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

	"dsh/kernel/process"
	"dsh/kernel/tool"
	"dsh/kernel/workspace"
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
}

// Bash offers the tool bash.
type Bash struct {
	params Params
	tool   tool.Tool
	// shell looks the shell up once.
	shell func() (string, error)
}

// New makes the tool; register puts it where the agents find it.
func New(p Params) *Bash {
	b := &Bash{params: p}
	b.shell = sync.OnceValues(func() (string, error) { return lookShell(p.Config.Shell) })
	b.tool = tool.Typed(tool.Spec{
		Name: "bash",
		Description: fmt.Sprintf("Runs a shell command (bash -c) in the session's directory and returns what it wrote to standard output and standard error. "+
			"Every call starts afresh: directory changes and variables do not last; use workdir. "+
			"There is no input and no terminal: a program that asks something fails, so use options that answer in advance. "+
			"A command may run %v, or up to %v with timeoutMs; then it is ended with all its children. "+
			"Start a server or another long job in the background, with its output in a file: it lives until the session ends. "+
			"Of output over %d characters you get the beginning, the end, and the name of a file with the rest. "+
			"For reading, searching and changing files prefer the tools made for it.",
			milliseconds(p.Config.TimeoutMs), milliseconds(p.Config.MaxTimeoutMs), p.Config.MaxOutput),
		Destructive: true,
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

func (b *Bash) call(ctx context.Context, in tool.Invocation, a arguments) (tool.Result, error) {
	if strings.TrimSpace(a.Command) == "" {
		return refuse("the command is empty; say what to run"), nil
	}
	if strings.ContainsRune(a.Command, 0) {
		return refuse("the command contains a NUL byte, which no shell takes"), nil
	}
	limit, clamped, err := b.timeout(a.TimeoutMs)
	if err != nil {
		return refuse(err.Error()), nil
	}
	dir, err := workdir(in.CWD, a.Workdir)
	if err != nil {
		return refuse(err.Error()), nil
	}
	shell, err := b.shell()
	if err != nil {
		return tool.Result{}, err
	}

	var open func() (tool.SpillFile, error)
	if s := b.params.Spiller; s != nil {
		open = func() (tool.SpillFile, error) { return s.Spill(in.SessionID, in.CallID) }
	}
	out := newOutput(b.params.Config.MaxOutput, b.params.Config.MaxSpillBytes, open)
	stop := report(in.Progress, out)
	begin := time.Now()
	exit, err := b.params.Runner.Run(ctx, process.Command{
		Path: shell,
		Args: []string{"-c", "--", a.Command},
		Dir:  dir,
		// These name files that a shell reads before its command.
		Env:         []string{"BASH_ENV=", "ENV="},
		Output:      out,
		Timeout:     limit,
		SessionID:   in.SessionID,
		Confinement: in.Confinement,
	})
	stop()
	text := out.finish()
	if err != nil {
		return notStarted(ctx, err), nil
	}
	if text == "" {
		text = "(no output)"
	}
	return outcome(text, exit, limit, time.Since(begin), clamped), nil
}

// timeout is the limit of a call; clamped is what the model asked for if that
// was too much, else 0.
func (b *Bash) timeout(asked float64) (limit, clamped time.Duration, err error) {
	most := milliseconds(b.params.Config.MaxTimeoutMs)
	switch {
	case asked == 0:
		return milliseconds(b.params.Config.TimeoutMs), 0, nil
	case asked < 0:
		return 0, 0, fmt.Errorf("timeoutMs is %v; it must be greater than 0", asked)
	}
	limit = time.Duration(min(asked, math.MaxInt32) * float64(time.Millisecond))
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
func outcome(text string, exit process.Exit, limit, took, clamped time.Duration) tool.Result {
	var res tool.Result
	var remarks []string
	switch {
	case exit.TimedOut:
		res.IsError, res.Error = true, &sdkproto.ToolError{Name: "TimeoutError", Code: "TIMEOUT"}
		remarks = append(remarks, fmt.Sprintf("[timed out after %v: the command and its process group were ended. If it needs longer, give a larger timeoutMs or run it in the background]", limit))
	case exit.Cancelled:
		res.IsError, res.Error = true, &sdkproto.ToolError{Name: "AbortError", Code: "ABORTED"}
		remarks = append(remarks, fmt.Sprintf("[cancelled after %v: the command and its process group were ended]", took.Round(10*time.Millisecond)))
	case exit.Signal != "":
		remarks = append(remarks, fmt.Sprintf("[ended by signal: %s]", exit.Signal))
	case exit.Code != 0:
		remarks = append(remarks, fmt.Sprintf("[exit code: %d]", exit.Code))
	}
	switch {
	case exit.Left == 1:
		remarks = append(remarks, "[1 background process is still running; it ends with the session]")
	case exit.Left > 1:
		remarks = append(remarks, fmt.Sprintf("[%d background processes are still running; they end with the session]", exit.Left))
	}
	if clamped > 0 {
		remarks = append(remarks, fmt.Sprintf("[timeoutMs was lowered from %d to %d, the most that is allowed]", clamped.Milliseconds(), limit.Milliseconds()))
	}
	if exit.Reached.Missing != "" {
		remarks = append(remarks, fmt.Sprintf("[the command was confined less than was asked for: %s]", exit.Reached.Missing))
	}
	if len(remarks) > 0 && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	res.Content = []sdkproto.Block{sdkproto.Text(text + strings.Join(remarks, "\n"))}
	return res
}
