// Package host is the side of the stream-json wire on which the harness asks and
// the client answers: can_use_tool, hook_callback, mcp_message and elicitation
// (spec stream-json 5). Every question gets exactly one answer of some kind, and
// nothing waits for a client that cannot answer any more (5.6).
package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"dsh/sdkproto/wirejson"
)

// ErrClosed: the client has closed its end, so nobody answers (case B09).
//
//lint:ignore ST1005 these are the words of the wire (spec stream-json 5.6)
var ErrClosed = errors.New("Stream closed")

// RefusedError is an error answer of the client.
type RefusedError struct {
	// Subtype is that of the request; Message is the client's text.
	Subtype, Message string
}

func (e *RefusedError) Error() string { return e.Message }

const (
	// maxPending is how many requests may wait for the client at one time.
	maxPending = 4096
	// withdrawLimit is how long the line that withdraws a request may wait for room
	// on the wire.
	withdrawLimit = time.Second
	// maxText bounds what a client says in an error, in bytes.
	maxText = 8 << 10
)

// Write puts one line onto the wire, without its newline. It returns soon after
// ctx has ended; after an error nothing of the line is written.
type Write func(ctx context.Context, line []byte) error

// Host keeps the requests to the client. Its methods may be called from any
// goroutine.
type Host struct {
	write Write
	log   *slog.Logger
	// life ends with Close.
	life context.Context
	end  context.CancelFunc
	// turn holds a token while a line is written, and for ever after Close: so
	// nothing is written later.
	turn chan struct{}

	mu     sync.Mutex
	closed bool
	asked  int64
	open   map[string]*question
}

// question is a request that waits for its answer.
type question struct {
	id, subtype string
	place       int64
	line        []byte
	// answer has room for one, and gets it when the question leaves the table,
	// unless the one who asks takes it out.
	answer chan answer
}

type answer struct {
	response json.RawMessage
	err      error
}

// New makes a host whose requests are written with write.
func New(write Write, log *slog.Logger) *Host {
	h := &Host{write: write, log: log, turn: make(chan struct{}, 1), open: map[string]*question{}}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.life, h.end = context.WithCancel(context.Background())
	return h
}

// Ask writes a control request whose request object is request, and gives the
// answer's inner response, nil where it has none. A ctx that ends withdraws the
// request with a control_cancel_request, once, and that is written, if there is
// room, when Ask returns. Errors: ErrClosed, *RefusedError, ctx's.
func (h *Host) Ask(ctx context.Context, request any) (json.RawMessage, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	q, err := h.begin(request)
	if err != nil {
		return nil, err
	}
	if err := h.send(ctx, q.line); err != nil {
		if !h.drop(q) {
			a := <-q.answer
			return a.response, a.err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("ask the client for %s: %w", q.subtype, err)
	}
	select {
	case a := <-q.answer:
		return a.response, a.err
	case <-ctx.Done():
	}
	if !h.drop(q) { // it was answered at the same moment
		a := <-q.answer
		return a.response, a.err
	}
	h.withdraw(ctx, q)
	return nil, context.Cause(ctx)
}

// begin puts a question into the table. Its id is random, so that none is ever
// used again (spec stream-json 3.12).
func (h *Host) begin(request any) (*question, error) {
	body, err := wirejson.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode a request to the client: %w", err)
	}
	var head struct {
		Subtype string `json:"subtype"`
	}
	if err := wirejson.Unmarshal(body, &head); err != nil || head.Subtype == "" {
		return nil, errors.New("a request to the client needs a subtype")
	}
	q := &question{id: uuid.NewString(), subtype: head.Subtype, answer: make(chan answer, 1)}
	q.line = append(q.line, `{"type":"control_request","request_id":"`+q.id+`","request":`...)
	q.line = append(append(q.line, body...), '}')
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, ErrClosed
	case len(h.open) >= maxPending:
		return nil, fmt.Errorf("ask the client for %s: %d requests wait for it already", q.subtype, maxPending)
	}
	h.asked++
	q.place = h.asked
	h.open[q.id] = q
	return q, nil
}

// drop takes a question out of the table; false when its answer is there.
func (h *Host) drop(q *question) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.open[q.id]
	delete(h.open, q.id)
	return ok
}

// send writes a line, unless the host is closed.
func (h *Host) send(ctx context.Context, line []byte) error {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-h.life.Done():
		return ErrClosed
	}
	defer func() { <-h.turn }()
	if h.life.Err() != nil {
		return ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()
	return h.write(ctx, line)
}

// withdraw tells the client that nobody waits for its answer any more (S070).
func (h *Host) withdraw(ctx context.Context, q *question) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawLimit)
	defer cancel()
	if err := h.send(ctx, []byte(`{"type":"control_cancel_request","request_id":"`+q.id+`"}`)); err != nil {
		h.log.Debug("a request to the client was not withdrawn", "subtype", q.subtype, "id", q.id, "error", err)
	}
}

// Answer takes the response object of a control_response of the client. One that
// nobody waits for is ignored (spec stream-json 2.3).
func (h *Host) Answer(response json.RawMessage) {
	// Member by member: one of another type takes nothing from the others, and
	// names match exactly (case B23).
	m, ok := object(response)
	id, named := text(m["request_id"])
	h.mu.Lock()
	q := h.open[id]
	delete(h.open, id)
	h.mu.Unlock()
	if q == nil {
		h.log.Debug("an answer of the client is for no request that waits", "object", ok, "named", named, "id", clip(id))
		return
	}
	a := answer{}
	switch subtype, _ := text(m["subtype"]); subtype {
	case "success":
		a.response = m["response"]
	case "error":
		reason, _ := text(m["error"])
		a.err = &RefusedError{q.subtype, cmp.Or(clip(reason), "the client refused without a reason")}
	default:
		h.log.Warn("an answer of the client is invalid", "request", q.subtype, "field", "response.subtype", "should", "success or error")
		a.err = &RefusedError{q.subtype, fmt.Sprintf("the client's answer is invalid: its subtype is %q, not success or error", clip(subtype))}
	}
	q.answer <- a
}

// Close says that the client sends no more: what is pending fails with ErrClosed,
// and what comes later is not written.
func (h *Host) Close() {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return
	}
	h.closed = true
	open := h.open
	h.open = map[string]*question{}
	h.mu.Unlock()
	h.end()
	for _, q := range open {
		q.answer <- answer{err: ErrClosed}
	}
	h.turn <- struct{}{}
}

// Open reports whether the client can still answer.
func (h *Host) Open() bool { return h.life.Err() == nil }

// Pending gives the whole control_request lines of one subtype that wait for an
// answer, oldest first (spec stream-json 4.1).
func (h *Host) Pending(subtype string) []json.RawMessage {
	h.mu.Lock()
	open := slices.Collect(maps.Values(h.open))
	h.mu.Unlock()
	slices.SortFunc(open, func(a, b *question) int { return cmp.Compare(a.place, b.place) })
	var lines []json.RawMessage
	for _, q := range open {
		if q.subtype == subtype {
			lines = append(lines, q.line)
		}
	}
	return lines
}
