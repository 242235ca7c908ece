package agentloop

import (
	"bytes"
	"fmt"

	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// prefixDraft records why a request does not extend the one before it; there
// is none when it does (spec jsonrpc 10.7).
func prefixDraft(turn, step int, changes []sdkproto.PrefixChange) []session.Draft {
	if len(changes) == 0 {
		return nil
	}
	return []session.Draft{{
		Type: sdkproto.TypeRequestPrefix, Ignorable: true,
		Data: &sdkproto.RequestPrefix{Turn: turn, Step: step, Changes: changes},
	}}
}

// headerChanges compares two request headers. Of a tool that came or changed it
// tells whose it is; whose one was that is gone nobody knows any more.
func headerChanges(before, now *sdkproto.Header, view *tool.View) (changes []sdkproto.PrefixChange) {
	add := func(part, by, format string, args ...any) {
		changes = append(changes, sdkproto.PrefixChange{Part: part, Detail: fmt.Sprintf(format, args...), By: by})
	}
	was, is := before.Config, now.Config
	if was.Provider != is.Provider {
		add("provider", "", "%s → %s", was.Provider, is.Provider)
	}
	if was.Model != is.Model {
		add("model", "", "%s → %s", was.Model, is.Model)
	}
	if was.ReasoningEffort != is.ReasoningEffort {
		add("config", "", "reasoningEffort %q → %q", was.ReasoningEffort, is.ReasoningEffort)
	}
	if was.MaxTokens != is.MaxTokens {
		add("config", "", "maxTokens %d → %d", was.MaxTokens, is.MaxTokens)
	}
	if before.System != now.System {
		add("system", "", "%d → %d bytes", len(before.System), len(now.System))
	}
	old := map[string]*sdkproto.ToolSchema{}
	for i := range before.Tools {
		old[before.Tools[i].Name] = &before.Tools[i]
	}
	count := len(changes)
	for i := range now.Tools {
		t := &now.Tools[i]
		switch known := old[t.Name]; {
		case known == nil:
			add("tools", view.Origin(t.Name), "added %s", t.Name)
		case known.Description != t.Description || !bytes.Equal(known.Parameters, t.Parameters):
			add("tools", view.Origin(t.Name), "changed %s", t.Name)
		}
		delete(old, t.Name)
	}
	for i := range before.Tools {
		if name := before.Tools[i].Name; old[name] != nil {
			add("tools", "", "removed %s", name)
		}
	}
	if len(changes) == count && len(before.Tools) == len(now.Tools) {
		for i := range now.Tools {
			if before.Tools[i].Name != now.Tools[i].Name {
				add("tools", view.Origin(now.Tools[i].Name), "order, from %s on", now.Tools[i].Name)
				break
			}
		}
	}
	return changes
}

// rewritten says whether the history was rewritten since the last request of
// this actor, and by whom.
func (t *turn) rewritten() []sdkproto.PrefixChange {
	var count int
	var by string
	t.a.session.View(func() { count, by = t.a.state.Surface.Rewrites() })
	if count == t.a.rewrites {
		return nil
	}
	t.a.rewrites = count
	return []sdkproto.PrefixChange{{Part: "messages", Detail: "parts of the history were replaced", By: by}}
}
