package jsonrpc

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"dsh/kernel/agent"
	"dsh/kernel/session"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// inLane answers a request about one session behind those of the session that
// came before it.
func (s *Server) inLane(r *request, f func(context.Context, args, string) (any, error)) {
	a, err := decodeArgs(r.method, r.params)
	var id string
	if err == nil {
		id, err = a.sessionID()
	}
	s.enqueue(id, r, func(ctx context.Context) ([]byte, error) {
		if err == nil {
			err = s.enter()
		}
		if err != nil {
			return nil, err
		}
		defer s.opening.done(0)
		result, err := f(ctx, a, id)
		if err != nil {
			return nil, err
		}
		return wirejson.Marshal(result)
	})
}

// cancel ends what runs in a session, or one message of it (decision D23).
func (s *Server) cancel(r *request) {
	s.inLane(r, func(_ context.Context, a args, id string) (any, error) {
		messageID, err := a.optionalText("messageId")
		if err != nil {
			return nil, err
		}
		live, ok := s.agents.Get(id)
		return sdkproto.CancelResult{Cancelled: ok && live.Cancel(agent.Cause{Kind: sdkproto.AbortUser}, messageID)}, nil
	})
}

// closeSession releases a session; its next prompt resumes it (S138).
func (s *Server) closeSession(r *request) {
	s.inLane(r, func(ctx context.Context, _ args, id string) (any, error) {
		s.mu.Lock()
		delete(s.sessions, id)
		s.mu.Unlock()
		return struct{}{}, s.agents.Close(ctx, id, agent.Cause{Kind: sdkproto.AbortUser})
	})
}

// resume makes a stored session live without a prompt.
func (s *Server) resume(r *request) {
	h := s.handshake
	s.inLane(r, func(ctx context.Context, _ args, id string) (any, error) {
		d, err := s.initialized(ctx, h)
		if err != nil {
			return nil, err
		}
		a, err := s.agents.Open(ctx, s.spec(id, d), agent.OpenResume)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		k := s.sessions[id]
		s.mu.Unlock()
		if k == nil || k.agent != a {
			s.know(a)
		}
		return sdkproto.ResumeResult{LastSeq: a.Log().Next() - 1, Status: a.Status()}, nil
	})
}

// spawnReader answers a request that reads the store from a goroutine of its
// own, which holds up nobody; a few at a time, because answers can be large.
func (s *Server) spawnReader(name string, r *request, f func(context.Context) ([]byte, error)) {
	s.owner.Go(name, func(ctx context.Context) {
		release := s.reader(ctx)
		defer release()
		s.serve(ctx, r, f)
	})
}

// reader waits for the right to read the store.
func (s *Server) reader(ctx context.Context) (release func()) {
	select {
	case s.readers <- struct{}{}:
		return func() { <-s.readers }
	case <-ctx.Done():
		return func() {}
	}
}

// Limits of one answer to session/list.
const (
	defaultPage = 100
	longestPage = 1000
)

// list gives the stored sessions, newest first, page by page.
func (s *Server) list(r *request) {
	s.spawnReader("list", r, func(ctx context.Context) ([]byte, error) {
		a, err := decodeArgs(r.method, r.params)
		if err != nil {
			return nil, err
		}
		cwd, err := a.optionalText("cwd")
		if err != nil {
			return nil, err
		}
		limit, err := a.integer("limit", 1, longestPage, defaultPage)
		if err != nil {
			return nil, err
		}
		behind := func(session.Header) bool { return true }
		if a.given("cursor") {
			var cursor string
			if cursor, err = a.text("cursor"); err == nil {
				behind, err = fromCursor(cursor)
			}
			if err != nil {
				return nil, a.wrong("cursor", "the nextCursor of an answer to session/list")
			}
		}
		headers, err := s.agents.List(ctx, cwd)
		if err != nil {
			return nil, err
		}
		// The order is ours: the cursor depends on it.
		slices.SortFunc(headers, newestFirst)
		result := sdkproto.ListResult{Sessions: []sdkproto.SessionInfo{}}
		for _, h := range headers {
			if !behind(h) {
				continue
			}
			if len(result.Sessions) == int(limit) {
				last := result.Sessions[limit-1]
				result.NextCursor = strconv.FormatInt(last.CreatedAt, 10) + " " + last.SessionID
				break
			}
			info := sdkproto.SessionInfo{SessionID: h.ID, CreatedAt: h.CreatedAt, CWD: h.CWD, ParentSessionID: h.ParentSession}
			if live, ok := s.agents.Get(h.ID); ok {
				info.Status = live.Status()
			}
			result.Sessions = append(result.Sessions, info)
		}
		return wirejson.Marshal(result)
	})
}

func newestFirst(a, b session.Header) int {
	return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), strings.Compare(a.ID, b.ID))
}

// fromCursor tells which sessions come behind the last one of a page, whatever
// has been made or deleted since.
func fromCursor(cursor string) (func(session.Header) bool, error) {
	created, id, _ := strings.Cut(cursor, " ")
	at, err := strconv.ParseInt(created, 10, 64)
	if err != nil {
		return nil, err
	}
	last := session.Header{CreatedAt: at, ID: id}
	return func(h session.Header) bool { return newestFirst(last, h) < 0 }, nil
}

// pageBytes is about how much of a log is in one answer (decision D23).
const pageBytes = 4 << 20

// events gives the stored events of a session, as they are in its log.
func (s *Server) events(r *request) {
	s.spawnReader("events", r, func(ctx context.Context) ([]byte, error) {
		a, err := decodeArgs(r.method, r.params)
		if err != nil {
			return nil, err
		}
		id, err := a.sessionID()
		if err != nil {
			return nil, err
		}
		from, err := a.integer("fromSeq", 0, maxSafeInteger, 0)
		if err != nil {
			return nil, err
		}
		result := append([]byte(nil), `{"events":[`...)
		empty, next := len(result), from
		err = s.agents.Events(ctx, id, from, func(e *session.Record) error {
			if len(result) > empty {
				if len(result)+len(e.Raw) > pageBytes {
					return errEnough
				}
				result = append(result, ',')
			}
			result = append(result, wirejson.Escape(e.Raw)...) // others may have stored it
			next = e.Event.Seq + 1
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			return nil, err
		}
		result = append(result, `],"nextSeq":`...)
		return append(wirejson.AppendInt(result, next), '}'), nil
	})
}

// longestWait keeps a number of milliseconds a duration.
const longestWait = 1 << 40

// wait answers when a message is settled, or when the time is over.
func (s *Server) wait(r *request) {
	s.spawn("wait", r, func(ctx context.Context) ([]byte, error) {
		a, err := decodeArgs(r.method, r.params)
		if err != nil {
			return nil, err
		}
		var at target
		if at.session, err = a.sessionID(); err != nil {
			return nil, err
		}
		if at.message, err = a.text("messageId"); err != nil {
			return nil, err
		}
		limit, err := a.integer("timeoutMs", 0, maxSafeInteger, -1)
		if err != nil {
			return nil, err
		}
		var over <-chan time.Time // never, without a limit
		if limit >= 0 {
			timer := time.NewTimer(time.Duration(min(limit, longestWait)) * time.Millisecond)
			defer timer.Stop()
			over = timer.C
		}
		w, known := s.book.await(at)
		defer s.book.forget(at, w)
		if !known {
			end, err := s.settledBefore(ctx, at)
			if err != nil {
				return nil, err
			}
			if end != nil {
				return wirejson.Marshal(sdkproto.WaitResult{Finished: true, PromptFinished: *end})
			}
		}
		s.pending.hold(1)
		defer s.pending.hold(-1)
		var end sdkproto.PromptFinished
		select {
		case end = <-w.done:
		case <-over:
		case <-s.end.eof:
		case <-s.end.rested:
		case <-s.book.over:
		case <-ctx.Done():
		}
		if end.MessageID == "" {
			select {
			case end = <-w.done: // at the same moment
			default:
				return []byte(`{"finished":false}`), nil
			}
		}
		return wirejson.Marshal(sdkproto.WaitResult{Finished: true, PromptFinished: end})
	})
}

// settledBefore looks for a message in the log: what became of it, or nil for
// one that is on its way.
func (s *Server) settledBefore(ctx context.Context, at target) (end *sdkproto.PromptFinished, err error) {
	release := s.reader(ctx)
	defer release()
	var l ledger
	err = s.agents.Events(ctx, at.session, 0, func(r *session.Record) error {
		ends, err := l.apply(r)
		for i := range ends {
			if ends[i].MessageID == at.message {
				ends[i].SessionID = at.session
				end = &ends[i].PromptFinished
				return errEnough
			}
		}
		return err
	})
	switch {
	case end != nil:
		return end, nil
	case err != nil:
		return nil, err
	case !l.waits(at.message):
		return nil, invalid("messageId", "session/wait messageId: session %q has no user message %q", at.session, clip(at.message))
	}
	return nil, nil
}

// ping tells that the process lives.
func (s *Server) ping(r *request) {
	s.enqueue("", r, func(context.Context) ([]byte, error) {
		return wirejson.Marshal(sdkproto.Clock{Time: time.Now().UnixMilli()})
	})
}
