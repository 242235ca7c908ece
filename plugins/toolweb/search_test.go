package toolweb

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
	"dsh/plugins/internal/dialect"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// TestSearch: the contract with the service, and the structured result of spec
// stream-json 9.
func TestSearch(t *testing.T) {
	type seen struct {
		method, path, auth, kind string
		body                     map[string]any
	}
	got := make(chan seen, 1)
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var body map[string]any
		if err := wirejson.Unmarshal(raw, &body); err != nil {
			t.Error(err)
		}
		got <- seen{r.Method, r.URL.String(), r.Header.Get("Authorization"), r.Header.Get("Content-Type"), body}
		give("application/json", `{"took":3,"results":[
			{"title":"One\n two","url":"https://a.test/1","snippet":"first\u0007 words","score":1},
			{"title":"Below","url":"https://x.a.test/2"},
			{"title":"Not allowed","url":"https://b.test/"},
			{"title":"Not allowed either","url":"https://xa.test/"},
			{"title":"Blocked","url":"https://bad.a.test/"},
			{"title":"No page","url":"javascript:alert(1)"},
			{"title":"","url":"http://a.test/3"},
			{"title":"Too many","url":"https://a.test/4"}]}`)(w, r)
	})
	c := claude()
	c.Search.URL, c.Search.APIKeyEnv, c.Search.Count = base+"/search?v=1", "SEARCH_KEY", 3
	x := setUp(t, c)
	res := x.Call(t.Context(), "WebSearch", tooltest.Args{"query": " go \n fx ", "allowed_domains": []string{"*.A.test"}, "blocked_domains": []string{"bad.a.test."}})
	want := seen{"POST", "/search?v=1", "Bearer key-of-SEARCH_KEY", "application/json", map[string]any{
		"query": "go fx", "count": 3.0, "allowed_domains": []any{"a.test"}, "blocked_domains": []any{"bad.a.test"},
	}}
	if diff := cmp.Diff(want, <-got, cmp.AllowUnexported(seen{})); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	const text = `Results for "go fx":

1. [One two](https://a.test/1)
   first words
2. [Below](https://x.a.test/2)
3. [http://a.test/3](http://a.test/3)

Read a page with WebFetch. Name the pages that your answer comes from.`
	if diff := cmp.Diff(text, sdkproto.TextOf(res.Content)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	var m map[string]any
	if err := wirejson.Unmarshal(res.Meta, &m); err != nil {
		t.Fatal(err)
	}
	if s, ok := m["durationSeconds"].(float64); !ok || s < 0 || s > 60 {
		t.Errorf("durationSeconds %v", m["durationSeconds"])
	}
	delete(m, "durationSeconds")
	link := func(title, url string) any { return map[string]any{"title": title, "url": url} }
	if diff := cmp.Diff(map[string]any{"query": "go fx", "results": []any{map[string]any{"tool_use_id": "c", "content": []any{
		link("One two", "https://a.test/1"), link("Below", "https://x.a.test/2"), link("http://a.test/3", "http://a.test/3"),
	}}}}, m); diff != "" {
		t.Errorf("meta (-want +got):\n%s", diff)
	}

	x.Good("WebSearch", tooltest.Args{"query": "x"})
	if s := <-got; !cmp.Equal(s.body["allowed_domains"], []any{}) || !cmp.Equal(s.body["blocked_domains"], []any{}) {
		t.Errorf("without domains: %v", s.body)
	}
	for _, bad := range []tooltest.Args{
		{"query": "x", "allowed_domains": []string{"https://a.test"}}, {"query": "x", "blocked_domains": []string{""}},
		{"query": "x", "blocked_domains": []string{"a b"}}, {"query": "x", "allowed_domains": make([]string, 101)}, {"query": strings.Repeat("x", 3000)},
	} {
		x.Bad("WebSearch", bad, "INVALID_ARGUMENTS")
	}
}

// TestSearchFailures: what a service does wrong is told; its key is not.
func TestSearchFailures(t *testing.T) {
	var elsewhere atomic.Int64
	other := serve(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	for _, tc := range []struct {
		name    string
		answer  http.HandlerFunc
		env     string
		code    string
		says    string
		notSaid string
	}{
		{name: "status", code: "SEARCH_FAILED", says: "403 Forbidden: no [secret] here", env: "SEARCH_KEY", notSaid: "key-of", answer: func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no "+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")+" here", http.StatusForbidden)
		}},
		{name: "redirect", code: "SEARCH_FAILED", says: "307", env: "SEARCH_KEY", answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other, http.StatusTemporaryRedirect)
		}},
		{name: "not JSON", code: "SEARCH_FAILED", says: "cannot be read", answer: give("text/html", "<html>")},
		{name: "wrong shape", code: "SEARCH_FAILED", says: "cannot be read", answer: give("application/json", `{"results":{}}`)},
		{name: "huge", code: "SEARCH_FAILED", says: "more than 1048576 bytes", answer: give("application/json", `{"x":"`+strings.Repeat("x", 2<<20)+`"}`)},
		{name: "silent", code: "TIMEOUT", says: "within 200ms", answer: func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			<-r.Context().Done()
		}},
		{name: "no key", code: "MISSING_CREDENTIAL", says: "NO_KEY is not set", env: "NO_KEY", answer: func(http.ResponseWriter, *http.Request) { t.Error("asked without a key") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := claude()
			c.Search.URL, c.Search.APIKeyEnv = serve(t, tc.answer), tc.env
			if tc.code == "TIMEOUT" {
				c.Search.Timeout = kernel.Duration(200 * time.Millisecond)
			}
			x := setUp(t, c)
			res := x.Call(t.Context(), "WebSearch", tooltest.Args{"query": "x"})
			text := sdkproto.TextOf(res.Content)
			if !res.IsError || res.Error.Code != tc.code || !strings.Contains(text, tc.says) || tc.notSaid != "" && strings.Contains(text, tc.notSaid) {
				t.Errorf("%+v: %s", res.Error, text)
			}
		})
	}
	if elsewhere.Load() != 0 {
		t.Error("a redirect of the service was followed")
	}
	c := claude()
	c.Search.URL = serve(t, give("application/json", `{"results":[]}`))
	if got := setUp(t, c).Good("WebSearch", tooltest.Args{"query": "x"}); !strings.HasPrefix(got, "Nothing was found") {
		t.Errorf("got %q", got)
	}
}

// TestSearchAbsent: without a service there is no tool, or one that says what to
// configure.
func TestSearchAbsent(t *testing.T) {
	c := claude()
	if _, ok := setUp(t, c).View.Lookup("WebSearch"); ok {
		t.Error("WebSearch is there")
	}
	c.Search.Absent = absentError
	setUp(t, c).Bad("WebSearch", tooltest.Args{"query": "x"}, "NOT_CONFIGURED", "search.url")
}

// TestDSH: under the dialect dsh there is web_search where a service is named (spec
// jsonrpc 11.4), web_fetch where it is asked for, and nothing else; their errors
// say that they are some, and there is no structured result.
func TestDSH(t *testing.T) {
	for _, tc := range []struct {
		fetch, url string
		want       []string
	}{
		{fetchAuto, "", nil},
		{fetchNever, "https://x.test", []string{"web_search"}},
		{fetchAuto, "https://x.test", []string{"web_search"}},
		{fetchAlways, "https://x.test", []string{"web_fetch", "web_search"}},
	} {
		c := defaults()
		c.Fetch, c.Search.URL = tc.fetch, tc.url
		var got []string
		for _, tl := range setUp(t, c).View.List() {
			got = append(got, tl.Spec().Name)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("fetch %s, service %q (-want +got):\n%s", tc.fetch, tc.url, diff)
		}
	}
	c := local()
	c.Dialect, c.Fetch = dialect.DSH, fetchAlways
	c.Search.URL = serve(t, give("application/json", `{"results":[{"title":"T","url":"https://x.test/"}]}`))
	x := setUp(t, c)
	res := x.Call(t.Context(), "web_search", tooltest.Args{"query": "x"})
	const text = "Results for \"x\":\n\n1. [T](https://x.test/)\n\nRead a page with web_fetch. Name the pages that your answer comes from."
	if got := sdkproto.TextOf(res.Content); got != text || res.Meta != nil {
		t.Errorf("got %q with %s, want %q", got, res.Meta, text)
	}
	x.Bad("web_search", tooltest.Args{"query": " "}, "INVALID_ARGUMENTS", "Error: the query is empty")
	x.Bad("web_fetch", tooltest.Args{"url": "https://10.0.0.1/", "prompt": ""}, "ADDRESS_REFUSED", "Error: 10.0.0.1 is at a private address, and web_fetch reaches")
	for _, tl := range []tool.Tool{x.web.fetchTool(), x.web.searchTool()} {
		if d := tl.Spec().Description; strings.Contains(d, "WebFetch") || strings.Contains(d, "WebSearch") {
			t.Errorf("%s names a tool of the other dialect: %s", tl.Spec().Name, d)
		}
	}
	c.Fetch = fetchNever
	x = setUp(t, c)
	if got := x.Good("web_search", tooltest.Args{"query": "x"}) + x.web.searchTool().Spec().Description; strings.Contains(got, "etch") {
		t.Errorf("it names a tool that is not there: %s", got)
	}
	t.Run("contract", func(t *testing.T) {
		tooltest.TestTool(t, x.web.searchTool(), tooltest.Options{Good: []string{`{"query":"x"}`}, NotEmpty: []string{"query"}})
	})
	hit := `{"title":"` + strings.Repeat("title ", 1000) + `","url":"https://x.test/` + strings.Repeat("p", 3000) + `","snippet":"` + strings.Repeat("text ", 1000) + `"}`
	c.Search.Count = 1000
	c.Search.URL = serve(t, give("application/json", `{"results":[`+strings.Repeat(hit+",", 60)+hit+`]}`))
	x = setUp(t, c)
	t.Run("huge", func(t *testing.T) {
		tooltest.TestTool(t, x.web.searchTool(), tooltest.Options{Good: []string{`{"query":"x"}`}, Huge: `{"query":"x"}`})
	})
}

func TestConfig(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string // what is wrong, "" for nothing
	}{
		{"defaults", func(*Config) {}, ""},
		{"all at once", func(c *Config) { c.MaxBytes, c.ResultBytes, c.Redirects = 1, 1, -1 },
			"-1 is too small; use 0 or more\n1 is too small; use 1024 or more\n1 is too small; use 1024 or more"},
		{"address", func(c *Config) { c.AllowAddresses = []string{"10.0.0.0/8", "10.0.0.1"} }, `"10.0.0.1" is no block of addresses; write one like 10.0.0.0/8 or ::1/128`},
		{"address in the form of IPv6", func(c *Config) { c.AllowAddresses = []string{"::ffff:10.0.0.0/104"} }, `"::ffff:10.0.0.0/104" is no block of addresses; write one like 10.0.0.0/8 or ::1/128`},
		{"fetch", func(c *Config) { c.Fetch = "yes" }, `"yes" is neither auto nor always nor never`},
		{"dialect", func(c *Config) { c.Dialect = "x" }, `"x" is no dialect; use dsh or claude`},
		{"no time", func(c *Config) { c.Timeout = 0 }, `0s is too short; use a time like "30s"`},
		{"proxy", func(c *Config) { c.Proxy = "socks5://u:secret@h" }, "must be a URL like https://host/path"},
		{"proxy with a login", func(c *Config) { c.Proxy = "http://u:p@h:3128" }, ""},
		{"absent", func(c *Config) { c.Search.Absent = "x" }, `"x" is neither hide nor error`},
		{"service", func(c *Config) { c.Search.URL = "api.test" }, "must be a URL like https://host/path"},
		{"service with a login", func(c *Config) { c.Search.URL = "https://u:secret@api.test" }, "must not hold a user or password; name a credential in apiKeyEnv instead"},
		{"key in the clear", func(c *Config) { c.Search.URL, c.Search.APIKeyEnv = "http://api.test", "KEY" }, "must begin with https:// because a key is sent there"},
		{"key at home", func(c *Config) { c.Search.URL, c.Search.APIKeyEnv = "http://localhost:8080", "KEY" }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := claude()
			tc.change(&c)
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
