package jsonrpc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"dsh/kernel/approval"
	"dsh/plugins/jsonrpc"
	"dsh/sdkproto"
)

const withApprovals = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"cwd":"/w","provider":"scripted","model":"m","capabilities":{"approvals":true}}}`

// asker is a server in which each turn whose text begins with "ask" puts a
// question, and says in an event how it was settled.
func asker(t *testing.T, limit time.Duration) (*peer, *approval.Desk) {
	desk := approval.NewDesk()
	p := serve(t, setup{options: func(o *jsonrpc.Options) { o.Approvals, o.ApprovalTimeout = desk, limit }}, func(r *fakeRegistry) {
		r.step = func(ctx context.Context, a *fakeAgent, m sdkproto.Message) {
			if !strings.HasPrefix(sdkproto.TextOf(m.Content), "ask") {
				return
			}
			if strings.HasSuffix(sdkproto.TextOf(m.Content), "behind much") {
				for range 5000 {
					a.append("test/much", struct{}{})
				}
			}
			a.append("test/asked", struct{}{})
			a.append("test/decided", decide(ctx, desk, a.ID()))
		}
	})
	return p, desk
}

type decided struct {
	Outcome, Message, Arguments, Error string
}

func decide(ctx context.Context, desk *approval.Desk, id string) decided {
	to := desk.For(id)
	if to == nil {
		return decided{Outcome: "nobody"}
	}
	answer, err := to.Approve(ctx, approval.Request{
		ID: "q-" + id, SessionID: id, ToolName: "bash", CallID: "c1", Arguments: json.RawMessage(`{"command":"make"}`), Reason: "it writes",
	})
	d := decided{Outcome: string(answer.Outcome), Message: answer.Message, Arguments: string(answer.Arguments)}
	if err != nil {
		d.Error = err.Error()
	}
	return d
}

// question reads to the next approval/request, and gives its id as JSON.
func (p *peer) question() (id string, before []string) {
	p.t.Helper()
	lines := p.until(`"method":"approval/request"`)
	var f struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &f); err != nil || len(f.ID) == 0 {
		p.t.Fatalf("no request: %s", lines[len(lines)-1])
	}
	return string(f.ID), lines
}

// settled reads to the event that says how the question was settled.
func (p *peer) settled() (d decided, lines []string) {
	p.t.Helper()
	lines = p.until(`"type":"test/decided"`)
	var f struct {
		Params struct{ Event struct{ Data decided } }
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &f); err != nil {
		p.t.Fatal(err)
	}
	return f.Params.Event.Data, lines
}

// Spec jsonrpc 13.3: the request, byte for byte, behind the events that lead to
// it.
func TestApprovalRequest(t *testing.T) {
	p, _ := asker(t, time.Minute)
	p.send(withApprovals, prompt("1", "s", "ask behind much"))
	id, lines := p.question()
	want := `{"jsonrpc":"2.0","id":` + id + `,"method":"approval/request","params":{"id":"q-s","sessionId":"s","toolName":"bash","callId":"c1","arguments":{"command":"make"},"reason":"it writes"}}`
	if got := lines[len(lines)-1]; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if events := kinds(t, lines); events[len(events)-1] != "test/asked" {
		t.Errorf("before the request: %q", events[len(events)-1])
	}
	p.send(`{"jsonrpc":"2.0","id":` + id + `,"result":{"outcome":"allowed-once"}}`)
	d, lines := p.settled()
	if diff := gocmp.Diff(decided{Outcome: "allowed-once"}, d); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(strings.Join(lines, "\n"), "approval/cancelled") {
		t.Error("an answered question is taken back")
	}
}

// Case B21: only the exact word of consent is one; frames that answer something
// else answer nothing.
func TestApprovalAnswers(t *testing.T) {
	const misunderstood = `the client's answer was not understood: outcome must be "allowed-once" or "rejected"`
	for _, tc := range []struct {
		name, members string
		want          decided
	}{
		{"consent", `"result":{"outcome":"allowed-once","other":1}`, decided{Outcome: "allowed-once"}},
		{"consent has no message", `"result":{"outcome":"allowed-once","message":"x"}`, decided{Outcome: "allowed-once"}},
		{"refusal", `"result":{"outcome":"rejected"}`, decided{Outcome: "rejected"}},
		{"refusal with a reason", `"result":{"outcome":"rejected","message":"not on Fridays"}`, decided{Outcome: "rejected", Message: "not on Fridays"}},
		{"refusal with an odd reason", `"result":{"outcome":"rejected","message":7}`, decided{Outcome: "rejected"}},
		{"capitals", `"result":{"outcome":"ALLOWED-ONCE"}`, decided{Outcome: "unavailable", Message: misunderstood}},
		{"another member", `"result":{"Outcome":"allowed-once"}`, decided{Outcome: "unavailable", Message: misunderstood}},
		{"another word", `"result":{"outcome":"maybe"}`, decided{Outcome: "unavailable", Message: misunderstood}},
		{"a word of the other wire", `"result":{"behavior":"allow"}`, decided{Outcome: "unavailable", Message: misunderstood}},
		{"true", `"result":{"outcome":true}`, decided{Outcome: "unavailable", Message: misunderstood}},
		{"a list", `"result":{"outcome":["allowed-once"]}`, decided{Outcome: "unavailable", Message: misunderstood}},
		{"empty", `"result":{}`, decided{Outcome: "unavailable", Message: misunderstood}},
		{"null", `"result":null`, decided{Outcome: "unavailable", Message: misunderstood}},
		{"a text", `"result":"allowed-once"`, decided{Outcome: "unavailable", Message: misunderstood}},
		{"nothing", `"other":1`, decided{Outcome: "unavailable", Message: misunderstood}},
		{"error", `"error":{"code":-32601,"message":"unknown method"}`, decided{Outcome: "unavailable", Message: "the client could not answer: unknown method"}},
		{"error beside a result", `"result":{"outcome":"allowed-once"},"error":{"code":1}`, decided{Outcome: "unavailable", Message: "the client could not answer: no reason given"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, _ := asker(t, time.Minute)
			p.send(withApprovals, prompt("1", "s", "ask"))
			id, _ := p.question()
			const consent = `,"result":{"outcome":"allowed-once"}}`
			p.send(`{"id":"someone-else"`+consent, `{"id":1`+consent, `{"id":"q-s"`+consent, `{"id":""`+consent, `{"id":null`+consent, `[{"id":`+id+consent+`]`)
			p.send(`{"jsonrpc":"2.0","id":` + id + `,` + tc.members + `}`)
			d, _ := p.settled()
			if diff := gocmp.Diff(tc.want, d); diff != "" {
				t.Error(diff)
			}
			// An answer again is nobody's.
			p.send(`{"jsonrpc":"2.0","id":`+id+consent, probe)
			if a, _ := p.answer(`"probe"`); a != probed {
				t.Errorf("got %s", a)
			}
			// B21: who reads the log learns which member was wrong.
			if understood := tc.want.Message != misunderstood; understood == strings.Contains(p.logs.String(), "result.outcome") {
				t.Errorf("log:\n%s", p.logs)
			}
		})
	}
}

// Case B20: without a client that answers nobody is asked.
func TestApprovalsAreAskedFor(t *testing.T) {
	p, desk := asker(t, time.Minute)
	p.begin()
	p.send(prompt("1", "s", "ask"))
	if d, lines := p.settled(); d.Outcome != "nobody" || strings.Contains(strings.Join(lines, ""), "approval/request") {
		t.Errorf("got %+v", d)
	}
	p.send(withApprovals)
	p.answer(`"i"`)
	if desk.For("s") == nil {
		t.Error("nobody serves a client that answers")
	}
	p.send(`{"id":2,"method":"initialize","params":{"cwd":"/w","provider":"scripted","model":"m","capabilities":{"approvals":"yes"}}}`)
	if a, _ := p.answer("2"); a != failed("2", -32602, `"initialize capabilities.approvals must be true or false"`) {
		t.Errorf("got %s", a)
	}
	if desk.For("s") == nil {
		t.Error("a failed handshake takes it back")
	}
	p.send(initialize)
	p.answer(`"i"`)
	if desk.For("s") != nil {
		t.Error("a later handshake does not take it back")
	}
}

// Cases B20 and B95: a client that does not answer holds up one session, and
// that one not for ever; what is waited for no more is taken back.
func TestApprovalTimeout(t *testing.T) {
	p, _ := asker(t, 500*time.Millisecond)
	p.send(withApprovals, prompt("1", "s", "ask"))
	p.question()
	p.send(prompt("2", "other", "go"))
	p.until(`"params":{"sessionId":"other","status":"idle"}`)
	d, lines := p.settled()
	if diff := gocmp.Diff(decided{Outcome: "unavailable", Message: "the client did not answer within 500ms"}, d); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(strings.Join(lines, "\n"), `{"jsonrpc":"2.0","method":"approval/cancelled","params":{"id":"q-s","sessionId":"s"}}`); n != 1 {
		t.Errorf("taken back %d times", n)
	}
}

// A turn that is cancelled, an end of input and a shutdown settle the question.
func TestApprovalEnds(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(*peer)
		want decided
	}{
		{"cancelled turn", func(p *peer) { p.send(`{"id":5,"method":"session/cancel","params":{"sessionId":"s"}}`) }, decided{Outcome: "cancelled"}},
		{"shutdown", func(p *peer) { p.send(shutdown) }, decided{Outcome: "cancelled"}},
		{"end of input", func(p *peer) { p.in.Close() }, decided{Outcome: "unavailable", Message: "the client has ended its input"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, _ := asker(t, 0)
			p.send(withApprovals, prompt("1", "s", "ask"))
			p.question()
			tc.end(p)
			d, lines := p.settled()
			if diff := gocmp.Diff(tc.want, d); diff != "" {
				t.Error(diff)
			}
			if !strings.Contains(strings.Join(lines, "\n"), "approval/cancelled") {
				t.Error("the question is not taken back")
			}
		})
	}
	t.Run("unloaded row", func(t *testing.T) {
		desk := approval.NewDesk()
		p := serve(t, setup{options: func(o *jsonrpc.Options) { o.Approvals = desk }})
		p.send(withApprovals)
		p.answer(`"i"`)
		outcome := make(chan decided, 1)
		go func() { outcome <- decide(context.Background(), desk, "s") }()
		p.question()
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		defer cancel()
		if err := p.row.Close(ctx); err != nil {
			t.Error(err)
		}
		select {
		case d := <-outcome:
			if d.Outcome == "allowed-once" || d.Outcome == "" {
				t.Errorf("got %+v", d)
			}
		case <-time.After(hang):
			t.Fatal("the question is still open")
		}
		if desk.For("s") != nil {
			t.Error("the row is gone and serves")
		}
	})
}

// What waits for the client is bounded; beyond that nobody can be asked.
func TestApprovalBound(t *testing.T) {
	desk := approval.NewDesk()
	p := serve(t, setup{options: func(o *jsonrpc.Options) { o.Approvals = desk }})
	p.send(withApprovals)
	p.answer(`"i"`)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const bound = 256
	outcomes := make(chan decided, bound+1)
	for i := range bound {
		go func() { outcomes <- decide(ctx, desk, fmt.Sprint("s", i)) }()
	}
	ids := map[string]bool{}
	for range bound {
		id, _ := p.question()
		ids[id] = true
	}
	if len(ids) != bound {
		t.Errorf("%d ids", len(ids))
	}
	if d := decide(ctx, desk, "one more"); d.Outcome != "unavailable" || !strings.Contains(d.Message, "256 questions") {
		t.Errorf("got %+v", d)
	}
	cancel()
	for range bound {
		if d := <-outcomes; d.Outcome != "cancelled" {
			t.Errorf("got %+v", d)
		}
	}
}
