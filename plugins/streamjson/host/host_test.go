package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"dsh/plugins/streamjson/host"
)

type marked struct {
	Subtype string `json:"subtype"`
	N       int    `json:"n"`
}

// TestAsk: requests have the shape of spec stream-json 3.12 with ids that are UUIDs
// of version 4 and never the same; answers find their requests in any order, and
// the harness reads on while others wait (B08, F16).
func TestAsk(t *testing.T) {
	c := connect(t)
	const many = 40
	var outcomes []<-chan asked
	ids := map[int]string{}
	for n := range many {
		outcomes = append(outcomes, c.ask(t.Context(), marked{"test", n}))
		r := c.next()
		var m marked
		if err := json.Unmarshal(r.Request, &m); err != nil || m != (marked{"test", n}) || r.Type != "control_request" {
			t.Fatalf("line %s", r.line)
		}
		if u, err := uuid.Parse(r.ID); err != nil || u.Version() != 4 || u.String() != r.ID {
			t.Errorf("id %q is no UUID v4", r.ID)
		}
		for _, other := range ids {
			if other == r.ID {
				t.Errorf("id %s came twice", r.ID)
			}
		}
		ids[n] = r.ID
	}
	for n := many - 1; n >= 0; n-- {
		c.answer(ids[n], fmt.Sprintf(`{"n":%d}`, n))
	}
	for n, outcome := range outcomes {
		if got, want := wait(t, outcome), (asked{fmt.Sprintf(`{"n":%d}`, n), nil}); got != want {
			t.Errorf("answer %d: %v", n, got)
		}
	}
	c.quiet()
}

// TestAnswers: what a control_response says, and what is nobody's (spec
// stream-json 2.3, checklist 23).
func TestAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		// rest stands behind the id in the response object.
		rest, response, refused string
	}{
		"success":             {`,"subtype":"success","response":{"a":1}`, `{"a":1}`, ""},
		"no inner response":   {`,"subtype":"success"`, ``, ""},
		"null":                {`,"subtype":"success","response":null`, `null`, ""},
		"unknown members":     {`,"subtype":"success","response":{},"toolUseID":"t","x":[1]`, `{}`, ""},
		"refused":             {`,"subtype":"error","error":"no such thing","error_code":"x"`, ``, "no such thing"},
		"refused silently":    {`,"subtype":"error"`, ``, "the client refused without a reason"},
		"refused oddly":       {`,"subtype":"error","error":{"a":1}`, ``, "the client refused without a reason"},
		"no subtype":          {`,"response":{}`, ``, `the client's answer is invalid: its subtype is "", not success or error`},
		"other subtype":       {`,"subtype":"Success","response":{}`, ``, `the client's answer is invalid: its subtype is "Success", not success or error`},
		"other case of names": {`,"Subtype":"success","response":{}`, ``, `the client's answer is invalid: its subtype is "", not success or error`},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t)
			outcome := c.ask(t.Context(), marked{"test", 0})
			id := c.next().ID
			for _, nobodys := range []string{
				`{"subtype":"success","request_id":"","response":{"wrong":1}}`, `{"subtype":"success","response":{"wrong":1}}`,
				`{"subtype":"success","request_id":"other","response":{"wrong":1}}`, `{"subtype":"success","request_id":[1]}`,
				`null`, `[]`, `"text"`, `{"subtype":"success","Request_ID":"` + id + `","response":{"wrong":1}}`,
			} {
				c.write(`{"type":"control_response","response":` + nobodys + `}`)
			}
			c.write(`{"type":"control_response"}`)
			c.write(`{"type":"control_response","response":{"request_id":"` + id + `"` + tc.rest + `}}`)
			c.answer(id, `{"second":true}`)
			got := wait(t, outcome)
			if tc.refused == "" {
				if got != (asked{tc.response, nil}) {
					t.Errorf("got %v", got)
				}
			} else {
				var refused *host.RefusedError
				if !errors.As(got.err, &refused) || *refused != (host.RefusedError{Subtype: "test", Message: tc.refused}) || got.response != "" {
					t.Errorf("got %v", got)
				}
			}
			c.quiet()
		})
	}
}

// TestWithdrawal: a request that is not wanted any more is withdrawn with one
// line, written when Ask returns, and its late answer is nobody's (S070). One
// that is answered is not withdrawn.
func TestWithdrawal(t *testing.T) {
	c := connect(t)
	why := errors.New("the turn was interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	outcome := c.ask(ctx, marked{"test", 1})
	id := c.next().ID
	answered := c.ask(ctx, marked{"test", 2})
	c.answer(c.next().ID, `{}`)
	if got := wait(t, answered); got.err != nil {
		t.Fatal(got.err)
	}
	cancel(why)
	if got := wait(t, outcome); !errors.Is(got.err, why) {
		t.Errorf("got %v", got)
	}
	if r, want := c.next(), `{"type":"control_cancel_request","request_id":"`+id+"\"}\n"; r.line != want {
		t.Errorf("got %s, want %s", r.line, want)
	}
	c.answer(id, `{}`)
	if _, err := c.Ask(ctx, marked{"test", 3}); !errors.Is(err, why) {
		t.Errorf("a question that nobody wants: %v", err)
	}
	c.quiet()
}

// TestClose: what waits when the client's end closes fails at once and is not
// withdrawn; nothing is asked any more (B09, F14).
func TestClose(t *testing.T) {
	c := connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var outcomes []<-chan asked
	for n := range 5 {
		outcomes = append(outcomes, c.ask(ctx, marked{"test", n}))
		c.next()
	}
	if !c.Open() {
		t.Error("closed too soon")
	}
	c.hangUp()
	for _, outcome := range outcomes {
		if got := wait(t, outcome); got != (asked{"", host.ErrClosed}) {
			t.Errorf("got %v", got)
		}
	}
	if _, err := c.Ask(ctx, marked{"test", 9}); !errors.Is(err, host.ErrClosed) {
		t.Errorf("asked after the end: %v", err)
	}
	if got := c.Pending("test"); len(got) != 0 {
		t.Errorf("still pending: %s", got)
	}
	cancel()
	c.Close()
	c.quiet()
}

// TestFullWire: a client that does not read holds up neither those who stop
// waiting nor Close, and after Close nothing is written.
func TestFullWire(t *testing.T) {
	var begun, inside atomic.Int64
	h := host.New(func(ctx context.Context, _ []byte) error {
		begun.Add(1)
		inside.Add(1)
		defer inside.Add(-1)
		<-ctx.Done()
		time.Sleep(20 * time.Millisecond)
		return ctx.Err()
	}, nil)
	outcomes := make(chan error, 2)
	ask := func(ctx context.Context) {
		_, err := h.Ask(ctx, marked{Subtype: "test"})
		outcomes <- err
	}
	ctx, cancel := context.WithCancel(t.Context())
	go ask(ctx)
	go ask(ctx)
	for len(h.Pending("test")) < 2 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	for range 2 {
		if err := wait(t, outcomes); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	go ask(t.Context())
	go ask(t.Context())
	for len(h.Pending("test")) < 2 {
		time.Sleep(time.Millisecond)
	}
	closed := make(chan struct{})
	go func() { h.Close(); close(closed) }()
	wait(t, closed)
	if inside.Load() != 0 {
		t.Error("a line is still being written after the end")
	}
	before := begun.Load()
	for range 2 {
		if err := wait(t, outcomes); !errors.Is(err, host.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
	ask(t.Context())
	if err := wait(t, outcomes); !errors.Is(err, host.ErrClosed) || begun.Load() != before {
		t.Errorf("got %v, %d lines after the end", err, begun.Load()-before)
	}
}

// TestSameMoment: an answer that comes as its question's context ends counts, and
// nothing is withdrawn.
func TestSameMoment(t *testing.T) {
	for range 50 {
		lines := 0
		var h *host.Host
		ctx, cancel := context.WithCancel(t.Context())
		h = host.New(func(_ context.Context, line []byte) error {
			lines++
			var r request
			if err := json.Unmarshal(line, &r); err != nil {
				t.Error(err)
			}
			h.Answer(fmt.Appendf(nil, `{"subtype":"success","request_id":%q,"response":{}}`, r.ID))
			cancel()
			return nil
		}, nil)
		if got, err := h.Ask(ctx, marked{Subtype: "test"}); string(got) != "{}" || err != nil || lines != 1 {
			t.Errorf("got %s, %v, %d lines", got, err, lines)
		}
		h.Close()
	}
}

// TestNotWritten: a request that never reached the wire is not withdrawn.
func TestNotWritten(t *testing.T) {
	broken := errors.New("broken pipe")
	lines := 0
	h := host.New(func(context.Context, []byte) error { lines++; return broken }, nil)
	defer h.Close()
	if _, err := h.Ask(t.Context(), marked{Subtype: "test"}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if lines != 1 || len(h.Pending("test")) != 0 {
		t.Errorf("%d lines, pending %s", lines, h.Pending("test"))
	}
	if _, err := h.Ask(t.Context(), struct{}{}); err == nil || lines != 1 {
		t.Errorf("a request without a subtype: %v, %d lines", err, lines)
	}
}

// TestPending gives the lines that wait, as they were written and in order (spec
// stream-json 4.1).
func TestPending(t *testing.T) {
	c := connect(t)
	var want, ids []string
	var outcomes []<-chan asked
	for n := range 6 {
		subtype := []string{"can_use_tool", "hook_callback"}[n%2]
		outcomes = append(outcomes, c.ask(t.Context(), marked{subtype, n}))
		r := c.next()
		ids = append(ids, r.ID)
		if n%2 == 0 && n != 2 {
			want = append(want, r.line[:len(r.line)-1])
		}
	}
	c.answer(ids[2], `{}`)
	wait(t, outcomes[2])
	var got []string
	for _, line := range c.Pending("can_use_tool") {
		got = append(got, string(line))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	c.hangUp()
}

// TestRace: answers, withdrawals and the end come at once; every question gets one
// outcome, and only what was withdrawn before the end has a line for it.
func TestRace(t *testing.T) {
	c := connect(t)
	type pair struct {
		outcome <-chan asked
		id      string
		cancel  context.CancelFunc
	}
	var all []pair
	for n := range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		all = append(all, pair{c.ask(ctx, marked{"test", n}), c.next().ID, cancel})
	}
	go func() {
		for i, p := range all {
			if i == 150 {
				c.Close()
			}
			p.cancel()
		}
	}()
	for _, p := range all[:150] {
		c.answer(p.id, `{}`)
	}
	cancelled := 0
	for i, p := range all {
		switch got := wait(t, p.outcome); {
		case got.err == nil && i < 150, errors.Is(got.err, host.ErrClosed):
		case errors.Is(got.err, context.Canceled):
			cancelled++
		default:
			t.Errorf("question %d: %v", i, got)
		}
	}
	c.quietAfter(cancelled)
}

// quietAfter reads at most so many withdrawals, and then nothing.
func (c *client) quietAfter(most int) {
	c.t.Helper()
	seen := map[string]bool{}
	for {
		select {
		case r := <-c.got:
			if r.Type != "control_cancel_request" || seen[r.ID] || len(seen) == most {
				c.t.Errorf("unexpected line %s", r.line)
			}
			seen[r.ID] = true
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
}
