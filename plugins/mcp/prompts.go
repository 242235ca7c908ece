package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"dsh/kernel"
	"dsh/kernel/command"
	"dsh/kernel/tool"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// remotePrompt is a prompt of a server, shown as a slash command.
type remotePrompt struct {
	s         *server
	raw, name string
	// text and hint are what people see; a prompt that changes them is shown anew.
	text, hint string
	owner      *kernel.Owner
	arguments  atomic.Pointer[[]argument]
}

// argument is one of a prompt's arguments.
type argument struct {
	Name     string
	Required bool
}

func (o *offer) showPrompts(entries []json.RawMessage) {
	found := map[string]*remotePrompt{}
	var raws []string
	for _, raw := range entries {
		m, _ := decode[members](raw)
		name, ok := decode[string](m["name"])
		if !ok || name == "" || slices.Contains(raws, name) {
			continue
		}
		p := &remotePrompt{s: o.s, raw: name}
		if p.text, _ = decode[string](m["description"]); p.text == "" {
			p.text, _ = decode[string](m["title"])
		}
		p.text = clip(strings.Join(strings.Fields(p.text), " "), 500)
		var arguments []argument
		var hints []string
		list, _ := decode[[]json.RawMessage](m["arguments"])
		for _, one := range list {
			am, _ := decode[members](one)
			a := argument{}
			if a.Name, ok = decode[string](am["name"]); !ok {
				continue
			}
			hint := "[" + a.Name + "]"
			if a.Required, _ = decode[bool](am["required"]); a.Required {
				hint = "<" + a.Name + ">"
			}
			arguments, hints = append(arguments, a), append(hints, hint)
		}
		p.hint = strings.Join(hints, " ")
		p.arguments.Store(&arguments)
		found[name], raws = p, append(raws, name)
	}
	for raw, old := range o.prompts {
		if p := found[raw]; p != nil && p.text == old.text && p.hint == old.hint {
			old.arguments.Store(p.arguments.Load())
			continue
		}
		o.close(old.owner)
		delete(o.prompts, raw)
	}
	public := publicNames(o.s.name, o.s.public, raws, o.promptNames)
	for _, raw := range raws {
		if o.prompts[raw] != nil {
			continue
		}
		p := found[raw]
		p.name = public[raw]
		p.owner = o.child("prompt " + p.name)
		c := command.Command{Name: p.name, Description: p.text, ArgumentHint: p.hint, Expand: p.expand}
		if err := o.s.m.commands.Register(p.owner, c); err != nil {
			o.s.log.Warn("a prompt of an mcp server is left out", "prompt", clip(raw, 200), "error", err)
			o.close(p.owner)
			continue
		}
		o.prompts[raw] = p
		o.promptNames[raw] = p.name
	}
}

// expand asks the server for the prompt.
func (p *remotePrompt) expand(ctx context.Context, in command.Invocation) ([]sdkproto.Block, error) {
	arguments, err := assign(*p.arguments.Load(), in.Args)
	if err != nil {
		return nil, fmt.Errorf("/%s: %w", p.name, err)
	}
	c, err := p.s.connected(ctx)
	if err != nil {
		return nil, fmt.Errorf("/%s: the mcp server %q: %w", p.name, p.s.name, err)
	}
	ctx, _, end := c.begin(ctx, in.SessionID, or(p.s.Timeout, p.s.m.config.Load().Timeout), nil)
	defer end()
	r := &request{Name: p.raw}
	if len(arguments) > 0 {
		if r.Arguments, err = wirejson.Marshal(arguments); err != nil {
			return nil, fmt.Errorf("/%s: %w", p.name, err)
		}
	}
	data, err := c.request(ctx, methodGetPrompt, r)
	if err != nil {
		return nil, fmt.Errorf("/%s: the mcp server %q: %w", p.name, p.s.name, c.explain(err))
	}
	top, _ := decode[members](data)
	messages, _ := decode[[]json.RawMessage](top["messages"])
	b := p.s.m.builder(ctx, tool.Invocation{SessionID: in.SessionID, CWD: in.CWD, CallID: p.name}, 0)
	for _, raw := range messages {
		m, _ := decode[members](raw)
		if role, _ := decode[string](m["role"]); role == sdkproto.RoleAssistant {
			b.text("The assistant's part:")
		}
		b.add(readContent(m["content"]))
	}
	return b.done("The prompt is empty."), nil
}

// assign gives the words behind a command to the prompt's arguments in order;
// the last one gets all that is left. Quotes keep words together.
func assign(arguments []argument, text string) (map[string]string, error) {
	values := map[string]string{}
	for i, a := range arguments {
		text = strings.TrimSpace(text)
		if text == "" {
			break
		}
		if i == len(arguments)-1 {
			values[a.Name] = unquoted(text)
			text = ""
			break
		}
		if q := text[0]; q == '"' || q == '\'' {
			if word, rest, closed := strings.Cut(text[1:], string(q)); closed {
				values[a.Name], text = word, rest
				continue
			}
		}
		cut := strings.IndexAny(text, " \t\r\n")
		if cut < 0 {
			cut = len(text)
		}
		values[a.Name], text = text[:cut], text[cut:]
	}
	var missing []string
	for _, a := range arguments {
		if _, ok := values[a.Name]; a.Required && !ok {
			missing = append(missing, a.Name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("it needs %s", strings.Join(missing, ", "))
	}
	if len(arguments) == 0 && text != "" {
		return nil, fmt.Errorf("it takes no arguments")
	}
	return values, nil
}

// unquoted takes quotes off that stand around a whole text.
func unquoted(text string) string {
	if n := len(text); n >= 2 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] {
		return text[1 : n-1]
	}
	return text
}
