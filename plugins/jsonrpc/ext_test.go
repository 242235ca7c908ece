package jsonrpc_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// Spec jsonrpc 13.3; decision D21: version 1 asks for the further members.
func TestNegotiation(t *testing.T) {
	c, _ := perform(t, composition{})
	var got struct {
		Result struct {
			sdkproto.InitializeResult
			sdkproto.InitializeAdditions
		}
	}
	if err := json.Unmarshal([]byte(c.greet(`,"protocolVersion":7`)), &got); err != nil {
		t.Fatal(err)
	}
	if got.Result.ServerInfo.Name != sdkproto.ServerName || got.Result.ProtocolVersion != 1 || got.Result.Runtime.PID == 0 || got.Result.Runtime.Name != "dsh" || got.Result.Runtime.Version == "" {
		t.Errorf("got %+v", got.Result)
	}
	want := sdkproto.ServerCapabilities{
		Methods: []string{
			"initialize", "ping", "runtime/status", "session/cancel", "session/close", "session/events", "session/list", "session/prompt",
			"session/resume", "session/steer", "session/wait", "shutdown",
		},
		Notifications: []string{
			"approval/cancelled", "runtime.heartbeat", "session.event", "session.prompt.finished", "session.status", "session.tree-status", "session.usage",
			"subagent.finished", "subagent.started",
		},
		Requests: []string{"approval/request"},
	}
	if diff := gocmp.Diff(want, got.Result.Capabilities); diff != "" {
		t.Error(diff)
	}
	// Capabilities alone ask for no members; a later handshake takes back.
	if a := c.greet(`,"capabilities":{"notifications":["session.usage","no.such"],"other":1}`); a != initialized {
		t.Errorf("got %s", a)
	}
	if n := len(of(c.said("s", "x"), "session.usage")); n != 1 {
		t.Errorf("%d reports", n)
	}
	if a := c.greet(""); a != initialized {
		t.Errorf("got %s", a)
	}
	if lines := c.said("s", "x"); len(of(lines, "session.usage")) > 0 {
		t.Errorf("got %q", lines)
	}
	// A failed one changes nothing.
	c.greet(`,"capabilities":{"chunks":false}`)
	c.tell(`{"id":1,"method":"initialize","params":{"cwd":"/w","provider":"nobody","model":"m"}}`)
	c.answer("1")
	if lines := c.said("s", "x"); strings.Contains(strings.Join(lines, ""), "assistant/chunk") {
		t.Errorf("got %q", lines)
	}
}

// Spec jsonrpc 13.3: what comes on request stands at its place among the events.
func TestReports(t *testing.T) {
	home := t.TempDir()
	all := `,"capabilities":{"notifications":["session.prompt.finished","session.usage","session.tree-status"]}`
	c, _ := perform(t, composition{home: home})
	c.greet(all)
	c.tell(prompt("1", "s", "call read"))
	var id string
	var lines []string
	// The answer may come last; the session is idle, and then the tree.
	for strings.Count(strings.Join(lines, ""), `"status":"idle"`) < 2 || id == "" {
		l := c.next()
		if strings.HasPrefix(l, `{"jsonrpc":"2.0","id":1,`) {
			id = messageID(t, l)
			continue
		}
		lines = append(lines, l)
	}
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, `"assistant/chunk"`) })
	var order []string
	for _, l := range lines {
		var f struct {
			Method string
			Params struct {
				Status string
				Event  struct{ Type string }
			}
		}
		if err := json.Unmarshal([]byte(l), &f); err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasPrefix(f.Method, "session.") && f.Params.Event.Type != "":
			order = append(order, f.Params.Event.Type)
		default:
			order = append(order, strings.TrimSpace(f.Method+" "+f.Params.Status))
		}
	}
	want := []string{
		"agent/inbox/spliced", "session.status running", "session.tree-status running", "turn/start", "agent/inbox/spliced", "step/start",
		"user/message", "session/title", "request/header", "request/context", "assistant/message", "session.usage", "tool/call", "tool/result",
		"step/end", "step/start", "assistant/message", "session.usage", "step/end", "turn/end", "session.prompt.finished",
		"session.status idle", "session.tree-status idle",
	}
	if diff := gocmp.Diff(want, order); diff != "" {
		t.Error(diff)
	}
	frame := func(method, params string) string {
		return `{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`
	}
	if diff := gocmp.Diff([]string{
		frame("session.usage", `{"sessionId":"s","turn":1,"usage":{"inputTokens":10,"outputTokens":0},"totals":{"inputTokens":10,"outputTokens":0}}`),
		frame("session.usage", `{"sessionId":"s","turn":1,"usage":{"inputTokens":10,"outputTokens":14},"totals":{"inputTokens":20,"outputTokens":14}}`),
	}, of(lines, "session.usage")); diff != "" {
		t.Error(diff)
	}
	payload := `"sessionId":"s","messageId":"` + id + `","turn":1,"reason":{"kind":"completed"},"finalText":"after the call","usage":{"inputTokens":20,"outputTokens":14}}`
	if diff := gocmp.Diff([]string{frame("session.prompt.finished", "{"+payload)}, of(lines, "session.prompt.finished")); diff != "" {
		t.Error(diff)
	}
	if diff := gocmp.Diff([]string{
		frame("session.tree-status", `{"sessionId":"s","status":"running"}`), frame("session.tree-status", `{"sessionId":"s","status":"idle"}`),
	}, of(lines, "session.tree-status")); diff != "" {
		t.Error(diff)
	}
	// Who waits afterwards gets the same.
	wait := `{"sessionId":"s","messageId":"` + id + `"}`
	waited := `{"jsonrpc":"2.0","id":"ask","result":{"finished":true,` + payload + `}`
	if a := c.ask("session/wait", wait); a != waited {
		t.Errorf("got  %s\nwant %s", a, waited)
	}
	c.tell(shutdown)
	c.answer(`"stop"`)
	c.kernel.WaitExit(t)

	// So does who comes in the next process, and totals go on.
	c, _ = perform(t, composition{home: home})
	c.greet(all)
	if a := c.ask("session/wait", wait); a != waited {
		t.Errorf("got  %s\nwant %s", a, waited)
	}
	lines = c.said("s", "four")
	if diff := gocmp.Diff([]string{
		frame("session.usage", `{"sessionId":"s","turn":2,"usage":{"inputTokens":10,"outputTokens":4},"totals":{"inputTokens":30,"outputTokens":18}}`),
	}, of(lines, "session.usage")); diff != "" {
		t.Error(diff)
	}
	if got := of(lines, "session.prompt.finished"); len(got) != 1 || !strings.Contains(got[0], `"turn":2,"reason":{"kind":"completed"},"finalText":"four"`) {
		t.Errorf("got %q", got)
	}
}

// Spec jsonrpc 13.3: session/cancel and what becomes of the messages (D23).
func TestCancel(t *testing.T) {
	c, _ := perform(t, composition{})
	c.greet(`,"capabilities":{"notifications":["session.prompt.finished"]}`)
	if a := c.ask("session/cancel", `{"sessionId":"s"}`); !strings.Contains(a, `"result":{"cancelled":false}`) {
		t.Errorf("nothing to cancel: %s", a)
	}
	c.tell(prompt("1", "s", "hang"), prompt("2", "s", "two"), prompt("3", "s", "three"))
	ids := map[string]string{}
	for streaming := false; len(ids) < 3 || !streaming; {
		l := c.next()
		for _, n := range []string{"1", "2", "3"} {
			if strings.HasPrefix(l, `{"jsonrpc":"2.0","id":`+n+`,`) {
				ids[n] = messageID(t, l)
			}
		}
		streaming = streaming || strings.Contains(l, "text-delta")
	}
	// The second waits in the queue, the first runs.
	c.tell(`{"id":"w","method":"session/wait","params":{"sessionId":"s","messageId":"` + ids["2"] + `"}}`)
	if a := c.ask("session/wait", `{"sessionId":"s","messageId":"`+ids["1"]+`","timeoutMs":0}`); a != `{"jsonrpc":"2.0","id":"ask","result":{"finished":false}}` {
		t.Errorf("got %s", a)
	}
	c.tell(`{"id":"x","method":"session/cancel","params":{"sessionId":"s","messageId":"` + ids["2"] + `"}}`)
	var lines []string
	for seen := 0; seen < 3; {
		l := c.next()
		lines = append(lines, l)
		if strings.HasPrefix(l, `{"jsonrpc":"2.0","id":`) || strings.Contains(l, "prompt.finished") {
			seen++
		}
	}
	dropped := `"sessionId":"s","messageId":"` + ids["2"] + `","reason":{"kind":"canceled"},"finalText":""}`
	for _, want := range []string{
		`{"jsonrpc":"2.0","id":"x","result":{"cancelled":true}}`,
		`{"jsonrpc":"2.0","id":"w","result":{"finished":true,` + dropped + `}`,
		`{"jsonrpc":"2.0","method":"session.prompt.finished","params":{` + dropped + `}`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is not among %q", want, lines)
		}
	}
	if a := c.ask("session/cancel", `{"sessionId":"s","messageId":"no such"}`); !strings.Contains(a, `"cancelled":false`) {
		t.Errorf("got %s", a)
	}
	c.tell(`{"id":"x","method":"session/cancel","params":{"sessionId":"s"}}`)
	lines = c.until(`"status":"idle"`)
	if got := strings.Join(of(lines, "session.prompt.finished"), "\n"); strings.Count(got, "\n") != 1 ||
		!strings.Contains(got, `"messageId":"`+ids["1"]+`","turn":1,"reason":{"kind":"aborted","reason":{"kind":"user"}},"finalText":"hang"`) ||
		!strings.Contains(got, `"messageId":"`+ids["3"]+`","reason":{"kind":"canceled"}`) {
		t.Errorf("got %s", got)
	}
}

// Spec jsonrpc 13.3; S138: close releases, the next prompt resumes; resume needs
// a stored session.
func TestCloseAndResume(t *testing.T) {
	home := t.TempDir()
	c, s := perform(t, composition{home: home})
	if a := c.ask("session/resume", `{"sessionId":"s"}`); a != failed(`"ask"`, -32603, `"SDK server is not initialized"`) {
		t.Errorf("got %s", a)
	}
	c.greet(`,"protocolVersion":1`)
	if a := c.ask("session/resume", `{"sessionId":"s"}`); !strings.Contains(a, `no such session","data":{"code":"SESSION_NOT_FOUND","retryable":false}`) {
		t.Errorf("got %s", a)
	}
	if a := c.ask("session/steer", `{"sessionId":"s","contentBlocks":[]}`); !strings.Contains(a, `SESSION_NOT_FOUND`) {
		t.Errorf("got %s", a)
	}
	c.tell(prompt("1", "s", "hang"))
	c.until("text-delta")
	c.tell(`{"id":2,"method":"session/close","params":{"sessionId":"s"}}`, prompt("3", "s", "again"))
	lines := c.until(`"finalText`[:0] + `"data":{"turn":2,"reason":{"kind":"completed"}}`)
	all := strings.Join(lines, "\n")
	for _, want := range []string{`"data":{"turn":1,"reason":{"kind":"aborted","reason":{"kind":"user"}}}`, `"session/end-seed"`, `{"jsonrpc":"2.0","id":2,"result":{}}`} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is not in %s", want, all)
		}
	}
	c.until(`"idle"`)
	if a := c.ask("session/close", `{"sessionId":"s"}`); !strings.Contains(a, `"result":{}`) {
		t.Errorf("got %s", a)
	}
	if _, live := s.agents.Get("s"); live {
		t.Error("still live")
	}
	if a := c.ask("session/close", `{"sessionId":"s"}`); !strings.Contains(a, `"result":{}`) {
		t.Errorf("again: %s", a)
	}
	n := len(logged(t, home, "s"))
	if a := c.ask("session/resume", `{"sessionId":"s"}`); a != fmt.Sprintf(`{"jsonrpc":"2.0","id":"ask","result":{"lastSeq":%d,"status":"idle"}}`, n) {
		t.Errorf("got %s, %d events before", a, n)
	}
	c.said("s", "more")
	if a := c.ask("session/resume", `{"sessionId":"s"}`); !strings.Contains(a, `"status":"idle"`) {
		t.Errorf("live: %s", a)
	}
}

// Spec jsonrpc 13.3, 7.2: a steering message enters the turn that runs, and is
// finished with it; without a turn it gets one.
func TestSteer(t *testing.T) {
	c, _ := perform(t, composition{})
	c.greet(`,"capabilities":{"notifications":["session.prompt.finished"]}`)
	c.said("s", "x")
	c.tell(`{"id":1,"method":"session/steer","params":{"sessionId":"s","contentBlocks":[{"type":"text","text":"left"}]}}`)
	all := strings.Join(c.until(`"status":"idle"`), "\n")
	if !strings.Contains(all, `"data":{"target":"next-step","start":0,"inserted":[{"content":[{"type":"text","text":"left"}],"source":{"kind":"user"}`) ||
		!strings.Contains(all, `"turn":2,"reason":{"kind":"completed"},"finalText":"left"`) {
		t.Errorf("got %s", all)
	}
}

// Spec jsonrpc 13.3: list and its pages.
func TestList(t *testing.T) {
	c, _ := perform(t, composition{})
	c.greet("")
	if a := c.ask("session/list", `{}`); a != `{"jsonrpc":"2.0","id":"ask","result":{"sessions":[]}}` {
		t.Errorf("got %s", a)
	}
	for _, id := range []string{"a", "b", "c d"} {
		c.said(id, "x")
	}
	c.ask("session/close", `{"sessionId":"b"}`)
	c.tell(strings.Replace(strings.Replace(initialize, "scripted", "puppet", 1), "/w", "/other", 1))
	c.answer(`"i"`)
	c.said("e", "x")
	var got []sdkproto.SessionInfo
	pages := 0
	for cursor := ""; ; pages++ {
		var a struct{ Result sdkproto.ListResult }
		if err := json.Unmarshal([]byte(c.ask("session/list", fmt.Sprintf(`{"limit":2,"cwd":"/w","cursor":%s}`, nullOr(cursor)))), &a); err != nil {
			t.Fatal(err)
		}
		got = append(got, a.Result.Sessions...)
		if cursor = a.Result.NextCursor; cursor == "" {
			break
		}
	}
	statuses := map[string]sdkproto.Status{}
	for i, s := range got {
		statuses[s.SessionID] = s.Status
		if s.CWD != "/w" || s.CreatedAt == 0 || i > 0 && got[i-1].CreatedAt < s.CreatedAt {
			t.Errorf("%d is %+v", i, s)
		}
	}
	if diff := gocmp.Diff(map[string]sdkproto.Status{"a": "idle", "b": "", "c d": "idle"}, statuses); diff != "" || pages != 1 || len(got) != 3 {
		t.Errorf("%d pages of %d: %s", pages, len(got), diff)
	}
	if a := c.ask("session/list", `{}`); strings.Count(a, `"sessionId"`) != 4 {
		t.Errorf("got %s", a)
	}
}

func nullOr(s string) string {
	if s == "" {
		return "null"
	}
	return quote(s)
}

// Spec jsonrpc 13.3, decision D23: replay gives what is in the log, in pages.
func TestEvents(t *testing.T) {
	home := t.TempDir()
	c, _ := perform(t, composition{home: home})
	c.greet("")
	if a := c.ask("session/events", `{"sessionId":"s","fromSeq":0}`); !strings.Contains(a, "no such session") {
		t.Errorf("got %s", a)
	}
	big := strings.Repeat("0123456789", 300_000)
	c.said("s", big) // about five times in the log
	c.said("s", "small")
	log := logged(t, home, "s")
	var got []string
	pages := 0
	for from := int64(0); ; pages++ {
		var a struct {
			Result struct {
				Events  []json.RawMessage
				NextSeq int64
			}
		}
		text := c.ask("session/events", fmt.Sprintf(`{"sessionId":"s","fromSeq":%d}`, from))
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatal(err)
		}
		if len(text) > 4<<20+200 {
			t.Errorf("page %d has %d bytes", pages, len(text))
		}
		if len(a.Result.Events) == 0 {
			if a.Result.NextSeq != int64(len(log)) || from != a.Result.NextSeq {
				t.Errorf("ends at %d of %d", a.Result.NextSeq, len(log))
			}
			break
		}
		for _, e := range a.Result.Events {
			got = append(got, string(e))
		}
		from = a.Result.NextSeq
	}
	if pages < 3 {
		t.Errorf("%d pages", pages)
	}
	if diff := gocmp.Diff(log, got); diff != "" {
		t.Error("replay and log differ")
	}
	if a := c.ask("session/events", fmt.Sprintf(`{"sessionId":"s","fromSeq":%d}`, len(log)-1)); !strings.Contains(a, `"result":{"events":[{"type":"turn/end"`) {
		t.Errorf("got %s", a)
	}
}

// Spec jsonrpc 13.3, 2.6, 8.1: a child is announced before its first event, and
// the tree is idle when all of it is.
func TestTree(t *testing.T) {
	c, s := perform(t, composition{})
	c.greet(`,"capabilities":{"notifications":["session.tree-status"]}`)
	c.said("root", "x")
	c.until(`session.tree-status","params":{"sessionId":"root","status":"idle"}`)
	child, err := s.agents.Open(t.Context(), agent.Spec{ID: "child", CWD: "/w", Route: llm.Route{Provider: "puppet", Model: "m"}, Parent: "root", Depth: 1}, agent.OpenNew)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := child.Send(t.Context(), []sdkproto.Block{sdkproto.Text("hang")}, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn); err != nil {
		t.Fatal(err)
	}
	lines := c.until("text-delta")
	if lines[0] != `{"jsonrpc":"2.0","method":"subagent.started","params":{"parentSessionId":"root","childSessionId":"child"}}` || !strings.Contains(lines[1], `"agent/inbox/spliced"`) {
		t.Errorf("got %s, then %s", lines[0], lines[1])
	}
	if diff := gocmp.Diff([]string{`{"jsonrpc":"2.0","method":"session.tree-status","params":{"sessionId":"root","status":"running"}}`}, of(lines, "session.tree-status")); diff != "" {
		t.Error(diff)
	}
	// The root alone comes and goes; the tree goes on running.
	lines = c.said("root", "y")
	child.Cancel(agent.Cause{Kind: sdkproto.AbortParent}, "")
	lines = append(lines, c.until(`"params":{"sessionId":"child","status":"idle"}`)...)
	if got := of(lines, "session.tree-status"); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	if got := c.next(); got != `{"jsonrpc":"2.0","method":"session.tree-status","params":{"sessionId":"root","status":"idle"}}` {
		t.Errorf("got %s", got)
	}
	if n := len(of(lines, "subagent.started")); n > 0 {
		t.Errorf("announced again: %d", n)
	}
}

// Spec jsonrpc 13.3: the same key and session give the same message.
func TestIdempotency(t *testing.T) {
	c, _ := perform(t, composition{})
	c.greet("")
	keyed := func(id, session, key string) string {
		return `{"id":` + id + `,"method":"session/prompt","params":{"sessionId":"` + session + `","contentBlocks":[{"type":"text","text":"x"}],"idempotencyKey":` + key + `}}`
	}
	c.tell(keyed("1", "s", `"k"`), keyed("2", "s", `"k"`), keyed("3", "s", `"other"`), keyed("4", "s", `null`), keyed("5", "t", `"k"`))
	ids := map[string]string{}
	var lines []string
	for len(ids) < 5 || strings.Count(strings.Join(lines, ""), `"idle"`) < 2 {
		l := c.next()
		lines = append(lines, l)
		for n := range 6 {
			if strings.HasPrefix(l, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,`, n)) {
				ids[fmt.Sprint(n)] = messageID(t, l)
			}
		}
	}
	c.tell(keyed("6", "s", `"k"`))
	a, before := c.answer("6")
	if messageID(t, a) != ids["1"] || len(before) > 0 {
		t.Errorf("later: %s behind %q", a, before)
	}
	if ids["1"] != ids["2"] || ids["1"] == ids["3"] || ids["3"] == ids["4"] || ids["1"] == ids["5"] {
		t.Errorf("got %v", ids)
	}
	if n := strings.Count(strings.Join(lines, ""), `"user/message"`); n != 4 {
		t.Errorf("%d messages", n)
	}
}

// Spec jsonrpc 13.3: options of a prompt are for the session it makes.
func TestRouteOfASession(t *testing.T) {
	c, _ := perform(t, composition{})
	c.greet(`,"maxTokens":100,"protocolVersion":1`)
	with := func(session, options string) []string {
		c.tell(`{"id":1,"method":"session/prompt","params":{"sessionId":"` + session + `","contentBlocks":[{"type":"text","text":"x"}],"options":` + options + `}}`)
		return c.until(`"params":{"sessionId":"` + session + `","status":"idle"}`)
	}
	header := func(lines []string) string {
		for _, l := range lines {
			if _, config, ok := strings.Cut(l, `"header":{"config":`); ok {
				config, _, _ = strings.Cut(config, "}")
				return config + "}"
			}
		}
		return ""
	}
	tests := []struct{ session, options, want string }{
		{"all", `{"provider":"scripted","model":"n","maxTokens":7,"reasoningEffort":"low"}`, `{"provider":"scripted","model":"n","reasoningEffort":"low","maxTokens":7}`},
		{"some", `{"model":"n"}`, `{"provider":"puppet","model":"n","maxTokens":100}`},
		{"null", `{"model":null}`, `{"provider":"puppet","model":"m","maxTokens":100}`},
		{"none", `null`, `{"provider":"puppet","model":"m","maxTokens":100}`},
		{"some", `{"model":"other"}`, ``}, // exists
	}
	for _, tt := range tests {
		if got := header(with(tt.session, tt.options)); got != tt.want {
			t.Errorf("%s, %s: got %s, want %s", tt.session, tt.options, got, tt.want)
		}
	}
	c.ask("session/close", `{"sessionId":"some"}`)
	if got, want := header(with("some", `{"model":"other"}`)), `{"provider":"puppet","model":"m","maxTokens":100}`; got != want {
		t.Errorf("resumed: got %s, want %s", got, want)
	}
	for options, want := range map[string]string{
		`{"provider":"nobody"}`: failedWith(`"ask"`, -32602, `no adapter registered for provider "nobody"; registered providers: puppet, scripted`,
			`{"code":"NO_ADAPTER","retryable":false,"field":"options.provider"}`),
		`{"reasoningEffort":"odd"}`: failedWith(`"ask"`, -32602, `no effort odd`, `{"code":"UNSUPPORTED_REASONING_EFFORT","retryable":false,"field":"options.reasoningEffort"}`),
	} {
		a := c.ask("session/prompt", `{"sessionId":"new","contentBlocks":[],"options":`+options+`}`)
		if a != want {
			t.Errorf("got  %s\nwant %s", a, want)
		}
	}
	if a := c.ask("session/events", `{"sessionId":"new"}`); !strings.Contains(a, "no such session") {
		t.Errorf("a session was made: %s", a)
	}
}

func failedWith(id string, code int, message, data string) string {
	return strings.TrimSuffix(failed(id, code, quote(message)), "}}") + `,"data":` + data + "}}"
}

// Spec jsonrpc 14 line 6, 1.4, 7.2: three prompts in one write are one stretch
// of work even when the model takes no time, and are accepted before any of
// them is answered.
func TestThreePromptsInOneWriteComposed(t *testing.T) {
	c, _ := perform(t, composition{})
	c.greet("")
	for round := range 30 {
		id := fmt.Sprintf("s%d", round)
		bad := `{"id":4,"method":"session/prompt","params":{"sessionId":"` + id + `","contentBlocks":[{}]}}`
		c.tell(prompt("1", id, "a"), bad, prompt("2", id, "b"), prompt("3", id, "c"))
		var lines []string
		answers := 0
		for answers < 3 || !strings.Contains(strings.Join(lines, ""), `"idle"`) {
			l := c.next()
			lines = append(lines, l)
			if strings.Contains(l, `"messageId"`) {
				answers++
			}
		}
		all := strings.Join(lines, "\n")
		if strings.Count(all, `"id":4,"error":{"code":-32602,`) != 1 {
			t.Fatalf("round %d: the bad one was not refused: %s", round, all)
		}
		if strings.Count(all, `"status":"running"`) != 1 || strings.Count(all, `"status":"idle"`) != 1 || strings.Count(all, `"turn/end"`) != 3 {
			t.Fatalf("round %d: %s", round, all)
		}
		receipts := 0
		var said []string
		for _, l := range lines {
			if strings.Contains(l, `"messageId"`) && receipts < 3 {
				t.Fatalf("round %d: answered after %d receipts", round, receipts)
			}
			if strings.Contains(l, `"inserted":[{`) {
				receipts++
			}
			if strings.Contains(l, `"user/message"`) {
				_, rest, _ := strings.Cut(l, `"text":"`)
				said = append(said, rest[:1])
			}
		}
		if diff := gocmp.Diff([]string{"a", "b", "c"}, said); diff != "" {
			t.Fatal(diff)
		}
	}
}

// S103: a profile of another name that mounts the row serves the same wire.
func TestOtherProfile(t *testing.T) {
	play := func(name string) []string {
		c, _ := perform(t, composition{name: name})
		lines := []string{c.greet("")}
		lines = append(lines, kinds(t, slices.DeleteFunc(c.said("s", "call read"), func(l string) bool { return strings.Contains(l, `"id":"said"`) }))...)
		lines = append(lines, c.ask("nope", "{}"), c.ask("session/prompt", "{}"))
		c.tell(shutdown)
		a, _ := c.answer(`"stop"`)
		c.kernel.WaitExit(t)
		return append(lines, a)
	}
	first := play("sdk")
	if diff := gocmp.Diff(first, play("fleet")); diff != "" || len(first) < 10 {
		t.Errorf("%q differs: %s", first, diff)
	}
}
