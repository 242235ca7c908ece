package jsonrpc_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/jsonrpc"
	"dsh/sdkproto"
)

// hang is how long a test waits for what must happen.
const hang = time.Minute

// nowhere is a session that is stored nowhere.
type nowhere struct{}

func (nowhere) Append([]session.Record) error { return nil }
func (nowhere) Sync(context.Context) error    { return nil }
func (nowhere) Close() error                  { return nil }

// fakeRegistry is a registry whose agents answer every prompt with the same
// turn, by the rules of spec jsonrpc 7.
type fakeRegistry struct {
	owner *kernel.Owner
	// step is called in every turn between its start and its end; nil for none.
	step func(ctx context.Context, a *fakeAgent, prompt sdkproto.Message)
	// opening is called in every Open that makes an agent.
	opening func(ctx context.Context, spec agent.Spec) error
	// route is called by CheckRoute.
	route func(llm.Route) error

	mu     sync.Mutex
	agents map[string]*fakeAgent
	specs  []agent.Spec
	watch  []func(agent.Agent, agent.Spec)
	closed bool
}

func (r *fakeRegistry) Open(ctx context.Context, spec agent.Spec, mode agent.Mode) (agent.Agent, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, agent.ErrClosing
	}
	if a, ok := r.agents[spec.ID]; ok {
		return a, nil
	}
	if mode == agent.OpenResume {
		return nil, fmt.Errorf("open session %s: %w", spec.ID, session.ErrNotFound)
	}
	if r.opening != nil {
		if err := r.opening(ctx, spec); err != nil {
			return nil, err
		}
	}
	a := &fakeAgent{r: r, log: session.NewLog(session.Header{ID: spec.ID, CWD: spec.CWD}, nowhere{}, 0, 0), status: sdkproto.StatusIdle}
	r.agents[spec.ID] = a
	r.specs = append(r.specs, spec)
	for _, f := range r.watch {
		f(a, spec)
	}
	return a, nil
}

func (r *fakeRegistry) Get(id string) (agent.Agent, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.agents[id]
	return a, ok
}

func (r *fakeRegistry) Close(_ context.Context, id string, _ agent.Cause) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.agents, id)
	return nil
}

func (r *fakeRegistry) CheckRoute(route llm.Route) (llm.Route, error) {
	if r.route != nil {
		return route, r.route(route)
	}
	if route.Provider != "scripted" {
		return route, &llm.NoAdapterError{Provider: route.Provider, Known: []string{"scripted"}}
	}
	return route, nil
}

func (r *fakeRegistry) CheckTools(*tool.Filter) error { return nil }

func (r *fakeRegistry) Events(context.Context, string, int64, func(*session.Record) error) error {
	return session.ErrNotFound
}

func (r *fakeRegistry) Watch(_ *kernel.Owner, fn func(agent.Agent, agent.Spec)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watch = append(r.watch, fn)
	return nil
}

func (r *fakeRegistry) List(context.Context, string) ([]session.Header, error) { return nil, nil }
func (r *fakeRegistry) Delete(context.Context, string) error                   { return nil }

func (r *fakeRegistry) opened() []agent.Spec {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]agent.Spec(nil), r.specs...)
}

// quiesce cancels what runs and waits for its end.
func (r *fakeRegistry) quiesce(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	agents := make([]*fakeAgent, 0, len(r.agents))
	for _, a := range r.agents {
		agents = append(agents, a)
	}
	r.mu.Unlock()
	for _, a := range agents {
		a.Cancel(agent.Cause{Kind: sdkproto.AbortDisposed}, "")
		if err := a.WhenIdle(ctx); err != nil {
			return err
		}
	}
	return nil
}

type fakeAgent struct {
	r   *fakeRegistry
	log *session.Log

	mu     sync.Mutex
	status sdkproto.Status
	queue  []sdkproto.Message
	sent   int
	turn   int
	cancel context.CancelFunc
	idle   chan struct{}
}

func (a *fakeAgent) Spec() agent.Spec      { return agent.Spec{ID: a.ID()} }
func (a *fakeAgent) Life() context.Context { return context.Background() }
func (a *fakeAgent) ID() string            { return a.log.Header().ID }
func (a *fakeAgent) Log() *session.Log     { return a.log }

func (a *fakeAgent) Status() sdkproto.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

func (a *fakeAgent) turnNumber() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.turn
}

func (a *fakeAgent) append(typ string, data any) int64 {
	seq, err := a.log.Append(session.Draft{Type: typ, Data: data, Time: 1})
	if err != nil {
		panic(err)
	}
	return seq
}

func (a *fakeAgent) Send(ctx context.Context, content []sdkproto.Block, source sdkproto.Source, target string) (string, error) {
	r := a.Post(agent.Message{Content: content, Source: source, Target: target})[0]
	return r.ID, r.Wait(ctx)
}

func (a *fakeAgent) Post(messages ...agent.Message) []agent.Receipt {
	a.mu.Lock()
	defer a.mu.Unlock()
	receipts := make([]agent.Receipt, len(messages))
	for i, m := range messages {
		receipts[i] = a.post(m)
	}
	return receipts
}

func (a *fakeAgent) post(msg agent.Message) agent.Receipt {
	a.r.mu.Lock()
	closed := a.r.closed
	a.r.mu.Unlock()
	if closed {
		return agent.Receipt{Err: agent.ErrClosing}
	}
	a.sent++
	m := sdkproto.Message{Content: msg.Content, Source: msg.Source, Role: sdkproto.RoleUser, ID: fmt.Sprintf("%s-m%d", a.ID(), a.sent)}
	seq := a.append(sdkproto.TypeAgentInboxSpliced, sdkproto.AgentInboxSpliced{Target: msg.Target, Start: len(a.queue), Inserted: []sdkproto.Message{m}})
	a.queue = append(a.queue, m)
	if a.status == sdkproto.StatusIdle {
		a.status = sdkproto.StatusRunning
		a.idle = make(chan struct{})
		a.log.Signal(a.status)
		a.r.owner.Go("turns", a.run)
	}
	return agent.NewReceipt(m.ID, seq, func(context.Context) error { return nil })
}

func (a *fakeAgent) run(ctx context.Context) {
	for {
		a.mu.Lock()
		if len(a.queue) == 0 {
			a.status = sdkproto.StatusIdle
			a.log.Signal(a.status)
			close(a.idle)
			a.mu.Unlock()
			return
		}
		m := a.queue[0]
		a.queue = a.queue[1:]
		a.turn++
		turn := a.turn
		ctx, cancel := context.WithCancel(ctx)
		a.cancel = cancel
		a.append(sdkproto.TypeTurnStart, sdkproto.TurnStart{Turn: turn})
		a.append(sdkproto.TypeAgentInboxSpliced, sdkproto.AgentInboxSpliced{Target: sdkproto.TargetNextTurn, RemovedCount: 1, Inserted: []sdkproto.Message{}})
		a.mu.Unlock()
		if a.r.step != nil {
			a.r.step(ctx, a, m)
		}
		reason := sdkproto.TurnEndReason{Kind: sdkproto.EndCompleted}
		if ctx.Err() != nil {
			reason = sdkproto.TurnEndReason{Kind: sdkproto.EndAborted, Reason: &sdkproto.AbortReason{Kind: sdkproto.AbortDisposed}}
		}
		a.append(sdkproto.TypeTurnEnd, sdkproto.TurnEnd{Turn: turn, Reason: reason})
		cancel()
	}
}

func (a *fakeAgent) Cancel(agent.Cause, string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue = nil
	if a.status == sdkproto.StatusIdle {
		return false
	}
	if a.cancel != nil {
		a.cancel()
	}
	return true
}

func (a *fakeAgent) Reroute(llm.Route) error { return errors.ErrUnsupported }

func (a *fakeAgent) WhenIdle(ctx context.Context) error {
	a.mu.Lock()
	idle := a.idle
	a.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// chunk streams one delta, as a loop does it.
func (a *fakeAgent) chunk(ctx context.Context, text string) bool {
	if a.log.Room(ctx) != nil {
		return false
	}
	a.append(sdkproto.TypeAssistantChunk, sdkproto.AssistantChunk{Turn: 1, Step: 1, Chunk: sdkproto.Chunk{Type: sdkproto.ChunkTextDelta, Text: text}})
	return true
}

// peer is the client's side of a server.
type peer struct {
	t     *testing.T
	in    *io.PipeWriter
	out   *io.PipeReader
	lines chan string
	exit  chan int
	stop  func()

	owner  *kernel.Owner // of the process
	row    *kernel.Owner // of the server
	root   *kernel.Root
	ready  *kernel.Ready
	agents *fakeRegistry
	logs   *logs
}

type logs struct {
	mu sync.Mutex
	sb strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sb.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sb.String()
}

type setup struct {
	limits jsonrpc.Limits
	ready  bool
	// deaf makes a client that does not read.
	deaf bool
	// agents stands in for the fake ones.
	agents  func(p *peer) agent.Registry
	mounter kernel.Mounter
	// options are further ones of the server.
	options func(*jsonrpc.Options)
}

func serve(t *testing.T, s setup, edit ...func(*fakeRegistry)) *peer {
	t.Helper()
	p := &peer{t: t, lines: make(chan string, 1<<16), exit: make(chan int, 4), logs: &logs{}}
	p.owner = kernel.NewOwner(context.Background(), "process")
	p.row = p.owner.Child("rpc")
	p.root = kernel.NewRoot(p.owner)
	log := slog.New(slog.NewTextHandler(p.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if s.ready {
		p.ready = kernel.NewReady(p.owner, log)
	}
	var agents agent.Registry
	if s.agents != nil {
		agents = s.agents(p)
	} else {
		p.agents = &fakeRegistry{owner: p.owner.Child("agents"), agents: map[string]*fakeAgent{}}
		for _, f := range edit {
			f(p.agents)
		}
		p.root.OnQuiesce(p.agents.owner, "agents", kernel.QuiesceLimit, p.agents.quiesce)
		agents = p.agents
	}
	var inR *io.PipeReader
	var outW *io.PipeWriter
	inR, p.in = io.Pipe()
	p.out, outW = io.Pipe()
	options := jsonrpc.Options{
		Agents: agents, Owner: p.row, Root: p.root, Ready: p.ready, In: inR, Out: outW,
		Exit: func(code int) { p.exit <- code }, Log: log, Limits: s.limits, Mounter: s.mounter,
	}
	if s.options != nil {
		s.options(&options)
	}
	server := jsonrpc.New(options)
	if err := server.Serve(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	if s.deaf {
		close(done)
		close(p.lines)
	} else {
		go func() {
			defer close(done)
			defer close(p.lines)
			r := bufio.NewReader(p.out)
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				p.lines <- strings.TrimSuffix(line, "\n")
			}
		}()
	}
	p.stop = sync.OnceFunc(func() {
		p.in.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		defer cancel()
		if s.deaf {
			p.out.Close()
		}
		if err := p.owner.Close(ctx); err != nil {
			t.Logf("close: %v", err)
		}
		outW.Close()
		<-done
	})
	t.Cleanup(p.stop)
	return p
}

func (p *peer) send(lines ...string) {
	p.t.Helper()
	p.write(strings.Join(lines, "\n") + "\n")
}

func (p *peer) write(s string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, s); err != nil {
		p.t.Fatal(err)
	}
}

// next gives the next line the server wrote.
func (p *peer) next() string {
	p.t.Helper()
	select {
	case l, ok := <-p.lines:
		if !ok {
			p.t.Fatal("the output ended")
		}
		return l
	case <-time.After(hang):
		p.t.Fatalf("no line within %v; log:\n%s", hang, p.logs)
		return ""
	}
}

// answer gives the answer to an id, and what came before it.
func (p *peer) answer(id string) (answer string, before []string) {
	p.t.Helper()
	for {
		l := p.next()
		if strings.HasPrefix(l, `{"jsonrpc":"2.0","id":`+id+`,`) {
			return l, before
		}
		before = append(before, l)
	}
}

// until reads to the first line that contains a text, and gives all lines.
func (p *peer) until(text string) []string {
	p.t.Helper()
	var all []string
	for {
		all = append(all, p.next())
		if strings.Contains(all[len(all)-1], text) {
			return all
		}
	}
}

// ended waits for the exit, ends the process, and gives the code and the lines
// that were left.
func (p *peer) ended() (code int, rest []string) {
	p.t.Helper()
	select {
	case code = <-p.exit:
	case <-time.After(hang):
		p.t.Fatalf("no exit within %v; log:\n%s", hang, p.logs)
	}
	p.stop()
	for l := range p.lines {
		rest = append(rest, l)
	}
	return code, rest
}

const initialize = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"cwd":"/w","provider":"scripted","model":"m"}}`

const initialized = `{"jsonrpc":"2.0","id":"i","result":{"serverInfo":{"name":"deepseek-harness-sdk-runtime","version":"0.0.1"}}}`

func prompt(id, session, text string) string {
	s, _ := json.Marshal(session)
	b, _ := json.Marshal(text)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"session/prompt","params":{"sessionId":%s,"contentBlocks":[{"type":"text","text":%s}]}}`, id, s, b)
}

func (p *peer) begin() {
	p.t.Helper()
	p.send(initialize)
	if got := p.next(); got != initialized {
		p.t.Fatalf("initialize answered %s", got)
	}
}

// kinds gives the types of the events and the statuses among lines.
func kinds(t *testing.T, lines []string) []string {
	t.Helper()
	var out []string
	for _, l := range lines {
		var f struct {
			Method string
			Params struct {
				Status string
				Event  struct{ Type string }
			}
		}
		if err := json.Unmarshal([]byte(l), &f); err != nil {
			t.Fatalf("not a frame: %s", l)
		}
		switch f.Method {
		case sdkproto.NotifySessionEvent:
			out = append(out, f.Params.Event.Type)
		case sdkproto.NotifySessionStatus:
			out = append(out, f.Params.Status)
		}
	}
	return out
}
