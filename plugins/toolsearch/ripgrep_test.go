package toolsearch

import (
	"context"
	"fmt"
	"log/slog"
	"regexp/syntax"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/kerneltest"
	"dsh/kernel/process"
	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
	"dsh/plugins/processlocal"
	"dsh/plugins/sandboxlandlock"
)

// withRunner is setUp with what starts programs; the log goes to h.
func withRunner(t testing.TB, c Config, h slog.Handler) *fixture {
	t.Helper()
	booted := kerneltest.Boot(t, kerneltest.Options{
		Text:    "plugins: {run: {use: process-local}, sandbox: {use: sandbox-landlock}}\n",
		Plugins: []kernel.Plugin{processlocal.Plugin, sandboxlandlock.Plugin},
	})
	runner, ok := kernel.Seam[process.Runner](booted.Kernel)
	confiner, also := kernel.Seam[process.Confiner](booted.Kernel)
	if !ok || !also {
		t.Fatal("no runner or no confiner")
	}
	x := &fixture{}
	x.Fixture = tooltest.NewFixture(t, func(o *kernel.Owner, r *tool.Registry) error {
		x.s = New(Params{
			Self: kernel.Instance{Owner: o, Log: slog.New(h)}, Config: c, Tools: r, Runner: runner, Confiner: confiner,
		})
		return x.s.register()
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := runner.EndSession(ctx, "s"); err != nil {
			t.Error(err)
		}
	})
	return x
}

// many makes so many files that a search of all of them asks ripgrep; two of
// those hold a needle.
func (x *fixture) many() {
	x.T.Helper()
	for i := range aheadOfRipgrep + 100 {
		content := "hay\n"
		if i == aheadOfRipgrep+7 || i == aheadOfRipgrep+70 {
			content = "a needle\n"
		}
		x.Put(fmt.Sprintf("f%04d", i), content)
	}
}

// TestForeign: what stands for an expression must match wherever that does, so
// that what engines see differently is written out.
func TestForeign(t *testing.T) {
	for pattern, want := range map[string]string{
		"ab.c":               `\x{61}\x{62}(?:[\x00-\x09\x0B-\x7F]|(?-u:[\x80-\xFF])+)\x{63}`,
		`\d+é`:               `(?:[\x30-\x39])+\x{E9}`,
		`\D`:                 `(?:[\x00-\x09\x0B-\x2F\x3A-\x7F]|(?-u:[\x80-\xFF])+)`,
		"(?i)ak":             `[\x41-\x41\x61-\x61](?:[\x4B-\x4B\x6B-\x6B]|(?-u:[\x80-\xFF])+)`,
		"^(a|b)$":            `(?:^\x{FEFF}?)(?:[\x61-\x62])(?:\r?$)`,
		"(?:ab|cd)?":         `(?:(?:\x{61}\x{62}|\x{63}\x{64}))?`,
		`\ba{2,3}?b{2,}`:     `(?-u:\b)(?:\x{61}){2,3}(?:\x{62}){2,}`,
		`\Ba*`:               `(?-u:\B)(?:\x{61})*`,
		"世\ufffd":            `\x{4E16}(?:(?-u:[\x80-\xFF])+)`,
		`a\nb`:               "", // in no line
		`[\n]`:               "",
		`[^\x00-\x{10FFFF}]`: "",
		"(?:abcdefgh){1000}(?:" + string(make([]byte, 3000)) + ")": "", // too long
	} {
		tree, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := foreign(tree)
		if !ok {
			got = ""
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%.40q (-want +got):\n%s", pattern, d)
		}
	}
}

// TestRipgrepSetting: what names no rg is refused before anything starts.
func TestRipgrepSetting(t *testing.T) {
	for setting, want := range map[string]bool{"auto": true, "never": true, "/usr/bin/rg": true, "": false, "rg": false, "./rg": false, "always": false} {
		c := defaults()
		c.Ripgrep = setting
		if err := c.Validate(); (err == nil) != want {
			t.Errorf("%q: %v", setting, err)
		}
	}
}
