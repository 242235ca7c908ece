package toollsp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"dsh/kernel/process"
	"dsh/sdkproto/wirejson"
)

const (
	// pause is how long a server that was just started must have nothing to do before
	// it counts as done: some do one thing after the other.
	pause = 300 * time.Millisecond
	// retries is how often a request is made again that a server gave up because
	// something had changed, and retryPause how long after.
	retries    = 5
	retryPause = 200 * time.Millisecond
)

// server is one language server and its life.
type server struct {
	lsp      *LSP
	key      key
	how      *launch
	confined *process.Confinement
	marker   string
	said     *sayings

	// ready is closed when the server has been started, or failed to be; done when
	// nothing of it is left.
	ready, done chan struct{}
	readyOnce   sync.Once
	doneOnce    sync.Once
	// left is closed when the server is to end.
	left     chan struct{}
	leftOnce sync.Once

	// These belong to LSP.mu.
	users   int
	used    time.Time
	idle    *time.Timer
	dropped bool

	// These are set before ready is closed.
	prog *program
	wire *stream
	conn *jsonrpc2.Conn
	ids  atomic.Uint64

	docs documents

	mu sync.Mutex
	// err says why the server takes no calls.
	err error
	// pull says that the server gives diagnostics when it is asked.
	pull bool
	// busy are the titles of what the server says it is doing, by token.
	busy map[string]string
	// free is since when it is doing nothing.
	free time.Time
	// loaded says that what the server did at first need not be waited for any more.
	loaded bool
	// change is closed and replaced when busy or diagnostics change.
	change chan struct{}
	// listeners hear of the server's progress.
	listeners map[chan string]bool
	// published are the diagnostics of open documents, by path.
	published map[string]published
}

func newServer(l *LSP, k key, how *launch, c *process.Confinement, n int) *server {
	return &server{
		lsp: l, key: k, how: how, confined: c, marker: l.marker() + "-" + strconv.Itoa(n), said: newSayings(l.log.With("program", how.program), how.env),
		ready: make(chan struct{}), done: make(chan struct{}), left: make(chan struct{}),
		busy: map[string]string{}, change: make(chan struct{}), listeners: map[chan string]bool{}, published: map[string]published{},
		docs: documents{open: map[string]*document{}},
	}
}

// lostError says that a server is gone, which is no fault of the call.
type lostError struct{ text string }

func (e *lostError) Error() string { return e.text }

// errLate is the cause of the end of a call's time.
var errLate = errors.New("time is up")

// leave has the server end. It does not wait.
func (s *server) leave() { s.leftOnce.Do(func() { close(s.left) }) }

func (s *server) stopIdle() {
	if s.idle != nil {
		s.idle.Stop()
	}
}

// over says that nothing is left of the server.
func (s *server) over() {
	s.fail(errEnding)
	s.readyOnce.Do(func() { close(s.ready) })
	s.doneOnce.Do(func() {
		s.lsp.mu.Lock()
		delete(s.lsp.lives, s)
		s.lsp.mu.Unlock()
		close(s.done)
	})
}

// fail says why calls fail from now on; the first reason counts.
func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

func (s *server) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// run is the server's life.
func (s *server) run(ctx context.Context) {
	defer s.over()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.lsp.ending, cancel)()
	began := time.Now()
	if err := s.open(ctx); err != nil {
		if ctx.Err() != nil {
			err = errEnding
		}
		s.fail(err)
		s.lsp.drop(s, err)
		s.readyOnce.Do(func() { close(s.ready) })
		s.lsp.log.Warn("a language server cannot be started", "program", s.how.program, "root", s.key.root, "error", err)
		s.close(0)
		return
	}
	s.lsp.log.Info("a language server is ready", "program", s.how.program, "root", s.key.root, "took", time.Since(began).Round(time.Millisecond))
	s.mu.Lock()
	s.free = time.Now()
	s.mu.Unlock()
	s.readyOnce.Do(func() { close(s.ready) })
	quit := calm().Quit
	select {
	case <-s.conn.DisconnectNotify():
		err := s.lose(s.prog.why())
		s.lsp.log.Warn("a language server is lost", "program", s.how.program, "root", s.key.root, "error", err)
		quit = 0
	case <-s.left:
		s.lsp.drop(s, nil)
		s.fail(&lostError{"it was ended to make room for another"})
	case <-ctx.Done():
		s.lsp.drop(s, nil)
		s.fail(errEnding)
		quit = brisk().Quit
	}
	s.close(quit)
}

// close ends the program, within quit by the way of the protocol, and returns when
// nothing of it is left.
func (s *server) close(quit time.Duration) {
	if s.prog == nil {
		return
	}
	g := calm()
	if s.lsp.ending.Err() != nil || s.lsp.self.Owner.Context().Err() != nil {
		g = brisk()
	}
	// The end of the harness cuts the patience with a server short.
	defer context.AfterFunc(s.lsp.ending, func() {
		hurry := time.NewTimer(brisk().Quit + brisk().Kill)
		defer hurry.Stop()
		select {
		case <-s.prog.Gone():
		case <-hurry.C:
			s.prog.Kill()
		}
	})()
	if s.conn != nil && quit > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), quit)
		// What the server says to that is of no interest.
		_ = s.conn.Call(ctx, "shutdown", nil, nil, jsonrpc2.PickID(jsonrpc2.ID{Num: s.ids.Add(1)}))
		_ = s.conn.Notify(ctx, "exit", nil)
		cancel()
	} else {
		g.Quit = min(g.Quit, brisk().Quit)
	}
	if s.conn != nil {
		_ = s.conn.Close() // it may be closed already
	}
	s.prog.end(g)
	if s.wire != nil {
		<-s.wire.sent
	}
}

// open starts the program and makes it known to the workspace.
func (s *server) open(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	limit := time.Duration(s.lsp.config.StartTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it has not answered initialize within %v", limit))
	defer cancel()
	if s.prog, err = s.lsp.startProgram(s.how, s.key.root, s.marker, s.confined, s.said); err != nil {
		return fmt.Errorf("start %s: %w", s.how.path, err)
	}
	s.docs.watch(ctx, s.key.root, s.how)
	s.wire = newStream(s.prog.Stdout, s.prog.Stdin, s.said.say)
	s.conn = jsonrpc2.NewConn(context.Background(), s.wire, handler{s}, jsonrpc2.SetLogger(log.New(voice{s.said}, "", 0)))
	root := uriOf(s.key.root)
	params := object{
		"processId": os.Getpid(), "clientInfo": object{"name": "dsh"}, "rootPath": s.key.root, "rootUri": root,
		"workspaceFolders": []object{{"uri": root, "name": filepath.Base(s.key.root)}}, "capabilities": capabilities(),
	}
	if s.how.options != nil {
		params["initializationOptions"] = s.how.options
	}
	var answer struct {
		Capabilities struct {
			DiagnosticProvider json.RawMessage `json:"diagnosticProvider"`
		} `json:"capabilities"`
	}
	raw, err := s.ask(ctx, "initialize", params)
	if err != nil {
		return err
	}
	if err := wirejson.Unmarshal(raw, &answer); err != nil {
		return fmt.Errorf("it gave an answer to initialize that cannot be read: %w", err)
	}
	if p := string(answer.Capabilities.DiagnosticProvider); p != "" && p != "null" && p != "false" {
		s.mu.Lock()
		s.pull = true
		s.mu.Unlock()
	}
	return s.tell("initialized", object{})
}

// voice takes what the library logs.
type voice struct{ said *sayings }

func (v voice) Write(p []byte) (int, error) {
	v.said.say("the connection to a language server", p)
	return len(p), nil
}

// await waits until the server can be asked.
func (s *server) await(ctx context.Context) error {
	select {
	case <-s.ready:
		return s.failure()
	case <-s.done:
		return s.failure()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tell sends a notification.
func (s *server) tell(method string, params any) error {
	if err := s.conn.Notify(context.Background(), method, params); err != nil {
		return s.broken(method, err)
	}
	return nil
}

// broken says what became of a server that takes no messages.
func (s *server) broken(method string, err error) error {
	if errors.Is(err, jsonrpc2.ErrClosed) {
		if err := s.failure(); err != nil {
			return err
		}
		return s.lose(s.prog.why())
	}
	s.prog.Kill()
	return s.lose(fmt.Sprintf("%s could not be sent: %v", method, err))
}

// lose says that the server is gone, so that the next call gets another one, and
// gives the reason, which is the first that was found.
func (s *server) lose(why string) error {
	s.fail(&lostError{why})
	err := s.failure()
	s.lsp.drop(s, err)
	return err
}

// ask makes one request.
func (s *server) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	began := time.Now()
	id := jsonrpc2.ID{Num: s.ids.Add(1)}
	call, err := s.conn.DispatchCall(ctx, method, params, jsonrpc2.PickID(id))
	if err != nil {
		return nil, s.broken(method, err)
	}
	var raw json.RawMessage
	err = call.Wait(ctx, &raw)
	switch {
	case err == nil:
		return raw, nil
	case ctx.Err() != nil:
		_ = s.conn.Notify(context.Background(), "$/cancelRequest", object{"id": id.Num}) // a courtesy
		cause := context.Cause(ctx)
		if errors.Is(cause, errLate) {
			if s.wire.heard.Load() < began.UnixNano() {
				// It has said nothing at all: another one may do better.
				_ = s.lose(fmt.Sprintf("it has said nothing since it was asked %s, and was ended", method))
				s.prog.Kill()
			}
			return nil, &lateError{fmt.Sprintf("it did not answer %s within %v", method, time.Duration(s.lsp.config.Timeout))}
		}
		return nil, cause
	}
	if errors.Is(err, jsonrpc2.ErrClosed) {
		return nil, s.broken(method, err)
	}
	return nil, err
}

// lateError says that a server took too long.
type lateError struct{ text string }

func (e *lateError) Error() string { return e.text }

// request makes a request, again if the server gives it up because something has
// changed meanwhile, and decodes the answer.
func (s *server) request(ctx context.Context, method string, params, into any) error {
	for n := 0; ; n++ {
		raw, err := s.ask(ctx, method, params)
		var refused *jsonrpc2.Error
		if errors.As(err, &refused) && (refused.Code == codeContentModified || refused.Code == codeServerCancelled) && n < retries {
			select {
			case <-time.After(retryPause):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		if err != nil {
			return err
		}
		if err := wirejson.Unmarshal(raw, into); err != nil {
			return fmt.Errorf("its answer to %s cannot be read: %w", method, err)
		}
		return nil
	}
}

// listen has progress hear what the server is doing until stop is called.
func (s *server) listen(progress func(string)) (stop func()) {
	if progress == nil {
		return func() {}
	}
	// What does not fit is out of date by the time there is room.
	news := make(chan string, 4)
	s.mu.Lock()
	s.listeners[news] = true
	s.mu.Unlock()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case text := <-news:
				progress(text)
			case <-end:
				return
			}
		}
	}()
	return func() {
		s.mu.Lock()
		delete(s.listeners, news)
		s.mu.Unlock()
		close(end)
		<-ended
	}
}

// settle waits until a server that was just started has looked at the workspace, as
// far as it says that it does.
func (s *server) settle(ctx context.Context) error {
	limit := time.NewTimer(time.Duration(s.lsp.config.LoadTimeout))
	defer limit.Stop()
	for {
		s.mu.Lock()
		idle := len(s.busy) == 0
		rest := pause - time.Since(s.free)
		if s.loaded || idle && rest <= 0 {
			s.loaded = true
			s.mu.Unlock()
			return nil
		}
		change := s.change
		s.mu.Unlock()
		var done <-chan time.Time
		if idle {
			done = time.After(rest)
		}
		select {
		case <-change:
		case <-done:
		case <-limit.C:
			s.mu.Lock()
			s.loaded = true
			s.mu.Unlock()
			return nil
		case <-s.conn.DisconnectNotify():
			return s.broken("", jsonrpc2.ErrClosed)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// changed wakes those who wait for change. s.mu is held.
func (s *server) changed() {
	close(s.change)
	s.change = make(chan struct{})
}
