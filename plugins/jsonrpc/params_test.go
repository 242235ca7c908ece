package jsonrpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/plugins/jsonrpc"
	"dsh/sdkproto"
)

func failed(id string, code int, message string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, message)
}

// Spec jsonrpc 2.1, 14 line 2; decision D22.
func TestInitializeParams(t *testing.T) {
	const (
		cwd    = `"initialize cwd must be a non-empty string"`
		model  = `"initialize model must be a non-empty string"`
		tokens = `"initialize maxTokens must be a positive safe integer"`
		effort = `"initialize reasoningEffort must be a non-empty string"`
	)
	with := func(member string) string { return `{"cwd":"/w","provider":"scripted","model":"m",` + member + `}` }
	tests := []struct {
		name, params string
		want         string // "" is success
		route        llm.Route
	}{
		{"nothing", `{}`, cwd, llm.Route{}},
		{"null", `null`, cwd, llm.Route{}},
		{"array", `["/w"]`, cwd, llm.Route{}},
		{"empty cwd", `{"cwd":"","provider":"scripted","model":"m"}`, cwd, llm.Route{}},
		{"cwd a number", `{"cwd":1,"provider":"scripted","model":"m"}`, cwd, llm.Route{}},
		{"no model", `{"cwd":"/w","provider":"scripted"}`, model, llm.Route{}},
		{"empty model", `{"cwd":"/w","provider":"scripted","model":""}`, model, llm.Route{}},
		{"model null", `{"cwd":"/w","provider":"scripted","model":null}`, model, llm.Route{}},
		{"unknown provider", `{"cwd":"/w","provider":"X","model":"m"}`, `"no adapter registered for provider \"X\"; registered providers: scripted"`, llm.Route{}},
		{"no provider", `{"cwd":"/w","model":"m"}`, `"no adapter registered for provider \"\"; registered providers: scripted"`, llm.Route{}},
		{"provider a number", `{"cwd":"/w","provider":4,"model":"m"}`, `"initialize provider must be a string"`, llm.Route{}},
		{"tokens 0", with(`"maxTokens":0`), tokens, llm.Route{}},
		{"tokens -0", with(`"maxTokens":-0`), tokens, llm.Route{}},
		{"tokens -1", with(`"maxTokens":-1`), tokens, llm.Route{}},
		{"tokens 1.5", with(`"maxTokens":1.5`), tokens, llm.Route{}},
		{"tokens text", with(`"maxTokens":"7"`), tokens, llm.Route{}},
		{"tokens null", with(`"maxTokens":null`), tokens, llm.Route{}},
		{"tokens true", with(`"maxTokens":true`), tokens, llm.Route{}},
		{"tokens list", with(`"maxTokens":[1]`), tokens, llm.Route{}},
		{"tokens 2^53", with(`"maxTokens":9007199254740992`), tokens, llm.Route{}},
		{"tokens 1e400", with(`"maxTokens":1e400`), tokens, llm.Route{}},
		{"tokens 1e-400", with(`"maxTokens":1e-400`), tokens, llm.Route{}},
		{"tokens 1", with(`"maxTokens":1`), "", llm.Route{Provider: "scripted", Model: "m", MaxTokens: 1}},
		{"tokens 1e3", with(`"maxTokens":1e3`), "", llm.Route{Provider: "scripted", Model: "m", MaxTokens: 1000}},
		{"tokens 8192.0", with(`"maxTokens":8192.0`), "", llm.Route{Provider: "scripted", Model: "m", MaxTokens: 8192}},
		{"tokens 2^53-1", with(`"maxTokens":9007199254740991`), "", llm.Route{Provider: "scripted", Model: "m", MaxTokens: 9007199254740991}},
		{"effort empty", with(`"reasoningEffort":""`), effort, llm.Route{}},
		{"effort null", with(`"reasoningEffort":null`), effort, llm.Route{}},
		{"effort a number", with(`"reasoningEffort":3`), effort, llm.Route{}},
		{"effort high", with(`"reasoningEffort":"high"`), "", llm.Route{Provider: "scripted", Model: "m", ReasoningEffort: "high"}},
		{"unknown members", with(`"protocolversion":1,"capabilities":{"approvals":true},"maxtokens":-5`), "", llm.Route{Provider: "scripted", Model: "m"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := serve(t, setup{})
			p.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":` + tt.params + `}`)
			if tt.want != "" {
				if got, want := p.next(), failed(`"i"`, -32602, tt.want); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
				return
			}
			if got := p.next(); got != initialized {
				t.Fatalf("got %s", got)
			}
			p.send(prompt("1", "s", "x"))
			p.answer("1")
			want := []agent.Spec{{ID: "s", CWD: "/w", Route: tt.route}}
			if diff := cmp.Diff(want, p.agents.opened()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInitializeResolvesCWD(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	p := serve(t, setup{})
	p.send(`{"id":1,"method":"initialize","params":{"cwd":"sub/../other/","provider":"scripted","model":"m"}}`, prompt("2", "s", "x"))
	p.answer("2")
	if got, want := p.agents.opened()[0].CWD, filepath.Join(here, "other"); got != want {
		t.Errorf("cwd %q, want %q", got, want)
	}
}

func TestInitializeEffortRefusedByAdapter(t *testing.T) {
	p := serve(t, setup{}, func(r *fakeRegistry) {
		r.route = func(llm.Route) error {
			return fmt.Errorf("scripted: %w", &llm.Error{Code: "UNSUPPORTED_REASONING_EFFORT", Message: "unknown effort"})
		}
	})
	p.send(initialize)
	if got, want := p.next(), failed(`"i"`, -32602, `"scripted: unknown effort"`); got != want {
		t.Errorf("got %s", got)
	}
}

// Spec jsonrpc 2.2, the table of defects.
func TestPromptParams(t *testing.T) {
	const (
		id     = `"session/prompt sessionId must be a non-empty string"`
		blocks = `"session/prompt contentBlocks must be an array of content blocks"`
	)
	tests := []struct {
		name, params string
		code         int
		want         string // "" is success
	}{
		{"nothing", `{}`, -32602, id},
		{"id a number", `{"sessionId":7,"contentBlocks":[]}`, -32602, id},
		{"id empty", `{"sessionId":"","contentBlocks":[]}`, -32602, id},
		{"id null", `{"sessionId":null,"contentBlocks":[]}`, -32602, id},
		{"no blocks", `{"sessionId":"s"}`, -32602, blocks},
		{"blocks null", `{"sessionId":"s","contentBlocks":null}`, -32602, blocks},
		{"blocks text", `{"sessionId":"s","contentBlocks":"hi"}`, -32602, blocks},
		{"blocks object", `{"sessionId":"s","contentBlocks":{"type":"text","text":"x"}}`, -32602, blocks},
		{"block a text", `{"sessionId":"s","contentBlocks":[{"type":"text","text":"x"},"y"]}`, -32602, `"session/prompt contentBlocks[1]: a content block must be an object"`},
		{"block without type", `{"sessionId":"s","contentBlocks":[{}]}`, -32602, `"session/prompt contentBlocks[0]: a content block must have a string \"type\""`},
		{"block type a number", `{"sessionId":"s","contentBlocks":[{"type":1}]}`, -32602, `"session/prompt contentBlocks[0]: a content block must have a string \"type\""`},
		{"inline image", `{"sessionId":"s","contentBlocks":[{"type":"image","data":"AAAA","mimeType":"image/png"}]}`, -32603, `"SDK image prompt requires an attachment store"`},
		{"no blocks at all", `{"sessionId":"s","contentBlocks":[]}`, 0, ""},
		{"unknown type", `{"sessionId":"s","contentBlocks":[{"type":"x-new","n":1.0,"text":5}]}`, 0, ""},
		{"stored image", `{"sessionId":"s","contentBlocks":[{"type":"image","attachment":{"attachmentId":"sha256:00","mediaType":"image/png","bytes":1}}]}`, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := serve(t, setup{})
			p.begin()
			p.send(`{"id":1,"method":"session/prompt","params":` + tt.params + `}`)
			got, _ := p.answer("1")
			if tt.want == "" {
				if want := `{"jsonrpc":"2.0","id":1,"result":{"messageId":"s-m1"}}`; got != want {
					t.Errorf("got %s", got)
				}
				return
			}
			if want := failed("1", tt.code, tt.want); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if n := len(p.agents.opened()); n != 0 {
				t.Errorf("%d sessions were made", n)
			}
		})
	}
}

// What a client sent is in the log as it came (spec jsonrpc 2.2), but never as
// bytes that are not UTF-8 (0.3 line 6).
func TestPromptContentIsVerbatim(t *testing.T) {
	p := serve(t, setup{})
	p.begin()
	p.send("{\"id\":1,\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"日本/../x\",\"contentBlocks\":[" +
		"{\"text\":\"a<b>\\u2028\",\"type\":\"text\",\"cache\":{\"n\": 1.50}},{\"type\":\"x\",\"y\":\"\xff\\ud800\"},{\"type\":\"text\",\"text\":\"  \"}]}}")
	lines := p.until(`"agent/inbox/spliced"`)
	got := lines[len(lines)-1]
	for _, want := range []string{
		`"sessionId":"日本/../x"`,
		`{"text":"a<b>\u2028","type":"text","cache":{"n":1.50}}`,
		"{\"type\":\"x\",\"y\":\"\ufffd\ufffd\"}",
		`{"type":"text","text":"  "}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

func TestPromptErrors(t *testing.T) {
	t.Run("not initialized", func(t *testing.T) {
		p := serve(t, setup{})
		p.send(prompt("1", "s", "x"))
		if got, want := p.next(), failed("1", -32603, `"SDK server is not initialized"`); got != want {
			t.Errorf("got %s", got)
		}
	})
	t.Run("failed initialize", func(t *testing.T) {
		p := serve(t, setup{})
		p.send(strings.Replace(initialize, "scripted", "X", 1), prompt("1", "s", "x"))
		if got, _ := p.answer("1"); got != failed("1", -32603, `"SDK server is not initialized"`) {
			t.Errorf("got %s", got)
		}
	})
	t.Run("failed initialize changes nothing", func(t *testing.T) {
		p := serve(t, setup{})
		p.begin()
		p.send(`{"id":7,"method":"initialize","params":{"cwd":"/other","provider":"X","model":"n"}}`, prompt("1", "s", "x"))
		if got, _ := p.answer("1"); !strings.Contains(got, `"messageId"`) {
			t.Errorf("got %s", got)
		}
		want := []agent.Spec{{ID: "s", CWD: "/w", Route: llm.Route{Provider: "scripted", Model: "m"}}}
		if diff := cmp.Diff(want, p.agents.opened()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("second initialize is for new sessions", func(t *testing.T) {
		p := serve(t, setup{})
		p.send(initialize, prompt("1", "one", "x"), strings.NewReplacer(`"m"`, `"n"`, "/w", "/v").Replace(initialize), prompt("2", "two", "x"), prompt("3", "one", "y"))
		open := map[string]bool{"1": true, "2": true, "3": true}
		for len(open) > 0 {
			l := p.next()
			for id := range open {
				if strings.HasPrefix(l, `{"jsonrpc":"2.0","id":`+id+`,"result"`) {
					delete(open, id)
				}
			}
		}
		got := map[string]string{}
		for _, s := range p.agents.opened() {
			got[s.ID] = s.CWD + " " + s.Route.Model
		}
		if diff := cmp.Diff(map[string]string{"one": "/w m", "two": "/v n"}, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("failed creation is forgotten", func(t *testing.T) {
		fail := true
		p := serve(t, setup{}, func(r *fakeRegistry) {
			r.opening = func(context.Context, agent.Spec) error {
				if fail {
					fail = false
					return errors.New(`tools.restrict() names unknown global tool "x"; known global tools: a, b`)
				}
				return nil
			}
		})
		p.begin()
		p.send(prompt("1", "s", "x"))
		if got, want := p.next(), failed("1", -32603, `"tools.restrict() names unknown global tool \"x\"; known global tools: a, b"`); got != want {
			t.Errorf("got %s", got)
		}
		p.send(prompt("2", "s", "x"))
		if got, _ := p.answer("2"); !strings.Contains(got, `"messageId"`) {
			t.Errorf("got %s", got)
		}
	})
	t.Run("disposed outside", func(t *testing.T) {
		p := serve(t, setup{})
		p.begin()
		p.send(prompt("1", "s", "x"))
		p.answer("1")
		if err := p.agents.Close(context.Background(), "s", agent.Cause{}); err != nil {
			t.Fatal(err)
		}
		p.send(prompt("2", "s", "x"))
		if got, _ := p.answer("2"); got != failed("2", -32603, `"session agent was disposed outside the server: s"`) {
			t.Errorf("got %s", got)
		}
	})
	t.Run("panic", func(t *testing.T) {
		p := serve(t, setup{}, func(r *fakeRegistry) {
			r.opening = func(context.Context, agent.Spec) error { panic("key sk-secret") }
		})
		p.begin()
		p.send(prompt("1", "s", "x"), probe)
		if got, _ := p.answer("1"); got != failed("1", -32603, `"internal error in session/prompt; the server's standard error says more"`) {
			t.Errorf("got %s", got)
		}
		if log := p.logs.String(); !strings.Contains(log, "stack=") || strings.Contains(log, "sk-secret") {
			t.Errorf("log: %s", log)
		}
	})
	t.Run("too many queued", func(t *testing.T) {
		hold := make(chan struct{})
		p := serve(t, setup{limits: jsonrpc.Limits{MaxQueued: 3}}, func(r *fakeRegistry) {
			r.opening = func(context.Context, agent.Spec) error { <-hold; return nil }
		})
		p.begin()
		for i := 1; i <= 5; i++ {
			p.send(prompt(fmt.Sprint(i), "s", "x"))
		}
		// The fourth too, if the first has not been taken in hand yet.
		if got := p.next(); !strings.Contains(got, `"code":-32603,"message":"session \"s\": too many queued prompts; wait for the answers to some of the 3"`) {
			t.Errorf("got %s", got)
		}
		close(hold)
		p.until(`"id":3,"result"`)
	})
	t.Run("closing agents", func(t *testing.T) {
		p := serve(t, setup{}, func(r *fakeRegistry) {
			r.opening = func(context.Context, agent.Spec) error { return fmt.Errorf("open: %w", agent.ErrClosing) }
		})
		p.begin()
		p.send(prompt("1", "s", "x"))
		if got, want := p.next(), failed("1", sdkproto.CodeInternal, `"SDK server is shutting down"`); got != want {
			t.Errorf("got %s", got)
		}
	})
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
