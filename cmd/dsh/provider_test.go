package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// speech is one way to speak to a model over HTTP: an adapter of the product,
// and a fake provider that refuses what the real one refuses.
type speech struct {
	provider string
	server   llmtest.Dialect
	// row is the adapter's row of a profile; %s are the base URL and what a test
	// adds to its config.
	row string
}

func speeches() map[string]speech {
	return map[string]speech{
		"deepseek": {
			provider: "deepseek-official", server: llmtest.DeepSeek(),
			row: "deepseek: {enabled: true, config: {baseUrl: %s, apiKeyEnv: TEST_KEY%s}}",
		},
		"openai": {
			provider: "openai", server: llmtest.OpenAI(),
			row: "openai: {use: llm-openai, config: {baseUrl: %s, apiKeyEnv: TEST_KEY%s}}",
		},
	}
}

// provided is a conversation with the program whose model is a fake provider.
type provided struct {
	*place
	*peer
	t        *testing.T
	speech   speech
	server   *llmtest.Server
	profile  string
	streamed []entry // what processes that have ended sent
	prompts  int
	killed   bool // so that what was stored last may not have been sent
}

// settings are what a test changes of the profile.
type settings struct {
	// adapter goes into the adapter's config: ", idle: 1s".
	adapter string
	// loop is the loop's config; "" is three quick retries.
	loop string
	// rows are more rows, one a line.
	rows string
}

// eachSpeech runs a test with every adapter.
func eachSpeech(t *testing.T, s settings, test func(t *testing.T, p *provided)) {
	for name, sp := range speeches() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, provide(t, sp, s))
		})
	}
}

const quickRetries = "{verifyRequests: true, retries: {max: 3, delay: 1ms, jitter: 0}}"

// provide starts the program behind its handshake.
func provide(t *testing.T, sp speech, s settings) *provided {
	t.Helper()
	if s.loop == "" {
		s.loop = quickRetries
	}
	p := &provided{place: newPlace(t, "rules: []"), t: t, speech: sp, server: llmtest.NewServer(t, sp.server)}
	p.profile = filepath.Join(p.root, "provided.yaml")
	text := "extends: sdk\nplugins:\n  loop: {config: " + s.loop + "}\n  " + fmt.Sprintf(sp.row, p.server.URL, s.adapter) + "\n"
	for line := range strings.SplitSeq(s.rows, "\n") {
		text += "  " + line + "\n"
	}
	if err := os.WriteFile(p.profile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.launch()
	return p
}

// launch starts a process, after the one before has ended.
func (p *provided) launch(initialize ...string) {
	p.t.Helper()
	if p.peer != nil {
		p.streamed = append(p.streamed, p.lines()...)
	}
	p.started++
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=/no-home", "DSH_HOME=" + p.home, "TEST_KEY=" + llmtest.Key}
	started, err := startPeer("dsh", []string{"--profile", p.profile}, env, p.ws, filepath.Join(p.root, fmt.Sprintf("stderr.%d", p.started)))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(started.abandon)
	p.peer = started
	p.shake(initialize...)
}

// shake makes a handshake; more is further members of it.
func (p *provided) shake(more ...string) {
	p.t.Helper()
	p.prompts++
	id := fmt.Sprint("i", p.prompts)
	p.must(p.send(fmt.Appendf(nil, `{"id":%q,"method":"initialize","params":{"cwd":%s,"provider":%q,"model":"m"%s}}`+"\n",
		id, show(p.ws), p.speech.provider, strings.Join(more, ""))))
	p.must(wantAnswer(p.peer, id, map[string]any{"result": map[string]any{}}))
}

func (p *provided) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// ask sends a prompt.
func (p *provided) ask(session, prompt string) {
	p.t.Helper()
	p.prompts++
	p.must(p.send(promptFrame(fmt.Sprint("p", p.prompts), session, prompt)))
}

// event waits for an event behind the last one that was waited for.
func (p *provided) event(session, eventType, data string) {
	p.t.Helper()
	event := map[string]any{"type": eventType}
	if data != "" {
		var v any
		p.must(wirejson.Unmarshal([]byte(data), &v))
		event["data"] = v
	}
	p.must(p.expect(map[string]any{"params": map[string]any{"sessionId": session, "event": event}}))
}

// ended waits for the end of a turn with this reason, and for rest.
func (p *provided) ended(session, reason string) {
	p.t.Helper()
	p.event(session, sdkproto.TypeTurnEnd, `{"reason":`+reason+`}`)
	p.must(p.expect(map[string]any{"method": sdkproto.NotifySessionStatus, "params": map[string]any{"sessionId": session, "status": "idle"}}))
}

const completed = `{"kind":"completed"}`

// turn is one prompt that must succeed.
func (p *provided) turn(session, prompt string) {
	p.t.Helper()
	p.ask(session, prompt)
	p.ended(session, completed)
}

// end ends the process in order and checks the logs of the sessions.
func (p *provided) end(sessions ...string) {
	p.t.Helper()
	p.must(p.send([]byte(shutdownFrame)))
	p.must(p.wantExit(0))
	p.check(sessions...)
}

// check checks what is stored of sessions against itself and what was streamed.
func (p *provided) check(sessions ...string) {
	p.t.Helper()
	for _, session := range sessions {
		events := p.events(session)
		p.must(checkStored(events))
		p.must(checkStreamed(session, events, slices.Concat(p.streamed, p.lines()), !p.killed))
	}
}

// kill ends the process as kill -9 does. Facts are stored before they are sent,
// so the last ones may be on the disk alone.
func (p *provided) kill() error {
	p.killed = true
	return p.peer.kill()
}

// events reads the log of a session, with types if any are named.
func (p *provided) events(session string, types ...string) []any {
	p.t.Helper()
	events, err := readStored(p.stored(session))
	p.must(err)
	return slices.DeleteFunc(events, func(e any) bool { return len(types) > 0 && !slices.Contains(types, text(member(e, "type"))) })
}

// answers gives the texts of the committed answers of a session.
func (p *provided) answers(session string) []string {
	p.t.Helper()
	var all []string
	for _, e := range p.events(session, sdkproto.TypeAssistantMessage) {
		said := ""
		for _, b := range list(member(e, "data", "message", "content")) {
			if member(b, "type") == sdkproto.BlockText {
				said += text(member(b, "text"))
			}
		}
		all = append(all, said)
	}
	return all
}

// results gives the texts of the tool results of a session; those of failed
// calls begin with "!".
func (p *provided) results(session string) []string {
	p.t.Helper()
	var all []string
	for _, e := range p.events(session, sdkproto.TypeToolResult) {
		for _, b := range list(member(e, "data", "message", "content")) {
			said := ""
			if member(b, "isError") == true {
				said = "!"
			}
			for _, inner := range list(member(b, "content")) {
				said += text(member(inner, "text"))
			}
			all = append(all, said)
		}
	}
	return all
}

// asked gives the messages of every request so far.
func (p *provided) asked() [][]any {
	p.t.Helper()
	var all [][]any
	for _, r := range p.server.Received() {
		var body any
		p.must(wirejson.Unmarshal(r.Body, &body))
		all = append(all, list(member(body, "messages")))
	}
	return all
}

// attempts is how many requests came so far; none of them may have been refused
// for its form.
func (p *provided) attempts() int {
	p.t.Helper()
	all := p.server.Received()
	for i, r := range all {
		if r.Refused != "" {
			p.t.Errorf("the provider refused request %d: %s\n%s", i+1, r.Refused, r.Body)
		}
	}
	return len(all)
}

// arrived waits for the n-th request.
func (p *provided) arrived(n int) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); len(p.server.Received()) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatal(p.failure(fmt.Sprintf("request %d does not come", n)))
		}
	}
}

func (p *provided) terminate() error { return p.cmd.Process.Signal(syscall.SIGTERM) }

// files names what is in the working directory of the sessions.
func (p *provided) files() []string {
	p.t.Helper()
	entries, err := os.ReadDir(p.ws)
	p.must(err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// read gives the text of a file there.
func (p *provided) read(name string) string {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.ws, name))
	p.must(err)
	return string(data)
}

// says is a good answer of text, does one of calls of bash.
func says(text string) llmtest.Reply {
	return llmtest.Stream(llmtest.Text(text), llmtest.Finish("stop"), llmtest.Done)
}

func calls(id, tool, arguments string) llmtest.Reply {
	return llmtest.Stream(llmtest.Call(0, id, tool), llmtest.Arguments(0, arguments), llmtest.Finish("tool_calls"), llmtest.Done)
}
