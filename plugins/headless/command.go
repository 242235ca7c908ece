package headless

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"dsh/kernel/agent"
	"dsh/kernel/command"
	"dsh/kernel/profile"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// Kinds of the end of a command (spec jsonrpc 5.6).
const (
	donePrompt = "prompt"
	doneError  = "error"
)

// send sends the prompt. One that begins with the name of a slash command is
// replaced by what the command makes of it; the log says so.
func (r *Run) send(a agent.Agent, prompt string, v *view) error {
	content := []sdkproto.Block{sdkproto.Text(prompt)}
	id := ""
	done := sdkproto.CommandDone{Kind: donePrompt}
	if c, args, ok := r.command(prompt, v); ok {
		id = uuid.NewString()
		run := sdkproto.CommandRun{CommandID: id, Name: c.Name, Args: args, Source: sdkproto.SourceUser}
		if _, err := a.Log().Append(session.Draft{Type: sdkproto.TypeCommandRun, Data: run}); err != nil {
			return err
		}
		expanded, err := expand(r, a, c, args)
		if err != nil {
			done.CommandID, done.Kind, done.Text = id, doneError, err.Error()
			if _, failed := a.Log().Append(session.Draft{Type: sdkproto.TypeCommandDone, Data: done}); failed != nil {
				return failed
			}
			return err
		}
		content = expanded
	}
	receipt := a.Post(agent.Message{Content: content, Source: sdkproto.Source{Kind: sdkproto.SourceUser}, Target: sdkproto.TargetNextTurn})[0]
	if id != "" && receipt.Err == nil {
		done.CommandID, done.SourceEventSeq = id, &receipt.Seq
		if _, err := a.Log().Append(session.Draft{Type: sdkproto.TypeCommandDone, Data: done}); err != nil {
			return err
		}
	}
	return receipt.Wait(r.work)
}

// command finds the command of a prompt. A name that nobody knows is text for
// the model, such as a path; one that is near to a known name is worth a word.
func (r *Run) command(prompt string, v *view) (c command.Command, args string, ok bool) {
	if r.Commands == nil || !strings.HasPrefix(strings.TrimSpace(prompt), "/") {
		return c, "", false
	}
	if c, args, ok = r.Commands.Parse(prompt); ok {
		return c, args, true
	}
	var names []string
	for _, known := range r.Commands.List() {
		names = append(names, "/"+known.Name)
	}
	word := strings.Fields(prompt)[0]
	if hint := profile.DidYouMean(word, names); hint != "" {
		v.say("! there is no command %s, so the model gets the prompt as it is%s", oneLine(word), hint)
	}
	return c, "", false
}

// expand contains what a command does.
func expand(r *Run, a agent.Agent, c command.Command, args string) (content []sdkproto.Block, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("command %s: panic: %v", c.Name, p)
		}
	}()
	content, err = c.Expand(r.work, command.Invocation{SessionID: a.ID(), CWD: a.Spec().CWD, Args: args})
	if err != nil {
		return nil, fmt.Errorf("/%s: %w", c.Name, err)
	}
	if len(content) == 0 {
		return nil, fmt.Errorf("/%s gives no prompt", c.Name)
	}
	return content, nil
}
