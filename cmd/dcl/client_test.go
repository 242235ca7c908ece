package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto/client/streamclient"
	"dsh/sdkproto/streamjson"
)

// client starts the program as a Go host does.
func (r *room) client(o streamclient.Options) *streamclient.Session {
	r.t.Helper()
	s, err := streamclient.Start(waiting(r.t), r.options(o))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := s.Close(waiting(r.t)); err != nil {
			r.t.Errorf("close: %v", err)
		}
		if n := s.Skipped(); n != 0 {
			r.t.Errorf("%d lines are none of the wire", n)
		}
	})
	return s
}

func (r *room) options(o streamclient.Options) streamclient.Options {
	o.Command, o.Dir, o.Env = binary(r.t), r.work, r.env
	return o
}

// waiting is a context that ends before the test hangs.
func waiting(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(cancel)
	return ctx
}

// ran sends a prompt and gives its lines and its result.
func ran(t *testing.T, s *streamclient.Session, prompt string) ([]streamclient.Line, streamjson.Result) {
	t.Helper()
	turn, err := s.Query(waiting(t), prompt)
	if err != nil {
		t.Fatal(err)
	}
	var lines []streamclient.Line
	for l, err := range turn.Lines(waiting(t)) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	result, err := turn.Result(waiting(t))
	if err != nil {
		t.Fatal(err)
	}
	return lines, result
}

// said is the text of a turn's answers, and its pieces.
func said(lines []streamclient.Line) (whole, pieces string) {
	for _, l := range lines {
		text, _ := l.Text()
		piece, _ := l.TextDelta()
		whole, pieces = whole+text, pieces+piece
	}
	return whole, pieces
}

// A session of a Go host over several turns: each has the lines from its message
// to its result and no others; deltas make the text; what the program says of
// itself is known; a one-off query is a session of its own (issue 7; S082).
func TestClientTurns(t *testing.T) {
	t.Parallel()
	script := "rules:\n  - when: {matches: '^describe'}\n    reply: \"It has {{user}}\"\n  - reply: [{chunks: [you, ' said ', '{{user}}']}]\n"
	r := newRoom(t).script(script)
	s := r.client(streamclient.Options{
		Args:   []string{"--include-partial-messages"},
		Agents: map[string]streamjson.AgentDefinition{"scout": {Description: "looks ahead", Prompt: "Look."}},
	})
	if s.PID() == 0 || s.PID() != s.Initialized.PID {
		t.Errorf("process %d, and it says %d", s.PID(), s.Initialized.PID)
	}
	var first, second *streamclient.Turn
	for _, send := range []struct {
		turn **streamclient.Turn
		text string
	}{{&first, "one"}, {&second, "two"}} {
		turn, err := s.Query(waiting(t), send.text)
		if err != nil {
			t.Fatal(err)
		}
		*send.turn = turn
	}
	for turn, text := range map[*streamclient.Turn]string{first: "one", second: "two"} {
		var lines []streamclient.Line
		for l, err := range turn.Lines(waiting(t)) {
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, l)
		}
		begin, _ := lines[0].Body.(*streamclient.User)
		if begin == nil || !begin.IsReplay || begin.UUID != turn.UUID() || begin.Message.Content[0].Text != text {
			t.Errorf("%s begins with %s", text, lines[0].Raw)
		}
		result, err := turn.Result(waiting(t))
		if err != nil {
			t.Fatal(err)
		}
		whole, pieces := said(lines)
		if want := "you said " + text; whole != want || pieces != want || result.Result != want || result.UserMessageUUID != turn.UUID() {
			t.Errorf("text %q, deltas %q, result %+v; want %q", whole, pieces, result, want)
		}
		if last, _ := lines[len(lines)-1].Body.(*streamjson.Result); last == nil || last.UUID != result.UUID {
			t.Errorf("%s ends with %s", text, lines[len(lines)-1].Raw)
		}
	}
	init, err := s.Init(waiting(t))
	result, resultErr := first.Result(waiting(t))
	if err != nil || resultErr != nil || init.CWD != r.work || !slices.Contains(init.Agents, "scout") || init.SessionID != result.SessionID {
		t.Errorf("init %+v, error %v", init, err)
	}
	var drawn bytes.Buffer
	if err := png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 8, 4))); err != nil {
		t.Fatal(err)
	}
	picture, err := s.Send(waiting(t), streamclient.Message{
		Text: "describe", Blocks: []streamjson.Block{streamclient.Image("image/png", drawn.Bytes())}, Origin: json.RawMessage(`{"kind":"test"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if result, err := picture.Result(waiting(t)); err != nil || result.IsError || string(result.Origin) != `{"kind":"test"}` {
		t.Errorf("with an image: %+v, %v", result, err)
	}

	result, err = streamclient.Query(waiting(t), r.options(streamclient.Options{}), "alone")
	if err != nil || result.Result != "you said alone" || result.SessionID == init.SessionID {
		t.Errorf("a query by itself: %+v, %v", result, err)
	}
}

// What the program asks is answered by functions of the host: calls are allowed,
// denied and changed (checklist 55 to 57, S064, S082), hooks see them and speak to the
// model (66, 67), servers in the host have tools and ask the user (40, 71, 74, 75).
func TestClientAnswers(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds(
		[]use{{"Bash", object{"command": "touch denied"}}, {"Bash", object{"command": "touch asked"}}},
		[]use{{"mcp__app__greet", object{"name": "Ada"}}, {"mcp__app__greet", object{}}},
	)
	var asked, called, hooked []string
	var mu sync.Mutex
	note := func(list *[]string, text string) {
		mu.Lock()
		defer mu.Unlock()
		*list = append(*list, text)
	}
	var session atomic.Pointer[streamclient.Session]
	// Notes of what the server inside this process hears of its own question.
	heard := make(chan string, 1)
	tools := streamclient.NewToolServer("app", "1.2.3", streamclient.Tool{
		Name: "greet", Description: "Greets somebody.",
		InputSchema: json.RawMessage("{\n  \"type\": \"object\",\n  \"properties\": {\"name\": {\"type\": \"string\"}}\n}"),
		Call: func(ctx context.Context, arguments json.RawMessage) (string, error) {
			note(&called, string(arguments))
			var in struct {
				Name string `json:"name"`
			}
			if err := json.Unmarshal(arguments, &in); err != nil || in.Name == "" {
				return "", errors.New("greet whom?")
			}
			err := session.Load().SendMCP(ctx, "app", json.RawMessage(`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"Warmly?","requestedSchema":{"type":"object","properties":{}}}}`))
			if err != nil {
				return "", err
			}
			select {
			case answer := <-heard:
				return "Hello, " + in.Name + ": " + answer, nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		},
	})
	s := r.client(streamclient.Options{
		Args: []string{"--allowedTools", "mcp__app"},
		CanUseTool: func(_ context.Context, q streamjson.CanUseTool) (streamjson.Permission, error) {
			note(&asked, q.ToolName+" "+string(q.Input))
			if strings.Contains(string(q.Input), "denied") {
				return streamclient.Deny("not today"), nil
			}
			p := streamclient.Allow()
			p.UpdatedInput = json.RawMessage(`{"command": "touch changed"}`)
			return p, nil
		},
		Hooks: map[string][]streamclient.Hook{
			"PreToolUse": {{Matcher: "Bash", Call: func(_ context.Context, in streamclient.HookInput) (streamjson.HookOutput, error) {
				note(&hooked, in.Event+" "+in.ToolName+" "+string(in.ToolInput))
				return streamjson.HookOutput{}, nil
			}}},
			"UserPromptSubmit": {{Call: func(_ context.Context, in streamclient.HookInput) (streamjson.HookOutput, error) {
				note(&hooked, in.Event+" "+in.Prompt)
				return streamjson.HookOutput{Specific: &streamjson.HookSpecific{AdditionalContext: "mind the gap"}}, nil
			}}},
		},
		Elicit: func(_ context.Context, q streamjson.Elicitation) (streamjson.ElicitationResult, error) {
			return streamjson.ElicitationResult{Action: streamjson.ActionAccept, Content: json.RawMessage(`{"to":"` + q.MCPServerName + `"}`)}, nil
		},
		MCPServers: map[string]streamclient.MCPServer{"app": func(ctx context.Context, message json.RawMessage) (json.RawMessage, error) {
			var in struct {
				ID     any             `json:"id"`
				Method string          `json:"method"`
				Result json.RawMessage `json:"result"`
			}
			if json.Unmarshal(message, &in) == nil && in.Method == "" && in.ID == 7.0 {
				heard <- string(in.Result)
				return nil, nil
			}
			return tools(ctx, message)
		}},
	})
	session.Store(s)
	init, err := s.Init(waiting(t))
	if err != nil || !slices.Contains(init.Tools, "mcp__app__greet") {
		t.Errorf("tools %q, error %v", init.Tools, err)
	}
	status, err := s.MCPStatus(waiting(t))
	if err != nil || len(status.Servers) != 1 || status.Servers[0].Status != "connected" || *status.Servers[0].ServerInfo != (streamjson.MCPServerInfo{Name: "app", Version: "1.2.3"}) {
		t.Errorf("mcp status %+v, error %v", status, err)
	}
	lines, result := ran(t, s, "go")
	results := map[string]string{}
	for _, l := range lines {
		u, _ := l.Body.(*streamclient.User)
		if u == nil {
			continue
		}
		for _, b := range u.Message.Content {
			if b.Type == streamjson.BlockToolResult {
				results[b.ToolUseID] = string(b.Content)
			}
		}
	}
	want := map[string]string{
		"call_1_1_1": `"not today"`, "call_1_1_2": `"(no output)"`,
		"call_1_2_1": `[{"type":"text","text":"Hello, Ada: {\"action\":\"accept\",\"content\":{\"to\":\"app\"}}"}]`,
		"call_1_2_2": `[{"type":"text","text":"greet whom?"}]`,
	}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Error(diff)
	}
	if len(result.PermissionDenials) != 1 || result.PermissionDenials[0].ToolUseID != "call_1_1_1" {
		t.Errorf("denials %+v", result.PermissionDenials)
	}
	if r.exists("denied") || r.exists("asked") || !r.exists("changed") {
		t.Error("the files are not what the answers say")
	}
	mu.Lock()
	defer mu.Unlock()
	for _, list := range [][]string{asked, called, hooked} {
		slices.Sort(list)
	}
	if diff := cmp.Diff([][]string{
		{`Bash {"command":"touch asked"}`, `Bash {"command":"touch denied"}`},
		{`{"name":"Ada"}`, `{}`},
		{`PreToolUse Bash {"command":"touch asked"}`, `PreToolUse Bash {"command":"touch denied"}`, "UserPromptSubmit go"},
	}, [][]string{asked, called, hooked}); diff != "" {
		t.Error(diff)
	}
}

// Functions that are not there, fail or panic refuse; the session goes on (checklist
// 59, 68; spec stream-json 5.6).
func TestClientRefuses(t *testing.T) {
	t.Parallel()
	for name, decide := range map[string]func(context.Context, streamjson.CanUseTool) (streamjson.Permission, error){
		"none": nil,
		"error": func(context.Context, streamjson.CanUseTool) (streamjson.Permission, error) {
			return streamjson.Permission{}, errors.New("nobody is in")
		},
		"panic": func(context.Context, streamjson.CanUseTool) (streamjson.Permission, error) { panic("oh") },
		"zero": func(context.Context, streamjson.CanUseTool) (streamjson.Permission, error) {
			return streamjson.Permission{}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).rounds([]use{{"Bash", object{"command": "touch x"}}})
			s := r.client(streamclient.Options{CanUseTool: decide})
			_, result := ran(t, s, "go")
			if r.exists("x") || result.IsError || result.Result != "done" || len(result.PermissionDenials) != 1 {
				t.Errorf("result %+v", result)
			}
		})
	}
}

// Requests of a Go host and what they do (S034 to S038, S046 to S059; checklist 25,
// 29, 30, 32, 35, 36, 85).
func TestClientControls(t *testing.T) {
	t.Parallel()
	r := newRoom(t).turns(map[string][][]use{"change": {{{"Write", object{"file_path": "a.txt", "content": "new\n"}}}}})
	r.git("init", "-q")
	s := r.client(streamclient.Options{Args: []string{"--permission-mode", "default"}})
	turn, err := s.Query(waiting(t), "hello")
	if err != nil {
		t.Fatal(err)
	}
	if result, err := turn.Result(waiting(t)); err != nil || result.Result != "done" {
		t.Fatalf("%+v, %v", result, err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	tokens := 4097
	before, err := s.Settings(waiting(t))
	must(err)
	must(s.SetModel(waiting(t), "m2"))
	must(s.SetMaxThinkingTokens(waiting(t), &tokens))
	must(s.SetEnvironment(waiting(t), map[string]string{"K": "v"}))
	must(s.ApplyFlagSettings(waiting(t), map[string]any{"permissions": map[string]any{"defaultMode": "plan"}}))
	settings, err := s.Settings(waiting(t))
	if err != nil || settings.Applied.Model != "m2" || settings.Applied.Effort == nil || *settings.Applied.Effort != "medium" {
		t.Errorf("settings %+v, %v", settings.Applied, err)
	}
	must(s.SetModel(waiting(t), ""))
	must(s.SetMaxThinkingTokens(waiting(t), nil))
	settings, err = s.Settings(waiting(t))
	if err != nil || settings.Applied.Model != before.Applied.Model || before.Applied.Model == "m2" || settings.Applied.Effort != nil || !strings.Contains(string(settings.Effective), `"plan"`) {
		t.Errorf("settings %+v %s, %v", settings.Applied, settings.Effective, err)
	}
	must(s.SetPermissionMode(waiting(t), "bypassPermissions"))
	usage, err := s.ContextUsage(waiting(t))
	if err != nil || usage.TotalTokens == 0 || len(usage.Categories) == 0 {
		t.Errorf("usage %+v, %v", usage, err)
	}
	change, err := s.Query(waiting(t), "change")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := change.Result(waiting(t)); err != nil || !r.exists("a.txt") {
		t.Fatal("nothing was written", err)
	}
	for _, dry := range []bool{true, false} {
		out, err := s.RewindFiles(waiting(t), change.UUID(), dry)
		if err != nil || !out.CanRewind || !cmp.Equal(out.FilesChanged, []string{filepath.Join(r.work, "a.txt")}) || r.exists("a.txt") != dry {
			t.Errorf("rewind, dry %v: %+v, %v", dry, out, err)
		}
	}
	if gone, err := s.CancelMessage(waiting(t), turn.UUID()); gone || err != nil {
		t.Errorf("a message of the past was cancelled: %v, %v", gone, err)
	}

	r.write(".claude/commands/fresh.md", "Do it.")
	reloaded, err := s.ReloadPlugins(waiting(t))
	if err != nil || !slices.ContainsFunc(reloaded.Commands, func(c streamjson.CommandInfo) bool { return c.Name == "fresh" }) || len(reloaded.Agents) == 0 {
		t.Errorf("reload: %+v, %v", reloaded, err)
	}

	var refused *streamclient.ControlError
	if err := s.Control(waiting(t), "no_such", nil, nil); !errors.As(err, &refused) || refused.Subtype != "no_such" || refused.Code != streamjson.CodeUnsupportedRequest {
		t.Errorf("an unknown request: %v", err)
	}
	refused = nil
	if err := s.StopTask(waiting(t), "t1"); !errors.As(err, &refused) || refused.Message != "No task found with ID: t1" {
		t.Errorf("stop_task: %v", err)
	}
	if err := s.SetPermissionMode(waiting(t), "never"); !errors.As(err, &refused) {
		t.Errorf("a wrong mode: %v", err)
	}
}

// An interrupt ends the turn that runs, while a question of it waits, whose function
// hears of that; messages that wait are taken back, one by one or with it (checklist
// 34, 80; S034, S062).
func TestClientInterrupts(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{{"Bash", object{"command": "touch x"}}})
	asked, withdrawn := make(chan struct{}), make(chan error, 1)
	s := r.client(streamclient.Options{CanUseTool: func(ctx context.Context, _ streamjson.CanUseTool) (streamjson.Permission, error) {
		close(asked)
		<-ctx.Done()
		withdrawn <- context.Cause(ctx)
		return streamclient.Allow(), nil
	}})
	var turns []*streamclient.Turn
	for range 3 {
		turn, err := s.Query(waiting(t), "go")
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, turn)
	}
	<-asked
	if gone, err := s.CancelMessage(waiting(t), turns[1].UUID()); !gone || err != nil {
		t.Errorf("cancelled %v, %v", gone, err)
	}
	out, err := s.InterruptAll(waiting(t))
	if err != nil || !cmp.Equal(out.Cancelled, []string{turns[2].UUID()}) {
		t.Errorf("interrupt: %+v, %v", out, err)
	}
	if cause := <-withdrawn; cause == nil || strings.Contains(cause.Error(), "closed") {
		t.Errorf("the question ended with %v", cause)
	}
	result, err := turns[0].Result(waiting(t))
	if err != nil || result.Subtype != streamjson.ResultExecution || !result.IsError {
		t.Errorf("result %+v, %v", result, err)
	}
	for i, turn := range turns[1:] {
		if _, err := turn.Result(waiting(t)); !errors.Is(err, streamclient.ErrWithdrawn) {
			t.Errorf("message %d: %v", i+1, err)
		}
	}
	if r.exists("x") {
		t.Error("the call was made")
	}
}

// A task in the background ends in a turn that nobody asked for: its lines and its
// result are those of no message (S040; spec stream-json 11.8).
func TestClientBackground(t *testing.T) {
	t.Parallel()
	r := newRoom(t).tasking(map[string][]use{"begin": {behind("echo over")}})
	s := r.client(streamclient.Options{Args: freely})
	all := s.Lines(waiting(t))
	_, result := ran(t, s, "begin")
	if result.Result != "done" {
		t.Errorf("result %+v", result)
	}
	var started, ended string
	results := 0
	for l, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		switch m := l.Body.(type) {
		case *streamjson.TaskStarted:
			started = m.TaskID
		case *streamjson.TaskNotification:
			ended = m.TaskID
		case *streamjson.Result:
			results++
		}
		if results == 2 {
			break
		}
	}
	if started == "" || started != ended {
		t.Errorf("task %q started, %q ended", started, ended)
	}
	if _, result := ran(t, s, "again"); result.Result != "done" {
		t.Errorf("result %+v", result)
	}
}

// A program that gives no session says why, and one that cannot be started or is
// given up leaves no process (spec stream-json 3.8, F21).
func TestClientNoSession(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	var ended *streamclient.ExitError
	o := r.options(streamclient.Options{Args: []string{"--resume=11111111-1111-4111-8111-111111111111"}})
	_, err := streamclient.Start(waiting(t), o)
	var told *streamclient.ResultError
	if !errors.As(err, &told) || !errors.As(err, &ended) || ended.Code != 1 || !strings.Contains(told.Error(), "11111111-1111-4111-8111-111111111111") {
		t.Errorf("an unknown session: %v", err)
	}
	o.Args = []string{"--no-such-flag"}
	ended = nil
	if _, err := streamclient.Start(waiting(t), o); !errors.As(err, &ended) || ended.Code != 1 || !strings.Contains(ended.Stderr, "no-such-flag") || !errors.Is(err, streamclient.ErrLost) {
		t.Errorf("an unknown flag: %v", err)
	}
	o.Args, o.Command = nil, filepath.Join(r.work, "none")
	if _, err := streamclient.Start(waiting(t), o); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such program: %v", err)
	}
	o = r.options(streamclient.Options{})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := streamclient.Start(over, o); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is over: %v", err)
	}
	o.Initialize.SystemPrompt = json.RawMessage(`7`)
	var refused *streamclient.ControlError
	if _, err := streamclient.Start(waiting(t), o); !errors.As(err, &refused) || !strings.Contains(refused.Message, "systemPrompt") {
		t.Errorf("a refused handshake: %v", err)
	}
}
