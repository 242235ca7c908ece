package jsonrpc

import (
	"context"

	"dsh/kernel/session"
	"dsh/sdkproto"
	"dsh/sdkproto/ndjson"
	"dsh/sdkproto/wirejson"
)

// keepScratch is the largest buffer kept from one event to the next, in bytes.
const keepScratch = 256 << 10

// events turns what happens in the sessions into notifications. One goroutine,
// the subscription's, uses it.
type events struct {
	writer *ndjson.Writer
	stream context.Context
	// id is the encoded session id of the last entry.
	last, id, scratch []byte
}

// write waits while the client does not read. Behind the end of the stream it
// fails, which makes the subscription deaf.
func (w *events) write(_ context.Context, e session.Entry) error {
	if w.stream.Err() != nil {
		return context.Cause(w.stream)
	}
	if string(w.last) != e.SessionID || w.id == nil {
		w.last = append(w.last[:0], e.SessionID...)
		w.id = wirejson.AppendString(w.id[:0], e.SessionID)
	}
	frame := append(w.scratch[:0], `{"jsonrpc":"2.0","method":"`...)
	if e.Record != nil {
		frame = append(frame, sdkproto.NotifySessionEvent+`","params":{"sessionId":`...)
		frame = append(frame, w.id...)
		frame = append(frame, `,"event":`...)
		frame = append(frame, e.Record.Raw...)
	} else {
		frame = append(frame, sdkproto.NotifySessionStatus+`","params":{"sessionId":`...)
		frame = append(frame, w.id...)
		frame = append(frame, `,"status":`...)
		frame = wirejson.AppendString(frame, string(e.Status))
	}
	frame = append(frame, "}}"...)
	if w.scratch = frame; cap(frame) > keepScratch {
		w.scratch = nil
	}
	return w.writer.Frame(w.stream, frame)
}
