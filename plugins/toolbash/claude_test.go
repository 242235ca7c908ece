//go:build unix

package toolbash

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
	"dsh/sdkproto/wirejson"
)

func claudeWorld(t *testing.T, change ...func(*Params)) *world {
	t.Helper()
	return newWorld(t, append([]func(*Params){func(p *Params) { p.Config.Dialect = "claude" }}, change...)...)
}

func TestClaudeConformance(t *testing.T) {
	w := claudeWorld(t)
	tooltest.TestTool(t, w.bash.tool, tooltest.Options{
		Good:     []string{`{"command":"echo hi","description":"say hi","timeout":5000}`, `{"command":"true"}`},
		NotEmpty: []string{"command"},
		Slow:     `{"command":"sleep 300"}`,
	})
}

func TestClaudeSpec(t *testing.T) {
	w := claudeWorld(t)
	if got := tooltest.Inputs(t, w.bash.tool); got != "command dangerouslyDisableSandbox? description? run_in_background? timeout?" {
		t.Errorf("inputs %s", got)
	}
	spec := w.bash.tool.Spec()
	if want := (tool.Subject{Rule: "Bash", Kind: tool.SubjectCommand, Member: "command"}); spec.Name != "Bash" || spec.Subject != want || spec.ReadOnly {
		t.Errorf("spec %+v", spec)
	}
}

// TestClaudeResults: spec stream-json 9, peers' transcripts 13 and 14.
func TestClaudeResults(t *testing.T) {
	w := claudeWorld(t)
	if err := os.WriteFile(w.cwd+"/a", []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := func(stdout, stderr, meaning string) map[string]any {
		m := map[string]any{"stdout": stdout, "stderr": stderr, "interrupted": false, "isImage": false}
		if meaning != "" {
			m["returnCodeInterpretation"] = meaning
		}
		return m
	}
	for _, tc := range []struct {
		command, text string
		// meta is nil, and code set, for an error.
		meta map[string]any
		code string
	}{
		{"echo hi", "hi", good("hi", "", ""), ""},
		{"true", "(no output)", good("", "", ""), ""},
		{"echo out; echo err >&2", "out\nerr", good("out", "err", ""), ""},
		{"echo err >&2; sleep 0.1; printf out", "out\nerr", good("out", "err", ""), ""},
		{"echo err >&2", "err", good("", "err", ""), ""},
		{"echo err >&2; echo out; exit 3", "Exit code 3\nout\nerr", nil, "EXIT_CODE"},
		{"echo out; echo err >&2; exit 3", "Exit code 3\nout\nerr", nil, "EXIT_CODE"},
		{"false", "Exit code 1", nil, "EXIT_CODE"},
		{"grep nothing a", "(no output)\n[exit code 1: nothing matches]", good("", "", "nothing matches"), ""},
		{"grep nothing missing", "Exit code 2\ngrep: missing: No such file or directory", nil, "EXIT_CODE"},
		{"kill -KILL $$", "Ended by signal: SIGKILL", nil, "SIGNAL"},
	} {
		t.Run(tc.command, func(t *testing.T) {
			res := w.run(map[string]any{"command": tc.command})
			var meta map[string]any
			if res.Meta != nil {
				if err := wirejson.Unmarshal(res.Meta, &meta); err != nil {
					t.Fatal(err)
				}
			}
			code := ""
			if res.Error != nil {
				code = res.Error.Code
			}
			if text(res) != tc.text || code != tc.code || res.IsError != (tc.code != "") {
				t.Errorf("got %q %q, want %q %q", text(res), code, tc.text, tc.code)
			}
			if diff := cmp.Diff(tc.meta, meta); diff != "" {
				t.Errorf("meta (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClaudeTimeout: what begins with sleep or contains git is ended when its time
// is up, with the output so far in the result; anything else goes on in the
// background (spec stream-json 9, output limits).
func TestClaudeTimeout(t *testing.T) {
	w := claudeWorld(t)
	for _, command := range []string{"echo so far; sleep 300; git status", "sleep 300", " sleep 300; echo x"} {
		res := w.run(map[string]any{"command": command, "timeout": 300})
		if !res.IsError || res.Error.Code != "TIMEOUT" || res.Meta != nil || !strings.HasPrefix(text(res), "Command timed out after 300ms") {
			t.Errorf("%s: got %+v", command, res)
		}
		if strings.HasPrefix(command, "echo") && !strings.HasSuffix(text(res), "\nso far") {
			t.Errorf("%s: got %q", command, text(res))
		}
	}
	if jobs := w.board.List("main"); len(jobs) != 0 {
		t.Errorf("still on the board: %v", jobs)
	}
	res := w.run(map[string]any{"command": "echo so far; echo wrong >&2; sleep 300", "timeout": 1000})
	var meta claudeResult
	if err := wirejson.Unmarshal(res.Meta, &meta); err != nil {
		t.Fatal(err)
	}
	j, ok := w.board.Lookup(meta.BackgroundTaskID)
	if res.IsError || !ok || j.Over() || !j.Background || meta.Stdout != "so far" || meta.Stderr != "wrong" {
		t.Errorf("got %+v, job %+v", res, j)
	}
	if !strings.Contains(text(res), j.ID) || !strings.Contains(text(res), j.OutputFile) || !strings.HasSuffix(text(res), "\nSo far it has said:\nso far\nwrong") {
		t.Errorf("text %q", text(res))
	}
	w.stop(j.ID)
}

func TestClaudeTimeoutArguments(t *testing.T) {
	w := claudeWorld(t)
	res := w.run(map[string]any{"command": "true", "timeout": -1})
	if !res.IsError || text(res) != "timeout is -1; it must be greater than 0" {
		t.Errorf("got %+v", res)
	}
	res = w.run(map[string]any{"command": "true", "timeout": 600_001})
	if res.IsError || text(res) != "(no output)\n[timeout was lowered from 600001 to 600000, the most that is allowed]" {
		t.Errorf("got %+v", res)
	}
}

// TestClaudeLongOutput: 30,000 characters of a success, 10,000 of a failure, all
// of it in a file (case B67).
func TestClaudeLongOutput(t *testing.T) {
	w := claudeWorld(t)
	for _, tc := range []struct {
		name, command string
		most          int
		kept          int64
	}{
		{"a success", "head -c 200000 /dev/zero | tr '\\0' x", 30_000, 200_000},
		{"a long failure", "head -c 200000 /dev/zero | tr '\\0' x; exit 2", 10_300, 200_000},
		{"a failure that is too long only as one", "head -c 20000 /dev/zero | tr '\\0' x; exit 2", 10_300, 20_000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res := w.run(map[string]any{"command": tc.command})
			if n := utf8.RuneCountInString(text(res)); n > tc.most || n < tc.most-1000 {
				t.Errorf("the text has %d characters, want about %d", n, tc.most)
			}
			_, rest, ok := strings.Cut(text(res), "the whole output is in ")
			path, _, _ := strings.Cut(rest, " …")
			info, err := os.Stat(path)
			if !ok || err != nil || info.Size() != tc.kept {
				t.Fatalf("no file of %d bytes is named: %v", tc.kept, err)
			}
			if res.IsError {
				return
			}
			var meta claudeResult
			if err := wirejson.Unmarshal(res.Meta, &meta); err != nil {
				t.Fatal(err)
			}
			if meta.PersistedOutputPath != path || meta.PersistedOutputSize != tc.kept || meta.Stdout != text(res) {
				t.Errorf("meta %.200s", res.Meta)
			}
		})
	}
}

func TestMeansNoFailure(t *testing.T) {
	for command, want := range map[string]string{
		"grep x f":                    "nothing matches",
		"/usr/bin/rg x":               "nothing matches",
		"find / -name x":              "some folders could not be read",
		"diff a b":                    "the files differ",
		"test -f x":                   "the condition is false",
		"[ -f x ]":                    "the condition is false",
		"[[ -f x ]]":                  "the condition is false",
		"git diff --exit-code":        "the files differ",
		"git -C /x --no-pager grep y": "nothing matches",
		"cat f | grep x":              "nothing matches",
		"make; grep x f":              "nothing matches",
		"make || grep x f":            "nothing matches",
		"grep x f && echo found":      "nothing matches",
		"(cd d; grep x f)":            "nothing matches",
		"command grep x f":            "nothing matches",
		"FOO=1 grep x f >/dev/null":   "nothing matches",
		"make":                        "",
		"grep x f | wc":               "",
		"make && grep x f":            "",
		"grep x f && make":            "",
		"grep x f; make":              "",
		"! grep x f":                  "",
		"grep x f &":                  "",
		"git push":                    "",
		"git":                         "",
		"$GREP x":                     "",
		"echo x":                      "",
		"if grep x f; then false; fi": "",
		"grep 'unclosed":              "",
		"":                            "",
		"echo a && echo b":            "",
		"xgrep y":                     "",
	} {
		if got := meansNoFailure(command); got != want {
			t.Errorf("%q: got %q, want %q", command, got, want)
		}
	}
}

// The variables of the two limits are set apart from each other.
func TestClaudeLimits(t *testing.T) {
	c := defaults()
	c.TimeoutMs = 900_000
	if c.Validate() == nil {
		t.Error("under dsh the usual limit may not be above the largest")
	}
	c.Dialect = "claude"
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	w := claudeWorld(t, func(p *Params) { p.Config.TimeoutMs = 900_000 })
	if res := w.run(map[string]any{"command": "true", "timeout": 900_000}); res.IsError || text(res) != "(no output)" {
		t.Errorf("got %+v", res)
	}
}
