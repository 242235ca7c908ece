package processlocal

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dsh/kernel"
	"dsh/kernel/process"
	"dsh/kernel/process/processtest"
	"dsh/plugins/sandboxlandlock"
)

func sandbox() process.Confiner {
	return sandboxlandlock.New(sandboxlandlock.Params{Self: kernel.Instance{Log: slog.New(slog.DiscardHandler)}})
}

// confinedRunner confines every command to its directory.
type confinedRunner struct {
	*Runner
	t *testing.T
}

func (r confinedRunner) Run(ctx context.Context, c process.Command) (process.Exit, error) {
	c.Confinement = &process.Confinement{Mode: process.WorkspaceWrite, Write: []string{c.Dir}, Strict: true}
	exit, err := r.Runner.Run(ctx, c)
	if err == nil && exit.Reached != (process.Reached{Level: process.ReachedFull}) {
		r.t.Errorf("reached %+v, want full", exit.Reached)
	}
	// The suite knows of no confinement.
	exit.Reached = process.Reached{}
	return exit, err
}

// TestSuiteConfined: everything else is the same for a confined program, such as
// the end of its group.
func TestSuiteConfined(t *testing.T) {
	processtest.Suite(t, func(t *testing.T) process.Runner {
		r, _ := start(t, func(p *Params) { p.Confiner = sandbox() })
		return confinedRunner{r, t}
	})
}

// TestConfinement: what is asked for is done, reported, or refused (case B102).
func TestConfinement(t *testing.T) {
	const missing = "the profile has no row that confines programs"
	for _, tc := range []struct {
		name     string
		confiner process.Confiner
		asks     *process.Confinement
		// writes: the program writes outside; missing is part of what is said.
		writes  bool
		level   string
		missing string
		refused bool
	}{
		{"nothing is asked", sandbox(), nil, true, "", "", false},
		{"full access", sandbox(), &process.Confinement{Mode: process.FullAccess, Strict: true}, true, "none", "", false},
		{"confined", sandbox(), &process.Confinement{Mode: process.ReadOnly}, false, "full", "", false},
		{"confined strictly", sandbox(), &process.Confinement{Mode: process.ReadOnly, Strict: true}, false, "full", "", false},
		{"no confiner, nothing is asked", nil, nil, true, "", "", false},
		{"no confiner, full access", nil, &process.Confinement{Mode: process.FullAccess, Strict: true}, true, "none", "", false},
		{"no confiner", nil, &process.Confinement{Mode: process.ReadOnly}, true, "none", missing, false},
		{"no confiner, but it must hold", nil, &process.Confinement{Mode: process.ReadOnly, Strict: true}, false, "", missing, true},
		{"no confiner, and no network it must be", nil, &process.Confinement{Mode: process.FullAccess, NoNetwork: true, Strict: true}, false, "", missing, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log processtest.Buffer
			r, _ := start(t, func(p *Params) {
				p.Confiner = tc.confiner
				p.Self.Log = slog.New(slog.NewTextHandler(&log, nil))
			})
			for range 2 {
				marker := filepath.Join(t.TempDir(), "marker")
				c := shellCommand(t, `: > "$MARKER"`, &processtest.Buffer{})
				c.Env = []string{"MARKER=" + marker}
				c.Confinement = tc.asks
				exit, err := r.Run(context.Background(), c)
				if refused := err != nil; refused != tc.refused || refused && !strings.Contains(err.Error(), tc.missing) {
					t.Errorf("error is %v, want a refusal: %v", err, tc.refused)
				}
				if tc.refused {
					continue
				}
				if exit.Reached.Level != tc.level || !strings.HasPrefix(exit.Reached.Missing, tc.missing) || (exit.Reached.Missing == "") != (tc.missing == "") {
					t.Errorf("reached %+v, want level %q, missing %q", exit.Reached, tc.level, tc.missing)
				}
				if _, err := os.Stat(marker); errors.Is(err, fs.ErrNotExist) == tc.writes || (exit.Code == 0) != tc.writes {
					t.Errorf("exit %+v, file outside: %v, want that it writes: %v", exit, err, tc.writes)
				}
			}
			if n := strings.Count(log.String(), missing); n > 1 || (n == 1) != (tc.missing != "" && !tc.refused) {
				t.Errorf("the log says %d times that nothing confines:\n%s", n, &log)
			}
		})
	}
}
