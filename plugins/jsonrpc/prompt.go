package jsonrpc

import (
	"context"
	"fmt"

	"dsh/kernel/agent"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// prompt queues one user message on a session, which its first prompt creates
// (spec jsonrpc 2.2). Prompts of one session keep their order.
func (s *Server) prompt(r *request) {
	h := s.handshake
	p, err := decodePrompt(r.params)
	r.params = nil
	s.enqueue(p.sessionID, r, func(ctx context.Context) ([]byte, error) {
		if s.work.Err() != nil {
			return nil, errShutdown
		}
		if err != nil {
			return nil, err
		}
		blocks, err := decodeBlocks(p.blocks)
		p.blocks = nil // may be large, and what follows may wait
		if err != nil {
			return nil, err
		}
		d, err := s.initialized(ctx, h)
		if err != nil {
			return nil, err
		}
		id, err := s.send(ctx, p.sessionID, d, blocks)
		if err != nil {
			return nil, err
		}
		return wirejson.Marshal(sdkproto.PromptResult{MessageID: id})
	})
}

// initialized waits for the handshake that a prompt came behind.
func (s *Server) initialized(ctx context.Context, h *handshake) (*sessionDefaults, error) {
	if h == nil {
		return nil, errNoInit
	}
	select {
	case <-h.done:
	case <-s.work.Done():
		return nil, errShutdown
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if h.session == nil {
		return nil, errNoInit
	}
	return h.session, nil
}

func (s *Server) send(ctx context.Context, id string, d *sessionDefaults, blocks []sdkproto.Block) (messageID string, err error) {
	if err := s.enter(); err != nil {
		return "", err
	}
	defer s.opening.done(0)
	a, err := s.session(ctx, id, d)
	if err != nil {
		return "", err
	}
	return a.Send(ctx, blocks, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn)
}

// session gives the agent that the prompts of a session go to. Once known it
// must stay the live one (spec jsonrpc 7.4).
func (s *Server) session(ctx context.Context, id string, d *sessionDefaults) (agent.Agent, error) {
	s.mu.Lock()
	known := s.sessions[id]
	s.mu.Unlock()
	if known != nil {
		if live, ok := s.agents.Get(id); !ok || live != known {
			return nil, fmt.Errorf("session agent was disposed outside the server: %s", id)
		}
		return known, nil
	}
	a, err := s.agents.Open(ctx, agent.Spec{ID: id, CWD: d.cwd, Route: d.route}, agent.OpenAny)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.sessions[id] = a
	s.mu.Unlock()
	return a, nil
}
