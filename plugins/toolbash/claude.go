package toolbash

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"dsh/kernel/tool"
	"dsh/plugins/internal/dialect"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// claudeArguments of Bash (spec stream-json 9).
type claudeArguments struct {
	Command     string  `json:"command" jsonschema:"The command line, as for bash -c."`
	Timeout     float64 `json:"timeout,omitzero" jsonschema:"How long to wait for the command, in milliseconds."`
	Description string  `json:"description,omitzero" jsonschema:"What the command does, in a few words, for the person who watches."`
	Background  bool    `json:"run_in_background,omitzero" jsonschema:"Whether to go on at once while the command runs."`
	// Unconfined is taken because models set it, and refused where it would change
	// anything: what a model asks for must not lift a confinement.
	Unconfined bool `json:"dangerouslyDisableSandbox,omitzero" jsonschema:"Leave it out: a call cannot lift the confinement of commands."`
}

// claudeResult is the structured result of a call that succeeded.
type claudeResult struct {
	Stdout      string `json:"stdout"`
	Stderr      string `json:"stderr"`
	Interrupted bool   `json:"interrupted"`
	IsImage     bool   `json:"isImage"`
	// BackgroundTaskID is the id of a command that goes on behind its call; the
	// streams are what it had said then.
	BackgroundTaskID string `json:"backgroundTaskId,omitzero"`
	// ReturnCodeInterpretation says what an exit code other than 0 means that is no
	// failure.
	ReturnCodeInterpretation string `json:"returnCodeInterpretation,omitzero"`
	// PersistedOutputPath is the file that holds output which is too long for the
	// model, PersistedOutputSize its size in bytes.
	PersistedOutputPath string `json:"persistedOutputPath,omitzero"`
	PersistedOutputSize int64  `json:"persistedOutputSize,omitzero"`
}

// failureOutput bounds the output of a command that failed, in characters: its
// beginning and its end tell the reason (spec stream-json 9, output limits).
const failureOutput = 10_000

// aside is room for what a result says beside the output, in characters.
const aside = 2_000

func (b *Bash) claude() tool.Tool {
	c := b.params.Config
	return tool.Typed(tool.Spec{
		Name: "Bash",
		Description: fmt.Sprintf("Runs a shell command (bash -c) in the session's directory and returns what it wrote to standard output and standard error. "+
			"Every call starts afresh: directory changes and variables do not last, so use absolute paths or begin with cd DIR && . "+
			"There is no input and no terminal: a program that asks something fails, so use options that answer in advance. "+
			"You wait for a command for %v, or up to %v with timeout; then it goes on in the background, "+
			"but one that begins with sleep or uses git is ended with all its children. "+
			"With run_in_background you get an id and the name of a file with the output at once, and a message when the command has ended; "+
			"use it for servers and long jobs, not &. What runs in the background lives until the session ends. "+
			"Of output over %d characters you get the beginning, the end, and the name of a file with the rest. "+
			"To read, search and change files use Read, Glob, Grep, Edit and Write instead of commands.",
			milliseconds(c.TimeoutMs), milliseconds(c.MaxTimeoutMs), c.MaxOutput),
		Destructive: true,
		MaxText:     c.MaxOutput + aside,
		Subject:     tool.Subject{Rule: "Bash", Kind: tool.SubjectCommand, Member: "command"},
	}, b.callClaude)
}

func (b *Bash) callClaude(ctx context.Context, in tool.Invocation, a claudeArguments) (tool.Result, error) {
	if a.Unconfined && in.Confinement.Confines() {
		return dialect.Bare(refuse("dangerouslyDisableSandbox cannot be used: commands are confined here, and only a person can change that. Run the command without it, or say what it needs")), nil
	}
	r, refused, err := b.run(ctx, in, order{
		command: a.Command, description: a.Description, timeout: a.Timeout, named: "timeout",
		background: a.Background, keeps: keeps(a.Command), apart: true,
	})
	if err != nil || refused != nil {
		return dialect.Bare(deref(refused)), err
	}
	if r.isBehind() {
		return r.goesOn()
	}
	s := r.out.finish()
	s.out, s.err = strings.TrimSuffix(s.out, "\n"), strings.TrimSuffix(s.err, "\n")
	text := s.text()
	if r.err != nil {
		return dialect.Bare(notStarted(ctx, r.err)), nil
	}
	// failed is what is put in front of the output of a command that did; meaning is
	// what code 1 says where it is no failure.
	failed, meaning := "", ""
	name, code := "ShellError", "EXIT_CODE"
	switch {
	case r.exit.TimedOut:
		name, code = "TimeoutError", "TIMEOUT"
		failed = fmt.Sprintf("Command timed out after %v: it and its process group were ended. If it needs longer, give a larger timeout or use run_in_background", r.limit)
	case r.exit.Cancelled:
		name, code, failed = "AbortError", "ABORTED", r.cancelled()
	case r.exit.Signal != "":
		code, failed = "SIGNAL", "Ended by signal: "+r.exit.Signal
	case r.exit.Code == 1 && meansNoFailure(a.Command) != "":
		meaning = meansNoFailure(a.Command)
	case r.exit.Code != 0:
		failed = fmt.Sprintf("Exit code %d", r.exit.Code)
	}
	if failed != "" {
		if text = shorten(text, r.out); text != "" {
			failed += "\n" + text
		}
		return tool.ErrorResult(name, code, below(failed, r.remarks())), nil
	}
	res := claudeResult{Stdout: s.out, Stderr: s.err, ReturnCodeInterpretation: meaning}
	if r.out.path != "" {
		res.PersistedOutputPath, res.PersistedOutputSize = r.out.path, r.out.spilled
	}
	remarks := r.remarks()
	if meaning != "" {
		remarks = append(remarks, fmt.Sprintf("[exit code 1: %s]", meaning))
	}
	if text == "" {
		text = noOutput
	}
	meta, err := wirejson.Marshal(res)
	return tool.Result{Content: []sdkproto.Block{sdkproto.Text(below(text, remarks))}, Meta: meta}, err
}

// goesOn is the result of a call that does not wait for its command any more.
func (r *ran) goesOn() (tool.Result, error) {
	s := r.out.soFar()
	s.out, s.err = strings.TrimSuffix(s.out, "\n"), strings.TrimSuffix(s.err, "\n")
	text := fmt.Sprintf("The command runs in the background with the id %s; %s.", r.id, r.whereToLook("TaskOutput", "TaskStop"))
	if !r.background {
		text = fmt.Sprintf("The command did not end while you waited, and goes on in the background with the id %s; %s.", r.id, r.whereToLook("TaskOutput", "TaskStop"))
	}
	text = below(text, r.remarks())
	if said := s.text(); said != "" {
		text += "\nSo far it has said:\n" + said
	}
	meta, err := wirejson.Marshal(claudeResult{Stdout: s.out, Stderr: s.err, BackgroundTaskID: r.id})
	return tool.Result{Content: []sdkproto.Block{sdkproto.Text(text)}, Meta: meta}, err
}

// shorten gives the beginning and the end of a failed command's output. What is
// left out is in a file, if there is a place for it.
func shorten(text string, out *output) string {
	n := utf8.RuneCountInString(text)
	if n <= failureOutput {
		return text
	}
	out.keep()
	runes := []rune(text)
	note := out.note(max(out.out.total+out.err.total, n) - failureOutput)
	return string(runes[:failureOutput/2]) + note + string(runes[n-failureOutput/2:])
}
