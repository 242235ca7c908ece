package agentloop

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// stopHooksPlugin signs what hooks on the end of a turn give the model,
// callHooksPlugin what those on the calls of an answer do.
const (
	stopHooksPlugin = "stop-hooks"
	callHooksPlugin = "call-hooks"
)

// stopping asks the hooks whether a turn may end here.
func (t *turn) stopping(ans *answer) agent.Onward {
	if t.a.r.hooks == nil {
		return agent.Onward{}
	}
	onward, err := t.a.r.hooks.Stop(t.ctx, t.generation, agent.Stopping{
		Agent: t.a, Turn: t.number, Step: t.step, Last: sdkproto.TextOf(ans.content), Continued: t.continued,
	})
	if err != nil && t.ctx.Err() == nil {
		t.a.r.log.Error("a hook on the end of a turn failed", "session", t.a.spec.ID, "error", err)
	}
	return onward
}

func hookDraft(plugin, summary, text string) session.Draft {
	return session.Draft{Type: sdkproto.TypeUserMessage, Data: sdkproto.Message{
		Content: []sdkproto.Block{sdkproto.Text(text)}, Role: sdkproto.RoleUser, ID: uuid.NewString(),
		Source: sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: plugin, Form: "notice", Summary: summary},
	}}
}

// requestOr is request, with the agent's fallbacks for a model that is
// overloaded or not there. p becomes what the last request was made with.
func (t *turn) requestOr(p *prepared) (*answer, error) {
	for {
		ans, err := t.request(*p)
		if err == nil || t.ctx.Err() != nil || !unreachable(err) || t.fallbacks >= len(t.a.spec.Fallbacks) {
			return ans, err
		}
		to := t.a.spec.Fallbacks[t.fallbacks]
		t.fallbacks++
		t.refused = false
		t.a.r.log.Warn("a model cannot answer; another one takes its place for the rest of the turn",
			"session", t.a.spec.ID, "model", p.route.Model, "fallback", to.Model, "error", err)
		t.reroute(to)
		if *p = t.a.prepare(t.generation, t.view, to); p.err != nil {
			return nil, p.err
		}
		if _, err := t.a.session.Append(append(p.drafts, prefixDraft(t.number, t.step, p.changes)...)...); err != nil {
			return nil, err
		}
	}
}

func (t *turn) reroute(to llm.Route) {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	t.wanted = to
}

// statusOverloaded is what a provider answers that has no capacity left.
const statusOverloaded = 529

// unreachable reports whether a failure, after all retries, is that of the model
// and not of the request.
func unreachable(err error) bool {
	var e *llm.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Status {
	case statusOverloaded, http.StatusServiceUnavailable, http.StatusNotFound:
		return true
	}
	return false
}
