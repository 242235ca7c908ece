package jsonrpc

import (
	"context"
	"log/slog"

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
	book   *book
	asked  func() asked
	// maxTokensAsSuccess is the server's.
	maxTokensAsSuccess bool
	log                *slog.Logger
	// id is the encoded session id of the last entry.
	last, id, scratch []byte
}

// handle takes up one entry. After an error or a panic, which make the
// subscription deaf, nobody need wait for an event any more.
func (w *events) handle(_ context.Context, e session.Entry) error {
	handled := false
	defer func() {
		if !handled {
			w.book.end()
		}
	}()
	err := w.write(e)
	handled = err == nil
	return err
}

// write waits while the client does not read. Behind the end of the stream it
// fails.
func (w *events) write(e session.Entry) error {
	if w.stream.Err() != nil {
		return context.Cause(w.stream)
	}
	want := w.asked()
	if e.Record != nil && e.Record.Event.Type == sdkproto.TypeAssistantChunk {
		if want.noChunks {
			return nil
		}
		return w.entry(e)
	}
	p := w.book.find(e)
	if p != nil && !p.announced {
		p.announced = true
		if err := w.notify(sdkproto.NotifySubagentStarted, sdkproto.SubagentStarted{ParentSessionID: p.parent, ChildSessionID: e.SessionID}); err != nil {
			return err
		}
	}
	if e.Settled != nil {
		return w.finished(e)
	}
	if err := w.entry(e); err != nil || p == nil {
		return err
	}
	if e.Record == nil {
		return w.status(p, e.Status, want)
	}
	return w.record(p, e.Record, want)
}

// entry sends the fact or the change of status itself.
func (w *events) entry(e session.Entry) error {
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

// record sends what was asked for behind an event.
func (w *events) record(p *page, r *session.Record, want asked) error {
	ends, usage, err := w.book.apply(w.stream, p, r, want)
	if err != nil {
		// The extensions suffer, the events do not.
		w.log.Error("an event could not be accounted for", "session", p.agent.ID(), "seq", r.Event.Seq, "error", err)
	}
	if usage != nil {
		if err := w.notify(sdkproto.NotifyUsage, usage); err != nil {
			return err
		}
	}
	for _, end := range ends {
		if !want.finished || !end.prompt {
			continue
		}
		if err := w.notify(sdkproto.NotifyPromptFinished, end.PromptFinished); err != nil {
			return err
		}
	}
	return nil
}

func (w *events) status(p *page, status sdkproto.Status, want asked) error {
	changed := w.book.status(p, status)
	if status == sdkproto.StatusIdle {
		w.book.sweep()
	}
	if !changed || !want.tree {
		return nil
	}
	return w.notify(sdkproto.NotifyTreeStatus, sdkproto.TreeStatus{SessionID: p.root, Status: status})
}

func (w *events) notify(method string, params any) error {
	frame, err := notification(method, params)
	if err != nil {
		return err
	}
	return w.writer.Frame(w.stream, frame)
}

// notification is a whole frame.
func notification(method string, params any) ([]byte, error) {
	frame := append([]byte(nil), `{"jsonrpc":"2.0","method":`...)
	frame = wirejson.AppendString(frame, method)
	frame, err := wirejson.Append(append(frame, `,"params":`...), params)
	if err != nil {
		return nil, err
	}
	return append(frame, '}'), nil
}
