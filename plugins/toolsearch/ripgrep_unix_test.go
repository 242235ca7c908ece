//go:build unix

package toolsearch

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"dsh/kernel/tool"
)

// TestHostileRipgrep: whatever a program that calls itself rg does, a search has
// the results that it has without one, the log says once why it is not used, and
// it is not started again.
func TestHostileRipgrep(t *testing.T) {
	const version = `if [ "$2" = --version ]; then echo "ripgrep 15.2.0"; exit 0; fi` + "\n"
	for name, tc := range map[string]struct {
		script string
		// warns is part of the log; runs is how often rg may have been started.
		warns string
		runs  int
	}{
		"another program":       {"echo 'rg 1.0, a generator'", "is another program", 1},
		"no version":            {"exit 3", "it ended with the code 3", 1},
		"a version without end": {"yes ripgrep", "it did not end in time", 1},
		"crashes":               {version + "kill -SEGV $$", "ended by", 2},
		"an odd code":           {version + "exit 77", "it ended with the code 77", 2},
		"garbage":               {version + "head -c 100000 /dev/zero | tr '\\0' x", "of 100 files", 2},
		"half a name":           {version + "printf ./f0407", "it was not given", 2},
		"another file":          {version + "printf './f0000\\0'", "it was not given", 2},
		"found without a name":  {version + "exit 0", "it names 0 of 100 files", 2},
		"a name and not found":  {version + "printf './f0407\\0'; exit 1", "it names 1 of 100 files", 2},
		"hangs":                 {version + "trap '' TERM; sleep 600 & wait", "it did not end in time", 2},
		"cannot":                {version + "echo cannot >&2; exit 2", "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := defaults()
			dir := t.TempDir()
			c.Ripgrep = dir + "/rg"
			runs := dir + "/runs"
			// The pretender is not confined, so that it can count.
			if err := os.WriteFile(c.Ripgrep, []byte("#!/bin/sh\necho x >>"+runs+"\n"+tc.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			x := withRunner(t, c, slog.NewTextHandler(&log, nil))
			x.s.ripgrep.confiner, x.s.ripgrep.eager = nil, true
			if strings.Contains(tc.warns, "in time") {
				x.s.ripgrep.limit = 500 * time.Millisecond
			}
			x.many()
			want := x.Path("f0407") + ":\n  1: a needle\n\n" + x.Path("f0470") + ":\n  1: a needle"
			for range 2 {
				if got := x.Good("grep", args{"pattern": "needle"}); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
			if said := strings.Count(log.String(), "level=WARN"); tc.warns == "" && said != 0 || tc.warns != "" && (said != 1 || !strings.Contains(log.String(), tc.warns)) {
				t.Errorf("the log lacks %q: %s", tc.warns, log.String())
			}
			b, err := os.ReadFile(runs)
			if err != nil || bytes.Count(b, []byte("x")) != tc.runs {
				t.Errorf("rg was started as in %q, want %d times (%v)", b, tc.runs, err)
			}
		})
	}
}

// TestRipgrepIsAsked: with an rg that passes one file, only that one is searched;
// a file that no call may read is not told to it, and a small search does without.
func TestRipgrepIsAsked(t *testing.T) {
	c := defaults()
	dir := t.TempDir()
	c.Ripgrep = dir + "/rg"
	script := `#!/bin/sh
if [ "$2" = --version ]; then echo "ripgrep 15.2.0"; exit 0; fi
printf '%s\n' "$@" >` + dir + `/args
pwd >>` + dir + `/args
printf './f0470\0'
`
	if err := os.WriteFile(c.Ripgrep, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	x := withRunner(t, c, slog.DiscardHandler)
	x.s.ripgrep.confiner, x.s.ripgrep.eager = nil, true
	x.many()
	x.Put("sub/only", "a needle\n")
	if got := x.Good("grep", args{"pattern": "needle", "path": "sub"}); !strings.Contains(got, "only") {
		t.Errorf("got %q", got)
	}
	if _, err := os.Stat(dir + "/args"); err == nil {
		t.Error("rg was asked about one file")
	}
	res := x.Pipe.Call(t.Context(), x.View, "grep", `{"pattern":"needle"}`, tool.Invocation{
		SessionID: "s", CWD: x.Dir, Hidden: func(path string) bool { return strings.HasSuffix(path, "f0450") },
	})
	if got, want := res.Content[0].Text, x.Path("f0470")+":\n  1: a needle"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b, err := os.ReadFile(dir + "/args")
	if err != nil {
		t.Fatal(err)
	}
	asked := string(b)
	for _, want := range []string{"--no-config\n", "--null\n", `--regexp=(?:\x{6E}\x{65}\x{65}\x{64}\x{6C}\x{65})|(?-u:^(?:\xFF\xFE|\xFE\xFF))` + "\n--\n./f0400\n./f0401\n", "./f0449\n./f0451\n", "./sub/only\n" + x.Dir + "\n"} {
		if !strings.Contains(asked, want) {
			t.Errorf("rg was not given %q: %.600q", want, asked)
		}
	}
}

// TestRipgrepIsCancelled: the end of a call is that of the rg it started, and no
// judgement on it.
func TestRipgrepIsCancelled(t *testing.T) {
	c := defaults()
	dir := t.TempDir()
	c.Ripgrep = dir + "/rg"
	script := `#!/bin/sh
if [ "$2" = --version ]; then echo "ripgrep 15.2.0"; exit 0; fi
echo x >` + dir + `/began
exec sleep 600
`
	if err := os.WriteFile(c.Ripgrep, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	x := withRunner(t, c, slog.DiscardHandler)
	x.s.ripgrep.confiner, x.s.ripgrep.eager = nil, true
	x.many()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for range 3000 {
			if _, err := os.Stat(dir + "/began"); err == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if res := x.Call(ctx, "grep", args{"pattern": "needle"}); !res.IsError || res.Error.Code != "ABORTED" {
		t.Errorf("got %+v", res)
	}
	if !x.s.ripgrep.wanted() {
		t.Error("rg is not used any more")
	}
}
