package chatwire

import (
	"errors"
	"strings"
	"sync"

	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// maxStale bounds the sessions remembered; one that was forgotten is refused once
// more.
const maxStale = 1024

// staleThoughts remembers in which sessions the endpoint refused the thoughts
// that were sent back: signatures hold only as long as everything before them
// stays the same, which a compaction ends, and nothing but the endpoint can tell
// (case B59).
type staleThoughts struct {
	mu    sync.Mutex
	order []string
	// upTo is the number of messages whose thoughts are left out, by session.
	upTo map[string]int
}

func (s *staleThoughts) of(session string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.upTo[session]
}

func (s *staleThoughts) set(session string, upTo int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.upTo == nil {
		s.upTo = map[string]int{}
	}
	if _, known := s.upTo[session]; !known {
		if len(s.order) == maxStale {
			delete(s.upTo, s.order[0])
			s.order = append(s.order[:0], s.order[1:]...)
		}
		s.order = append(s.order, session)
	}
	s.upTo[session] = upTo
}

// refused makes a refusal of thoughts a failure that another attempt may get
// over: that one leaves them out. It happens once for the same history.
func (m *Messages) refused(req *llm.Request, err error) error {
	var e *llm.Error
	if !errors.As(err, &e) || e.Code != llm.CodeInvalidRequest || !speaksOf(strings.ToLower(e.Message), []string{"thinking", "signature"}) {
		return err
	}
	if !m.sends(req) {
		return err
	}
	m.stale.set(req.SessionID, len(req.Messages))
	again := *e
	again.Code = llm.CodeServer
	again.Message += "; the next attempt leaves out what the model thought before"
	return &again
}

// sends reports whether a request sends thoughts back.
func (m *Messages) sends(req *llm.Request) bool {
	config := &req.Header.Config
	for i := m.stale.of(req.SessionID); i < len(req.Messages); i++ {
		msg := &req.Messages[i]
		if !ownAnswer(msg, config) {
			continue
		}
		for j := range msg.Content {
			if b := &msg.Content[j]; b.Type == sdkproto.BlockReasoning && b.Signature != "" || b.Type == sdkproto.BlockRedacted {
				return true
			}
		}
	}
	return false
}

// ownAnswer reports whether the model of a request gave an answer.
func ownAnswer(msg *sdkproto.Message, config *sdkproto.RequestConfig) bool {
	return msg.Role == sdkproto.RoleAssistant && msg.Source.Provider == config.Provider && msg.Source.Model == config.Model
}
