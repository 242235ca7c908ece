package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"dsh/kernel/external"
	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// deployed is a conversation with one of the example deployments in
// testdata/profiles, whose model is an endpoint of the test.
type deployed struct {
	*provided
	env []string
}

func deploy(t *testing.T, profile string, env ...string) *deployed {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../testdata/profiles", profile+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	d := &deployed{provided: &provided{
		place: newPlace(t, "rules: []"), t: t, server: llmtest.NewServer(t, llmtest.OpenAI()), profile: path,
	}}
	d.env = append(env, "MODEL_URL="+d.server.URL, "MODEL_KEY="+llmtest.Key)
	return d
}

// begin starts a process, without a handshake.
func (d *deployed) begin(args ...string) {
	d.t.Helper()
	if d.peer != nil {
		d.streamed = append(d.streamed, d.lines()...)
	}
	d.started++
	env := append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/no-home", "TMPDIR=" + os.TempDir(), "DSH_HOME=" + d.home}, d.env...)
	p, err := startPeer("dsh", append([]string{"--profile", d.profile}, args...), env, d.ws, filepath.Join(d.root, fmt.Sprintf("stderr.%d", d.started)))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(p.abandon)
	d.peer = p
}

// greet makes the handshake for a provider.
func (d *deployed) greet(provider string, more ...string) {
	d.t.Helper()
	d.speech.provider = provider
	d.shake(more...)
}

// done is the last answer of a turn.
var done = says("Done.")

// TestAirgapped: a request reaches the endpoint of the house, also that of a
// client that asks for DeepSeek; a program that a tool starts reaches nothing,
// and does not have the endpoint's key.
func TestAirgapped(t *testing.T) {
	t.Parallel()
	d := deploy(t, "airgapped", "DSH_PERMISSION_MODE=danger-full-access")
	outside, visits := listen(t)
	dial := fmt.Sprintf(`{"command":"dsh-dial %s; echo key=$MODEL_KEY."}`, outside)

	d.begin()
	d.greet("house")
	d.server.Script(calls("c1", "bash", dial), done)
	d.turn("s", "look outside")
	d.greet("deepseek-official")
	d.server.Script(done)
	d.turn("t", "hello")
	d.end("s", "t")

	if diff := cmp.Diff([]string{"Done."}, d.answers("t")); diff != "" {
		t.Errorf("the answers of the house to a client that asks for DeepSeek (-want +got):\n%s", diff)
	}
	if n := d.attempts(); n != 3 {
		t.Errorf("%d requests came to the endpoint, want 3", n)
	}
	if n := visits.Load(); n != 0 {
		t.Errorf("the program has connected %d times", n)
	}
	if got := d.results("s"); len(got) != 1 || strings.Contains(got[0], "connected") || strings.Contains(got[0], llmtest.Key) {
		t.Errorf("the command said %q", got)
	}

	// The network is there: without the row's word it is reached.
	d.begin("--set", "permissions.network=true")
	d.greet("house")
	d.server.Script(calls("c2", "bash", dial), done)
	d.turn("u", "look outside")
	d.end("u")
	if got := d.results("u"); visits.Load() != 1 || len(got) != 1 || !strings.Contains(got[0], "connected") {
		t.Errorf("with the network: %d connections, the command said %q", visits.Load(), got)
	}
}

// listen counts who connects.
func listen(t *testing.T) (address string, visits *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	visits = &atomic.Int64{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			visits.Add(1)
			_, _ = io.WriteString(c, "connected\n")
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return l.Addr().String(), visits
}

// runDial is the program `dsh-dial ADDRESS`: it prints what whoever listens
// there says.
func runDial() int {
	c, err := net.DialTimeout("tcp", os.Args[1], patience)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer c.Close()
	if _, err := io.Copy(os.Stdout, c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// docsToken is what the team's HTTP server wants to see.
const docsToken = "docs-0123456789abcdef"

// TestTeam: the first prompt sees the tools of both servers and of the plugin
// (S120), all of them answer, a server that is required or a file that is pinned
// stops what it should, and the limits hold.
func TestTeam(t *testing.T) {
	t.Parallel()
	docs := serveDocs(t)
	d := deploy(t, "team", "DOCS_URL="+docs.URL, "DOCS_TOKEN="+docsToken)
	sum := buildEcho(t, d.home)
	d.env = append(d.env, "ECHO_CHECKSUM="+sum)
	patch := d.houseRow()

	d.begin("--patch", patch)
	d.greet("house", `,"protocolVersion":1,"capabilities":{"approvals":true}`)
	d.server.Script(
		calls("c1", "mcp__tracker__find_issue", `{"text":"7"}`),
		calls("c2", "mcp__docs__search", `{"text":"how"}`),
		calls("c3", "echo", `{"text":"we did it"}`),
		calls("c4", "mcp__tracker__delete_issue", `{"text":"7"}`),
		done,
	)
	d.turn("s", "use everything")
	names := d.tools(0)
	for name, want := range map[string]bool{
		"mcp__tracker__find_issue": true, "mcp__tracker__close_issue": true, "mcp__tracker__delete_issue": false,
		"mcp__docs__search": true, "echo": true, "bash": true, "subagent": true,
	} {
		if slices.Contains(names, name) != want {
			t.Errorf("%s among the tools of the first request: %v, want %v; there are %v", name, !want, want, names)
		}
	}
	want := []string{"core has issue 7", "docs about how", "The team says: we did it", `!Error: unknown tool "mcp__tracker__delete_issue"`}
	if diff := cmp.Diff(want, d.results("s")); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}

	d.limits()
	d.end("s", "steps", "slow", "full", "secret", "parent", "asks")
	d.refusals(patch, docs)
}

// limits checks what the deployment bounds.
func (d *deployed) limits() {
	d.t.Helper()
	t := d.t
	// A turn ends behind 60 steps.
	from := d.attempts()
	d.server.Script(repeated("todo_write", `{"todos":[]}`, 70)...)
	d.ask("steps", "on and on")
	d.ended("steps", `{"kind":"max-steps"}`)
	if n := d.attempts() - from; n != 60 {
		t.Errorf("%d steps in a turn, want 60", n)
	}

	// A command that asks for more than five minutes gets five.
	d.server.Script(calls("c1", "bash", `{"command":"true","timeoutMs":300001}`), done)
	d.turn("slow", "take your time")
	if got := d.results("slow"); len(got) != 1 || !strings.Contains(got[0], "lowered from 300001 to 300000") {
		t.Errorf("a command that asks for more than five minutes: %q", got)
	}

	// A file with secrets is not read, whoever asks.
	d.must(os.WriteFile(filepath.Join(d.ws, ".env"), []byte("KEY=hush\n"), 0o600))
	d.server.Script(calls("c1", "read", `{"file_path":".env"}`), done)
	d.turn("secret", "read it")
	if got := d.results("secret"); len(got) != 1 || !strings.HasPrefix(got[0], "!") || strings.Contains(got[0], "hush") {
		t.Errorf("a file that no call may read: %q", got)
	}

	// A child has the servers' tools, too, and cannot delegate any further.
	from = d.attempts()
	d.server.Script(
		calls("c1", "subagent", `{"description":"look","prompt":"look"}`),
		calls("c2", "subagent", `{"description":"look","prompt":"look closer"}`), says("seen"), done)
	d.turn("parent", "delegate")
	if tools := d.tools(from + 1); !slices.Contains(tools, "mcp__docs__search") {
		t.Errorf("the tools of a child: %v", tools)
	}
	if n := d.attempts() - from; n != 4 {
		t.Errorf("%d requests, want two of the parent and two of its child", n)
	}
	child := d.asked()[from+2]
	if refused := text(member(child[len(child)-1], "content")); !strings.Contains(refused, "maxDepth") {
		t.Errorf("a child that delegates is told %q", refused)
	}

	// One prompt runs and eight wait; the next is refused.
	held := llmtest.Stream(llmtest.Text("one moment"))
	held.Parts = append(held.Parts, llmtest.Part{Hang: true})
	d.server.Script(held)
	d.ask("full", "wait")
	d.event("full", sdkproto.TypeAssistantChunk, "")
	for range 8 {
		d.ask("full", "more")
	}
	d.must(d.send(promptFrame("over", "full", "one too many")))
	d.must(wantAnswer(d.peer, "over", map[string]any{"error": map[string]any{"message": "/8/"}}))
	d.must(d.send([]byte(`{"id":"stop","method":"session/cancel","params":{"sessionId":"full"}}` + "\n")))
	d.ended("full", `{"kind":"aborted"}`)

	// What closes an issue is asked about, and what nobody allowed does not run.
	d.server.Script(calls("c1", "mcp__tracker__close_issue", `{"text":"7"}`), calls("c2", "mcp__tracker__close_issue", `{"text":"8"}`), done)
	d.ask("asks", "close them")
	for i, outcome := range []string{"allowed-once", "rejected"} {
		id := fmt.Sprintf("approval-%d", i+1)
		d.must(d.expect(map[string]any{"id": id, "method": "approval/request"}))
		d.must(d.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%q,"result":{"outcome":%q}}`+"\n", id, outcome)))
	}
	d.ended("asks", completed)
	if got := d.results("asks"); len(got) != 2 || got[0] != "closed 7" || !strings.HasPrefix(got[1], "!") {
		t.Errorf("calls that are asked about: %q", got)
	}
}

// refusals checks what happens when a part of the deployment is not as it says.
func (d *deployed) refusals(patch string, docs *httptest.Server) {
	d.t.Helper()
	t := d.t
	failed := func(word string) {
		t.Helper()
		d.must(d.send(initializeFrame(d.ws, "house")))
		d.must(wantAnswer(d.peer, "init", map[string]any{"error": map[string]any{"message": word}}))
		d.must(d.send([]byte(shutdownFrame)))
		d.must(d.wantExit(0))
	}
	// Nothing starts without the tracker.
	d.begin("--patch", patch, "--set", `mcp.servers.tracker.args=["--broken"]`)
	failed("/tracker.*no database/")

	// Without the docs, and with another plugin than the pinned one, everything
	// else goes on.
	docs.Close()
	d.env = append(d.env, "ECHO_CHECKSUM=sha256:"+strings.Repeat("0", 64))
	d.begin("--patch", patch)
	d.greet("house")
	from := d.attempts()
	d.server.Script(done)
	d.turn("rest", "hello")
	for _, name := range d.tools(from) {
		if name == "echo" || strings.HasPrefix(name, "mcp__docs__") {
			t.Errorf("tool %s is there", name)
		}
	}
	if !slices.Contains(d.tools(from), "mcp__tracker__find_issue") {
		t.Errorf("the tracker's tools are gone: %v", d.tools(from))
	}
	d.end("rest")
	said, err := os.ReadFile(d.stderr)
	d.must(err)
	for _, want := range []string{"docs", "team.yaml:", "is not the pinned file"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("standard error lacks %q:\n%s", want, said)
		}
	}
	if strings.Contains(string(said), docsToken) {
		t.Error("the token of the docs is on standard error")
	}
}

// TestLateTool: what a server adds in the middle of a session is there for the
// next turn, and is not where an allow list does not name it: neither shown nor
// run (S112, S134).
func TestLateTool(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		filter string
		want   bool
	}{
		"without a filter": {"{}", true},
		"with one":         {"{allow: [read, mcp__tracker__load_module]}", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := provide(t, speeches()["openai"], settings{rows: "mcp: {config: {servers: {tracker: {command: tracker-mcp, args: [--project, core]}}}}\n" +
				"toolfilter: {config: " + tc.filter + "}"})
			p.server.Script(calls("c1", "mcp__tracker__load_module", `{"text":"wiki"}`), done)
			p.turn("s", "load it")
			p.offers("mcp__tracker__wiki")
			p.server.Script(calls("c2", "mcp__tracker__wiki", `{"text":"now"}`), done)
			p.turn("s", "use it")
			p.end("s")
			if shown := slices.Contains(p.tools(2), "mcp__tracker__wiki"); shown != tc.want {
				t.Errorf("the tool is shown: %v, want %v", shown, tc.want)
			}
			want := []string{"loaded", "wiki of now"}
			if !tc.want {
				want[1] = `!Error: unknown tool "mcp__tracker__wiki"`
			}
			if diff := cmp.Diff(want, p.results("s")); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
		})
	}
}

// tools gives the names of the tools of the n-th request, from 0.
func (p *provided) tools(n int) []string {
	p.t.Helper()
	var body any
	p.must(wirejson.Unmarshal(p.server.Received()[n].Body, &body))
	var names []string
	for _, one := range list(member(body, "tools")) {
		names = append(names, text(member(one, "function", "name")))
	}
	return names
}

// offers waits until a server is known to have a tool.
func (p *provided) offers(tool string) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		p.prompts++
		id := fmt.Sprint("status", p.prompts)
		p.must(p.send(fmt.Appendf(nil, `{"id":%q,"method":"runtime/status"}`+"\n", id)))
		answer, err := p.answer(id)
		p.must(err)
		for _, server := range list(member(answer, "result", "mcp")) {
			if slices.Contains(list(member(server, "tools")), any(tool)) {
				return
			}
		}
	}
	p.t.Fatal(p.failure("no server has the tool " + tool))
}

// houseRow writes a patch with a model for the team, and no more.
func (d *deployed) houseRow() string {
	d.t.Helper()
	path := filepath.Join(d.root, "house.yaml")
	text := `plugins: {house: {use: llm-openai, config: {provider: house, baseUrl: "${env:MODEL_URL}", apiKeyEnv: MODEL_KEY}}}` + "\n"
	d.must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// repeated is the same call n times, each with an id of its own.
func repeated(tool, arguments string, n int) []llmtest.Reply {
	var all []llmtest.Reply
	for i := range n {
		all = append(all, calls(fmt.Sprint("r", i), tool, arguments))
	}
	return all
}

// buildEcho builds the example plugin into the folder of a home where plugins
// are found, as its author would, and gives its checksum.
func buildEcho(t *testing.T, home string) string {
	t.Helper()
	path := filepath.Join(home, "plugins", "echo")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Dir, build.Env = "../../testdata/plugins/echo", append(os.Environ(), "GOPROXY=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	sum, err := external.Checksum(path)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

type about struct {
	Text string `json:"text"`
}

// addTool adds a tool that answers with words about its argument.
func addTool(s *sdk.Server, name string, readOnly bool, answer func(string) string) {
	sdk.AddTool(s, &sdk.Tool{Name: name, Description: "Does it.", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: readOnly}},
		func(_ context.Context, _ *sdk.CallToolRequest, in about) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: answer(in.Text)}}}, nil, nil
		})
}

// serveDocs is the team's HTTP server; it takes nobody without its token.
func serveDocs(t *testing.T) *httptest.Server {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "docs", Version: "1"}, nil)
	addTool(s, "search", true, func(q string) string { return "docs about " + q })
	serve := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Docs-Token") != docsToken {
			http.Error(w, "who are you?", http.StatusForbidden)
			return
		}
		serve.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// runTracker is the program `tracker-mcp --project NAME`: the team's MCP server.
// With --broken it says why it cannot run.
func runTracker() int {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "no database here")
		return 1
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "tracker", Version: "1"}, &sdk.ServerOptions{Logger: slog.New(slog.DiscardHandler)})
	addTool(s, "find_issue", true, func(id string) string { return os.Args[2] + " has issue " + id })
	addTool(s, "close_issue", false, func(id string) string { return "closed " + id })
	addTool(s, "delete_issue", false, func(id string) string { return "deleted " + id })
	addTool(s, "load_module", false, func(name string) string {
		addTool(s, name, true, func(text string) string { return name + " of " + text })
		return "loaded"
	})
	if err := s.Run(context.Background(), &sdk.StdioTransport{}); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
