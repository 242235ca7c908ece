package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto"
	"dsh/sdkproto/client"
)

// offered is the answer to initialize of a server that has these extensions.
func offered(names ...string) string {
	list := `["` + strings.Join(names, `","`) + `"]`
	return strings.TrimSuffix(serverInfo, "}") + `,"protocolVersion":1,"capabilities":{"methods":["initialize"],"notifications":` + list + `},"runtime":{"name":"dsh","version":"1","pid":9}}`
}

// asks is a handshake that asks for extensions.
func asks(notifications ...string) sdkproto.InitializeParams {
	return sdkproto.InitializeParams{CWD: "/w", Provider: "p", Model: "m", InitializeExtensions: sdkproto.InitializeExtensions{
		ProtocolVersion: sdkproto.ProtocolVersion,
		Capabilities:    &sdkproto.ClientCapabilities{Notifications: notifications},
	}}
}

// greeted is attach with a handshake of one's own. frames gets what the client
// sends.
func greeted(t *testing.T, init sdkproto.InitializeParams, limits client.Limits, welcome string, frames chan<- string, handle func(*peer, request) bool) (*client.Client, error) {
	t.Helper()
	w := newWire(func(p *peer) {
		defer p.out.Close()
		for {
			r, ok := p.next()
			if !ok {
				return
			}
			if frames != nil {
				frames <- r.raw
			}
			switch {
			case r.Method == sdkproto.MethodInitialize:
				p.answer(r, welcome)
			case r.Method == sdkproto.MethodShutdown:
				p.answer(r, `{}`)
				return
			case !handle(p, r):
				return
			}
		}
	})
	c, err := client.Attach(t.Context(), w.Reader, w.WriteCloser, init, limits)
	t.Cleanup(func() {
		if c != nil {
			if err := c.Close(deadline(t)); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		<-w.done
	})
	return c, err
}

// TestPlainFrames: who asks for nothing sends the plain protocol, byte for byte
// (spec jsonrpc 13.3).
func TestPlainFrames(t *testing.T) {
	frames := make(chan string, 8)
	init := sdkproto.InitializeParams{CWD: "/w", Provider: "p", Model: "m"}
	c, err := greeted(t, init, client.Limits{}, serverInfo, frames, func(p *peer, r request) bool {
		p.send(receipt("S", "M"), status("S", "idle"))
		p.answer(r, `{"messageId":"M"}`)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Session("S").Prompt(t.Context(), sdkproto.Text("a")); err != nil {
		t.Error(err)
	}
	run, err := c.Session("S").Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(deadline(t)); err != nil {
		t.Error(err)
	}
	if err := c.Close(deadline(t)); err != nil {
		t.Error(err)
	}
	want := []string{
		`{"jsonrpc":"2.0","id":"req_1","method":"initialize","params":{"cwd":"/w","provider":"p","model":"m"}}`,
		`{"jsonrpc":"2.0","id":"req_2","method":"session/prompt","params":{"sessionId":"S","contentBlocks":[{"type":"text","text":"a"}]}}`,
		`{"jsonrpc":"2.0","id":"req_3","method":"session/prompt","params":{"sessionId":"S","contentBlocks":[]}}`,
		`{"jsonrpc":"2.0","id":"req_4","method":"shutdown","params":{}}`,
	}
	for i, want := range want {
		if got := <-frames; got != want {
			t.Errorf("frame %d\ngot  %s\nwant %s", i, got, want)
		}
	}
	if len(frames) > 0 {
		t.Errorf("one more: %s", <-frames)
	}
}

// TestOffer: what a server says of itself, when it was asked.
func TestOffer(t *testing.T) {
	plain := sdkproto.InitializeParams{CWD: "/w", Provider: "p", Model: "m"}
	with := func(members string) string { return strings.TrimSuffix(serverInfo, "}") + members + "}" }
	tests := []struct {
		name    string
		init    sdkproto.InitializeParams
		welcome string
		want    *sdkproto.InitializeAdditions
	}{
		{"all of it", asks(), offered("session.usage"), &sdkproto.InitializeAdditions{
			ProtocolVersion: 1,
			Capabilities:    sdkproto.ServerCapabilities{Methods: []string{"initialize"}, Notifications: []string{"session.usage"}},
			Runtime:         sdkproto.RuntimeInfo{Name: "dsh", Version: "1", PID: 9},
		}},
		{"not asked", plain, offered("session.usage"), nil},
		{"a server that knows nothing of it", asks(), serverInfo, nil},
		{"a shape of somebody else", asks(), with(`,"protocolVersion":1,"capabilities":["x"]`), nil},
		{"a version of somebody else", asks(), with(`,"protocolVersion":"2025-01-01","capabilities":{"methods":["x"]}`), nil},
		{"nothing listed", asks(), with(`,"protocolVersion":1,"capabilities":{}`), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := greeted(t, tt.init, client.Limits{}, tt.welcome, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, c.Offer); diff != "" {
				t.Errorf("offer (-want +got):\n%s", diff)
			}
			if c.Offers("session.usage") != (tt.want != nil) || c.Offers("initialize") != (tt.want != nil) || c.Offers("nope") {
				t.Error("Offers says something else")
			}
		})
	}
}

// TestExtensionFrames: each method sends the frame of spec jsonrpc 13.3 and
// reads the answer.
func TestExtensionFrames(t *testing.T) {
	ctx := t.Context()
	chunks, answer := false, ""
	frames := make(chan string, 1)
	init := asks("session.usage")
	init.Capabilities.Chunks, init.Capabilities.HeartbeatSeconds = &chunks, 7
	c, err := greeted(t, init, client.Limits{}, serverInfo, frames, func(p *peer, r request) bool {
		p.answer(r, answer)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	const opening = `{"jsonrpc":"2.0","id":"req_1","method":"initialize","params":{"cwd":"/w","provider":"p","model":"m","protocolVersion":1,"capabilities":{"notifications":["session.usage"],"chunks":false,"heartbeatSeconds":7}}}`
	if got := <-frames; got != opening {
		t.Errorf("got  %s\nwant %s", got, opening)
	}
	s := c.Session("S")
	tests := []struct {
		method, params, answer string
		call                   func() (any, error)
		want                   any
	}{
		{"session/cancel", `{"sessionId":"S"}`, `{"cancelled":true}`, func() (any, error) { return s.Cancel(ctx, "") }, true},
		{"session/cancel", `{"sessionId":"S","messageId":"M"}`, `{"cancelled":false}`, func() (any, error) { return s.Cancel(ctx, "M") }, false},
		{"session/close", `{"sessionId":"S"}`, `{}`, func() (any, error) { return nil, s.Close(ctx) }, nil},
		{"session/resume", `{"sessionId":"S"}`, `{"lastSeq":4,"status":"idle"}`, func() (any, error) { return s.Resume(ctx) }, sdkproto.ResumeResult{LastSeq: 4, Status: "idle"}},
		{"session/steer", `{"sessionId":"S","contentBlocks":[{"type":"text","text":"x"}]}`, `{"messageId":"M"}`, func() (any, error) { return s.Steer(ctx, sdkproto.Text("x")) }, "M"},
		{"session/wait", `{"sessionId":"S","messageId":"M","timeoutMs":30000}`, `{"finished":true,"sessionId":"S","messageId":"M","turn":2,"reason":{"kind":"completed"},"finalText":"x"}`,
			func() (any, error) { return s.Wait(ctx, "M") },
			sdkproto.PromptFinished{SessionID: "S", MessageID: "M", Turn: 2, Reason: sdkproto.TurnEndReason{Kind: "completed"}, FinalText: "x"}},
		{"ping", `{}`, `{"time":1796028709559}`, func() (any, error) { at, err := c.Ping(ctx); return at.UnixMilli(), err }, int64(1796028709559)},
		{"session/prompt", `{"sessionId":"S","contentBlocks":[],"options":{"model":"n"},"idempotencyKey":"k"}`, `{"messageId":"M"}`, func() (any, error) {
			return s.PromptWith(ctx, sdkproto.PromptExtensions{Options: &sdkproto.RouteOptions{Model: "n"}, IdempotencyKey: "k"})
		}, "M"},
		{"session/prompt", `{"sessionId":"S","contentBlocks":[],"options":{"provider":"q"}}`, `{"messageId":"M"}`, func() (any, error) {
			run, err := s.RunWith(ctx, client.RunOptions{Route: &sdkproto.RouteOptions{Provider: "q"}})
			if err != nil {
				return nil, err
			}
			return run.MessageID(), nil
		}, "M"},
	}
	for i, tt := range tests {
		t.Run(tt.method, func(t *testing.T) {
			answer = tt.answer
			got, err := tt.call()
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			want := fmt.Sprintf(`{"jsonrpc":"2.0","id":"req_%d","method":%q,"params":%s}`, i+2, tt.method, tt.params)
			if got := <-frames; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	answer = `{}`
	if _, err := s.Steer(ctx); !errors.Is(err, client.ErrProtocol) {
		t.Errorf("steer without an id: %v", err)
	}
	<-frames
}

// TestNotOffered: one clear error for what a server does not have, whichever way
// that shows (spec jsonrpc 1.3, 13.3), and no other error taken for it.
func TestNotOffered(t *testing.T) {
	methods := map[string]func(context.Context, *client.Client) error{
		"session/cancel": func(ctx context.Context, c *client.Client) error {
			_, err := c.Session("S").Cancel(ctx, "")
			return err
		},
		"session/close":  func(ctx context.Context, c *client.Client) error { return c.Session("S").Close(ctx) },
		"session/resume": func(ctx context.Context, c *client.Client) error { _, err := c.Session("S").Resume(ctx); return err },
		"session/steer":  func(ctx context.Context, c *client.Client) error { _, err := c.Session("S").Steer(ctx); return err },
		"session/wait":   func(ctx context.Context, c *client.Client) error { _, err := c.Session("S").Wait(ctx, "M"); return err },
		"ping":           func(ctx context.Context, c *client.Client) error { _, err := c.Ping(ctx); return err },
		"session/list": func(ctx context.Context, c *client.Client) error {
			return last(c.Sessions(ctx, sdkproto.ListParams{}))
		},
		"session/events": func(ctx context.Context, c *client.Client) error { return last(c.Session("S").Events(ctx, 0)) },
	}
	tests := []struct {
		name, welcome string
		// code and message are the answer, "" if there must be no request.
		code    int
		message string
		want    bool
		text    string
	}{
		{"lists others", offered("session.usage"), 0, "", true, ": server does not offer it: deepseek-harness-sdk-runtime 0.0.1 lists initialize, session.usage"},
		{"upstream", serverInfo, -32603, "unknown DeepSeek Harness SDK runtime method: ", true, ": server does not offer it: unknown DeepSeek Harness SDK runtime method: "},
		{"by its code", serverInfo, -32601, "what is ", true, ": server does not offer it: what is "},
		{"fails", serverInfo, -32603, "disk full at ", false, ": disk full at "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := greeted(t, asks(), client.Limits{}, tt.welcome, nil, func(p *peer, r request) bool {
				if tt.message == "" {
					t.Errorf("%s was asked for", r.Method)
				}
				p.refuse(r, tt.code, tt.message+r.Method)
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
			for method, call := range methods {
				err := call(t.Context(), c)
				if errors.Is(err, client.ErrNotOffered) != tt.want || err == nil || !strings.HasPrefix(err.Error(), method+tt.text) {
					t.Errorf("%s: %v", method, err)
				}
				var refusal *sdkproto.RPCError
				if errors.As(err, &refusal) != (tt.message != "") {
					t.Errorf("%s: %v and the server's own error do not go together", method, err)
				}
			}
		})
	}
}

// last is the error a sequence ends with.
func last[T any](seq func(func(T, error) bool)) (err error) {
	for _, err = range seq {
	}
	return err
}

// TestDetails: error.data is there when the server sent it.
func TestDetails(t *testing.T) {
	data := `,"data":{"code":"SESSION_IN_USE","retryable":true,"field":"sessionId"}`
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"in use"%s}}`, r.ID, data))
		return true
	})
	_, err := c.Session("S").Run(t.Context())
	d, ok := client.Details(err)
	if want := (sdkproto.ErrorData{Code: "SESSION_IN_USE", Retryable: true, Field: "sessionId"}); !ok || d != want {
		t.Errorf("details %+v, %v of %v", d, ok, err)
	}
	data = ""
	if d, ok := client.Details(c.Session("S").Close(t.Context())); ok || d != (sdkproto.ErrorData{}) {
		t.Errorf("details %+v of an error without", d)
	}
	if _, ok := client.Details(client.ErrClosed); ok {
		t.Error("details of an error of the client")
	}
	if _, ok := client.Details(nil); ok {
		t.Error("details of no error")
	}
}

// TestWaitLong: a wait goes on for as long as the server does, in requests of a
// limited time.
func TestWaitLong(t *testing.T) {
	tests := []struct {
		name string
		// late is when the answer comes, in seconds; requests counts from 1.
		late   func(requests int) (seconds int, answer string)
		err    error
		total  int // seconds
		number int // requests
	}{
		{"after two time-outs", func(n int) (int, string) {
			if n < 3 {
				return 30, `{"finished":false}`
			}
			return 5, `{"finished":true,"messageId":"M"}`
		}, nil, 65, 3},
		{"a server that ends", func(n int) (int, string) { return 5, `{"finished":false}` }, client.ErrLost, 5, 1},
		{"a caller that gives up", func(n int) (int, string) { return 30, `{"finished":false}` }, context.DeadlineExceeded, 100, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n atomic.Int32
				c := attach(t, client.Limits{}, func(p *peer, r request) bool {
					seconds, answer := tt.late(int(n.Add(1)))
					time.Sleep(time.Duration(seconds) * time.Second)
					p.answer(r, answer)
					return true
				})
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
				defer cancel()
				begin := time.Now()
				end, err := c.Session("S").Wait(ctx, "M")
				if !errors.Is(err, tt.err) || (err == nil) != (end.MessageID == "M") {
					t.Errorf("got %+v, %v", end, err)
				}
				if took := time.Since(begin); took != time.Duration(tt.total)*time.Second || int(n.Load()) != tt.number {
					t.Errorf("%d requests in %s, want %d in %d s", n.Load(), took, tt.number, tt.total)
				}
			})
		})
	}
}

// TestWaitWhileClosing: Close ends a wait with its own error.
func TestWaitWhileClosing(t *testing.T) {
	waiting := make(chan struct{})
	w := newWire(func(p *peer) {
		r, _ := p.next()
		p.answer(r, serverInfo)
		r, _ = p.next()
		close(waiting)
		end, _ := p.next()
		p.answer(r, `{"finished":false}`) // as a server does that ends
		p.answer(end, `{}`)
	})
	c, err := client.Attach(t.Context(), w.Reader, w.WriteCloser, sdkproto.InitializeParams{}, client.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := c.Session("S").Wait(deadline(t), "M")
		got <- err
	}()
	<-waiting
	if err := c.Close(deadline(t)); err != nil {
		t.Error(err)
	}
	if err := <-got; !errors.Is(err, client.ErrClosed) {
		t.Errorf("wait: %v", err)
	}
	<-w.done
}

// TestSessions: the list is asked for page by page, as it is read.
func TestSessions(t *testing.T) {
	pages := map[string]string{
		"":   `{"sessions":[{"sessionId":"a","createdAt":3,"cwd":"/w","status":"idle"},{"sessionId":"b","createdAt":2}],"nextCursor":"c1"}`,
		"c1": `{"sessions":[],"nextCursor":"c2"}`,
		"c2": `{"sessions":[{"sessionId":"c","createdAt":1,"parentSessionId":"a"}]}`,
	}
	frames := make(chan string, 8)
	c, err := greeted(t, asks(), client.Limits{}, serverInfo, frames, func(p *peer, r request) bool {
		_, cursor, _ := strings.Cut(string(r.Params), `"cursor":"`)
		p.answer(r, pages[strings.TrimSuffix(cursor, `"}`)])
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	<-frames
	all := c.Sessions(t.Context(), sdkproto.ListParams{CWD: "/w", Limit: 2})
	var got []sdkproto.SessionInfo
	for s, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, s)
	}
	want := []sdkproto.SessionInfo{{SessionID: "a", CreatedAt: 3, CWD: "/w", Status: "idle"}, {SessionID: "b", CreatedAt: 2}, {SessionID: "c", CreatedAt: 1, ParentSessionID: "a"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
	for i, params := range []string{`{"cwd":"/w","limit":2}`, `{"cwd":"/w","limit":2,"cursor":"c1"}`, `{"cwd":"/w","limit":2,"cursor":"c2"}`} {
		if frame, want := <-frames, fmt.Sprintf(`{"jsonrpc":"2.0","id":"req_%d","method":"session/list","params":%s}`, i+2, params); frame != want {
			t.Errorf("got  %s\nwant %s", frame, want)
		}
	}
	for range all { // begins anew, and asks for no more than is read
		break
	}
	if <-frames; len(frames) > 0 {
		t.Errorf("one page too many: %s", <-frames)
	}
	pages["c2"] = `{"sessions":[],"nextCursor":"c2"}`
	if err := last(all); !errors.Is(err, client.ErrProtocol) {
		t.Errorf("a cursor in a circle: %v", err)
	}
}

// TestTypedNotifications: what comes on request has its own types (spec jsonrpc
// 13.3); what does not fit stays readable.
func TestTypedNotifications(t *testing.T) {
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		for _, l := range []string{
			`"session.prompt.finished","params":{"sessionId":"S","messageId":"M","turn":1,"reason":{"kind":"completed"},"finalText":"hi","usage":{"inputTokens":1,"outputTokens":2}}`,
			`"session.usage","params":{"sessionId":"S","turn":1,"usage":{"inputTokens":1,"outputTokens":2},"totals":{"inputTokens":3,"outputTokens":4}}`,
			`"session.tree-status","params":{"sessionId":"S","status":"running"}`,
			`"runtime.heartbeat","params":{"time":5}`,
			`"session.usage","params":{"sessionId":"S","turn":"one"}`,
			`"session.prompt.finished","params":{"sessionId":"S"}`,
		} {
			p.send(`{"jsonrpc":"2.0","method":` + l + `}`)
		}
		p.answer(r, `{}`)
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	all := c.Notifications(ctx)
	if err := c.Call(t.Context(), "x", nil, nil); err != nil {
		t.Fatal(err)
	}
	want := []client.Notification{
		{SessionID: "S", Prompt: &sdkproto.PromptFinished{SessionID: "S", MessageID: "M", Turn: 1, Reason: sdkproto.TurnEndReason{Kind: "completed"}, FinalText: "hi", Usage: &sdkproto.Usage{InputTokens: 1, OutputTokens: 2}}},
		{SessionID: "S", Usage: &sdkproto.UsageReport{SessionID: "S", Turn: 1, Usage: sdkproto.Usage{InputTokens: 1, OutputTokens: 2}, Totals: sdkproto.Usage{InputTokens: 3, OutputTokens: 4}}},
		{SessionID: "S", Tree: &sdkproto.TreeStatus{SessionID: "S", Status: "running"}},
		{Clock: &sdkproto.Clock{Time: 5}},
		{SessionID: "S"},
		{SessionID: "S"},
	}
	var got []client.Notification
	for n, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		n.Method, n.Params = "", nil
		if got = append(got, n); len(got) == len(want) {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("notifications (-want +got):\n%s", diff)
	}
}

func promptFinished(session, message, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"session.prompt.finished","params":{"sessionId":%q,"messageId":%q,"turn":1,"reason":{"kind":"completed"},"finalText":%q}}`, session, message, text)
}

func treeStatus(session, s string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"session.tree-status","params":{"sessionId":%q,"status":%q}}`, session, s)
}

// TestTreeRun: a run for the whole tree ends when all of it is idle (spec
// jsonrpc 8.3, 13.3), a plain one with the session.
func TestTreeRun(t *testing.T) {
	script := []string{
		receipt("S", "M"),
		treeStatus("S", "idle"), // that of an older subagent, ended just before the session begins
		status("S", "running"), treeStatus("S", "running"), started("S", "S1"), status("S1", "running"), answered("S", "begun"), turnEnd("S", completed), status("S", "idle"),
		treeStatus("T", "idle"), answered("S1", "sub"), status("S1", "idle"),
		status("S", "running"), answered("S", "done"), turnEnd("S", completed), status("S", "idle"), treeStatus("S", "idle"),
		answered("S", "later"), status("S", "idle"), treeStatus("S", "idle"),
	}
	short := []string{"S agent/inbox/spliced", "S session.tree-status", "S running", "S session.tree-status", "S started S1", "S1 running", "S assistant/message", "S turn/end", "S idle"}
	usage := func(n int64) sdkproto.Usage { return sdkproto.Usage{InputTokens: 10 * n, OutputTokens: 3 * n} }
	tests := []struct {
		name   string
		tree   bool
		events []string
		want   client.Result
	}{
		{"plain", false, short, client.Result{MessageID: "M", FinalText: "begun", FinishReason: "completed", Usage: usage(1), TreeUsage: usage(1)}},
		{"tree", true, append(short[:len(short):len(short)], "S1 assistant/message", "S1 idle", "S running", "S assistant/message", "S turn/end", "S idle", "S session.tree-status"),
			client.Result{MessageID: "M", FinalText: "done", FinishReason: "completed", Usage: usage(2), TreeUsage: usage(3)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := greeted(t, asks(sdkproto.NotifyTreeStatus), client.Limits{}, offered(sdkproto.NotifyTreeStatus), nil, func(p *peer, r request) bool {
				p.send(script...)
				p.answer(r, `{"messageId":"M"}`)
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
			run, err := c.Session("S").RunWith(t.Context(), client.RunOptions{Tree: tt.tree})
			if err != nil {
				t.Fatal(err)
			}
			events, err := names(run.Events())
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tt.events, events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			result, err := run.Result(deadline(t))
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tt.want, result); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTreeRunRefused: a run that would never end is not begun.
func TestTreeRunRefused(t *testing.T) {
	unversioned := asks(sdkproto.NotifyTreeStatus)
	unversioned.ProtocolVersion = 0
	tests := []struct {
		name    string
		init    sdkproto.InitializeParams
		welcome string
		offered bool // the fault is not the server's
		text    string
	}{
		{"not asked for", asks("session.usage"), offered(sdkproto.NotifyTreeStatus), true, "session.tree-status was not asked for"},
		{"not offered", asks(sdkproto.NotifyTreeStatus), offered("session.usage"), false, "lists initialize, session.usage"},
		{"asked without a version", unversioned, serverInfo, false, "says nothing of extensions"},
		{"a plain server", asks(sdkproto.NotifyTreeStatus), serverInfo, false, "says nothing of extensions"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := greeted(t, tt.init, client.Limits{}, tt.welcome, nil, func(_ *peer, r request) bool {
				t.Errorf("%s was sent", r.Method)
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Session("S").RunWith(t.Context(), client.RunOptions{Tree: true})
			if err == nil || errors.Is(err, client.ErrNotOffered) == tt.offered || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("run: %v", err)
			}
		})
	}
}

// TestRunPrompt: what became of the message itself, beside what the interval
// came to.
func TestRunPrompt(t *testing.T) {
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		p.send(receipt("S", "M"), started("S", "S1"), answered("S", "mine"), promptFinished("S", "M", "mine"), promptFinished("S1", "M", "other session"),
			answered("S", "yours"), promptFinished("S", "N", "yours"), status("S", "idle"))
		p.answer(r, `{"messageId":"M"}`)
		return true
	})
	run, err := c.Session("S").Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	result, err := run.Result(deadline(t))
	if err != nil || result.FinalText != "yours" || result.Prompt == nil || result.Prompt.FinalText != "mine" {
		t.Errorf("result %+v, %v", result, err)
	}
}
