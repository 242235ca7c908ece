package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"dsh/kernel/approval"
	"dsh/kernel/hook"
	"dsh/kernel/tool"
	"dsh/plugins/internal/transcript"
	"dsh/sdkproto/wirejson"
)

const (
	// mostText bounds a text of a hook for people, and a reason, in characters;
	// mostName what stands for a hook there.
	mostText, mostName = 10_000, 200
	// settleLimit is how long a hook that was cut off may still say what it has to.
	settleLimit = 50 * time.Millisecond
	// generalPurpose is the type of a subagent that was made from no definition.
	generalPurpose = "general-purpose"
)

// limitError says that a hook has not returned in time.
type limitError struct{ limit time.Duration }

func (e *limitError) Error() string { return fmt.Sprintf("it has not returned within %v", e.limit) }

// Run implements hook.Engine.
func (e *Engine) Run(ctx context.Context, in hook.Input) hook.Outcome {
	list := e.matching(&in)
	if len(list) == 0 {
		return hook.Outcome{}
	}
	l := e.lineage(in.SessionID)
	input, err := e.input(&in, l)
	if err != nil {
		e.log.Error("the input of hooks cannot be made; none of them runs", "event", in.Event, "session", in.SessionID, "error", err)
		return hook.Outcome{}
	}
	type answer struct {
		index int
		hook.Outcome
	}
	answers := make(chan answer, len(list))
	for i, x := range list {
		// one returns soon after ctx has ended, so that this is waited for below.
		go func() {
			a := answer{index: i}
			if err := contain(func() error { a.Outcome = e.one(ctx, x, &in, l.root, input); return nil }); err != nil {
				e.log.Error("a hook could not be run", "hook", x.name, "error", err)
			}
			answers <- a
		}()
	}
	outcomes := make([]hook.Outcome, len(list))
	for range list {
		a := <-answers
		outcomes[a.index] = a.Outcome
	}
	var all hook.Outcome
	for _, o := range outcomes {
		all = merge(all, o, in.Event)
	}
	e.explain(&in, &all)
	if in.Event == hook.SessionStart {
		e.keep(in.SessionID, all.Context)
	}
	return all
}

// explain tells people why a turn ends or a prompt does not go in.
func (e *Engine) explain(in *hook.Input, all *hook.Outcome) {
	if all.Stopped {
		e.inform(in, levelNotice, "%s hook ended the turn: %s", label(in), cmp.Or(all.StopReason, "it gives no reason"))
	}
	if in.Event == hook.UserPromptSubmit && all.Decision == hook.Block {
		e.inform(in, levelWarning, "%s operation blocked by hook:\n%s", label(in), all.Reason)
	}
}

// lineage is where a session stands.
type lineage struct {
	// root is the session at the root of the delegation.
	root string
	// agent and kind are those of a subagent, "" for a root.
	agent, kind string
}

func (e *Engine) lineage(sessionID string) lineage {
	l := lineage{root: sessionID}
	if e.with.Agents == nil {
		return l
	}
	// A session cannot be its own ancestor; the bound is for broken records.
	for range 64 {
		a, ok := e.with.Agents.Get(l.root)
		if !ok {
			break
		}
		spec := a.Spec()
		if spec.Parent == "" {
			break
		}
		if l.agent == "" {
			l.agent, l.kind = spec.ID, cmp.Or(spec.Type, generalPurpose)
		}
		l.root = spec.Parent
	}
	return l
}

// input makes the input object (spec stream-json 6.2).
func (e *Engine) input(in *hook.Input, l lineage) (json.RawMessage, error) {
	members := map[string]any{
		"session_id": l.root, "transcript_path": transcript.Path(e.dir(), in.CWD, l.root), "cwd": in.CWD, "hook_event_name": in.Event,
	}
	if e.with.Policy != nil {
		members["permission_mode"] = e.with.Policy.Mode(l.root, in.CWD)
	}
	if l.agent != "" {
		members["agent_id"], members["agent_type"] = l.agent, l.kind
	}
	maps.Copy(members, in.Members)
	return wirejson.Marshal(members)
}

// report is what came of running a hook.
type report struct {
	// output is its output object, nil when it gave none; text is plain text in
	// the place of one.
	output []byte
	text   string
	// blocks says that a command has ended with the code that blocks; reason goes
	// with it.
	blocks bool
	reason string
	// away says that it goes on in the background.
	away bool
	// stdout, stderr and code are a command's.
	stdout, stderr string
	code           *int
	err            error
}

// quiet are events whose hooks are not shown at work (spec stream-json 6.7).
func quiet(event string) bool {
	switch event {
	case hook.Notification, hook.SessionEnd, hook.PreCompact, hook.PostCompact:
		return true
	}
	return false
}

// one runs one hook and gives what comes of it.
func (e *Engine) one(ctx context.Context, x *entry, in *hook.Input, root string, input json.RawMessage) hook.Outcome {
	n := hook.Notice{Kind: hook.NoticeStarted, SessionID: in.SessionID, ID: uuid.NewString(), Name: label(in), Event: in.Event}
	if !quiet(in.Event) {
		e.tell(n)
	}
	r := e.run(ctx, x, in, root, input)
	s, err := e.judge(in, &r)
	timedOut := errors.As(err, new(*limitError))
	if !quiet(in.Event) {
		n.Kind, n.Outcome = hook.NoticeResponded, "success"
		switch {
		case timedOut, ctx.Err() != nil && err != nil:
			n.Outcome = "cancelled"
		case err != nil, r.blocks:
			n.Outcome = "error"
		}
		n.Stdout, n.Stderr, n.ExitCode = clip(r.stdout, mostText), clip(r.stderr, mostText), r.code
		n.Output = clip(cmp.Or(r.stdout+r.stderr, string(r.output)), mostText)
		e.tell(n)
	}
	if err != nil {
		return e.failed(ctx, x, in, err, timedOut)
	}
	if s.message != "" {
		e.inform(in, levelWarning, "%s says: %s", label(in), s.message)
	}
	for i, text := range s.Context {
		s.Context[i] = e.bounded(root, n.ID, text)
	}
	s.Reason, s.StopReason = clip(s.Reason, mostText), clip(s.StopReason, mostText)
	return s.Outcome
}

// judge reads what a hook has said. An error is its failure.
func (e *Engine) judge(in *hook.Input, r *report) (said, error) {
	switch {
	case r.err != nil:
		return said{}, r.err
	case r.away:
		return said{}, nil
	case r.blocks:
		o, can := refusal(in.Event, r.reason)
		if !can {
			return said{}, fmt.Errorf("it wants to block, which %s does not allow: %s", in.Event, r.reason)
		}
		return said{Outcome: o}, nil
	case r.output != nil:
		return parseOutput(in, r.output)
	case r.text != "" && (in.Event == hook.UserPromptSubmit || in.Event == hook.SessionStart):
		return said{Outcome: hook.Outcome{Context: []string{r.text}}}, nil
	}
	return said{}, nil
}

// refusal is the outcome that refuses what a hook was asked about; can says that
// there is one.
func refusal(event, reason string) (o hook.Outcome, can bool) {
	switch event {
	case hook.PreToolUse:
		return hook.Outcome{Decision: hook.Deny, Reason: reason}, true
	case hook.PermissionRequest:
		return hook.Outcome{Permission: &approval.Answer{Outcome: approval.Rejected, Message: reason}}, true
	case hook.Elicitation, hook.ElicitationResult:
		return hook.Outcome{Elicited: &approval.ElicitationAnswer{Action: approval.ActionDecline}}, true
	}
	return hook.Outcome{Decision: hook.Block, Reason: reason}, blocks(event)
}

// failed tells of a hook that has failed, and gives what its failure means (spec
// stream-json 5.2, 6.5 rule 7).
func (e *Engine) failed(ctx context.Context, x *entry, in *hook.Input, err error, timedOut bool) hook.Outcome {
	log := e.log.With("hook", x.name, "event", label(in), "session", in.SessionID, "error", err)
	switch {
	case ctx.Err() != nil && !timedOut:
		log.Debug("a hook was cut off with what it was about")
		return hook.Outcome{}
	case in.Event == hook.SessionEnd && x.call != nil:
		// Its client may have gone, which is no news at the end (case B31).
		log.Debug("a hook at the end of a session was not called")
		return hook.Outcome{}
	}
	log.Warn("a hook failed")
	text := fmt.Sprintf("%s hook error: %s: %v", label(in), x.name, err)
	e.inform(in, levelWarning, "%s", text)
	refuses := x.refuse
	switch in.Event {
	case hook.PreToolUse, hook.UserPromptSubmit:
		refuses = refuses || timedOut
	case hook.PermissionRequest, hook.PreCompact, hook.Elicitation, hook.ElicitationResult:
	default:
		return hook.Outcome{} // there is nothing to refuse, or a turn would never end
	}
	if !refuses {
		return hook.Outcome{}
	}
	o, _ := refusal(in.Event, clip(text, mostText))
	return o
}

// run runs one hook to its end, to its limit, or until ctx ends or it goes on in
// the background. Its goroutine is the engine's, so that one that does not return
// stalls nobody (case B27).
func (e *Engine) run(ctx context.Context, x *entry, in *hook.Input, root string, input json.RawMessage) report {
	limit := cmp.Or(x.limit, e.with.Config.limit(in.Event))
	life, end := context.WithCancelCause(e.owner.Context())
	unhook := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	timer := time.AfterFunc(limit, func() { end(&limitError{limit}) })
	done, away := make(chan report, 1), make(chan struct{})
	// goAway lets the hook go on without whoever waits; false says that there are
	// too many that do.
	goAway := func(within time.Duration) bool {
		select {
		case e.slots <- struct{}{}:
		default:
			return false
		}
		if !unhook() {
			<-e.slots
			return false // what it was about is over
		}
		timer.Reset(cmp.Or(within, limit))
		close(away)
		return true
	}
	e.owner.Go("hook "+x.name, func(context.Context) {
		var r report
		err := contain(func() error {
			if x.call != nil {
				var err error
				r.output, err = x.call(life, hook.Call{Input: input, ToolUseID: in.ToolUseID})
				return err
			}
			r = e.command(life, x, in, root, input, goAway)
			return r.err
		})
		if r.err = err; err != nil && life.Err() != nil {
			r.err = context.Cause(life)
		}
		unhook()
		timer.Stop()
		end(nil)
		select {
		case <-away:
			<-e.slots
			if r.err != nil {
				e.log.Warn("a hook in the background failed", "hook", x.name, "event", label(in), "session", in.SessionID, "error", r.err)
			}
		default:
			done <- r
		}
	})
	select {
	case r := <-done:
		return r
	case <-away:
		return report{away: true}
	case <-life.Done():
	}
	select {
	case r := <-done:
		return r
	case <-time.After(settleLimit):
		return report{err: context.Cause(life)}
	}
}

// preview is how much of a text that is too long stands in the place of it.
const preview = 2_000

// bounded cuts what a hook says to the model, and puts the whole into a file.
func (e *Engine) bounded(sessionID, id, text string) string {
	most := e.with.Config.MaxContext
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	head := clip(text, min(preview, most))
	if e.with.Spiller == nil {
		return clip(text, most)
	}
	path, err := tool.Keep(e.with.Spiller, sessionID, "hook-"+id, []byte(text))
	if err != nil {
		e.log.Warn("what a hook says is too long, and cannot be kept in a file", "session", sessionID, "error", err)
		return clip(text, most)
	}
	return fmt.Sprintf("%s\n\n[The text has %d characters; all of it is in %s]", head, utf8.RuneCountInString(text), path)
}

// clip bounds a text, in characters.
func clip(s string, most int) string {
	if len(s) <= most || utf8.RuneCountInString(s) <= most {
		return s
	}
	return strings.ToValidUTF8(string([]rune(s)[:most-1]), "\uFFFD") + "…"
}
