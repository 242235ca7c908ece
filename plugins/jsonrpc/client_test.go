package jsonrpc_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/kerneltest"
	"dsh/kernel/llm"
	"dsh/plugins/agentloop"
	"dsh/plugins/core"
	"dsh/plugins/jsonrpc"
	"dsh/plugins/llmscripted"
	"dsh/plugins/sessionjsonl"
	"dsh/sdkproto"
	"dsh/sdkproto/client"
)

// clientScript is what the model of these tests does.
const clientScript = `
rules:
  - when: {text: hang}
    reply: [{text: "one two"}, {delay: 10m}]
  - when: {text: long}
    reply: [{delay: 300ms}, {text: "word ", repeat: 2000}] # the answer to the prompt comes first
  - when: {text: call, step: 1}
    reply: [{call: {tool: read, args: {}}}, {usage: {inputTokens: 3, outputTokens: 2}}]
  - reply: [{text: "said {{user}}"}, {usage: {inputTokens: 5, outputTokens: 4}}]
`

// attached is a server in a real composition, with the Go client at its wire.
type attached struct {
	*client.Client
	*stage
}

// attach boots a profile and initializes it, asking for x.
func attach(t *testing.T, home string, x sdkproto.InitializeExtensions, limits client.Limits) attached {
	t.Helper()
	return attachWith(t, home, client.Options{Initialize: sdkproto.InitializeParams{InitializeExtensions: x}, Limits: limits}, "")
}

// attachWith is attach with further rows.
func attachWith(t *testing.T, home string, o client.Options, rows string, plugins ...kernel.Plugin) attached {
	t.Helper()
	script := filepath.Join(t.TempDir(), "model.yaml")
	if err := os.WriteFile(script, []byte(clientScript), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &stage{}
	booted := kerneltest.Boot(t, kerneltest.Options{
		Profile: "t", Home: home,
		FS: fstest.MapFS{"t.yaml": {Data: []byte(`
plugins:
  rpc: {use: jsonrpc}
  core: {use: core}
  store: {use: session-jsonl}
  model: {use: llm-scripted, config: {script: ` + quote(script) + `}}
  loop: {use: agentloop, config: {verifyRequests: true}}
  stage: {use: stage}
` + rows)}},
		Plugins: append(plugins, core.Plugin, sessionjsonl.Plugin, agentloop.Plugin, llmscripted.Plugin, jsonrpc.Plugin, s.row()),
		Log:     slog.New(slog.DiscardHandler),
	})
	// The far end of the output is this process's own, and nobody closes it: the
	// client does not wait for that.
	o.Limits.Shutdown, o.Limits.Exit = hang, 20*time.Millisecond
	o.Initialize.CWD, o.Initialize.Provider, o.Initialize.Model = "/w", "scripted", "m"
	c, err := client.AttachWith(t.Context(), booted.Out, booted.In, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("close: %v", err)
		}
		if code := booted.WaitExit(t); code != 0 {
			t.Errorf("exit %d", code)
		}
	})
	return attached{c, s}
}

func everything() sdkproto.InitializeExtensions {
	return sdkproto.InitializeExtensions{
		ProtocolVersion: sdkproto.ProtocolVersion,
		Capabilities: &sdkproto.ClientCapabilities{
			Notifications: []string{sdkproto.NotifyPromptFinished, sdkproto.NotifyUsage, sdkproto.NotifyTreeStatus},
		},
	}
}

func finished(t *testing.T, r *client.Run, err error) client.Result {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	result, err := r.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// streaming waits until a run's model has said something.
func streaming(t *testing.T, r *client.Run) {
	t.Helper()
	for n, err := range r.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := n.TextDelta(); ok {
			return
		}
	}
	t.Fatal("the run ended")
}

// Spec jsonrpc 13.3: the client gets what it asked for, each at its place.
func TestClientReports(t *testing.T) {
	c := attach(t, t.TempDir(), everything(), client.Limits{})
	for _, method := range []string{
		sdkproto.MethodSessionCancel, sdkproto.MethodSessionClose, sdkproto.MethodSessionList, sdkproto.MethodSessionResume,
		sdkproto.MethodSessionEvents, sdkproto.MethodSessionWait, sdkproto.MethodSessionSteer, sdkproto.MethodPing, sdkproto.NotifyHeartbeat,
	} {
		if !c.Offers(method) {
			t.Errorf("%s is not offered", method)
		}
	}
	if c.Offer.Runtime.PID != os.Getpid() {
		t.Errorf("runtime %+v", c.Offer.Runtime)
	}
	if at, err := c.Ping(t.Context()); err != nil || time.Since(at).Abs() > time.Hour {
		t.Errorf("ping: %v, %v", at, err)
	}
	run, err := c.Session("s").RunWith(t.Context(), client.RunOptions{Route: &sdkproto.RouteOptions{Model: "other"}, Tree: true}, sdkproto.Text("call"))
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	var totals []sdkproto.Usage
	for n, err := range run.Events() {
		switch {
		case err != nil:
			t.Fatal(err)
		case n.Prompt != nil:
			order = append(order, "finished")
		case n.Usage != nil:
			order = append(order, "usage")
			totals = append(totals, n.Usage.Totals)
		case n.Tree != nil:
			order = append(order, "tree "+string(n.Tree.Status))
		case n.Status != "":
			order = append(order, string(n.Status))
		case n.Event.Type == sdkproto.TypeTurnEnd, n.Event.Type == sdkproto.TypeAssistantMessage:
			order = append(order, n.Event.Type)
		case n.Event.Type == sdkproto.TypeRequestHeader && !strings.Contains(string(n.Event.Data), `"model":"other"`):
			t.Errorf("the route is that of %s", n.Event.Data)
		}
	}
	want := []string{"running", "tree running", "assistant/message", "usage", "assistant/message", "usage", "turn/end", "finished", "idle", "tree idle"}
	if diff := gocmp.Diff(want, order); diff != "" {
		t.Error(diff)
	}
	if diff := gocmp.Diff([]sdkproto.Usage{{InputTokens: 3, OutputTokens: 2}, {InputTokens: 8, OutputTokens: 6}}, totals); diff != "" {
		t.Error(diff)
	}
	result := finished(t, run, nil)
	usage := sdkproto.Usage{InputTokens: 8, OutputTokens: 6}
	prompt := sdkproto.PromptFinished{
		SessionID: "s", MessageID: run.MessageID(), Turn: 1, Reason: sdkproto.TurnEndReason{Kind: sdkproto.EndCompleted}, FinalText: "said call", Usage: &usage,
	}
	if diff := gocmp.Diff(client.Result{
		MessageID: run.MessageID(), FinalText: "said call", FinishReason: sdkproto.EndCompleted, Usage: usage, TreeUsage: usage, Prompt: &prompt,
	}, result); diff != "" {
		t.Error(diff)
	}
	if end, err := c.Session("s").Wait(t.Context(), run.MessageID()); err != nil || gocmp.Diff(prompt, end) != "" {
		t.Errorf("waited for %+v, %v", end, err)
	}
}

// Spec jsonrpc 13.3; decision D23: sessions are steered, cancelled, closed,
// found again and resumed.
func TestClientManages(t *testing.T) {
	ctx := t.Context()
	c := attach(t, t.TempDir(), everything(), client.Limits{})
	s := c.Session("s")
	if _, err := s.Resume(ctx); err == nil {
		t.Error("resumed what was never there")
	} else if d, _ := client.Details(err); d.Code != sdkproto.ErrSessionNotFound || d.Retryable {
		t.Errorf("details %+v of %v", d, err)
	}
	if ok, err := s.Cancel(ctx, ""); ok || err != nil {
		t.Errorf("cancelled nothing: %v, %v", ok, err)
	}

	run, err := s.Run(ctx, sdkproto.Text("hang"))
	if err != nil {
		t.Fatal(err)
	}
	streaming(t, run)
	queued, err := s.Prompt(ctx, sdkproto.Text("dropped"))
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := s.Cancel(ctx, queued); !ok || err != nil {
		t.Errorf("cancel in the queue: %v, %v", ok, err)
	}
	if end, err := s.Wait(ctx, queued); err != nil || end.Reason.Kind != sdkproto.EndCanceled {
		t.Errorf("dropped: %+v, %v", end, err)
	}
	if ok, err := s.Cancel(ctx, ""); !ok || err != nil {
		t.Errorf("cancel: %v, %v", ok, err)
	}
	if result := finished(t, run, nil); result.FinishReason != sdkproto.EndAborted || result.Prompt == nil || result.Prompt.Reason.Reason.Kind != sdkproto.AbortUser {
		t.Errorf("cancelled: %+v", result)
	}

	keyed := sdkproto.PromptExtensions{IdempotencyKey: "k"}
	first, err := s.PromptWith(ctx, keyed, sdkproto.Text("once"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.PromptWith(ctx, keyed, sdkproto.Text("once")); again != first || err != nil {
		t.Errorf("repeated: %s, %v, want %s", again, err, first)
	}
	if end, err := s.Wait(ctx, first); err != nil || end.FinalText != "said once" {
		t.Errorf("once: %+v, %v", end, err)
	}
	steered, err := s.Steer(ctx, sdkproto.Text("left"))
	if err != nil {
		t.Fatal(err)
	}
	if end, err := s.Wait(ctx, steered); err != nil || end.FinalText != "said left" {
		t.Errorf("steered: %+v, %v", end, err)
	}

	for _, id := range []string{"b", "c"} {
		run, err := c.Session(id).Run(ctx, sdkproto.Text("x"))
		finished(t, run, err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	got := map[string]sdkproto.Status{}
	for info, err := range c.Sessions(ctx, sdkproto.ListParams{Limit: 1, CWD: "/w"}) {
		if err != nil {
			t.Fatal(err)
		}
		got[info.SessionID] = info.Status
	}
	if diff := gocmp.Diff(map[string]sdkproto.Status{"s": "", "b": "idle", "c": "idle"}, got); diff != "" {
		t.Error(diff)
	}
	if at, err := s.Resume(ctx); err != nil || at.Status != sdkproto.StatusIdle || at.LastSeq < 1 {
		t.Errorf("resumed at %+v, %v", at, err)
	}
}

// Spec jsonrpc 13.3: whoever is too slow reads the rest from the store; Follow
// does so by itself, and goes from the store to what comes without a seam.
func TestClientHeals(t *testing.T) {
	home := t.TempDir()
	c := attach(t, home, everything(), client.Limits{Queue: 16 << 10})
	s := c.Session("s")
	run, err := s.Run(t.Context(), sdkproto.Text("first"))
	finished(t, run, err)

	// This reader stops behind the first event until the whole turn is over.
	var follow []int64
	turns := 0
	for e, err := range s.Follow(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if len(follow) == 0 {
			if run, err = s.Run(t.Context(), sdkproto.Text("long")); err != nil {
				t.Fatal(err)
			}
			events := run.Events()
			result := finished(t, run, nil)
			if !strings.HasPrefix(result.FinalText, "word word ") {
				t.Errorf("result %+v", result)
			}
			if e := missed(t, s, events); e == 0 {
				t.Error("nothing was missed")
			}
		}
		follow = append(follow, e.Seq)
		if e.Type == sdkproto.TypeTurnEnd {
			if turns++; turns == 2 {
				break
			}
		}
	}
	log := logged(t, home, "s")
	for i, seq := range follow {
		if seq != int64(i) {
			t.Fatalf("event %d is number %d", i, seq)
		}
	}
	if len(follow) != len(log) {
		t.Errorf("followed %d events of %d", len(follow), len(log))
	}
}

// missed reads a run that breaks off, makes up for the rest, and gives how many
// events that were.
func missed(t *testing.T, s *client.Session, events func(func(client.Notification, error) bool)) (healed int) {
	t.Helper()
	next := int64(0)
	for n, err := range events {
		if errors.Is(err, client.ErrMissed) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n.Event != nil {
			next = n.Event.Seq + 1
		}
	}
	last := ""
	for e, err := range s.Events(t.Context(), next) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != next {
			t.Fatalf("number %d behind %d", e.Seq, next-1)
		}
		next++
		healed++
		last = e.Type
	}
	if healed > 0 && last != sdkproto.TypeTurnEnd {
		t.Errorf("the last is %s", last)
	}
	return healed
}

// Spec jsonrpc 13.3: without chunks the wire has none, the log and a replay
// have.
func TestClientWithoutChunks(t *testing.T) {
	x := everything()
	x.Capabilities.Chunks = new(false)
	c := attach(t, t.TempDir(), x, client.Limits{})
	isChunk := func(e *sdkproto.Event) bool { return e != nil && e.Type == sdkproto.TypeAssistantChunk }
	run, err := c.Session("s").Run(t.Context(), sdkproto.Text("x"))
	if err != nil {
		t.Fatal(err)
	}
	for n, err := range run.Events() {
		if err != nil || isChunk(n.Event) {
			t.Errorf("got %s, %v", n.Params, err)
		}
	}
	if result := finished(t, run, nil); result.FinalText != "said x" {
		t.Errorf("result %+v", result)
	}
	types := []string{}
	for e, err := range c.Session("s").Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, e.Type)
	}
	if !slices.Contains(types, sdkproto.TypeAssistantChunk) {
		t.Errorf("stored are %v", types)
	}
}

// Spec jsonrpc 8.3, 13.3: a run for the tree outlasts its session's idle.
func TestClientTree(t *testing.T) {
	c := attach(t, t.TempDir(), everything(), client.Limits{})
	run, err := c.Session("root").Run(t.Context(), sdkproto.Text("x"))
	finished(t, run, err)
	child, err := c.agents.Open(t.Context(), agent.Spec{ID: "child", CWD: "/w", Route: llm.Route{Provider: "scripted", Model: "m"}, Parent: "root", Depth: 1}, agent.OpenNew)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := child.Send(t.Context(), []sdkproto.Block{sdkproto.Text("hang")}, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn); err != nil {
		t.Fatal(err)
	}
	run, err = c.Session("root").RunWith(t.Context(), client.RunOptions{Tree: true}, sdkproto.Text("y"))
	if err != nil {
		t.Fatal(err)
	}
	var idle []string
	for n, err := range run.Events() {
		switch {
		case err != nil:
			t.Fatal(err)
		case n.Status == sdkproto.StatusIdle:
			idle = append(idle, n.SessionID)
			if n.SessionID == "root" {
				child.Cancel(agent.Cause{Kind: sdkproto.AbortParent}, "")
			}
		case n.Tree != nil && n.Tree.Status == sdkproto.StatusIdle:
			idle = append(idle, "tree")
		}
	}
	if diff := gocmp.Diff([]string{"root", "child", "tree"}, idle); diff != "" {
		t.Error(diff)
	}
	if result := finished(t, run, nil); result.FinalText != "said y" {
		t.Errorf("result %+v", result)
	}
}

// Spec jsonrpc 13.3: the watch over silence hears the server's heartbeats while
// a turn says nothing.
func TestClientHeartbeat(t *testing.T) {
	x := everything()
	x.Capabilities.HeartbeatSeconds = 1
	c := attach(t, t.TempDir(), x, client.Limits{Silence: 20 * time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	all := c.Notifications(ctx)
	run, err := c.Session("s").Run(t.Context(), sdkproto.Text("hang"))
	if err != nil {
		t.Fatal(err)
	}
	beats := 0
	for n, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		if n.Clock == nil {
			continue
		}
		if n.SessionID != "" || time.Since(time.UnixMilli(n.Clock.Time)).Abs() > time.Hour {
			t.Errorf("got %s", n.Params)
		}
		if beats++; beats == 2 {
			break
		}
	}
	if ok, err := c.Session("s").Cancel(t.Context(), run.MessageID()); !ok || err != nil {
		t.Errorf("cancel: %v, %v", ok, err)
	}
	if result := finished(t, run, nil); result.FinishReason != sdkproto.EndAborted {
		t.Errorf("result %+v", result)
	}
}

// Decision D21: a client that asked for nothing knows nothing of extensions, and
// may use their methods all the same.
func TestClientPlain(t *testing.T) {
	c := attach(t, t.TempDir(), sdkproto.InitializeExtensions{}, client.Limits{})
	if c.Offer != nil {
		t.Errorf("offered %+v", c.Offer)
	}
	run, err := c.Session("s").Run(t.Context(), sdkproto.Text("x"))
	if err != nil {
		t.Fatal(err)
	}
	for n, err := range run.Events() {
		if err != nil || n.Prompt != nil || n.Usage != nil || n.Tree != nil {
			t.Errorf("got %s, %v", n.Method, err)
		}
	}
	if result := finished(t, run, nil); result.FinalText != "said x" || result.Prompt != nil {
		t.Errorf("result %+v", result)
	}
	if end, err := c.Session("s").Wait(t.Context(), run.MessageID()); err != nil || end.FinalText != "said x" {
		t.Errorf("waited for %+v, %v", end, err)
	}
	if _, err := c.Session("s").RunWith(t.Context(), client.RunOptions{Tree: true}); err == nil {
		t.Error("a run for the tree was begun")
	}
	if _, err := c.Session("none").Resume(t.Context()); err == nil {
		t.Error("resumed what was never there")
	} else if _, ok := client.Details(err); ok {
		t.Errorf("details of %v", err)
	}
}
