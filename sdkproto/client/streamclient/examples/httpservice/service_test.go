package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"dsh/sdkproto/client/streamclient"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// programVariable is where TestMain has put dcl.
const programVariable = "HTTPSERVICE_TEST_DCL"

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "httpservice-")
	if err == nil {
		path := filepath.Join(dir, "dcl")
		if out, buildErr := exec.Command("go", "build", "-o", path, "dsh/cmd/dcl").CombinedOutput(); buildErr != nil {
			err = fmt.Errorf("build dcl: %w: %s", buildErr, out)
		} else {
			err = os.Setenv(programVariable, path)
		}
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else if code = m.Run(); code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// served is a service with the scripted model.
type served struct {
	t         *testing.T
	url, work string
	service   *service
}

func serve(t *testing.T) *served {
	t.Helper()
	root := t.TempDir()
	work := filepath.Join(root, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work, "README.md"), []byte("read me\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := newService(options(root, work))
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		s.stop()
		server.Close()
		if err := s.close(); err != nil {
			t.Error(err)
		}
		if n := len(s.slots); n != 0 {
			t.Errorf("%d programs still count", n)
		}
	})
	return &served{t, server.URL, work, s}
}

func options(root, work string) streamclient.Options {
	return streamclient.Options{
		Command: os.Getenv(programVariable), Dir: work,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "TMPDIR=" + os.TempDir(), "DSH_HOME=" + filepath.Join(root, "home")},
	}
}

// do makes a request and gives the status and body of the answer.
func (s *served) do(method, path, body string) (int, string) {
	s.t.Helper()
	r := s.open(context.Background(), method, path, body)
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.StatusCode, string(raw)
}

func (s *served) open(ctx context.Context, method, path, body string) *http.Response {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	s.t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return r
}

func (s *served) ask(path, prompt string) summary {
	s.t.Helper()
	status, body := s.do(http.MethodPost, path, prompted(prompt))
	var out summary
	if err := wirejson.Unmarshal([]byte(body), &out); err != nil || status != http.StatusOK {
		s.t.Fatalf("%s: %d %s", path, status, body)
	}
	return out
}

func prompted(prompt string) string {
	raw, err := wirejson.Marshal(map[string]string{"prompt": prompt})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// The five things that the example is about (S082): one-off queries, server-sent
// events, chats of many turns, tools inside the service, the policy of the service.
func TestService(t *testing.T) {
	t.Parallel()
	s := serve(t)
	if got := s.ask("/query", "hello"); !strings.Contains(got.Text, "turn 1 of our session") || got.IsError || got.Turns != 1 {
		t.Errorf("a query: %+v", got)
	}
	one, two := s.chat(), s.chat()
	first, second, other := s.ask(one, "hello"), s.ask(one, "hello"), s.ask(two, "hello")
	if !strings.Contains(second.Text, "turn 2") || second.SessionID != first.SessionID || !strings.Contains(other.Text, "turn 1") || other.SessionID == first.SessionID {
		t.Errorf("chats: %+v, %+v, %+v", first, second, other)
	}
	if got := s.ask(one, "what time is it"); !regexp.MustCompile(`^Tool said: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`).MatchString(got.Text) || len(got.Denied) != 0 {
		t.Errorf("a tool of the service: %+v", got)
	}
	if got := s.ask(one, "read README.md"); !strings.Contains(got.Text, "read me") || len(got.Denied) != 0 {
		t.Errorf("reading: %+v", got)
	}
	got := s.ask(one, "run: touch x")
	if _, err := os.Stat(filepath.Join(s.work, "x")); err == nil || len(got.Denied) != 1 || !strings.Contains(got.Text, "this service does not let Bash run") {
		t.Errorf("a denied call: %+v, %v", got, err)
	}
	if status, body := s.do(http.MethodDelete, one, ""); status != http.StatusNoContent {
		t.Errorf("the end of a chat: %d %s", status, body)
	}
	for what, want := range map[string]int{
		"DELETE " + one + " ": http.StatusNotFound, "POST " + one + " " + prompted("hello"): http.StatusNotFound,
		"POST /query {}": http.StatusBadRequest, "POST /query 7": http.StatusBadRequest, "POST " + two + " no": http.StatusBadRequest,
	} {
		method, rest, _ := strings.Cut(what, " ")
		path, body, _ := strings.Cut(rest, " ")
		if status, answer := s.do(method, path, body); status != want || !strings.Contains(answer, `"error"`) {
			t.Errorf("%s: %d %s", what, status, answer)
		}
	}
}

// chat opens one and gives its path.
func (s *served) chat() string {
	s.t.Helper()
	status, body := s.do(http.MethodPost, "/chats", "")
	var out struct {
		ID string `json:"id"`
	}
	if err := wirejson.Unmarshal([]byte(body), &out); err != nil || status != http.StatusCreated || out.ID == "" {
		s.t.Fatalf("a chat: %d %s", status, body)
	}
	return "/chats/" + out.ID
}

// Events come as the turn goes: the calls, the pieces of the answer, the result.
func TestStream(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, path := range []string{"/stream", s.chat() + "/stream"} {
		r := s.open(t.Context(), http.MethodPost, path, prompted("what time is it"))
		var names []string
		var text string
		var last summary
		for name, data := range eventsOf(t, r.Body) {
			if len(names) == 0 || names[len(names)-1] != name {
				names = append(names, name)
			}
			switch name {
			case "text":
				var piece struct {
					Text string `json:"text"`
				}
				if err := wirejson.Unmarshal([]byte(data), &piece); err != nil {
					t.Error(err)
				}
				text += piece.Text
			case "tool":
				if data != `{"input":{},"name":"mcp__app__server_time"}` {
					t.Errorf("tool %s", data)
				}
			case "result":
				if err := wirejson.Unmarshal([]byte(data), &last); err != nil {
					t.Error(err)
				}
			}
		}
		if diff := cmp.Diff([]string{"tool", "text", "result"}, names); diff != "" || text == "" || text != last.Text || r.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s: %s\n%q, %+v", path, diff, text, last)
		}
		_ = r.Body.Close()
	}
}

// eventsOf reads server-sent events, names with data.
func eventsOf(t *testing.T, body io.Reader) func(yield func(name, data string) bool) {
	t.Helper()
	return func(yield func(name, data string) bool) {
		in := bufio.NewScanner(body)
		var name string
		for in.Scan() {
			if rest, ok := strings.CutPrefix(in.Text(), "event: "); ok {
				name = rest
			}
			if data, ok := strings.CutPrefix(in.Text(), "data: "); ok && !yield(name, data) {
				return
			}
		}
	}
}

// When the asker goes away the turn ends, and the chat goes on.
func TestAskerGoes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	path := s.chat()
	ctx, cancel := context.WithCancel(t.Context())
	s.service.mu.Lock()
	lines := s.service.chats[strings.TrimPrefix(path, "/chats/")].Lines(t.Context())
	s.service.mu.Unlock()
	r := s.open(ctx, http.MethodPost, path+"/stream", prompted("slow"))
	for name := range eventsOf(t, r.Body) {
		if name == "text" {
			break
		}
	}
	cancel()
	_ = r.Body.Close()
	for l, err := range lines {
		if err != nil {
			t.Fatal(err)
		}
		if result, ok := l.Body.(*streamjson.Result); ok {
			if result.Subtype != streamjson.ResultExecution {
				t.Errorf("the turn ended with %+v", result)
			}
			break
		}
	}
	if got := s.ask(path, "hello"); got.IsError || !strings.Contains(got.Text, "of our session") {
		t.Errorf("the next turn: %+v", got)
	}
}

// There are no more programs than that.
func TestBusy(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for range maxSessions {
		s.service.slots <- struct{}{}
	}
	for _, path := range []string{"/query", "/stream", "/chats"} {
		if status, body := s.do(http.MethodPost, path, prompted("hello")); status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for range maxSessions {
		<-s.service.slots
	}
}

// run serves at an address until its context ends, with chats open.
func TestRun(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	root := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, address, options(root, root)) }()
	s := &served{t: t, url: "http://" + address}
	for range 500 {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got := s.ask(s.chat(), "hello"); !strings.Contains(got.Text, "turn 1") {
		t.Errorf("%+v", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := run(t.Context(), "no address", options(root, root)); err == nil {
		t.Error("it listens nowhere")
	}
}
