package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto"
	"dsh/sdkproto/client"
)

// TestInitialize: the handshake goes out as it was given (spec jsonrpc 2.1).
func TestInitialize(t *testing.T) {
	var got string
	w := newWire(func(p *peer) {
		r, _ := p.next()
		got = r.raw
		p.answer(r, `{"serverInfo":{"name":"n","version":"v","build":1},"protocolVersion":1}`)
		p.serve(func(request) bool { return true })
	})
	init := sdkproto.InitializeParams{CWD: "/w", Provider: "p", Model: "m", MaxTokens: 8192, ReasoningEffort: "high"}
	c, err := client.Attach(t.Context(), w.Reader, w.WriteCloser, init, client.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	<-w.done
	want := `{"jsonrpc":"2.0","id":"req_1","method":"initialize","params":{"cwd":"/w","provider":"p","model":"m","maxTokens":8192,"reasoningEffort":"high"}}`
	if got != want {
		t.Errorf("sent %s\nwant %s", got, want)
	}
	if diff := cmp.Diff(sdkproto.ServerInfo{Name: "n", Version: "v"}, c.Server); diff != "" {
		t.Errorf("server (-want +got):\n%s", diff)
	}
	if c.PID() != 0 {
		t.Errorf("pid %d of no process", c.PID())
	}
}

// TestInitializeFails: nothing is left of a client that could not be made.
func TestInitializeFails(t *testing.T) {
	tests := []struct {
		name   string
		answer string
		check  func(error) bool
	}{
		{"refused", `"error":{"code":-32602,"message":"no adapter registered for provider \"p\""}`, func(err error) bool {
			var e *sdkproto.RPCError
			return errors.As(err, &e) && strings.Contains(err.Error(), `no adapter registered for provider "p"`)
		}},
		{"without a name", `"result":{"serverInfo":{"version":"1"}}`, func(err error) bool { return errors.Is(err, client.ErrProtocol) }},
		{"without a version", `"result":{"serverInfo":{"name":"n","version":""}}`, func(err error) bool { return errors.Is(err, client.ErrProtocol) }},
		{"null", `"result":null`, func(err error) bool { return errors.Is(err, client.ErrProtocol) }},
		{"name of a wrong type", `"result":{"serverInfo":{"name":1,"version":"1"}}`, func(err error) bool { return errors.Is(err, client.ErrProtocol) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWire(func(p *peer) {
				r, _ := p.next()
				p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, r.ID, tt.answer))
				p.serve(func(request) bool { return true })
			})
			_, err := client.Attach(t.Context(), w.Reader, w.WriteCloser, sdkproto.InitializeParams{}, client.Limits{})
			if !tt.check(err) {
				t.Errorf("attach: %v", err)
			}
			<-w.done
		})
	}
}

// TestCall: answers find their calls in any order (spec jsonrpc 1.4).
func TestCall(t *testing.T) {
	const calls = 20
	var waiting []request
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		waiting = append(waiting, r)
		if len(waiting) == calls {
			for i := range waiting {
				r := waiting[calls-1-i]
				p.answer(r, fmt.Sprintf(`{"method":%q,"params":%s}`, r.Method, r.Params))
			}
		}
		return true
	})
	var group sync.WaitGroup
	for i := range calls {
		group.Go(func() {
			var got struct {
				Method string         `json:"method"`
				Params map[string]int `json:"params"`
			}
			method := fmt.Sprintf("m%d", i)
			if err := c.Call(t.Context(), method, map[string]int{"i": i}, &got); err != nil {
				t.Error(err)
			}
			if got.Method != method || got.Params["i"] != i {
				t.Errorf("call %d was answered with %+v", i, got)
			}
		})
	}
	group.Wait()
}

func TestCallErrors(t *testing.T) {
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		switch r.Method {
		case "refuse":
			p.refuse(r, -32601, "unknown DeepSeek Harness SDK runtime method: refuse")
		case "empty":
			if string(r.Params) != `{}` {
				p.refuse(r, -32602, "params "+string(r.Params))
				return true
			}
			p.answer(r, `{"n":"text"}`)
		}
		return true
	})
	var e *sdkproto.RPCError
	if err := c.Call(t.Context(), "refuse", nil, nil); !errors.As(err, &e) || e.Code != sdkproto.CodeMethodNotFound ||
		err.Error() != "refuse: unknown DeepSeek Harness SDK runtime method: refuse" {
		t.Errorf("refused call: %v", err)
	}
	if err := c.Call(t.Context(), "empty", nil, nil); err != nil {
		t.Errorf("call without params and result: %v", err)
	}
	var result struct {
		N int `json:"n"`
	}
	if err := c.Call(t.Context(), "empty", nil, &result); !errors.Is(err, client.ErrProtocol) {
		t.Errorf("call with a result that does not fit: %v", err)
	}
	if err := c.Call(t.Context(), "empty", func() {}, nil); err == nil {
		t.Error("params that have no encoding were sent")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Call(ctx, "empty", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("call with an ended context: %v", err)
	}
}

// TestCallTimeout: a late answer harms nobody (spec jsonrpc 12.6).
func TestCallTimeout(t *testing.T) {
	var late request
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		if r.Method == "slow" {
			late = r
			return true
		}
		p.answer(late, `{"of":"slow"}`)
		p.answer(r, `{"of":"next"}`)
		return true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.Call(ctx, "slow", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("slow call: %v", err)
	}
	var result struct {
		Of string `json:"of"`
	}
	if err := c.Call(t.Context(), "next", nil, &result); err != nil || result.Of != "next" {
		t.Errorf("next call: %+v, %v", result, err)
	}
}

// TestServerRequest: requests of the server are answered with -32601, the id
// echoed as it is (spec jsonrpc 1.2, 12.1).
func TestServerRequest(t *testing.T) {
	var replies []string
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		if r.Method != "go" {
			replies = append(replies, r.raw)
			return true
		}
		p.send(`{"jsonrpc":"2.0","id":"a\u0062","method":"approval/request","params":{}}`, `{"jsonrpc":"2.0","id":1.5,"method":"x"}`)
		p.answer(r, `{}`)
		return true
	})
	if err := c.Call(t.Context(), "go", nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if len(replies) != 2 {
		t.Fatalf("replies %q", replies)
	}
	for i, id := range []string{`"a\\u0062"`, `1\.5`} {
		if ok, _ := regexp.MatchString(`^\{"jsonrpc":"2.0","id":`+id+`,"error":\{"code":-32601,"message":".+"\}\}$`, replies[i]); !ok {
			t.Errorf("reply %s", replies[i])
		}
	}
}

func TestSkipped(t *testing.T) {
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		p.send("garbage", "", "  ", "\ufeff", `{"x":1}`, `[1]`, `{"jsonrpc":"2.0","method":"m"}`, `{"jsonrpc":"2.0","id":"nobody","result":{}}`)
		p.answer(r, `{}`)
		return true
	})
	if err := c.Call(t.Context(), "x", nil, nil); err != nil {
		t.Fatal(err)
	}
	if n := c.Skipped(); n != 3 {
		t.Errorf("skipped %d lines, want 3", n)
	}
}

// TestLineTooLong: whoever waits learns that something is missing, and the
// connection goes on.
func TestLineTooLong(t *testing.T) {
	c := attach(t, client.Limits{Line: 10_000}, func(p *peer, r request) bool {
		switch r.Method {
		case sdkproto.MethodSessionPrompt:
			p.answer(r, `{"messageId":"M"}`)
		case "long":
			p.answer(r, `{"x":"`+strings.Repeat("x", 20_000)+`"}`)
		default:
			p.answer(r, `{}`)
		}
		return true
	})
	run, err := c.Session("S").Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Call(t.Context(), "long", nil, nil); !errors.Is(err, client.ErrProtocol) {
		t.Errorf("call: %v", err)
	}
	if _, err := run.Result(deadline(t)); !errors.Is(err, client.ErrProtocol) {
		t.Errorf("run: %v", err)
	}
	if err := c.Call(t.Context(), "next", nil, nil); err != nil {
		t.Errorf("next call: %v", err)
	}
}

func TestNotifications(t *testing.T) {
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		p.send(receipt("A", "M"), status("B", "running"), started("B", "C"), finished("B", "C"),
			`{"jsonrpc":"2.0","method":"runtime.heartbeat","params":{"time":1}}`, `{"jsonrpc":"2.0","id":{},"method":"session.usage","params":{"sessionId":"A"}}`)
		p.answer(r, `{}`)
		return true
	})
	if err := c.Call(t.Context(), "x", nil, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	all := c.Notifications(ctx)
	if err := c.Call(t.Context(), "x", nil, nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	for n, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, name(n))
		if n.Method == "runtime.heartbeat" && string(n.Params) != `{"time":1}` {
			t.Errorf("params %s", n.Params)
		}
		if len(got) == 6 {
			break
		}
	}
	want := []string{"A agent/inbox/spliced", "B running", "B started C", "B finished C", " runtime.heartbeat", "A session.usage"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("notifications (-want +got):\n%s", diff)
	}
	cancel()
	if got, err := names(all); len(got) != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v, %v", got, err)
	}
}

func TestTextDelta(t *testing.T) {
	delta := func(chunk string) string {
		return event("S", "assistant/chunk", `{"turn":1,"step":1,"chunk":`+chunk+`}`)
	}
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		p.answer(r, `{"messageId":"M"}`)
		p.send(receipt("S", "M"), delta(`{"type":"block-start","index":0,"blockType":"text"}`), delta(`{"type":"text-delta","index":0,"text":"he"}`),
			delta(`{"type":"reasoning-delta","index":1,"text":"no"}`), delta(`{"type":"text-delta","index":0,"text":"y"}`), delta(`7`), status("S", "idle"))
		return true
	})
	run, err := c.Session("S").Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for n, err := range run.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := n.TextDelta(); ok {
			text = append(text, s)
		}
	}
	if diff := cmp.Diff([]string{"he", "y"}, text); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestSession(t *testing.T) {
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		p.answer(r, `{"messageId":"M"}`)
		return true
	})
	if id := c.Session("mine").ID(); id != "mine" {
		t.Errorf("id %q", id)
	}
	a, b := c.Session("").ID(), c.Session("").ID()
	if ok, _ := regexp.MatchString(`^session-[0-9a-f]{32}$`, a); !ok || a == b {
		t.Errorf("made ids %q and %q", a, b)
	}
	if id, err := c.Session("").Prompt(t.Context()); err != nil || id != "M" {
		t.Errorf("prompt: %q, %v", id, err)
	}
}

// TestClose: it asks, waits, fails what still waits, and does so once.
func TestClose(t *testing.T) {
	var order []string
	w := newWire(func(p *peer) {
		defer p.out.Close()
		for {
			r, ok := p.next()
			if !ok {
				order = append(order, "end of input")
				return
			}
			order = append(order, r.Method)
			switch r.Method {
			case sdkproto.MethodInitialize:
				p.answer(r, serverInfo)
			case sdkproto.MethodSessionPrompt:
				p.answer(r, `{"messageId":"M"}`)
				p.send(receipt("S", "M"))
			case sdkproto.MethodShutdown:
				p.send(turnEnd("S", `{"kind":"aborted","reason":{"kind":"disposed"}}`))
				p.answer(r, `{}`)
			}
		}
	})
	c, err := client.Attach(t.Context(), w.Reader, w.WriteCloser, sdkproto.InitializeParams{}, client.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	all := c.Notifications(t.Context())
	run, err := c.Session("S").Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan error)
	go func() { called <- c.Call(t.Context(), "slow", nil, nil) }()
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if err := c.Close(deadline(t)); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	group.Wait()
	<-w.done
	if err := <-called; !errors.Is(err, client.ErrClosed) {
		t.Errorf("call in progress: %v", err)
	}
	if err := c.Call(t.Context(), "x", nil, nil); !errors.Is(err, client.ErrClosed) {
		t.Errorf("new call: %v", err)
	}
	if result, err := run.Result(t.Context()); !errors.Is(err, client.ErrClosed) || result.FinishReason != "aborted" {
		t.Errorf("run: %+v, %v", result, err)
	}
	if _, err := c.Session("S").Run(t.Context()); !errors.Is(err, client.ErrClosed) {
		t.Errorf("new run: %v", err)
	}
	got, err := names(all)
	if diff := cmp.Diff([]string{"S agent/inbox/spliced", "S turn/end"}, got); diff != "" || !errors.Is(err, client.ErrClosed) {
		t.Errorf("notifications ended with %v (-want +got):\n%s", err, diff)
	}
	if got, err := names(c.Notifications(t.Context())); len(got) != 0 || !errors.Is(err, client.ErrClosed) {
		t.Errorf("new notifications: %v, %v", got, err)
	}
	for _, o := range order {
		if o == "slow" { // may be overtaken by the shutdown
			order = append(order[:2], order[3:]...)
			break
		}
	}
	if diff := cmp.Diff([]string{"initialize", "session/prompt", "shutdown", "end of input"}, order); diff != "" {
		t.Errorf("server saw (-want +got):\n%s", diff)
	}
}

// TestCloseSilentServer: a server that answers nothing and ends at nothing
// costs the waits of Limits and one second, and the reader is closed.
func TestCloseSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(func(p *peer) {
			r, _ := p.next()
			p.answer(r, serverInfo)
			for {
				if _, ok := p.next(); !ok {
					break
				}
			}
			for { // until nobody reads
				if _, err := io.WriteString(p.out, "\n"); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		c, err := client.Attach(t.Context(), w.Reader, w.WriteCloser, sdkproto.InitializeParams{}, client.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		impatient := make(chan error, 1)
		go func() {
			time.Sleep(time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			impatient <- c.Close(ctx)
		}()
		if err := c.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-impatient; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("second close: %v", err)
		}
		if took := time.Since(begin); took != 7*time.Second {
			t.Errorf("close took %s, want 1 s for shutdown and 6 s for the end", took)
		}
		<-w.done
	})
}

// TestCloseStalledServer: a server that reads nothing does not hold up Close.
func TestCloseStalledServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closing := make(chan struct{})
		w := newWire(func(p *peer) {
			r, _ := p.next()
			p.answer(r, serverInfo)
			<-closing
		})
		c, err := client.Attach(t.Context(), w.Reader, w.WriteCloser, sdkproto.InitializeParams{}, client.Limits{Shutdown: 2 * time.Second, Exit: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		// The first fits the queue of the writer and waits for its answer, the
		// second does not fit any more.
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := c.Call(ctx, "big", strings.Repeat("x", 3<<20), nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("call: %v", err)
			}
		}
		begin := time.Now()
		if err := c.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("close took %s, want 2 s for shutdown and 1 s for the end", took)
		}
		close(closing)
		<-w.done
	})
}

// TestCloseUncloseableReader: a reader that cannot be closed may leave its
// goroutine behind, and Close says so.
func TestCloseUncloseableReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		w := newWire(func(p *peer) {
			r, _ := p.next()
			p.answer(r, serverInfo)
			<-end
		})
		c, err := client.Attach(t.Context(), struct{ io.Reader }{w.Reader}, w.WriteCloser, sdkproto.InitializeParams{}, client.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(t.Context()); err == nil {
			t.Error("close reports nothing")
		}
		close(end)
		<-w.done
	})
}

// TestServerStopsReading: a server that closed its input is lost to new calls,
// but still heard.
func TestServerStopsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fromClient, toServer := io.Pipe()
		fromServer, toClient := io.Pipe()
		p := newPeer(fromClient, toClient)
		served := make(chan struct{})
		go func() {
			defer close(served)
			r, _ := p.next()
			p.answer(r, serverInfo)
			slow, _ := p.next()
			fromClient.Close()
			time.Sleep(time.Second)
			p.answer(slow, `{}`)
		}()
		c, err := client.Attach(t.Context(), fromServer, toServer, sdkproto.InitializeParams{}, client.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		slow := make(chan error)
		go func() { slow <- c.Call(t.Context(), "slow", nil, nil) }()
		synctest.Wait()
		if err := c.Call(t.Context(), "next", nil, nil); !errors.Is(err, client.ErrLost) || !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("next call: %v", err)
		}
		if err := <-slow; err != nil {
			t.Errorf("call that the server had read: %v", err)
		}
		<-served
		if err := c.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}
