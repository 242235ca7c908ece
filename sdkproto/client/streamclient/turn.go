package streamclient

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"dsh/sdkproto/client/internal/queue"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// Message is a message of the user.
type Message struct {
	// Text comes first, unless ""; Blocks are of type text or image, see Image.
	Text   string
	Blocks []streamjson.Block
	// UUID names the message, for RewindFiles and CancelMessage; "" makes one.
	UUID string
	// Priority is one of the streamjson.Priority constants, its place among messages
	// that wait; "" is streamjson.PriorityNext.
	Priority string
	// Origin, an object, comes back with the result.
	Origin json.RawMessage
}

// Image is an image as a block of a Message.
func Image(mediaType string, data []byte) streamjson.Block {
	return streamjson.Block{Type: streamjson.BlockImage, MediaType: mediaType, Data: base64.StdEncoding.EncodeToString(data)}
}

// Turn is one message and what it sets off. See Session.Send.
type Turn struct {
	uuid  string
	queue *queue.Queue[Line]
	// done is closed when the outcome stands; result and err are set before.
	done   chan struct{}
	result streamjson.Result
	err    error
}

// Query is Send of a text.
func (s *Session) Query(ctx context.Context, text string) (*Turn, error) {
	return s.Send(ctx, Message{Text: text})
}

// Send sends a message. It returns as soon as the message is on its way; ctx
// bounds that only. The message waits in the program while another is worked on.
func (s *Session) Send(ctx context.Context, m Message) (*Turn, error) {
	m.UUID = cmp.Or(m.UUID, newUUID())
	line, err := m.line()
	if err != nil {
		return nil, failed("send message", err)
	}
	t := &Turn{uuid: m.UUID, queue: queue.New[Line](s.limits.Queue), done: make(chan struct{})}
	s.mu.Lock()
	err = s.unusable()
	if err == nil && s.turn(m.UUID) != nil {
		err = errors.New("it has no result yet, and another one has the same uuid")
	}
	if err == nil {
		s.turns = append(s.turns, t)
	}
	s.mu.Unlock()
	if err == nil {
		if err = s.write(ctx, line); err != nil {
			s.drop(t)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("send message %s: %w", m.UUID, err)
	}
	return t, nil
}

// line is the message on the wire (spec stream-json 2.1).
func (m *Message) line() ([]byte, error) {
	blocks := m.Blocks
	if m.Text != "" {
		blocks = append([]streamjson.Block{{Type: streamjson.BlockText, Text: m.Text}}, blocks...)
	}
	type message struct {
		Role    string             `json:"role"`
		Content []streamjson.Block `json:"content"`
	}
	return wirejson.Marshal(struct {
		Type            string          `json:"type"`
		UUID            string          `json:"uuid"`
		SessionID       string          `json:"session_id"`
		ParentToolUseID *string         `json:"parent_tool_use_id"`
		Priority        string          `json:"priority,omitzero"`
		Origin          json.RawMessage `json:"origin,omitzero"`
		Message         message         `json:"message"`
	}{Type: streamjson.TypeUser, UUID: m.UUID, Priority: m.Priority, Origin: m.Origin, Message: message{"user", blocks}})
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return string(streamjson.AppendUUID(nil, b))
}

// UUID is that of the message.
func (t *Turn) UUID() string { return t.uuid }

// Done is closed when the outcome stands.
func (t *Turn) Done() <-chan struct{} { return t.done }

// Lines is what the program says of the turn: from the replay of its message to
// its result, both included. The lines wait until they are taken. Without an error
// the sequence ends with the result; with one it ends early: the error is that of
// ctx, the one of Result, or wraps ErrMissed when more than Limits.Queue stayed
// unread, or Result was called before Lines.
//
// Breaking off loses nothing: a later range goes on where the last one stopped.
// The sequence is for one range at a time.
func (t *Turn) Lines(ctx context.Context) iter.Seq2[Line, error] { return t.queue.All(ctx) }

// Result waits for the outcome, which is found whether the lines are read or not;
// it may be called again, and from many goroutines. When no one has called Lines,
// it drops them, since they take memory. A turn that failed is an outcome:
// Result.IsError says so.
//
// The end of ctx ends this call only. Any other error means that there is no
// outcome and is final: it wraps ErrLost (often an *ExitError), ErrClosed,
// ErrWithdrawn, or ErrProtocol.
func (t *Turn) Result(ctx context.Context) (streamjson.Result, error) {
	t.queue.Unwatched(fmt.Errorf("%w: Result was called before Lines", ErrMissed))
	select {
	case <-t.done:
	case <-ctx.Done():
		select {
		case <-t.done:
		default:
			return streamjson.Result{}, fmt.Errorf("result of message %s: %w", t.uuid, ctx.Err())
		}
	}
	return t.result, t.err
}

// finish sets the outcome; whoever calls it has taken t out of the turns.
func (t *Turn) finish(result *streamjson.Result, err error) {
	if err != nil {
		t.err = fmt.Errorf("message %s: %w", t.uuid, err)
	} else {
		t.result = *result
	}
	t.queue.End(t.err)
	close(t.done)
}

// turn finds one without a result. The caller holds mu.
func (s *Session) turn(uuid string) *Turn {
	at := slices.IndexFunc(s.turns, func(t *Turn) bool { return t.uuid == uuid })
	if at < 0 {
		return nil
	}
	return s.turns[at]
}

// drop takes a turn out; false when it was not in any more.
func (s *Session) drop(t *Turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remove(t)
}

// remove is drop for callers that hold mu.
func (s *Session) remove(t *Turn) bool {
	if s.begun == t {
		s.begun = nil
	}
	at := slices.Index(s.turns, t)
	if at < 0 {
		return false
	}
	s.turns = slices.Delete(s.turns, at, at+1)
	return true
}

// withdrawn ends the turns of messages that the program has taken out of its
// queue.
func (s *Session) withdrawn(uuids ...string) {
	for _, uuid := range uuids {
		s.mu.Lock()
		t := s.turn(uuid)
		mine := t != nil && s.remove(t)
		s.mu.Unlock()
		if mine {
			t.finish(nil, ErrWithdrawn)
		}
	}
}

// Query starts a program, sends it one prompt, and ends it. See Start and
// Turn.Result; a result that is an error is no error of Query.
func Query(ctx context.Context, o Options, prompt string) (result streamjson.Result, err error) {
	s, err := Start(ctx, o)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	t, err := s.Query(ctx, prompt)
	if err != nil {
		return result, err
	}
	return t.Result(ctx)
}
