package llmscripted

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/llm"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// row is a started row of the plugin, without a kernel around it.
type row struct {
	owner  *kernel.Owner
	ready  *kernel.Ready
	router *llm.Router
}

func start(t *testing.T, c Config) row {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	owner := kernel.NewOwner(context.Background(), "test")
	r := row{owner, kernel.NewReady(owner, log), llm.NewRouter()}
	m, err := New(Params{
		Self:   kernel.Instance{ID: "scripted", Owner: owner, Log: log, Ready: r.ready},
		Config: c, Router: r.router,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.register(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, owner) })
	return r
}

func shut(t *testing.T, o *kernel.Owner) {
	t.Helper()
	if err := o.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func (r row) adapter(t *testing.T, provider string) llm.Adapter {
	t.Helper()
	a, err := r.router.Lookup(provider)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func play(t *testing.T, file string) llm.Adapter {
	t.Helper()
	c := defaults()
	c.Script = file
	r := start(t, c)
	if err := r.ready.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	return r.adapter(t, "scripted")
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// talk builds the request of a conversation.
type talk struct {
	messages []sdkproto.Message
	calls    int
}

func (c *talk) add(role string, source sdkproto.Source, blocks ...sdkproto.Block) {
	c.messages = append(c.messages, sdkproto.Message{
		Role: role, Source: source, Content: blocks, ID: fmt.Sprintf("m%d", len(c.messages)),
	})
}

func (c *talk) user(text string) {
	c.add(sdkproto.RoleUser, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.Text(text))
}

func (c *talk) assistant(blocks ...sdkproto.Block) {
	c.add(sdkproto.RoleAssistant, sdkproto.Source{Kind: sdkproto.SourceModel}, blocks...)
}

func (c *talk) call(name, arguments string) {
	c.calls++
	c.assistant(sdkproto.Block{Type: sdkproto.BlockToolCall, ID: "c" + strconv.Itoa(c.calls), Name: name, Arguments: arguments})
}

func (c *talk) result(id, text string, failed bool) {
	c.add(sdkproto.RoleUser, sdkproto.Source{Kind: sdkproto.SourceTool, CallID: id},
		sdkproto.Block{Type: sdkproto.BlockToolResult, ToolCallID: id, Content: []sdkproto.Block{sdkproto.Text(text)}, IsError: failed})
}

func (c *talk) request() llm.Request {
	return llm.Request{
		SessionID: "s",
		Header:    sdkproto.Header{Config: sdkproto.RequestConfig{Provider: "scripted", Model: "test-model"}},
		Messages:  slices.Clone(c.messages),
	}
}

func user(text string) llm.Request {
	var c talk
	c.user(text)
	return c.request()
}

// lines gives a stream as lines of JSON: the chunks, then the error if any.
func lines(t *testing.T, a llm.Adapter, req llm.Request) []string {
	t.Helper()
	var out []string
	ended := false
	for c, err := range a.Stream(context.Background(), req) {
		if ended {
			t.Error("the stream goes on after its end")
		}
		var line []byte
		if err != nil {
			ended = true
			data, merr := wirejson.Marshal(llm.Failure(err))
			if merr != nil {
				t.Fatal(merr)
			}
			line = fmt.Appendf(nil, `{"error":%s}`, data)
		} else {
			ended = c.Type == sdkproto.ChunkFinish
			var merr error
			if line, merr = c.AppendJSON(nil); merr != nil {
				t.Fatal(merr)
			}
		}
		out = append(out, string(line))
	}
	if !ended {
		t.Error("the stream has no end")
	}
	return out
}

func scripts(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", dir, err)
	}
	return files
}

func name(file string) string { return strings.TrimSuffix(filepath.Base(file), ".yaml") }

// TestGood plays every script of testdata/good for the conversation that its
// first comments tell, and compares the chunks with the .jsonl file beside it,
// which is written by hand from spec jsonrpc 5.5.
func TestGood(t *testing.T) {
	for _, file := range scripts(t, filepath.Join("testdata", "good")) {
		t.Run(name(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var c talk
			attempts := 1
			for line := range strings.Lines(string(data)) {
				key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				switch key {
				case "# user":
					c.user(value)
				case "# assistant":
					c.assistant(sdkproto.Text(value))
				case "# call":
					tool, arguments, _ := strings.Cut(value, " ")
					c.call(tool, arguments)
				case "# result", "# error":
					c.result("c"+strconv.Itoa(c.calls), value, key == "# error")
				case "# attempt":
					if attempts, err = strconv.Atoi(value); err != nil {
						t.Fatal(err)
					}
				}
			}
			want, err := os.ReadFile(strings.TrimSuffix(file, ".yaml") + ".jsonl")
			if err != nil {
				t.Fatal(err)
			}
			a := play(t, filepath.ToSlash(file))
			var got []string
			for range attempts {
				got = lines(t, a, c.request())
			}
			if diff := cmp.Diff(strings.Split(strings.TrimSpace(string(want)), "\n"), got); diff != "" {
				t.Errorf("chunks (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBad starts a row with every script of testdata/bad: the barrier fails with
// the errors that the file's first line lists, without the file's name and parted
// by " || ".
func TestBad(t *testing.T) {
	for _, file := range scripts(t, filepath.Join("testdata", "bad")) {
		t.Run(name(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(data), "\n")
			list, ok := strings.CutPrefix(first, "# want: ")
			if !ok {
				t.Fatal("the first line is no `# want: `")
			}
			c := defaults()
			c.Script = file
			r := start(t, c)
			err = r.ready.Wait(context.Background())
			if err == nil {
				t.Fatal("the script is accepted")
			}
			want := strings.Split(list, " || ")
			for i := range want {
				want[i] = file + want[i]
			}
			got := strings.Split(strings.TrimPrefix(err.Error(), "load task script of scripted: "), "\n")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnusable: requests to a row whose script cannot be used end with its error.
func TestUnusable(t *testing.T) {
	big := write(t, "rules: [{reply: a}] #"+strings.Repeat("x", maxScriptBytes))
	for _, tc := range []struct{ name, file, want string }{
		{"missing", filepath.Join(t.TempDir(), "none.yaml"), "none.yaml"},
		{"folder", t.TempDir(), "not a regular file"},
		{"too large", big, "larger than 1048576 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := defaults()
			c.Script = tc.file
			r := start(t, c)
			if err := r.ready.Wait(context.Background()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the barrier gives %v, want %q", err, tc.want)
			}
			got := lines(t, r.adapter(t, "scripted"), user("hello"))
			if len(got) != 1 || !strings.Contains(got[0], tc.want) || !strings.Contains(got[0], `"code":"SCRIPT_ERROR"`) {
				t.Errorf("a request gives %q", got)
			}
		})
	}
}

func TestNoRule(t *testing.T) {
	file := write(t, "rules: [{when: {text: a}, reply: b}]")
	var c talk
	c.user(strings.Repeat("x", 300))
	c.call("read", "{}")
	c.result("c1", "r", false)
	got := spoken(t, play(t, file), c.request())
	for _, want := range []string{"No rule of " + file, "turn 1, step 2", `"` + strings.Repeat("x", 200) + `..."`, "when: {text: hello, step: 2}"} {
		if !strings.Contains(got, want) {
			t.Errorf("the answer lacks %q:\n%s", want, got)
		}
	}
	// What it shows is a script.
	_, example, _ := strings.Cut(got, "\n\n")
	if _, err := parseScript("example", []byte(example)); err != nil {
		t.Errorf("the example is no script: %v", err)
	}
}

func spoken(t *testing.T, a llm.Adapter, req llm.Request) string {
	t.Helper()
	var b strings.Builder
	for c, err := range a.Stream(context.Background(), req) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Type == sdkproto.ChunkTextDelta {
			b.WriteString(c.Text)
		}
	}
	return b.String()
}

func TestDeterminism(t *testing.T) {
	file := filepath.Join("testdata", "good", "quotes.yaml")
	var c talk
	c.user("Compare a and b")
	c.call("x", "{}")
	c.result("c1", "one", false)
	c.call("y", "{}")
	c.result("c2", "two", true)
	a := play(t, file)
	want := lines(t, a, c.request())
	other := play(t, file)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			adapter := a
			if i%2 == 0 {
				adapter = other
			}
			req := c.request()
			req.SessionID = fmt.Sprint("s", i)
			if diff := cmp.Diff(want, lines(t, adapter, req)); diff != "" {
				t.Errorf("run %d (-want +got):\n%s", i, diff)
			}
		})
	}
	wg.Wait()
}

func TestAttempts(t *testing.T) {
	a := play(t, write(t, `rules:
  - {times: 2, reply: [{error: {message: no}}]}
  - {when: {text: empty}, times: 3, reply: []}
  - {reply: 'yes'}
`))
	req := func(session, text string, more int) llm.Request {
		var c talk
		c.user(text)
		for range more {
			c.assistant(sdkproto.Text("a"))
		}
		r := c.request()
		r.SessionID = session
		return r
	}
	outcome := func(r llm.Request) string {
		got := lines(t, a, r)
		switch {
		case strings.Contains(got[len(got)-1], "error"):
			return "error"
		case len(got) == 2:
			return "empty"
		}
		return "yes"
	}
	for i, step := range []struct {
		req  llm.Request
		want string
	}{
		{req("one", "go", 0), "error"},
		{req("two", "go", 0), "error"}, // sessions count apart
		{req("one", "go", 0), "error"},
		{req("two", "go", 0), "error"},
		{req("two", "go", 0), "yes"},
		{req("one", "go", 0), "yes"},
		{req("one", "go", 0), "error"}, // answered: the same again is a new request
		{req("one", "go", 2), "error"}, // the session moved on
		{req("one", "go", 2), "error"},
		{req("one", "go", 2), "yes"},
		{req("one", "empty", 0), "error"},
		{req("one", "empty", 0), "error"},
		{req("one", "empty", 0), "empty"}, // no answer: it counts on
		{req("one", "empty", 0), "yes"},
	} {
		if got := outcome(step.req); got != step.want {
			t.Errorf("request %d gives %s, want %s", i, got, step.want)
		}
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	var a attempts
	for i := range maxRequests + 10 {
		a.begin(llm.Request{SessionID: strconv.Itoa(i)})
	}
	if n := len(a.sessions); n != maxRequests || a.order.Len() != n {
		t.Errorf("%d sessions and %d places are kept, want %d", n, a.order.Len(), maxRequests)
	}
	if n := a.begin(llm.Request{SessionID: strconv.Itoa(maxRequests)}); n != 2 {
		t.Errorf("a late session is at attempt %d, want 2", n)
	}
	if n := a.begin(llm.Request{SessionID: "0"}); n != 1 {
		t.Errorf("the first session is at attempt %d, want 1: it was dropped", n)
	}
}

// TestTime: delays take the time they say, and a cancelled request ends at once
// with the context's error, wherever it waits.
func TestTime(t *testing.T) {
	file := write(t, `rules:
  - when: {text: pause}
    reply: [{delay: 10s}, {text: late}]
  - reply: [{text: one two three, every: 1s}, {text: end}]
`)
	for _, tc := range []struct {
		name, prompt string
		cancel       time.Duration // 0 is never
		took         time.Duration
		texts        int
	}{
		{"pause", "pause", 0, 10 * time.Second, 1},
		{"every", "words", 0, 3 * time.Second, 4},
		{"cancelled in a pause", "pause", 4 * time.Second, 4 * time.Second, 0},
		{"cancelled between chunks", "words", 1500 * time.Millisecond, 1500 * time.Millisecond, 2},
		{"cancelled before", "words", time.Nanosecond, time.Nanosecond, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := play(t, file)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.cancel > 0 {
					time.AfterFunc(tc.cancel, cancel)
				}
				began := time.Now()
				texts := 0
				var last error
				for c, err := range a.Stream(ctx, user(tc.prompt)) {
					last = err
					if c.Type == sdkproto.ChunkTextDelta {
						texts++
					}
				}
				if took := time.Since(began); took != tc.took || texts != tc.texts {
					t.Errorf("%d texts in %v, want %d in %v", texts, took, tc.texts, tc.took)
				}
				if cancelled := errors.Is(last, context.Canceled); cancelled != (tc.cancel > 0) {
					t.Errorf("the stream ends with %v", last)
				}
			})
		})
	}
}

// TestBeforeLoad: a request waits for the script, and no longer than its context
// lives.
func TestBeforeLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := defaults()
		config.Script = filepath.Join(t.TempDir(), "script.yaml")
		if err := os.WriteFile(config.Script, []byte("rules: [{reply: Hello!}]"), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := New(Params{Self: kernel.Instance{ID: "scripted"}, Config: config})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, err := range m.Stream(ctx, user("hello")) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		}
		time.AfterFunc(time.Second, func() {
			if err := m.load(context.Background()); err != nil {
				t.Error(err)
			}
		})
		if got := spoken(t, m, user("hello")); !strings.HasPrefix(got, "Hello!") {
			t.Errorf("got %q", got)
		}
	})
}

// TestStops: a listener that goes away is left alone.
func TestStops(t *testing.T) {
	a := play(t, filepath.Join("testdata", "good", "calls.yaml"))
	total := len(lines(t, a, user("go")))
	for stop := range total {
		n := 0
		for range a.Stream(context.Background(), user("go")) {
			if n == stop {
				break
			}
			n++
		}
	}
}

func TestConfig(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(*Config)
		want string
	}{
		{"defaults", func(*Config) {}, ""},
		{"no window", func(c *Config) { c.ContextWindow = 0 }, ""},
		{"both wrong", func(c *Config) { c.Provider, c.ContextWindow = "", -1 },
			"must name the provider id to answer for, such as scripted\n-1 is too small; use 0 or more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := defaults()
			tc.set(&c)
			got := ""
			if err := c.Validate(); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestRoute: the model claims the provider id it is given, takes any model and
// effort as they are, and gives the id back when its row is closed.
func TestRoute(t *testing.T) {
	c := defaults()
	c.Provider, c.ContextWindow = "deepseek-official", 5
	r := start(t, c)
	a := r.adapter(t, "deepseek-official")
	want := llm.Route{Provider: "deepseek-official", Model: "any", MaxTokens: 3, ReasoningEffort: "odd"}
	got, given, info, err := a.Resolve(want)
	if got != want || given != (sdkproto.AdapterDefaults{}) || info.ContextWindow != 5 || err != nil {
		t.Errorf("resolved to %v, %v, %v, %v", got, given, info, err)
	}
	// It costs nothing, which is known and not unknown (S075, case B87).
	if info.Price == nil || *info.Price != (llm.Price{Currency: "USD"}) {
		t.Errorf("the price is %v", info.Price)
	}
	shut(t, r.owner)
	if ids := r.router.Providers(); len(ids) > 0 {
		t.Errorf("after the end %v are registered", ids)
	}
}

func FuzzParseScript(f *testing.F) {
	f.Add(defaultScript)
	for _, dir := range []string{"good", "bad"} {
		files, err := filepath.Glob(filepath.Join("testdata", dir, "*.yaml"))
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseScript("fuzz.yaml", data)
		switch {
		case err != nil && !strings.HasPrefix(err.Error(), "fuzz.yaml:"):
			t.Errorf("an error without the file's name: %v", err)
		case err == nil:
			for i, r := range s.rules {
				for _, it := range r.reply {
					if it.action == nil || it.line == 0 {
						t.Errorf("an item without action or line in rule %d", i)
					}
				}
			}
		}
	})
}
