package streamjson

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// lastRequest says with what history a session last asked its model, and which.
type lastRequest struct {
	agent agent.Agent
	// state is read inside the log's View.
	state *session.State
	route llm.Route
}

func (l *lastRequest) history() (messages []sdkproto.Message) {
	l.agent.Log().View(func() { messages = l.state.Surface.Messages() })
	return messages
}

// followRequests remembers the session's requests to its model from now on, and
// sees those of its subagents.
func (s *Server) followRequests() error {
	if s.following.Swap(true) {
		return nil
	}
	return s.Turns.OnStep(s.Owner, 0, "requests beside the conversation", func(_ context.Context, step agent.Step) (bool, error) {
		last := &lastRequest{step.Agent, step.State, step.Route}
		s.mu.Lock()
		defer s.mu.Unlock()
		if step.Agent.ID() == s.id {
			s.latest = last
		} else if step.Turn > 1 || step.Step > 1 {
			s.summarise(last)
		}
		return false, nil
	})
}

// beside is a model request that is not part of any history.
type beside struct {
	// agent is the session that it belongs to: its log has what was used.
	agent agent.Agent
	route llm.Route
	// purpose is llm.SuggestionPlugin or one of sdkproto's Aside constants. The
	// question has it as its plugin: the scripted model knows the request by it.
	purpose string
	// tokens bounds the answer, with the thoughts of a model that cannot do without.
	tokens int64
	// history, question: what the model is shown, and asked.
	history  []sdkproto.Message
	question string
	// wanted takes what is wanted out of the answer; "" for nothing.
	wanted func(answer string) string
}

// besideBytes is how much of an answer is read.
const besideBytes = 16 << 10

// askBeside makes a request. What it used is a fact of the log, whatever came of
// it; the history does not change.
func (s *Server) askBeside(ctx context.Context, q beside) (text string, err error) {
	// A thought is not worth its time here.
	route := q.route
	route.MaxTokens, route.ReasoningEffort = q.tokens, agent.EffortOff
	route = s.fit(route)
	adapter, err := s.Router.Lookup(route.Provider)
	if err != nil {
		return "", err
	}
	if route, _, _, err = adapter.Resolve(route); err != nil {
		return "", err
	}
	if err := q.agent.Log().Sync(ctx); err != nil { // decision D3
		return "", err
	}
	said := reply{texts: map[int]string{}}
	err = said.collect(ctx, adapter, llm.Request{
		SessionID: q.agent.ID(),
		Header: sdkproto.Header{Config: sdkproto.RequestConfig{
			Provider: route.Provider, Model: route.Model, ReasoningEffort: route.ReasoningEffort, MaxTokens: route.MaxTokens,
		}},
		Messages: append(q.history, sdkproto.Message{
			Content: []sdkproto.Block{sdkproto.Text(q.question)}, Role: sdkproto.RoleUser, ID: uuid.NewString(),
			Source: sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: q.purpose, Form: "instructions"},
		}),
	})
	if err == nil {
		text = q.wanted(said.text())
	}
	if said.usage != nil {
		fact := session.Draft{Type: sdkproto.TypeSideRequest, Ignorable: true, Data: sdkproto.SideRequest{
			Purpose: q.purpose, Text: text, Provider: route.Provider, Model: route.Model, Usage: said.usage,
		}}
		if q.purpose == llm.SuggestionPlugin {
			fact.Type = sdkproto.TypePromptSuggestion
			fact.Data = sdkproto.PromptSuggestion{Text: text, Provider: route.Provider, Model: route.Model, Usage: said.usage}
		}
		if _, failed := q.agent.Log().Append(fact); failed != nil {
			s.Log.Debug("what a request beside the conversation used is not in the log", "purpose", q.purpose, "error", failed)
		}
	}
	return text, err
}

// reply is what a model has said.
type reply struct {
	texts map[int]string // by block
	usage *sdkproto.Usage
}

// collect makes one request.
func (r *reply) collect(ctx context.Context, adapter llm.Adapter, req llm.Request) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the model adapter panicked: %v", v)
		}
	}()
	size := 0
	for c, err := range adapter.Stream(ctx, req) {
		switch {
		case err != nil:
			return err
		case c.Type == sdkproto.ChunkTextDelta:
			r.texts[c.Index] += c.Text
			size += len(c.Text)
		case c.Type == sdkproto.ChunkBlockEnd && c.Block != nil && c.Block.Type == sdkproto.BlockText:
			r.texts[c.Index] = c.Block.Text
		case c.Type == sdkproto.ChunkUsage && c.Usage != nil:
			r.usage = c.Usage
		case c.Type == sdkproto.ChunkFinish && c.Reason != nil:
			if c.Reason.Kind != sdkproto.FinishStop {
				return fmt.Errorf("the model ended for the reason %q", c.Reason.Kind)
			}
			return nil
		}
		if size > besideBytes {
			return errors.New("the model says more than it was asked for")
		}
	}
	return errors.New("the model's answer has no end")
}

func (r *reply) text() string {
	var sb strings.Builder
	for _, index := range slices.Sorted(maps.Keys(r.texts)) {
		sb.WriteString(r.texts[index])
	}
	return sb.String()
}
