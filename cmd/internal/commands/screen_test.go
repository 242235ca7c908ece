package commands

import (
	"strings"
	"testing"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

func event(t *testing.T, eventType string, data any) *sdkproto.Event {
	t.Helper()
	raw, err := wirejson.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return &sdkproto.Event{Type: eventType, Data: raw}
}

// Nothing that a model or a program wrote steers the terminal.
func TestScreenIsPlain(t *testing.T) {
	var b strings.Builder
	s := NewScreen(&b)
	for _, e := range []*sdkproto.Event{
		event(t, sdkproto.TypeUserMessage, sdkproto.Message{
			Content: []sdkproto.Block{sdkproto.Text("a\nb"), {Type: sdkproto.BlockImage}}, Source: sdkproto.Source{Kind: sdkproto.SourceUser},
		}),
		event(t, sdkproto.TypeAssistantMessage, sdkproto.AssistantMessage{Message: sdkproto.Message{
			Content: []sdkproto.Block{{Type: sdkproto.BlockReasoning, Text: "hm"}, sdkproto.Text("\x1b[2Jhello\u009b")},
		}}),
		event(t, sdkproto.TypeTurnEnd, sdkproto.TurnEnd{Reason: sdkproto.TurnEndReason{Kind: sdkproto.EndAborted}}),
	} {
		if err := s.stored(e); err != nil {
			t.Fatal(err)
		}
	}
	want := "\n> a\n> b\n> [image]\n\n(thinks) hm\n\n?[2Jhello?\n! the turn ended: aborted\n"
	if b.String() != want {
		t.Errorf("got %q\nwant %q", b.String(), want)
	}
}

func TestFenced(t *testing.T) {
	for text, want := range map[string]string{
		"plain\n":         "```\nplain\n```\n",
		"```\ninner\n```": "````\n```\ninner\n```\n````\n",
		"a ````` b":       "``````\na ````` b\n``````\n",
	} {
		if got := fenced("", text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
