package plugins_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dsh/kernel"
	"dsh/kernel/kerneltest"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins"
	"dsh/profiles"
	"dsh/sdkproto"
)

// TestRulesOfTools: for each tool the forms of rule that spec stream-json 7.2 has
// for it refuse what they name and nothing else. A rule for all calls leaves the
// tool out.
func TestRulesOfTools(t *testing.T) {
	const secret, open = "secret/a.txt", "open/a.txt"
	edit := func(file string) string { return `{"file_path":"` + file + `","old_string":"a","new_string":"b"}` }
	for _, tc := range []struct {
		tool, rule string
		// refused are calls that the rule names, free are others.
		refused, free []string
	}{
		{"Read", "Read(./secret/**)", []string{`{"file_path":"$W/` + secret + `"}`}, []string{`{"file_path":"$W/` + open + `"}`}},
		{"Edit", "Edit(secret/**)", []string{edit("$W/" + secret)}, []string{edit("$W/" + open)}},
		{"Edit", "Read(./secret/**)", []string{edit("$W/" + secret)}, []string{edit("$W/" + open)}},
		{"Write", "Edit(secret/**)", []string{`{"file_path":"$W/` + secret + `","content":"x"}`}, []string{`{"file_path":"$W/` + open + `","content":"x"}`}},
		{"NotebookEdit", "Edit(secret/**)", []string{`{"notebook_path":"$W/secret/n.ipynb","new_source":"x"}`}, []string{`{"notebook_path":"$W/open/n.ipynb","new_source":"x"}`}},
		{"Glob", "Read(secret/**)", []string{`{"pattern":"secret/**"}`, `{"pattern":"*","path":"secret"}`}, []string{`{"pattern":"open/**"}`, `{"pattern":"**"}`}},
		{"Grep", "Read(secret/**)", []string{`{"pattern":"x","path":"$W/secret"}`}, []string{`{"pattern":"x","path":"open"}`, `{"pattern":"x"}`}},
		{"Grep", "Grep", []string{`{"pattern":"x"}`}, nil},
		{"LSP", "Read(secret/**)", []string{`{"operation":"documentSymbol","filePath":"$W/` + secret + `"}`}, []string{`{"operation":"documentSymbol","filePath":"$W/` + open + `"}`}},
		{"Bash", "Bash(git:*)", []string{`{"command":"git status"}`, `{"command":"true && git log"}`}, []string{`{"command":"gitk"}`, `{"command":"echo git"}`}},
		{"WebFetch", "WebFetch(domain:*.secret.test)", []string{`{"url":"https://a.secret.test/x","prompt":""}`}, []string{`{"url":"ftp://open.test/","prompt":""}`}},
		{"WebSearch", "WebSearch", []string{`{"query":"x"}`}, nil},
		{"Skill", "Skill(deploy)", []string{`{"skill":"deploy"}`}, []string{`{"skill":"other"}`}},
		{"Agent", "Agent(Explore)", []string{`{"description":"d","prompt":"p","subagent_type":"Explore"}`}, nil},
		{"Agent", "Task(Explore)", []string{`{"description":"d","prompt":"p","subagent_type":"Explore"}`}, nil},
		{"TodoWrite", "TodoWrite", []string{`{"todos":[]}`}, nil},
		{"TaskStop", "TaskStop", []string{`{"task_id":"x"}`}, nil},
		{"TaskOutput", "TaskOutput(*)", []string{`{"task_id":"x"}`}, nil},
		{"EnterPlanMode", "EnterPlanMode()", []string{`{}`}, nil},
	} {
		t.Run(tc.tool+" "+tc.rule, func(t *testing.T) {
			cwd, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{secret, open} {
				if err := os.MkdirAll(filepath.Join(cwd, filepath.Dir(name)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(cwd, name), []byte("a\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			booted := kerneltest.Boot(t, kerneltest.Options{
				Profile: "stream-json", FS: profiles.FS, Plugins: plugins.Builtin(),
				Sets: []string{"web.search.url=http://127.0.0.1:1", "permissions.mode=bypassPermissions", `permissions.rules.deny=["` + tc.rule + `"]`},
			})
			registry, ok := kernel.Seam[*tool.Registry](booted.Kernel)
			pipeline, also := kernel.Seam[*tool.Pipeline](booted.Kernel)
			if !ok || !also {
				t.Fatal("no registry or no pipeline")
			}
			whole := !strings.Contains(strings.NewReplacer("(*)", "", "()", "").Replace(tc.rule), "(")
			denied := func(arguments string) bool {
				res := pipeline.Call(t.Context(), registry.View(nil), tc.tool, strings.ReplaceAll(arguments, "$W", filepath.ToSlash(cwd)), tool.Invocation{
					SessionID: "s", CWD: cwd, CallID: "c", Emit: func(...session.Draft) error { return nil },
				})
				text := sdkproto.TextOf(res.Content)
				t.Logf("%s: %.100s", arguments, text)
				if whole {
					return text == "No such tool available: "+tc.tool
				}
				return res.Error != nil && res.Error.Code == tool.CodePermissionDenied
			}
			for _, call := range tc.refused {
				if !denied(call) {
					t.Errorf("%s is not refused", call)
				}
			}
			for _, call := range tc.free {
				if denied(call) {
					t.Errorf("%s is refused", call)
				}
			}
		})
	}
}
