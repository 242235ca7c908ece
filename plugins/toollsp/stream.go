package toollsp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"dsh/sdkproto/wirejson"
)

const (
	// maxMessage bounds one message of a server, in bytes.
	maxMessage = 32 << 20
	// maxUnsent bounds what waits for a server that does not read, in bytes.
	maxUnsent = 64 << 20
)

// stream is the wire of a server. It differs from the library's own in what it
// bears: text between messages, messages that are none, ids that changed their
// type, and a server that does not read, which holds nobody up.
type stream struct {
	in  *bufio.Reader
	out io.WriteCloser
	// noise is told of what is passed over.
	noise func(what string, text []byte)
	// heard is when the last message came, in nanoseconds.
	heard atomic.Int64

	mu     sync.Mutex
	unsent [][]byte
	size   int
	closed bool
	// more has room for one: there is something to send, or the end.
	more chan struct{}
	// sent is closed when the writer has ended.
	sent chan struct{}
}

func newStream(in io.Reader, out io.WriteCloser, noise func(string, []byte)) *stream {
	s := &stream{in: bufio.NewReaderSize(in, 64<<10), out: out, noise: noise, more: make(chan struct{}, 1), sent: make(chan struct{})}
	go s.write()
	return s
}

// WriteObject implements jsonrpc2.ObjectStream. It does not wait for the server.
func (s *stream) WriteObject(obj any) error {
	var b bytes.Buffer
	if err := (jsonrpc2.VSCodeObjectCodec{}).WriteObject(&b, obj); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return io.ErrClosedPipe
	case s.size > 0 && s.size+b.Len() > maxUnsent:
		return errors.New("the server does not read what it is sent")
	}
	s.unsent = append(s.unsent, b.Bytes())
	s.size += b.Len()
	s.wake()
	return nil
}

func (s *stream) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// write sends what is to be sent until the end, and then closes the server's input.
func (s *stream) write() {
	defer close(s.sent)
	defer s.out.Close()
	for range s.more {
		for {
			s.mu.Lock()
			if len(s.unsent) == 0 {
				closed := s.closed
				s.mu.Unlock()
				if closed {
					return
				}
				break
			}
			next := s.unsent[0]
			s.unsent = s.unsent[1:]
			s.mu.Unlock()
			_, err := s.out.Write(next)
			s.mu.Lock()
			s.size -= len(next)
			if err != nil {
				s.unsent, s.closed = nil, true
			}
			s.mu.Unlock()
		}
	}
}

// Close implements jsonrpc2.ObjectStream: nothing more is sent but what waits
// already.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.wake()
	return nil
}

// ReadObject implements jsonrpc2.ObjectStream.
func (s *stream) ReadObject(v any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("read a message: panic: %v", r)
		}
	}()
	into, ok := v.(json.Unmarshaler)
	if !ok {
		return fmt.Errorf("read into %T: it reads no JSON", v)
	}
	for {
		data, err := s.frame()
		if err != nil {
			return err
		}
		s.heard.Store(time.Now().UnixNano())
		message, err := sound(data)
		if err != nil {
			s.noise("a message of a language server cannot be read: "+err.Error(), data)
			continue
		}
		if err := into.UnmarshalJSON(message); err != nil {
			return fmt.Errorf("read a message: %w", err)
		}
		return nil
	}
}

// frame reads the next message. Lines that belong to no header are passed over.
func (s *stream) frame() ([]byte, error) {
	for {
		length := -1
		for {
			line, err := s.in.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			} else if err != nil {
				return nil, err
			}
			line = bytes.TrimSpace(line)
			if n, ok := contentLength(line); ok {
				length = n
			} else if len(line) == 0 && length >= 0 {
				break
			} else if len(line) > 0 && length < 0 && !bytes.HasPrefix(line, []byte("Content-Type:")) {
				s.noise("a language server prints noise", line)
			}
		}
		if length > maxMessage {
			head, _ := s.in.Peek(min(length, 512)) // an error comes again below
			answer := tooLong(head)
			if _, err := io.CopyN(io.Discard, s.in, int64(length)); err != nil {
				return nil, err
			}
			if answer != nil {
				return answer, nil
			}
			s.noise("a message of a language server is too long and left out", nil)
			continue
		}
		data := make([]byte, length)
		_, err := io.ReadFull(s.in, data)
		return data, err
	}
}

// contentLength reads a line of a header; noise without a line end may stand in
// front of it.
func contentLength(line []byte) (int, bool) {
	name := []byte("content-length:")
	for at := len(line) - len(name); at >= 0; at-- {
		if bytes.EqualFold(line[at:at+len(name)], name) {
			n, err := strconv.Atoi(string(bytes.TrimSpace(line[at+len(name):])))
			return n, err == nil && n > 0
		}
	}
	return 0, false
}

// tooLong answers the request whose answer is too long, so that nobody waits for it;
// nil when it does not say which that is.
func tooLong(head []byte) []byte {
	result := bytes.Index(head, []byte(`"result"`))
	if result < 0 {
		return nil
	}
	_, id, ok := bytes.Cut(head[:result], []byte(`"id":`))
	if !ok {
		return nil
	}
	id, _, _ = bytes.Cut(bytes.TrimSpace(id), []byte(","))
	if _, err := strconv.ParseUint(string(id), 10, 63); err != nil {
		return nil
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"the answer is longer than %d MiB and was not read"}}`, id, maxMessage>>20)
}

// sound makes a message of one that may be none, so that the library, which gives a
// connection up over the smallest mistake, has nothing to find.
func sound(data []byte) ([]byte, error) {
	type fault struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data,omitzero"`
	}
	var m struct {
		ID     json.RawMessage `json:"id,omitzero"`
		Method *string         `json:"method,omitzero"`
		Params json.RawMessage `json:"params,omitzero"`
		Result json.RawMessage `json:"result,omitzero"`
		Error  json.RawMessage `json:"error,omitzero"`
	}
	if err := wirejson.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	none := func(v json.RawMessage) bool { return len(v) == 0 || string(v) == "null" }
	var text string
	if number := m.ID; !none(number) {
		if wirejson.Unmarshal(m.ID, &text) == nil {
			number = []byte(text)
		}
		_, err := strconv.ParseUint(string(number), 10, 63)
		switch {
		case err == nil && m.Method == nil:
			m.ID = number // ours are numbers
		case err != nil && (m.Method == nil || string(number) == string(m.ID)):
			return nil, fmt.Errorf("its id %.40q is neither a text nor one of the numbers in use", m.ID)
		}
	}
	switch {
	case m.Method != nil:
		m.Result, m.Error = nil, nil
		if none(m.ID) {
			m.ID = nil
		}
		if none(m.Params) {
			m.Params = nil
		}
	case none(m.ID):
		return nil, errors.New("it has neither method nor id")
	case !none(m.Error):
		var f fault
		if wirejson.Unmarshal(m.Error, &f) != nil || f.Message == "" {
			f.Message = "an error without words"
		}
		encoded, err := wirejson.Marshal(f)
		if err != nil {
			return nil, err
		}
		m.Error, m.Result = encoded, nil
	default:
		m.Error = nil
		if none(m.Result) {
			m.Result = json.RawMessage("null")
		}
	}
	return wirejson.Marshal(m)
}
