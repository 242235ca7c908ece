package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	programs "dsh/plugins/internal/child"
)

// maxMessage bounds one message of a server, in bytes.
const maxMessage = 32 << 20

// stdioConn speaks with a program, one message a line. The SDK's own connection
// ends at the first line that is no message and ends nothing but the program.
type stdioConn struct {
	child    *child
	said     *talk
	incoming chan jsonrpc.Message
	outgoing chan outgoing
	grace    func() programs.Grace

	once   sync.Once
	closed chan struct{}
	// ended is closed when the program's output has ended.
	ended chan struct{}
}

type outgoing struct {
	data []byte
	done chan error
}

func newStdioConn(c *child, said *talk, g func() programs.Grace) *stdioConn {
	s := &stdioConn{child: c, said: said, grace: g, incoming: make(chan jsonrpc.Message), outgoing: make(chan outgoing),
		closed: make(chan struct{}), ended: make(chan struct{})}
	go s.read()
	go s.write()
	return s
}

// Connect implements sdk.Transport.
func (s *stdioConn) Connect(context.Context) (sdk.Connection, error) { return s, nil }

// SessionID implements sdk.Connection.
func (s *stdioConn) SessionID() string { return "" }

// Read implements sdk.Connection.
func (s *stdioConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case msg := <-s.incoming:
		return msg, nil
	case <-s.ended:
		return nil, s.child.why()
	case <-s.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read reads the program's output to its end, also when nobody listens any
// more: a program that is ending may still have something to say.
func (s *stdioConn) read() {
	defer close(s.ended)
	lines(s.child.Stdout, maxMessage, func(line []byte) bool {
		for _, msg := range s.messages(line) {
			select {
			case s.incoming <- msg:
			case <-s.closed:
			}
		}
		return true
	}, func(head, end []byte) bool {
		s.said.say(slog.LevelWarn, "a message of an mcp server is too long and left out", string(head))
		if msg := tooLong(head, end); msg != nil {
			select {
			case s.incoming <- msg:
			case <-s.closed:
			}
		}
		return true
	})
}

// messages decodes a line. What is no message is noise of the program, or has
// noise in front.
func (s *stdioConn) messages(line []byte) []jsonrpc.Message {
	line = bytes.TrimSpace(line)
	if len(line) > 0 && line[0] == '[' {
		if batch, ok := decode[[]json.RawMessage](line); ok {
			var msgs []jsonrpc.Message
			for _, one := range batch {
				msgs = append(msgs, s.messages(one)...)
			}
			return msgs
		}
	}
	msg, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		if i := bytes.Index(line, []byte(`{"jsonrpc"`)); i > 0 {
			msg, err = jsonrpc.DecodeMessage(line[i:])
		}
	}
	if err != nil {
		if len(line) > 0 {
			s.said.say(slog.LevelInfo, "mcp server prints noise", string(line[:min(len(line), maxLogLine)]))
		}
		return nil
	}
	if r, ok := msg.(*jsonrpc.Response); ok {
		// Our ids are numbers; some servers give them back as text.
		if text, isText := r.ID.Raw().(string); isText {
			if n, err := strconv.ParseInt(text, 10, 32); err == nil {
				r.ID, _ = jsonrpc.MakeID(float64(n))
			}
		}
	}
	return []jsonrpc.Message{msg}
}

// tooLong answers the request whose answer is too long to be read, so that only
// the one call fails. It gives nil when the message does not say which that is.
func tooLong(head, end []byte) jsonrpc.Message {
	id := func(part []byte, i int) (int64, bool) {
		if i < 0 {
			return 0, false
		}
		digits := bytes.TrimLeft(part[i+len(`"id":`):], " ")
		n := 0
		for n < len(digits) && digits[n] >= '0' && digits[n] <= '9' {
			n++
		}
		v, err := strconv.ParseInt(string(digits[:n]), 10, 32)
		return v, err == nil
	}
	if result := bytes.Index(head, []byte(`"result"`)); result >= 0 {
		// What stands behind is the server's own.
		if before := bytes.Index(head[:result], []byte(`"id":`)); before >= 0 {
			end = nil
			head = head[:result]
		} else {
			head = nil
		}
	} else {
		return nil
	}
	n, ok := id(head, bytes.Index(head, []byte(`"id":`)))
	if !ok {
		n, ok = id(end, bytes.LastIndex(end, []byte(`"id":`)))
	}
	if !ok {
		return nil
	}
	r := &jsonrpc.Response{Error: fmt.Errorf("the answer is longer than %d MiB and was not read", maxMessage>>20)}
	r.ID, _ = jsonrpc.MakeID(float64(n))
	return r
}

// Write implements sdk.Connection. A program that does not read holds up nobody
// longer than his context.
func (s *stdioConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(wireMessage(msg))
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	out := outgoing{append(data, '\n'), make(chan error, 1)}
	select {
	case s.outgoing <- out:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closed:
		return io.ErrClosedPipe
	case <-s.child.Gone():
		return s.child.why()
	}
	select {
	case err := <-out.done:
		return err
	case <-ctx.Done():
		return ctx.Err() // it is written when there is room
	case <-s.child.Gone():
		return s.child.why()
	}
}

func (s *stdioConn) write() {
	for {
		select {
		case out := <-s.outgoing:
			if _, err := s.child.Stdin.Write(out.data); err != nil {
				out.done <- errors.Join(s.child.why(), err)
			} else {
				out.done <- nil
			}
		case <-s.child.Gone():
			return
		}
	}
}

// Close implements sdk.Connection. It begins the end of the program and does
// not wait for it.
func (s *stdioConn) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.child.end(s.grace())
	})
	return nil
}
