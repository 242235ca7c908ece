package compaction_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

const limit = 8000

// few checks what a turn cost: fewer than six requests for one model request
// that did not fit (case B61), and nothing of the refusal in what the model says.
func few(t *testing.T, requests []asked) (refused, summaries int) {
	t.Helper()
	run := 0
	for _, a := range requests {
		run++
		switch {
		case a.summary:
			summaries++
		case a.refused:
			refused++
		default:
			if run > 5 {
				t.Errorf("%d requests for one answer", run)
			}
			run = 0
		}
	}
	if run > 5 {
		t.Errorf("%d requests for no answer", run)
	}
	return refused, summaries
}

// intact checks the log that a test leaves: the session works on, live and from
// the disk, its history is paired, the model never says that something was too
// long, and the last prompt is in the history.
func intact(t *testing.T, r *rig) {
	t.Helper()
	r.completes("one more")
	live := r.history()
	if !strings.Contains(texts(live), "one more") {
		t.Error("the last prompt is not in the history")
	}
	for _, rec := range r.records(0) {
		if rec.Event.Type == sdkproto.TypeAssistantMessage && strings.Contains(string(rec.Raw), "too long") {
			t.Errorf("the model says %s", rec.Raw)
		}
	}
	if err := r.reg.Close(t.Context(), "s", agent.Cause{}); err != nil {
		t.Fatal(err)
	}
	var stored session.State
	if err := r.store.Read(t.Context(), "s", 0, stored.Apply); err != nil {
		t.Fatal(err)
	}
	if got, want := encode(t, stored.Surface.Messages()), encode(t, live); got != want {
		t.Errorf("the stored history is\n%s\nwant\n%s", got, want)
	}
}

func encode(t *testing.T, messages []sdkproto.Message) string {
	t.Helper()
	b, err := wirejson.Marshal(messages)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func texts(messages []sdkproto.Message) string {
	var sb strings.Builder
	for _, m := range messages {
		sb.WriteString(sdkproto.TextOf(m.Content) + "\n")
		for _, b := range m.Content {
			sb.WriteString(sdkproto.TextOf(b.Content) + "\n")
		}
	}
	return sb.String()
}

// models are the ways to know, or not to know, how full a context is.
var models = map[string]func() *narrow{
	"known window":        func() *narrow { return &narrow{window: limit, limit: limit} },
	"no usage":            func() *narrow { return &narrow{window: limit, limit: limit, quiet: true} },
	"unknown window":      func() *narrow { return &narrow{limit: limit} },
	"window said too big": func() *narrow { return &narrow{window: 10 * limit, limit: limit, quiet: true} },
}

// TestB61ManyTurns is case B61 a: a session that grows past its model.
func TestB61ManyTurns(t *testing.T) {
	for name, model := range models {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := boot(t, model(), "", "{}")
			done := 0
			for i := range 32 {
				r.completes(fmt.Sprintf("say 500 (number %d)", i))
				refused, _ := few(t, r.model.take())
				if name == "known window" && refused > 0 {
					t.Error("a request was refused although the window is known")
				}
				lines := compactions(t, r.new())
				if len(lines) > 0 {
					done++
				}
				for _, l := range lines {
					if l != "start" && l != "summary" && l != "end" {
						t.Errorf("turn %d: %q", i, lines)
					}
				}
			}
			if done < 2 || done > 6 {
				t.Errorf("%d compactions in 32 turns of 500 tokens", done)
			}
			h := r.history()
			if !strings.Contains(texts(h), "GOALS AND STATE") || !strings.Contains(texts(h[:1]), "INSTRUCTIONS") {
				t.Errorf("the history begins with %s", texts(h[:2]))
			}
			intact(t, r)
		})
	}
}

// TestB61BigResult is case B61 b: one tool result of 30 000 tokens.
func TestB61BigResult(t *testing.T) {
	for name, model := range models {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := model()
			m.calls, m.arguments = 1, `{"tokens":30000}`
			r := boot(t, m, "", "{}")
			r.completes("look")
			refused, summaries := few(t, m.take())
			if summaries > 0 || refused > 0 && m.window == limit {
				t.Errorf("%d requests were refused, %d summaries were asked for", refused, summaries)
			}
			if lines := compactions(t, r.new()); !slices.Equal(lines, []string{"prune"}) {
				t.Errorf("events %q", lines)
			}
			h := texts(r.history())
			if !strings.Contains(h, "BEGIN data") || !strings.Contains(h, "data END") || !strings.Contains(h, "bytes of this result were left out to make room") {
				t.Errorf("the history is %.300q", h)
			}
			intact(t, r)
		})
	}
}

// TestB61Resume is case B61 c: a log that is over the limit when it is opened.
func TestB61Resume(t *testing.T) {
	for name, model := range models {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			m := model()
			m.limit, m.window = 1_000_000, 1_000_000
			r := boot(t, m, home, "off")
			for range 30 {
				r.completes("say 500")
			}
			m.set(func() { m.calls, m.arguments = 3, `{"tokens":9000}` })
			r.completes("look")
			if err := r.kept.Kernel.Stop(); err != nil {
				t.Fatal(err)
			}
			m2 := model()
			r = boot(t, m2, home, "{}")
			r.completes("go on")
			refused, _ := few(t, m2.take())
			if refused > 0 && m2.window == limit {
				t.Errorf("%d requests were refused", refused)
			}
			lines := compactions(t, r.records(0))
			if !slices.Contains(lines, "prune") || slices.Index(lines, "prune") > slices.Index(lines, "summary") && slices.Contains(lines, "summary") {
				t.Errorf("events %q: results are cut first", lines)
			}
			intact(t, r)
		})
	}
}

// thinker spends its whole output on reasoning.
func thinker(_ context.Context, y yield) {
	finish(y, sdkproto.Block{Type: sdkproto.BlockReasoning, Text: "hmm"}, &sdkproto.Usage{InputTokens: 100, OutputTokens: 2000}, sdkproto.FinishMaxTokens)
}

// TestB61NoSummary is case B61 d: the model that writes summaries spends its
// whole output on reasoning. As long as the request still fits nothing is lost.
func TestB61NoSummary(t *testing.T) {
	for name, model := range models {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := model()
			m.writes = thinker
			r := boot(t, m, "", "{}")
			var lines []string
			asked := 0
			for range 28 {
				r.completes("say 500")
				_, summaries := few(t, m.take())
				asked += summaries
				lines = append(lines, compactions(t, r.new())...)
			}
			if !slices.Contains(lines, "note") || slices.Contains(lines, "summary") {
				t.Errorf("events %q", lines)
			}
			if asked > 8 {
				t.Errorf("%d requests for summaries that do not come", asked)
			}
			if h := texts(r.history()); !strings.Contains(h, "there is no summary of it") {
				t.Errorf("the history is %.300q", h)
			}
			intact(t, r)
		})
	}
}

// TestB61LongSummaryRequest is case B61 e: a request for a summary that is
// refused as too long itself.
func TestB61LongSummaryRequest(t *testing.T) {
	for _, tc := range []struct {
		name  string
		takes int64
		want  string
	}{{"half is taken", limit / 2, "summary"}, {"nothing is taken", 10, "note"}} {
		for _, name := range []string{"known window", "unknown window"} {
			model := models[name]
			t.Run(tc.name+", "+name, func(t *testing.T) {
				t.Parallel()
				m := model()
				m.summaryLimit = tc.takes
				r := boot(t, m, "", "{}")
				var lines []string
				for range 22 {
					r.completes("say 500")
					if refused, _ := few(t, m.take()); refused > 0 && tc.want == "summary" && m.window == limit {
						t.Error("a request was refused although there was a summary to be had")
					}
					lines = append(lines, compactions(t, r.new())...)
				}
				failed := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "end: ") })
				if !slices.Contains(lines, tc.want) || failed && tc.want == "summary" {
					t.Errorf("events %q", lines)
				}
				intact(t, r)
			})
		}
	}
}

// TestB61LongPrompt is case B61 f: a single message over the limit ends its turn
// as an error that says so, and the session stays usable.
func TestB61LongPrompt(t *testing.T) {
	for name, model := range models {
		for _, before := range []int{0, 4} {
			t.Run(fmt.Sprint(name, ", after ", before), func(t *testing.T) {
				t.Parallel()
				m := model()
				r := boot(t, m, "", "{}")
				for range before {
					r.completes("say 500")
				}
				m.take()
				end := r.prompt(strings.Repeat("long ", 12_000))
				if end.Kind != sdkproto.EndError || end.Error == nil || end.Error.Code != llm.CodeContextWindow || !strings.Contains(end.Error.Message, "too long") {
					t.Errorf("the turn ended with %+v %+v", end, end.Error)
				}
				few(t, m.take())
				if lines := compactions(t, r.new()); m.window == limit && len(lines) > 0 {
					t.Errorf("the history is shortened for nothing: %q", lines)
				}
				r.completes("say 500")
				if refused, _ := few(t, m.take()); refused > 0 {
					t.Errorf("%d requests of the next prompt were refused", refused)
				}
				if m.window == limit {
					for range 14 {
						r.completes("say 500")
					}
					if refused, summaries := few(t, m.take()); refused > 0 || summaries == 0 {
						t.Errorf("then %d requests were refused, and %d summaries asked for", refused, summaries)
					}
				}
				intact(t, r)
			})
		}
	}
}
