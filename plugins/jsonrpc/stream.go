package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/sourcegraph/jsonrpc2"

	"dsh/sdkproto"
	"dsh/sdkproto/ndjson"
	"dsh/sdkproto/wirejson"
)

// stream is what jsonrpc2 reads: for every request a small frame with an id of
// our own. The request itself, with its id and parameters as they came, waits
// beside it for the handler. Answers and notifications do not pass here. All of
// it runs on the connection's reading goroutine.
type stream struct {
	s      *Server
	lines  *ndjson.Reader
	last   int64
	waits  map[uint64]*request
	warned bool
}

func newStream(s *Server) *stream {
	return &stream{s: s, lines: ndjson.NewReader(s.in, s.limits.MaxLine), waits: map[uint64]*request{}}
}

// ReadObject stores the next request in v. At the end of input it waits until
// what was accepted is answered (decision R29), but not longer than a client
// waits for anything at the end.
func (t *stream) ReadObject(v any) error {
	r, err := t.next()
	if err != nil {
		t.s.inputEnded(err)
		return io.EOF
	}
	t.last++
	t.waits[uint64(t.last)] = r
	frame := append([]byte(nil), `{"id":`...)
	frame = wirejson.AppendInt(frame, t.last)
	frame = append(frame, `,"method":`...)
	frame = wirejson.AppendString(frame, clip(r.method))
	return json.Unmarshal(append(frame, '}'), v)
}

// next returns the next request that there is room for.
func (t *stream) next() (*request, error) {
	for {
		line, tooLong, err := t.lines.Next()
		if err != nil {
			if t.lines.Unended() {
				t.s.log.Warn("standard input ended inside a line; that line was dropped")
			}
			return nil, err
		}
		if cause := context.Cause(t.s.owner.Context()); cause != nil {
			return nil, cause
		}
		if tooLong {
			t.tooLong(line)
			continue
		}
		r, kind := classify(line)
		switch kind {
		case kindRequest:
			if t.s.admit(r) {
				return r, nil
			}
		case kindResponse:
			t.s.questions.settle(line)
		case kindNone:
			if !t.warned {
				t.warned = true
				t.s.log.Warn("ignored a line on standard input that is no JSON-RPC request; further ones are ignored silently", "bytes", len(line))
			}
		}
	}
}

func (t *stream) tooLong(prefix []byte) {
	id := idOf(prefix)
	t.s.log.Warn("a request line is too long", "limitBytes", t.s.limits.MaxLine, "answered", id != nil)
	r := &request{id: id, method: "request", size: len(id)}
	if id == nil || !t.s.admit(r) {
		return
	}
	t.s.enqueue("", r, func(context.Context) ([]byte, error) {
		return nil, failure(sdkproto.ErrRequestTooLarge, "request line is longer than %d bytes; send less in one request", t.s.limits.MaxLine)
	})
}

// WriteObject refuses: answers are written as they are encoded, once.
func (t *stream) WriteObject(any) error {
	return errors.New("answers do not pass through the connection")
}

// Close leaves the streams to whoever gave them.
func (t *stream) Close() error { return nil }

// Handle dispatches the request of a synthetic frame.
func (t *stream) Handle(_ context.Context, _ *jsonrpc2.Conn, frame *jsonrpc2.Request) {
	r := t.waits[frame.ID.Num]
	delete(t.waits, frame.ID.Num)
	if _, err := t.s.contain(r.method, func() ([]byte, error) {
		t.s.dispatch(r)
		return nil, nil
	}); err != nil {
		t.s.enqueue("", r, func(context.Context) ([]byte, error) { return nil, err })
	}
}

// Printf is the connection's log. All it has to say is that the input ended,
// which is known, or what the input held, which is nobody's business.
func (t *stream) Printf(string, ...any) {}
