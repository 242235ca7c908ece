package streamjson

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// interrupt stops the running turn, the one that is about to begin, or the first
// that waits when none is (spec stream-json 4.2, 11.2; case B11). The answer comes
// before the result: the work is done behind it.
func (s *Server) interrupt(_ context.Context, r *request) (any, error) {
	in, err := fields[struct {
		CancelQueued bool `json:"cancel_queued"`
	}](r)
	if err != nil {
		return nil, err
	}
	answer := streamjson.Interrupted{StillQueued: []string{}}
	var t *turn
	alone := false // a turn runs that nobody asked for
	s.with(func() {
		s.dropSuggestion()
		var first *message
		t, alone = s.current, s.current == nil && s.running
		if s.current != nil {
			s.current.m.interrupted = true
		} else if len(s.queue.list) > 0 && !s.running {
			first = s.queue.list[0]
			first.interrupted = true
		}
		waiting := s.queue.uuids()
		if first != nil {
			waiting = waiting[1:]
		}
		if !in.CancelQueued {
			answer.StillQueued = append(answer.StillQueued, waiting...)
			return
		}
		answer.Cancelled = append([]string{}, waiting...)
		s.queue = queue{}
		if first != nil {
			s.queue.push(first)
		}
	})
	r.after = func() {
		s.stopTasks()
		if t != nil || alone {
			s.cancelTurn(t, sdkproto.AbortUser)
		}
	}
	return answer, nil
}

// cancelTurn ends a turn, unless it is over; nil is one that nobody asked for.
func (s *Server) cancelTurn(t *turn, kind string) {
	s.handing.Lock()
	defer s.handing.Unlock()
	s.mu.Lock()
	a, over, taken := s.agent, s.current != t, t != nil && t.taken
	var stop context.CancelCauseFunc
	if t != nil {
		stop = t.stop
	}
	s.mu.Unlock()
	cause := agent.Cause{Kind: kind}
	switch {
	case stop != nil:
		stop(errAborted)
	case a == nil || over:
	case taken:
		a.Cancel(cause, t.m.id)
	default:
		// Without an id the hooks on a prompt are cut short, too.
		a.Cancel(cause, "")
	}
}

func (s *Server) cancelMessage(_ context.Context, r *request) (any, error) {
	in, err := fields[struct {
		UUID json.RawMessage `json:"message_uuid"`
	}](r)
	if err != nil {
		return nil, err
	}
	id, err := required("message_uuid", in.UUID)
	if err != nil {
		return nil, err
	}
	cancelled := false
	s.with(func() { cancelled = s.queue.remove(id) })
	return map[string]any{"cancelled": cancelled}, nil
}

// modes are those of spec stream-json 7.1, the usual one first.
func modes() []string {
	return []string{"default", "acceptEdits", "plan", "bypassPermissions", "dontAsk"}
}

func (s *Server) setPermissionMode(ctx context.Context, r *request) (any, error) {
	in, err := fields[struct {
		Mode json.RawMessage `json:"mode"`
	}](r)
	if err != nil {
		return nil, err
	}
	mode, _ := text(in.Mode)
	mode = plainMode(mode)
	if !slices.Contains(modes(), mode) {
		return nil, &fault{text: fmt.Sprintf("invalid mode %q; use one of %s", clip(mode), strings.Join(modes(), ", ")), code: "invalid_mode"}
	}
	if s.Policy == nil {
		return nil, errors.New("this profile has no permission rules, so no mode can be set")
	}
	if err := s.Policy.SetMode(s.sessionID(), s.cwd, mode); err != nil {
		return nil, err
	}
	r.after = func() { s.tellMode(s.work) }
	return map[string]string{"mode": mode}, nil
}

// setModel chooses the model of the turns that begin from now on (spec
// stream-json 4.5, S044).
func (s *Server) setModel(_ context.Context, r *request) (any, error) {
	in, err := fields[struct {
		Model json.RawMessage `json:"model"`
	}](r)
	if err != nil {
		return nil, err
	}
	name, ok := text(in.Model)
	switch {
	case kindOf(in.Model) == 0 || kindOf(in.Model) == 'n' || name == "default":
		return s.change(func() error {
			s.mu.Lock()
			to := s.launch
			s.mu.Unlock()
			return s.model(to)()
		})
	case !ok || name == "":
		return nil, errors.New("model must be a non-empty string or null")
	}
	to, err := s.resolve(name)
	if err != nil {
		return nil, err
	}
	return s.change(s.model(to))
}

// setMaxThinkingTokens maps a budget to an effort (spec stream-json 4.7).
func (s *Server) setMaxThinkingTokens(_ context.Context, r *request) (any, error) {
	in, err := fields[struct {
		Tokens json.RawMessage `json:"max_thinking_tokens"`
	}](r)
	if err != nil {
		return nil, err
	}
	effort := ""
	switch kindOf(in.Tokens) {
	case 0:
		return nil, errors.New("max_thinking_tokens is missing; use a whole number or null")
	case 'n':
	default:
		n, ok := number(in.Tokens)
		if !ok || n < 0 || n != math.Trunc(n) {
			return nil, errors.New("max_thinking_tokens must be a whole number of at least 0, or null")
		}
		effort = effortOf(n)
	}
	return s.change(func() error {
		s.mu.Lock()
		word := cmp.Or(effort, s.launch.ReasoningEffort)
		s.mu.Unlock()
		return s.reroute(func(now llm.Route) llm.Route { now.ReasoningEffort = word; return now })
	})
}

// reroute changes the route of the turns to come.
func (s *Server) reroute(change func(llm.Route) llm.Route) error {
	s.mu.Lock()
	to, a := change(s.route), s.agent
	s.mu.Unlock()
	if a != nil {
		if err := a.Reroute(s.fit(to)); err != nil {
			return err
		}
	}
	s.with(func() { s.route = to })
	return nil
}

// seedReadState has nothing to do: no tool depends on what was read (spec
// stream-json 4.17).
func (s *Server) seedReadState(_ context.Context, r *request) (any, error) {
	in, err := fields[struct {
		Path  json.RawMessage `json:"path"`
		Mtime json.RawMessage `json:"mtime"`
	}](r)
	if err != nil {
		return nil, err
	}
	if _, err := required("path", in.Path); err != nil {
		return nil, err
	}
	if n, ok := number(in.Mtime); !ok || n < 0 {
		return nil, errors.New("mtime must be a number of at least 0")
	}
	return struct{}{}, nil
}

func (s *Server) sessionCost(context.Context, *request) (any, error) {
	return map[string]string{"text": s.costText()}, nil
}

func (s *Server) listModels(context.Context, *request) (any, error) {
	return map[string]any{"models": s.modelInfos()}, nil
}

func (s *Server) binaryVersion(context.Context, *request) (any, error) {
	return map[string]string{"version": s.Config.Version}, nil
}

// sessionID is the session's id now.
func (s *Server) sessionID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}
