// Package streamjson is the front end of the stream-json wire: lines of JSON
// between a host program, usually a Claude Agent SDK, and the harness (spec
// stream-json 1 to 4).
//
// One process is one session. The front end holds the queue of user messages and
// hands the agent one at a time; the next one only after the result of the one
// before is written, so that every message has exactly one result (case B80).
//
// Who does what:
//
//   - the reader parses standard input and never waits for work: answers go to
//     package host, user messages into the queue, requests into a lane;
//   - the lanes answer the host's control requests in order; interrupt and
//     cancel_async_message have one of their own, so that nothing holds them up;
//   - the runner opens the session, takes messages from the queue, and ends the
//     process;
//   - the subscription follows the session's log, lets package project make lines
//     of it, and writes the result that ends a turn.
//
// Everything goes through one writer with a bounded queue; no lock is held while
// somebody waits for it.
package streamjson

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/attachment"
	"dsh/kernel/checkpoint"
	"dsh/kernel/command"
	"dsh/kernel/compaction"
	"dsh/kernel/content"
	"dsh/kernel/hook"
	"dsh/kernel/job"
	"dsh/kernel/llm"
	"dsh/kernel/mcp"
	"dsh/kernel/session"
	"dsh/kernel/settings"
	"dsh/kernel/tool"
	"dsh/plugins/streamjson/host"
	"dsh/plugins/streamjson/project"
	"dsh/plugins/streamjson/structured"
	"dsh/sdkproto/ndjson"
	"dsh/sdkproto/streamjson"
)

// Options is what a Server is made of.
type Options struct {
	Config Config
	Agents agent.Registry
	Models llm.Models
	Tools  *tool.Registry
	Router *llm.Router
	// Owner owns all that the server starts; Root is asked for the end of the
	// process, and Ready holds back the answer to initialize.
	Owner *kernel.Owner
	Root  *kernel.Root
	Ready *kernel.Ready
	Log   *slog.Logger
	// In and Out are the wire, Err takes what is for people.
	In       io.Reader
	Out, Err io.Writer

	// The rest may be nil: then there is nothing of its kind.

	// Unread reports whether nobody can read Out any more.
	Unread      func() bool
	Definitions *agent.Definitions
	Turns       *agent.Hooks
	Commands    *command.Registry
	Desk        *approval.Desk
	Policy      approval.Policy
	Hooks       hook.Engine
	MCP         mcp.Servers
	Images      attachment.Store
	Settings    settings.Source
	Compactor   compaction.Compactor
	Checkpoints checkpoint.Keeper
	Jobs        *job.Board
	Content     content.Source
	Styles      content.Styles
	// Reload starts what has changed of the profile and of the plugins that are
	// programs.
	Reload func(context.Context) (changed []string, err error)
}

const (
	// maxFrames is how many lines may wait to be written, and maxEntries how many
	// events before the agents are held up.
	maxFrames  = 1024
	maxEntries = 1024
	// maxRequests is how many control requests may wait in a lane before reading
	// stops.
	maxRequests = 256
)

// Server serves one client. It is made by New and started once, by Serve.
type Server struct {
	Options
	cwd    string
	host   *host.Host
	writer *ndjson.Writer
	sub    *session.Subscription
	view   view
	told   notices
	// transcripts are the files that the SDKs read.
	transcripts *transcripts
	// output is the structured output of the turns.
	output *structured.Output
	// following: the session's requests are remembered for suggestions.
	following atomic.Bool

	operations map[string]operation
	lane       chan *request
	urgent     chan *request

	// held is the end of a message that was dropped before its turn; only the
	// subscription uses it.
	held *project.End

	// ended is closed when the runner has ended; work ends when it has to.
	ended chan struct{}
	work  context.Context
	stop  context.CancelCauseFunc

	// telling is held while the client is told which permission mode is in force; mode
	// is the one that it was told last.
	telling sync.Mutex
	mode    string

	// handing is held while a message is handed to the agent, and while a turn is
	// cancelled: so a cancellation meets the turn that it is meant for.
	handing sync.Mutex

	// settling is held while a change of what turns are like is made or put off, and
	// while a turn ends: so a change waits exactly for a turn that runs.
	settling sync.Mutex

	mu sync.Mutex
	// changed is closed and replaced at every change of what follows that somebody
	// may wait for.
	changed chan struct{}
	state
}

// state is what the goroutines of a Server share; Server.mu guards it.
type state struct {
	queue queue
	// barrier counts the control requests that were read and are not done: what they
	// change holds for the messages behind them.
	barrier int
	// urgentTaken and urgentAnswered count the urgent requests: what they end waits
	// for their answers.
	urgentTaken, urgentAnswered int
	// initialized says that an initialize has succeeded; initDue that system/init
	// may be written, and initDone that it was.
	initialized, initDue, initDone bool
	// asked is what the initialize said, or the config without one.
	asked choices
	// eof: standard input has ended. ending: no message is taken any more.
	eof, ending bool
	// current is the message that was taken from the queue and has no result yet;
	// running is set while a turn counts as running (spec stream-json 4.0), which a
	// turn that nobody asked for does, too.
	current *turn
	running bool
	// deferred are changes that wait for the end of the running turn.
	deferred []func() error
	// cleared: a conversation has begun behind another, and the client was not told
	// what it is.
	cleared bool
	// holds is the last model request of the session, for what it held; nil without.
	holds *heldRequest
	// id is the session's, resumed says that it is a stored one.
	id      string
	resumed bool
	// origin is what it begins with when it is opened first.
	origin origin
	agent  agent.Agent
	// route answers the turns to come, launch those of an unchanged process.
	route, launch llm.Route
	// inbox are the messages in the agent's list of prompts, by id.
	inbox []string
	// busy is what the agent last said of itself; children counts the runs of
	// subagents that have not settled, by session.
	busy     bool
	children map[string]int
	// aside are blocks of messages without a query of their own.
	aside []aside
	// prompted: the agent has had a prompt of the user.
	prompted bool
	// failed: the last result, last, was an error. overspent says that the money of
	// the process is used up, "" while it is not.
	failed    bool
	overspent string
	last      *streamjson.Result
	// latest is the last model request of the session, suggestion the question what
	// the user may say next that is under way; nil without.
	latest     *lastRequest
	suggestion *suggestion
	// interrupted: the running turn was told to end by a signal.
	interrupted bool
	// inFlight are the requests without an answer, delivers takes what the client's
	// MCP servers send by themselves.
	inFlight map[string]*request
	delivers map[string]mcp.Deliver
	// code, unless 0, ends the process without further results.
	code int
	// renamed are what the log calls messages of which the client's name is no UUID.
	renamed map[string]string
	tasks
}

// New makes a server. Nothing is read or started before Serve.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		Options: o, changed: make(chan struct{}), ended: make(chan struct{}), output: structured.New(o.Config.OutputAttempts),
		lane: make(chan *request, maxRequests), urgent: make(chan *request, maxRequests),
		state: state{inFlight: map[string]*request{}, delivers: map[string]mcp.Deliver{}, children: map[string]int{},
			tasks: tasks{shells: map[string]bool{}, cut: map[string]bool{}, summaries: map[string]*summary{}}},
	}
	s.work, s.stop = context.WithCancelCause(o.Owner.Context())
	s.told.lines = make(chan told, maxFrames)
	s.operations = s.allOperations()
	s.host = host.New(s.ask, o.Log)
	s.transcripts = &transcripts{s: s, children: map[string]*written{}}
	return s
}

// Serve starts reading and returns. What brings the session to rest is registered
// here, behind the agents', which write the end of a turn that is cut short.
//
// A read of the input cannot be interrupted; the goroutine that reads is not the
// owner's. It ends with the input, or with the first line after the owner was
// closed, or with the process.
func (s *Server) Serve() error {
	var err error
	if s.cwd, err = os.Getwd(); err != nil {
		return fmt.Errorf("serve stream-json: working directory: %w", err)
	}
	s.id = s.Config.SessionID
	if s.id == "" {
		s.id = uuid.NewString()
	}
	s.writer = ndjson.NewWriter(s.Out, maxFrames)
	if err := s.Owner.OnClose("output", s.closeOutput); err != nil {
		return errors.Join(fmt.Errorf("serve stream-json: %w", err), s.writer.Close(context.Background()))
	}
	s.transcripts.begin()
	if err := s.Owner.OnClose("transcripts", s.transcripts.end); err != nil {
		return fmt.Errorf("serve stream-json: %w", err)
	}
	s.sub = session.NewSubscription(s.Owner, s.Log, "streamjson", maxEntries, s.follow)
	if err := s.Agents.Watch(s.Owner, s.watch); err != nil {
		return fmt.Errorf("serve stream-json: %w", err)
	}
	if s.Jobs != nil {
		if err := s.Jobs.Watch(s.Owner, s.watchTasks); err != nil {
			return fmt.Errorf("serve stream-json: %w", err)
		}
	}
	if s.Hooks != nil {
		if err := s.Hooks.Watch(s.Owner, s.notice); err != nil {
			return fmt.Errorf("serve stream-json: %w", err)
		}
	}
	if err := s.watchRequests(); err != nil {
		return fmt.Errorf("serve stream-json: %w", err)
	}
	if s.Config.InputFormat == FormatStream {
		if err := s.answerQuestions(); err != nil {
			return fmt.Errorf("serve stream-json: %w", err)
		}
	}
	s.Root.OnSignal(s.Owner, s.signalled)
	s.Root.OnQuiesce(s.Owner, "streamjson", kernel.FlushLimit, s.quiesce)
	s.Owner.Go("notices", s.told.write(s))
	s.Owner.Go("control requests", func(ctx context.Context) { s.serveLane(ctx, s.lane) })
	s.Owner.Go("urgent control requests", func(ctx context.Context) { s.serveLane(ctx, s.urgent) })
	s.Owner.Go("broken output", s.watchOutput)
	s.Owner.Go("turns", s.run)
	return nil
}

// with runs f under the lock and wakes those who wait for what it may have
// changed.
func (s *Server) with(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// await returns when done, which is called under the lock, reports true, or with
// the cause of ctx's end.
func (s *Server) await(ctx context.Context, done func() bool) error {
	for {
		s.mu.Lock()
		if done() {
			s.mu.Unlock()
			return nil
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
