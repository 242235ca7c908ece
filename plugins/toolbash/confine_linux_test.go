package toolbash

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dsh/kernel/process"
	"dsh/kernel/tool"
	"dsh/plugins/processlocal"
	"dsh/plugins/sandboxlandlock"
)

// TestConfinement: a command is confined as the call says, and the model is told
// only where that does not hold (case B102).
func TestConfinement(t *testing.T) {
	for _, tc := range []struct {
		name      string
		sandboxed bool
		asks      *process.Confinement
		// text is the whole text, or its beginning before what is missing.
		text          string
		missing       bool
		writes, fails bool
	}{
		{"unconfined", true, nil, "written", false, true, false},
		{"confined", true, &process.Confinement{Mode: process.ReadOnly}, "refused", false, false, false},
		{"nothing confines", false, &process.Confinement{Mode: process.ReadOnly},
			"written\n[the command was confined less than was asked for: ", true, true, false},
		{"it must hold", false, &process.Confinement{Mode: process.ReadOnly, Strict: true},
			"Error: the command could not be started: ", true, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, func(p *Params) {
				if !tc.sandboxed {
					return
				}
				runner, err := processlocal.New(processlocal.Params{
					Self:     p.Self,
					Config:   *processlocal.Plugin.Defaults().(*processlocal.Config),
					Confiner: sandboxlandlock.New(sandboxlandlock.Params{Self: p.Self}),
				})
				if err != nil {
					t.Fatal(err)
				}
				p.Runner = runner
				t.Cleanup(func() {
					if err := runner.EndSession(context.Background(), "main"); err != nil {
						t.Error(err)
					}
				})
			})
			res := w.invoke(context.Background(), map[string]any{"command": "echo x 2>/dev/null > marker && printf written || printf refused"},
				func(in *tool.Invocation) { in.Confinement = tc.asks })
			got := text(res)
			if tc.missing {
				if !strings.Contains(got, "the profile has no row that confines programs") {
					t.Errorf("text %q does not say what is missing", got)
				}
				got = got[:min(len(got), len(tc.text))]
			}
			if got != tc.text || res.IsError != tc.fails {
				t.Errorf("text is %q, error %v; want %q, error %v", got, res.IsError, tc.text, tc.fails)
			}
			if _, err := os.Stat(filepath.Join(w.cwd, "marker")); (err == nil) != tc.writes {
				t.Errorf("file: %v, want that it is there: %v", err, tc.writes)
			}
		})
	}
}
