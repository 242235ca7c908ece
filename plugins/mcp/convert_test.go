package mcp

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"dsh/kernel"
	contract "dsh/kernel/mcp"
	"dsh/kernel/process"
	"dsh/kernel/settings"
	"dsh/kernel/tool"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// TestResults: what a server gives as the result of a call, and what the model
// gets (S024, spec stream-json 8.4).
func TestResults(t *testing.T) {
	png := base64.StdEncoding.EncodeToString([]byte("png bytes"))
	path := regexp.MustCompile(`saved to \S*s-c-[0-9]+`)
	dir := t.TempDir()
	r := start(t, servers(quick(), map[string]Server{"s": stdio(t, "results:"+dir)}), func(p *Params) { p.Images = images{} })
	for _, tc := range []struct {
		name, result string
		want         []string
		isError      bool
	}{
		{"text", `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, []string{`{"type":"text","text":"a"}`, `{"type":"text","text":"b"}`}, false},
		{"error", `{"content":[{"type":"text","text":"no"}],"isError":true}`, []string{`{"type":"text","text":"no"}`}, true},
		{"image", `{"content":[{"type":"text","text":"a"},{"type":"image","data":"` + png + `","mimeType":"image/png"}]}`,
			[]string{`{"type":"text","text":"a"}`, `{"type":"image","attachment":{"attachmentId":"sha256:` + digest("png bytes") + `","mediaType":"image/png","bytes":9}}`}, false},
		{"image that is refused", `{"content":[{"type":"image","data":"` + png + `","mimeType":"image/tiff"}]}`, []string{`{"type":"text","text":"[image image/tiff, 9 bytes, FILE; not shown: it is no PNG]"}`}, false},
		{"image that is none", `{"content":[{"type":"image","data":"?","mimeType":"image/png"},{"type":"text","text":"b"}]}`,
			[]string{`{"type":"text","text":"[image image/png left out: its data is not base64]"}`, `{"type":"text","text":"b"}`}, false},
		{"audio", `{"content":[{"type":"audio","data":"` + png + `","mimeType":"audio/wav"}]}`, []string{`{"type":"text","text":"[audio audio/wav, 9 bytes, FILE]"}`}, false},
		{"link", `{"content":[{"type":"resource_link","uri":"file:///x","name":"x","mimeType":"text/plain","description":"An x."}]}`,
			[]string{`{"type":"text","text":"Resource: x <file:///x> (text/plain)\nAn x."}`}, false},
		{"embedded text", `{"content":[{"type":"resource","resource":{"uri":"file:///x","text":"inside"}}]}`, []string{`{"type":"text","text":"inside"}`}, false},
		{"embedded blob", `{"content":[{"type":"resource","resource":{"uri":"file:///x","mimeType":"application/zip","blob":"` + png + `"}}]}`,
			[]string{`{"type":"text","text":"[resource application/zip file:///x, 9 bytes, FILE]"}`}, false},
		{"embedded image", `{"content":[{"type":"resource","resource":{"uri":"file:///x","mimeType":"image/png","blob":"` + png + `"}}]}`,
			[]string{`{"type":"image","attachment":{"attachmentId":"sha256:` + digest("png bytes") + `","mediaType":"image/png","bytes":9}}`}, false},
		{"structured alone", `{"content":[],"structuredContent":{"n":9007199254740993,"b":1}}`, []string{`{"type":"text","text":"{\"n\":9007199254740993,\"b\":1}"}`}, false},
		{"structured beside", `{"content":[{"type":"text","text":"a"}],"structuredContent":{"n":1}}`, []string{`{"type":"text","text":"a"}`}, false},
		{"nothing", `{"content":[]}`, []string{`{"type":"text","text":"The tool gave no output."}`}, false},
		{"empty text", `{"content":[{"type":"text","text":""}]}`, []string{`{"type":"text","text":"The tool gave no output."}`}, false},
		{"no content", `{}`, []string{`{"type":"text","text":"The tool gave no output."}`}, false},
		{"unknown kind", `{"content":[{"type":"hologram","x":1},{"type":"text","text":"a"}]}`, []string{`{"type":"text","text":"{\"type\":\"hologram\",\"x\":1}"}`, `{"type":"text","text":"a"}`}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, "r"), []byte(tc.result), 0o600); err != nil {
				t.Fatal(err)
			}
			res := r.call(t.Context(), "mcp__s__get", map[string]string{"File": "r"})
			var got []string
			for _, b := range res.Content {
				data, err := wirejson.Marshal(b)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, path.ReplaceAllString(string(data), "FILE"))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("blocks (-want +got):\n%s", diff)
			}
			if res.IsError != tc.isError || (res.Error != nil) != tc.isError {
				t.Errorf("error %v %+v", res.IsError, res.Error)
			}
		})
	}
}

// Text that is too long is kept in a file whose place the model is told (spec
// stream-json 8.6); blocks have a limit, too.
func TestResultLimits(t *testing.T) {
	dir := t.TempDir()
	c := quick()
	c.MaxResult, c.MaxBlocks = 5000, 4
	r := start(t, servers(c, map[string]Server{"s": stdio(t, "results:"+dir)}), func(p *Params) { p.Images = images{} })
	get := func(result string) []sdkproto.Block {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "r"), []byte(result), 0o600); err != nil {
			t.Fatal(err)
		}
		return r.call(t.Context(), "mcp__s__get", map[string]string{"File": "r"}).Content
	}
	exact := strings.Repeat("é", 5000)
	if got := sdkproto.TextOf(get(textResult(exact))); got != exact {
		t.Errorf("a text of %d characters is cut", 5000)
	}
	long := exact + "x"
	got := sdkproto.TextOf(get(textResult(long)))
	_, rest, ok := strings.Cut(got, "saved to ")
	file, _, _ := strings.Cut(rest, ":")
	kept, err := os.ReadFile(file)
	if !ok || err != nil || strings.TrimSuffix(string(kept), "\n") != long || !strings.HasPrefix(got, "ééé") || len(got) > 3000 || !strings.Contains(got, "5001 characters") {
		t.Errorf("got %.100q … %q, %v", got, rest, err)
	}
	png := `{"type":"image","data":"cG5n","mimeType":"image/png"}`
	blocks := get(`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"},` + strings.TrimSuffix(strings.Repeat(png+",", 5), ",") + `]}`)
	if len(blocks) != 4 || blocks[0].Text != "a\nb\n" || blocks[1].Type != sdkproto.BlockImage || !strings.Contains(blocks[3].Text, "3 more images left out") {
		t.Errorf("blocks %+v", blocks)
	}
}

// A server may ask for more room for one of its tools, and less is kept without
// a place to keep it.
func TestResultRoom(t *testing.T) {
	c := quick()
	c.MaxResult = 10
	list := `[{"name":"wide","inputSchema":{"type":"object"},"_meta":{"anthropic/maxResultSizeChars":9000000}},` + named("usual") + `]`
	r := start(t, servers(c, map[string]Server{"s": stdio(t, "fixed:"+listFile(t, list))}), func(p *Params) { p.Spiller = nil })
	text := strings.Repeat("a", 5000)
	if got := r.good("mcp__s__wide", map[string]string{"x": text}); !strings.Contains(got, text) {
		t.Errorf("got %.100q", got)
	}
	if got := r.good("mcp__s__usual", map[string]string{"x": strings.Repeat("b", 5000)}); !strings.Contains(got, "the rest is left out") || len(got) > 300 {
		t.Errorf("got %.100q", got)
	}
}

func TestAdapt(t *testing.T) {
	for _, tc := range []struct {
		name, schema, want string
		notes              int
	}{
		{"fine", `{"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "maximum": 9007199254740993}}}`,
			`{"type":"object","required":["a"],"properties":{"a":{"type":"integer","maximum":9007199254740993}}}`, 0},
		{"none", ``, `{"properties":{},"type":"object"}`, 1},
		{"null", `null`, `{"properties":{},"type":"object"}`, 1},
		{"true", `true`, `{"properties":{},"type":"object"}`, 1},
		{"a list", `[]`, `{"properties":{},"type":"object"}`, 1},
		{"empty", `{}`, `{"properties":{},"type":"object"}`, 0},
		{"without type", `{"properties":{"a":{}}}`, `{"properties":{"a":{}},"type":"object"}`, 0},
		{"or null", `{"type":["object","null"],"properties":{}}`, `{"properties":{},"type":"object"}`, 0},
		{"of a text", `{"type":"string"}`, `{"properties":{},"type":"object"}`, 1},
		{"with a draft", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{},"additionalProperties":false}`,
			`{"additionalProperties":false,"properties":{},"type":"object"}`, 0},
		{"members of no use", `{"type":"object","properties":null,"required":null}`, `{"properties":{},"type":"object"}`, 0},
		{"oneOf", `{"oneOf":[{"properties":{"a":{}},"required":["a","k"]},{"properties":{"b":{}},"required":["k","b"]},{"type":"null"}]}`,
			`{"properties":{"a":{},"b":{}},"required":["k"],"type":"object"}`, 1},
		{"anyOf with different members", `{"type":"object","anyOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"a":{"type":"integer"}}}],"additionalProperties":false}`,
			`{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer"}]}},"type":"object"}`, 1},
		{"allOf", `{"allOf":[{"$ref":"#/$defs/A"},{"properties":{"b":{}},"required":["b"]}],"$defs":{"A":{"type":"object","properties":{"a":{}},"required":["a"]}}}`,
			`{"$defs":{"A":{"type":"object","properties":{"a":{}},"required":["a"]}},"properties":{"a":{},"b":{}},"required":["a","b"],"type":"object"}`, 1},
		{"a reference at the top", `{"$ref":"#/definitions/A","definitions":{"A":{"type":"object","properties":{"n":{"$ref":"#/definitions/A"}}}}}`,
			`{"definitions":{"A":{"type":"object","properties":{"n":{"$ref":"#/definitions/A"}}}},"properties":{"n":{"$ref":"#/definitions/A"}},"type":"object"}`, 0},
		{"references to nowhere", `{"type":"object","properties":{"a":{"$ref":"#/$defs/none"},"b":{"$ref":"https://elsewhere/x"}}}`,
			`{"properties":{"a":{},"b":{}},"type":"object"}`, 2},
		{"a list of anything", `{"type":"object","properties":{"a":{"type":"array"},"b":{"type":["array","null"]},"c":{"type":"array","items":[{"type":"string"}]}}}`,
			`{"properties":{"a":{"items":{},"type":"array"},"b":{"items":{},"type":["array","null"]},"c":{"items":{},"type":"array"}},"type":"object"}`, 0},
		{"nested booleans", `{"type":"object","properties":{"a":true,"b":{"type":"object","properties":{"c":true},"required":true}}}`,
			`{"properties":{"a":{},"b":{"properties":{"c":{}},"type":"object"}},"type":"object"}`, 0},
		{"conditions", `{"type":"object","properties":{"a":{}},"if":{"required":["a"]},"then":{"properties":{"b":{}},"required":["b"]},"not":{},"const":{}}`,
			`{"properties":{"a":{},"b":{}},"type":"object"}`, 4},
		{"without end", `{"anyOf":[{"$ref":"#"},{"$ref":"#"},{"properties":{"a":{}}}]}`, `{"properties":{"a":{}},"type":"object"}`, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := adapt(json.RawMessage(tc.schema), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if string(got.schema) != tc.want {
				t.Errorf("got  %s\nwant %s", got.schema, tc.want)
			}
			if len(got.notes) != tc.notes {
				t.Errorf("notes %q, want %d", got.notes, tc.notes)
			}
			if _, err := tool.NewChecker(got.schema); err != nil {
				t.Errorf("the schema is none: %v", err)
			}
		})
	}
	for _, schema := range []string{`false`, `{"type":`} {
		if got, err := adapt(json.RawMessage(schema), 1<<20); err == nil {
			t.Errorf("%s: got %s", schema, got.schema)
		}
	}
}

// Arguments whose names a provider refuses have another one for the model, and
// their own for the server.
func TestArgumentNames(t *testing.T) {
	list := `[{"name":"q","inputSchema":{"type":"object","properties":{"$filter":{"type":"string"},"user[name]":{"type":"string"},"_filter":{"type":"integer"},"ok":{"type":"string"}},"required":["$filter","ok"]}}]`
	r := start(t, servers(quick(), map[string]Server{"s": stdio(t, "fixed:"+listFile(t, list))}))
	tl, _ := r.view.Lookup("mcp__s__q")
	var spec struct {
		Properties map[string]any
		Required   []string
	}
	if err := json.Unmarshal(tl.Spec().Parameters, &spec); err != nil {
		t.Fatal(err)
	}
	renamed := "_filter_" + digest("$filter")
	if diff := cmp.Diff([]string{"_filter", renamed, "ok", "user_name_"}, slices.Sorted(maps.Keys(spec.Properties))); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{renamed, "ok"}, spec.Required); diff != "" {
		t.Errorf("required (-want +got):\n%s", diff)
	}
	if got, want := r.good("mcp__s__q", map[string]any{renamed: "f", "user_name_": "u", "_filter": 1}), `q {"$filter":"f","_filter":1,"user[name]":"u"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestServerNames(t *testing.T) {
	long := strings.Repeat("x", 40)
	got := serverNames([]string{"my.server", "my_server", "my server", "a__b", "_c_", "…", long}, nil)
	want := map[string]string{
		"my_server": "my_server", "my.server": "my_server_" + digest("my.server"), "my server": "my_server_" + digest("my server"),
		"a__b": "a_b", "_c_": "c", "…": "server", long: long[:23] + "_" + digest(long),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for name, p := range got {
		if len(p) > 32 {
			t.Errorf("%s: %q is longer than 32", name, p)
		}
	}
	// A name that was given first stays.
	if got := serverNames([]string{"my_server"}, map[string]string{"my.server": "my_server"}); got["my_server"] == "my_server" {
		t.Errorf("got %v", got)
	}
}

// A tool that appears late does not take the name of one that was there.
func TestLateNames(t *testing.T) {
	known := publicNames("s", "s", []string{"a.b"}, nil)
	if known["a.b"] != "mcp__s__a_b" {
		t.Fatalf("got %v", known)
	}
	got := publicNames("s", "s", []string{"a.b", "a_b", "a b"}, known)
	want := map[string]string{"a.b": "mcp__s__a_b", "a_b": "mcp__s__a_b_" + digest("s", "a_b"), "a b": "mcp__s__a_b_" + digest("s", "a b")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestConfig(t *testing.T) {
	ok := defaults()
	if err := ok.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	c := defaults()
	c.ConnectTimeout = 0
	c.Servers = map[string]Server{
		"none": {}, "both": {Command: "x", URL: "http://x"}, "odd": {Type: "pigeon"}, "a/b": {URL: "ftp://x"},
		"web": {Type: "http", Command: "x"}, "mode": {Command: "x", Confine: "tight", Timeout: -1}, "": {Command: "x"},
		"good": {URL: "https://x/mcp"}, "port": {URL: "https://x", OAuth: OAuth{CallbackPort: 70000}},
	}
	var got []string
	for _, err := range c.Validate().(interface{ Unwrap() []error }).Unwrap() {
		var f *kernel.FieldError
		if !errors.As(err, &f) {
			t.Fatalf("%v has no place", err)
		}
		got = append(got, f.Pointer)
	}
	want := []string{"/connectTimeout", "/servers/", "/servers/a~1b/url", "/servers/both/url", "/servers/mode/confine", "/servers/mode/timeout",
		"/servers/none/command", "/servers/odd/type", "/servers/port/oauth/callbackPort", "/servers/web/command", "/servers/web/url"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestExpand(t *testing.T) {
	t.Setenv("MCP_TEST_A", "aa")
	for _, tc := range []struct{ text, want, problem string }{
		{"plain $x", "plain $x", ""},
		{"${MCP_TEST_A}-${env:MCP_TEST_A}", "aa-aa", ""},
		{"${MCP_TEST_NONE:-b:c}", "b:c", ""},
		{"${MCP_TEST_NONE}", "", "MCP_TEST_NONE is not set"},
		{"x${MCP", "x${MCP", "no closing brace"},
	} {
		got, _, err := expand(tc.text)
		if got != tc.want || (err != nil) != (tc.problem != "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%s: got %q, %v", tc.text, got, err)
		}
	}
}

func TestPauses(t *testing.T) {
	m := New(Params{Config: defaults(), Self: kernel.Instance{Owner: kernel.NewOwner(t.Context(), "test")}})
	var got []time.Duration
	for tries := 1; tries <= 9; tries++ {
		got = append(got, m.pause(tries))
	}
	ms := time.Millisecond
	want := []time.Duration{500 * ms, 1000 * ms, 2000 * ms, 4000 * ms, 8000 * ms, 16000 * ms, 30000 * ms, 30000 * ms, 30000 * ms}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
}

// files stands for settings files.
type files struct {
	layers []settings.Layer
	fn     func()
}

func (f *files) For(string) []settings.Layer { return f.layers }

func (f *files) Watch(_ *kernel.Owner, fn func()) error { f.fn = fn; return nil }

// Servers of the settings: the user's always, a workspace's when it is trusted;
// a higher layer hides a lower one, unless it is not trusted, and the profile
// hides all.
func TestSettings(t *testing.T) {
	t.Setenv("MCP_TEST_VALUE", "from the environment")
	entry := func(s Server) settings.MCPServer {
		return settings.MCPServer{Command: s.Command, Env: s.Env}
	}
	good := entry(stdio(t, "good", "MCP_X=${MCP_TEST_VALUE}"))
	f := &files{layers: []settings.Layer{
		{Scope: settings.ScopeUser, MCPServers: map[string]settings.MCPServer{"user": good, "shared": {Command: "/no/such"}, "profile": {Command: "/no/such"}, "broken": {Type: "pigeon"}, "unset": {URL: "http://x/${MCP_TEST_NONE}"}}},
		{Scope: settings.ScopeProject, MCPServers: map[string]settings.MCPServer{"project": good, "user": {Command: "/no/such"}}},
		{Scope: settings.ScopeLocal, Trusted: true, MCPServers: map[string]settings.MCPServer{"shared": good}},
	}}
	r := start(t, servers(quick(), map[string]Server{"profile": stdio(t, "good")}), func(p *Params) { p.Settings = f })
	states := func() map[string]string {
		got := map[string]string{}
		for _, s := range r.List() {
			got[s.Name] = s.Scope + " " + s.State
		}
		return got
	}
	want := map[string]string{"profile": "profile connected", "user": "user connected", "shared": "local connected", "project": "project disabled", "broken": "user failed", "unset": "user failed"}
	if diff := cmp.Diff(want, states()); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if got := r.good("mcp__user__env", map[string]string{"text": "MCP_X"}); got != "from the environment true" {
		t.Errorf("got %q", got)
	}
	for name, word := range map[string]string{"project": "not trusted", "broken": "pigeon", "unset": "MCP_TEST_NONE is not set"} {
		if got := r.state(name).Error; !strings.Contains(got, word) {
			t.Errorf("%s: %q lacks %q", name, got, word)
		}
	}
	if err := r.Enable(t.Context(), "project", true); err == nil || !strings.Contains(err.Error(), "not trusted") {
		t.Errorf("got %v", err)
	}
	f.layers[1].Trusted = true
	delete(f.layers[1].MCPServers, "user")
	f.layers[0].MCPServers = nil
	f.fn()
	until(t, "the change is taken up", func() bool {
		return cmp.Equal(states(), map[string]string{"profile": "profile connected", "shared": "local connected", "project": "project connected"})
	})
	if _, ok := r.view.Lookup("mcp__user__env"); ok {
		t.Error("the tools of a server that left stay")
	}
}

// A server asked to be confined is not started where nothing can confine it.
func TestConfinementIsNotForgotten(t *testing.T) {
	s := stdio(t, "good")
	s.Confine = "read-only"
	r := start(t, servers(quick(), map[string]Server{"s": s}))
	if got := r.state("s"); got.State != contract.Failed || !strings.Contains(got.Error, "confine") {
		t.Errorf("status %+v", got)
	}
}

// confiner starts programs as they are and remembers how they were to be
// confined.
type confiner struct {
	mu  sync.Mutex
	got []*process.Confinement
}

func (c *confiner) Start(cmd *exec.Cmd, how *process.Confinement) (process.Reached, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, how)
	return process.Reached{Level: process.ReachedNone, Missing: "nothing holds"}, cmd.Start()
}

func (c *confiner) Probe(*process.Confinement) process.Reached { return process.Reached{} }

func (c *confiner) Confinement(cwd string) *process.Confinement {
	return &process.Confinement{Mode: process.WorkspaceWrite, Write: []string{cwd}, NoNetwork: true}
}

// A server is confined as it says itself, else as the deployment says, and what
// does not hold is said.
func TestConfinement(t *testing.T) {
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[string]*process.Confinement{
		"":                     {Mode: process.WorkspaceWrite, Write: []string{cwd}, NoNetwork: true},
		process.ReadOnly:       {Mode: process.ReadOnly, NoNetwork: true},
		process.WorkspaceWrite: {Mode: process.WorkspaceWrite, Write: []string{cwd}, NoNetwork: true},
		process.FullAccess:     nil,
	} {
		c := &confiner{}
		s := stdio(t, "good")
		s.Confine = mode
		r := start(t, servers(quick(), map[string]Server{"s": s}), func(p *Params) { p.Confiner, p.Policy = c, c })
		if r.state("s").State != contract.Connected {
			t.Fatalf("%q: status %+v", mode, r.state("s"))
		}
		var asked []*process.Confinement
		if want != nil {
			asked = append(asked, want)
		}
		if diff := cmp.Diff(asked, c.got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", mode, diff)
		}
		if said := strings.Contains(r.log.String(), "nothing holds"); said != (want != nil) {
			t.Errorf("%q: said %v", mode, said)
		}
	}
}

func TestLines(t *testing.T) {
	for _, size := range []int{1, 3, 1000} {
		var got []string
		lines(&chunks{text: "a\r\n\nbb\ncccccc\nd" + strings.Repeat("é", 10) + "\ne", size: size}, 5, func(line []byte) bool {
			got = append(got, string(line))
			return true
		}, func(head, end []byte) bool {
			got = append(got, fmt.Sprintf("long %d %d", len(head), len(end)))
			return true
		})
		if len(got) != 5 || got[0] != "a" || got[1] != "bb" || !strings.HasPrefix(got[2], "long ") || !strings.HasPrefix(got[3], "long ") || got[4] != "e" {
			t.Errorf("size %d: got %q", size, got)
		}
	}
}

// chunks gives a text in pieces.
type chunks struct {
	text string
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.text == "" {
		return 0, errors.New("no more")
	}
	n := copy(p, c.text[:min(c.size, len(c.text))])
	c.text = c.text[n:]
	return n, nil
}

func TestTooLong(t *testing.T) {
	for _, tc := range []struct {
		name, head, end string
		id              any
	}{
		{"id in front", `{"jsonrpc":"2.0","id":7,"result":{"content":[{"id":8`, `"id":9}]}}`, int64(7)},
		{"id behind", `{"jsonrpc":"2.0","result":{"id":8`, `}]},"id": 12}`, int64(12)},
		{"a request", `{"jsonrpc":"2.0","id":7,"method":"x"`, `}`, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got any
			if r, ok := tooLong([]byte(tc.head), []byte(tc.end)).(*jsonrpc.Response); ok {
				got = r.ID.Raw()
			}
			if got != tc.id {
				t.Errorf("got %v, want %v", got, tc.id)
			}
		})
	}
}

func TestAssign(t *testing.T) {
	two := []argument{{"a", true}, {"b", false}}
	for _, tc := range []struct {
		name, text string
		arguments  []argument
		want       map[string]string
		problem    string
	}{
		{"both", "x y z", two, map[string]string{"a": "x", "b": "y z"}, ""},
		{"quotes", `"x y" 'z'`, two, map[string]string{"a": "x y", "b": "z"}, ""},
		{"one", " x ", two, map[string]string{"a": "x"}, ""},
		{"none", "", two, nil, "it needs a"},
		{"too many", "x", nil, nil, "takes no arguments"},
		{"an open quote", `"x y`, two, map[string]string{"a": `"x`, "b": "y"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := assign(tc.arguments, tc.text)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			if (err != nil) != (tc.problem != "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("got %v", err)
			}
		})
	}
}
