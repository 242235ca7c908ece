package streamjson

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"dsh/kernel/agent"
	"dsh/kernel/hook"
	"dsh/kernel/session"
	"dsh/plugins/streamjson/project"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// view guards the projector, which one goroutine may use at a time. No lock of it
// is held while a line is written.
type view struct {
	mu sync.Mutex
	p  *project.Projector
}

func (v *view) with(f func(p *project.Projector)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.p != nil {
		f(v.p)
	}
}

func (v *view) set(p *project.Projector) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.p = p
}

func (v *view) isSet() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.p != nil
}

func (v *view) child(spec agent.Spec) {
	v.with(func(p *project.Projector) { p.Child(spec) })
}

func (v *view) entry(ctx context.Context, e session.Entry) (lines [][]byte, end *project.End) {
	v.with(func(p *project.Projector) { lines, end = p.Entry(ctx, e) })
	return lines, end
}

// speaks reports whether every line goes out, and not the outcome alone.
func (s *Server) speaks() bool { return s.Config.OutputFormat == FormatStream }

// write puts lines onto the wire.
func (s *Server) write(ctx context.Context, lines ...[]byte) error {
	if !s.speaks() {
		return nil
	}
	for _, line := range lines {
		if err := s.writer.Frame(ctx, line); err != nil {
			return err
		}
	}
	return nil
}

// put writes a line whatever the output format is.
func (s *Server) put(ctx context.Context, line any) {
	encoded, err := wirejson.Marshal(line)
	if err == nil {
		err = s.writer.Frame(ctx, encoded)
	}
	if err != nil {
		s.Log.Debug("a line was not written", "error", err)
	}
}

// say writes a line of a type of package streamjson.
func (s *Server) say(ctx context.Context, line any) {
	if s.speaks() {
		s.put(ctx, line)
	}
}

func (s *Server) head(lineType, subtype string) streamjson.Head {
	return streamjson.Head{Type: lineType, Subtype: subtype, SessionID: s.sessionID(), UUID: uuid.NewString()}
}

// tellMode says which permission mode is in force when the client was told another:
// it changes with requests of the client, with its answers to questions, and with
// calls of the model (spec stream-json 3.10, 4.4). system/init says it first.
func (s *Server) tellMode(ctx context.Context) {
	if s.Policy == nil {
		return
	}
	s.telling.Lock()
	defer s.telling.Unlock()
	mode := s.Policy.Mode(s.sessionID(), s.cwd)
	if s.mode == "" || s.mode == mode {
		return
	}
	s.mode = mode
	s.say(ctx, streamjson.Status{Head: s.head(streamjson.TypeSystem, streamjson.SystemStatus), PermissionMode: mode})
}

// tellSession says what the session is, with the mode that is in force.
func (s *Server) tellSession(ctx context.Context) {
	s.telling.Lock()
	defer s.telling.Unlock()
	init := s.describeSession()
	s.mode = init.PermissionMode
	s.say(ctx, init)
}

// noticeLimit is how long a hook waits for the wire to have the line about it. A
// client that reads nothing costs a hook no more.
const noticeLimit = time.Second

// notices are the lines that hooks lead to, in order.
type notices struct{ lines chan told }

// told is a line to write, or a caller that waits until those before it are
// written.
type told struct {
	line any
	done chan struct{}
}

// write is the goroutine that writes them.
func (n *notices) write(s *Server) func(context.Context) {
	return func(ctx context.Context) {
		for {
			select {
			case one := <-n.lines:
				if one.done != nil {
					close(one.done)
					continue
				}
				s.say(ctx, one.line)
			case <-ctx.Done():
				return
			}
		}
	}
}

// flush returns when all notices so far are written.
func (n *notices) flush(ctx context.Context) {
	done := make(chan struct{})
	select {
	case n.lines <- told{done: done}:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// notice takes what hooks say (spec stream-json 6.7). The lines that frame a run
// are for clients that ask for them, but for those of SessionStart.
func (s *Server) notice(n hook.Notice) {
	var line any
	shown := s.Config.HookEvents || n.Event == hook.SessionStart
	started := streamjson.HookStarted{HookID: n.ID, Name: n.Name, Event: n.Event}
	switch {
	case n.Kind == hook.NoticeStarted && shown:
		started.Head = s.head(streamjson.TypeSystem, streamjson.SystemHookStarted)
		line = started
	case n.Kind == hook.NoticeResponded && shown:
		started.Head = s.head(streamjson.TypeSystem, streamjson.SystemHookResponse)
		line = streamjson.HookResponse{
			HookStarted: started, Output: n.Output, Stdout: n.Stdout, Stderr: n.Stderr, ExitCode: n.ExitCode, Outcome: n.Outcome,
		}
	case n.Kind == hook.NoticeInformational:
		line = streamjson.Informational{Head: s.head(streamjson.TypeSystem, streamjson.SystemInformational), Content: n.Text, Level: n.Level}
	default:
		return
	}
	// What the log had before stands in front of the line, what comes of the hook
	// behind it: no line overtakes (S072).
	ctx, cancel := context.WithTimeout(s.work, noticeLimit)
	defer cancel()
	_ = s.sub.Drain(ctx) // ctx is over, then
	select {
	case s.told.lines <- told{line: line}:
	default:
		s.Log.Warn("a notice of a hook was dropped, because the client does not read", "hook", clip(n.Name))
	}
	s.told.flush(ctx)
}
