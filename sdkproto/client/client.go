package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"dsh/sdkproto"
	"dsh/sdkproto/client/internal/program"
	"dsh/sdkproto/client/internal/queue"
	"dsh/sdkproto/ndjson"
	"dsh/sdkproto/wirejson"
)

// Options say how to start a server.
type Options struct {
	// Command and Args start the process; Command is looked up as a shell does.
	Command string
	Args    []string
	// Dir is its working directory, by default that of the caller.
	Dir string
	// Env is its whole environment; nil is that of the caller.
	Env []string
	// Stderr gets a copy of what the process writes there. It has to take it: a
	// Write that blocks holds up the server, and Close. After an error it gets
	// nothing more. The last 64 KiB are kept for errors in any case.
	Stderr io.Writer
	// Initialize is the handshake. Without a CWD it names the working directory
	// of the process. It asks for extensions (spec jsonrpc 13.3) only if its
	// InitializeExtensions say so, or Limits.Silence is set.
	Initialize sdkproto.InitializeParams
	Limits     Limits
	// Approve, unless nil, answers when the server asks whether a tool call may
	// run (spec jsonrpc 13.3). Without it the server's own policy decides alone.
	// A server that does not know approval/request never asks.
	Approve Approve
}

// Limits bound what a Client holds and how long Close takes. A zero member has
// its default.
type Limits struct {
	// Line is the longest frame taken from the server, in bytes; 300 MiB by
	// default (spec jsonrpc 1.1). A longer one fails everybody who waits at that
	// moment, because nobody can tell for whom it was.
	Line int
	// Queue is how much one consumer of notifications may leave unread, in bytes
	// of frames; 64 MiB by default.
	Queue int
	// Shutdown is how long Close waits for the answer to the shutdown request,
	// 1 s by default; Exit how long for the process to end after that, 6 s;
	// Terminate after SIGTERM, 3 s; Kill after SIGKILL, 3 s (spec jsonrpc 12.1).
	Shutdown, Exit, Terminate, Kill time.Duration
	// Silence is how long the server may send nothing at all, 2 s at least. After
	// that, or a quarter of it later, everybody who waits fails with ErrSilent; 0,
	// the default, waits for ever. It asks the server for heartbeats, so that a
	// turn that takes its time is not mistaken for silence; a server that does not
	// offer runtime.heartbeat fails the handshake with ErrNotOffered. A boot that
	// takes its time does no harm: it counts from the handshake to Close.
	Silence time.Duration
}

func (l Limits) withDefaults() Limits {
	if l.Line <= 0 {
		l.Line = ndjson.MaxLine
	}
	if l.Queue <= 0 {
		l.Queue = 64 << 20
	}
	for _, d := range []struct {
		limit    *time.Duration
		standard time.Duration
	}{{&l.Shutdown, time.Second}, {&l.Exit, 6 * time.Second}, {&l.Terminate, 3 * time.Second}, {&l.Kill, 3 * time.Second}} {
		if *d.limit <= 0 {
			*d.limit = d.standard
		}
	}
	return l
}

const (
	// queuedFrames is how many frames to the server may wait for its reading.
	queuedFrames = 256
	// failedTime is how long an answer is still awaited once the server takes no
	// input any more. A server that ended is reported as such meanwhile.
	failedTime = 3 * time.Second
	// detachTime is how long Close waits for a reader that it has closed.
	detachTime = time.Second
)

// Client is a connection to one initialized server. All methods may be called
// from many goroutines.
type Client struct {
	// Server is how the server named itself. It is for reading only.
	Server sdkproto.ServerInfo
	// Offer is what the server said of its extensions; nil when it did not,
	// because it has none or Initialize did not set ProtocolVersion. It is for
	// reading only.
	Offer *sdkproto.InitializeAdditions

	limits Limits
	// asked is what the handshake asked for.
	asked sdkproto.ClientCapabilities
	proc  *program.Process // nil when attached
	out   io.Reader
	in    io.WriteCloser
	w     *ndjson.Writer
	// approvals are the questions of the server.
	approvals *approvals

	skipped atomic.Int64
	// reads counts what came from the server, in no particular unit.
	reads atomic.Uint64
	// ending is closed when Close begins; guarded when the watch over the silence
	// of the server has ended, nil without one.
	ending, guarded chan struct{}
	// down is closed when nothing comes from the server any more; err is set
	// before. The reading goroutine has nothing left to do then.
	down chan struct{}
	// closed is closed when Close is done; closeErr is set before.
	closed   chan struct{}
	closeErr error

	mu        sync.Mutex
	lastID    uint64
	pending   map[string]chan answer // of one element each
	listeners map[listener]struct{}
	// parents leads from a session to the one that delegated to it. It is as
	// large as the number of subagents the server ever had.
	parents map[string]string
	closing bool
	err     error
}

// item is a notification and the length of its frame.
type item struct {
	note Notification
	size int
}

// listener is a consumer of notifications.
type listener interface {
	// wants is called with the client's lock held and takes no lock.
	wants(*Notification, lineage) bool
	// offer hands over what is wanted, in the order of the wire. It never waits.
	offer(item)
	// fail says that nothing more, or not everything, comes.
	fail(error)
}

// answer is the server's to one request.
type answer struct {
	result json.RawMessage
	err    error
}

// Start starts a server's process and initializes it. ctx bounds these two
// things, not the life of the process, which Close ends; initialize may take as
// long as the server needs to get ready. The process gets the terminal's
// signals like any child.
//
// When initialize fails the process is ended and the error wraps that of
// initialize, an *sdkproto.RPCError if it comes from the server, and an
// *ExitError with exit code and stderr.
func Start(ctx context.Context, o Options) (*Client, error) {
	init := o.Initialize
	if init.CWD == "" {
		var err error
		if init.CWD, err = filepath.Abs(o.Dir); err != nil {
			return nil, fmt.Errorf("start server: find the working directory: %w", err)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start server %s: %w", o.Command, err)
	}
	p, in, err := program.Start(program.Options{Command: o.Command, Args: o.Args, Dir: o.Dir, Env: o.Env, Stderr: o.Stderr})
	if err != nil {
		return nil, fmt.Errorf("start server %q: %w", o.Command, err)
	}
	c := connect(p.Out, in, p, o)
	if err := c.initialize(ctx, init); err != nil {
		c.abort(ctx)
		exit := c.exit()
		if !errors.As(err, new(*ExitError)) && exit != nil {
			err = fmt.Errorf("%w; %w", err, exit)
		}
		return nil, fmt.Errorf("start server %s: %w", o.Command, err)
	}
	return c, nil
}

// Attach initializes a server that is reached over a pair of streams: r is its
// output, w its input. Close closes w, then waits for the end of r; if that
// does not come it closes r, which needs an io.Closer. Both are closed like
// this when initialize fails.
func Attach(ctx context.Context, r io.Reader, w io.WriteCloser, init sdkproto.InitializeParams, limits Limits) (*Client, error) {
	return AttachWith(ctx, r, w, Options{Initialize: init, Limits: limits})
}

// AttachWith is Attach with all Options that do not concern a process.
func AttachWith(ctx context.Context, r io.Reader, w io.WriteCloser, o Options) (*Client, error) {
	c := connect(r, w, nil, o)
	if err := c.initialize(ctx, o.Initialize); err != nil {
		c.abort(ctx)
		return nil, fmt.Errorf("attach to server: %w", err)
	}
	return c, nil
}

func connect(r io.Reader, w io.WriteCloser, p *program.Process, o Options) *Client {
	c := &Client{
		limits:    o.Limits.withDefaults(),
		proc:      p,
		out:       r,
		in:        w,
		w:         ndjson.NewWriter(w, queuedFrames),
		ending:    make(chan struct{}),
		down:      make(chan struct{}),
		closed:    make(chan struct{}),
		pending:   map[string]chan answer{},
		listeners: map[listener]struct{}{},
		parents:   map[string]string{},
	}
	c.approvals = newApprovals(o.Approve, c.w)
	go c.read()
	return c
}

func (c *Client) initialize(ctx context.Context, init sdkproto.InitializeParams) error {
	if err := c.limits.ask(&init.InitializeExtensions); err != nil {
		return err
	}
	c.approvals.ask(&init.InitializeExtensions)
	if init.Capabilities != nil {
		c.asked = *init.Capabilities
	}
	var raw json.RawMessage
	if err := c.Call(ctx, sdkproto.MethodInitialize, init, &raw); err != nil {
		return err
	}
	var result sdkproto.InitializeResult
	if err := wirejson.Unmarshal(raw, &result); err != nil {
		return fmt.Errorf("%s: %w: the result does not fit: %w", sdkproto.MethodInitialize, ErrProtocol, err)
	}
	if result.ServerInfo.Name == "" || result.ServerInfo.Version == "" {
		return fmt.Errorf("%s: %w: the answer has no serverInfo with name and version", sdkproto.MethodInitialize, ErrProtocol)
	}
	c.Server = result.ServerInfo
	if init.ProtocolVersion > 0 {
		c.Offer = readOffer(raw)
	}
	if c.limits.Silence > 0 {
		if !c.Offers(sdkproto.NotifyHeartbeat) {
			return fmt.Errorf("watch for silence: %w", c.notOffered(sdkproto.NotifyHeartbeat))
		}
		c.guarded = make(chan struct{})
		go c.guard()
	}
	return nil
}

// abort closes a client that nobody will get. A caller who gave up waits two
// seconds at most, any other as long as Close takes.
func (c *Client) abort(ctx context.Context) {
	end := context.WithoutCancel(ctx)
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		end, cancel = context.WithTimeout(end, 2*time.Second)
		defer cancel()
	}
	// What matters of its outcome, the exit of the process, is asked for
	// separately.
	_ = c.Close(end)
}

// exit describes how the process ended, nil without one that has ended.
func (c *Client) exit() error {
	if c.proc == nil {
		return nil
	}
	return c.proc.Exit()
}

// PID is the id of the process that Start started, 0 after Attach.
func (c *Client) PID() int {
	if c.proc == nil {
		return 0
	}
	return c.proc.PID()
}

// Skipped counts the lines of the server's output that were no frame, or a
// frame that nothing could be done with. A healthy server has none.
func (c *Client) Skipped() int64 { return c.skipped.Load() }

// Call sends a request and decodes the result of its answer into result, a
// pointer, or drops it if result is nil. params has to be a JSON object when
// encoded; nil is the empty one.
//
// An error that the server answered with is an *sdkproto.RPCError. When ctx
// ends before the answer the error wraps that of ctx; what the server does is
// unknown then, and its answer is ignored. ErrClosed, ErrLost, ErrSilent and
// ErrProtocol are wrapped as their documentation says.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	if c.isClosing() {
		return fmt.Errorf("%s: %w", method, ErrClosed)
	}
	return c.call(ctx, method, params, result)
}

func (c *Client) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

func (c *Client) call(ctx context.Context, method string, params, result any) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	raw := []byte("{}")
	if params != nil {
		var err error
		if raw, err = wirejson.Marshal(params); err != nil {
			return fmt.Errorf("%s: encode params: %w", method, err)
		}
	}
	id, reply, err := c.expect()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer c.forget(id)

	frame := append(make([]byte, 0, len(raw)+len(method)+len(id)+64), `{"jsonrpc":"2.0","id":`...)
	frame = wirejson.AppendString(frame, id)
	frame = append(frame, `,"method":`...)
	frame = wirejson.AppendString(frame, method)
	frame = append(frame, `,"params":`...)
	frame = append(append(frame, raw...), '}')
	err = c.w.Frame(ctx, frame)
	switch {
	case errors.Is(err, ndjson.ErrClosed):
		return fmt.Errorf("%s: %w", method, ErrClosed)
	case err != nil && c.w.Err() == nil:
		return fmt.Errorf("%s: %w", method, err)
	}
	a, err := c.await(ctx, reply)
	if err == nil {
		err = a.err
	}
	if err == nil && result != nil {
		if decodeErr := wirejson.Unmarshal(a.result, result); decodeErr != nil {
			err = fmt.Errorf("%w: the result does not fit: %w", ErrProtocol, decodeErr)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// await waits for the answer.
func (c *Client) await(ctx context.Context, reply <-chan answer) (answer, error) {
	failed := c.w.Failed()
	var late <-chan time.Time
	for {
		select {
		case a := <-reply:
			return a, nil
		case <-c.down:
			select {
			case a := <-reply:
				return a, nil
			default:
			}
			return answer{}, c.err
		case <-ctx.Done():
			return answer{}, ctx.Err()
		case <-failed:
			// The server may still be about to answer what it read before, and
			// if it has ended, that is the better news.
			failed = nil
			t := time.NewTimer(failedTime)
			defer t.Stop()
			late = t.C
		case <-late:
			return answer{}, fmt.Errorf("%w: it takes no input: %w", ErrLost, c.w.Err())
		}
	}
}

// expect makes an id and a place for its answer.
func (c *Client) expect() (id string, reply chan answer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return "", nil, c.err
	}
	c.lastID++
	id = "req_" + strconv.FormatUint(c.lastID, 10)
	reply = make(chan answer, 1)
	c.pending[id] = reply
	return id, reply, nil
}

func (c *Client) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// Notifications is everything the server sends from the call on, of all
// sessions and of none. The sequence is for one range at a time, and ends with
// an error: that of ctx, ErrClosed, ErrLost, ErrSilent, or ErrMissed when more
// than Limits.Queue stayed unread. The end of ctx is what ends the listening,
// also when nobody ranges.
func (c *Client) Notifications(ctx context.Context) iter.Seq2[Notification, error] {
	return c.listen(ctx, func(*Notification) bool { return true })
}

// listen is Notifications of some.
func (c *Client) listen(ctx context.Context, wanted func(*Notification) bool) iter.Seq2[Notification, error] {
	t := &tap{queue: queue.New[Notification](c.limits.Queue), wanted: wanted}
	events := t.queue.All(context.Background())
	if err := c.join(t); err != nil {
		t.queue.End(fmt.Errorf("notifications: %w", err))
		return events
	}
	stop := context.AfterFunc(ctx, func() {
		c.leave(t)
		t.queue.Drop(fmt.Errorf("notifications: %w", ctx.Err()))
	})
	return func(yield func(Notification, error) bool) {
		for n, err := range events {
			if err != nil {
				stop()
				c.leave(t)
			}
			if !yield(n, err) {
				return
			}
		}
	}
}

// tap listens to what is wanted, of all sessions.
type tap struct {
	queue  *queue.Queue[Notification]
	wanted func(*Notification) bool
}

func (t *tap) wants(n *Notification, _ lineage) bool { return t.wanted(n) }
func (t *tap) offer(i item)                          { t.queue.Put(i.note, i.size) }
func (t *tap) fail(err error)                        { t.queue.End(fmt.Errorf("notifications: %w", err)) }

func (c *Client) join(l listener) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return ErrClosed
	}
	if c.err != nil {
		return c.err
	}
	c.listeners[l] = struct{}{}
	return nil
}

func (c *Client) leave(l listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.listeners, l)
}

// Close ends the server and waits for every goroutine of the client: a shutdown
// request, the end of the server's input, SIGTERM, SIGKILL, each with its time
// from Limits. The end of ctx skips what is left of the waiting, so that the
// process is killed at once. On Windows there is no SIGTERM: it is killed when
// Limits.Exit is over.
//
// Runs and calls in progress go on until the server has ended, and fail with
// ErrClosed then; new ones fail at once. The error is nil if the process ended
// with exit code 0, whatever it took, and wraps an *ExitError otherwise, also
// when it ended before. A Close during or after another waits for that one and
// returns its error.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	first := !c.closing
	c.closing = true
	c.mu.Unlock()
	if first {
		close(c.ending)
		err := c.close(ctx)
		c.approvals.stop(ErrClosed)
		if err = errors.Join(err, c.approvals.wait(detachTime)); err != nil {
			c.closeErr = fmt.Errorf("close client: %w", err)
		}
		close(c.closed)
	}
	select {
	case <-c.closed:
		return c.closeErr
	default:
	}
	select {
	case <-c.closed:
		return c.closeErr
	case <-ctx.Done():
		return fmt.Errorf("close client: another close is still at it: %w", ctx.Err())
	}
}

func (c *Client) close(ctx context.Context) error {
	if c.guarded != nil {
		<-c.guarded
	}
	asking, cancel := context.WithTimeout(ctx, c.limits.Shutdown)
	defer cancel()
	err := c.call(asking, sdkproto.MethodShutdown, nil, nil)
	// Only a refusal is news: the rest shows in how the server ends.
	var refusal *sdkproto.RPCError
	if !errors.As(err, &refusal) {
		err = nil
	}

	// A write that is stuck, the server reading nothing, returns when its stream
	// is closed.
	_ = c.w.Close(asking)
	_ = c.in.Close()
	anyway := context.WithoutCancel(ctx)
	limited, cancel := context.WithTimeout(anyway, detachTime)
	defer cancel()
	writerErr := c.w.Close(limited)
	if limited.Err() == nil {
		writerErr = nil // it has ended, and what it could not write shows below
	}

	if c.proc == nil {
		return errors.Join(err, writerErr, c.detach(ctx))
	}
	if endErr := c.proc.End(ctx, program.Limits{Exit: c.limits.Exit, Terminate: c.limits.Terminate, Kill: c.limits.Kill}); endErr != nil {
		return errors.Join(err, writerErr, endErr)
	}
	exit := c.proc.Exit()
	var status *ExitError
	if errors.As(exit, &status) && status.Code == 0 {
		exit = nil
	}
	var left error
	if !program.Wait(anyway, c.down, detachTime) || !program.Wait(anyway, c.proc.ErrDone(), detachTime) {
		left = errors.New("the pipes of the ended process are still read: does Options.Stderr block?")
	}
	return errors.Join(err, writerErr, exit, left)
}

// detach waits for the end of the server's output.
func (c *Client) detach(ctx context.Context) error {
	if program.Wait(ctx, c.down, c.limits.Exit) {
		return nil
	}
	closer, closed := c.out.(io.Closer)
	if closed {
		closer.Close()
	}
	if program.Wait(context.WithoutCancel(ctx), c.down, detachTime) {
		return nil
	}
	if !closed {
		return errors.New("the server's output does not end and cannot be closed; one goroutine is left reading it")
	}
	return errors.New("the server's output was closed but does not return from Read; one goroutine is left reading it")
}
