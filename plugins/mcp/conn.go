package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"dsh/kernel/approval"
	programs "dsh/plugins/internal/child"
	"dsh/sdkproto/wirejson"
)

// protocolVersion is what is asked for first. Newer versions begin with a
// request that old servers do not expect before the handshake; they are tried
// when a server refuses it.
const protocolVersion = "2025-11-25"

// progressInterval is the least time between two notices of progress that are
// handed on.
const progressInterval = 100 * time.Millisecond

// noticeTime is how long the notice that a request is cancelled may be on its
// way; a connection that is closed sooner loses it.
const noticeTime = 100 * time.Millisecond

// errClosing is why calls end when a connection is closed from this side.
var errClosing = errors.New("the connection is being closed")

// conn is one connection to a server.
type conn struct {
	s      *server
	target *target
	said   *talk
	// ctx is the connection's life.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	session *sdk.ClientSession
	child   *child
	web     *web
	hosted  *hosted
	// dead is closed when the connection has ended, lost a little later, when why
	// is set.
	dead, lost chan struct{}
	why        error
	// changed holds a token when the server has said that a list changed.
	changed chan struct{}
	// background are goroutines that outlive their caller.
	background sync.WaitGroup
	ending     sync.Once

	mu    sync.Mutex
	calls map[string]*call
	count int
	// questions are those to the user that wait for an answer.
	questions map[*question]struct{}
	// withdrawn is when the server was last sent the notice that a request is
	// cancelled.
	withdrawn time.Time
}

// call is a call of a tool under way.
type call struct {
	sessionID string
	limit     time.Duration
	// timer and held, the number of questions to the user that the call waits
	// for, are guarded by conn.mu.
	timer *time.Timer
	held  int

	// mu is held while progress is told, so that nothing is after the end.
	mu       sync.Mutex
	over     bool
	progress func(string)
	told     time.Time
}

// question is one of the server to the user.
type question struct {
	// calls are those that were under way when it came and still are.
	calls  map[*call]struct{}
	cancel context.CancelCauseFunc
	// done is closed when nobody is asked any more.
	done chan struct{}
}

// questionWait is how long a call that was cut off waits for whoever is asked to be
// told that no answer is wanted.
const questionWait = time.Second

func (c *call) tell(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.progress != nil && !c.over && now.Sub(c.told) >= progressInterval {
		c.told = now
		c.progress(clip(text, 500))
	}
}

// connect makes a connection; ctx bounds that alone. After an error c, if it is
// not nil, is on its way out.
func (s *server) connect(ctx context.Context, version string) (c *conn, err error) {
	t, err := s.resolve(s.m.self.CredentialEnv.Names())
	if err != nil {
		return nil, &permanentError{err}
	}
	c = &conn{s: s, target: t, said: newTalk(s.log, t.redact), dead: make(chan struct{}), lost: make(chan struct{}), changed: make(chan struct{}, 1), calls: map[string]*call{}, questions: map[*question]struct{}{}}
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			err = c.explain(err)
			c.end(s.m.grace())
		}
	}()
	transport, err := c.transport()
	if err != nil {
		return c, err
	}
	client := c.client()
	if err := allowRaw(client); err != nil {
		return c, err
	}
	type outcome struct {
		session *sdk.ClientSession
		err     error
	}
	done := make(chan outcome, 1)
	c.background.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				done <- outcome{nil, fmt.Errorf("panic: %v\n%s", r, debug.Stack())}
			}
		}()
		session, err := client.Connect(c.ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
		done <- outcome{session, err}
	})
	select {
	case o := <-done:
		if o.err != nil {
			return c, o.err
		}
		c.session = o.session
	case <-ctx.Done():
		c.background.Go(func() {
			if o := <-done; o.session != nil {
				_ = o.session.Close() // nobody wants it any more
			}
		})
		return c, context.Cause(ctx)
	}
	c.background.Go(func() {
		err := c.session.Wait()
		close(c.dead)
		switch {
		case c.ctx.Err() != nil:
			err = context.Cause(c.ctx)
		case c.hosted != nil:
			err = c.hosted.reason(err)
		case err == nil:
			err = errors.New("the server has closed the connection")
		}
		c.why = c.explain(err)
		close(c.lost)
	})
	if c.hosted == nil && c.has(hasLogging) { // a client's own server logs to the client
		c.background.Go(func() {
			// Some servers say nothing until they are told what is worth saying. Nobody
			// waits for it, and one that does not take it says what it likes.
			ctx, cancel := context.WithTimeout(c.ctx, time.Minute)
			defer cancel()
			_, _ = c.request(ctx, methodSetLevel, &request{Level: "info"})
		})
	}
	return c, nil
}

// explain makes an error fit to be shown.
func (c *conn) explain(err error) error {
	var ended *childError
	switch _, answered := isAnswer(err); {
	case c.child == nil || answered || errors.Is(err, errClosing):
	case errors.As(err, &ended):
		err = ended
	default:
		err = fmt.Errorf("%w%s", err, c.child.saying())
	}
	if c.web != nil {
		err = c.web.explain(err)
	}
	text := strings.ReplaceAll(err.Error(), rawPrefix, "")
	return &shownError{c.target.redact(text), err}
}

// shownError is an error whose text holds no secret.
type shownError struct {
	text string
	err  error
}

func (e *shownError) Error() string { return clip(e.text, 4<<10) }

func (e *shownError) Unwrap() error { return e.err }

// permanentError is one that trying again does not mend.
type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }

// client makes the client of one connection.
func (c *conn) client() *sdk.Client {
	signal := func() {
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}
	opts := &sdk.ClientOptions{
		Logger: c.s.log,
		// Said explicitly, else the SDK says that there are roots.
		Capabilities:             &sdk.ClientCapabilities{},
		MultiRoundTrip:           &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler:   func(context.Context, *sdk.ToolListChangedRequest) { signal() },
		PromptListChangedHandler: func(context.Context, *sdk.PromptListChangedRequest) { signal() },
		//lint:ignore SA1019 servers of older protocols, which are most, log like this
		LoggingMessageHandler: func(_ context.Context, r *sdk.LoggingMessageRequest) {
			defer c.contain("log message")
			text, ok := r.Params.Data.(string)
			if !ok {
				data, err := wirejson.Marshal(r.Params.Data)
				if err != nil {
					return
				}
				text = string(data)
			}
			c.said.say(logLevel(string(r.Params.Level)), "mcp server logs", text)
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			defer c.contain("progress")
			c.progress(r.Params)
		},
	}
	if c.s.m.desk != nil {
		opts.Capabilities.Elicitation = &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}}
		opts.ElicitationHandler = c.elicit
	}
	return sdk.NewClient(&sdk.Implementation{Name: "dsh", Version: "1"}, opts)
}

// contain keeps a panic of a handler from ending the process.
func (c *conn) contain(what string) {
	if r := recover(); r != nil {
		c.s.log.Error("a handler of an mcp server's message panicked", "what", what, "panic", r, "stack", string(debug.Stack()))
	}
}

func logLevel(l string) slog.Level {
	switch l {
	case "debug":
		return slog.LevelDebug
	case "info", "notice":
		return slog.LevelInfo
	case "warning":
		return slog.LevelWarn
	}
	return slog.LevelError
}

// request makes a request and gives the result as it came.
func (c *conn) request(ctx context.Context, method string, r *request) (json.RawMessage, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })
	defer stop()
	ctx, said := c.hosted.follow(ctx)
	data, err := sendRaw(ctx, c.session, method, r)
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
		said()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.withdrawn = time.Now()
	}
	return data, err
}

// has reports whether the server has said that it offers something.
func (c *conn) has(what func(*sdk.ServerCapabilities) bool) bool {
	r := c.session.InitializeResult()
	return r != nil && r.Capabilities != nil && what(r.Capabilities)
}

func hasTools(s *sdk.ServerCapabilities) bool     { return s.Tools != nil }
func hasResources(s *sdk.ServerCapabilities) bool { return s.Resources != nil }
func hasPrompts(s *sdk.ServerCapabilities) bool   { return s.Prompts != nil }

//lint:ignore SA1019 servers of older protocols, which are most, log like this
func hasLogging(s *sdk.ServerCapabilities) bool { return s.Logging != nil }

// all collects the pages of a list. Servers that give the same cursor for ever
// are stopped.
func (c *conn) all(ctx context.Context, method, member string, most int) ([]json.RawMessage, error) {
	var list []json.RawMessage
	r := &request{}
	for range 200 {
		data, err := c.request(ctx, method, r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		page, ok := decode[members](data)
		if !ok {
			return nil, fmt.Errorf("%s: the answer is no object", method)
		}
		items, ok := decode[[]json.RawMessage](page[member])
		if !ok {
			return nil, fmt.Errorf("%s: the answer has no list %q", method, member)
		}
		list = append(list, items...)
		cursor, _ := decode[string](page["nextCursor"])
		if cursor == "" || cursor == r.Cursor || len(list) > most {
			break
		}
		r = &request{Cursor: cursor}
	}
	if len(list) > most {
		c.s.log.Warn("an mcp server lists more than is taken", "list", member, "taken", most)
		list = list[:most]
	}
	return list, nil
}

// begin counts a call, which ends with ctx, with end, or when there is no sign
// of life for limit.
func (c *conn) begin(ctx context.Context, sessionID string, limit time.Duration, progress func(string)) (_ context.Context, token string, end func()) {
	whole := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	one := &call{sessionID: sessionID, progress: progress, limit: limit,
		timer: time.AfterFunc(limit, func() { cancel(&timeoutError{limit}) })}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	token = strconv.Itoa(c.count)
	c.calls[token] = one
	return ctx, token, func() {
		c.mu.Lock()
		one.timer.Stop()
		delete(c.calls, token)
		needless := c.needless(one, whole)
		c.mu.Unlock()
		cancel(nil)
		timer := time.NewTimer(questionWait)
		defer timer.Stop()
		for _, q := range needless {
			q.cancel(context.Cause(whole))
			select {
			case <-q.done:
			case <-timer.C:
				timer.Reset(0)
			}
		}
		one.mu.Lock()
		defer one.mu.Unlock()
		one.over = true
	}
}

// needless gives the questions that nothing under way can have led to, when a call
// is cut off: they are withdrawn before the turn's result, and not only when the
// server has heard of it (spec stream-json 5.6). c.mu is held.
func (c *conn) needless(one *call, ctx context.Context) (list []*question) {
	for q := range c.questions {
		if _, ok := q.calls[one]; !ok {
			continue
		}
		if delete(q.calls, one); len(q.calls) == 0 && ctx.Err() != nil {
			list = append(list, q)
		}
	}
	return list
}

// timeoutError ends a call.
type timeoutError struct{ limit time.Duration }

func (e *timeoutError) Error() string { return fmt.Sprintf("no sign of life for %v", e.limit) }

// progress hands a notice on, as many of them as anybody can read.
func (c *conn) progress(p *sdk.ProgressNotificationParams) {
	token, ok := p.ProgressToken.(string)
	if !ok {
		return
	}
	text := p.Message
	switch {
	case p.Total > 0 && text != "":
		text = fmt.Sprintf("%s (%g/%g)", text, p.Progress, p.Total)
	case p.Total > 0:
		text = fmt.Sprintf("%g/%g", p.Progress, p.Total)
	case text == "":
		text = fmt.Sprintf("%g", p.Progress)
	}
	c.mu.Lock()
	one := c.calls[token]
	if one != nil && one.held == 0 {
		one.timer.Reset(one.limit)
	}
	c.mu.Unlock()
	if one != nil {
		one.tell(text)
	}
}

// elicit puts a server's question to the user (S069): for the session whose
// call is under way, if there is only one. While the user thinks, no call runs
// out of time.
func (c *conn) elicit(ctx context.Context, r *sdk.ElicitRequest) (res *sdk.ElicitResult, err error) {
	res = &sdk.ElicitResult{Action: approval.ActionCancel}
	defer c.contain("question")
	e := approval.Elicitation{Server: c.s.name, Message: clip(r.Params.Message, 8<<10), ID: r.Params.ElicitationID, URL: r.Params.URL}
	if r.Params.RequestedSchema != nil {
		if e.Schema, err = wirejson.Marshal(r.Params.RequestedSchema); err != nil {
			return nil, fmt.Errorf("read the schema of the answer: %w", err)
		}
	}
	e.SessionID = c.hold(1)
	defer c.hold(-1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })
	defer stop()
	defer c.pose(cancel)()
	a := c.s.m.desk.Elicit(ctx, e)
	res.Action = a.Action
	if a.Action == approval.ActionAccept && len(a.Content) > 0 {
		if err := wirejson.Unmarshal(a.Content, &res.Content); err != nil {
			return &sdk.ElicitResult{Action: approval.ActionCancel}, nil
		}
	}
	return res, nil
}

// pose counts a question, which ends with cancel or with the function that it gives.
func (c *conn) pose(cancel context.CancelCauseFunc) (end func()) {
	q := &question{calls: map[*call]struct{}{}, cancel: cancel, done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.calls {
		q.calls[one] = struct{}{}
	}
	c.questions[q] = struct{}{}
	return func() {
		c.mu.Lock()
		delete(c.questions, q)
		c.mu.Unlock()
		close(q.done)
	}
}

// hold stops or starts the clocks of the calls under way, and gives their
// session if it is one.
func (c *conn) hold(by int) (sessionID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.calls {
		if one.held = max(0, one.held+by); one.held > 0 {
			one.timer.Stop()
		} else {
			one.timer.Reset(one.limit)
		}
		if len(c.calls) == 1 {
			sessionID = one.sessionID
		}
	}
	return sessionID
}

// end ends the connection, and with it all calls, in the background.
func (c *conn) end(g programs.Grace) {
	c.ending.Do(func() {
		c.mu.Lock()
		notices := len(c.calls) > 0 || time.Since(c.withdrawn) < noticeTime
		c.mu.Unlock()
		c.cancel(errClosing)
		if c.child != nil {
			c.child.end(g)
		}
		if c.hosted != nil {
			_ = c.hosted.Close()
		}
		c.background.Go(func() {
			if c.session != nil {
				if c.web != nil && notices {
					// A server on the other side of a network has nothing else to go by.
					time.Sleep(noticeTime)
				}
				_ = c.session.Close()
			}
			if c.web != nil {
				c.web.close()
			}
		})
	})
}

// gone is closed when nothing of the connection is left.
func (c *conn) gone() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.background.Wait()
		if c.child != nil {
			<-c.child.Gone()
		}
	}()
	return done
}

// isAnswer reports whether an error is what the server has answered.
func isAnswer(err error) (*jsonrpc.Error, bool) {
	var answer *jsonrpc.Error
	if !errors.As(err, &answer) {
		return nil, false
	}
	switch answer.Code {
	case -32003, -32004, -32005: // the SDK's own, for what happens to a connection
		return nil, false
	}
	return answer, true
}
