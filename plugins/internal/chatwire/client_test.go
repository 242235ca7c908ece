package chatwire_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/llm"
	"dsh/kernel/llm/llmtest"
	"dsh/plugins/internal/chatwire"
	"dsh/sdkproto"
)

func newClient(t *testing.T, change func(*chatwire.Options)) (*chatwire.Client, *kernel.Owner, error) {
	t.Helper()
	o := kernel.NewOwner(context.Background(), "test")
	t.Cleanup(func() { _ = o.Close(context.Background()) })
	opts := chatwire.Options{
		Dialect: deepseek(), BaseURL: "http://127.0.0.1:1", KeyName: "TEST_KEY", UserAgent: "test/1", Idle: 10 * time.Second, Connect: 5 * time.Second,
		Credentials: credential.Environment(func(string) (string, bool) { return llmtest.Key, true }),
	}
	change(&opts)
	c, err := chatwire.NewClient(o, opts)
	return c, o, err
}

// fail gives the error of an attempt.
func fail(t *testing.T, ctx context.Context, c *chatwire.Client) error {
	t.Helper()
	var last error
	for _, err := range c.Stream(ctx, llm.Request{Header: sdkproto.Header{Config: sdkproto.RequestConfig{Model: "m"}}}) {
		last = err
	}
	return last
}

func TestKeys(t *testing.T) {
	for _, tc := range []struct {
		name string
		find func(context.Context, string) (credential.Secret, error)
		code string
		says string
	}{
		{"missing", credential.Environment(func(string) (string, bool) { return "", false }).Lookup, llm.CodeMissingCredential, "the credential TEST_KEY is not set; set it in the environment"},
		{"invalid", credential.Environment(func(string) (string, bool) { return "ключ", true }).Lookup, llm.CodeInvalidCredential, "printable ASCII"},
		{"unreadable", func(context.Context, string) (credential.Secret, error) {
			return credential.Secret{}, errors.New("chmod 600 it")
		}, llm.CodeInvalidCredential, "chmod 600 it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, _, err := newClient(t, func(o *chatwire.Options) { o.Credentials = source(tc.find) })
			if err != nil {
				t.Fatal(err)
			}
			var e *llm.Error
			if err := fail(t, t.Context(), c); !errors.As(err, &e) || e.Code != tc.code || !strings.Contains(e.Message, tc.says) || e.Retryable() {
				t.Errorf("got %v", err)
			}
		})
	}
}

type source func(context.Context, string) (credential.Secret, error)

func (s source) Lookup(ctx context.Context, name string) (credential.Secret, error) {
	return s(ctx, name)
}

// The key is asked for at every request, so that a new one counts at once.
func TestKeyIsResolvedPerRequest(t *testing.T) {
	server := llmtest.NewServer(t, llmtest.DeepSeek())
	server.Script(llmtest.Stream(llmtest.Text("a"), llmtest.Finish("stop"), llmtest.Done))
	key := "old"
	c, _, err := newClient(t, func(o *chatwire.Options) {
		o.BaseURL = server.URL
		o.Credentials = credential.Environment(func(string) (string, bool) { return key, true })
	})
	if err != nil {
		t.Fatal(err)
	}
	a := &chatwire.Adapter{Client: c, Catalog: &chatwire.Catalog{}}
	req := llmtest.Request(t, a, llmtest.User("hello"))
	if e := llmtest.Collect(t.Context(), t, a, req).Failure(); e == nil || e.Code != llm.CodeAuth || !strings.HasSuffix(e.Message, "; check the credential TEST_KEY") {
		t.Errorf("got %v", e)
	}
	key = llmtest.Key
	if ans := llmtest.Collect(t.Context(), t, a, req); ans.Err != nil {
		t.Error(ans.Err)
	}
}

func TestHeaders(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*chatwire.Options)
		want   map[string]string
	}{
		{"plain", func(*chatwire.Options) {}, map[string]string{
			"Authorization": "Bearer " + llmtest.Key, "Content-Type": "application/json", "Accept": "text/event-stream", "User-Agent": "test/1",
		}},
		{"own key header", func(o *chatwire.Options) { o.Dialect.KeyHeader = "api-key" }, map[string]string{
			"Api-Key": llmtest.Key, "Content-Type": "application/json", "Accept": "text/event-stream", "User-Agent": "test/1",
		}},
		{"no key, more headers", func(o *chatwire.Options) {
			o.KeyName = ""
			o.Headers = map[string]string{"x-title": "a b", "user-agent": "mine"}
		}, map[string]string{
			"X-Title": "a b", "Content-Type": "application/json", "Accept": "text/event-stream", "User-Agent": "mine",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := llmtest.NewServer(t, llmtest.DeepSeek())
			reply := llmtest.Stream(llmtest.Text("a"), llmtest.Finish("stop"), llmtest.Done)
			reply.Lenient = true
			server.Script(reply)
			c, _, err := newClient(t, func(o *chatwire.Options) { o.BaseURL = server.URL + "/v1/"; tc.change(o) })
			if err != nil {
				t.Fatal(err)
			}
			if err := fail(t, t.Context(), c); err != nil {
				t.Fatal(err)
			}
			r := server.Received()[0]
			got := map[string]string{}
			for name := range r.Header {
				got[name] = r.Header.Get(name)
			}
			delete(got, "Content-Length")
			if diff := cmp.Diff(tc.want, got); diff != "" || r.Path != "/v1/chat/completions" {
				t.Errorf("path %s, headers:\n%s", r.Path, diff)
			}
		})
	}
}

func TestCheckURL(t *testing.T) {
	for text, ok := range map[string]bool{
		"https://api.example.com": true, "http://127.0.0.1:8080/v1": true, "https://x.test/openai?api-version=1": true, "https://[::1]:1/": true,
		"": false, "api.example.com": false, "ftp://x": false, "https://": false, "https://user:secret@x": false, "https://x#y": false, "http:x": false, "https://%zz": false,
	} {
		_, err := chatwire.CheckURL(text)
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s gives %v", text, err)
		}
		if _, _, err := newClient(t, func(o *chatwire.Options) { o.BaseURL = text }); (err == nil) != ok {
			t.Errorf("a client for %s gives %v", text, err)
		}
	}
}

func TestCheckHeaders(t *testing.T) {
	for name, value := range map[string]string{"": "x", "a b": "x", "a:": "x", "é": "x", "x-a": "line\nbreak", "x-b": "é", "Content-Type": "x", "host": "x", "Connection": "close"} {
		if err := chatwire.CheckHeaders(map[string]string{name: value}); err == nil {
			t.Errorf("%q: %q is taken", name, value)
		}
	}
	if err := chatwire.CheckHeaders(map[string]string{"x-a": "b c", "HTTP-Referer": "https://x", "authorization": "Bearer y"}); err != nil {
		t.Error(err)
	}
}

// Closing the row ends what it has under way.
func TestOwnerCloses(t *testing.T) {
	server := llmtest.NewServer(t, llmtest.DeepSeek())
	server.Script(llmtest.Reply{Lenient: true, Parts: []llmtest.Part{{Text: llmtest.Text("a")}, {Hang: true}}})
	c, o, err := newClient(t, func(opts *chatwire.Options) { opts.BaseURL = server.URL })
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		var last error
		for chunk, err := range c.Stream(context.Background(), llm.Request{}) {
			if last = err; chunk.Type == sdkproto.ChunkTextDelta {
				go func() { _ = o.Close(context.Background()) }()
			}
		}
		ended <- last
	}()
	select {
	case err := <-ended:
		var e *llm.Error
		if !errors.As(err, &e) || e.Code != llm.CodeAborted {
			t.Errorf("got %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the attempt goes on")
	}
}

func TestCatalog(t *testing.T) {
	price := &llm.Price{Currency: "USD", Input: 1, CacheRead: 0.1, Output: 2}
	c := &chatwire.Catalog{
		Provider: "p", Window: 8000, MaxTokens: 500, Effort: "high", Efforts: []string{"low", "high", "off"},
		Models: map[string]chatwire.Model{
			"big":  {ContextWindow: 1_000_000, MaxTokens: 900, Images: true, Price: price},
			"deep": {ContextWindow: 2, Efforts: []string{"deep"}},
		},
		Aliases: map[string]string{"large": "big"},
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		in, out llm.Route
		chosen  sdkproto.AdapterDefaults
		info    llm.Info
		refused string
	}{
		{
			name: "listed", in: llm.Route{Provider: "p", Model: "big"}, out: llm.Route{Provider: "p", Model: "big", MaxTokens: 900, ReasoningEffort: "high"},
			chosen: sdkproto.AdapterDefaults{MaxTokens: true, ReasoningEffort: true}, info: llm.Info{ContextWindow: 1_000_000, Images: true, Price: price},
		},
		{
			name: "alias", in: llm.Route{Provider: "p", Model: "large", MaxTokens: 3, ReasoningEffort: "off"}, out: llm.Route{Provider: "p", Model: "big", MaxTokens: 3, ReasoningEffort: "off"},
			info: llm.Info{ContextWindow: 1_000_000, Images: true, Price: price},
		},
		{
			name: "not listed", in: llm.Route{Provider: "p", Model: "other"}, out: llm.Route{Provider: "p", Model: "other", MaxTokens: 500, ReasoningEffort: "high"},
			chosen: sdkproto.AdapterDefaults{MaxTokens: true, ReasoningEffort: true}, info: llm.Info{ContextWindow: 8000},
		},
		{
			name: "efforts of its own", in: llm.Route{Provider: "p", Model: "deep"}, out: llm.Route{Provider: "p", Model: "deep", MaxTokens: 500},
			chosen: sdkproto.AdapterDefaults{MaxTokens: true}, info: llm.Info{ContextWindow: 2},
		},
		{name: "unknown effort", in: llm.Route{Model: "big", ReasoningEffort: "extreme"}, refused: `model big of provider p has no reasoning effort "extreme"; use low, high, off`},
		{name: "unknown effort of a model", in: llm.Route{Model: "deep", ReasoningEffort: "high"}, refused: `model deep of provider p has no reasoning effort "high"; use deep`},
		{name: "no model", in: llm.Route{}, refused: "name a model for provider p"},
		{name: "negative cap", in: llm.Route{Model: "big", MaxTokens: -1}, refused: "maxTokens -1 is not a positive number"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, chosen, info, err := c.Resolve(tc.in)
			if tc.refused != "" {
				var e *llm.Error
				if !errors.As(err, &e) || e.Code != llm.CodeInvalidRequest || e.Message != tc.refused {
					t.Errorf("got %v", err)
				}
				return
			}
			if diff := cmp.Diff([]any{tc.out, tc.chosen, tc.info, nil}, []any{out, chosen, info, err}); diff != "" {
				t.Error(diff)
			}
		})
	}
	for name, change := range map[string]func(*chatwire.Catalog){
		"window": func(c *chatwire.Catalog) { c.Models = map[string]chatwire.Model{"m": {ContextWindow: -1}} },
		"price":  func(c *chatwire.Catalog) { c.Models = map[string]chatwire.Model{"m": {Price: &llm.Price{Output: -1}}} },
		"chain":  func(c *chatwire.Catalog) { c.Aliases = map[string]string{"a": "b", "b": "c"} },
		"empty":  func(c *chatwire.Catalog) { c.Aliases = map[string]string{"a": ""} },
		"effort": func(c *chatwire.Catalog) { c.Effort = "extreme" },
	} {
		bad := *c
		change(&bad)
		if err := bad.Validate(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// BenchmarkAttempt is a whole attempt of 20,000 deltas over HTTP.
func BenchmarkAttempt(b *testing.B) {
	server := llmtest.NewServer(b, llmtest.DeepSeek())
	reply := llmtest.Reply{}
	for i := range 2000 {
		text := ""
		for j := range 10 {
			text += llmtest.Text(fmt.Sprintf("w%d ", 10*i+j))
		}
		reply.Parts = append(reply.Parts, llmtest.Part{Text: text})
	}
	reply.Parts = append(reply.Parts, llmtest.Part{Text: llmtest.Finish("stop") + llmtest.Done})
	server.Script(reply)
	a := open(b, server.URL, deepseek(), time.Minute)
	req := llmtest.Request(b, a, llmtest.User("hello"))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range a.Stream(context.Background(), req) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 20_003 {
			b.Fatal(n)
		}
	}
}
