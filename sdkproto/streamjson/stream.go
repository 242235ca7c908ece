package streamjson

import "dsh/sdkproto/wirejson"

// Stream writes the stream_event lines of one session: the events of the Messages
// API while an answer comes (spec stream-json 3.6). A delta is the one line worth
// writing by hand. Its methods append one line each, without its end.
type Stream struct {
	// head is what stands in front of the uuid.
	head []byte
}

// streamTail stands between the uuid and the event: only the main thread streams.
const streamTail = `","parent_tool_use_id":null,"event":`

// NewStream makes the writer of a session's stream_event lines.
func NewStream(sessionID string) *Stream {
	head := wirejson.AppendString([]byte(`{"type":"`+TypeStreamEvent+`","session_id":`), sessionID)
	return &Stream{head: append(head, `,"uuid":"`...)}
}

// Size is how many bytes a line has beside the text of its event, at most.
func (s *Stream) Size() int { return len(s.head) + 36 + len(streamTail) + 128 }

func (s *Stream) begin(dst []byte, uuid string) []byte {
	dst = append(append(dst, s.head...), uuid...)
	return append(dst, streamTail...)
}

// MessageStart begins an answer; the message has no content.
func (s *Stream) MessageStart(dst []byte, uuid string, m *Message) ([]byte, error) {
	dst = append(s.begin(dst, uuid), `{"type":"message_start","message":`...)
	dst, err := wirejson.Append(dst, m)
	return append(dst, `}}`...), err
}

// BlockStart begins a block as it is before its deltas.
func (s *Stream) BlockStart(dst []byte, uuid string, index int, b *Block) []byte {
	dst = append(s.begin(dst, uuid), `{"type":"content_block_start","index":`...)
	dst = append(wirejson.AppendInt(dst, int64(index)), `,"content_block":`...)
	return append(b.AppendJSON(dst), `}}`...)
}

// Kind is a kind of delta.
type Kind int

// Kinds of deltas.
const (
	KindText Kind = iota
	KindThinking
	KindSignature
	KindInput
)

// Delta is a piece of a block.
func (s *Stream) Delta(dst []byte, uuid string, index int, kind Kind, text string) []byte {
	dst = append(s.begin(dst, uuid), `{"type":"content_block_delta","index":`...)
	dst = wirejson.AppendInt(dst, int64(index))
	switch kind {
	case KindText:
		dst = append(dst, `,"delta":{"type":"text_delta","text":`...)
	case KindThinking:
		dst = append(dst, `,"delta":{"type":"thinking_delta","thinking":`...)
	case KindSignature:
		dst = append(dst, `,"delta":{"type":"signature_delta","signature":`...)
	case KindInput:
		dst = append(dst, `,"delta":{"type":"input_json_delta","partial_json":`...)
	}
	return append(wirejson.AppendString(dst, text), `}}}`...)
}

// BlockStop ends a block.
func (s *Stream) BlockStop(dst []byte, uuid string, index int) []byte {
	dst = append(s.begin(dst, uuid), `{"type":"content_block_stop","index":`...)
	return append(wirejson.AppendInt(dst, int64(index)), `}}`...)
}

// MessageDelta tells why the answer ended; sequence is the stop sequence that was
// met, "" for none.
func (s *Stream) MessageDelta(dst []byte, uuid, reason, sequence string, u *Usage) ([]byte, error) {
	dst = append(s.begin(dst, uuid), `{"type":"message_delta","delta":{"stop_reason":`...)
	dst = append(wirejson.AppendString(dst, reason), `,"stop_sequence":`...)
	if sequence == "" {
		dst = append(dst, `null`...)
	} else {
		dst = wirejson.AppendString(dst, sequence)
	}
	dst, err := wirejson.Append(append(dst, `},"usage":`...), u)
	return append(dst, `}}`...), err
}

// MessageStop ends an answer, or the attempt at one.
func (s *Stream) MessageStop(dst []byte, uuid string) []byte {
	return append(s.begin(dst, uuid), `{"type":"message_stop"}}`...)
}
