package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"dsh/kernel"
	"dsh/kernel/approval"
	"dsh/kernel/kerneltest"
	contract "dsh/kernel/mcp"
	"dsh/kernel/settings"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// TestHosted: a server on the SDK's own server side lives in the client (S033,
// S068, spec stream-json 8, checklist 71).
func TestHosted(t *testing.T) {
	h := host(t, quick())
	b := h.bridge("my.app", goodServer())
	st := h.state("my.app")
	if st.State != contract.Connected || st.Scope != "client" || st.Transport != "sdk" || st.Version != "good 1.2" || st.Error != "" {
		t.Errorf("state %+v", st)
	}
	if len(st.Tools) != 8 || len(st.Offers) != len(st.Tools) || !slices.Contains(st.Tools, "mcp__my_app__echo") {
		t.Errorf("tools %v, offers %v", st.Tools, st.Offers)
	}
	for i, o := range st.Offers {
		if "mcp__my_app__"+o.Name != st.Tools[i] {
			t.Errorf("offer %d is %q, tool %q", i, o.Name, st.Tools[i])
		}
		if want := (contract.Offer{Name: "echo", Description: "Echoes.", ReadOnly: true}); o.Name == "echo" && o != want {
			t.Errorf("offer %+v", o)
		}
	}
	if diff := cmp.Diff([]string{"initialize", "notifications/initialized", "tools/list"}, b.heard.methods()[:3]); diff != "" {
		t.Error(diff)
	}
	if got := b.heard.all()[0].Params.Protocol; got != "2025-11-25" {
		t.Errorf("protocol %q", got)
	}

	if got := h.good("mcp__my_app__echo", map[string]any{"text": "over mcp"}); got != "echo over mcp" {
		t.Errorf("got %q", got)
	}
	last := b.heard.all()[len(b.heard.all())-1]
	if last.Method != "tools/call" || last.Params.Name != "echo" || string(last.Params.Arguments) != `{"text":"over mcp"}` || last.Params.Meta.Call != "c" || last.Params.Meta.Token == nil {
		t.Errorf("call %+v", last)
	}
	if got := h.good("mcp__my_app__ask", map[string]any{}); got != "cancel <nil>" { // nobody can answer (S069)
		t.Errorf("got %q", got)
	}
	h.good("mcp__my_app__grow", map[string]any{"text": "fresh"})
	until(t, "the new tool is listed", func() bool { return slices.Contains(h.names(), "mcp__my_app__fresh") })
	if got := h.good("mcp__my_app__fresh", map[string]any{}); got != "grown" {
		t.Errorf("got %q", got)
	}
	h.good("mcp__my_app__shrink", map[string]any{"text": "fresh"})
	until(t, "the tool is gone", func() bool { return !slices.Contains(h.names(), "mcp__my_app__fresh") })

	var told []string
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var mu sync.Mutex
	h.call(ctx, "mcp__my_app__slow", map[string]any{"text": "2"}, func(in *tool.Invocation) {
		in.Progress = func(text string) { mu.Lock(); defer mu.Unlock(); told = append(told, text) }
	})
	mu.Lock()
	if !slices.Contains(told, "step (1/2)") {
		t.Errorf("progress %q", told)
	}
	mu.Unlock()

	if err := h.Enable(ctx, "my.app", false); err != nil || h.state("my.app").State != contract.Disabled || len(h.names()) != 0 {
		t.Errorf("disabled: %v, %+v, tools %v", err, h.state("my.app"), h.names())
	}
	if err := h.front.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if len(h.List()) != 0 || len(h.names()) != 0 {
		t.Errorf("left behind: %+v, tools %v", h.List(), h.names())
	}
}

// TestHostedAsks: requests of a hosted server are answered through the client,
// too (spec stream-json 8.5, checklist 75).
func TestHostedAsks(t *testing.T) {
	for name, tc := range map[string]struct {
		answer approval.ElicitationAnswer
		want   string
	}{
		"accept":  {approval.ElicitationAnswer{Action: "accept", Content: json.RawMessage(`{"pick":"b"}`)}, "accept b"},
		"decline": {approval.ElicitationAnswer{Action: "decline"}, "decline <nil>"},
		"cancel":  {approval.ElicitationAnswer{Action: "cancel"}, "cancel <nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			h := host(t, quick())
			asks := &approver{answer: tc.answer}
			if err := h.desk.Register(h.owner, "test", asks); err != nil {
				t.Fatal(err)
			}
			b := h.bridge("app", goodServer())
			if got := h.good("mcp__app__ask", map[string]any{}); got != tc.want {
				t.Errorf("got %q", got)
			}
			if len(asks.asked) != 1 || asks.asked[0].Server != "app" || asks.asked[0].SessionID != "s" || asks.asked[0].Message != "Which one?" {
				t.Errorf("asked %+v", asks.asked)
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err := b.session.Ping(ctx, nil); err != nil {
				t.Errorf("ping: %v", err)
			}
			if _, err := b.session.Elicit(ctx, &sdk.ElicitParams{Mode: "url", Message: "Log in", URL: "https://example.com/x", ElicitationID: "e1"}); err != nil {
				t.Errorf("a page to visit: %v", err)
			}
			if want := (approval.Elicitation{Server: "app", Message: "Log in", ID: "e1", URL: "https://example.com/x"}); cmp.Diff(want, asks.asked[1]) != "" {
				t.Error(cmp.Diff(want, asks.asked[1]))
			}
			//lint:ignore SA1019 a server of an older protocol may try
			if _, err := b.session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 1}); err == nil {
				t.Error("the harness has sampled")
			}
		})
	}
}

// TestHostedSideBySide: parallel calls have ids of their own, and answers that
// come in another order, or as errors, reach their calls; the one without an
// answer is withdrawn when the turn is interrupted (B39, checklist 73).
func TestHostedSideBySide(t *testing.T) {
	const many = 20
	begun := make(chan said, many)
	answers := map[int64]chan json.RawMessage{}
	var mu sync.Mutex
	s := &script{}
	s.says = func(ctx context.Context, m said) (json.RawMessage, error) {
		if m.Method != "tools/call" {
			return plain(m, "echo")
		}
		answer := make(chan json.RawMessage, 1)
		mu.Lock()
		if answers[*m.ID] != nil {
			t.Errorf("id %d is used twice", *m.ID)
		}
		answers[*m.ID] = answer
		mu.Unlock()
		begun <- m
		select {
		case a := <-answer:
			return a, nil
		case <-ctx.Done():
			return never(ctx)
		}
	}
	h := host(t, quick())
	h.attach("app", s)
	results := make([]tool.Result, many)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var calls sync.WaitGroup
	for n := range many {
		calls.Go(func() { results[n] = h.call(ctx, "mcp__app__echo", map[string]any{"n": n}) })
	}
	var open []said
	for range many {
		open = append(open, <-begun)
	}
	argument := func(m said) (n int) {
		var a struct{ N int }
		if err := json.Unmarshal(m.Params.Arguments, &a); err != nil {
			t.Error(err)
		}
		return a.N
	}
	for _, m := range slices.Backward(open) {
		switch n := argument(m); {
		case n == 7:
		case n < 5:
			answers[*m.ID] <- m.result(fmt.Sprintf(`{"isError":true,"content":[{"type":"text","text":"failed %d"}]}`, n))
		default:
			answers[*m.ID] <- m.text(fmt.Sprintf("done %d", n))
		}
	}
	until(t, "all but one have their results", func() bool {
		h.servers[0].mu.Lock()
		c := h.servers[0].conn
		h.servers[0].mu.Unlock()
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.calls) == 1
	})
	interrupt()
	calls.Wait()
	if diff := cmp.Diff([]string{"tools/call"}, s.heard.taken()); diff != "" {
		t.Errorf("withdrawn before the call ends: %s", diff)
	}
	for n, res := range results {
		want := fmt.Sprintf("done %d", n)
		if n < 5 {
			want = fmt.Sprintf("failed %d", n)
		}
		if got := sdkproto.TextOf(res.Content); n != 7 && (got != want || res.IsError != (n < 5)) {
			t.Errorf("call %d: %v %q", n, res.IsError, got)
		}
	}
	until(t, "the server is told", func() bool { return slices.Contains(s.heard.methods(), "notifications/cancelled") })
	for _, m := range s.heard.all() {
		if m.Method == "notifications/cancelled" {
			i := slices.IndexFunc(open, func(c said) bool { return *c.ID == m.Params.RequestID })
			if i < 0 || argument(open[i]) != 7 {
				t.Errorf("the wrong call is cancelled: %+v", m.Params)
			}
		}
	}
}

// TestHostedSameMoment: a call that is answered as its turn is interrupted is over,
// and nobody is told to cancel it.
func TestHostedSameMoment(t *testing.T) {
	var interrupt context.CancelFunc
	s := &script{says: func(_ context.Context, m said) (json.RawMessage, error) {
		if m.Method == "tools/call" {
			interrupt()
			return m.text("done"), nil
		}
		return plain(m, "echo")
	}}
	h := host(t, quick())
	h.attach("app", s)
	var ctx context.Context
	ctx, interrupt = context.WithCancel(t.Context())
	defer interrupt()
	h.call(ctx, "mcp__app__echo", map[string]any{})
	time.Sleep(50 * time.Millisecond)
	if slices.Contains(s.heard.methods(), "notifications/cancelled") {
		t.Error("an answered request is cancelled")
	}
}

// TestHostedFails: a server that cannot be used is failed with its reason; others
// and the session go on, and nothing more is asked until the next turn (B32, spec
// stream-json 8.2, checklist 72).
func TestHostedFails(t *testing.T) {
	at := func(method string, reply func(ctx context.Context, m said) (json.RawMessage, error)) func(context.Context, said) (json.RawMessage, error) {
		return func(ctx context.Context, m said) (json.RawMessage, error) {
			if m.Method == method {
				return reply(ctx, m)
			}
			return plain(m)
		}
	}
	const text = `{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"no database"}}`
	for name, tc := range map[string]struct {
		says   func(context.Context, said) (json.RawMessage, error)
		reason string
		// withdrawn are the requests that nobody waits for any more.
		withdrawn []string
	}{
		"refused":    {at("initialize", func(context.Context, said) (json.RawMessage, error) { return nil, errors.New("Server 'app' not found") }), "Server 'app' not found", nil},
		"error":      {at("initialize", func(_ context.Context, m said) (json.RawMessage, error) { return fmt.Appendf(nil, text, *m.ID), nil }), "no database", nil},
		"mute":       {at("initialize", func(ctx context.Context, _ said) (json.RawMessage, error) { return never(ctx) }), "no answer within 300ms", []string{"initialize"}},
		"no message": {at("initialize", func(context.Context, said) (json.RawMessage, error) { return json.RawMessage(`[1]`), nil }), "no JSON-RPC message", nil},
		"neither": {at("initialize", func(_ context.Context, m said) (json.RawMessage, error) {
			return json.RawMessage(`{"jsonrpc":"2.0"}`), nil
		}), "neither a result nor an error", nil},
		"another's answer": {at("initialize", func(_ context.Context, m said) (json.RawMessage, error) {
			return json.RawMessage(`{"id":77,"result":{}}`), nil
		}), "its id is 77", nil},
		"panic":               {at("initialize", func(context.Context, said) (json.RawMessage, error) { panic("oh") }), "oh", nil},
		"closed":              {at("initialize", func(context.Context, said) (json.RawMessage, error) { return nil, contract.ErrHostClosed }), "Stream closed", nil},
		"error of the list":   {at("tools/list", func(_ context.Context, m said) (json.RawMessage, error) { return fmt.Appendf(nil, text, *m.ID), nil }), "no database", nil},
		"the list never ends": {at("tools/list", func(ctx context.Context, _ said) (json.RawMessage, error) { return never(ctx) }), "no answer within 300ms", []string{"tools/list"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := quick()
			c.ConnectTimeout = kernel.Duration(300 * time.Millisecond)
			h := host(t, c)
			s := &script{says: tc.says}
			ok := &script{says: func(_ context.Context, m said) (json.RawMessage, error) { return plain(m, "echo") }}
			if _, err := h.Attach(h.front, "app", s); err != nil {
				t.Fatal(err)
			}
			h.attach("fine", ok)
			st := h.state("app")
			if st.State != contract.Failed || !strings.Contains(st.Error, tc.reason) || len(st.Tools) != 0 {
				t.Errorf("state %+v", st)
			}
			if got := h.state("fine"); got.State != contract.Connected || len(got.Tools) != 1 {
				t.Errorf("the other: %+v", got)
			}
			until(t, "nobody waits", func() bool { return len(s.heard.taken()) == len(tc.withdrawn) })
			if diff := cmp.Diff(tc.withdrawn, s.heard.taken()); diff != "" {
				t.Error(diff)
			}
			of := h.find("app")
			of.mu.Lock()
			defer of.mu.Unlock()
			if of.coming || slices.Contains(s.heard.methods()[1:], "initialize") {
				t.Errorf("asked again: due %v, heard %v", of.coming, s.heard.methods())
			}
		})
	}
}

// TestHostedReturns: the start of a turn has a failed server try once more,
// without waiting; the ids go on, so that none is in use twice (spec stream-json
// 8.2).
func TestHostedReturns(t *testing.T) {
	var mu sync.Mutex
	mended := false
	var hold chan struct{}
	s := &script{says: func(_ context.Context, m said) (json.RawMessage, error) {
		mu.Lock()
		bad, wait := !mended, hold
		mu.Unlock()
		if m.Method == "initialize" && wait != nil {
			<-wait
		}
		if m.Method == "initialize" && bad {
			return nil, errors.New("not yet")
		}
		return plain(m, "echo")
	}}
	h := host(t, quick())
	h.attach("app", s)
	h.turn(1) // that of a subagent
	of := h.find("app")
	of.mu.Lock()
	if of.retried || len(s.heard.all()) != 1 {
		t.Errorf("tried again: %v, %d messages", of.retried, len(s.heard.all()))
	}
	of.mu.Unlock()
	mu.Lock()
	mended, hold = true, make(chan struct{})
	mu.Unlock()
	h.turn(0)
	h.turn(0)
	until(t, "it is asked again", func() bool { return len(s.heard.all()) == 2 })
	close(hold)
	until(t, "it is there", func() bool { return h.state("app").State == contract.Connected })
	h.turn(0)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := h.Reconnect(ctx, "app"); err != nil {
		t.Fatal(err)
	}
	var ids []int64
	handshakes := 0
	for _, m := range s.heard.all() {
		if m.ID == nil {
			continue
		}
		if slices.Contains(ids, *m.ID) {
			t.Errorf("id %d came twice", *m.ID)
		}
		if ids = append(ids, *m.ID); m.Method == "initialize" {
			handshakes++
		}
	}
	if handshakes != 3 {
		t.Errorf("%d handshakes", handshakes)
	}
}

// TestHostedLoses: when the client has closed its end, the calls under way fail at
// once, later ones are not sent, and the server is shown as failed (B09, B37, spec
// stream-json 5.6).
func TestHostedLoses(t *testing.T) {
	closed := make(chan struct{})
	begun := make(chan struct{}, 10)
	s := &script{says: func(ctx context.Context, m said) (json.RawMessage, error) {
		select {
		case <-closed:
			return nil, contract.ErrHostClosed
		default:
		}
		if m.Method == "tools/call" {
			begun <- struct{}{}
			<-closed
			return nil, contract.ErrHostClosed
		}
		return plain(m, "transfer")
	}}
	h := host(t, quick())
	h.attach("app", s)
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() { h.bad("mcp__app__transfer", map[string]any{}, codeLost, "Stream closed", "not made again") })
	}
	for range 4 {
		<-begun
	}
	close(closed)
	calls.Wait()
	until(t, "it is failed", func() bool {
		st := h.state("app")
		return st.State == contract.Failed && strings.Contains(st.Error, "Stream closed")
	})
	before := len(s.heard.all())
	began := time.Now()
	h.bad("mcp__app__transfer", map[string]any{}, codeNotConnected, "Stream closed")
	if time.Since(began) >= returning {
		t.Error("a call after the end has waited for the server to come back")
	}
	if after := len(s.heard.all()); after != before {
		t.Errorf("%d messages after the end", after-before)
	}
}

// TestHostedAnswers: what a client may answer to a call, and what comes of it (spec
// stream-json 5.6, 8.2, 8.4).
func TestHostedAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(m said) (json.RawMessage, error)
		code   string
		text   string
	}{
		"id as text": {func(m said) (json.RawMessage, error) {
			return fmt.Appendf(nil, `{"id":"%d","result":{"content":[{"type":"text","text":"ok"}]}}`, *m.ID), nil
		}, "", "ok"},
		"id as fraction": {func(m said) (json.RawMessage, error) {
			return fmt.Appendf(nil, `{"id":%d.0,"result":{"content":[{"type":"text","text":"ok"}]}}`, *m.ID), nil
		}, "", "ok"},
		"no id": {func(m said) (json.RawMessage, error) {
			return json.RawMessage(`{"result":{"content":[{"type":"text","text":"ok"}]}}`), nil
		}, "", "ok"},
		"no content": {func(m said) (json.RawMessage, error) { return m.result(`{"content":[]}`), nil }, "", "The tool gave no output."},
		"structured": {func(m said) (json.RawMessage, error) { return m.result(`{"structuredContent":{"a":1}}`), nil }, "", `{"a":1}`},
		"flagged": {func(m said) (json.RawMessage, error) {
			return m.result(`{"isError":true,"content":[{"type":"text","text":"bad luck"}]}`), nil
		}, codeResult, "bad luck"},
		"error": {func(m said) (json.RawMessage, error) {
			return fmt.Appendf(nil, `{"id":%d,"error":{"code":-32603,"message":"Duplicate request ID"}}`, *m.ID), nil
		}, codeAnswer, "Duplicate request ID"},
		"error of ours": {func(m said) (json.RawMessage, error) {
			return fmt.Appendf(nil, `{"id":%d,"error":{"code":-32004,"message":"closing"}}`, *m.ID), nil
		}, codeAnswer, "closing"},
		"odd error": {func(m said) (json.RawMessage, error) { return fmt.Appendf(nil, `{"id":%d,"error":"text"}`, *m.ID), nil }, codeAnswer, "no reason given"},
		"refused":   {func(said) (json.RawMessage, error) { return nil, errors.New("query closed") }, codeAnswer, "query closed"},
		"another's": {func(m said) (json.RawMessage, error) { return fmt.Appendf(nil, `{"id":%d,"result":{}}`, *m.ID+1), nil }, codeAnswer, "another request"},
		"dummy":     {func(said) (json.RawMessage, error) { return nil, nil }, codeAnswer, "no JSON-RPC message"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{says: func(_ context.Context, m said) (json.RawMessage, error) {
				if m.Method == "tools/call" {
					return tc.answer(m)
				}
				return plain(m, "echo")
			}}
			h := host(t, quick())
			h.attach("app", s)
			if tc.code != "" {
				h.bad("mcp__app__echo", map[string]any{}, tc.code, tc.text)
			} else if got := h.good("mcp__app__echo", map[string]any{}); got != tc.text {
				t.Errorf("got %q", got)
			}
			if st := h.state("app"); st.State != contract.Connected {
				t.Errorf("state %+v", st)
			}
		})
	}
}

// TestHostedInTurn: a notification is over before the next request goes out, a
// client that never acknowledges it holds nothing up for long, lists come in pages,
// and a server without tools is not asked for them.
func TestHostedInTurn(t *testing.T) {
	var mu sync.Mutex
	acknowledged := false
	s := &script{says: func(ctx context.Context, m said) (json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case m.Method == "notifications/initialized":
			time.Sleep(20 * time.Millisecond)
			acknowledged = true
		case m.Method == "tools/list" && !acknowledged:
			t.Error("tools/list has overtaken the notification")
		case m.Method == "tools/list" && m.Params.Cursor == "":
			return m.result(`{"tools":[{"name":"one","inputSchema":{"type":"object"}}],"nextCursor":"p2"}`), nil
		case m.Method == "tools/list":
			return m.result(`{"tools":[{"name":"two","inputSchema":{"type":"object"},"_meta":{"anthropic/maxResultSizeChars":200000}}]}`), nil
		}
		return plain(m)
	}}
	silent := &script{}
	silent.says = func(ctx context.Context, m said) (json.RawMessage, error) {
		if m.ID == nil {
			return never(ctx)
		}
		return plain(m, "echo")
	}
	bare := &script{says: func(_ context.Context, m said) (json.RawMessage, error) {
		if m.Method == "initialize" {
			return m.result(`{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"app","version":"1"}}`), nil
		}
		return plain(m)
	}}
	h := host(t, quick())
	h.attach("pages", s)
	h.attach("silent", silent)
	h.attach("bare", bare)
	if diff := cmp.Diff([]string{"mcp__pages__one", "mcp__pages__two", "mcp__silent__echo"}, h.names()); diff != "" {
		t.Error(diff)
	}
	if slices.Contains(bare.heard.methods(), "tools/list") || h.state("bare").State != contract.Connected {
		t.Errorf("heard %v, state %+v", bare.heard.methods(), h.state("bare"))
	}
}

// TestHostedLimit: a call may be as long as the client likes, unless
// MCP_TOOL_TIMEOUT says otherwise; then it is withdrawn (spec stream-json 8.7).
func TestHostedLimit(t *testing.T) {
	s := &script{}
	s.says = func(ctx context.Context, m said) (json.RawMessage, error) {
		if m.Method == "tools/call" {
			return never(ctx)
		}
		return plain(m, "echo")
	}
	t.Setenv("MCP_TOOL_TIMEOUT", "200")
	h := host(t, quick())
	h.attach("app", s)
	h.bad("mcp__app__echo", map[string]any{}, codeTimeout, "200ms")
	if diff := cmp.Diff([]string{"tools/call"}, s.heard.taken()); diff != "" {
		t.Error(diff)
	}
}

// TestDelivered: what a server may say by itself.
func TestDelivered(t *testing.T) {
	hold := make(chan struct{})
	s := &script{}
	s.says = func(ctx context.Context, m said) (json.RawMessage, error) {
		if m.Method == "initialize" {
			select {
			case <-hold:
			case <-ctx.Done():
				return never(ctx)
			}
		}
		return plain(m, "echo")
	}
	h := host(t, quick())
	deliver, err := h.Attach(h.front, "app", s)
	if err != nil {
		t.Fatal(err)
	}
	if st := h.state("app"); st.State != contract.Pending {
		t.Errorf("state %+v", st)
	}
	close(hold)
	h.settled()
	for message, word := range map[string]string{
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`: "",
		`{"jsonrpc":"2.0","id":5,"method":"ping"}`:                                                "",
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                                                    "answers come with",
		`{"jsonrpc":"2.0"}`:                                                                       "read its message",
		`[]`:                                                                                      "read its message",
		``:                                                                                        "read its message",
		`{"jsonrpc":"2.0","id":6,"method":"sampling/createMessage","params":{"maxTokens":1,"messages":[]}}`: "",
		`{"jsonrpc":"2.0","id":7,"method":"no/such"}`:                                                       "",
	} {
		switch err := deliver(json.RawMessage(message)); {
		case (err != nil) != (word != "") || err != nil && !strings.Contains(err.Error(), word):
			t.Errorf("%s: %v", message, err)
		}
	}
	answers := func() map[int64]bool {
		out := map[int64]bool{}
		for _, m := range s.heard.all() {
			if m.Method == "" && m.ID != nil {
				out[*m.ID] = len(m.Error) > 0
			}
		}
		return out
	}
	until(t, "the requests are answered", func() bool { return len(answers()) == 3 })
	if diff := cmp.Diff(map[int64]bool{5: false, 6: true, 7: true}, answers()); diff != "" {
		t.Error(diff)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := h.front.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := deliver(json.RawMessage(`{"jsonrpc":"2.0","method":"ping"}`)); err == nil {
		t.Error("a message of a server that is gone was taken")
	}
}

// TestGivesWay: a configured server leaves its name to one of the client (spec
// stream-json 8.1).
func TestGivesWay(t *testing.T) {
	for name, source := range map[string]string{"profile": "profile", "settings": "user"} {
		t.Run(name, func(t *testing.T) {
			c, own := quick(), stdio(t, "good")
			var from *layers
			change := func(*Params) {}
			if source == "profile" {
				c = servers(c, map[string]Server{"app": own, "rest": own})
			} else {
				from = &layers{{Scope: settings.ScopeUser, MCPServers: map[string]settings.MCPServer{
					"app": {Command: own.Command, Env: own.Env}, "rest": {Command: own.Command, Env: own.Env}}}}
				change = func(p *Params) { p.Settings = from }
			}
			h := host(t, c, change)
			if got := h.state("app"); got.Scope != source || got.State != contract.Connected {
				t.Fatalf("state %+v", got)
			}
			s := &script{says: func(_ context.Context, m said) (json.RawMessage, error) { return plain(m, "mine") }}
			h.attach("app", s)
			check := func() {
				t.Helper()
				if got := h.state("app"); got.Scope != "client" || got.State != contract.Connected || !cmp.Equal([]string{"mcp__app__mine"}, got.Tools) {
					t.Errorf("state %+v", got)
				}
				if got := h.names(); slices.Contains(got, "mcp__app__echo") || !slices.Contains(got, "mcp__rest__echo") {
					t.Errorf("tools %v", got)
				}
				if len(h.List()) != 2 {
					t.Errorf("servers %+v", h.List())
				}
			}
			check()
			if _, err := h.Attach(h.front, "app", s); err == nil {
				t.Error("two servers of the client have one name")
			}
			if _, err := h.Attach(h.front, " ", s); err == nil {
				t.Error("a server without a name")
			}
			if source == "user" {
				if err := h.follow(func(*server) {}); err != nil {
					t.Fatal(err)
				}
				check()
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err := h.front.Close(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := h.Attach(h.front, "late", s); !errors.Is(err, kernel.ErrClosed) || len(h.List()) != 1 {
				t.Errorf("attached to what is closed: %v, %+v", err, h.List())
			}
		})
	}
}

// layers are settings that do not change.
type layers []settings.Layer

func (l *layers) For(string) []settings.Layer       { return *l }
func (l *layers) Watch(*kernel.Owner, func()) error { return nil }

// TestWait: without wait only required servers hold the barrier; Settled waits for
// all of them (B33, spec stream-json 3.2).
func TestWait(t *testing.T) {
	for _, wait := range []bool{true, false} {
		t.Run(fmt.Sprint(wait), func(t *testing.T) {
			c := servers(quick(), map[string]Server{"mute": stdio(t, "mute")})
			c.Wait = wait
			c.ConnectTimeout = kernel.Duration(1500 * time.Millisecond)
			c.Reconnect.Attempts = 0
			from := &layers{{Scope: settings.ScopeUser, MCPServers: map[string]settings.MCPServer{"user": {Command: stdio(t, "good").Command, Env: stdio(t, "good").Env}}}}
			h := host(t, c, func(p *Params) { p.Settings = from })
			if st := h.state("mute"); (st.State == contract.Pending) == wait {
				t.Errorf("the barrier is open and the server %+v", st)
			}
			h.settled()
			if st := h.state("mute"); st.State != contract.Failed || !strings.Contains(st.Error, "no answer within 1.5s") {
				t.Errorf("settled %+v", st)
			}
			if st := h.state("user"); st.State != contract.Connected {
				t.Errorf("settled %+v", st)
			}
			ended, cancel := context.WithCancelCause(t.Context())
			cancel(errWithdrawn)
			if err := h.Settled(ended); err != nil && !errors.Is(err, errWithdrawn) {
				t.Error(err)
			}
		})
	}
}

// TestLimitsOfEnvironment: the variables of spec stream-json 1.4 go ahead of the row.
func TestLimitsOfEnvironment(t *testing.T) {
	base := defaults()
	for name, tc := range map[string]struct {
		env    map[string]string
		hosted time.Duration
		change func(*Config)
		warned bool
	}{
		"none": {nil, 28 * time.Hour, func(*Config) {}, false},
		"all": {map[string]string{"MCP_TIMEOUT": "1500", "MCP_TOOL_TIMEOUT": "7000", "MAX_MCP_OUTPUT_TOKENS": "10"}, 7 * time.Second, func(c *Config) {
			c.ConnectTimeout, c.Timeout, c.MaxResult = kernel.Duration(1500*time.Millisecond), kernel.Duration(7*time.Second), 40
		}, false},
		"28 h":    {map[string]string{"MCP_TOOL_TIMEOUT": "100000000"}, 100_000 * time.Second, func(c *Config) { c.Timeout = kernel.Duration(100_000 * time.Second) }, false},
		"a lot":   {map[string]string{"MAX_MCP_OUTPUT_TOKENS": "2000000"}, 28 * time.Hour, func(c *Config) { c.MaxResult = 900_000 }, false},
		"text":    {map[string]string{"MCP_TIMEOUT": "30s"}, 28 * time.Hour, func(*Config) {}, true},
		"nothing": {map[string]string{"MCP_TOOL_TIMEOUT": "0"}, 28 * time.Hour, func(*Config) {}, true},
		"less":    {map[string]string{"MAX_MCP_OUTPUT_TOKENS": "-5"}, 28 * time.Hour, func(*Config) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, want, l := base, base, &kerneltest.Log{}
			tc.change(&want)
			hosted := got.adjust(func(name string) string { return tc.env[name] }, slog.New(slog.NewTextHandler(l, nil)))
			if diff := cmp.Diff(want, got); diff != "" || hosted != tc.hosted {
				t.Errorf("hosted %v, %s", hosted, diff)
			}
			if warned := strings.Contains(l.String(), "level=WARN"); warned != tc.warned {
				t.Errorf("warned %v: %s", warned, l)
			}
		})
	}
}

// TestFromSettings: servers of a flag mean the same in a row (spec stream-json 1.3).
func TestFromSettings(t *testing.T) {
	in := settings.MCPServer{Type: "streamable-http", URL: "https://${MCP_TEST_HOST:-example.com}/x", Headers: map[string]string{"A": "b"}, TimeoutMs: 1500, Disabled: true}
	want := Server{Type: "http", URL: in.URL, Headers: in.Headers, Timeout: kernel.Duration(1500 * time.Millisecond), Disabled: true, Expand: true}
	if diff := cmp.Diff(want, FromSettings(in)); diff != "" {
		t.Error(diff)
	}
	s := stdio(t, "good", "MCP_TEST_WORD=${MCP_TEST_FILLED}")
	s = FromSettings(settings.MCPServer{Command: s.Command, Env: s.Env})
	t.Setenv("MCP_TEST_FILLED", "filled in")
	h := host(t, servers(quick(), map[string]Server{"flag": s}))
	if got := h.good("mcp__flag__env", map[string]any{"text": "MCP_TEST_WORD"}); got != "filled in true" {
		t.Errorf("got %q", got)
	}
}
