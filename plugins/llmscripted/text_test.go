package llmscripted

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dsh/kernel/llm"
)

func TestWords(t *testing.T) {
	for _, tc := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"one", []string{"one"}},
		{"a b", []string{"a", " b"}},
		{"  a\n\nb c ", []string{"  a", "\n\nb", " c", " "}},
		{" ", []string{" "}},
		{"日本 語\u00a0é", []string{"日本", " 語", "\u00a0é"}},
	} {
		got := words(tc.text)
		if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.text, diff)
		}
	}
}

func TestTokens(t *testing.T) {
	for characters, want := range map[int]int64{0: 0, 1: 1, 4: 1, 5: 2, 8: 2, 9: 3} {
		if got := tokens(characters); got != want {
			t.Errorf("%d characters are %d tokens, want %d", characters, got, want)
		}
	}
}

func TestTemplates(t *testing.T) {
	f := &facts{
		user: "u", model: "m", turn: 2, step: 3, match: []string{"all", "part"},
		results: []result{{"read", "a\nb\nc\n", false}, {"bash", "no", true}},
	}
	for _, tc := range []struct{ text, want, fails string }{
		{text: "plain }} text", want: "plain }} text"},
		{text: "{{user}} {{model}} {{turn}} {{step}} {{match 0}} {{match 1}}", want: "u m 2 3 all part"},
		{text: "{{tool}} {{tool 1}} {{failed}} {{failed 1}} {{result}}", want: "bash read true false no"},
		{text: "{{result 1 | lines 2}}|{{result 1 | lines 3}}|{{lines 0 user}}", want: "a\nb\n...|a\nb\nc|..."},
		{text: "{{match 2}}", fails: "the rule's `matches` has no group 2"},
		{text: "{{match -1}}", fails: "has no group -1"},
		{text: "{{result 0}}", fails: "there is no such tool result; the turn has 2"},
		{text: "{{result 3}}", fails: "there is no such tool result; the turn has 2"},
		{text: "{{result 1 2}}", fails: "takes one number"},
		{text: "{{range 5000000}}x{{end}}", fails: "grows too long"},
	} {
		t.Run(tc.text, func(t *testing.T) {
			parsed, err := parseText("text", tc.text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parsed.render(f)
			switch {
			case tc.fails == "" && (err != nil || got != tc.want):
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
				t.Errorf("got %q, %v, want the error %q", got, err, tc.fails)
			}
		})
	}
}

// TestNoResult: the last result of a turn without results is not there.
func TestNoResult(t *testing.T) {
	got := lines(t, play(t, write(t, `rules: [{reply: "{{result}}"}]`)), user("go"))
	if len(got) != 1 || !strings.Contains(got[0], `"code":"`+CodeScript+`"`) || (&llm.Error{Code: CodeScript}).Retryable() {
		t.Errorf("got %q", got)
	}
}

// TestReadme: what the README shows is what the plugin takes.
func TestReadme(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	_, block, ok := strings.Cut(text, "```yaml\nrules:\n")
	block, _, closed := strings.Cut(block, "```")
	if !ok || !closed {
		t.Fatal("no script in the README")
	}
	if _, err := parseScript("README.md", []byte("rules:\n"+block)); err != nil {
		t.Error(err)
	}
	items := 0
	for line := range strings.Lines(text) {
		item, ok := strings.CutPrefix(line, "| `")
		if item, _, _ = strings.Cut(item, "` |"); !ok || !strings.Contains(item, ": ") {
			continue
		}
		items++
		if _, err := parseScript("README.md", []byte("rules:\n  - reply:\n      - "+item+"\n")); err != nil {
			t.Errorf("item %s: %v", item, err)
		}
	}
	if items != 10 {
		t.Errorf("the README shows %d items, want 10", items)
	}
}
