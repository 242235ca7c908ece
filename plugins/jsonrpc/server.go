// Package jsonrpc is the front end of the dsh SDK protocol: one JSON-RPC object
// a line, requests on the input, answers and notifications on the output (spec
// jsonrpc 1, 2 and 7).
//
// A Server needs an agent registry and nothing else (S104). It works without
// the kernel's loader, on any pair of streams (S114, S121):
//
//	s := jsonrpc.New(jsonrpc.Options{Agents: agents, Owner: owner, In: in, Out: out, Exit: exit})
//	err := s.Serve()
//
// Beyond the plain protocol it offers the additive extensions of spec jsonrpc
// 13.3; their types and rules are in dsh/sdkproto. A client that asks for none
// sees the plain protocol, byte for byte:
//
//   - initialize.params.protocolVersion asks for more members in the answer to
//     initialize and for data in errors; capabilities.notifications for
//     session.prompt.finished, session.usage, session.tree-status and
//     runtime.heartbeat; capabilities.chunks false leaves assistant/chunk out.
//     What the last good handshake asked for holds.
//   - capabilities.approvals lets the server ask the client whether a tool call
//     may run, by the request approval/request; approval/cancelled takes one
//     back. Without a desk of approvals among the rows nothing is asked.
//   - session/cancel, close, list, resume, events, wait, steer, ping and
//     runtime/status always answer. Requests about one session, but for events
//     and wait, are done in the order in which they came.
//
// An image that comes with its bytes is kept by the attachment store of the
// composition and is a reference from then on; without one it is refused.
package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/attachment"
	"dsh/kernel/mcp"
	"dsh/kernel/process"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
	"dsh/sdkproto/ndjson"
)

// Options is what a Server is made of.
type Options struct {
	Agents agent.Registry
	// Owner owns all that the server starts. Closing it stops the serving and
	// nothing else: the process and the sessions go on (S118).
	Owner *kernel.Owner
	// Root is brought to rest by shutdown and at the end of input; nil for a root
	// of the server's own.
	Root *kernel.Root
	// Ready holds back the answer to initialize; nil holds back nothing.
	Ready *kernel.Ready
	In    io.Reader
	Out   io.Writer
	// Exit ends the process with a code, after everything came to rest and was
	// written; nil is Root's.
	Exit   func(code int)
	Log    *slog.Logger
	Limits Limits
	// Tools restricts every session the server makes, and their descendants; nil
	// restricts nothing. It is checked when a session is made (S111 to S113).
	Tools *tool.Filter
	// MaxTokensAsSuccess lets subagent.finished call a subagent that came to its
	// output limit ok (S110).
	MaxTokensAsSuccess bool
	// Mounter starts the DeepSeek adapter when it is asked for and nobody has
	// registered one; nil starts nothing (S108, S142).
	Mounter kernel.Mounter
	// Attachments keeps the images of prompts; nil refuses those that come with
	// their bytes (S132).
	Attachments attachment.Store
	// Approvals is where questions about tool calls come from; nil asks nothing.
	// ApprovalTimeout is how long the client may take to answer one; 0 is for ever.
	Approvals       *approval.Desk
	ApprovalTimeout time.Duration
	// MCP and Confiner are what runtime/status tells of; they may be nil.
	MCP      mcp.Servers
	Confiner process.Confiner
}

// Limits bounds what a client can make the server hold. A zero is the default.
type Limits struct {
	// MaxLine is the longest request, in bytes; 300 MiB.
	MaxLine int
	// MaxQueued is how many prompts of one session may wait; 1,000.
	MaxQueued int
	// MaxRequests and MaxBytes bound all requests that wait for an answer; 32,768
	// and 512 MiB. Beyond them nothing is read. One request is always taken.
	MaxRequests, MaxBytes int
	// MaxEntries is how many events may wait to be written before the agents are
	// held up; 1,024.
	MaxEntries int
}

const (
	defaultQueued   = 1000
	defaultRequests = 32 << 10
	defaultBytes    = 512 << 20
	defaultEntries  = 1024
	// maxReaders bounds the requests that read the store at the same time.
	maxReaders = 4
)

func (l Limits) orDefaults() Limits {
	or := func(v *int, d int) {
		if *v < 1 {
			*v = d
		}
	}
	or(&l.MaxLine, ndjson.MaxLine)
	or(&l.MaxQueued, defaultQueued)
	or(&l.MaxRequests, defaultRequests)
	or(&l.MaxBytes, defaultBytes)
	or(&l.MaxEntries, defaultEntries)
	return l
}

// Server serves one client. It is made by New and started once, by Serve.
type Server struct {
	agents agent.Registry
	owner  *kernel.Owner
	root   *kernel.Root
	ready  *kernel.Ready
	in     *source
	out    io.Writer
	exit   func(int)
	log    *slog.Logger
	limits Limits

	tools              *tool.Filter
	maxTokensAsSuccess bool
	fallback           fallback
	attachments        attachment.Store
	desk               *approval.Desk
	mcp                mcp.Servers
	confiner           process.Confiner

	// methods says who takes the request of a method. A handler runs on the
	// reading goroutine: it must not wait, and answers exactly once.
	methods map[string]func(*request)

	writer *ndjson.Writer
	sub    *session.Subscription
	conn   *jsonrpc2.Conn
	lanes  *lanes
	book   *book
	// agreement is what the client asked for beyond the plain protocol.
	agreement agreement
	questions *questions

	// pending are the requests without an answer, opening those that may be making
	// a session or sending to it.
	pending, opening gauge

	// work ends when new work is refused, stream when no event may be written any
	// more.
	work, stream             context.Context
	refuseWork, refuseEvents context.CancelCauseFunc

	// readers holds a place for each request that reads the store.
	readers chan struct{}

	// handshake is the latest initialize; only the reading goroutine uses it.
	handshake *handshake

	mu      sync.Mutex
	refused bool
	// sessions are those that messages went to, by id.
	sessions map[string]*known

	end ending
}

// errStreamEnd is the cause of the stream's end.
var errStreamEnd = errors.New("nothing is streamed any more")

// New makes a server. Nothing is read or started before Serve.
func New(o Options) *Server {
	s := &Server{
		agents:   o.Agents,
		owner:    o.Owner,
		root:     o.Root,
		ready:    o.Ready,
		in:       &source{r: o.In},
		out:      o.Out,
		exit:     o.Exit,
		log:      o.Log,
		limits:   o.Limits.orDefaults(),
		book:     newBook(o.Agents),
		readers:  make(chan struct{}, maxReaders),
		sessions: map[string]*known{},
		end:      ending{rested: make(chan struct{}), eof: make(chan struct{})},

		tools:              o.Tools,
		maxTokensAsSuccess: o.MaxTokensAsSuccess,
		fallback:           fallback{mounter: o.Mounter, owner: o.Owner},
		attachments:        o.Attachments,
		desk:               o.Approvals,
		mcp:                o.MCP,
		confiner:           o.Confiner,
	}
	s.questions = &questions{s: s, limit: o.ApprovalTimeout, open: map[string]chan reply{}}
	s.lanes = newLanes(o.Owner, s.gathered, s.workLane)
	if s.root == nil {
		s.root = kernel.NewRoot(o.Owner)
	}
	if s.exit == nil {
		s.exit = s.root.Exit
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.work, s.refuseWork = context.WithCancelCause(o.Owner.Context())
	s.stream, s.refuseEvents = context.WithCancelCause(o.Owner.Context())
	s.methods = map[string]func(*request){
		sdkproto.MethodInitialize:    s.initialize,
		sdkproto.MethodSessionPrompt: s.prompt,
		sdkproto.MethodShutdown:      s.shutdown,
		sdkproto.MethodSessionCancel: s.cancel,
		sdkproto.MethodSessionClose:  s.closeSession,
		sdkproto.MethodSessionList:   s.list,
		sdkproto.MethodSessionResume: s.resume,
		sdkproto.MethodSessionEvents: s.events,
		sdkproto.MethodSessionWait:   s.wait,
		sdkproto.MethodSessionSteer:  s.steer,
		sdkproto.MethodPing:          s.ping,
		sdkproto.MethodRuntimeStatus: s.runtimeStatus,
	}
	return s
}

// Serve starts reading and returns. The part of the server that brings the
// process to rest is registered here, behind those of all rows that were made
// before, because it hands on what they write last.
//
// A read of the input cannot be interrupted; the goroutine that reads is not
// the owner's. It ends at the end of the input, or with the first line after
// the owner was closed, or with the process.
func (s *Server) Serve() error {
	s.writer = ndjson.NewWriter(s.out, s.limits.MaxEntries)
	if err := s.owner.OnClose("output", s.closeOutput); err != nil {
		return errors.Join(fmt.Errorf("serve JSON-RPC: %w", err), s.writer.Close(context.Background()))
	}
	stream := &events{
		writer: s.writer, stream: s.stream, book: s.book, asked: s.agreement.get, maxTokensAsSuccess: s.maxTokensAsSuccess, log: s.log,
	}
	s.sub = session.NewSubscription(s.owner, s.log, "jsonrpc", s.limits.MaxEntries, stream.handle)
	if err := s.agents.Watch(s.owner, s.follow); err != nil {
		return fmt.Errorf("serve JSON-RPC: %w", err)
	}
	if s.desk != nil {
		if err := s.desk.Register(s.owner, "jsonrpc", s.questions); err != nil {
			return fmt.Errorf("serve JSON-RPC: %w", err)
		}
	}
	s.root.OnQuiesce(s.owner, "jsonrpc", kernel.FlushLimit, s.quiesce)
	lines := newStream(s)
	s.conn = jsonrpc2.NewConn(s.owner.Context(), lines, lines, jsonrpc2.SetLogger(lines))
	s.owner.Go("end of serving", s.watch)
	return nil
}

// follow streams the events of an agent, whoever made it (decision D13).
func (s *Server) follow(a agent.Agent, spec agent.Spec) {
	s.book.open(a, spec)
	a.Log().Subscribe(s.sub)
	if a.Status() == sdkproto.StatusRunning {
		s.book.live(a)
	}
}

// closeOutput writes what is queued, unless the end of the process has already
// waited for that.
func (s *Server) closeOutput(ctx context.Context) error {
	limit := kernel.FlushLimit
	if isClosed(s.root.Quiescing()) {
		limit = shortLimit
	}
	ctx, cancel := within(ctx, limit)
	defer cancel()
	return s.writer.Close(ctx)
}

// admit makes room for a request, and reports false when there will be none.
func (s *Server) admit(r *request) bool {
	fits := func(count, bytes int) bool {
		return count == 0 || count < s.limits.MaxRequests && bytes+r.size <= s.limits.MaxBytes
	}
	if !s.pending.allows(fits) {
		s.in.stall(true) // what is dispatched must not wait for what is not read
		defer s.in.stall(false)
		if s.pending.await(s.work, fits) != nil {
			return false
		}
	}
	s.pending.add(r.size)
	return true
}

// dispatch hands a request to its method. It runs on the reading goroutine.
func (s *Server) dispatch(r *request) {
	handle, known := s.methods[r.method]
	if !known {
		s.enqueue("", r, func(context.Context) ([]byte, error) {
			return nil, &fault{sdkproto.CodeMethodNotFound, sdkproto.ErrorData{Code: sdkproto.ErrMethodNotFound},
				"unknown DeepSeek Harness SDK runtime method: " + clip(r.method)}
		})
		return
	}
	handle(r)
}

// clip keeps a text that is echoed from filling the wire.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// spawn answers a request from a goroutine of its own.
func (s *Server) spawn(name string, r *request, f func(context.Context) ([]byte, error)) {
	s.owner.Go(name, func(ctx context.Context) { s.serve(ctx, r, f) })
}

// enqueue answers a request in its lane: the session's, or "" for answers that
// are ready and must only not hold up the reading.
func (s *Server) enqueue(lane string, r *request, f func(context.Context) ([]byte, error)) {
	s.push(lane, r, task{run: func(ctx context.Context) { s.serve(ctx, r, f) }})
}

// push puts a request into its lane, or answers that there is no room.
func (s *Server) push(lane string, r *request, t task) {
	most := s.limits.MaxQueued
	if lane == "" {
		most = 0
	}
	t.read = s.in.current()
	if !s.lanes.push(lane, most, t) {
		s.enqueue("", r, func(context.Context) ([]byte, error) {
			return nil, fmt.Errorf("session %q: %w; wait for the answers to some of the %d", clip(lane), agent.ErrInboxFull, most)
		})
	}
}

// gathered waits until all that came with a request is in its lane.
func (s *Server) gathered(ctx context.Context, t task) {
	// Without it the requests are only done one by one.
	_ = s.in.handled(ctx, t.read)
}

// serve runs f and answers with the JSON object or the error that it returns.
func (s *Server) serve(ctx context.Context, r *request, f func(context.Context) ([]byte, error)) {
	defer s.pending.done(r.size)
	result, err := s.contain(r.method, func() ([]byte, error) { return f(ctx) })
	var frame []byte
	if err != nil {
		frame = appendError(nil, r.id, wireError(err, r.details || s.agreement.get().details))
	} else {
		frame = appendResult(nil, r.id, result)
	}
	if ctx.Err() != nil {
		return // the server was unloaded, it answers no more (S118)
	}
	if err := s.writer.Frame(ctx, frame); err != nil {
		s.log.Debug("an answer was not written", "method", clip(r.method), "error", err)
	}
}

// contain turns a panic of f into an error.
func (s *Server) contain(method string, f func() ([]byte, error)) (result []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			// What was panicked with may quote a message; the runtime's own errors do
			// not.
			what := fmt.Sprintf("%T", p)
			if e, ok := p.(runtime.Error); ok {
				what = e.Error()
			}
			s.log.Error("a request handler panicked", "method", clip(method), "panic", what, "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error in %s; the server's standard error says more", clip(method))
		}
	}()
	return f()
}

// enter begins something that makes or feeds a session, unless new work is
// refused.
func (s *Server) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused {
		return errShutdown
	}
	s.opening.add(0)
	return nil
}

// refuse lets no new work begin.
func (s *Server) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = true
	s.refuseWork(errShutdown)
}

// within is a context for one bounded step.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %v", limit))
}
