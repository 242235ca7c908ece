package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	contract "dsh/kernel/mcp"
)

// maxDelivered is how many messages that a hosted server sends by itself may wait.
const maxDelivered = 256

const methodCancelled = "notifications/cancelled"

// hosted is the connection to a server that a client hosts: each message goes out
// as a request to the client, whose answer holds the server's (spec stream-json
// 5.3, 8). It implements sdk.Transport and sdk.Connection.
type hosted struct {
	c    *conn
	host contract.Host
	// life ends with the connection; its cause says why.
	life context.Context
	end  context.CancelCauseFunc
	// incoming are messages for the SDK.
	incoming chan jsonrpc.Message
	// first is added to the SDK's ids, so that a server never sees one again, not
	// even that of an earlier connection's call, which may still be running.
	first int64

	mu     sync.Mutex
	closed bool
}

func newHosted(c *conn) *hosted {
	h := &hosted{c: c, host: c.s.host, incoming: make(chan jsonrpc.Message, maxDelivered)}
	h.life, h.end = context.WithCancelCause(context.Background())
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	h.first = c.s.lastID
	c.s.hosted = h
	return h
}

// Connect implements sdk.Transport.
func (h *hosted) Connect(context.Context) (sdk.Connection, error) { return h, nil }

// SessionID implements sdk.Connection.
func (h *hosted) SessionID() string { return "" }

// Read implements sdk.Connection.
func (h *hosted) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case msg := <-h.incoming:
		return msg, nil // also what came just before the end
	default:
	}
	select {
	case msg := <-h.incoming:
		return msg, nil
	case <-h.life.Done():
		return nil, context.Cause(h.life)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements sdk.Connection. It does not wait for the answer to a request.
func (h *hosted) Write(ctx context.Context, msg jsonrpc.Message) error {
	r, _ := wireMessage(msg).(*jsonrpc.Request)
	switch {
	case r == nil: // an answer to a request of the server
		data, err := jsonrpc.EncodeMessage(msg)
		if err != nil {
			return fmt.Errorf("encode message: %w", err)
		}
		return h.spawn(func() { h.tell(data) })
	case r.Method == methodCancelled:
		return nil // see call
	case !r.IsCall():
		data, err := jsonrpc.EncodeMessage(r)
		if err != nil {
			return fmt.Errorf("encode message: %w", err)
		}
		done := make(chan struct{})
		if err := h.spawn(func() { defer close(done); h.tell(data) }); err != nil {
			return err
		}
		timer := time.NewTimer(ackWait)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		case <-ctx.Done():
		case <-h.life.Done():
		}
		return nil
	}
	out := *r
	n, _ := r.ID.Raw().(int64)
	n += h.first
	out.ID, _ = jsonrpc.MakeID(float64(n))
	data, err := jsonrpc.EncodeMessage(&out)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	h.c.s.mu.Lock()
	h.c.s.lastID = max(h.c.s.lastID, n)
	h.c.s.mu.Unlock()
	said := func() {}
	if f, ok := ctx.Value(followKey{}).(*following); ok {
		f.done = make(chan struct{})
		said = sync.OnceFunc(func() { close(f.done) })
	}
	err = h.spawn(func() { defer said(); h.call(ctx, r.ID, n, data, said) })
	if err != nil {
		said()
	}
	return err
}

// Close implements sdk.Connection.
func (h *hosted) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.end(io.EOF)
	return nil
}

// reason gives why the connection has ended, where it knows better than err.
func (h *hosted) reason(err error) error {
	if cause := context.Cause(h.life); cause != nil && !errors.Is(cause, io.EOF) {
		return cause
	}
	return err
}

// spawn runs f in a goroutine of the connection.
func (h *hosted) spawn(f func()) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return io.ErrClosedPipe
	}
	h.c.background.Go(f)
	return nil
}

// call makes a request and hands its answer to the SDK. said is called when
// nothing is pending at the client any more.
func (h *hosted) call(ctx context.Context, id jsonrpc.ID, n int64, data json.RawMessage, said func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.life, func() { cancel(context.Cause(h.life)) })()
	reply, err := h.ask(ctx, data)
	cut := err != nil && ctx.Err() != nil // later the SDK ends ctx itself
	said()
	response := &jsonrpc.Response{ID: id, Error: err}
	if err == nil {
		response = answerOf(reply, id, n)
	}
	select {
	case h.incoming <- response:
	case <-h.life.Done():
	}
	switch {
	case errors.Is(err, contract.ErrHostClosed):
		h.end(contract.ErrHostClosed)
	case cut:
		// The client has been told that its answer is not wanted; this is for the
		// server behind it (spec stream-json 5.6).
		h.tell(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"requestId":%d,"reason":"cancelled"}}`, methodCancelled, n))
	}
}

// tell takes a message to the server that wants no answer.
func (h *hosted) tell(data json.RawMessage) {
	if h.life.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(h.life, noteLimit)
	defer cancel()
	switch _, err := h.ask(ctx, data); {
	case errors.Is(err, contract.ErrHostClosed):
		h.end(contract.ErrHostClosed)
	case err != nil && h.life.Err() == nil:
		h.c.s.log.Debug("the client did not acknowledge a message to its mcp server", "error", err)
	}
}

func (h *hosted) ask(ctx context.Context, data json.RawMessage) (reply json.RawMessage, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return h.host.Call(ctx, data)
}

// deliver takes what the server says by itself.
func (h *hosted) deliver(message json.RawMessage) error {
	msg, err := jsonrpc.DecodeMessage(message)
	if err != nil {
		return fmt.Errorf("read its message: %w", err)
	}
	if _, ok := msg.(*jsonrpc.Request); !ok {
		return errors.New("its message is neither a request nor a notification; answers come with the request that they answer")
	}
	if h.life.Err() != nil {
		return errors.New("it is not connected")
	}
	select {
	case h.incoming <- msg:
		return nil
	default:
		return fmt.Errorf("%d of its messages wait already", maxDelivered)
	}
}

// answerOf reads the answer to a request that was sent with the id n. Which
// request it answers is known; an id that says otherwise is a mistake of the
// client, and the answer nobody's (case B39).
func answerOf(reply json.RawMessage, id jsonrpc.ID, n int64) *jsonrpc.Response {
	r := &jsonrpc.Response{ID: id}
	m, ok := decode[members](reply)
	if !ok {
		r.Error = errors.New("the client's answer is no JSON-RPC message")
		return r
	}
	if given := m["id"]; len(given) > 0 && string(given) != "null" && !sameID(given, n) {
		r.Error = fmt.Errorf("the client's answer is for another request: its id is %s, not %d", clip(string(given), 100), n)
		return r
	}
	if e := m["error"]; len(e) > 0 && string(e) != "null" {
		of, _ := decode[members](e)
		code, _ := decode[int64](of["code"])
		text, _ := decode[string](of["message"])
		// A code of the SDK's own would be taken for the connection's end.
		if code == 0 || code <= -32003 && code >= -32005 {
			code = -32000
		}
		r.Error = &jsonrpc.Error{Code: code, Message: cmp.Or(clip(text, 8<<10), "no reason given"), Data: of["data"]}
		return r
	}
	if r.Result = m["result"]; len(r.Result) == 0 {
		r.Error = errors.New("the client's answer has neither a result nor an error")
	}
	return r
}

// sameID compares an id loosely: some peers give numbers back as text.
func sameID(given json.RawMessage, n int64) bool {
	if text, ok := decode[string](given); ok {
		return text == strconv.FormatInt(n, 10)
	}
	f, ok := decode[float64](given)
	return ok && f == float64(n)
}

// following is how a caller learns that its request is pending no more.
type following struct{ done chan struct{} }

type followKey struct{}

// follow gives a context for one request and a function that waits, after the
// request's context has ended, until the client has been told: what is written
// about it must be before the turn's result (spec stream-json 5.6).
func (h *hosted) follow(ctx context.Context) (context.Context, func()) {
	if h == nil {
		return ctx, func() {}
	}
	f := &following{}
	return context.WithValue(ctx, followKey{}, f), func() {
		if f.done != nil {
			<-f.done
		}
	}
}
