package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"dsh/sdkproto/client/streamclient"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

const (
	// maxSessions is how many programs run at one time, those of chats and others.
	maxSessions = 8
	// maxPrompt is the longest body of a request, in bytes.
	maxPrompt = 1 << 20
	// closeLimit is how long the end of a program may take.
	closeLimit = 15 * time.Second
)

// service answers requests.
type service struct {
	http.ServeMux
	options streamclient.Options
	// slots has an element for each program that runs.
	slots chan struct{}
	// life ends with stop.
	life context.Context
	stop context.CancelFunc

	mu     sync.Mutex
	lastID int
	// chats are the sessions by id, nil when the service is closed.
	chats map[string]*streamclient.Session
}

func newService(o streamclient.Options) *service {
	o.CanUseTool = policy
	o.MCPServers = map[string]streamclient.MCPServer{"app": tools()}
	// Rules settle what needs no thought: the tools of this service may run.
	o.Args = append([]string{"--include-partial-messages", "--allowedTools", "mcp__app"}, o.Args...)
	s := &service{options: o, slots: make(chan struct{}, maxSessions), chats: map[string]*streamclient.Session{}}
	s.life, s.stop = context.WithCancel(context.Background())
	s.HandleFunc("POST /query", s.query)
	s.HandleFunc("POST /stream", s.stream)
	s.HandleFunc("POST /chats", s.openChat)
	s.HandleFunc("POST /chats/{id}", s.chat)
	s.HandleFunc("POST /chats/{id}/stream", s.chat)
	s.HandleFunc("DELETE /chats/{id}", s.closeChat)
	return s
}

// policy is the service's word on calls that no rule decides: the files may be
// looked at, and nothing else.
func policy(_ context.Context, q streamjson.CanUseTool) (streamjson.Permission, error) {
	switch q.ToolName {
	case "Read", "Glob", "Grep":
		return streamclient.Allow(), nil
	}
	return streamclient.Deny("this service does not let " + q.ToolName + " run"), nil
}

// tools are those that run inside the service.
func tools() streamclient.MCPServer {
	return streamclient.NewToolServer("app", "1.0.0", streamclient.Tool{
		Name: "server_time", Description: "Tells the time of the service.", ReadOnly: true,
		Call: func(context.Context, json.RawMessage) (string, error) {
			return time.Now().UTC().Format(time.RFC3339), nil
		},
	})
}

var (
	errBusy = errors.New("too many sessions; try again later, or close a chat")
	errNone = errors.New("no such chat")
)

// start takes a slot and starts a program, whose end releases it.
func (s *service) start(ctx context.Context) (*streamclient.Session, error) {
	select {
	case s.slots <- struct{}{}:
	default:
		return nil, errBusy
	}
	session, err := streamclient.Start(ctx, s.options)
	if err != nil {
		<-s.slots
	}
	return session, err
}

// end ends a program and releases its slot.
func (s *service) end(session *streamclient.Session) error {
	defer func() { <-s.slots }()
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	return session.Close(ctx)
}

// within is the context of a request, which ends with the service, too.
func (s *service) within(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(s.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// query is a session for one prompt.
func (s *service) query(w http.ResponseWriter, r *http.Request) { s.once(w, r, answer) }

// stream is query with server-sent events.
func (s *service) stream(w http.ResponseWriter, r *http.Request) { s.once(w, r, events) }

func (s *service) once(w http.ResponseWriter, r *http.Request, show show) {
	ctx, cancel := s.within(r)
	defer cancel()
	prompt, err := readPrompt(w, r)
	if err != nil {
		refuse(w, err)
		return
	}
	session, err := s.start(ctx)
	if err != nil {
		refuse(w, err)
		return
	}
	turn(ctx, w, session, prompt, show)
	// How a program ends whose answer is sent concerns nobody any more.
	_ = s.end(session)
}

// openChat starts a session that stays.
func (s *service) openChat(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := s.within(r)
	defer cancel()
	session, err := s.start(ctx)
	if err != nil {
		refuse(w, err)
		return
	}
	s.mu.Lock()
	s.lastID++
	id, closed := strconv.Itoa(s.lastID), s.chats == nil
	if !closed {
		s.chats[id] = session
	}
	s.mu.Unlock()
	if closed {
		refuse(w, errors.Join(errBusy, s.end(session)))
		return
	}
	reply(w, http.StatusCreated, map[string]string{"id": id})
}

// chat is the next turn of a session.
func (s *service) chat(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := s.within(r)
	defer cancel()
	prompt, err := readPrompt(w, r)
	if err != nil {
		refuse(w, err)
		return
	}
	id := r.PathValue("id")
	s.mu.Lock()
	session := s.chats[id]
	s.mu.Unlock()
	if session == nil {
		refuse(w, errNone)
		return
	}
	show := answer
	if r.Pattern == "POST /chats/{id}/stream" {
		show = events
	}
	turn(ctx, w, session, prompt, show)
}

func (s *service) closeChat(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.mu.Lock()
	session := s.chats[id]
	delete(s.chats, id)
	s.mu.Unlock()
	if session == nil {
		refuse(w, errNone)
		return
	}
	if err := s.end(session); err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// close ends the chats that are left; no request is served any more.
func (s *service) close() error {
	s.stop()
	s.mu.Lock()
	chats := s.chats
	s.chats = nil
	s.mu.Unlock()
	var all sync.WaitGroup
	errs := make(chan error, len(chats))
	for _, session := range chats {
		all.Go(func() { errs <- s.end(session) })
	}
	all.Wait()
	close(errs)
	var err error
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

// show sends what a turn gives.
type show func(ctx context.Context, w http.ResponseWriter, t *streamclient.Turn) error

// turn runs one turn of a session. When the asker goes away before its end, so does
// the turn.
func turn(ctx context.Context, w http.ResponseWriter, session *streamclient.Session, prompt string, show show) {
	t, err := session.Query(ctx, prompt)
	if err != nil {
		refuse(w, err)
		return
	}
	err = show(ctx, w, t)
	if err == nil {
		return
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	// One whose turn has not begun is taken back, one that runs is ended; either may
	// have happened by itself meanwhile, or the program may be gone.
	if gone, err := session.CancelMessage(ending, t.UUID()); err == nil && !gone {
		select {
		case <-t.Done():
		default:
			_, _ = session.Interrupt(ending)
		}
	}
}

// summary is what a turn comes to.
type summary struct {
	Text      string              `json:"text"`
	IsError   bool                `json:"is_error"`
	SessionID string              `json:"session_id"`
	Turns     int                 `json:"num_turns"`
	CostUSD   float64             `json:"total_cost_usd"`
	Denied    []streamjson.Denial `json:"denied,omitzero"`
}

func summaryOf(r *streamjson.Result) summary {
	s := summary{r.Result, r.IsError, r.SessionID, r.NumTurns, r.TotalCostUSD, nil}
	if len(r.PermissionDenials) > 0 {
		s.Denied = r.PermissionDenials
	}
	return s
}

// answer sends the outcome as one JSON object.
func answer(ctx context.Context, w http.ResponseWriter, t *streamclient.Turn) error {
	result, err := t.Result(ctx)
	if err != nil {
		refuse(w, err)
		return err
	}
	reply(w, http.StatusOK, summaryOf(&result))
	return nil
}

// events sends a turn as server-sent events: text, a piece of the answer; tool, a
// call that is made; result, the outcome; error, when there is none.
func events(ctx context.Context, w http.ResponseWriter, t *streamclient.Turn) error {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	flush := http.NewResponseController(w)
	send := func(event string, data any) error {
		raw, err := wirejson.Marshal(data)
		if err == nil {
			_, err = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, raw)
		}
		if err == nil {
			err = flush.Flush()
		}
		return err
	}
	for line, err := range t.Lines(ctx) {
		if err != nil {
			_ = send("error", map[string]string{"error": err.Error()}) // the asker may be gone
			return err
		}
		if text, ok := line.TextDelta(); ok {
			err = send("text", map[string]string{"text": text})
		}
		switch m := line.Body.(type) {
		case *streamjson.Assistant:
			for _, b := range m.Message.Content {
				if b.Type == streamjson.BlockToolUse {
					err = send("tool", map[string]any{"name": b.Name, "input": b.Input})
				}
			}
		case *streamjson.Result:
			err = send("result", summaryOf(m))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readPrompt reads {"prompt": "..."}.
func readPrompt(w http.ResponseWriter, r *http.Request) (string, error) {
	var in struct {
		Prompt string `json:"prompt"`
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPrompt))
	if err == nil {
		err = wirejson.Unmarshal(raw, &in)
	}
	if err != nil {
		return "", &badRequest{err}
	}
	if in.Prompt == "" {
		return "", &badRequest{errors.New(`the body should be {"prompt": "..."}`)}
	}
	return in.Prompt, nil
}

// badRequest is the asker's own fault.
type badRequest struct{ err error }

func (b *badRequest) Error() string { return "read request: " + b.err.Error() }

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	switch {
	case errors.As(err, new(*badRequest)):
		status = http.StatusBadRequest
	case errors.Is(err, errNone):
		status = http.StatusNotFound
	case errors.Is(err, errBusy):
		status = http.StatusServiceUnavailable
	}
	reply(w, status, map[string]string{"error": err.Error()})
}

func reply(w http.ResponseWriter, status int, data any) {
	raw, err := wirejson.Marshal(data)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n')) // the asker may be gone
}
