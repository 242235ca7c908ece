package streamjson

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// TestSpoken: the model is shown the latest part of what was said, from a message
// of the user on, each side in turn (S029).
func TestSpoken(t *testing.T) {
	says := func(role, source string, blocks ...sdkproto.Block) sdkproto.Message {
		return sdkproto.Message{Role: role, Source: sdkproto.Source{Kind: source}, Content: blocks}
	}
	user := func(blocks ...sdkproto.Block) sdkproto.Message {
		return says(sdkproto.RoleUser, sdkproto.SourceUser, blocks...)
	}
	model := func(blocks ...sdkproto.Block) sdkproto.Message {
		return says(sdkproto.RoleAssistant, sdkproto.SourceModel, blocks...)
	}
	text := sdkproto.Text
	call := sdkproto.Block{Type: sdkproto.BlockToolCall, ID: "c", Name: "Bash", Arguments: "{}"}
	long := strings.Repeat("x", suggestHistory-1)
	for name, tc := range map[string]struct{ history, want []sdkproto.Message }{
		"nothing": {nil, nil},
		"a turn with a call": {
			[]sdkproto.Message{
				says(sdkproto.RoleUser, sdkproto.SourcePlugin, text("the folder's rules")), user(text("a")),
				model(sdkproto.Block{Type: sdkproto.BlockReasoning, Text: "hm"}, text("b"), call),
				says(sdkproto.RoleUser, sdkproto.SourceTool, sdkproto.Block{Type: sdkproto.BlockToolResult, ToolCallID: "c"}), model(text("c")),
			},
			[]sdkproto.Message{user(text("a")), model(text("b"), text("c"))},
		},
		"only calls":              {[]sdkproto.Message{user(text("a")), model(call)}, []sdkproto.Message{user(text("a"))}},
		"the older part is left":  {[]sdkproto.Message{user(text("a")), model(text("b")), user(text("c")), model(text(long))}, []sdkproto.Message{user(text("c")), model(text(long))}},
		"what is too long, whole": {[]sdkproto.Message{user(text("a")), model(text("b")), user(text(long + long))}, []sdkproto.Message{user(text(long + long))}},
		"it begins with the user": {[]sdkproto.Message{user(text(long)), model(text("b")), user(text(strings.Repeat("c", 20)))}, []sdkproto.Message{user(text(strings.Repeat("c", 20)))}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(encoded(t, tc.want), encoded(t, spoken(tc.history))); diff != "" {
				t.Errorf("(-want +got):\n%.2000s", diff)
			}
		})
	}
}

func encoded(t *testing.T, messages []sdkproto.Message) string {
	t.Helper()
	raw, err := wirejson.Marshal(messages)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestSuggestible: one line is the suggestion, without what models put around it.
func TestSuggestible(t *testing.T) {
	for answer, want := range map[string]string{
		"run the tests": "run the tests", " \n run the tests \n": "run the tests", "\"run the tests\"": "run the tests", "`go test`": "go test",
		"“lauf”": "lauf", "one\ntwo": "one", "NONE": "", "None.": "", "": "", "\"\"": "", "none of them works": "none of them works",
		strings.Repeat("é", 300): strings.Repeat("é", 300), strings.Repeat("é", 301): "",
	} {
		if got := suggestible(answer); got != want {
			t.Errorf("%q gives %q, want %q", answer, got, want)
		}
	}
}
