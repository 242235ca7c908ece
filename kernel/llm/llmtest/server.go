package llmtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"
)

// Key is the API key that the server takes.
const Key = "sk-llmtest-0123456789abcdef"

// Dialect says what the server demands of a request.
type Dialect struct {
	Name string
	// Messages is set for that protocol; of the rest only KeyHeader counts then.
	Messages bool
	// Reasoning names the member with reasoning, sent and received; "" is none.
	Reasoning string
	// RequireReasoning refuses messages with tool calls that lack it, unless
	// thinking is disabled.
	RequireReasoning bool
	// RequireContent refuses a content that is null or absent also beside calls.
	RequireContent bool
	// Roles are those known.
	Roles []string
	// MaxTokens names the cap of the output; another one is refused.
	MaxTokens string
	// CallIDs matches ids of calls that are taken; nil takes all.
	CallIDs *regexp.Regexp
	// StreamOptions is false where stream_options is refused.
	StreamOptions bool
	// KeyHeader carries the key; "" is authorization.
	KeyHeader string
}

// DeepSeek is the dialect of spec jsonrpc 10 (case B49).
func DeepSeek() Dialect {
	return Dialect{
		Name: "deepseek", Reasoning: "reasoning_content", RequireReasoning: true, RequireContent: true,
		Roles: []string{"system", "user", "assistant", "tool"}, MaxTokens: "max_tokens", StreamOptions: true,
	}
}

// OpenAI is the dialect of the endpoint that the protocol comes from.
func OpenAI() Dialect {
	return Dialect{
		Name: "openai", Roles: []string{"developer", "system", "user", "assistant", "tool"},
		MaxTokens: "max_completion_tokens", CallIDs: regexp.MustCompile(`^.{1,40}$`), StreamOptions: true,
	}
}

// Reply is what the server does with one request. Its parts are written one by
// one, each in a packet of its own.
type Reply struct {
	// Status is 200 by default.
	Status int
	// Header is on top of content-type text/event-stream.
	Header map[string]string
	Parts  []Part
	// Packet cuts the parts into packets of so many bytes; 0 leaves them whole.
	Packet int
	// Lenient answers without a look at the request.
	Lenient bool
}

// Part is one thing the server does.
type Part struct {
	// Wait comes before the text.
	Wait time.Duration
	Text string
	// Cut breaks the connection off behind the text, and Hang keeps it open until
	// the client goes. Before any text, that is before the headers too.
	Cut, Hang bool
}

// Received is one request as the server saw it.
type Received struct {
	// At is when its body had come.
	At     time.Time
	Path   string
	Header http.Header
	Body   []byte
	// Refused is why the server refused it, "" when it did not.
	Refused string
}

// Server is a fake provider.
type Server struct {
	// URL is the base that /chat/completions or /v1/messages is put behind.
	URL string

	dialect Dialect
	http    *httptest.Server
	closing chan struct{}

	mu       sync.Mutex
	replies  []Reply
	received []Received
	refuse   []string
	gone     int
	// connections counts those opened.
	connections int
}

// NewServer starts a server that lives as long as the test.
func NewServer(tb testing.TB, d Dialect) *Server {
	s := &Server{dialect: d, closing: make(chan struct{})}
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.http.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.connections++
		}
	}
	s.http.Start()
	s.URL = s.http.URL
	tb.Cleanup(func() {
		close(s.closing)
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// Script sets the replies to the next requests, in order; the last one stays.
func (s *Server) Script(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies = replies
}

// Refuse makes the server refuse every request from now on that says text, as
// providers do by their policies.
func (s *Server) Refuse(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = append(s.refuse, text)
}

// Received gives the requests so far.
func (s *Server) Received() []Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received)
}

// Gone counts the clients that left before their answer was complete.
func (s *Server) Gone() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// Connections counts the connections opened so far.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	refused := ""
	for _, text := range s.refuse {
		if bytes.Contains(body, []byte(text)) {
			refused = "the request says what is not allowed"
		}
	}
	var reply Reply
	if len(s.replies) > 0 && refused == "" {
		reply = s.replies[0]
		if len(s.replies) > 1 {
			s.replies = s.replies[1:]
		}
	}
	status := http.StatusBadRequest
	if !reply.Lenient && refused == "" {
		if refused = s.dialect.wrongKey(r.Header); refused != "" {
			status = http.StatusUnauthorized
		} else {
			refused = s.dialect.refusal(r, body)
		}
	}
	s.received = append(s.received, Received{At: time.Now(), Path: r.URL.Path, Header: r.Header.Clone(), Body: body, Refused: refused})
	s.mu.Unlock()
	if refused != "" {
		kind := "invalid_request_error"
		if status == http.StatusUnauthorized {
			kind = "authentication_error"
		}
		text, err := json.Marshal(map[string]any{"type": "error", "error": map[string]any{"message": refused, "type": kind}})
		if err != nil {
			panic(err)
		}
		reply = Reply{Status: status, Header: map[string]string{"content-type": "application/json"}, Parts: []Part{{Text: string(text)}}}
	}
	s.answer(w, r, reply)
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, reply Reply) {
	w.Header().Set("content-type", "text/event-stream")
	for name, value := range reply.Header {
		w.Header().Set(name, value)
	}
	begun := false
	send := func(text string) {
		if !begun {
			begun = true
			w.WriteHeader(cmp.Or(reply.Status, http.StatusOK))
		}
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
	}
	left := func() bool {
		select {
		case <-r.Context().Done():
			return true
		case <-s.closing:
			return true
		default:
			return false
		}
	}
	for _, p := range reply.Parts {
		if p.Wait > 0 {
			select {
			case <-time.After(p.Wait):
			case <-r.Context().Done():
			case <-s.closing:
			}
		}
		if left() {
			s.count()
			return
		}
		for text := p.Text; text != ""; {
			n := len(text)
			if reply.Packet > 0 {
				n = min(n, reply.Packet)
			}
			send(text[:n])
			text = text[n:]
		}
		if p.Cut {
			panic(http.ErrAbortHandler)
		}
		if p.Hang {
			select {
			case <-r.Context().Done():
				s.count()
			case <-s.closing:
			}
			return
		}
	}
	if !begun {
		send("")
	}
}

func (s *Server) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone++
}
