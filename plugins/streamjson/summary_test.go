package streamjson

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto"
)

// TestSummaryDue: a subagent is asked about at once, and then at most once in thirty
// seconds, never while an answer is awaited (S038).
func TestSummaryDue(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, tc := range map[string]struct {
		u    summary
		want bool
	}{
		"never asked":       {summary{}, true},
		"just before":       {summary{asked: now.Add(-30*time.Second + 1)}, false},
		"thirty seconds":    {summary{asked: now.Add(-30 * time.Second)}, true},
		"answer to come":    {summary{asked: now.Add(-time.Minute), busy: true}, false},
		"asked this moment": {summary{asked: now}, false},
	} {
		if got := tc.u.due(now); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestDeeds: the latest work, oldest first, in words, with a bound on the whole and
// on each piece.
func TestDeeds(t *testing.T) {
	history := []sdkproto.Message{
		{Role: sdkproto.RoleUser, Content: []sdkproto.Block{sdkproto.Text("Find\nthe heron.")}},
		{Role: sdkproto.RoleAssistant, Content: []sdkproto.Block{
			{Type: sdkproto.BlockReasoning, Text: "hm"}, sdkproto.Text("I look."), {Type: sdkproto.BlockToolCall, ID: "c", Name: "Grep", Arguments: `{"pattern":"heron"}`},
		}},
		{Role: sdkproto.RoleUser, Content: []sdkproto.Block{{Type: sdkproto.BlockToolResult, ToolCallID: "c", Content: []sdkproto.Block{sdkproto.Text("a.txt:1:heron")}}}},
	}
	want := "It was told: Find the heron.\nIt said: I look.\nIt called Grep {\"pattern\":\"heron\"}\nIt got: a.txt:1:heron"
	if diff := cmp.Diff(want, deeds(history)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for range 100 {
		history = append(history, sdkproto.Message{Role: sdkproto.RoleAssistant, Content: []sdkproto.Block{sdkproto.Text(strings.Repeat("é ", 5000))}})
	}
	history = append(history, sdkproto.Message{Role: sdkproto.RoleAssistant, Content: []sdkproto.Block{sdkproto.Text("last")}})
	got := deeds(history)
	if !strings.HasSuffix(got, "\nIt said: last") || strings.Contains(got, "heron") || len(got) > 2*summaryHistory || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %.100q ... %.100q", len(got), got, got[len(got)-50:])
	}
}

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "", " a\n\tb ": "a b", strings.Repeat("é", 10): strings.Repeat("é", 10), strings.Repeat("é", 11): strings.Repeat("é", 9) + "…",
		"\xff\xfe": "", strings.Repeat("🚀", 50): strings.Repeat("🚀", 9) + "…",
	} {
		if got := oneLine(text, 10); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

// TestWhole8: what is cut in the middle of a character loses the beginning of it, and
// bytes that are no UTF-8 stay.
func TestWhole8(t *testing.T) {
	for data, want := range map[string]string{"": "", "ab": "ab", "a\xc3": "a", "a\xc3\xa9": "aé", "\xf0\x9f\x9a": "", "a\xff": "a\xff", "\x80\x80\x80\x80\x80": "\x80\x80\x80\x80\x80"} {
		if got := string(whole8([]byte(data))); got != want {
			t.Errorf("%q gives %q, want %q", data, got, want)
		}
	}
}
