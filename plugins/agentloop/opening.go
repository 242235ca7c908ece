package agentloop

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// opening is what is settled before a turn claims its messages.
type opening struct {
	prepared
	// A turn lives in the generation in which it opens: view is what its model
	// sees and its calls find. leave is called when it has ended.
	generation kernel.Generation
	view       *tool.View
	leave      func()
	// wanted is the route of the turn before an adapter has filled it in.
	wanted llm.Route
	// prompt is the id of the message that the hooks have seen, "" for none;
	// hooked says that they were asked at all.
	prompt string
	hooked bool
	// before and behind are context around the prompt.
	before, behind []session.Draft
	// blocked is why the prompt may not enter the turn; nil when it may.
	blocked *agent.Verdict
}

// open finds what the next turn needs. claimed is called before anything that
// may take long.
func (a *actor) open(claimed func()) *opening {
	o := &opening{}
	o.generation, o.leave = a.r.root.Enter()
	o.view = a.view.At(o.generation)
	a.mu.Lock()
	o.wanted = a.route
	a.mu.Unlock()
	o.prepared = a.prepare(o.generation, o.view, o.wanted)
	if a.r.hooks.Any(o.generation) && o.err == nil {
		claimed()
		a.ask(o)
	}
	return o
}

// ask lets the hooks say what they have to say about the opening of a turn.
func (a *actor) ask(o *opening) {
	ctx, cancel := context.WithCancel(a.life)
	defer cancel()
	a.mu.Lock()
	a.opening = cancel
	prompts := a.pending(sdkproto.TargetNextTurn)
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.opening = nil
	}()
	at := agent.Opening{
		SessionID: a.spec.ID, CWD: a.spec.CWD, Depth: a.spec.Depth, Type: a.spec.Type, Route: o.route, Tools: o.tools,
	}
	a.session.View(func() { at.First = a.state.Brackets.Turn == 0 })
	messages, err := a.r.hooks.Context(ctx, o.generation, at)
	if err != nil {
		a.r.log.Error("a session goes on without some of its context", "session", a.spec.ID, "error", err)
	}
	o.before = a.news(messages)
	o.hooked = true
	if len(prompts) == 0 {
		return
	}
	o.prompt = prompts[0].ID
	if prompts[0].Source.Kind != sdkproto.SourceUser {
		return
	}
	verdict, err := a.r.hooks.Admit(ctx, o.generation, agent.Prompt{Opening: at, Message: prompts[0]})
	if err != nil {
		a.r.log.Error("a hook on prompts failed", "session", a.spec.ID, "error", err)
	}
	if verdict.Block {
		o.blocked = &verdict
		return
	}
	for _, text := range verdict.Context {
		o.behind = append(o.behind, session.Draft{Type: sdkproto.TypeUserMessage, Data: sdkproto.Message{
			Content: []sdkproto.Block{sdkproto.Text(text)}, Role: sdkproto.RoleUser, ID: uuid.NewString(),
			Source: sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: promptHooksPlugin, Form: "notice", Summary: "context from a prompt hook"},
		}})
	}
}

// promptHooksPlugin signs what hooks on prompts add to them.
const promptHooksPlugin = "prompt-hooks"

// news gives the messages that the history does not hold as the last of their
// kind.
func (a *actor) news(messages []sdkproto.Message) []session.Draft {
	if len(messages) == 0 {
		return nil
	}
	var history []sdkproto.Message
	a.session.View(func() { history = a.state.Surface.Messages() })
	var drafts []session.Draft
	for _, m := range messages {
		told := slices.ContainsFunc(lastOf(history, m.Source), func(old sdkproto.Message) bool {
			return slices.EqualFunc(old.Content, m.Content, sameBlock)
		})
		if told {
			continue
		}
		m.Role, m.ID = sdkproto.RoleUser, uuid.NewString()
		drafts = append(drafts, session.Draft{Type: sdkproto.TypeUserMessage, Data: m})
	}
	return drafts
}

// lastOf gives the last message that came from a source, as a list of at most
// one.
func lastOf(history []sdkproto.Message, source sdkproto.Source) []sdkproto.Message {
	for i := len(history) - 1; i >= 0; i-- {
		if s := history[i].Source; s.Kind == source.Kind && s.Plugin == source.Plugin {
			return history[i : i+1]
		}
	}
	return nil
}

func sameBlock(a, b sdkproto.Block) bool {
	if a.Attachment != nil && b.Attachment != nil {
		return a.Type == b.Type && a.Attachment.AttachmentID == b.Attachment.AttachmentID
	}
	return a.Type == b.Type && a.Text == b.Text && a.Attachment == b.Attachment
}
