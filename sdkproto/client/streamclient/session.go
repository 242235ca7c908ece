package streamclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"dsh/sdkproto/client/internal/callbacks"
	"dsh/sdkproto/client/internal/program"
	"dsh/sdkproto/client/internal/queue"
	"dsh/sdkproto/ndjson"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// Options say how to start a program and how to answer it.
type Options struct {
	// Command is looked up as a shell does; "" is dcl.
	Command string
	// Args come behind the flags of the wire, which Start sets: --input-format,
	// --output-format, --verbose and --replay-user-messages, which tells the lines
	// of one turn from those of another.
	Args []string
	// Dir is its working directory, by default that of the caller.
	Dir string
	// Env is its whole environment; nil is that of the caller.
	Env []string
	// Stderr gets a copy of what the program writes there. It has to take it: a
	// Write that blocks holds up the program, and Close. After an error it gets
	// nothing more. The last 64 KiB are kept for errors in any case.
	Stderr io.Writer
	// Initialize is the handshake (spec stream-json 4.1). Start adds to it what the
	// members below say.
	Initialize streamjson.Initialize
	// Agents are kinds of subagents, by name.
	Agents map[string]streamjson.AgentDefinition
	// CanUseTool decides on calls that neither a rule nor the mode decides on. An
	// error denies, and so does nil.
	CanUseTool func(context.Context, streamjson.CanUseTool) (streamjson.Permission, error)
	// Hooks take part in a turn, by event, such as PreToolUse (spec stream-json 6).
	Hooks map[string][]Hook
	// Elicit answers questions of MCP servers to the user. An error cancels, and so
	// does nil.
	Elicit func(context.Context, streamjson.Elicitation) (streamjson.ElicitationResult, error)
	// MCPServers are in this process, by name. The model sees their tools as
	// mcp__name__tool.
	MCPServers map[string]MCPServer
	Limits     Limits
}

// Limits bound what a Session holds and how long Close takes. A zero member has
// its default.
type Limits struct {
	// Line is the longest line taken from the program, in bytes; 300 MiB by default.
	// A longer one fails everybody who waits at that moment, because nobody can tell
	// for whom it was.
	Line int
	// Queue is how much one consumer of lines may leave unread, in bytes of lines;
	// 64 MiB by default.
	Queue int
	// Exit is how long Close waits for the program to finish what it has been sent
	// and to end, 6 s by default; Terminate how long after SIGTERM, 3 s; Kill after
	// SIGKILL, 3 s.
	Exit, Terminate, Kill time.Duration
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Line: cmp.Or(max(l.Line, 0), ndjson.MaxLine), Queue: cmp.Or(max(l.Queue, 0), 64<<20),
		Exit: cmp.Or(max(l.Exit, 0), 6*time.Second), Terminate: cmp.Or(max(l.Terminate, 0), 3*time.Second), Kill: cmp.Or(max(l.Kill, 0), 3*time.Second),
	}
}

const (
	// queuedFrames is how many lines to the program may wait for its reading.
	queuedFrames = 256
	// failedTime is how long an answer is still awaited once the program takes no
	// input any more. A program that ended is reported as such meanwhile.
	failedTime = 3 * time.Second
	// detachTime is how long Close waits for what should end by itself.
	detachTime = time.Second
)

// Session is one program that runs, and its session. All methods may be called
// from many goroutines.
type Session struct {
	// Initialized is the program's answer to the handshake. It is for reading only.
	Initialized streamjson.Initialized

	options Options
	limits  Limits
	// hooks are the callbacks by the ids under which they are registered.
	hooks map[string]hookCall
	proc  *program.Process
	in    *os.File
	w     *ndjson.Writer
	// asked are the questions of the program.
	asked   *callbacks.Group
	skipped atomic.Int64
	// down is closed when nothing comes from the program any more; err is set before.
	down chan struct{}
	// closed is closed when Close is done; closeErr is set before.
	closed   chan struct{}
	closeErr error
	// described is closed when init is set.
	described chan struct{}

	mu      sync.Mutex
	lastID  uint64
	pending map[string]chan answer // of one element each
	taps    map[*tap]struct{}
	// turns have no result yet, oldest first; begun is the one that is worked on.
	turns []*Turn
	begun *Turn
	init  *streamjson.Init
	// last is the last result.
	last    *streamjson.Result
	closing bool
	err     error
}

// answer is the program's to one control request.
type answer struct {
	response json.RawMessage
	err      error
}

// tap listens to all lines.
type tap struct{ queue *queue.Queue[Line] }

// Start starts a program and its session. ctx bounds these two things, not the
// life of the process, which Close ends. The process gets the terminal's signals
// like any child.
//
// When the program gives no session it is ended, and the error wraps a
// *ResultError or *ControlError with the reason, as far as the program tells it,
// and an *ExitError with exit code and stderr.
func Start(ctx context.Context, o Options) (*Session, error) {
	o.Command = cmp.Or(o.Command, "dcl")
	what := "start " + o.Command
	if err := ctx.Err(); err != nil {
		return nil, failed(what, err)
	}
	s := &Session{
		options: o, limits: o.Limits.withDefaults(), asked: callbacks.New(),
		down: make(chan struct{}), closed: make(chan struct{}), described: make(chan struct{}),
		pending: map[string]chan answer{}, taps: map[*tap]struct{}{},
	}
	in, err := s.handshake()
	if err != nil {
		return nil, failed(what, err)
	}
	args := slices.Concat([]string{"--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--replay-user-messages"}, o.Args)
	s.proc, s.in, err = program.Start(program.Options{Command: o.Command, Args: args, Dir: o.Dir, Env: o.Env, Stderr: o.Stderr})
	if err != nil {
		return nil, failed(what, err)
	}
	s.w = ndjson.NewWriter(s.in, queuedFrames)
	go s.read()
	if err := s.Control(ctx, streamjson.SubtypeInitialize, in, &s.Initialized); err != nil {
		return nil, failed(what, s.abort(ctx, err))
	}
	return s, nil
}

// handshake makes the initialize request of the options.
func (s *Session) handshake() (streamjson.Initialize, error) {
	in := s.options.Initialize
	in.Agents = maps.Clone(in.Agents)
	for name, a := range s.options.Agents {
		raw, err := wirejson.Marshal(a)
		if err != nil {
			return in, fmt.Errorf("encode agent %s: %w", name, err)
		}
		if in.Agents == nil {
			in.Agents = map[string]json.RawMessage{}
		}
		in.Agents[name] = raw
	}
	in.SDKMCPServers = slices.Concat(in.SDKMCPServers, slices.Sorted(maps.Keys(s.options.MCPServers)))
	s.registerHooks(&in)
	return in, nil
}

// abort closes a session that nobody will get, and says why there is none. A
// caller who gave up waits two seconds at most.
func (s *Session) abort(ctx context.Context, why error) error {
	end := context.WithoutCancel(ctx)
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		end, cancel = context.WithTimeout(end, 2*time.Second)
		defer cancel()
	}
	// What matters of its outcome, the exit of the process, is asked for separately.
	_ = s.Close(end)
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if last != nil && last.IsError {
		why = fmt.Errorf("%w; %w", &ResultError{*last}, why)
	}
	if exit := s.proc.Exit(); exit != nil && !errors.As(why, new(*ExitError)) {
		why = fmt.Errorf("%w; %w", why, exit)
	}
	return why
}

// PID is the id of the process.
func (s *Session) PID() int { return s.proc.PID() }

// Skipped counts the lines of the program's output that were none of the wire. A
// healthy program has none.
func (s *Session) Skipped() int64 { return s.skipped.Load() }

// Init waits for what the program says of its session: id, tools, MCP servers
// (spec stream-json 3.2). It comes soon after Start, when the MCP servers have
// been reached, and again with /clear; Init gives the latest.
func (s *Session) Init(ctx context.Context) (streamjson.Init, error) {
	var late error
	select {
	case <-s.described:
	case <-s.down:
		late = s.err
	case <-ctx.Done():
		late = ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.init == nil {
		return streamjson.Init{}, failed("init", late)
	}
	return *s.init, nil
}

// Lines is every line from the call on, those between turns, too: of background
// tasks, for example, and of the turns that the program begins to tell the model
// of their ends. The sequence ends with an error: that of ctx, ErrClosed, ErrLost,
// or ErrMissed when more than Limits.Queue stayed unread. The end of ctx is what
// ends the listening, also when nobody ranges.
func (s *Session) Lines(ctx context.Context) iter.Seq2[Line, error] {
	t := &tap{queue.New[Line](s.limits.Queue)}
	s.mu.Lock()
	err := s.unusable()
	if err == nil {
		s.taps[t] = struct{}{}
	}
	s.mu.Unlock()
	if err != nil {
		t.queue.End(failed("lines", err))
		return t.queue.All(ctx)
	}
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		delete(s.taps, t)
		s.mu.Unlock()
		t.queue.Drop(failed("lines", ctx.Err()))
	})
	return func(yield func(Line, error) bool) {
		// The end of ctx ends the queue.
		for l, err := range t.queue.All(context.WithoutCancel(ctx)) {
			if err != nil {
				stop()
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// unusable is why nothing can be asked any more. The caller holds mu.
func (s *Session) unusable() error {
	if s.closing {
		return ErrClosed
	}
	return s.err
}

// write queues a line to the program.
func (s *Session) write(ctx context.Context, line []byte) error {
	err := s.w.Frame(ctx, line)
	switch {
	case errors.Is(err, ndjson.ErrClosed):
		return ErrClosed
	case err != nil && s.w.Err() != nil:
		// It is about to end, and that is the better news.
		if program.Wait(ctx, s.down, failedTime) {
			return s.err
		}
		return fmt.Errorf("%w: it takes no input: %w", ErrLost, s.w.Err())
	}
	return err
}

// nextID makes the id of a request. The caller holds mu.
func (s *Session) nextID() string {
	s.lastID++
	return "req_" + strconv.FormatUint(s.lastID, 10)
}

// Close ends the program and waits for every goroutine of the session: the end of
// its input, upon which it finishes what it has been sent, SIGTERM, SIGKILL, each
// with its time from Limits. The end of ctx skips what is left of the waiting, so
// that the process is killed at once. To end a turn before, see Interrupt.
//
// Turns go on until the program has ended, and fail with ErrClosed then; questions
// of the program are given up at once, because it hears no answer any more. The
// error is nil if the process ended with exit code 0, or with 1 after a result
// that is an error (checklist 12 of spec stream-json 13), and wraps an *ExitError
// otherwise, also when it ended before. A Close during or after another waits for
// that one and returns its error.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closing
	s.closing = true
	s.mu.Unlock()
	if first {
		if err := s.close(ctx); err != nil {
			s.closeErr = failed("close session", err)
		}
		close(s.closed)
	}
	if program.Wait(ctx, s.closed, s.limits.Exit+s.limits.Terminate+s.limits.Kill+4*detachTime) {
		return s.closeErr
	}
	return fmt.Errorf("close session: another close is still at it: %w", cmp.Or(ctx.Err(), context.DeadlineExceeded))
}

func (s *Session) close(ctx context.Context) error {
	// A write that is stuck, the program reading nothing, returns when its stream is
	// closed; one that may still succeed has its time.
	flushing, cancel := context.WithTimeout(ctx, detachTime)
	_ = s.w.Close(flushing)
	cancel()
	_ = s.in.Close()
	s.asked.Stop(ErrClosed)
	anyway := context.WithoutCancel(ctx)
	limited, cancel := context.WithTimeout(anyway, detachTime)
	defer cancel()
	_ = s.w.Close(limited) // what it could not write shows in how the program ends
	err := s.proc.End(ctx, program.Limits{Exit: s.limits.Exit, Terminate: s.limits.Terminate, Kill: s.limits.Kill})
	if err == nil {
		if !program.Wait(anyway, s.down, detachTime) || !program.Wait(anyway, s.proc.ErrDone(), detachTime) {
			err = errors.New("the pipes of the ended process are still read: does Options.Stderr block?")
		}
		err = errors.Join(s.outcome(), err)
	}
	if !s.asked.Wait(detachTime) {
		err = errors.Join(err, errors.New("a callback goes on although its context has ended; one goroutine is left with it"))
	}
	return err
}

// outcome is what is wrong with how the program ended.
func (s *Session) outcome() error {
	exit := s.proc.Exit()
	var status *ExitError
	if !errors.As(exit, &status) {
		return exit
	}
	s.mu.Lock()
	told := s.last != nil && s.last.IsError
	s.mu.Unlock()
	if status.Code == 0 || status.Code == 1 && told {
		return nil
	}
	return exit
}
