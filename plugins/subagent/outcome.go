package subagent

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"dsh/kernel/agent"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// outcome is what became of a child.
type outcome struct {
	run *run
	// stop is a sdkproto Stop reason, why says more in a few words.
	stop, why string
	// last is the content of the child's last answer, with reasoning and all.
	last []sdkproto.Block
	// calls counts the calls of its tools, usage adds up its model requests, took is
	// how long it was at work.
	calls int
	usage sdkproto.Usage
	took  time.Duration
}

// stopReason maps the end of a child's last turn (spec jsonrpc 8.2).
func stopReason(end *sdkproto.TurnEndReason) (stop, why string) {
	switch end.Kind {
	case sdkproto.EndCompleted:
		return sdkproto.StopCompleted, ""
	case sdkproto.EndMaxTokens:
		return sdkproto.StopMaxTokens, "an answer reached the limit of the model's output"
	case sdkproto.EndBlocked:
		return sdkproto.StopRefusal, "its prompt was refused"
	case sdkproto.EndAborted:
		if end.Reason != nil && end.Reason.Reason != "" {
			return sdkproto.StopAborted, "it was stopped: " + end.Reason.Reason
		}
		return sdkproto.StopAborted, "it was stopped"
	case sdkproto.EndMaxSteps:
		return sdkproto.StopError, "it made as many steps as a turn may have"
	case sdkproto.EndError:
		if end.Error != nil {
			return sdkproto.StopError, fmt.Sprintf("%s (%s)", end.Error.Message, end.Error.Code)
		}
	}
	return sdkproto.StopError, "its turn ended as " + end.Kind
}

// said is the text of the last answer. Reasoning is not for the parent.
func (o *outcome) said() string { return sdkproto.TextOf(o.last) }

// result is that of the call that waited.
func (o *outcome) result(s *Subagents, in tool.Invocation) tool.Result {
	said := s.fit(in, o.said())
	if o.stop == sdkproto.StopCompleted {
		if said == "" {
			said = "(the subagent ended without an answer)"
		}
		return tool.TextResult(said)
	}
	code, verb := codeFailed, "failed"
	switch o.stop {
	case sdkproto.StopAborted:
		code, verb = codeAborted, "did not finish"
	case sdkproto.StopMaxTokens:
		code, verb = codeMaxTokens, "did not finish"
	case sdkproto.StopRefusal:
		code, verb = codeRefused, "did not begin"
	}
	text := fmt.Sprintf("subagent %s %s: %s", o.run.id, verb, o.why)
	if said != "" {
		text += "\nThe last that it said:\n\n" + said
	}
	return refuse(code, "%s", text)
}

// report tells the parent of a child in the background what became of it (spec
// jsonrpc 8.3). A parent that is gone or full does without.
func (s *Subagents) report(r *run) {
	o := &r.outcome
	summary := o.summary()
	text := summary
	if o.why != "" {
		text += ", " + o.why
	}
	if said := s.fit(tool.Invocation{SessionID: r.parent.ID(), CallID: r.id}, o.said()); said != "" {
		text += ".\nThe last that it said:\n\n" + said
	} else {
		text += ". It has given no answer."
	}
	receipt := r.parent.Post(agent.Message{
		Content: []sdkproto.Block{sdkproto.Text(text)},
		Source:  sdkproto.Source{Kind: sdkproto.SourceSubagentSettled, Form: "notice", Summary: summary, SenderSessionID: r.id},
		Target:  sdkproto.TargetNextTurn,
	})[0]
	if receipt.Err != nil && !errors.Is(receipt.Err, agent.ErrClosing) {
		s.log.Warn("the end of a subagent cannot be told to its parent", "session", r.id, "parent", r.parent.ID(), "error", receipt.Err)
	}
}

// fit bounds a text for the parent's model; the whole of one that is too long
// is kept in a file, if there is a place for it (decision D19).
func (s *Subagents) fit(in tool.Invocation, text string) string {
	n := utf8.RuneCountInString(text)
	if n <= s.config.MaxAnswer {
		return text
	}
	where := "the rest is lost"
	if s.spiller != nil {
		path, err := tool.Keep(s.spiller, in.SessionID, in.CallID, []byte(text))
		if err != nil {
			s.log.Warn("a long answer of a subagent was not kept", "session", in.SessionID, "error", err)
		} else {
			where = "all of it is in " + path
		}
	}
	return fmt.Sprintf("%s\n\n[cut after %d of %d characters; %s]", string([]rune(text)[:s.config.MaxAnswer]), s.config.MaxAnswer, n, where)
}
