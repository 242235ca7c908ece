package streamjson

import (
	"context"
	"errors"
	"slices"

	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/session"
	"dsh/plugins/streamjson/host"
	"dsh/plugins/streamjson/project"
	"dsh/sdkproto"
)

// watch hears of every agent. The session's own is followed once it is open: what
// a resume repairs is no news. All others are its subagents.
func (s *Server) watch(a agent.Agent, spec agent.Spec) {
	if spec.Parent == "" {
		return
	}
	s.view.child(spec)
	s.transcripts.child(spec)
	s.with(func() { s.children[spec.ID]++ })
	a.Log().Subscribe(s.sub)
}

// follow shows one entry of the session's log, or of a subagent's, and ends the
// turn that it ends. It runs in the subscription's goroutine.
func (s *Server) follow(ctx context.Context, e session.Entry) error {
	main := e.SessionID == s.sessionID()
	rests := main && e.Record == nil && e.Status == sdkproto.StatusIdle
	if held := s.held; held != nil && (rests || main && e.Record != nil && e.Record.Event.Type == sdkproto.TypeTurnStart) {
		s.held = nil
		s.conclude(ctx, s.taken(), held)
	}
	s.track(e)
	lines, end := s.view.entry(ctx, e)
	s.overspend(end)
	if rests && end == nil && s.isStuck() {
		s.view.with(func(p *project.Projector) {
			var more [][]byte
			more, end = p.Stop("the session cannot go on; standard error says why")
			lines = append(lines, more...)
		})
	}
	s.transcripts.record(ctx, e)
	if err := s.write(ctx, lines...); err != nil {
		return err
	}
	if err := s.transcripts.flush(ctx); err != nil {
		return err
	}
	if e.Record != nil && e.Record.Event.Type == sdkproto.TypeToolResult {
		s.tellMode(ctx) // the call, or the answer to a question about it, may have changed it
	}
	switch {
	case end != nil && e.Record != nil && e.Record.Event.Type == sdkproto.TypeAgentInboxSpliced:
		// The message was dropped before its turn. Hooks on it may still be on their
		// way out, and what they asked the client is withdrawn before the result.
		s.held = end
	case end != nil:
		s.conclude(ctx, s.taken(), end)
	}
	return nil
}

// taken is the message whose turn the agent has begun. A turn that nobody asked for
// may end while a message waits in the inbox.
func (s *Server) taken() *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil && s.current.taken {
		return s.current
	}
	return nil
}

// isStuck reports whether the agent has come to rest with a message that it was
// given and has not ended: its log takes no more.
func (s *Server) isStuck() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.current
	if t == nil || !t.taken && !slices.Contains(s.inbox, t.m.id) {
		return false
	}
	t.taken = true
	return true
}

// track keeps what the front end has to know of a session.
func (s *Server) track(e session.Entry) {
	s.mu.Lock()
	main := e.SessionID == s.id
	s.mu.Unlock()
	if e.Settled != nil {
		s.with(func() {
			if s.children[e.SessionID]--; s.children[e.SessionID] <= 0 {
				delete(s.children, e.SessionID)
			}
			s.dropSummary(e.SessionID)
		})
		return
	}
	if e.Record == nil {
		if main {
			s.with(func() { s.busy = e.Status == sdkproto.StatusRunning })
		}
		return
	}
	switch e.Record.Event.Type {
	case sdkproto.TypeAssistantMessage:
		s.with(func() {
			if s.current != nil {
				s.current.answers++
			}
		})
	case sdkproto.TypeTurnStart:
		if main {
			s.with(func() {
				s.running = true
				s.dropSuggestion()
			})
		}
	case sdkproto.TypeJobEnded:
		if main {
			s.trackJob(e.Record)
		}
	case sdkproto.TypeAgentInboxSpliced:
		splice, err := session.Decode[sdkproto.AgentInboxSpliced](e.Record)
		if main && err == nil && splice.Target == sdkproto.TargetNextTurn {
			s.spliced(&splice)
		}
	}
}

// spliced follows the agent's list of prompts: a message that leaves it is taken
// up, or dropped before its turn.
func (s *Server) spliced(splice *sdkproto.AgentInboxSpliced) {
	s.with(func() {
		from := min(max(splice.Start, 0), len(s.inbox))
		to := min(from+max(splice.RemovedCount, 0), len(s.inbox))
		for _, id := range s.inbox[from:to] {
			if s.current != nil && s.current.m.id == id {
				s.current.taken = true
			}
		}
		ids := make([]string, len(splice.Inserted))
		for i := range splice.Inserted {
			ids[i] = splice.Inserted[i].ID
			if splice.Inserted[i].Source.Plugin == jobPlugin {
				s.notices++
			}
		}
		s.inbox = slices.Replace(s.inbox, from, to, ids...)
	})
}

// overspend remembers that the money of the process is used up: every later message
// ends at once (spec stream-json 11.3).
func (s *Server) overspend(end *project.End) {
	if end == nil || end.Overspent == "" {
		return
	}
	s.with(func() { s.overspent = end.Overspent })
	s.view.with(func(p *project.Projector) { p.Overspent(end.Overspent) })
}

// answerQuestions puts the client behind the desk of approvals.
func (s *Server) answerQuestions() error {
	if s.Desk == nil {
		return nil
	}
	inner := host.Approver(s.host, host.Asking{Agents: s.Agents, Servers: s.MCP, Passed: func(ctx context.Context, _ string) {
		_ = s.sub.Drain(ctx) // ctx is over, then
	}})
	return s.Desk.Register(s.Owner, "streamjson", &approver{s, inner})
}

// approver asks the client as long as it can answer, and counts the questions
// that come later (decision D8 of spec stream-json 0.4, case B09).
type approver struct {
	s *Server
	approval.Elicitor
}

// Serves implements approval.Approver: a question that nobody can answer any more
// is refused here, with the reason.
func (a *approver) Serves(string) bool { return true }

// Approve implements approval.Approver.
func (a *approver) Approve(ctx context.Context, r approval.Request) (approval.Answer, error) {
	if a.s.host.Open() {
		answer, err := a.Elicitor.Approve(ctx, r)
		if ctx.Err() == nil && !a.s.host.Open() && (errors.Is(err, host.ErrClosed) || answer.Outcome == approval.Unavailable) {
			a.s.refused(ctx)
		}
		return answer, err
	}
	a.s.refused(ctx)
	return approval.Answer{Outcome: approval.Unavailable, Message: host.ErrClosed.Error()}, nil
}

// Elicit implements approval.Elicitor.
func (a *approver) Elicit(ctx context.Context, e approval.Elicitation) (approval.ElicitationAnswer, error) {
	if !a.s.host.Open() {
		return approval.ElicitationAnswer{Action: approval.ActionCancel}, nil
	}
	return a.Elicitor.Elicit(ctx, e)
}

// maxRefusals is how many answers of the model may lead to questions that meet a
// closed channel: the first, and three more (spec stream-json 1.8).
const maxRefusals = 4

// refused counts a question that nobody can answer, and ends the turn of a model
// that goes on asking.
func (s *Server) refused(ctx context.Context) {
	_ = s.sub.Drain(ctx) // so that the answer that led here has been counted
	var t *turn
	s.with(func() {
		c := s.current
		if c == nil {
			return
		}
		if c.refusals == 0 || c.refusedAt != c.answers {
			c.refusals++
			c.refusedAt = c.answers
		}
		if c.refusals >= maxRefusals && c.why == "" {
			c.why = textClosed
			t = c
		}
	})
	if t != nil {
		s.cancelTurn(t, sdkproto.AbortUser)
	}
}
