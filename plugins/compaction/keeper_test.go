package compaction_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// filled is a session that is just below the limit: the next prompt is over it.
func filled(t *testing.T, m *narrow, home, config string) *rig {
	t.Helper()
	r := boot(t, m, home, config)
	for {
		u := r.usage()
		if tokens, _ := u.Context(); tokens > limit*8/10-600 {
			break
		}
		r.completes("say 500")
	}
	m.take()
	if lines := compactions(t, r.new()); len(lines) > 0 {
		t.Fatalf("compacted too early: %q", lines)
	}
	return r
}

// long is a prompt that fills what filled has left.
var long = strings.Repeat("more ", 500)

// A turn of many steps outgrows the model by itself: the work is summarised and
// the prompt stays, and the request for the summary begins as the one before it
// did (S137, spec jsonrpc 10.7).
func TestLongTurn(t *testing.T) {
	for _, tc := range []struct {
		name, arguments string
		calls           int
	}{
		{"results", `{"tokens":400}`, 50},
		{"large results", `{"tokens":1900}`, 15},
		{"large calls", `{"tokens":2,"note":"` + strings.Repeat("note", 700) + `"}`, 25},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &narrow{window: limit, limit: limit, calls: tc.calls, arguments: tc.arguments}
			r := boot(t, m, "", "{}")
			r.completes("THE TASK")
			requests := m.take()
			if refused, summaries := few(t, requests); refused > 0 || summaries < 3 || summaries > 12 {
				t.Errorf("%d refused, %d summaries", refused, summaries)
			}
			for _, l := range compactions(t, r.new()) {
				if l != "start" && l != "summary" && l != "end" {
					t.Errorf("event %q", l)
				}
			}
			for i, a := range requests {
				if !strings.Contains(texts(a.Messages), "THE TASK") {
					t.Errorf("request %d does not have the prompt", i)
				}
				if !a.summary {
					continue
				}
				before := requests[i-1]
				n := min(len(before.Messages), len(a.Messages)-1)
				if got, want := encode(t, a.Messages[:n]), encode(t, before.Messages[:n]); n < 3 || got != want {
					t.Errorf("request %d has not the %d messages of the one before", i, n)
				}
				if a.Header.System != before.Header.System || len(a.Header.Tools) != 1 || cmp.Diff(before.Header.Tools, a.Header.Tools) != "" {
					t.Errorf("request %d has another header", i)
				}
				if got := a.Header.Config.MaxTokens; got != limit/4 {
					t.Errorf("a summary may have %d tokens", got)
				}
			}
			intact(t, r)
		})
	}
}

// Many results at once, none of them large, are cut as far as it takes.
func TestManyResults(t *testing.T) {
	for name, model := range models {
		t.Run(name, func(t *testing.T) {
			m := model()
			m.calls, m.atOnce, m.arguments = 1, 8, `{"tokens":1900}`
			r := boot(t, m, "", "{}")
			r.completes("look")
			refused, summaries := few(t, m.take())
			if summaries > 0 || refused > 0 && m.window == limit {
				t.Errorf("%d refused, %d summaries", refused, summaries)
			}
			if lines := compactions(t, r.new()); len(lines) == 0 || slices.ContainsFunc(lines, func(l string) bool { return l != "prune" }) {
				t.Errorf("events %q", lines)
			}
			intact(t, r)
		})
	}
}

// What a compaction cannot do without ending badly it leaves: its bracket says
// why, the history is as it was, and the turn goes on (spec jsonrpc 5.6).
func TestFailedSummary(t *testing.T) {
	fails := func(code string) func(context.Context, yield) {
		return func(_ context.Context, y yield) {
			y(sdkproto.Chunk{}, &llm.Error{Code: code, Message: "scripted " + code})
		}
	}
	for _, tc := range []struct {
		name   string
		writes func(context.Context, yield)
		asked  int
		want   string
	}{
		{"busy", fails(llm.CodeServer), 2, "end: scripted SERVER"},
		{"no money", fails(llm.CodeQuota), 1, "end: scripted QUOTA"},
		{"panic", func(context.Context, yield) { panic("adapter") }, 1, "end: the model adapter panicked: adapter"},
		{"no end", func(context.Context, yield) {}, 2, "end: the model adapter ended its stream without a finish"},
		{"nothing", func(_ context.Context, y yield) { say(y, " \n", nil, sdkproto.FinishStop) }, 1, "end: the model wrote no summary"},
		{"thoughts", thinker, 1, "end: the model used up its longest answer before it wrote a summary"},
		{"filtered", func(_ context.Context, y yield) { say(y, "half", nil, sdkproto.FinishAborted) }, 1, `end: the model ended its summary for the reason "aborted"`},
		{"failure", func(_ context.Context, y yield) {
			y(sdkproto.Chunk{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{
				Kind: sdkproto.FinishError, Failure: &sdkproto.Failure{Code: "AUTH", Message: "no key"},
			}}, nil)
		}, 1, "end: no key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &narrow{window: limit, limit: limit, writes: tc.writes}
			r := filled(t, m, "", "{}")
			before := r.history()
			r.completes(long)
			_, asked := few(t, m.take())
			if asked != tc.asked {
				t.Errorf("%d requests for a summary, want %d", asked, tc.asked)
			}
			if lines := compactions(t, r.new()); len(lines) != 2 || lines[0] != "start" || !strings.HasPrefix(lines[1], tc.want) {
				t.Errorf("events %q, want one that ends with %q", lines, tc.want)
			}
			if after := r.history(); encode(t, after[:len(before)]) != encode(t, before) {
				t.Error("the history was changed")
			}
			// A second failure, and the keeper waits until the history has grown.
			r.completes("one")
			_, second := few(t, m.take())
			r.completes("two")
			_, third := few(t, m.take())
			if second != tc.asked || third != 0 {
				t.Errorf("then %d and %d requests for a summary, want %d and none", second, third, tc.asked)
			}
			m.set(func() { m.writes = nil })
			r.completes("say 800")
			r.completes("three")
			if lines := compactions(t, r.new()); !slices.Contains(lines, "summary") {
				t.Errorf("no summary although the history has grown: %q", lines)
			}
			intact(t, r)
		})
	}
}

// A summary that is longer than what it stands for is none.
func TestUselessSummary(t *testing.T) {
	m := &narrow{window: limit, limit: limit, writes: func(_ context.Context, y yield) {
		say(y, strings.Repeat("word", 15_000), nil, sdkproto.FinishStop)
	}}
	r := boot(t, m, "", "{share: 0.5}")
	for range 10 {
		r.completes("say 500")
	}
	lines := compactions(t, r.new())
	if len(lines) < 2 || lines[0] != "start" || !strings.HasPrefix(lines[1], "end: the summary has 40") {
		t.Errorf("events %q", lines)
	}
	intact(t, r)
}

// A good answer is used whatever else is in it.
func TestSummaryText(t *testing.T) {
	for _, tc := range []struct {
		name   string
		writes func(context.Context, yield)
		want   string
	}{
		{"with a call", func(_ context.Context, y yield) {
			y(sdkproto.Chunk{Type: sdkproto.ChunkReasoningDelta, Text: "thoughts"}, nil)
			y(sdkproto.Chunk{Type: sdkproto.ChunkTextDelta, Index: 2, Text: "second"}, nil)
			y(sdkproto.Chunk{Type: sdkproto.ChunkTextDelta, Index: 1, Text: "fir"}, nil)
			y(sdkproto.Chunk{Type: sdkproto.ChunkTextDelta, Index: 1, Text: "st, "}, nil)
			finish(y, sdkproto.Block{Type: sdkproto.BlockToolCall, ID: "c", Name: "big", Arguments: `{"tokens":1}`}, nil, sdkproto.FinishToolCalls)
		}, "place:\n\nfirst, second"},
		{"cut off", func(_ context.Context, y yield) { say(y, "so far", nil, sdkproto.FinishMaxTokens) },
			"place:\n\nso far\n\n[The summary ends here because it became too long.]"},
		{"without end", func(_ context.Context, y yield) {
			for y(sdkproto.Chunk{Type: sdkproto.ChunkTextDelta, Text: strings.Repeat("x", 64<<10)}, nil) {
			}
		}, "xxx\n\n[The summary ends here because it became too long.]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &narrow{window: limit, limit: limit, writes: tc.writes}
			r := filled(t, m, "", "{}")
			r.completes(long)
			if d := cmp.Diff([]string{"start", "summary", "end"}, compactions(t, r.new())); d != "" {
				t.Fatal(d)
			}
			if got := sdkproto.TextOf(r.history()[1].Content); !strings.HasSuffix(got, tc.want) {
				t.Errorf("the summary is %.200q", got)
			}
			for _, rec := range r.records(0) {
				if rec.Event.Type == sdkproto.TypeToolCall {
					t.Error("a tool of the summary was called")
				}
			}
		})
	}
}

// A cancelled compaction closes its bracket and changes nothing; so does one
// that a crash ends, when the session is opened again (spec jsonrpc 9.6).
func TestStoppedCompaction(t *testing.T) {
	t.Run("before the request", func(t *testing.T) { stopped(t, limit) })
	t.Run("after its refusal", func(t *testing.T) { stopped(t, 0) })
}

func stopped(t *testing.T, window int64) {
	home, copied := t.TempDir(), t.TempDir()
	begun := make(chan struct{})
	m := &narrow{window: window, limit: limit, writes: func(ctx context.Context, y yield) {
		close(begun)
		<-ctx.Done()
		y(sdkproto.Chunk{}, ctx.Err())
	}}
	r := filled(t, m, home, "{}")
	before := encode(t, r.history())
	text := long
	if window == 0 {
		text = strings.Repeat("more ", 2200)
	}
	if _, err := r.agent.Send(t.Context(), []sdkproto.Block{sdkproto.Text(text)}, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn); err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := os.CopyFS(copied, os.DirFS(home)); err != nil {
		t.Fatal(err)
	}
	r.agent.Cancel(agent.Cause{Kind: sdkproto.AbortUser}, "")
	if end := r.idle(); end.Kind != sdkproto.EndAborted {
		t.Errorf("the turn ended with %s", end.Kind)
	}
	if lines := compactions(t, r.new()); len(lines) != 2 || lines[0] != "start" || !strings.HasPrefix(lines[1], "end: ") {
		t.Errorf("events %q", lines)
	}
	if after := encode(t, r.history()); !strings.HasPrefix(after, strings.TrimSuffix(before, "]")) {
		t.Error("the history was changed")
	}
	m.set(func() { m.writes = nil })
	r.completes("again")
	if lines := compactions(t, r.new()); !slices.Equal(lines, []string{"start", "summary", "end"}) {
		t.Errorf("then events %q", lines)
	}

	r2 := boot(t, &narrow{window: window, limit: limit}, copied, "{}")
	lines := compactions(t, r2.new())
	if d := cmp.Diff([]string{"start", "end: the harness was stopped before the history was shortened"}, lines); d != "" {
		t.Error(d)
	}
	if after := encode(t, r2.history()); !strings.HasPrefix(after, strings.TrimSuffix(before, "]")) {
		t.Error("the history was changed by the crash")
	}
	r2.completes("after the crash")
	if lines := compactions(t, r2.new()); !slices.Equal(lines, []string{"start", "summary", "end"}) {
		t.Errorf("then events %q", lines)
	}
	intact(t, r2)
}

// The account of a session is what the model has told, each request once,
// summaries included (case B86).
func TestTotals(t *testing.T) {
	m := &narrow{window: limit, limit: limit}
	r := filled(t, m, "", "{}")
	before := r.usage()
	r.completes(long)
	var want sdkproto.Usage
	requests := m.take()
	for _, a := range requests {
		want.InputTokens += a.size
		want.OutputTokens += 10
	}
	after := r.usage()
	got := sdkproto.Usage{InputTokens: after.Totals.InputTokens - before.Totals.InputTokens, OutputTokens: after.Totals.OutputTokens - before.Totals.OutputTokens}
	if len(requests) != 2 || got != want || after.Requests != before.Requests+2 {
		t.Errorf("%d requests came to %+v, the session has %+v for %d", len(requests), want, got, after.Requests-before.Requests)
	}
}

// A summary that cannot be used is paid for all the same (case B87).
func TestTotalsOfFailures(t *testing.T) {
	used := &sdkproto.Usage{InputTokens: 1000, OutputTokens: 7}
	m := &narrow{window: limit, limit: limit, writes: func(_ context.Context, y yield) {
		_ = y(sdkproto.Chunk{Type: sdkproto.ChunkUsage, Usage: used}, nil) && y(sdkproto.Chunk{}, &llm.Error{Code: llm.CodeServer, Message: "cut"})
	}}
	r := filled(t, m, "", "{}")
	before := r.usage()
	r.completes(long)
	want := before.Totals
	for _, a := range m.take() {
		one := *used
		if !a.summary {
			one = sdkproto.Usage{InputTokens: a.size, OutputTokens: 10}
		}
		want.Add(&one)
	}
	if after := r.usage(); after.Totals != want || after.Requests != before.Requests+3 {
		t.Errorf("the session has %+v for %d more requests, want %+v for 3", after.Totals, after.Requests-before.Requests, want)
	}
	var asides []sdkproto.SideRequest
	for _, rec := range r.new() {
		if rec.Event.Type == sdkproto.TypeSideRequest {
			asides = append(asides, decode[sdkproto.SideRequest](t, rec))
		}
	}
	if len(asides) != 2 || asides[0].Purpose != sdkproto.AsideCompaction || asides[0].Model == "" || *asides[0].Usage != *used {
		t.Errorf("recorded %+v", asides)
	}
}

// Another model may write the summaries; without it the turn goes on as long as
// it can.
func TestOtherModel(t *testing.T) {
	other := &narrow{t: t, window: 100_000, limit: 100_000}
	m := &narrow{window: limit, limit: limit}
	r := boot(t, m, "", `{summary: {provider: other, model: writer, maxTokens: 500}}`)
	for range 15 {
		r.completes("say 500")
	}
	if lines := compactions(t, r.new()); len(lines) > 0 {
		t.Errorf("events %q although nobody answers for the provider", lines)
	}
	if !strings.Contains(r.logs.String(), `no adapter registered for provider \"other\"`) {
		t.Errorf("nobody is told: %s", r.logs)
	}
	if err := r.router.Register(r.owner, "other", other); err != nil {
		t.Fatal(err)
	}
	r.completes("say 800")
	r.completes("say 1")
	var summaries []sdkproto.CompactionSummary
	for _, rec := range r.records(0) {
		if rec.Event.Type == sdkproto.TypeCompactionSummary {
			summaries = append(summaries, decode[sdkproto.CompactionSummary](t, rec))
		}
	}
	asked := other.take()
	if len(summaries) != 1 || summaries[0].Provider != "other" || summaries[0].Model != "writer" || summaries[0].MaxTokens != 500 || summaries[0].Usage == nil {
		t.Errorf("summaries %+v", summaries)
	}
	if len(asked) != 1 || asked[0].Header.Config.Model != "writer" || asked[0].Header.Config.MaxTokens != 500 {
		t.Errorf("the other model was asked %+v", asked)
	}
	for _, a := range m.take() {
		if a.summary {
			t.Error("the session's model was asked for a summary")
		}
	}
	intact(t, r)
}

// Prompts that were never answered do not pile up.
func TestUnanswered(t *testing.T) {
	m := &narrow{window: limit, limit: limit, down: true}
	r := boot(t, m, "", "{}")
	for range 5 {
		if end := r.prompt(strings.Repeat("more ", 1200)); end.Kind != sdkproto.EndError {
			t.Fatalf("the turn ended with %s", end.Kind)
		}
	}
	m.set(func() { m.down = false })
	r.completes("at last")
	summaries := 0
	for _, a := range m.take() {
		if a.refused {
			t.Error("a request was refused")
		}
		if a.summary {
			summaries++
		}
	}
	if summaries != 1 {
		t.Errorf("%d summaries", summaries)
	}
	intact(t, r)
}

// Without summaries, what is too much is left out as soon as it is.
func TestNoAttempts(t *testing.T) {
	m := &narrow{window: limit, limit: limit}
	r := filled(t, m, "", "{attempts: 0}")
	r.completes(long)
	if refused, asked := few(t, m.take()); refused+asked > 0 {
		t.Errorf("%d refused, %d summaries", refused, asked)
	}
	if lines := compactions(t, r.new()); !slices.Equal(lines, []string{"start", "note", "end"}) {
		t.Errorf("events %q", lines)
	}
	intact(t, r)
}

// Old results are cut before anything is summarised, those that are recent or
// small are not, and what is cut keeps its call and says so.
func TestPrune(t *testing.T) {
	m := &narrow{window: limit, limit: limit}
	r := boot(t, m, "", "{pruneOver: 1000, keepTokens: 2000}")
	for _, arguments := range []string{`{"tokens":2500}`, `{"tokens":300}`, `{"tokens":2500}`} {
		m.set(func() { m.calls, m.arguments = 1, arguments })
		r.completes("look")
	}
	r.new()
	r.completes(long)
	r.completes(long)
	if lines := compactions(t, r.new()); !slices.Equal(lines, []string{"prune", "prune"}) {
		t.Errorf("events %q", lines)
	}
	var sizes []int
	for _, msg := range r.history() {
		if msg.Source.Kind == sdkproto.SourceTool {
			text := sdkproto.TextOf(msg.Content[0].Content)
			sizes = append(sizes, len(text)/4/100)
			if len(text) > 1300 && !strings.Contains(text, "bytes of this result were left out to make room]") {
				t.Errorf("a result was cut and does not say so: %.100q", text)
			}
		}
	}
	if d := cmp.Diff([]int{5, 3, 5}, sizes); d != "" {
		t.Error(d)
	}
	intact(t, r)
}
