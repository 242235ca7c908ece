package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"dsh/kernel"
	contract "dsh/kernel/mcp"
	"dsh/kernel/prompt"
	"dsh/kernel/tool"
	"dsh/sdkproto/wirejson"
)

// maxDescription bounds what a server says about a tool or about itself, in
// bytes: it is part of every request.
const maxDescription = 2 << 10

// offer is what a server offers, as the registries show it.
type offer struct {
	s *server

	mu sync.Mutex
	// tools and prompts are by the names the server gives them.
	tools   map[string]*remoteTool
	prompts map[string]*remotePrompt
	// entries are those of the list that is shown, as they were read.
	entries map[string]*listed
	// shown are the tools' public names, in the order of the server's list; offers
	// are the same tools as the server describes them.
	shown  []string
	offers []contract.Offer
	// toolNames and promptNames are all public names ever given.
	toolNames, promptNames map[string]string
	// said is the owner of the server's part of the system prompt.
	said  *kernel.Owner
	place int
}

func newOffer(s *server) *offer {
	return &offer{s: s, tools: map[string]*remoteTool{}, prompts: map[string]*remotePrompt{}, toolNames: map[string]string{}, promptNames: map[string]string{}}
}

func (o *offer) list() ([]string, []contract.Offer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.shown), slices.Clone(o.offers)
}

// learn asks what a server offers and shows it. After an error about the tools
// everything stays as it was.
func (o *offer) learn(ctx context.Context, c *conn) error {
	var tools, prompts []json.RawMessage
	var err error
	if c.has(hasTools) {
		if tools, err = c.all(ctx, methodListTools, "tools", o.s.m.config.Load().MaxTools); err != nil {
			return err
		}
	}
	if c.has(hasPrompts) && o.s.m.commands != nil {
		if prompts, err = c.all(ctx, methodListPrompts, "prompts", o.s.m.config.Load().MaxTools); err != nil {
			if ctx.Err() != nil {
				return err
			}
			o.s.log.Warn("the prompts of an mcp server cannot be read", "error", c.explain(err))
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.showTools(tools)
	o.showPrompts(prompts)
	o.showInstructions(c.instructions())
	o.s.m.offerResources(o.s, c.has(hasResources))
	return nil
}

// withdraw takes everything back.
func (o *offer) withdraw() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.showTools(nil)
	o.showPrompts(nil)
	o.showInstructions("")
	o.s.m.offerResources(o.s, false)
}

// child makes the owner of one more thing that is shown.
func (o *offer) child(name string) *kernel.Owner {
	o.place++
	return o.s.owner.ChildAt(name, o.place)
}

func (o *offer) close(owner *kernel.Owner) {
	if owner == nil {
		return
	}
	if err := owner.Close(context.Background()); err != nil {
		o.s.log.Warn("what an mcp server offered cannot be taken back", "error", err)
	}
}

// listed is an entry of tools/list.
type listed struct {
	raw string
	def *definition
}

// definition is what is known of a tool.
type definition struct {
	spec tool.Spec
	// arguments gives the server's names of arguments that have another one for
	// the model.
	arguments map[string]string
	// hints is what the server itself says.
	hints contract.Offer
	// most is how many characters of a result the server wants to be passed on, 0
	// for the usual.
	most int
}

func (o *offer) showTools(entries []json.RawMessage) {
	var list []*listed
	var raws []string
	read := make(map[string]*listed, len(entries))
	for _, entry := range entries {
		l, known := o.entries[string(entry)]
		if !known {
			l = o.read(entry)
		}
		if read[string(entry)] = l; l == nil {
			continue
		}
		if slices.Contains(raws, l.raw) {
			o.s.log.Warn("an mcp server lists a tool twice; the first one counts", "tool", l.raw)
			continue
		}
		list, raws = append(list, l), append(raws, l.raw)
	}
	public := publicNames(o.s.name, o.s.public, raws, o.toolNames)
	for raw, t := range o.tools {
		if !slices.Contains(raws, raw) {
			o.close(t.owner)
			delete(o.tools, raw)
		}
	}
	o.entries, o.shown, o.offers = read, nil, nil
	for _, l := range list {
		name := public[l.raw]
		t := o.tools[l.raw]
		if t != nil && t.def.Load() == l.def {
			o.show(name, l.def)
			continue
		}
		l.def.spec.Name = name // nobody else has it yet
		if t == nil {
			t = &remoteTool{s: o.s, raw: l.raw, name: name, owner: o.child("tool " + name)}
			t.def.Store(l.def)
			if err := o.s.m.tools.Register(t.owner, t); err != nil {
				o.s.log.Warn("a tool of an mcp server is left out", "tool", l.raw, "error", err)
				o.close(t.owner)
				continue
			}
			o.tools[l.raw] = t
			o.toolNames[l.raw] = name
		}
		t.def.Store(l.def)
		o.show(name, l.def)
	}
}

func (o *offer) show(name string, d *definition) {
	o.shown, o.offers = append(o.shown, name), append(o.offers, d.hints)
}

// read reads an entry; nil is for one that is not taken. What is wrong with one
// does not concern the others (case B35).
func (o *offer) read(entry json.RawMessage) *listed {
	m, _ := decode[members](entry)
	raw, ok := decode[string](m["name"])
	if !ok || raw == "" {
		o.s.log.Warn("a tool of an mcp server has no name and is left out")
		return nil
	}
	if !o.s.admits(raw) {
		return nil
	}
	schema, err := adapt(m["inputSchema"], o.s.m.config.Load().MaxSchema)
	if err != nil {
		o.s.log.Warn("a tool of an mcp server is left out", "tool", clip(raw, 200), "error", err)
		return nil
	}
	if len(schema.notes) > 0 {
		o.s.log.Warn("the schema of an mcp server's tool was made to fit", "tool", clip(raw, 200), "notes", strings.Join(schema.notes, "; "))
	}
	hints, _ := decode[members](m["annotations"])
	title, _ := decode[string](m["title"])
	if title == "" {
		title, _ = decode[string](hints["title"])
	}
	description, _ := decode[string](m["description"])
	readOnly, _ := decode[bool](hints["readOnlyHint"])
	destructive, said := decode[bool](hints["destructiveHint"])
	d := &definition{arguments: schema.raw, spec: tool.Spec{
		Description: clip(strings.ToValidUTF8(cmp.Or(description, title, raw), "\ufffd"), maxDescription),
		Parameters:  schema.schema, ReadOnly: readOnly, Parallel: readOnly,
		// A server that says nothing of a tool that changes things may well destroy
		// some, says the protocol.
		Destructive: !readOnly && (destructive || !said),
	}}
	openWorld, _ := decode[bool](hints["openWorldHint"])
	d.hints = contract.Offer{Name: raw, Description: d.spec.Description, ReadOnly: readOnly, Destructive: destructive, OpenWorld: openWorld}
	meta, _ := decode[members](m["_meta"])
	if most, ok := decode[int](meta["anthropic/maxResultSizeChars"]); ok && most > 0 {
		d.most = min(most, 500_000)
	}
	return &listed{raw, d}
}

func (o *offer) showInstructions(text string) {
	if o.close(o.said); text == "" || !o.s.Instructions || o.s.m.sections == nil {
		o.said = nil
		return
	}
	o.said = o.child("instructions")
	whole := fmt.Sprintf("The MCP server %q says about its tools (%s…):\n%s", o.s.name, "mcp__"+o.s.public+"__", text)
	if err := o.s.m.sections.Register(o.said, "mcp "+o.s.name, func(prompt.Facts) string { return whole }); err != nil {
		o.s.log.Warn("the instructions of an mcp server are left out", "error", err)
	}
}

// remoteTool is a tool of a server. It implements tool.Tool, and stays what it
// is when the server comes back or changes its list.
type remoteTool struct {
	s         *server
	raw, name string
	owner     *kernel.Owner
	def       atomic.Pointer[definition]
}

// Name gives the name without the rest.
func (t *remoteTool) Name() string { return t.name }

// Spec implements tool.Tool.
func (t *remoteTool) Spec() tool.Spec {
	def := t.def.Load()
	spec := def.spec
	spec.MaxText = t.s.m.mostText(def.most)
	return spec
}

// deathWait is how long a connection may take to notice that it has ended.
const deathWait = 300 * time.Millisecond

// Names of the errors that programs are told.
const (
	errorName        = "McpError"
	codeNotConnected = "MCP_NOT_CONNECTED"
	codeLost         = "MCP_CONNECTION_LOST"
	codeTimeout      = "MCP_TIMEOUT"
	codeAnswer       = "MCP_ERROR_ANSWER"
	codeResult       = "MCP_TOOL_ERROR"
)

// Call implements tool.Tool. It makes the call once, whatever happens (case
// B37).
func (t *remoteTool) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	def := t.def.Load()
	arguments, err := def.own(in.Arguments)
	if err != nil {
		return tool.Result{}, fmt.Errorf("read the arguments: %w", err)
	}
	c, err := t.s.connected(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		return tool.ErrorResult(errorName, codeNotConnected, fmt.Sprintf("Error: the MCP server %q did not get this call: %v", t.s.name, err)), nil
	}
	limit := or(t.s.Timeout, t.s.m.config.Load().Timeout)
	timed, token, end := c.begin(ctx, in.SessionID, limit, in.Progress)
	defer end()
	r := &request{Name: t.raw, Arguments: arguments}
	r.Meta = sdk.Meta{"progressToken": token, "claudecode/toolUseId": in.CallID}
	data, err := c.request(timed, methodCallTool, r)
	if err != nil {
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		return t.s.failed(ctx, c, err), nil
	}
	return t.s.m.result(ctx, in, t.s, def.most, data), nil
}

// failed tells the model why there is no result, and whether the call may have
// run.
func (s *server) failed(ctx context.Context, c *conn, err error) tool.Result {
	var late *timeoutError
	if errors.As(err, &late) {
		return tool.ErrorResult(errorName, codeTimeout, fmt.Sprintf(
			"Error: the MCP server %q gave no sign of life for %v, and the call was cancelled. Whether it has run, or still runs, is not known.", s.name, late.limit))
	}
	if a, ok := isAnswer(err); ok {
		text := fmt.Sprintf("Error: the MCP server %q answered: %s (code %d)", s.name, a.Message, a.Code)
		if len(a.Data) > 0 && string(a.Data) != "null" {
			text += "\n" + string(a.Data)
		}
		return tool.ErrorResult(errorName, codeAnswer, clip(c.target.redact(text), 8<<10))
	}
	if c.hosted != nil {
		shown := c.explain(c.hosted.reason(err))
		if errors.Is(shown, contract.ErrHostClosed) {
			return tool.ErrorResult(errorName, codeLost, fmt.Sprintf(
				"Error: the MCP server %q gave no result: %v. Whether the call has run is not known; it was not made again.", s.name, shown))
		}
		return tool.ErrorResult(errorName, codeAnswer, fmt.Sprintf("Error: the MCP server %q gave no result: %v", s.name, shown))
	}
	// If that was the connection's end, the next call must not meet it again.
	end := c.dead
	if errors.Is(err, errClosing) {
		end = c.lost // it knows better
	}
	shown := c.explain(err)
	select {
	case <-end:
		if errors.Is(err, errClosing) {
			shown = c.why
		}
	case <-time.After(deathWait):
	case <-ctx.Done():
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return tool.ErrorResult(errorName, codeNotConnected, fmt.Sprintf("Error: the MCP server %q did not get this call: %v", s.name, shown))
	}
	if login := (*loginError)(nil); errors.As(shown, &login) {
		c.cancel(login)
		c.end(calm())
		return tool.ErrorResult(errorName, codeNotConnected, fmt.Sprintf("Error: the MCP server %q refused this call: %v", s.name, login))
	}
	return tool.ErrorResult(errorName, codeLost, fmt.Sprintf(
		"Error: the MCP server %q gave no result (%v). Whether the call has run is not known; it was not made again.", s.name, shown))
}

// own gives arguments their server's names.
func (d *definition) own(arguments json.RawMessage) (json.RawMessage, error) {
	if len(d.arguments) == 0 {
		return arguments, nil
	}
	var m members
	if err := wirejson.Unmarshal(arguments, &m); err != nil {
		return nil, err
	}
	for _, given := range slices.Sorted(maps.Keys(d.arguments)) {
		if v, ok := m[given]; ok {
			delete(m, given)
			m[d.arguments[given]] = v
		}
	}
	return wirejson.Marshal(m)
}
