package compaction_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/fx"
	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/hook"
	"dsh/kernel/kerneltest"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/agentloop"
	"dsh/plugins/compaction"
	"dsh/plugins/core"
	"dsh/plugins/hooks"
	"dsh/plugins/sessionjsonl"
	"dsh/sdkproto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// narrow is a model that takes no more than a limit, as its provider counts: a
// token for four bytes.
type narrow struct {
	t testing.TB
	// window is what it says of itself, limit what it takes.
	window, limit int64
	// summaryLimit is what it takes of requests for summaries, 0 for the same.
	summaryLimit int64
	// quiet tells no usage.
	quiet bool
	// writes is how it answers a request for a summary; nil writes a good one.
	writes func(ctx context.Context, y yield)

	mu sync.Mutex
	// down answers nothing but summaries.
	down bool
	// calls is how many answers with tool calls it still gives, each with atOnce
	// calls, 0 for one, that have these arguments.
	calls, atOnce int
	arguments     string
	asked         []asked
}

type yield func(sdkproto.Chunk, error) bool

// asked is one request that it got.
type asked struct {
	llm.Request
	size             int64
	summary, refused bool
}

func size(req *llm.Request) int64 {
	n := len(req.Header.System)
	for _, t := range req.Header.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	var count func(blocks []sdkproto.Block)
	count = func(blocks []sdkproto.Block) {
		for _, b := range blocks {
			n += len(b.Text) + len(b.Name) + len(b.Arguments)
			count(b.Content)
		}
	}
	for _, m := range req.Messages {
		count(m.Content)
	}
	return int64(n / 4)
}

func (m *narrow) Resolve(r llm.Route) (llm.Route, sdkproto.AdapterDefaults, llm.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return r, sdkproto.AdapterDefaults{}, llm.Info{ContextWindow: m.window}, nil
}

func (m *narrow) Stream(ctx context.Context, req llm.Request) iter.Seq2[sdkproto.Chunk, error] {
	if err := paired(req.Messages); err != nil {
		m.t.Errorf("a request is not paired: %v", err)
	}
	last := req.Messages[len(req.Messages)-1]
	a := asked{Request: req, size: size(&req), summary: last.Source.Plugin == "compaction" && last.Source.Form == "instructions"}
	m.mu.Lock()
	defer m.mu.Unlock()
	limit := m.limit
	if a.summary && m.summaryLimit > 0 {
		limit = m.summaryLimit
	}
	a.refused = a.size > limit
	m.asked = append(m.asked, a)
	if a.refused {
		return func(y func(sdkproto.Chunk, error) bool) {
			y(sdkproto.Chunk{}, &llm.Error{Code: llm.CodeContextWindow, Status: 400, Message: fmt.Sprintf("the prompt is too long: %d tokens", a.size)})
		}
	}
	usage := &sdkproto.Usage{InputTokens: a.size, OutputTokens: 10}
	if m.quiet {
		usage = nil
	}
	if a.summary {
		writes := m.writes
		return func(y func(sdkproto.Chunk, error) bool) {
			if writes == nil {
				say(y, "GOALS AND STATE of what was taken out", usage, sdkproto.FinishStop)
				return
			}
			writes(ctx, y)
		}
	}
	if m.down {
		return func(y func(sdkproto.Chunk, error) bool) {
			y(sdkproto.Chunk{}, &llm.Error{Code: llm.CodeAuth, Message: "the key is not valid"})
		}
	}
	if m.calls > 0 {
		m.calls--
		var calls []sdkproto.Block
		for i := range max(m.atOnce, 1) {
			calls = append(calls, sdkproto.Block{Type: sdkproto.BlockToolCall, ID: fmt.Sprint("call_", len(m.asked), "_", i), Name: "big", Arguments: m.arguments})
		}
		return func(y func(sdkproto.Chunk, error) bool) {
			for i := range calls[1:] {
				if !y(sdkproto.Chunk{Type: sdkproto.ChunkBlockEnd, Index: i + 1, Block: &calls[i+1]}, nil) {
					return
				}
			}
			finish(y, calls[0], usage, sdkproto.FinishToolCalls)
		}
	}
	words := 1
	for _, msg := range req.Messages {
		if msg.Source.Kind == sdkproto.SourceUser {
			words = 1
			_, _ = fmt.Sscanf(sdkproto.TextOf(msg.Content), "say %d", &words) // another prompt gets one word
		}
	}
	return func(y func(sdkproto.Chunk, error) bool) {
		say(y, strings.Repeat("word", words), usage, sdkproto.FinishStop)
	}
}

func say(y yield, text string, usage *sdkproto.Usage, kind string) {
	finish(y, sdkproto.Text(text), usage, kind)
}

func finish(y yield, b sdkproto.Block, usage *sdkproto.Usage, kind string) {
	if !y(sdkproto.Chunk{Type: sdkproto.ChunkBlockStart, BlockType: b.Type}, nil) {
		return
	}
	if b.Type == sdkproto.BlockText && !y(sdkproto.Chunk{Type: sdkproto.ChunkTextDelta, Text: b.Text}, nil) {
		return
	}
	if !y(sdkproto.Chunk{Type: sdkproto.ChunkBlockEnd, Block: &b}, nil) {
		return
	}
	if usage != nil && !y(sdkproto.Chunk{Type: sdkproto.ChunkUsage, Usage: usage}, nil) {
		return
	}
	y(sdkproto.Chunk{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: kind}}, nil)
}

// take gives the requests since the last take.
func (m *narrow) take() []asked {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.asked
	m.asked = nil
	return a
}

func (m *narrow) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// paired checks that the results of calls follow them directly, in order, and
// that there are no others (case B41).
func paired(messages []sdkproto.Message) error {
	var open []string
	for i, m := range messages {
		for _, b := range m.Content {
			switch {
			case b.Type == sdkproto.BlockToolResult:
				if len(open) == 0 || open[0] != b.ToolCallID {
					return fmt.Errorf("message %d is the result of %s while %q wait", i, b.ToolCallID, open)
				}
				open = open[1:]
			case len(open) > 0 && b.Type != sdkproto.BlockToolCall:
				return fmt.Errorf("message %d stands before the results of %q", i, open)
			case b.Type == sdkproto.BlockToolCall:
				open = append(open, b.ID)
			}
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%q have no results", open)
	}
	return nil
}

// rig is a running profile with one session.
type rig struct {
	t     *testing.T
	model *narrow
	reg   agent.Registry
	store session.Store
	agent agent.Agent
	// router and owner let a test register more.
	router *llm.Router
	owner  *kernel.Owner
	engine hook.Engine
	logs   *logs
	kept   *kerneltest.Booted
	// from is the seq behind what new gave, ended that behind the last turn's end.
	from, ended int64
}

// logs keeps what the product logs.
type logs struct {
	mu sync.Mutex
	sb strings.Builder
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sb.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sb.String()
}

type probe struct {
	fx.In

	Registry agent.Registry
	Store    session.Store
	Router   *llm.Router
	Tools    *tool.Registry
	Hooks    *agent.Hooks
	Engine   hook.Engine
}

// boot starts a profile whose provider narrow is m. config is that of the row
// compaction, "off" is none.
func boot(t *testing.T, m *narrow, home, config string) *rig {
	t.Helper()
	r := &rig{t: t, model: m, logs: &logs{}}
	m.t = t
	row := "  compaction: {use: compaction, config: " + config + "}\n"
	if config == "off" {
		row = "  compaction: {use: compaction, enabled: false}\n"
	}
	plug := kernel.Define("probe", "Gives the test what it needs.", func() struct{} { return struct{}{} },
		func(in kernel.Instance, _ struct{}) fx.Option {
			return fx.Invoke(func(p probe) error {
				r.reg, r.store, r.router, r.owner, r.engine = p.Registry, p.Store, p.Router, in.Owner, p.Engine
				if err := p.Router.Register(in.Owner, "narrow", m); err != nil {
					return err
				}
				if err := p.Hooks.OnContext(in.Owner, 0, "instructions", func(context.Context, agent.Opening) ([]sdkproto.Message, error) {
					return []sdkproto.Message{{
						Content: []sdkproto.Block{sdkproto.Text("INSTRUCTIONS of the folder")},
						Source:  sdkproto.Source{Kind: "agent-instructions", Form: "instructions"},
					}}, nil
				}); err != nil {
					return err
				}
				return p.Tools.Register(in.Owner, big{})
			})
		}, kernel.Needs[agent.Registry](), kernel.Needs[session.Store](), kernel.Needs[*llm.Router](), kernel.Needs[*tool.Registry](), kernel.Needs[*agent.Hooks](), kernel.Needs[hook.Engine]())
	r.kept = kerneltest.Boot(t, kerneltest.Options{
		Profile: "t", Home: home, FS: fstest.MapFS{"t.yaml": {Data: []byte(`
plugins:
  core: {use: core}
  store: {use: session-jsonl}
  loop: {use: agentloop, config: {verifyRequests: true}}
  hooks: {use: hooks}
` + row + `  probe: {use: probe}
`)}},
		Plugins: []kernel.Plugin{core.Plugin, sessionjsonl.Plugin, agentloop.Plugin, compaction.Plugin, hooks.Plugin, plug},
		Log:     slog.New(slog.NewTextHandler(r.logs, nil)),
	})
	r.open()
	return r
}

func (r *rig) open() {
	r.t.Helper()
	var err error
	r.agent, err = r.reg.Open(r.t.Context(), agent.Spec{ID: "s", CWD: "/", Route: llm.Route{Provider: "narrow", Model: "m"}}, agent.OpenAny)
	if err != nil {
		r.t.Fatal(err)
	}
}

// big is a tool whose result has as many tokens as its call says.
type big struct{}

func (big) Spec() tool.Spec {
	return tool.Spec{
		Name: "big", Description: "Gives much.", ReadOnly: true,
		Parameters: json.RawMessage(`{"type":"object","properties":{"tokens":{"type":"integer"}}}`),
	}
}

func (big) Call(_ context.Context, in tool.Invocation) (tool.Result, error) {
	var p struct {
		Tokens int `json:"tokens"`
	}
	if err := json.Unmarshal(in.Arguments, &p); err != nil {
		return tool.Result{}, err
	}
	return tool.TextResult("BEGIN " + strings.Repeat("data", p.Tokens) + " END"), nil
}

// prompt runs one turn and gives how it ended.
func (r *rig) prompt(text string) sdkproto.TurnEndReason {
	r.t.Helper()
	if _, err := r.agent.Send(r.t.Context(), []sdkproto.Block{sdkproto.Text(text)}, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn); err != nil {
		r.t.Fatal(err)
	}
	return r.idle()
}

func (r *rig) idle() sdkproto.TurnEndReason {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	if err := r.agent.WhenIdle(ctx); err != nil {
		r.t.Fatal(err)
	}
	var end sdkproto.TurnEndReason
	for _, rec := range r.records(r.ended) {
		if rec.Event.Type == sdkproto.TypeTurnEnd {
			r.ended = rec.Event.Seq + 1
			end = decode[sdkproto.TurnEnd](r.t, rec).Reason
		}
	}
	return end
}

// completes runs one turn that must end well.
func (r *rig) completes(text string) {
	r.t.Helper()
	if end := r.prompt(text); end.Kind != sdkproto.EndCompleted {
		r.t.Fatalf("the turn ended with %s: %+v\n%s", end.Kind, end.Error, r.logs)
	}
}

// records gives the log from a seq on.
func (r *rig) records(from int64) (all []*session.Record) {
	r.t.Helper()
	if err := r.reg.Events(r.t.Context(), "s", from, func(rec *session.Record) error {
		keep := *rec
		all = append(all, &keep)
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	return all
}

// new gives the records since the last call of new.
func (r *rig) new() []*session.Record {
	r.t.Helper()
	fresh := r.records(r.from)
	r.from += int64(len(fresh))
	return fresh
}

func decode[T any](t *testing.T, rec *session.Record) T {
	t.Helper()
	v, err := session.Decode[T](rec)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// compactions tells the events of compactions in a few words, and checks their
// form: a bracket is closed, and what must follow at once does (spec jsonrpc
// 5.6).
func compactions(t *testing.T, records []*session.Record) (lines []string) {
	t.Helper()
	open := ""
	for i, rec := range records {
		next := func() *session.Record {
			if i+1 == len(records) {
				t.Fatalf("nothing follows %s", rec.Raw)
			}
			return records[i+1]
		}
		replaced := func(want sdkproto.ShadowedRange, typ string) {
			n := next()
			if got := string(n.Event.SurfaceOp); n.Event.Type != typ || got != fmt.Sprintf(`{"op":"replace","start":%d,"end":%d}`, want.Start, want.End) {
				t.Errorf("behind %s comes %s with %s", rec.Raw, n.Event.Type, got)
			}
		}
		switch rec.Event.Type {
		case sdkproto.TypeCompactionStart:
			s := decode[sdkproto.CompactionStart](t, rec)
			if open != "" || s.CompactionID == "" || s.Turn == nil {
				t.Errorf("while %q is open: %s", open, rec.Raw)
			}
			open = s.CompactionID
			lines = append(lines, "start")
		case sdkproto.TypeCompactionPrune:
			p := decode[sdkproto.CompactionPrune](t, rec)
			replaced(p.ShadowedRange, sdkproto.TypeToolResult)
			lines = append(lines, "prune")
		case sdkproto.TypeCompactionSummary:
			s := decode[sdkproto.CompactionSummary](t, rec)
			replaced(s.ShadowedRange, sdkproto.TypeUserMessage)
			m := decode[sdkproto.Message](t, next())
			if s.CompactionID != open || len(s.ShadowedSeqs) == 0 || s.ShadowedTokenCount <= 0 || s.Provider == "" || s.Model == "" ||
				sdkproto.TextOf(s.Summary) != sdkproto.TextOf(m.Content) || m.Source.Plugin != "compaction" || m.Role != sdkproto.RoleUser || m.ID == "" {
				t.Errorf("a summary in bracket %q: %s\n%s", open, rec.Raw, next().Raw)
			}
			what := "note"
			if strings.Contains(sdkproto.TextOf(s.Summary), "summary stands in its place") {
				what = "summary"
			}
			lines = append(lines, what)
		case sdkproto.TypeCompactionEnd:
			e := decode[sdkproto.CompactionEnd](t, rec)
			if e.CompactionID != open {
				t.Errorf("while %q is open: %s", open, rec.Raw)
			}
			open = ""
			if e.Error != "" {
				lines = append(lines, "end: "+e.Error)
			} else {
				lines = append(lines, "end")
			}
		}
	}
	if open != "" {
		t.Errorf("bracket %s is not closed", open)
	}
	return lines
}

// history gives what the stored log says the model's history is.
func (r *rig) history() []sdkproto.Message {
	r.t.Helper()
	var s session.State
	for _, rec := range r.records(0) {
		if err := s.Apply(rec); err != nil {
			r.t.Fatal(err)
		}
	}
	messages := s.Surface.Messages()
	if err := paired(messages); err != nil {
		r.t.Error(err)
	}
	return messages
}

func (r *rig) usage() session.Usage {
	r.t.Helper()
	var s session.State
	for _, rec := range r.records(0) {
		if err := s.Apply(rec); err != nil {
			r.t.Fatal(err)
		}
	}
	return s.Usage
}
