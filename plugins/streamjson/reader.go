package streamjson

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"dsh/sdkproto/ndjson"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// lines reads standard input. A last line without its end counts: whether it was
// cut off shows in its JSON (case B06).
func (s *Server) lines() *ndjson.Reader {
	return ndjson.NewReader(io.MultiReader(s.In, strings.NewReader("\n")), s.Config.MaxLine)
}

// read takes all lines of standard input, and then says that it has ended.
func (s *Server) read() {
	in := s.lines()
	for {
		line, tooLong, err := in.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.Log.Warn("standard input failed; this counts as its end", "error", err)
			}
			s.inputEnded()
			return
		}
		if s.Owner.Context().Err() != nil {
			return
		}
		s.contain("an input line", func() {
			if tooLong {
				s.refuseLong(line)
				return
			}
			s.take(line)
		})
	}
}

// take hands one line on (spec stream-json 2, 2.6).
func (s *Server) take(line []byte) {
	var in streamjson.Input
	if line[0] != '{' || wirejson.Unmarshal(line, &in) != nil {
		// The content may be anybody's; its length must do.
		s.Log.Warn("skipped a line on standard input that is no JSON object", "bytes", len(line))
		return
	}
	switch in.Type {
	case streamjson.TypeUser:
		m := readUser(line)
		if !s.Config.ReplayUserMessages {
			m.wire = nil // images are long
		}
		s.enqueue(m)
	case streamjson.TypeControlRequest:
		s.takeRequest(in)
	case streamjson.TypeControlResponse:
		s.host.Answer(bytes.Clone(in.Response))
	case streamjson.TypeControlCancelRequest:
		s.withdraw(in.RequestID)
	case streamjson.TypeUpdateEnvironment:
		s.setEnvironment(in.Variables)
	case streamjson.TypeKeepAlive:
	default:
		s.Log.Debug("skipped a line of an unknown type on standard input", "type", clip(in.Type))
	}
}

// enqueue puts a message into the queue. When that is full nothing more is read
// until there is room, so that the client waits, and not the memory. But while a
// question to the host is open its answer may stand behind the messages: then they
// are taken, too, up to twice the bound (S003; nothing may hang).
func (s *Server) enqueue(m *message) {
	most := s.Config.MaxQueued
	for {
		asking := s.asking()
		s.mu.Lock()
		roomy := !s.queue.full(most) || asking && !s.queue.brimming(most) || s.ending
		if full := !roomy && asking; roomy || full {
			if full {
				m.bad = fmt.Errorf("too many messages wait already: %d; wait for some results", len(s.queue.list))
				m.content, m.images, m.wire, m.size = nil, nil, nil, 0
			}
			if !s.ending {
				s.queue.push(m)
				s.dropSuggestion()
			}
			close(s.changed)
			s.changed = make(chan struct{})
			s.mu.Unlock()
			return
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-s.work.Done():
			return
		}
	}
}

// asking reports whether a question to the host is open.
func (s *Server) asking() bool {
	return slices.ContainsFunc([]string{"can_use_tool", "hook_callback", "mcp_message", "elicitation"}, func(subtype string) bool {
		return len(s.host.Pending(subtype)) > 0
	})
}

// ask writes a line of package host, and lets the reader know that an answer is
// waited for.
func (s *Server) ask(ctx context.Context, line []byte) error {
	err := s.writer.Frame(ctx, line)
	s.with(func() {})
	return err
}

// refuseLong answers a line beyond maxLine, of which there is only the beginning
// (case B01).
func (s *Server) refuseLong(prefix []byte) {
	why := fmt.Errorf("the line is longer than %d bytes", s.Config.MaxLine)
	s.Log.Warn("skipped a line on standard input that is too long", "limitBytes", s.Config.MaxLine)
	kind := memberText(prefix, "type")
	switch kind {
	case streamjson.TypeControlRequest, streamjson.TypeControlResponse, streamjson.TypeControlCancelRequest, streamjson.TypeUpdateEnvironment, streamjson.TypeKeepAlive:
	default:
		// The type may stand behind what is long, or be that of something inside.
		message, request := bytes.Index(prefix, []byte(`"message"`)), bytes.Index(prefix, []byte(`"request"`))
		if message >= 0 && (request < 0 || message < request) {
			kind = streamjson.TypeUser
		}
	}
	switch kind {
	case streamjson.TypeUser:
		m := readUser([]byte(`{"message":null}`))
		m.bad = why
		s.enqueue(m)
	case streamjson.TypeControlRequest:
		if id := memberText(prefix, "request_id"); id != "" {
			s.reply(s.work, streamjson.AnswerError(id, why.Error(), "", nil))
		}
	}
}

// memberText finds the first member of a name that has a string without escapes
// as its value, in the beginning of a JSON text.
func memberText(prefix []byte, name string) string {
	_, rest, ok := bytes.Cut(prefix, []byte(`"`+name+`"`))
	if !ok {
		return ""
	}
	rest = bytes.TrimLeft(rest, " \t\r\n")
	rest, ok = bytes.CutPrefix(rest, []byte(":"))
	if !ok {
		return ""
	}
	rest, ok = bytes.CutPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(`"`))
	end := bytes.IndexAny(rest, `"\`)
	if !ok || end < 0 || rest[end] != '"' {
		return ""
	}
	return string(rest[:end])
}

// inputEnded: nobody answers any more, and what is queued is the last there is
// (spec stream-json 1.8).
func (s *Server) inputEnded() {
	s.host.Close()
	s.with(func() { s.eof = true })
}

// firstLineLimit is how long a start that failed waits for the first line (spec
// stream-json 3.8).
const firstLineLimit = 5 * time.Second

// awaitFirstLine returns when the client has written something, or will not. The
// line is not answered.
func (s *Server) awaitFirstLine(ctx context.Context) {
	came := make(chan struct{})
	go func() {
		defer close(came)
		_, _, _ = s.lines().Next()
	}()
	timer := time.NewTimer(firstLineLimit)
	defer timer.Stop()
	select {
	case <-came:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// contain keeps a panic from ending the process.
func (s *Server) contain(what string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			// What was panicked with may quote a message.
			s.Log.Error("panic", "in", what, "kind", fmt.Sprintf("%T", p), "stack", stack())
		}
	}()
	f()
}

// kindOf reports what kind of JSON value a member is: its first byte, 0 when it is
// not there.
func kindOf(raw json.RawMessage) byte {
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}
