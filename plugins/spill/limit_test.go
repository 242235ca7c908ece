package spill_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"dsh/kernel"
	"dsh/kernel/kerneltest"
	"dsh/kernel/tool"
	"dsh/plugins/core"
	"dsh/plugins/spill"
	"dsh/sdkproto"
)

// talker is a tool that says so many characters, or fails with them.
type talker struct {
	name  string
	text  string
	fails bool
	more  int
}

func (t talker) Spec() tool.Spec {
	return tool.Spec{Name: t.name, Parameters: []byte(`{"type":"object"}`), MaxText: t.more}
}

func (t talker) Call(context.Context, tool.Invocation) (tool.Result, error) {
	if t.fails {
		return tool.Result{}, errors.New(t.text)
	}
	return tool.TextResult(t.text), nil
}

// TestLimit: whatever a tool or a stage makes, no result of a profile with this row
// is unbounded; a tool that bounds itself to more has its way.
func TestLimit(t *testing.T) {
	long := strings.Repeat("a", 300_000)
	for _, tc := range []struct {
		name string
		set  string
		tool talker
		want int // characters that are left of the text
		file bool
	}{
		{"short", "", talker{text: strings.Repeat("é", 200_000)}, 200_000, false},
		{"long", "", talker{text: long}, 200_000, true},
		{"a tool with a higher limit", "", talker{text: long, more: 300_000}, 300_000, false},
		{"a tool with a lower limit", "", talker{text: long[:150_000], more: 100}, 150_000, false},
		{"beyond the higher limit", "", talker{text: long, more: 250_000}, 250_000, true},
		{"a smaller limit", "spill.maxText=1000", talker{text: long}, 1000, true},
		{"no limit", "spill.maxText=0", talker{text: long}, 300_000, false},
		{"a failure of the tool", "", talker{text: long, fails: true}, 29_900, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.tool.name = "talk"
			self := kernel.NewOwner(t.Context(), "test")
			defer self.Close(context.Background())
			o := kerneltest.Options{
				Text: "plugins: {core: {use: core}, spill: {use: spill}}", Home: t.TempDir(),
				Plugins: []kernel.Plugin{core.Plugin, spill.Plugin},
			}
			if tc.set != "" {
				o.Sets = []string{tc.set}
			}
			b := kerneltest.Boot(t, o)
			tools, pipe := kerneltest.Seam[*tool.Registry](t, b), kerneltest.Seam[*tool.Pipeline](t, b)
			if err := tools.Register(self, tc.tool); err != nil {
				t.Fatal(err)
			}
			r := pipe.Call(t.Context(), tools.View(nil), "talk", "{}", tool.Invocation{SessionID: "s", CallID: "c"})
			text := sdkproto.TextOf(r.Content)
			if n := strings.Count(text, string([]rune(tc.tool.text)[0])); n < tc.want || n > tc.want+200 || utf8.RuneCountInString(text) > tc.want+500 {
				t.Errorf("%d characters of %d, want %d", n, utf8.RuneCountInString(text), tc.want)
			}
			data, err := os.ReadFile(filepath.Join(o.Home, "spill", "s", "c"))
			if tc.file != (err == nil) || tc.file && string(data) != tc.tool.text+"\n" {
				t.Errorf("a file: %v with %d bytes, want one: %v", err, len(data), tc.file)
			}
			if tc.file && !strings.Contains(text, filepath.Join(o.Home, "spill", "s", "c")) {
				t.Errorf("the file is not named: …%s", text[len(text)-300:])
			}
		})
	}
}

func TestConfig(t *testing.T) {
	for most, ok := range map[int]bool{0: true, 1000: true, 999: false, -1: false} {
		c := spill.Config{MaxText: most}
		if err := c.Validate(); (err == nil) != ok {
			t.Errorf("maxText %d: %v", most, err)
		}
	}
}
