package streamjson

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"dsh/kernel/agent"
	"dsh/kernel/command"
	"dsh/kernel/session"
	"dsh/plugins/streamjson/project"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// turn is one message on its way from the queue to its result. Server.mu guards
// its fields.
type turn struct {
	m     *message
	began time.Time
	// taken: the agent has begun its turn.
	taken bool
	// why, when not "", is the reason that the turn is cut short with, in place of
	// what the log says.
	why string
	// answers counts the model's answers; refusedAt is what it was when a question
	// last met a closed channel, refusals how many answers led to such questions.
	answers, refusedAt, refusals int
	// stop, unless nil, ends the work on a command that is answered here.
	stop context.CancelCauseFunc
	// over is closed when the result is written.
	over chan struct{}
}

// Texts of results that no model made.
const (
	textAborted = "Request was aborted."
	textBlank   = "The prompt is blank, so nothing was sent to the model."
	textClosed  = "Stream closed: the client has ended its input, so nobody can approve tool calls any more"
)

// runTurn takes a message from the queue to its result.
func (s *Server) runTurn(ctx context.Context, t *turn, prepared error) {
	m := t.m
	s.remember(m)
	if s.Config.ReplayUserMessages && m.wire != nil {
		head := s.head(streamjson.TypeUser, "")
		head.UUID = m.uuid
		s.say(ctx, streamjson.Replay{Head: head, ParentToolUseID: m.parent, Message: m.echo(), IsReplay: true})
	}
	refuse := func(format string, args ...any) { s.conclude(ctx, t, s.local(t, fmt.Sprintf(format, args...), true)) }
	if m.bad != nil {
		refuse("Invalid user message: %v", m.bad)
		return
	}
	if text := s.budgetText(); text != "" {
		refuse("%s", text)
		return
	}
	if s.isInterrupted(t) {
		end := s.local(t, textAborted, true)
		end.Result.TerminalReason = streamjson.ReasonAbortedStreaming // spec stream-json 11.2
		s.conclude(ctx, t, end)
		return
	}
	if prepared != nil {
		refuse("%v", prepared)
		return
	}
	if err := s.keepImages(ctx, m); err != nil {
		refuse("Invalid user message: %v", err)
		return
	}
	switch {
	case m.noQuery:
		s.with(func() { s.aside = append(s.aside, aside{m.content}) })
		s.drop(t)
		return
	case m.blank():
		s.say(ctx, streamjson.Informational{Head: s.head(streamjson.TypeSystem, streamjson.SystemInformational), Content: textBlank, Level: "info"})
		s.conclude(ctx, t, s.local(t, textBlank, false))
		return
	}
	name, args, isCommand := commandOf(m.content)
	if !isCommand {
		s.post(ctx, t, m.content, "")
		return
	}
	if c, ok := s.localNamed(name); ok {
		s.runLocal(ctx, t, c, args)
		return
	}
	c, ok := s.command(name)
	if !ok {
		s.conclude(ctx, t, s.local(t, "Unknown command: /"+clip(name), false))
		return
	}
	s.runCommand(ctx, t, c, args)
}

// post hands a prompt to the agent and returns when its result is written. A
// command that made the prompt is named in the log.
func (s *Server) post(ctx context.Context, t *turn, content []sdkproto.Block, commandID string) {
	s.mu.Lock()
	a, first := s.agent, !s.prompted
	whole := slices.Clone(content)
	if d := s.asked.agent; first && d != nil && d.InitialPrompt != "" {
		whole = slices.Insert(whole, 0, sdkproto.Text(d.InitialPrompt))
	}
	for _, one := range slices.Backward(s.aside) {
		whole = slices.Insert(whole, 0, one.content...)
	}
	s.aside, s.prompted = nil, true
	s.mu.Unlock()
	s.view.with(func(p *project.Projector) {
		p.Begin(project.Turn{UUID: t.m.id, Origin: t.m.origin, Began: t.began})
	})
	s.handing.Lock()
	receipt := a.Post(agent.Message{ID: t.m.id, Content: whole, Source: sdkproto.Source{Kind: sdkproto.SourceUser}, Target: sdkproto.TargetNextTurn})[0]
	s.handing.Unlock()
	if receipt.Err != nil {
		s.conclude(ctx, t, s.local(t, receipt.Err.Error(), true))
		return
	}
	if commandID != "" {
		s.note(a, sdkproto.TypeCommandDone, sdkproto.CommandDone{CommandID: commandID, Kind: "prompt", SourceEventSeq: &receipt.Seq})
	}
	if s.isInterrupted(t) { // it came while the message was handed over
		s.cancelTurn(t, sdkproto.AbortUser)
	}
	select {
	case <-t.over:
	case <-ctx.Done():
	}
}

// commandOf finds the use of a slash command: a text that begins with a slash and
// a word (spec stream-json 2.1). What has further slashes in its word is a path.
func commandOf(content []sdkproto.Block) (name, args string, ok bool) {
	if len(content) != 1 || content[0].Type != sdkproto.BlockText {
		return "", "", false
	}
	rest, ok := strings.CutPrefix(strings.TrimSpace(content[0].Text), "/")
	if !ok {
		return "", "", false
	}
	name = rest
	if i := strings.IndexAny(rest, " \t\r\n"); i >= 0 {
		name, args = rest[:i], strings.TrimSpace(rest[i:])
	}
	if name == "" || strings.Contains(name, "/") {
		return "", "", false
	}
	return name, args, true
}

func (s *Server) command(name string) (command.Command, bool) {
	if s.Commands == nil {
		return command.Command{}, false
	}
	c, _, ok := s.Commands.Parse("/" + name)
	return c, ok
}

// runCommand puts what a command makes of its arguments in the place of the
// message; the log says so.
func (s *Server) runCommand(ctx context.Context, t *turn, c command.Command, args string) {
	s.mu.Lock()
	a := s.agent
	s.mu.Unlock()
	id := uuid.NewString()
	s.note(a, sdkproto.TypeCommandRun, sdkproto.CommandRun{CommandID: id, Name: c.Name, Args: args, Source: sdkproto.SourceUser})
	var content []sdkproto.Block
	err := fmt.Errorf("the command /%s failed; standard error says more", c.Name)
	s.contain("the command "+c.Name, func() {
		content, err = c.Expand(ctx, command.Invocation{SessionID: a.ID(), CWD: a.Spec().CWD, Args: args})
		if err == nil && len(content) == 0 {
			err = errors.New("it gives no prompt")
		}
		if err != nil {
			err = fmt.Errorf("/%s: %w", c.Name, err)
		}
	})
	if err != nil {
		s.note(a, sdkproto.TypeCommandDone, sdkproto.CommandDone{CommandID: id, Kind: "error", Text: err.Error()})
		s.conclude(ctx, t, s.local(t, err.Error(), true))
		return
	}
	s.post(ctx, t, content, id)
}

// note appends a fact that the session can do without.
func (s *Server) note(a agent.Agent, kind string, data any) {
	if _, err := a.Log().Append(session.Draft{Type: kind, Data: data}); err != nil {
		s.Log.Warn("the use of a command is not in the log", "error", err)
	}
}

// local makes the end of a turn that needed no model.
func (s *Server) local(t *turn, text string, failed bool) (end *project.End) {
	told := project.Turn{UUID: t.m.id, Origin: t.m.origin, Began: t.began}
	ended := func(p *project.Projector) { end = p.Local(told, text, failed) }
	if !s.view.isSet() {
		ended(s.projector(false)) // the start has failed, and no session is open
		return end
	}
	s.view.with(ended)
	return end
}

// isInterrupted reports whether a turn is to end.
func (s *Server) isInterrupted(t *turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.m.interrupted
}

// budgetText says that the money of the process is used up, "" while it is not.
func (s *Server) budgetText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overspent
}

// drop ends a turn without a result.
func (s *Server) drop(t *turn) {
	if s.rest(func() { s.current, s.running = nil, false }) {
		s.tellMode(s.work)
	}
	close(t.over)
}

// conclude writes the result of a turn; t is nil for one that nobody asked for.
// The turn counts as over before the result is written, so that a client that has
// read it may change what cannot change during a turn (decision D4 of spec
// stream-json 0.4); the next message is taken only behind it.
func (s *Server) conclude(ctx context.Context, t *turn, end *project.End) {
	s.settleFiles(ctx)
	s.told.flush(ctx)
	s.answerFirst()
	result := end.Result
	changed := s.rest(func() {
		if t != nil && t.why != "" {
			result.Subtype, result.IsError = streamjson.ResultExecution, true
			result.Result, result.Errors = t.why, []string{t.why}
		}
		if t != nil && t.m.id != t.m.uuid && result.UserMessageUUID != "" {
			result.UserMessageUUID = t.m.uuid
		}
		waiting := len(s.queue.list)
		result.QueuedTurnCount = &waiting
		s.running = t == nil && s.current != nil
		s.failed, s.last, s.interrupted = result.IsError, result, false
	})
	s.tellCut(ctx)
	if !isClosed(s.Root.Quiescing()) && !s.isSilent() {
		if changed {
			s.tellMode(ctx)
		}
		if err := s.write(ctx, end.Lines...); err != nil {
			s.Log.Debug("a line was not written", "error", err)
		}
		s.say(ctx, result)
	}
	s.with(func() {
		if t != nil && s.current == t {
			s.current = nil
		}
		s.suggestAfter(result)
	})
	if t != nil {
		close(t.over)
	}
}
