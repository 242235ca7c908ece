package session_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/session"
	"dsh/sdkproto"
)

// sized is a user message of n tokens: four for itself, the rest text.
func sized(n int) session.Draft {
	return session.Draft{Type: sdkproto.TypeUserMessage, Data: sdkproto.Message{
		Role: sdkproto.RoleUser, Source: sdkproto.Source{Kind: sdkproto.SourceUser}, Content: []sdkproto.Block{sdkproto.Text(strings.Repeat("abcd", n-4))},
	}}
}

// answered is an answer of n tokens with its account.
func answered(n int, u *sdkproto.Usage) session.Draft {
	d := assistant(sdkproto.Text(strings.Repeat("abcd", n-4)))
	d.Data.(*sdkproto.AssistantMessage).Usage = u
	return d
}

func replacing(d session.Draft, start, end int64) session.Draft {
	d.Surface = session.Replace(start, end)
	return d
}

func headerOf(tokens int) session.Draft {
	return session.Draft{Type: sdkproto.TypeRequestHeader, Data: &sdkproto.RequestHeader{Header: sdkproto.Header{
		System: strings.Repeat("abcd", tokens-3), Tools: []sdkproto.ToolSchema{{Name: "four", Description: "four", Parameters: []byte(`"4b"`)}},
	}, Reason: "initial"}}
}

// What a session has used, and how full its context is: measured as far as a
// provider has told, guessed beyond that (spec jsonrpc 5.5, case B86).
func TestUsage(t *testing.T) {
	all := sdkproto.Usage{InputTokens: 100, OutputTokens: 20, CacheReadTokens: 30, CacheWriteTokens: 7, ReasoningTokens: 5}
	for _, tc := range []struct {
		name     string
		events   []session.Draft
		totals   sdkproto.Usage
		requests int
		lastSeq  int64
		context  int64
		measured bool
	}{
		{"nothing", nil, sdkproto.Usage{}, 0, 0, 0, false},
		{"before the first answer all is guessed", []session.Draft{headerOf(50), sized(10), sized(20)}, sdkproto.Usage{}, 0, 0, 80, false},
		{"an answer without an account", []session.Draft{headerOf(50), sized(10), answered(20, nil)}, sdkproto.Usage{}, 0, 0, 80, false},
		{"the input side is disjoint, and the answer comes to it",
			[]session.Draft{headerOf(50), sized(150), answered(20, &all)}, all, 1, 2, 137 + 20, true},
		{"what came since is guessed", []session.Draft{sized(200), answered(20, &all), sized(40), headerOf(30)}, all, 1, 1, 137 + 20 + 40 + 30, true},
		{"two answers, each counted once",
			[]session.Draft{sized(200), answered(20, &all), sized(40), answered(10, &sdkproto.Usage{InputTokens: 250, OutputTokens: 9})},
			sdkproto.Usage{InputTokens: 350, OutputTokens: 29, CacheReadTokens: 30, CacheWriteTokens: 7, ReasoningTokens: 5}, 2, 3, 250 + 10, true},
		{"the last answer told nothing", []session.Draft{sized(200), answered(20, &all), sized(40), answered(10, nil)}, all, 1, 1, 137 + 20 + 40 + 10, true},
		{"an account without its input measures nothing",
			[]session.Draft{sized(200), answered(20, &sdkproto.Usage{OutputTokens: 4})}, sdkproto.Usage{OutputTokens: 4}, 1, 0, 220, false},
		{"chunks are not counted beside their answer",
			[]session.Draft{sized(200), chunk(sdkproto.Chunk{Type: sdkproto.ChunkUsage, Usage: &all}), answered(20, &all)}, all, 1, 2, 157, true},
		{"after a replacement all is guessed", []session.Draft{sized(200), answered(20, &all), replacing(sized(30), 0, 1), sized(5)}, all, 1, 1, 35, false},
		{"in the scale of the last measure", // which was twice the guess
			[]session.Draft{sized(100), answered(20, &sdkproto.Usage{InputTokens: 200}), sized(10), replacing(sized(30), 0, 0)},
			sdkproto.Usage{InputTokens: 200}, 1, 1, 2 * (30 + 20 + 10), false},
		{"as far as that may be right",
			[]session.Draft{sized(100), answered(20, &sdkproto.Usage{InputTokens: 100_000}), replacing(sized(30), 0, 1)},
			sdkproto.Usage{InputTokens: 100_000}, 1, 1, 4 * 30, false},
		{"until the next measure", []session.Draft{sized(200), answered(20, &all), replacing(sized(30), 0, 1), answered(10, &sdkproto.Usage{InputTokens: 30})},
			sdkproto.Usage{InputTokens: 130, OutputTokens: 20, CacheReadTokens: 30, CacheWriteTokens: 7, ReasoningTokens: 5}, 2, 3, 40, true},
		{"a summary costs, and measures nothing", []session.Draft{sized(200), {Type: sdkproto.TypeCompactionSummary, Data: &sdkproto.CompactionSummary{Usage: &all}},
			{Type: sdkproto.TypeCompactionSummary, Data: &sdkproto.CompactionSummary{}}}, all, 1, 0, 200, false},
		{"results, calls, reasoning and images", []session.Draft{
			assistant(sdkproto.Block{Type: sdkproto.BlockReasoning, Text: "12345678"}, sdkproto.Block{Type: sdkproto.BlockToolCall, ID: "call", Name: "tool", Arguments: "{}  "}),
			{Type: sdkproto.TypeToolResult, Data: &sdkproto.ToolResult{Message: sdkproto.Message{Content: []sdkproto.Block{{
				Type: sdkproto.BlockToolResult, ToolCallID: "call",
				Content: []sdkproto.Block{sdkproto.Text("1234"), {Type: sdkproto.BlockImage, Attachment: &sdkproto.Attachment{AttachmentID: "sha256:1"}}},
			}}}}},
		}, sdkproto.Usage{}, 0, 0, (4 + 5) + (4 + 1 + 1600), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := &memory{header: session.Header{ID: "s", CWD: "/w"}}
			var live, loaded session.State
			mustAppend(t, session.NewLog(w.header, w, 0, 0, &live), tc.events...)
			if _, err := session.Load(t.Context(), w, "s", "/w", &loaded); err != nil {
				t.Fatal(err)
			}
			for name, s := range map[string]*session.State{"live": &live, "loaded": &loaded} {
				u := &s.Usage
				if d := cmp.Diff(tc.totals, u.Totals); d != "" || u.Requests != tc.requests || u.LastSeq != tc.lastSeq {
					t.Errorf("%s: %d requests, the last at %d, totals (-want +got):\n%s", name, u.Requests, u.LastSeq, d)
				}
				if tokens, measured := u.Context(); tokens != tc.context || measured != tc.measured {
					t.Errorf("%s: the context has %d tokens (measured: %v), want %d (%v)", name, tokens, measured, tc.context, tc.measured)
				}
			}
		})
	}
}

// A compaction of another version may say what it likes about its summary.
func TestUsageOfForeignSummary(t *testing.T) {
	var s session.State
	err := s.Apply(record(t, 0, session.Draft{Type: sdkproto.TypeCompactionSummary, Data: map[string]any{"summary": 1, "usage": map[string]any{"inputTokens": 5}}}))
	if err != nil || s.Usage.Totals.InputTokens != 5 {
		t.Errorf("totals %+v, error %v", s.Usage.Totals, err)
	}
}
