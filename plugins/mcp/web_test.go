package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	contract "dsh/kernel/mcp"
)

// front serves a handler until the end of the test.
func front(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// TestTransports: what works over stdio works over both kinds of HTTP.
func TestTransports(t *testing.T) {
	t.Setenv(dirVariable, t.TempDir())
	for kind, handler := range map[string]func() http.Handler{
		"http": func() http.Handler {
			s := goodServer()
			return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
		},
		"sse": func() http.Handler {
			s := goodServer()
			return sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return s }, nil)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			server := front(t, handler())
			a := &approver{}
			a.answer.Action = "decline"
			r := start(t, servers(quick(), map[string]Server{"web": {Type: kind, URL: server.URL}}))
			if err := r.desk.Register(r.owner, "test", a); err != nil {
				t.Fatal(err)
			}
			if got := r.state("web"); got.State != contract.Connected || got.Transport != kind {
				t.Fatalf("status %+v", got)
			}
			if got := r.good("mcp__web__echo", map[string]string{"text": strange}); got != "echo "+strange {
				t.Errorf("got %q", got)
			}
			if got := r.good("mcp__web__ask", map[string]string{}); got != "decline <nil>" {
				t.Errorf("got %q", got)
			}
			if got := r.good("read_mcp_resource", map[string]string{"server": "web", "uri": "test://readme"}); got != "read me" {
				t.Errorf("got %q", got)
			}
			r.good("mcp__web__grow", map[string]string{"text": "fresh"})
			until(t, "the new tool is listed", func() bool { _, ok := r.view.Lookup("mcp__web__fresh"); return ok })

			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(200*time.Millisecond, cancel)
			if res := r.call(ctx, "mcp__web__slow", map[string]string{"text": "1000"}); res.Error == nil || res.Error.Code != "ABORTED" {
				t.Errorf("got %+v", res)
			}
			until(t, "the server hears of the cancellation", func() bool {
				data, _ := os.ReadFile(filepath.Join(os.Getenv(dirVariable), "cancelled"))
				return len(data) > 0
			})
			if err := os.Remove(filepath.Join(os.Getenv(dirVariable), "cancelled")); err != nil {
				t.Error(err)
			}
			if err := r.Reconnect(t.Context(), "web"); err != nil {
				t.Error(err)
			}
			if got := r.good("mcp__web__echo", map[string]string{"text": "x"}); got != "echo x" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// Headers go to the server that was named and not to where it sends us; a
// secret is in nothing that is shown.
func TestHeaders(t *testing.T) {
	t.Setenv("MCP_TEST_TOKEN", "token-value")
	var elsewhere atomic.Value
	other := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere.Store(r.Header.Get("X-Api-Key") + r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusTeapot)
	}))
	var got atomic.Value
	server := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got.Load() == nil {
			got.Store(r.Header.Get("X-Api-Key") + " " + r.Header.Get("Authorization"))
		}
		http.Redirect(w, r, other.URL+"/?key=token-value", http.StatusTemporaryRedirect)
	}))
	c := quick()
	c.Reconnect.Attempts = 0
	r := start(t, servers(c, map[string]Server{"web": {URL: server.URL + "/?key=query-value", Headers: map[string]string{"X-Api-Key": "key-value"}, BearerEnv: "MCP_TEST_TOKEN"}}))
	if got.Load() != "key-value Bearer token-value" {
		t.Errorf("the server got %q", got.Load())
	}
	if elsewhere.Load() != "" {
		t.Errorf("somebody else got %q", elsewhere.Load())
	}
	st := r.state("web")
	for _, secret := range []string{"key-value", "token-value", "query-value"} {
		if strings.Contains(st.Error+r.log.String(), secret) {
			t.Errorf("%s is shown", secret)
		}
	}
	if st.State != contract.Failed {
		t.Errorf("status %+v", st)
	}
}

// A server that refuses our rights is one that needs a person.
func TestRefusedWithoutLogin(t *testing.T) {
	server := front(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	r := start(t, servers(quick(), map[string]Server{
		"http": {URL: server.URL, Headers: map[string]string{"Authorization": "Bearer wrong"}},
		"off":  {URL: server.URL, OAuth: OAuth{Off: true}},
		"sse":  {Type: "sse", URL: server.URL},
	}))
	for _, name := range []string{"http", "off", "sse"} {
		if got := r.state(name); got.State != contract.NeedsAuth || !strings.Contains(got.Error, "401") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Some servers accept the stream for what they say by themselves and never
// answer the request: nobody waits for it, and what comes late comes.
func TestLateStream(t *testing.T) {
	good := goodServer()
	inner := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return good }, nil)
	open := make(chan struct{})
	server := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			select {
			case <-open:
			case <-r.Context().Done():
				return
			}
		}
		inner.ServeHTTP(w, r)
	}))
	r := start(t, servers(quick(), map[string]Server{"web": {URL: server.URL}}))
	if got := r.good("mcp__web__echo", map[string]string{"text": "x"}); got != "echo x" {
		t.Errorf("got %q", got)
	}
	close(open)
	r.good("mcp__web__grow", map[string]string{"text": "fresh"})
	until(t, "the new tool is listed", func() bool { _, ok := r.view.Lookup("mcp__web__fresh"); return ok })
}

// An answer without end ends the call and no more than that.
func TestEndlessAnswer(t *testing.T) {
	server := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m message
		_ = json.NewDecoder(r.Body).Decode(&m)
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "initialize":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, initialized)
		case "tools/list":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}`, m.ID, named("huge"))
		case "tools/call":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, m.ID)
			for {
				if _, err := io.WriteString(w, strings.Repeat("a", 1<<16)); err != nil {
					return
				}
			}
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	r := start(t, servers(quick(), map[string]Server{"web": {URL: server.URL}}))
	r.bad("mcp__web__huge", map[string]string{}, codeLost, "longer than 32 MiB")
	until(t, "the server is back", func() bool { return r.state("web").State == contract.Connected })
}

// A server nobody listens at has not got the call.
func TestServerIsAway(t *testing.T) {
	good := goodServer()
	server := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return good }, &sdk.StreamableHTTPOptions{Stateless: true}))
	r := start(t, servers(quick(), map[string]Server{"web": {URL: server.URL}}))
	server.CloseClientConnections()
	server.Close()
	// A request on a connection that the server has just closed may have run.
	until(t, "the closed connections are noticed", func() bool {
		return r.call(t.Context(), "mcp__web__echo", map[string]string{"text": "x"}).Error.Code == codeNotConnected
	})
	r.bad("mcp__web__echo", map[string]string{"text": "x"}, codeNotConnected, `"web"`, "did not get this call")
}

// account is an authorization server with one user.
type account struct {
	*httptest.Server
	mu      sync.Mutex
	tokens  map[string]bool
	issued  int
	clients int
	seconds int
}

func newAccount(t *testing.T) *account {
	a := &account{tokens: map[string]bool{}, seconds: 3600}
	reply := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{"issuer": a.URL, "authorization_endpoint": a.URL + "/authorize", "token_endpoint": a.URL + "/token",
			"registration_endpoint": a.URL + "/register", "response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}})
	})
	mux.HandleFunc("/register", func(w http.ResponseWriter, r *http.Request) {
		var m map[string]any
		_ = json.NewDecoder(r.Body).Decode(&m)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.clients++
		m["client_id"] = fmt.Sprint("client", a.clients)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(m)
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"the-code"}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		if r.Form.Get("grant_type") == "authorization_code" && r.Form.Get("code") != "the-code" || r.Form.Get("grant_type") == "refresh_token" && r.Form.Get("refresh_token") != "refresh" {
			w.WriteHeader(http.StatusBadRequest)
			reply(w, map[string]string{"error": "invalid_grant"})
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.issued++
		token := fmt.Sprint("token", a.issued)
		a.tokens[token] = true
		reply(w, map[string]any{"access_token": token, "token_type": "Bearer", "refresh_token": "refresh", "expires_in": a.seconds})
	})
	a.Server = front(t, mux)
	return a
}

// protect lets requests with a token of the account through.
func (a *account) protect(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		base := "http://" + r.Host
		if strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource") {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"resource": base + "/mcp", "authorization_servers": []string{a.URL}})
			return
		}
		a.mu.Lock()
		ok := a.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		a.mu.Unlock()
		if !ok {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+base+`/.well-known/oauth-protected-resource"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// A server that wants a login does not hold up the start; it says where to log
// in, and is connected when somebody has. The login is kept, and refreshed.
func TestLogin(t *testing.T) {
	a := newAccount(t)
	good := goodServer()
	server := front(t, a.protect(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return good }, nil)))
	t.Cleanup(func() {
		for s := range good.Sessions() { // whose end we have no right to ask for any more
			_ = s.Close()
		}
	})
	config := servers(quick(), map[string]Server{"web": {URL: server.URL + "/mcp"}})
	home := t.TempDir()
	at := func(p *Params) { p.Self.Home = home }

	r := start(t, config, at)
	st := r.state("web")
	_, page, ok := strings.Cut(st.Error, "open ")
	if st.State != contract.NeedsAuth || !ok {
		t.Fatalf("status %+v", st)
	}
	resp, err := http.Get(page)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the page says %s", resp.Status)
	}
	until(t, "the server is connected", func() bool { return r.state("web").State == contract.Connected })
	if got := r.good("mcp__web__echo", map[string]string{"text": "x"}); got != "echo x" {
		t.Errorf("got %q", got)
	}
	files, err := filepath.Glob(filepath.Join(home, "mcp", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, %v", files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the login is kept with %v, %v", info.Mode(), err)
	}

	again := start(t, config, at)
	if got := again.state("web"); got.State != contract.Connected {
		t.Errorf("with the login of before: %+v", got)
	}

	// The tokens are gone and the kept one is past its time: it is refreshed.
	a.mu.Lock()
	clear(a.tokens)
	a.mu.Unlock()
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var kept map[string]any
	if err := json.Unmarshal(data, &kept); err != nil {
		t.Fatal(err)
	}
	kept["expiry"] = time.Now().Add(-time.Hour).Format(time.RFC3339)
	if data, err = json.Marshal(kept); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	if refreshed := start(t, config, at); refreshed.state("web").State != contract.Connected {
		t.Errorf("after a refresh: %+v", refreshed.state("web"))
	}

	// A login that is not valid any more ends the connection, not the harness.
	a.mu.Lock()
	clear(a.tokens)
	a.mu.Unlock()
	r.bad("mcp__web__echo", map[string]string{"text": "x"}, codeNotConnected, "reconnect to log in again")
	until(t, "a person is needed", func() bool { return r.state("web").State == contract.NeedsAuth })
	if err := r.Reconnect(t.Context(), "web"); err == nil || !strings.Contains(err.Error(), "open http") {
		t.Errorf("got %v", err)
	}
	for _, secret := range []string{"token1", "the-code", "refresh\""} {
		if strings.Contains(r.log.String()+again.log.String(), secret) {
			t.Errorf("%s is in the log", secret)
		}
	}
}
