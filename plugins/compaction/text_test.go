package compaction

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dsh/sdkproto"
)

func TestClip(t *testing.T) {
	long := strings.Repeat("a", 300) + strings.Repeat("z", 300)
	for _, tc := range []struct {
		name, text string
		n          int
		want       string
	}{
		{"fits", "short", 5, "short"},
		{"cut", long, 30, strings.Repeat("a", 20) + "\n[570 bytes of it were left out to make room]\n" + strings.Repeat("z", 10)},
		{"nothing is gained", long, 590, long},
		{"nothing is kept", long, 0, "\n[600 bytes of it were left out to make room]\n"},
		{"between characters", strings.Repeat("é", 100), 31, strings.Repeat("é", 10) + "\n[170 bytes of it were left out to make room]\n" + strings.Repeat("é", 5)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, clip(tc.text, tc.n, "of it")); d != "" {
				t.Error(d)
			}
		})
	}
}

// A transcript tells every kind of message, cuts the longest first, and then
// leaves out the oldest.
func TestTranscript(t *testing.T) {
	user := func(text string) sdkproto.Message {
		return sdkproto.Message{Role: sdkproto.RoleUser, Source: sdkproto.Source{Kind: sdkproto.SourceUser}, Content: []sdkproto.Block{sdkproto.Text(text)}}
	}
	result := func(text string, failed bool) sdkproto.Message {
		return sdkproto.Message{Role: sdkproto.RoleUser, Source: sdkproto.Source{Kind: sdkproto.SourceTool}, Content: []sdkproto.Block{
			{Type: sdkproto.BlockToolResult, IsError: failed, Content: []sdkproto.Block{sdkproto.Text(text)}},
		}}
	}
	all := []sdkproto.Message{
		user("do it"),
		{Role: sdkproto.RoleUser, Source: sdkproto.Source{Kind: sdkproto.SourcePlugin}, Content: []sdkproto.Block{sdkproto.Text("by the way")}},
		{Role: sdkproto.RoleAssistant, Content: []sdkproto.Block{
			{Type: sdkproto.BlockReasoning, Text: "hm"}, sdkproto.Text("I do"), {Type: sdkproto.BlockToolCall, Name: "bash", Arguments: `{"command":"ls"}`},
		}},
		result("a b c", false), result("no", true),
		{Role: sdkproto.RoleUser, Source: sdkproto.Source{Kind: sdkproto.SourceUser}, Content: []sdkproto.Block{{Type: sdkproto.BlockImage}}},
	}
	want := "User: do it\n\nNote: by the way\n\nAssistant: I do\n\nCall of bash: {\"command\":\"ls\"}\n\nResult: a b c\n\nError: no\n\nUser: [an image]"
	if d := cmp.Diff(want, transcript(all, 2)); d != "" {
		t.Error(d)
	}
	one := transcript([]sdkproto.Message{user("first"), result(strings.Repeat("long ", 2000), false), user("last")}, 0.5)
	if !strings.HasPrefix(one, "User: first\n\nResult: long") || !strings.HasSuffix(one, "\n\nUser: last") || !strings.Contains(one, "of this message were left out") {
		t.Errorf("got %.200q", one)
	}
	var many []sdkproto.Message
	for range 100 {
		many = append(many, user(strings.Repeat("x", 92)))
	}
	last := transcript(append(many, user("the end")), 0.1)
	if !strings.HasPrefix(last, "[91 older parts were left out to make room]\n\nUser: xxx") || !strings.HasSuffix(last, "User: the end") {
		t.Errorf("got %.300q", last)
	}
}

// However a transcript is cut, it is text, and hardly longer than its share.
func TestTranscriptSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var messages []sdkproto.Message
		total := 0
		for range rapid.IntRange(1, 20).Draw(t, "messages") {
			text := strings.Repeat(rapid.SampledFrom([]string{"a", "é", "𐍈", "word "}).Draw(t, "of"), rapid.IntRange(0, 5000).Draw(t, "times"))
			total += len(text) + 8
			messages = append(messages, sdkproto.Message{Source: sdkproto.Source{Kind: sdkproto.SourceUser}, Content: []sdkproto.Block{sdkproto.Text(text)}})
		}
		share := rapid.Float64Range(0.01, 1).Draw(t, "share")
		got := transcript(messages, share)
		const marks = 100
		if !utf8.ValidString(got) || float64(len(got)) > float64(total)*share+marks {
			t.Fatalf("%d bytes of %d, share %v, text: %v", len(got), total, share, utf8.ValidString(got))
		}
	})
}

func TestValidate(t *testing.T) {
	c := defaults()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	bad := Config{Share: 1.5, KeepTokens: -1, PruneOver: 1, Summary: Summary{MaxTokens: 0, Provider: "p"}, Attempts: 3}
	err := bad.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"1.5 is not a part of the window", "-1 is too small", "1 is too small; use 100", "0 is too small; use 100", "3 is too many", "a provider alone"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if err := (&Config{PruneOver: 100, Summary: Summary{MaxTokens: 100}, Attempts: -1}).Validate(); err == nil || !strings.Contains(err.Error(), "0 is not a part of the window") || !strings.Contains(err.Error(), "-1 is too small") {
		t.Errorf("got %v", err)
	}
}
