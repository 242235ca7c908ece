package toollsp

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/tool"
	"dsh/sdkproto/wirejson"
)

var hello = map[string]json.RawMessage{"textDocument/hover": json.RawMessage(`{"contents":"hello"}`)}

func isHello(x *rig, a args) {
	x.T.Helper()
	if text := x.Good("LSP", a); text != "hello" {
		x.T.Errorf("got %q, want hello", text)
	}
}

// TestPeculiar: servers that are not quite what the protocol wants give their answers
// all the same.
func TestPeculiar(t *testing.T) {
	for name, sc := range map[string]script{
		"noise":              {Noise: true},
		"ids as text":        {IDs: "text"},
		"strange ids":        {IDs: "strange"},
		"slow to start":      {Slow: 700},
		"words":              {Words: "word "},
		"busy at first":      {Busy: 800},
		"something modified": {Modified: 2},
		"questions of its own": {Asks: []json.RawMessage{
			json.RawMessage(`{"jsonrpc":"2.0","id":"q","method":"window/workDoneProgress/create","params":{"token":1}}`),
			json.RawMessage(`{"jsonrpc":"2.0","method":"$/telemetry","params":[1]}`),
			json.RawMessage(`{"jsonrpc":"2.0","method":"$/progress","params":"nonsense"}`),
			json.RawMessage(`{"jsonrpc":"2.0","method":"textDocument/publishDiagnostics","params":{"uri":7}}`),
			json.RawMessage(`{"jsonrpc":"2.0","id":1}`), json.RawMessage(`[]`), json.RawMessage(`{}`),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc.Answers = hello
			x := setUp(t, sc)
			x.Put("a.x", "name\n")
			for range 2 {
				isHello(x, at(opHover, "a.x", 1, 1))
			}
			if n := x.starts(); n != 1 {
				t.Errorf("%d servers were started, want one", n)
			}
		})
	}
}

// TestQuestions: what a server asks is answered from the config, and nothing on the
// disk is changed for it.
func TestQuestions(t *testing.T) {
	t.Parallel()
	x := setUp(t, script{Answers: hello, Asks: []json.RawMessage{
		json.RawMessage(`{"jsonrpc":"2.0","id":"a","method":"workspace/configuration","params":{"items":[{"section":"x.deep"},{"section":"y"},{}]}}`),
		json.RawMessage(`{"jsonrpc":"2.0","id":"b","method":"workspace/workspaceFolders"}`),
		json.RawMessage(`{"jsonrpc":"2.0","id":"c","method":"client/registerCapability","params":{"registrations":[{"id":"1","method":"textDocument/diagnostic"}]}}`),
		json.RawMessage(`{"jsonrpc":"2.0","id":"d","method":"workspace/applyEdit","params":{}}`),
		json.RawMessage(`{"jsonrpc":"2.0","id":5,"method":"no/such","params":{}}`),
	}}, func(c *Config) {
		s := c.Servers["x"]
		s.Settings = map[string]any{"x": map[string]any{"deep": 7}}
		s.Options = map[string]any{"o": true}
		c.Servers["x"] = s
	})
	x.Put("a.x", "name\n")
	isHello(x, at(opHover, "a.x", 1, 1))
	answers := map[string]string{}
	x.eventually("five answers", func() bool {
		for _, m := range got(x.log) {
			if m.Method == "" {
				answers[string(m.ID)] = string(m.Result) + string(m.Error)
			}
		}
		return len(answers) == 5
	})
	want := map[string]string{
		`"a"`: `[7,null,{"x":{"deep":7}}]`,
		`"b"`: `[{"name":"` + filepath.Base(x.Dir) + `","uri":"` + uriOf(x.Dir) + `"}]`,
		`"c"`: `null`,
		`"d"`: `{"applied":false,"failureReason":"files are not changed on behalf of a language server"}`,
		`5`:   `{"code":-32601,"message":"this client has no no/such"}`,
	}
	if diff := cmp.Diff(want, answers); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	var init struct {
		RootURI               string         `json:"rootUri"`
		InitializationOptions map[string]any `json:"initializationOptions"`
	}
	if err := wirejson.Unmarshal([]byte(x.sent("initialize")[0]), &init); err != nil {
		t.Fatal(err)
	}
	if init.RootURI != uriOf(x.Dir) || init.InitializationOptions["o"] != true {
		t.Errorf("initialize said %+v", init)
	}
	// The server has registered that it can be asked for diagnostics.
	x.Good("LSP", args{"operation": opDiagnostics, "filePath": "a.x"})
	if n := len(x.sent("textDocument/diagnostic")); n != 1 {
		t.Errorf("it was asked %d times for diagnostics, want once", n)
	}
}

// TestDocuments: a server is told of each change on the disk since the last call,
// whoever made it, and of nothing else.
func TestDocuments(t *testing.T) {
	t.Parallel()
	x := setUp(t, script{Answers: hello})
	a, b := x.Put("a.x", "\ufeffone\r\n"), x.Put("b.x", "two\n")
	x.Put("node_modules/n.x", "")
	type told struct{ Method, What string }
	seen := 0
	step := func(file string, want ...told) {
		t.Helper()
		isHello(x, at(opHover, file, 1, 1))
		var events []told
		all := got(x.log)
		for _, m := range all[seen:] {
			if method, ok := strings.CutPrefix(m.Method, "textDocument/did"); ok {
				events = append(events, told{method, string(m.Params)})
			} else if m.Method == "workspace/didChangeWatchedFiles" {
				events = append(events, told{"Watched", string(m.Params)})
			}
		}
		seen = len(all)
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("the server was told (-want +got):\n%s", diff)
		}
	}
	watched := func(path, kind string) told {
		return told{"Watched", `{"changes":[{"uri":"` + uriOf(path) + `","type":` + kind + `}]}`}
	}
	step("a.x", told{"Open", `{"textDocument":{"uri":"` + uriOf(a) + `","languageId":"x","version":1,"text":"one\r\n"}}`})
	step("a.x")
	step("b.x", told{"Open", `{"textDocument":{"uri":"` + uriOf(b) + `","languageId":"x","version":1,"text":"two\n"}}`})
	x.Put("a.x", "one more\n")
	step("b.x", watched(a, "2"), told{"Change", `{"contentChanges":[{"text":"one more\n"}],"textDocument":{"uri":"` + uriOf(a) + `","version":2}}`})
	c := x.Put("sub/c.x", "three\n")
	x.Put("sub/other", "not for this server\n")
	x.Put("node_modules/n.x", "changed\n")
	step("a.x", watched(c, "1"))
	x.Put("sub/c.x", "three and four\n")
	step("a.x", watched(c, "2"))
	if err := os.Remove(b); err != nil {
		t.Fatal(err)
	}
	step("a.x", watched(b, "3"), told{"Close", `{"textDocument":{"uri":"` + uriOf(b) + `"}}`})
}

// TestOpenDocuments: the number of documents that are open is bounded.
func TestOpenDocuments(t *testing.T) {
	t.Parallel()
	x := setUp(t, script{Answers: hello})
	for i := range maxOpen + 1 {
		name := strings.Repeat("a", i+1) + ".x"
		x.Put(name, "name\n")
		isHello(x, at(opHover, name, 1, 1))
	}
	if closed := x.sent("textDocument/didClose"); len(closed) != 1 || !strings.Contains(closed[0], `/a.x"`) {
		t.Errorf("closed %v, want the first", closed)
	}
}

// TestPublished: diagnostics that a server sends by itself are waited for, and are
// those of the text as it is now.
func TestPublished(t *testing.T) {
	t.Parallel()
	one := json.RawMessage(`[{"range":{"start":{"line":0,"character":1},"end":{"line":0,"character":2}},"severity":1,"message":"bad"}]`)
	diagnostics := args{"operation": opDiagnostics, "filePath": "a.x"}
	const found = "1 diagnostic in a.x:\na.x:1:2: error: bad\n    | name"
	for name, sc := range map[string]script{
		"with versions":    {Publish: one, PublishAfter: 400},
		"without versions": {Publish: one, Unversioned: true},
		"in parts":         {Publish: one, PublishAfter: 400, Early: json.RawMessage(`[{"range":{"start":{"line":0,"character":0}},"message":"first"}]`)},
		"an old one first": {Publish: one, PublishAfter: 1500, Early: json.RawMessage(`[{"range":{"start":{"line":0,"character":0}},"message":"old"}]`), Old: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := setUp(t, sc)
			x.Put("a.x", "name\n")
			for range 2 {
				if text := x.Good("LSP", diagnostics); text != found {
					t.Errorf("got %q, want %q", text, found)
				}
			}
			// Another file may matter, so the server is made to look again.
			x.Put("b.x", "other\n")
			if text := x.Good("LSP", diagnostics); text != found {
				t.Errorf("got %q, want %q", text, found)
			}
			if n := len(x.sent("textDocument/didChange")); n != 1 {
				t.Errorf("the text was sent again %d times, want once", n)
			}
		})
	}
	t.Run("never", func(t *testing.T) {
		x := setUp(t, script{}, func(c *Config) { c.DiagnosticsTimeout = kernel.Duration(50 * time.Millisecond) })
		x.Put("a.x", "name\n")
		if text := x.Good("LSP", diagnostics); !strings.HasPrefix(text, "The language server has reported nothing about a.x so far.") {
			t.Errorf("got %q", text)
		}
	})
}

// TestCancelled: a call that is cancelled is back at once and the server is told by
// the id of the request; another call goes on.
func TestCancelled(t *testing.T) {
	t.Parallel()
	x := setUp(t, script{Answers: hello, Hang: []string{"textDocument/references"}})
	x.Put("a.x", "name\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan tool.Result)
	go func() { done <- x.invoke(ctx, at(opReferences, "a.x", 1, 1), tool.Invocation{}) }()
	x.eventually("the server is asked", func() bool { return len(x.sent("textDocument/references")) == 1 })
	isHello(x, at(opHover, "a.x", 1, 1))
	cancel()
	if res := <-done; res.Error == nil || res.Error.Code != "ABORTED" {
		t.Errorf("got %+v", res)
	}
	x.eventually("the server is told", func() bool { return len(x.sent("$/cancelRequest")) == 1 })
	for _, m := range got(x.log) {
		if m.Method == "textDocument/references" {
			if got, want := x.sent("$/cancelRequest")[0], `{"id":`+string(m.ID)+`}`; got != want {
				t.Errorf("cancelled %s, want %s", got, want)
			}
		}
	}
	if x.starts() != 1 {
		t.Error("the server was started again")
	}
}

// TestCancelledStart: whoever waits for a server that starts need not wait for it.
func TestCancelledStart(t *testing.T) {
	t.Parallel()
	x := setUp(t, script{Answers: hello, Slow: 1500})
	x.Put("a.x", "name\n")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if res := x.invoke(ctx, at(opHover, "a.x", 1, 1), tool.Invocation{}); res.Error == nil || res.Error.Code != "ABORTED" {
		t.Errorf("got %+v", res)
	}
	isHello(x, at(opHover, "a.x", 1, 1))
	if x.starts() != 1 {
		t.Error("the server was started again")
	}
}

// TestHang: a request has its time; a server that says nothing at all is replaced, one
// that answers others is not.
func TestHang(t *testing.T) {
	t.Parallel()
	short := func(c *Config) { c.Timeout = kernel.Duration(300 * time.Millisecond) }
	t.Run("no answer", func(t *testing.T) {
		x := setUp(t, script{Answers: hello, Hang: []string{"textDocument/references"}}, short)
		x.Put("a.x", "name\n")
		x.Bad("LSP", at(opReferences, "a.x", 1, 1), codeTimeout, "did not answer textDocument/references within 300ms")
		isHello(x, at(opHover, "a.x", 1, 1))
		x.eventually("another server", func() bool { return x.starts() == 2 })
	})
	t.Run("reads nothing", func(t *testing.T) {
		x := setUp(t, script{Deaf: true, Stay: true}, short)
		x.Put("a.x", strings.Repeat("a text that no pipe can hold\n", 20_000))
		x.Bad("LSP", at(opHover, "a.x", 1, 1), codeTimeout, "did not answer textDocument/hover")
	})
	t.Run("no answer to initialize", func(t *testing.T) {
		x := setUp(t, script{Hang: []string{"initialize"}}, func(c *Config) { c.StartTimeout = kernel.Duration(200 * time.Millisecond) })
		x.Put("a.x", "name\n")
		x.Bad("LSP", at(opHover, "a.x", 1, 1), codeFailed, "has not answered initialize within 200ms")
	})
}

// TestCrash: a call whose server dies is made again once; a server that dies again and
// again is given up for a while, and the reason is told.
func TestCrash(t *testing.T) {
	t.Parallel()
	t.Run("once", func(t *testing.T) {
		x := setUp(t, script{Answers: hello, Crash: []string{"textDocument/hover"}, Once: filepath.Join(t.TempDir(), "once")})
		x.Put("a.x", "name\n")
		isHello(x, at(opHover, "a.x", 1, 1))
		if n := x.starts(); n != 2 {
			t.Errorf("%d starts, want 2", n)
		}
	})
	t.Run("always", func(t *testing.T) {
		x := setUp(t, script{Answers: hello, Crash: []string{"textDocument/hover"}})
		x.Put("a.x", "name\n")
		x.Bad("LSP", at(opHover, "a.x", 1, 1), codeFailed, "exit status 3", "fatal: out of ideas")
		x.Bad("LSP", at(opHover, "a.x", 1, 1), codeFailed)
		x.Bad("LSP", at(opReferences, "a.x", 1, 1), codeFailed, "ended badly 3 times within 5m0s", "fatal: out of ideas")
		if n := x.starts(); n != maxDeaths {
			t.Errorf("%d starts, want %d", n, maxDeaths)
		}
	})
	t.Run("when it starts", func(t *testing.T) {
		x := setUp(t, script{Crash: []string{"initialize"}})
		x.Put("a.x", "name\n")
		x.Bad("LSP", at(opHover, "a.x", 1, 1), codeFailed, "exit status 3", "fatal: out of ideas")
	})
	t.Run("while nobody asks", func(t *testing.T) {
		x := setUp(t, script{Answers: hello, Crash: []string{"workspace/didChangeWatchedFiles"}, Once: filepath.Join(t.TempDir(), "once")})
		x.Put("a.x", "name\n")
		isHello(x, at(opHover, "a.x", 1, 1))
		x.Put("b.x", "name\n")
		isHello(x, at(opHover, "a.x", 1, 1))
	})
}

// TestRefusals: what a server refuses is told, with what it is about.
func TestRefusals(t *testing.T) {
	t.Parallel()
	x := setUp(t, script{Answers: hello, Huge: "textDocument/hover", Errors: map[string]json.RawMessage{
		"textDocument/definition":     json.RawMessage(`{"code":0,"message":"no identifier found"}`),
		"textDocument/implementation": json.RawMessage(`{"code":-32601,"message":"method not found"}`),
		"textDocument/references":     json.RawMessage(`"just words"`),
	}})
	x.Put("a.x", "name\n")
	x.Bad("LSP", at(opDefinition, "a.x", 1, 2), codeRefused, `no identifier found (at a.x:1:2; the line is "name"`)
	x.Bad("LSP", at(opImplementation, "a.x", 1, 1), codeUnsupported, "does not offer goToImplementation")
	x.Bad("LSP", at(opReferences, "a.x", 1, 1), codeRefused, "an error without words")
	x.Bad("LSP", at(opHover, "a.x", 1, 1), codeRefused, "the answer is longer than 32 MiB and was not read")
	x.Good("LSP", args{"operation": opDocumentSymbol, "filePath": "a.x"})
	if x.starts() != 1 {
		t.Error("the server was started again")
	}
}

// TestProgress: a long start is not silent.
func TestProgress(t *testing.T) {
	t.Parallel()
	x := setUp(t, script{Answers: hello, Busy: 600})
	x.Put("a.x", "name\n")
	var lines []string
	res := x.invoke(t.Context(), at(opHover, "a.x", 1, 1), tool.Invocation{Progress: func(s string) { lines = append(lines, s) }})
	if x.text(res) != "hello" {
		t.Errorf("got %q", x.text(res))
	}
	program := filepath.Base(os.Args[0])
	if diff := cmp.Diff([]string{"starting " + program, program + ": Loading packages 10%", program + ": Indexing"}, lines); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

// TestIdle: a server that nobody needs is ended in the way of the protocol, and
// another one is started when it is needed again.
func TestIdle(t *testing.T) {
	t.Parallel()
	x := setUp(t, script{Answers: hello}, func(c *Config) { c.IdleTimeout = kernel.Duration(50 * time.Millisecond) })
	x.Put("a.x", "name\n")
	isHello(x, at(opHover, "a.x", 1, 1))
	x.eventually("the server is gone", func() bool { return len(x.l.living()) == 0 })
	if len(x.sent("shutdown")) != 1 || len(x.sent("exit")) != 1 {
		t.Error("it was not asked to end")
	}
	isHello(x, at(opHover, "a.x", 1, 1))
	if n := x.starts(); n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
}

// TestMaxServers: the server that has been idle for longest makes room; with all at
// work the call says so.
func TestMaxServers(t *testing.T) {
	t.Parallel()
	x := setUp(t, script{Answers: hello, Hang: []string{"textDocument/references"}}, func(c *Config) {
		s := c.Servers["x"]
		s.Extensions = []string{".y"}
		c.Servers["y"] = s
		c.MaxServers = 1
	})
	x.Put("a.x", "name\n")
	x.Put("a.y", "name\n")
	isHello(x, at(opHover, "a.x", 1, 1))
	isHello(x, at(opHover, "a.y", 1, 1))
	x.eventually("one server is left", func() bool { return len(x.l.living()) == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan tool.Result)
	go func() { done <- x.invoke(ctx, at(opReferences, "a.y", 1, 1), tool.Invocation{}) }()
	x.eventually("the server is asked", func() bool { return len(x.sent("textDocument/references")) == 1 })
	x.Bad("LSP", at(opHover, "a.x", 1, 1), codeFailed, "1 language servers are running and all are at work", "maxServers")
	cancel()
	<-done
}

// TestElsewhere: a file of another repository has a server of its own there, one that
// belongs to no repository that of the working directory.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	x := setUp(t, script{Answers: hello})
	x.Put("w/a.x", "name\n")
	x.Put("other/.git/HEAD", "")
	x.Put("other/deep/b.x", "name\n")
	x.Put("lib/c.x", "name\n")
	top := x.Dir
	x.Dir = filepath.Join(top, "w")
	for _, name := range []string{"a.x", "../other/deep/b.x", "../lib/c.x"} {
		isHello(x, at(opHover, name, 1, 1))
	}
	var roots []string
	for _, params := range x.sent("initialize") {
		var p struct {
			RootURI string `json:"rootUri"`
		}
		if err := wirejson.Unmarshal([]byte(params), &p); err != nil {
			t.Fatal(err)
		}
		roots = append(roots, p.RootURI)
	}
	if diff := cmp.Diff([]string{uriOf(x.Dir), uriOf(filepath.Join(top, "other"))}, roots); diff != "" {
		t.Errorf("workspaces (-want +got):\n%s", diff)
	}
}

// TestEnvironment: language servers get no credentials (decision D28).
func TestEnvironment(t *testing.T) {
	t.Setenv("LSP_TEST_KEY", "sk-secret-value")
	t.Setenv("LSP_TEST_OTHER", "inherited")
	c, log := config(t, script{Answers: hello})
	c.Servers["x"].Env["LSP_TEST_OWN"] = "own"
	x := compose(t, Params{Config: c, Self: kernel.Instance{CredentialEnv: kernel.NewCredentialEnv("LSP_TEST_KEY")}}, log)
	x.Put("a.x", "name\n")
	isHello(x, at(opHover, "a.x", 1, 1))
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	env, _, _ := strings.Cut(string(data), "\n")
	for _, want := range []string{`"LSP_TEST_OTHER=inherited"`, `"LSP_TEST_OWN=own"`, `"PWD=` + x.Dir + `"`} {
		if !strings.Contains(env, want) {
			t.Errorf("the environment lacks %s", want)
		}
	}
	if strings.Contains(env, "sk-secret-value") {
		t.Error("the server got a credential")
	}
}
