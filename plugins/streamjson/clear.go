package streamjson

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/plugins/streamjson/project"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// reasonClear is why a session ends, and the source of the one behind it.
const reasonClear = "clear"

// textCleared is the answer to /clear.
const textCleared = "A new conversation has begun."

// clear ends the conversation and begins another in the same process (spec
// stream-json 3.11, 11.9): with a new id, from the result on, a new log, and accounts
// that begin at zero. What waits in the queue belongs to the new one. The old one
// stays stored; it can be resumed, but no more rewound.
//
// What the old session was allowed, forbidden and told of modes holds on. The budget
// is that of the process: what was spent before counts.
func (s *Server) clear(ctx context.Context, _ *turn, _ string) (string, error) {
	old, id := s.sessionID(), uuid.NewString()
	s.endHooks(ctx, reasonClear)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	s.told.flush(ctx)
	if steady, ok := s.Policy.(approval.Steady); ok {
		steady.Inherit(old, id) // before the old session is forgotten
	}
	if err := s.Agents.Close(s.work, old, agent.Cause{Kind: sdkproto.AbortDisposed}); err != nil {
		s.Log.Warn("the session was not closed well", "session", old, "error", err)
	}
	if err := s.sub.Drain(s.work); err != nil {
		return "", fmt.Errorf("end session %s: %w", old, err)
	}
	var ends [][]byte // of tasks that went on in the background
	s.view.with(func(p *project.Projector) { ends, _ = p.Stop(textCleared) })
	if err := s.write(s.work, ends...); err != nil {
		s.Log.Debug("a line was not written", "error", err)
	}
	s.say(s.work, streamjson.ConversationReset{
		Head: s.head(streamjson.TypeConversationReset, ""), NewConversationID: id, Trigger: reasonClear,
	})
	if s.Checkpoints != nil {
		if err := s.Checkpoints.Forget(s.work, old); err != nil {
			s.Log.Warn("the checkpoints of the old conversation were not dropped", "session", old, "error", err)
		}
	}
	s.with(func() {
		s.id, s.resumed, s.agent, s.cleared = id, false, nil, true
		s.inbox, s.aside, s.prompted, s.busy = nil, nil, false, false
		clear(s.children)
		s.latest, s.holds = nil, nil
		s.dropSuggestion()
		s.output.Require(id, s.asked.schema)
	})
	p := s.projector(s.forwards())
	if text := s.budgetText(); text != "" {
		p.Overspent(text)
	}
	s.view.set(p)
	s.startHooks(ctx)
	s.told.flush(s.work)
	return textCleared, nil
}

// forwards reports whether what subagents say is shown.
func (s *Server) forwards() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked.forward
}

// tellCleared tells what the conversation behind a /clear is, once, at its first
// message (decision D1 of spec stream-json 0.4).
func (s *Server) tellCleared(ctx context.Context) {
	due := false
	s.with(func() { due, s.cleared = s.cleared, false })
	if due {
		s.tellSession(ctx)
	}
}

// isCleared reports whether a conversation has begun behind another and was not told
// yet: what the one before was given it has, too.
func (s *Server) isCleared() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cleared
}
