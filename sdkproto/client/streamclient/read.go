package streamclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"dsh/sdkproto/ndjson"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// head is a line of the program as far as this package needs it. Members of a
// wrong type count as absent.
type head struct {
	Type            json.RawMessage `json:"type"`
	Subtype         json.RawMessage `json:"subtype"`
	SessionID       json.RawMessage `json:"session_id"`
	UUID            json.RawMessage `json:"uuid"`
	ParentToolUseID json.RawMessage `json:"parent_tool_use_id"`
	IsReplay        json.RawMessage `json:"isReplay"`
	RequestID       json.RawMessage `json:"request_id"`
	Request         json.RawMessage `json:"request"`
	Response        json.RawMessage `json:"response"`
}

// text reads a JSON string, "" if it is none.
func text(raw json.RawMessage) (s string) {
	if len(raw) == 0 || raw[0] != '"' || wirejson.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// read is the goroutine that takes everything the program sends. It waits for
// nothing but the program.
func (s *Session) read() {
	r := ndjson.NewReader(s.proc.Out, s.limits.Line)
	for {
		line, tooLong, err := r.Next()
		if err != nil {
			break // how the process ended says more
		}
		if tooLong {
			s.failAll(fmt.Errorf("%w: it sent a line of more than %d bytes; raise Limits.Line", ErrProtocol, s.limits.Line))
			continue
		}
		s.take(line)
	}
	s.proc.OutRead()
	s.lose(s.proc.Lost())
}

func (s *Session) take(line []byte) {
	var h head
	if err := wirejson.Unmarshal(line, &h); err != nil {
		s.skipped.Add(1)
		return
	}
	switch kind := text(h.Type); kind {
	case "":
		s.skipped.Add(1)
	case streamjson.TypeKeepAlive:
	case streamjson.TypeControlResponse:
		s.settle(h.Response)
	case streamjson.TypeControlRequest:
		s.answer(text(h.RequestID), h.Request)
	case streamjson.TypeControlCancelRequest:
		s.asked.Withdraw(text(h.RequestID))
	default:
		s.deliver(Line{
			Type: kind, Subtype: text(h.Subtype), SessionID: text(h.SessionID), UUID: text(h.UUID),
			ParentToolUseID: text(h.ParentToolUseID), Raw: bytes.Clone(line),
		}, string(h.IsReplay) == "true")
	}
}

// settle hands an answer to whoever waits for it. One for nobody, because it is too
// late, is dropped.
func (s *Session) settle(raw json.RawMessage) {
	var r struct {
		Subtype   string          `json:"subtype"`
		RequestID string          `json:"request_id"`
		Response  json.RawMessage `json:"response"`
		Error     string          `json:"error"`
		Code      string          `json:"error_code"`
	}
	if err := wirejson.Unmarshal(raw, &r); err != nil {
		s.skipped.Add(1)
		return
	}
	s.mu.Lock()
	reply, ok := s.pending[r.RequestID]
	delete(s.pending, r.RequestID)
	s.mu.Unlock()
	switch {
	case !ok:
	case r.Subtype == "success":
		reply <- answer{response: r.Response}
	case r.Subtype == "error":
		reply <- answer{err: &ControlError{Message: r.Error, Code: r.Code}}
	default:
		reply <- answer{err: fmt.Errorf("%w: its answer is neither success nor error", ErrProtocol)}
	}
}

// deliver gives a line to its turn and to those who listen to all.
func (s *Session) deliver(l Line, replay bool) {
	s.mu.Lock()
	if replay {
		if t := s.turn(l.UUID); t != nil {
			s.begun = t
		}
	}
	begun := s.begun
	if begun != nil || len(s.taps) > 0 || l.Type == streamjson.TypeResult || l.Subtype == streamjson.SystemInit {
		l.Body = body(&l)
	}
	if init, ok := l.Body.(*streamjson.Init); ok {
		if s.init == nil {
			close(s.described)
		}
		s.init = init
	}
	var ended *Turn
	result, _ := l.Body.(*streamjson.Result)
	if l.Type == streamjson.TypeResult {
		if result != nil {
			s.last = result
		}
		if ended = s.turnOf(result); ended != nil {
			s.remove(ended)
		}
	}
	// Putting never waits. Under the lock, so that no line comes behind the end of
	// its consumer.
	for t := range s.taps {
		t.queue.Put(l, len(l.Raw))
	}
	if begun != nil {
		begun.queue.Put(l, len(l.Raw))
	}
	if ended != nil && ended != begun {
		ended.queue.Put(l, len(l.Raw))
	}
	s.mu.Unlock()
	switch {
	case ended == nil:
	case result == nil:
		ended.finish(nil, fmt.Errorf("%w: the result does not fit its type", ErrProtocol))
	default:
		ended.finish(result, nil)
	}
}

// turnOf finds the turn of a result: the one whose message it names. Of a program
// that names none it is the turn that is worked on, or the oldest; a result that the program
// begot itself, to tell the model of a task's end, is nobody's. The caller holds
// mu.
func (s *Session) turnOf(r *streamjson.Result) *Turn {
	if r != nil && r.UserMessageUUID != "" {
		return s.turn(r.UserMessageUUID)
	}
	if r != nil && len(r.Origin) > 0 {
		var origin struct {
			Kind string `json:"kind"`
		}
		if wirejson.Unmarshal(r.Origin, &origin) == nil && origin.Kind == "task-notification" {
			return nil
		}
	}
	if s.begun == nil && len(s.turns) > 0 {
		return s.turns[0]
	}
	return s.begun
}

// failAll fails every request, turn and listener of this moment.
func (s *Session) failAll(err error) {
	s.mu.Lock()
	pending, taps, turns := s.pending, s.taps, s.turns
	s.pending, s.taps, s.turns, s.begun = map[string]chan answer{}, map[*tap]struct{}{}, nil, nil
	s.mu.Unlock()
	for _, reply := range pending {
		reply <- answer{err: err}
	}
	for t := range taps {
		t.queue.End(failed("lines", err))
	}
	for _, t := range turns {
		t.finish(nil, err)
	}
}

// lose ends everything that waits for the program.
func (s *Session) lose(err error) {
	s.mu.Lock()
	if s.closing {
		err = ErrClosed
	}
	s.err = err
	s.mu.Unlock()
	close(s.down)
	s.asked.Stop(err)
	s.failAll(err)
}

// atOnce is a context for writes that do not wait.
func atOnce() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
