package agentloop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/kerneltest"
	"dsh/kernel/llm"
	"dsh/kernel/prompt"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/agentloop"
	"dsh/sdkproto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a loop with a model, tools and a store that a test scripts.
type rig struct {
	t        *testing.T
	owner    *kernel.Owner
	root     *kernel.Root
	store    *memStore
	router   *llm.Router
	tools    *tool.Registry
	pipeline *tool.Pipeline
	sections *prompt.Sections
	model    *model
	reg      *agentloop.Registry
	stderr   *kerneltest.Log
	badDisk  bool // closing may fail
}

// newRig makes a loop over a new store. Every request is compared with the log
// and its calls and results are checked to be paired.
func newRig(t *testing.T, change ...func(*agentloop.Params)) *rig {
	return newRigOver(t, newMemStore(), change...)
}

func newRigOver(t *testing.T, store *memStore, change ...func(*agentloop.Params)) *rig {
	t.Helper()
	r := &rig{
		t: t, owner: kernel.NewOwner(context.Background(), "test"), store: store,
		router: llm.NewRouter(), tools: tool.NewRegistry(), pipeline: tool.NewPipeline(), sections: prompt.NewSections(),
		stderr: &kerneltest.Log{},
	}
	r.root = kernel.NewRoot(r.owner)
	r.model = &model{t: t}
	must(t, r.router.Register(r.owner, "fake", r.model))
	p := agentloop.Params{
		Config: agentloop.Defaults(), Store: store, Router: r.router, Tools: r.tools, Pipeline: r.pipeline, Sections: r.sections,
	}
	p.Config.VerifyRequests = true
	p.Instance.Owner, p.Instance.Root = r.owner.Child("loop"), r.root
	p.Instance.Log = slog.New(slog.NewTextHandler(r.stderr, nil))
	for _, f := range change {
		f(&p)
	}
	reg, err := agentloop.New(p)
	must(t, err)
	if err := reg.Register(); err != nil {
		t.Fatal(err)
	}
	r.reg = reg
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := r.owner.Close(ctx); err != nil && !t.Failed() && !r.badDisk {
			t.Errorf("close: %v\n%s", err, r.stderr)
		}
	})
	return r
}

// log is for subscriptions of the test itself.
func (r *rig) log() *slog.Logger { return slog.New(slog.DiscardHandler) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func spec(id string) agent.Spec {
	return agent.Spec{ID: id, CWD: "/srv/dir", Route: llm.Route{Provider: "fake", Model: "m1"}}
}

// open gives an agent with a recorder that hears of it from its first event on.
func (r *rig) open(id string) (agent.Agent, *recorder) {
	r.t.Helper()
	rec := r.record(id, 1<<20)
	a, err := r.reg.Open(r.t.Context(), spec(id), agent.OpenAny)
	must(r.t, err)
	return a, rec
}

func send(t *testing.T, a agent.Agent, text string) string {
	t.Helper()
	id, err := a.Send(t.Context(), []sdkproto.Block{sdkproto.Text(text)}, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func idle(t *testing.T, a agent.Agent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := a.WhenIdle(ctx); err != nil {
		t.Fatal(err)
	}
}

// recorder hears one session.
type recorder struct {
	t   *testing.T
	sub *session.Subscription

	mu      sync.Mutex
	entries []session.Entry
}

// record starts to hear a session; fn of the watcher runs before its first
// event.
func (r *rig) record(id string, bound int) *recorder {
	r.t.Helper()
	rec := &recorder{t: r.t}
	o := r.owner.Child("recorder")
	rec.sub = session.NewSubscription(o, slog.New(slog.DiscardHandler), "recorder", bound, func(_ context.Context, e session.Entry) error {
		rec.mu.Lock()
		defer rec.mu.Unlock()
		rec.entries = append(rec.entries, e)
		return nil
	})
	must(r.t, r.reg.Watch(o, func(a agent.Agent, _ agent.Spec) {
		if a.ID() == id {
			a.Log().Subscribe(rec.sub)
		}
	}))
	return rec
}

// lines gives all that was heard so far, one line an entry.
func (rec *recorder) lines() []string {
	rec.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := rec.sub.Drain(ctx); err != nil {
		rec.t.Fatal(err)
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	var out []string
	for _, e := range rec.entries {
		if e.Record == nil {
			out = append(out, string(e.Status))
		} else {
			out = append(out, line(e.Record))
		}
	}
	return out
}

// types is lines without chunks and requests, which most tests do not look at.
func (rec *recorder) brief() []string {
	rec.t.Helper()
	return slices.DeleteFunc(rec.lines(), func(l string) bool {
		return strings.HasPrefix(l, "chunk") || strings.HasPrefix(l, "request/") || strings.HasPrefix(l, "session/title")
	})
}

func decode[T any](r *session.Record) T {
	// Not from r.Data: what counts is what was encoded.
	bare := session.Record{Event: r.Event}
	v, err := session.Decode[T](&bare)
	if err != nil {
		panic(err)
	}
	return v
}

// line tells an event in a few words.
func line(r *session.Record) string {
	switch typ := r.Event.Type; typ {
	case sdkproto.TypeAgentInboxSpliced:
		s := decode[sdkproto.AgentInboxSpliced](r)
		var texts []string
		for _, m := range s.Inserted {
			texts = append(texts, sdkproto.TextOf(m.Content))
		}
		return strings.TrimSpace(fmt.Sprintf("inbox %s at %d -%d +%q %s", s.Target, s.Start, s.RemovedCount, texts, s.Outcome))
	case sdkproto.TypeTurnStart:
		return fmt.Sprintf("turn/start %d", decode[sdkproto.TurnStart](r).Turn)
	case sdkproto.TypeTurnEnd:
		e := decode[sdkproto.TurnEnd](r)
		s := fmt.Sprintf("turn/end %d %s", e.Turn, e.Reason.Kind)
		if e.Reason.Error != nil {
			s += " " + e.Reason.Error.Code
		}
		if e.Reason.Reason != nil {
			s += " " + e.Reason.Reason.Kind
		}
		return s
	case sdkproto.TypeStepStart:
		s := decode[sdkproto.StepStart](r)
		return fmt.Sprintf("step/start %d.%d", s.Turn, s.Step)
	case sdkproto.TypeStepEnd:
		s := decode[sdkproto.StepEnd](r)
		return fmt.Sprintf("step/end %d.%d", s.Turn, s.Step)
	case sdkproto.TypeUserMessage:
		m := decode[sdkproto.Message](r)
		return "user " + sdkproto.TextOf(m.Content)
	case sdkproto.TypeAssistantChunk:
		c := decode[sdkproto.AssistantChunk](r).Chunk
		s := "chunk " + c.Type
		if c.Reason != nil {
			s += " " + c.Reason.Kind
		}
		return s
	case sdkproto.TypeAssistantMessage:
		m := decode[sdkproto.AssistantMessage](r)
		s := "assistant"
		for _, b := range m.Message.Content {
			switch b.Type {
			case sdkproto.BlockToolCall:
				s += " " + b.Name + "#" + b.ID
			case sdkproto.BlockReasoning:
				s += " (" + b.Text + ")"
			default:
				s += " " + b.Text
			}
		}
		if m.Interrupted {
			s += " INTERRUPTED"
		}
		return s
	case sdkproto.TypeToolCall:
		c := decode[sdkproto.ToolCall](r)
		return fmt.Sprintf("tool/call %s#%s", c.Name, c.CallID)
	case sdkproto.TypeToolResult:
		res := decode[sdkproto.ToolResult](r)
		s := "tool/result #" + res.Message.Source.CallID
		if res.Error != nil {
			return s + " " + res.Error.Code
		}
		return s + " " + sdkproto.TextOf(res.Message.Content[0].Content)
	case sdkproto.TypeRequestHeader:
		return "request/header " + decode[sdkproto.RequestHeader](r).Reason
	case sdkproto.TypeRequestPrefix:
		s := typ
		for _, c := range decode[sdkproto.RequestPrefix](r).Changes {
			s += fmt.Sprintf("; %s %s (%s)", c.Part, c.Detail, c.By)
		}
		return s
	case sdkproto.TypeLLMRetry:
		l := decode[sdkproto.LLMRetry](r)
		return fmt.Sprintf("llm/retry %d %s", l.Retry, l.PolicyKey)
	case sdkproto.TypeLLMRetryStarted:
		return fmt.Sprintf("llm/retry-started %d", decode[sdkproto.LLMRetryStarted](r).Retry)
	case sdkproto.TypeSessionTitle:
		return "session/title " + decode[sdkproto.SessionTitle](r).Title
	default:
		return typ
	}
}

// yield hands on one pair of an answer; it reports whether more is wanted.
type yield func(sdkproto.Chunk, error) bool

// model answers by calling reply, in the order of the requests.
type model struct {
	t *testing.T

	mu       sync.Mutex
	reply    func(ctx context.Context, n int, req llm.Request, y yield)
	resolve  func(llm.Route) (llm.Route, sdkproto.AdapterDefaults, llm.Info, error)
	requests []llm.Request
}

func (m *model) Resolve(r llm.Route) (llm.Route, sdkproto.AdapterDefaults, llm.Info, error) {
	m.mu.Lock()
	resolve := m.resolve
	m.mu.Unlock()
	if resolve != nil {
		return resolve(r)
	}
	return r, sdkproto.AdapterDefaults{}, llm.Info{ContextWindow: 1000}, nil
}

func (m *model) Stream(ctx context.Context, req llm.Request) iter.Seq2[sdkproto.Chunk, error] {
	if err := paired(req.Messages); err != nil {
		m.t.Errorf("request %+v: %v", req.Messages, err)
	}
	m.mu.Lock()
	m.requests = append(m.requests, req)
	n, reply := len(m.requests), m.reply
	m.mu.Unlock()
	return func(y func(sdkproto.Chunk, error) bool) {
		if reply == nil {
			say(y, "ok")
			return
		}
		reply(ctx, n, req, y)
	}
}

// on sets how the model answers; n counts its requests from 1.
func (m *model) on(reply func(ctx context.Context, n int, req llm.Request, y yield)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reply = reply
}

func (m *model) asked() []llm.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// paired checks that every call is followed directly by its result, once and in
// order, and that there is no other result (case B41).
func paired(msgs []sdkproto.Message) error {
	var open []string
	for i, m := range msgs {
		for _, b := range m.Content {
			switch {
			case b.Type == sdkproto.BlockToolResult:
				if len(open) == 0 || open[0] != b.ToolCallID {
					return fmt.Errorf("message %d: result of %q, open are %q", i, b.ToolCallID, open)
				}
				open = open[1:]
			case len(open) > 0 && m.Role == sdkproto.RoleUser, len(open) > 0 && b.Type != sdkproto.BlockToolCall:
				return fmt.Errorf("message %d comes before the results of %q", i, open)
			case b.Type == sdkproto.BlockToolCall:
				open = append(open, b.ID)
			}
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("no results of %q", open)
	}
	return nil
}

func lastUserText(req llm.Request) string {
	for _, m := range slices.Backward(req.Messages) {
		if m.Source.Kind == sdkproto.SourceUser {
			return sdkproto.TextOf(m.Content)
		}
	}
	return ""
}

// results gives the texts of the tool results at the end of a request.
func results(req llm.Request) (texts []string) {
	for _, m := range slices.Backward(req.Messages) {
		if m.Source.Kind != sdkproto.SourceTool {
			break
		}
		texts = append([]string{sdkproto.TextOf(m.Content[0].Content)}, texts...)
	}
	return texts
}

func begin(y yield, index int, kind string) bool {
	return y(sdkproto.Chunk{Type: sdkproto.ChunkBlockStart, Index: index, BlockType: kind}, nil)
}

func text(y yield, index int, s string) bool {
	return y(sdkproto.Chunk{Type: sdkproto.ChunkTextDelta, Index: index, Text: s}, nil)
}

func end(y yield, index int, b sdkproto.Block) bool {
	return y(sdkproto.Chunk{Type: sdkproto.ChunkBlockEnd, Index: index, Block: &b}, nil)
}

func finish(y yield, kind string) bool {
	return y(sdkproto.Chunk{Type: sdkproto.ChunkUsage, Usage: &sdkproto.Usage{InputTokens: 3, OutputTokens: 2}}, nil) &&
		y(sdkproto.Chunk{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: kind}}, nil)
}

// say is a whole answer of one text.
func say(y yield, s string) bool {
	return begin(y, 0, sdkproto.BlockText) && text(y, 0, s) && end(y, 0, sdkproto.Text(s)) && finish(y, sdkproto.FinishStop)
}

func callBlock(id, name, args string) sdkproto.Block {
	return sdkproto.Block{Type: sdkproto.BlockToolCall, ID: id, Name: name, Arguments: args}
}

// ask is a whole answer that calls tools.
func ask(y yield, calls ...sdkproto.Block) bool {
	for i, c := range calls {
		if !begin(y, i, sdkproto.BlockToolCall) ||
			!y(sdkproto.Chunk{Type: sdkproto.ChunkToolCallDelta, Index: i, ID: c.ID, Name: c.Name, ArgumentsDelta: c.Arguments}, nil) {
			return false
		}
	}
	for i, c := range calls {
		if !end(y, i, c) {
			return false
		}
	}
	return finish(y, sdkproto.FinishToolCalls)
}

func fails(y yield, code string) bool {
	return y(sdkproto.Chunk{}, &llm.Error{Code: code, Message: "scripted " + code, Status: 500})
}

// fakeTool is a tool made of functions.
type fakeTool struct {
	spec tool.Spec
	call func(ctx context.Context, in tool.Invocation) (tool.Result, error)
}

func (f *fakeTool) Spec() tool.Spec { return f.spec }

func (f *fakeTool) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	return f.call(ctx, in)
}

// tool registers a tool. flags holds p for parallel and r for read-only.
func (r *rig) tool(name, flags string, call func(ctx context.Context, in tool.Invocation) (tool.Result, error)) *fakeTool {
	r.t.Helper()
	f := &fakeTool{spec: tool.Spec{
		Name: name, Description: "does " + name, Parameters: json.RawMessage(`{"type": "object"}`),
		Parallel: strings.Contains(flags, "p"), ReadOnly: strings.Contains(flags, "r"),
	}, call: call}
	must(r.t, r.tools.Register(r.owner, f))
	return f
}

// echo answers with its arguments.
func echo(_ context.Context, in tool.Invocation) (tool.Result, error) {
	return tool.TextResult(string(in.Arguments)), nil
}

// whole checks that a stored log is in order: contiguous, every bracket closed,
// every call with one result.
func whole(t *testing.T, records []*session.Record) {
	t.Helper()
	var state session.State
	var last int64
	for i, r := range records {
		if r.Event.Seq != int64(i) {
			t.Errorf("event %d has seq %d", i, r.Event.Seq)
		}
		if r.Event.Time < last {
			t.Errorf("event %d goes back in time", i)
		}
		last = r.Event.Time
		if err := state.Apply(r); err != nil {
			t.Error(err)
		}
	}
	if b := state.Brackets; b.TurnOpen || b.StepOpen || len(b.Calls) > 0 {
		t.Errorf("the log ends with open brackets: %+v", b)
	}
	if err := paired(state.Surface.Messages()); err != nil {
		t.Error(err)
	}
}
