package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto"
	"dsh/sdkproto/client"
)

const (
	completed = `{"kind":"completed"}`
	// theAnswer stands for the answer to the prompt in a script.
	theAnswer = "ANSWER"
)

// TestRun plays what a server may send around one prompt (spec jsonrpc 12.5,
// 12.6) to session S, whose message is M.
func TestRun(t *testing.T) {
	usage := func(n int64) sdkproto.Usage {
		return sdkproto.Usage{InputTokens: 10 * n, OutputTokens: 3 * n}
	}
	plain := client.Result{MessageID: "M", FinalText: "hi", FinishReason: "completed", Usage: usage(1), TreeUsage: usage(1)}
	plainEvents := []string{"S agent/inbox/spliced", "S running", "S assistant/message", "S turn/end", "S idle"}
	with := func(change func(*client.Result)) client.Result {
		r := plain
		change(&r)
		return r
	}
	tests := []struct {
		name   string
		before []string // sent ahead of the prompt
		script []string
		events []string
		want   client.Result
		err    error
	}{
		{
			name:   "receipt before the answer",
			script: []string{receipt("S", "M"), status("S", "running"), theAnswer, answered("S", "hi"), turnEnd("S", completed), status("S", "idle")},
			events: plainEvents, want: plain,
		},
		{
			name:   "receipt after the answer",
			script: []string{theAnswer, receipt("S", "M"), status("S", "running"), answered("S", "hi"), turnEnd("S", completed), status("S", "idle")},
			events: plainEvents, want: plain,
		},
		{
			name:   "everything before the answer",
			script: []string{receipt("S", "M"), status("S", "running"), answered("S", "hi"), turnEnd("S", completed), status("S", "idle"), theAnswer},
			events: plainEvents, want: plain,
		},
		{
			name: "nothing counts before the receipt",
			script: []string{answered("S", "old"), status("S", "idle"), theAnswer, receipt("S", "OTHER"), turnEnd("S", `{"kind":"aborted","reason":{"kind":"user"}}`),
				status("S", "idle"), receipt("T", "M"), status("S", "idle"),
				receipt("S", "M"), status("S", "running"), answered("S", "hi"), turnEnd("S", completed), status("S", "idle")},
			events: plainEvents, want: plain,
		},
		{
			name: "nothing counts after the idle",
			script: []string{receipt("S", "M"), status("S", "running"), answered("S", "hi"), turnEnd("S", completed), status("S", "idle"),
				answered("S", "later"), turnEnd("S", `{"kind":"blocked"}`), status("S", "idle"), theAnswer},
			events: plainEvents, want: plain,
		},
		{
			name: "other sessions do not mix in",
			script: []string{theAnswer, receipt("S", "M"), receipt("T", "M"), status("S", "running"), status("T", "running"), started("T", "T1"), answered("T1", "no"),
				answered("T", "no"), status("T", "idle"), answered("S", "hi"), turnEnd("T", `{"kind":"blocked"}`), turnEnd("S", completed), finished("T", "T1"), status("S", "idle")},
			events: plainEvents, want: plain,
		},
		{
			name: "garbage, unknown ids and strange answers are skipped",
			script: []string{`garbage`, `{"half":`, `[]`, `"x"`, `{}`, `{} {}`, `{"jsonrpc":"2.0","id":"nobody","result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`,
				`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"no"}}`, strings.Repeat("[", 20000), "\xff\xfe{",
				theAnswer, theAnswer, receipt("S", "M"), "plugin printed this", status("S", "running"), answered("S", "hi"), turnEnd("S", completed), status("S", "idle")},
			events: plainEvents, want: plain,
		},
		{
			name: "unknown and malformed notifications",
			script: []string{theAnswer, receipt("S", "M"), status("S", "running"),
				`{"jsonrpc":"2.0","method":"runtime.heartbeat","params":{"time":1}}`,                               // in no session
				`{"jsonrpc":"2.0","method":"runtime.ready"}`,                                                       // without payload
				`{"jsonrpc":"2.0","method":"session.usage","params":{"sessionId":"S","turn":1}}`,                   // collected
				`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"S","event":{"seq":1}}}`,          // no type
				`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":7,"event":{"type":"a","seq":1}}}`, // no session
				`{"jsonrpc":"2.0","method":"session.status","params":{"sessionId":"S","status":1}}`,
				`{"jsonrpc":"2.0","method":"subagent.started","params":[]}`,
				answered("S", "hi"), turnEnd("S", completed), status("S", "idle")},
			events: []string{"S agent/inbox/spliced", "S running", "S session.usage", "S session.event", "S session.status", "S assistant/message", "S turn/end", "S idle"},
			want:   plain,
		},
		{
			name:   "subagents of the session, older ones and theirs belong to it",
			before: []string{started("S", "S1"), started("T", "T1")},
			script: []string{theAnswer, answered("S1", "not yet"), receipt("S", "M"), status("S1", "running"), answered("S1", "sub"), started("S1", "S2"), status("T1", "idle"),
				answered("S2", "subsub"), turnEnd("S2", `{"kind":"max-tokens"}`), status("S2", "idle"), finished("S1", "S2"), answered("S", "hi"), turnEnd("S", completed), status("S", "idle")},
			events: []string{"S agent/inbox/spliced", "S1 running", "S1 assistant/message", "S1 started S2", "S2 assistant/message", "S2 turn/end", "S2 idle",
				"S1 finished S2", "S assistant/message", "S turn/end", "S idle"},
			want: with(func(r *client.Result) { r.TreeUsage = usage(3) }),
		},
		{
			name:   "a lineage in a circle",
			before: []string{started("X", "Y"), started("Y", "X")},
			script: []string{theAnswer, receipt("S", "M"), status("X", "idle"), status("S", "running"), answered("S", "hi"), turnEnd("S", completed), status("S", "idle")},
			events: plainEvents, want: plain,
		},
		{
			name: "text is that of the last message, without reasoning and calls",
			script: []string{theAnswer, receipt("S", "M"), answered("S", "first"),
				event("S", "assistant/message", `{"turn":1,"step":2,"message":{"content":[{"type":"reasoning","text":"hm"},{"type":"text","text":"a"},{"type":"tool-call","id":"c","name":"n","arguments":"{}"},{"type":"newer","text":1},{"type":"text","text":"b"}]}}`),
				turnEnd("S", completed), status("S", "idle")},
			events: []string{"S agent/inbox/spliced", "S assistant/message", "S assistant/message", "S turn/end", "S idle"},
			want:   with(func(r *client.Result) { r.FinalText = "ab" }),
		},
		{
			name: "a last message without text has none",
			script: []string{theAnswer, receipt("S", "M"), answered("S", "first"),
				event("S", "assistant/message", `{"turn":1,"step":2,"message":{"content":[]},"usage":{"inputTokens":1,"outputTokens":2,"cacheReadTokens":3,"cacheWriteTokens":4,"reasoningTokens":1}}`),
				turnEnd("S", completed), status("S", "idle")},
			events: []string{"S agent/inbox/spliced", "S assistant/message", "S assistant/message", "S turn/end", "S idle"},
			want: with(func(r *client.Result) {
				r.FinalText = ""
				r.Usage = sdkproto.Usage{InputTokens: 11, OutputTokens: 5, CacheReadTokens: 3, CacheWriteTokens: 4, ReasoningTokens: 1}
				r.TreeUsage = r.Usage
			}),
		},
		{
			name:   "no turn at all",
			script: []string{theAnswer, receipt("S", "M"), status("S", "running"), status("S", "idle")},
			events: []string{"S agent/inbox/spliced", "S running", "S idle"},
			want:   client.Result{MessageID: "M"},
		},
		{
			name: "a failed turn",
			script: []string{theAnswer, receipt("S", "M"), status("S", "running"),
				turnEnd("S", `{"kind":"error","error":{"message":"no key","code":"AUTH","status":401,"requestId":"rid-1"}}`), status("S", "idle")},
			events: []string{"S agent/inbox/spliced", "S running", "S turn/end", "S idle"},
			want: client.Result{MessageID: "M", FinishReason: "error",
				Failure: &sdkproto.Failure{Message: "no key", Code: "AUTH", Status: 401, RequestID: "rid-1"}},
		},
		{
			name:   "a failed turn without details",
			script: []string{theAnswer, receipt("S", "M"), turnEnd("S", `{"kind":"error"}`), status("S", "idle")},
			events: []string{"S agent/inbox/spliced", "S turn/end", "S idle"},
			want:   client.Result{MessageID: "M", FinishReason: "error", Failure: &sdkproto.Failure{}},
		},
		{
			name: "the last of several turns decides",
			script: []string{theAnswer, receipt("S", "M"), turnEnd("S", `{"kind":"error","error":{"message":"x","code":"SERVER"}}`),
				status("S", "running"), answered("S", "hi"), turnEnd("S", completed), status("S", "idle")},
			events: []string{"S agent/inbox/spliced", "S turn/end", "S running", "S assistant/message", "S turn/end", "S idle"}, want: plain,
		},
		{
			name: "a reason of a newer server",
			script: []string{receipt("S", "M"), theAnswer, answered("S", "hi"),
				turnEnd("S", `{"kind":"paused","error":7,"reason":"why"}`), status("S", "idle")},
			events: []string{"S agent/inbox/spliced", "S assistant/message", "S turn/end", "S idle"},
			want:   with(func(r *client.Result) { r.FinishReason = "paused" }),
		},
		{
			name: "an answer that cannot be read",
			script: []string{theAnswer, receipt("S", "M"), event("S", "assistant/message", `{"message":{"content":"hi"},"usage":{"inputTokens":10,"outputTokens":3}}`),
				turnEnd("S", completed), status("S", "idle")},
			events: []string{"S agent/inbox/spliced", "S assistant/message", "S turn/end", "S idle"},
			want:   client.Result{MessageID: "M", FinishReason: "completed"}, err: client.ErrProtocol,
		},
		{
			name: "a block without a type",
			script: []string{theAnswer, receipt("S", "M"), event("S", "assistant/message", `{"message":{"content":[{"text":"hi"}]}}`),
				turnEnd("S", completed), status("S", "idle")},
			events: []string{"S agent/inbox/spliced", "S assistant/message", "S turn/end", "S idle"},
			want:   client.Result{MessageID: "M", FinishReason: "completed"}, err: client.ErrProtocol,
		},
		{
			name: "a text block without a text",
			script: []string{theAnswer, receipt("S", "M"), event("S", "assistant/message", `{"message":{"content":[{"type":"text","text":7}]}}`),
				turnEnd("S", `{"kind":"error","error":"x"}`), status("S", "idle")},
			events: []string{"S agent/inbox/spliced", "S assistant/message", "S turn/end", "S idle"},
			want:   client.Result{MessageID: "M"}, err: client.ErrProtocol,
		},
		{
			name: "a failure that cannot be read",
			script: []string{theAnswer, receipt("S", "M"), answered("S", "hi"),
				turnEnd("S", `{"kind":"error","error":"x"}`), status("S", "idle")},
			events: []string{"S agent/inbox/spliced", "S assistant/message", "S turn/end", "S idle"},
			want:   with(func(r *client.Result) { r.FinishReason = "" }), err: client.ErrProtocol,
		},
		{
			name:   "a turn end without a reason",
			script: []string{theAnswer, receipt("S", "M"), answered("S", "hi"), turnEnd("S", `{}`), status("S", "idle")},
			events: []string{"S agent/inbox/spliced", "S assistant/message", "S turn/end", "S idle"},
			want:   with(func(r *client.Result) { r.FinishReason = "" }), err: client.ErrProtocol,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := attach(t, client.Limits{}, func(p *peer, r request) bool {
				p.send(tt.before...)
				if r.Method == "flush" {
					p.answer(r, `{}`)
					return true
				}
				for _, line := range tt.script {
					if line == theAnswer {
						p.answer(r, `{"messageId":"M"}`)
					} else {
						p.send(line)
					}
				}
				return true
			})
			if err := c.Call(t.Context(), "flush", nil, nil); err != nil {
				t.Fatal(err)
			}
			run, err := c.Session("S").Run(t.Context(), sdkproto.Text("hello"))
			if err != nil {
				t.Fatal(err)
			}
			events, err := names(run.Events())
			if !errors.Is(err, tt.err) {
				t.Errorf("events ended with %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.events, events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			result, err := run.Result(deadline(t))
			if !errors.Is(err, tt.err) {
				t.Errorf("result: %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, result); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRunRequest checks what goes out (spec jsonrpc 2.2).
func TestRunRequest(t *testing.T) {
	seen := make(chan string, 1)
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		seen <- r.raw
		p.answer(r, `{"messageId":"M"}`)
		p.send(receipt("S", "M"), status("S", "idle"))
		return true
	})
	run, err := c.Session("S").Run(t.Context(), sdkproto.Text("a\nb"), sdkproto.Text("<&>"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(deadline(t)); err != nil {
		t.Fatal(err)
	}
	want := `{"jsonrpc":"2.0","id":"req_2","method":"session/prompt","params":{"sessionId":"S","contentBlocks":[{"type":"text","text":"a\nb"},{"type":"text","text":"<&>"}]}}`
	if run.MessageID() != "M" {
		t.Errorf("message id %q", run.MessageID())
	}
	if got := <-seen; got != want {
		t.Errorf("sent %s\nwant %s", got, want)
	}
}

// TestRunRefused: a prompt that was refused is no run (spec jsonrpc 12.6).
func TestRunRefused(t *testing.T) {
	tests := []struct {
		name   string
		answer string
		check  func(error) bool
	}{
		{"error answer", `"error":{"code":-32602,"message":"Image upload is not canonical base64.","data":{"code":"X"}}`, func(err error) bool {
			var e *sdkproto.RPCError
			return errors.As(err, &e) && e.Code == -32602 && e.Message == "Image upload is not canonical base64." && string(e.Data) == `{"code":"X"}`
		}},
		{"error beside a result", `"result":{"messageId":"M"},"error":{"code":-32603,"message":"no"}`, func(err error) bool {
			var e *sdkproto.RPCError
			return errors.As(err, &e) && e.Message == "no"
		}},
		{"no message id", `"result":{}`, func(err error) bool { return errors.Is(err, client.ErrProtocol) }},
		{"message id of a wrong type", `"result":{"messageId":7}`, func(err error) bool { return errors.Is(err, client.ErrProtocol) }},
		{"result that is no object", `"result":[]`, func(err error) bool { return errors.Is(err, client.ErrProtocol) }},
		{"neither result nor error", `"error":null`, func(err error) bool { return errors.Is(err, client.ErrProtocol) }},
		{"malformed error", `"error":{"code":"x"}`, func(err error) bool { return errors.Is(err, client.ErrProtocol) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := attach(t, client.Limits{}, func(p *peer, r request) bool {
				p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, r.ID, tt.answer))
				return true
			})
			if _, err := c.Session("S").Run(t.Context(), sdkproto.Text("x")); !tt.check(err) {
				t.Errorf("run: %v", err)
			}
		})
	}
}

// TestRunServerGone: what the server sent comes first, then the news.
func TestRunServerGone(t *testing.T) {
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		p.answer(r, `{"messageId":"M"}`)
		p.send(receipt("S", "M"), status("S", "running"), answered("S", "half"))
		return false
	})
	run, err := c.Session("S").Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	result, err := run.Result(deadline(t))
	if !errors.Is(err, client.ErrLost) || result.FinalText != "half" {
		t.Errorf("result %q, %v", result.FinalText, err)
	}
	if err := c.Call(t.Context(), "x", nil, nil); !errors.Is(err, client.ErrLost) {
		t.Errorf("call: %v", err)
	}
	if _, err := c.Session("S").Run(t.Context()); !errors.Is(err, client.ErrLost) {
		t.Errorf("run: %v", err)
	}
	if _, err := names(c.Notifications(t.Context())); !errors.Is(err, client.ErrLost) {
		t.Errorf("notifications: %v", err)
	}
}

func TestRunServerGoneEvents(t *testing.T) {
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		p.answer(r, `{"messageId":"M"}`)
		p.send(receipt("S", "M"), status("S", "running"), answered("S", "half"))
		return false
	})
	run, err := c.Session("S").Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	events := run.Events()
	if _, err := run.Result(deadline(t)); !errors.Is(err, client.ErrLost) {
		t.Fatalf("result: %v", err)
	}
	got, err := names(events)
	if !errors.Is(err, client.ErrLost) {
		t.Errorf("events ended with %v", err)
	}
	if diff := cmp.Diff([]string{"S agent/inbox/spliced", "S running", "S assistant/message"}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestRunEndsWithServer: a server that does all its work, answers and ends at
// once has done the work.
func TestRunEndsWithServer(t *testing.T) {
	for range 50 {
		c := attach(t, client.Limits{}, func(p *peer, r request) bool {
			p.send(receipt("S", "M"), answered("S", "hi"), turnEnd("S", completed), status("S", "idle"))
			p.answer(r, `{"messageId":"M"}`)
			return false
		})
		run, err := c.Session("S").Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if result, err := run.Result(deadline(t)); err != nil || result.FinalText != "hi" {
			t.Fatalf("result %q, %v", result.FinalText, err)
		}
	}
}

// TestRunCancel: the context ends the waiting and nothing else.
func TestRunCancel(t *testing.T) {
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		switch r.Method {
		case sdkproto.MethodSessionPrompt:
			p.answer(r, `{"messageId":"M"}`)
			p.send(receipt("S", "M"), status("S", "running"))
		case "finish":
			p.send(answered("S", "hi"), status("S", "idle"))
			p.answer(r, `{}`)
		}
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	all := c.Notifications(t.Context())
	run, err := c.Session("S").Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	waiting, stop := context.WithCancel(t.Context())
	stop()
	if _, err := run.Result(waiting); !errors.Is(err, context.Canceled) {
		t.Errorf("result of a canceled wait: %v", err)
	}
	cancel()
	if _, err := run.Result(deadline(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("result of a canceled run: %v", err)
	}
	if _, err := names(run.Events()); err == nil {
		t.Error("events of a canceled run ended without an error")
	}
	if err := c.Call(t.Context(), "finish", nil, nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	for n, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, name(n))
		if n.Status == sdkproto.StatusIdle {
			break
		}
	}
	want := []string{"S agent/inbox/spliced", "S running", "S assistant/message", "S idle"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the turn did not go on (-want +got):\n%s", diff)
	}
}

func TestRunCancelBeforeAnswer(t *testing.T) {
	arrived := make(chan struct{})
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		if r.Method == sdkproto.MethodSessionPrompt {
			close(arrived)
		} else {
			p.answer(r, `{}`)
		}
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := c.Session("S").Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v", err)
	}
	if _, err := c.Session("S").Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("run with an ended context: %v", err)
	}
	if err := c.Call(t.Context(), "next", nil, nil); err != nil {
		t.Errorf("next call: %v", err)
	}
}

// chunk is an event of about n bytes.
func chunk(session string, n int) string {
	return event(session, "assistant/chunk", fmt.Sprintf(`{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":%q}}`, strings.Repeat("x", n)))
}

// TestRunUnread: events that nobody reads are bounded, and harm neither the
// outcome of their run nor another session.
func TestRunUnread(t *testing.T) {
	// What comes before Run has returned has a bound of its own.
	begun := make(chan struct{})
	c := attach(t, client.Limits{Queue: 64 << 10}, func(p *peer, r request) bool {
		session := "SLOW"
		if strings.Contains(string(r.Params), `"FAST"`) {
			session = "FAST"
		}
		p.answer(r, `{"messageId":"M"}`)
		p.send(receipt(session, "M"))
		if session == "SLOW" {
			select {
			case <-begun:
			case <-t.Context().Done():
			}
			for range 100 {
				p.send(chunk(session, 10_000))
			}
		}
		p.send(answered(session, "hi from "+session), turnEnd(session, completed), status(session, "idle"))
		return true
	})
	slow, err := c.Session("SLOW").Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	close(begun)
	events := slow.Events()
	fast, err := c.Session("FAST").Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if result, err := fast.Result(deadline(t)); err != nil || result.FinalText != "hi from FAST" {
		t.Errorf("fast: %q, %v", result.FinalText, err)
	}
	if result, err := slow.Result(deadline(t)); err != nil || result.FinalText != "hi from SLOW" {
		t.Errorf("slow: %q, %v", result.FinalText, err)
	}
	got, err := names(events)
	if !errors.Is(err, client.ErrMissed) {
		t.Errorf("events ended with %v", err)
	}
	// 64 KiB hold six chunks of a little more than 10,000 bytes and the receipt.
	if len(got) != 7 || got[0] != "SLOW agent/inbox/spliced" {
		t.Errorf("%d events: %v", len(got), got)
	}
}

// TestRunReadLate: what fits waits for its reader, in parts as well.
func TestRunReadLate(t *testing.T) {
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		p.answer(r, `{"messageId":"M"}`)
		p.send(receipt("S", "M"))
		for range 5000 {
			p.send(chunk("S", 10))
		}
		p.send(status("S", "idle"))
		return true
	})
	run, err := c.Session("S").Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	events := run.Events()
	if _, err := run.Result(deadline(t)); err != nil {
		t.Fatal(err)
	}
	total, text := 0, 0
	for total < 5002 {
		before := total
		for n, err := range run.Events() {
			if err != nil {
				t.Fatal(err)
			}
			if s, ok := n.TextDelta(); ok {
				text += len(s)
			}
			total++
			if total-before == 700 {
				break
			}
		}
		if total == before {
			t.Fatalf("events ended after %d", total)
		}
	}
	if text != 50_000 {
		t.Errorf("%d bytes of text", text)
	}
	if rest, err := names(events); len(rest) != 0 || err != nil {
		t.Errorf("behind the end: %v, %v", rest, err)
	}
}

// TestRunResultFirst: the events of a run whose result alone was asked for are
// not kept, and say so.
func TestRunResultFirst(t *testing.T) {
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		p.answer(r, `{"messageId":"M"}`)
		p.send(receipt("S", "M"), status("S", "idle"))
		return true
	})
	run, err := c.Session("S").Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if got, err := names(run.Events()); len(got) != 0 || !errors.Is(err, client.ErrMissed) {
		t.Errorf("events %v, %v", got, err)
	}
}

// TestRunFlooded: a bound also holds before the answer to the prompt.
func TestRunFlooded(t *testing.T) {
	c := attach(t, client.Limits{Queue: 32 << 10}, func(p *peer, r request) bool {
		p.send(receipt("S", "M"))
		for range 10 {
			p.send(chunk("S", 10_000))
		}
		p.answer(r, `{"messageId":"M"}`)
		p.send(status("S", "idle"))
		return true
	})
	run, err := c.Session("S").Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(deadline(t)); !errors.Is(err, client.ErrMissed) {
		t.Errorf("result: %v", err)
	}
}

// TestRunLarge: a frame of 30 MB goes through (spec jsonrpc 1.1).
func TestRunLarge(t *testing.T) {
	const size = 30_000_000
	half, rest, _ := strings.Cut(answered("S", "TEXT"), "TEXT")
	large := half + strings.Repeat("x", size) + rest
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		p.answer(r, `{"messageId":"M"}`)
		p.send(receipt("S", "M"), large, turnEnd("S", completed), status("S", "idle"))
		return true
	})
	run, err := c.Session("S").Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	events, err := names(run.Events())
	if err != nil || len(events) != 4 {
		t.Errorf("events %v, %v", events, err)
	}
	result, err := run.Result(deadline(t))
	if err != nil || len(result.FinalText) != size {
		t.Errorf("%d bytes of text, %v", len(result.FinalText), err)
	}
}

// TestRunsTogether: two runs on one session end at the same idle, each with what
// came since its own receipt (spec jsonrpc 7.2).
func TestRunsTogether(t *testing.T) {
	prompts := 0
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		prompts++
		p.answer(r, fmt.Sprintf(`{"messageId":"M%d"}`, prompts))
		p.send(receipt("S", fmt.Sprintf("M%d", prompts)))
		if prompts == 2 {
			p.send(answered("S", "one"), turnEnd("S", completed), answered("S", "two"), turnEnd("S", completed), status("S", "idle"))
		}
		return true
	})
	first, err := c.Session("S").Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Session("S").Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, run := range []*client.Run{first, second} {
		events := run.Events()
		result, err := run.Result(deadline(t))
		if err != nil || result.FinalText != "two" || result.MessageID != fmt.Sprintf("M%d", i+1) {
			t.Errorf("run %d: %+v, %v", i+1, result, err)
		}
		got, err := names(events)
		if want := 7 - i; err != nil || len(got) != want {
			t.Errorf("run %d: %d events, want %d; %v", i+1, len(got), want, err)
		}
	}
}

// BenchmarkRun follows a run of small chunks, every event read.
func BenchmarkRun(b *testing.B) {
	piece := chunk("S", 20) + "\n"
	fromClient, toServer := io.Pipe()
	fromServer, toClient, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		p := newPeer(fromClient, toClient)
		p.serve(func(r request) bool {
			p.answer(r, `{"messageId":"M"}`)
			p.send(receipt("S", "M"))
			w := bufio.NewWriterSize(toClient, 32<<10)
			for range b.N {
				w.WriteString(piece)
			}
			w.Flush()
			p.send(status("S", "idle"))
			return true
		})
	}()
	c, err := client.Attach(b.Context(), fromServer, toServer, sdkproto.InitializeParams{}, client.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(piece)))
	run, err := c.Session("S").Run(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, err := range run.Events() {
		if err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if err := c.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	<-served
}
