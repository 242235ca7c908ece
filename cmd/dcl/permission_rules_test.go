package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto/wirejson"
)

// A deny rule holds against everything that allows (checklist 62, S065; spec
// stream-json 7.3): allow rules, every mode, a hook, the host's own suggestion. The
// call is not asked about, and what refuses it is a rule.
func TestDenyWins(t *testing.T) {
	t.Parallel()
	hook := object{"hookSpecificOutput": object{"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
	for name, flags := range map[string][]string{
		"allow rule of flags":    {"--allowedTools", "Bash(touch:*) Bash(touch made)", "--disallowedTools", "Bash(touch:*)"},
		"allow rule of settings": {"--settings", `{"permissions":{"allow":["Bash"],"deny":["Bash(touch *)"]}}`},
		"bypassPermissions":      {"--permission-mode", "bypassPermissions", "--disallowedTools", "Bash(touch:*)"},
		"acceptEdits":            {"--permission-mode", "acceptEdits", "--disallowedTools", "Bash(touch:*)"},
		"dontAsk":                {"--permission-mode", "dontAsk", "--allowedTools", "Bash(touch made)", "--disallowedTools", "Bash(touch:*)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).rounds([]use{bash("touch made")})
			h := r.start(flags...).with(&answers{hook: func(string, object) any { return hook }})
			h.initialize(hooksOf(nil, "PreToolUse"))
			result := h.prompt(1)
			if diff := cmp.Diff([]string{"Bash call_1_1_1"}, denials(result)); diff != "" || r.exists("made") || len(h.asks("can_use_tool")) != 0 {
				t.Error(diff)
			}
			if got := h.toolResults(); len(got) != 1 || got[0]["is_error"] != true || contentText(got[0]) != "Permission to use Bash has been denied." {
				t.Errorf("results %v", got)
			}
			if told := h.of("system/permission_denied"); len(told) != 1 || told[0]["tool_use_id"] != "call_1_1_1" {
				t.Errorf("told %v", told)
			}
		})
	}
}

// An ask rule asks although a rule, a mode or a hook allows (spec stream-json 7.3
// rule 5, 6.5 rule 2).
func TestAskRuleHolds(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"allow rule": {"--settings", `{"permissions":{"allow":["Bash(touch:*)"],"ask":["Bash(touch made)"]}}`},
		"bypass":     {"--permission-mode", "bypassPermissions", "--settings", `{"permissions":{"ask":["Bash(touch made)"]}}`},
		"read-only":  {"--settings", `{"permissions":{"ask":["Bash"]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).rounds([]use{bash("touch made")})
			h := r.start(flags...).with(&answers{permission: func(object) any { return deny("no") }, hook: func(string, object) any {
				return object{"hookSpecificOutput": object{"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
			}})
			h.initialize(hooksOf(nil, "PreToolUse"))
			h.prompt(1)
			if len(h.asks("can_use_tool")) != 1 || r.exists("made") {
				t.Errorf("asked %v", h.asks("can_use_tool"))
			}
		})
	}
}

// What each mode does with a read, an edit, commands, and tools that there are not
// (checklist 63, S043, S073; spec stream-json 7.1, 7.3; peers/claude 27, 28, 64).
// The host, where it is asked, refuses.
func TestModes(t *testing.T) {
	t.Parallel()
	calls := []use{
		{"Read", object{"file_path": "in.txt"}}, writes("w.txt"), bash("ls"), bash("touch t.txt"), bash("make x"),
		{"mcp__app__server_time", object{}}, {"Write", object{"file_path": ".git/hooks/pre-commit", "content": "x"}},
	}
	const planned = "Permission denied: Plan mode: write operations are not allowed"
	for mode, want := range map[string][]string{
		"default":           {"ran", "asked", "ran", "asked", "asked", "unknown", "asked"},
		"manual":            {"ran", "asked", "ran", "asked", "asked", "unknown", "asked"},
		"acceptEdits":       {"ran", "ran", "ran", "ran", "asked", "unknown", "asked"},
		"plan":              {"ran", "planned", "ran", "planned", "planned", "planned", "planned"},
		"bypassPermissions": {"ran", "ran", "ran", "ran", "ran", "unknown", "ran"},
		"dontAsk":           {"ran", "denied", "ran", "denied", "denied", "unknown", "denied"},
	} {
		for _, how := range []string{"at launch", "by request"} {
			t.Run(mode+" "+how, func(t *testing.T) {
				t.Parallel()
				r := newRoom(t).rounds(calls)
				r.write("in.txt", "in\n")
				r.write("Makefile", "x:\n\t@echo made\n")
				r.write(".git/HEAD", "ref: refs/heads/main\n")
				var h *host
				if how == "at launch" {
					h = r.start("--permission-mode", mode).approving(deny("the host says no"))
				} else {
					h = r.start().approving(deny("the host says no"))
					got := h.control("mode", "set_permission_mode", object{"mode": mode})
					if answered := dig(got, "response", "mode"); mode != "manual" && answered != mode || got["subtype"] != "success" {
						t.Errorf("set_permission_mode: %v", got)
					}
				}
				result := h.prompt(1)
				asked := map[any]bool{}
				for _, l := range h.asks("can_use_tool") {
					asked[dig(l, "request", "tool_use_id")] = true
				}
				var got, refused []string
				for i, b := range h.toolResults() {
					text, failed := contentText(b), b["is_error"] == true
					word := "denied"
					switch {
					case asked[b["tool_use_id"]] && text == "the host says no":
						word = "asked"
					case text == planned:
						word = "planned"
					case strings.HasPrefix(text, "No such tool available: mcp__app__server_time"):
						word = "unknown"
					case !failed:
						word = "ran"
					}
					if word == "asked" || word == "planned" || word == "denied" {
						refused = append(refused, fmt.Sprintf("%s call_1_1_%d", calls[i].tool, i+1))
					}
					got = append(got, word)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(refused, denials(result)); diff != "" {
					t.Errorf("permission_denials: %s", diff)
				}
				for i, file := range map[int]string{1: "w.txt", 3: "t.txt", 6: ".git/hooks/pre-commit"} {
					if r.exists(file) != (want[i] == "ran") {
						t.Errorf("%s is there: %v", file, r.exists(file))
					}
				}
			})
		}
	}
}

// A mode that is none is an error and changes nothing; bypassPermissions can be
// forbidden (S043, D12).
func TestModesThatAreRefused(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{bash("touch made")})
	h := r.start("--settings", `{"permissions":{"disableBypassPermissionsMode":"disable"}}`).approving(deny("no"))
	for i, mode := range []any{"nonsense", "", nil, 3, "Default", "bypassPermissions"} {
		if got := h.control(fmt.Sprint("m", i), "set_permission_mode", object{"mode": mode}); got["subtype"] != "error" {
			t.Errorf("mode %v: %v", mode, got)
		}
	}
	if h.prompt(1); len(h.asks("can_use_tool")) != 1 || r.exists("made") {
		t.Error("the mode has changed")
	}
}

// A rule for one command lets no other through with it (checklist 65, case B16;
// spec stream-json 7.2): each part of a line needs its own allow rule, and
// substitutions and redirections count.
func TestCompoundCommands(t *testing.T) {
	t.Parallel()
	lines := []string{
		"git status; touch m1", "git status && touch m2", "git status || touch m3", "git status | touch m4", "git status & touch m5",
		"git status\ntouch m6", "git status $(touch m7)", "git status `touch m8`", "git status <(touch m9)", "git status > m10", "git status |& touch m11",
	}
	for name, flags := range map[string][]string{
		"denied":      {"--settings", `{"permissions":{"allow":["Bash(git status:*)"],"deny":["Bash(touch:*)"]}}`, "--permission-prompts", "none"},
		"not allowed": {"--allowedTools", "Bash(git:*)", "--permission-mode", "dontAsk"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rounds := [][]use{{}, {}}
			var want []string
			for i, line := range lines {
				n := i / 6
				rounds[n] = append(rounds[n], bash(line))
				want = append(want, fmt.Sprintf("Bash call_1_%d_%d", n+1, len(rounds[n])))
			}
			rounds[0] = append(rounds[0], bash("git status"))
			r := newRoom(t).rounds(rounds...)
			repository(r)
			h := r.start(flags...).approving(deny("asked"))
			result := h.prompt(1)
			for i := range lines {
				if file := fmt.Sprint("m", i+1); r.exists(file) {
					t.Errorf("%q has made %s", lines[i], file)
				}
			}
			if diff := cmp.Diff(want, denials(result)); diff != "" || len(h.asks("can_use_tool")) != 0 {
				t.Error(diff)
			}
			if b := h.toolResults()[6]; b["is_error"] == true || !strings.Contains(contentText(b), "branch") {
				t.Errorf("git status alone: %v", b)
			}
		})
	}
	t.Run("all parts allowed", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t).rounds([]use{bash("touch a && echo b; touch c"), bash("timeout 5 touch d"), bash("touchy e")})
		h := r.start("--allowedTools", "Bash(touch:*)", "--permission-mode", "dontAsk")
		result := h.prompt(1)
		if !r.exists("a") || !r.exists("c") || !r.exists("d") {
			t.Errorf("results %v", h.toolResults())
		}
		if diff := cmp.Diff([]string{"Bash call_1_1_3"}, denials(result)); diff != "" {
			t.Error(diff)
		}
	})
}

// repository makes the workspace the work tree of an empty Git repository.
func repository(r *room) {
	r.write(".git/HEAD", "ref: refs/heads/main\n")
	r.write(".git/objects/info/keep", "")
	r.write(".git/refs/heads/keep", "")
}

// A deny rule on files holds however the file is spelled and through links (case
// B18; spec stream-json 7.2); recognised readers in the shell and edits are held to
// a Read rule, too.
func TestDenyRuleOnFiles(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.write("secret/key.txt", "the-secret-text\n")
	link(t, r.work+"/secret/key.txt", r.work+"/ok.txt")
	link(t, r.work+"/secret", r.work+"/okdir")
	read := func(path string) use { return use{"Read", object{"file_path": path}} }
	calls := [][]use{{
		read("secret/key.txt"), read("./secret/../secret/key.txt"), read(r.work + "/secret/key.txt"), read("ok.txt"), read("okdir/key.txt"),
		read("./okdir/../okdir/key.txt"), bash("echo fine"),
	}, {
		bash("cat secret/key.txt"), bash("head -1 ok.txt"),
		{"Grep", object{"pattern": "the", "path": "secret", "output_mode": "content"}},
		writes("okdir/new.txt"), writes("secret/new.txt"), {"Edit", object{"file_path": "ok.txt", "old_string": "the", "new_string": "a"}},
	}}
	r.rounds(calls...)
	h := r.start("--permission-mode", "bypassPermissions", "--settings", `{"permissions":{"deny":["Read(./secret/**)","Edit(./secret/**)"]}}`)
	result := h.prompt(1)
	var want []string
	for n, round := range calls {
		for i, c := range round {
			if c.tool != "Bash" || n > 0 {
				want = append(want, fmt.Sprintf("%s call_1_%d_%d", c.tool, n+1, i+1))
			}
		}
	}
	// Reads run side by side, so the order of their denials is open.
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(denials(result)))); diff != "" {
		t.Error(diff)
	}
	for _, b := range h.toolResults() {
		if strings.Contains(contentText(b), "the-secret") || (b["is_error"] != true) != (contentText(b) == "fine") {
			t.Errorf("result %v", b)
		}
	}
	if r.read("secret/key.txt") != "the-secret-text\n" || r.exists("secret/new.txt") {
		t.Error("something was written")
	}
}

// Members of a call's input are told apart by case, and one that comes twice is
// refused: what is asked about is what runs (case B23).
func TestRepeatedAndCapitalMembers(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{
		{"Bash", `{"command":"echo safe","Command":"touch m1"}`},
		{"Bash", `{"command":"touch m2","command":"echo safe"}`},
		{"Bash", `{"command":"echo safe","command":"touch m3"}`},
		{"Bash", `{"COMMAND":"touch m4"}`},
	})
	h := r.start().approving(allow())
	result := h.prompt(1)
	shown := map[any]bool{}
	for _, l := range h.asks("can_use_tool") {
		shown[dig(l, "request", "input", "command")] = true
	}
	for i := 1; i <= 4; i++ {
		if file := fmt.Sprint("m", i); r.exists(file) && !shown["touch "+file] {
			t.Errorf("%s was made and never asked about", file)
		}
	}
	if len(denials(result)) != 0 {
		t.Errorf("mistakes of the model are no denials: %v", denials(result))
	}
	for _, i := range []int{1, 2, 3} {
		if b := h.toolResults()[i]; b["is_error"] != true {
			t.Errorf("result %v", b)
		}
	}
}

// updatedPermissions hold from the next call of the same turn on, at every
// destination, and files keep what else is in them (checklist 61, S066; spec
// stream-json 5.1, 7.6; peers/claude 11).
func TestUpdatedPermissions(t *testing.T) {
	t.Parallel()
	rule := func(destination any, content any) object {
		return object{"type": "addRules", "behavior": "allow", "destination": destination, "rules": []object{{"toolName": "Bash", "ruleContent": content}}}
	}
	old := `{
  "model": "mock-model",
  "permissions": {"allow": ["Bash(old:*)"], "strange": 7},
  "unknown": {"a": [1, 2]}
}
`
	for _, tt := range []struct {
		destination any
		file        string // below the workspace, or in the folder of the user's settings
	}{
		{destination: "session"}, {destination: nil}, {destination: "cliArg"},
		{"localSettings", ".claude/settings.local.json"}, {"projectSettings", ".claude/settings.json"}, {"userSettings", "settings.json"},
	} {
		for _, before := range []string{"", old} {
			if tt.file == "" && before != "" {
				continue
			}
			t.Run(fmt.Sprint(tt.destination, " ", before != ""), func(t *testing.T) {
				t.Parallel()
				r := newRoom(t).rounds([]use{bash("touch one")}, []use{bash("touch two")})
				file := tt.file
				if tt.destination == "userSettings" {
					file = r.settings + "/" + file
				}
				if before != "" {
					r.write(file, before)
				}
				h := r.start().approving(allow(object{"updatedPermissions": []any{rule(tt.destination, "touch:*"), object{"type": "nonsense"}, 5}}))
				if result := h.prompt(1); len(h.asks("can_use_tool")) != 1 || !r.exists("one") || !r.exists("two") || len(denials(result)) != 0 {
					t.Errorf("asked %d times, result %v", len(h.asks("can_use_tool")), result)
				}
				if tt.file == "" {
					if r.exists(".claude") || r.read(r.settings+"/settings.json") != "" {
						t.Error("a file was written")
					}
					return
				}
				want := object{"permissions": object{"allow": []any{"Bash(touch:*)"}}}
				if before != "" {
					want = object{
						"model": "mock-model", "unknown": object{"a": []any{1.0, 2.0}},
						"permissions": object{"allow": []any{"Bash(old:*)", "Bash(touch:*)"}, "strange": 7.0},
					}
				}
				if diff := cmp.Diff(want, jsonOf(t, r.read(file))); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func jsonOf(t *testing.T, text string) (o object) {
	t.Helper()
	if err := wirejson.Unmarshal([]byte(text), &o); err != nil {
		t.Errorf("%v in %q", err, text)
	}
	return o
}

// The other kinds of PermissionUpdate (S066, spec stream-json 7.6): what a second
// call is met with, and what is in the local settings.
func TestKindsOfUpdates(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	bashRules := func(kind, behavior, content string) object {
		return object{"type": kind, "behavior": behavior, "destination": "localSettings", "rules": []object{{"toolName": "Bash", "ruleContent": content}}}
	}
	for _, tt := range []struct {
		name   string
		update object
		second use
		// want is what becomes of the second call: ran, asked or denied.
		want, file string
	}{
		{"addRules deny", bashRules("addRules", "deny", "touch:*"), bash("touch two"), "denied", `{"permissions":{"allow":["Bash(touch two)","Bash(touch three)"],"deny":["Bash(touch:*)"]}}`},
		{"removeRules", bashRules("removeRules", "allow", "touch two"), bash("touch two"), "asked", `{"permissions":{"allow":["Bash(touch three)"]}}`},
		{"replaceRules", bashRules("replaceRules", "allow", "touch four"), bash("touch two"), "asked", `{"permissions":{"allow":["Bash(touch four)"]}}`},
		{"setMode", object{"type": "setMode", "mode": "acceptEdits", "destination": "session"}, writes("w.txt"), "ran", ""},
		{"setMode, kept", object{"type": "setMode", "mode": "acceptEdits", "destination": "localSettings"}, writes("w.txt"), "ran", `{"permissions":{"allow":["Bash(touch two)","Bash(touch three)"],"defaultMode":"acceptEdits"}}`},
		{"setMode bypass is never kept", object{"type": "setMode", "mode": "bypassPermissions", "destination": "localSettings"}, bash("touch five"), "ran", ""},
		{"addDirectories", object{"type": "addDirectories", "directories": []string{outside}, "destination": "session"}, use{"Read", object{"file_path": outside + "/x"}}, "ran", ""},
		{"a rule for a whole tool", object{"type": "addRules", "behavior": "allow", "rules": []object{{"toolName": "Write", "ruleContent": nil}}}, writes("w.txt"), "ran", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const settings = `{"permissions":{"allow":["Bash(touch two)","Bash(touch three)"]}}`
			r := newRoom(t).rounds([]use{bash("make one")}, []use{tt.second})
			r.write(outside+"/x", "x\n")
			r.write(".claude/settings.local.json", settings)
			first := true
			h := r.start("--setting-sources", "local").answering(map[string]func(object) any{"can_use_tool": func(object) any {
				if first {
					first = false
					return deny("not this", object{"updatedPermissions": []any{tt.update}})
				}
				return deny("asked")
			}})
			h.prompt(1)
			results := h.toolResults()
			got := "ran"
			switch text := contentText(results[1]); {
			case text == "asked":
				got = "asked"
			case results[1]["is_error"] == true:
				got = "denied"
			}
			if got != tt.want || contentText(results[0]) != "not this" {
				t.Errorf("%s, want %s: %v", got, tt.want, results)
			}
			want := tt.file
			if want == "" {
				want = settings
			}
			if diff := cmp.Diff(jsonOf(t, want), jsonOf(t, r.read(".claude/settings.local.json"))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A question that an update of another answers is withdrawn, and its call runs
// (spec stream-json 5.1).
func TestUpdateAnswersOpenQuestions(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	read := func(name string) use { return use{"Read", object{"file_path": outside + "/" + name}} }
	r := newRoom(t).rounds([]use{read("a"), read("b")})
	r.write(outside+"/a", "text of a\n")
	r.write(outside+"/b", "text of b\n")
	h := r.start()
	h.user("go")
	first, _ := h.ask("can_use_tool", 1)
	second, _ := h.ask("can_use_tool", 2) // both wait
	h.respond(first, allow(object{"updatedPermissions": []object{{"type": "addDirectories", "directories": []string{outside}, "destination": "session"}}}))
	result := h.result(1)
	if h.cancels(second) != 1 || h.cancels(first) != 0 || len(denials(result)) != 0 {
		t.Errorf("%d and %d withdrawals, result %v", h.cancels(first), h.cancels(second), result)
	}
	for i, b := range h.toolResults() {
		if want := "text of " + []string{"a", "b"}[i]; b["is_error"] == true || !strings.Contains(contentText(b), want) {
			t.Errorf("result %v", b)
		}
	}
}

// Rules of settings files count when --setting-sources names them, and those of
// --settings, which may be a file, always (spec stream-json 7.4).
func TestRulesOfSettingsFiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		flags []string
		want  string // the files that there are afterwards
	}{
		{"all", []string{"--setting-sources=user,project,local"}, "user project local"},
		{"project", []string{"--setting-sources=project"}, "project"},
		{"two tokens", []string{"--setting-sources", "user,local"}, "user local"},
		{"none", []string{"--setting-sources="}, ""},
		{"none, but a file of flags", []string{"--setting-sources=", "--settings", "more.json"}, "flag"},
		{"a text of flags", []string{"--setting-sources=user", `--settings={"permissions":{"allow":["Bash(touch flag)"],"deny":["Bash(touch user)"]}}`}, "flag"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			names := []string{"user", "project", "local", "flag"}
			var calls []use
			for _, n := range names {
				calls = append(calls, bash("touch "+n))
			}
			r := newRoom(t).rounds(calls)
			for name, file := range map[string]string{
				"user": r.settings + "/settings.json", "project": ".claude/settings.json", "local": ".claude/settings.local.json", "flag": "more.json",
			} {
				r.write(file, fmt.Sprintf(`{"permissions":{"allow":["Bash(touch %s)"]}}`, name))
			}
			h := r.start(tt.flags...).approving(deny("no"))
			h.prompt(1)
			there := slices.DeleteFunc(names, func(n string) bool { return !r.exists(n) })
			if diff := cmp.Diff(strings.Fields(tt.want), there, cmp.Transformer("words", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A filter holds for the whole list of tools, wherever they come from (case B24;
// spec stream-json 7.2, 3.2): a bare deny rule, a server's name, --tools; and a call
// of what is filtered does not run. --allowedTools adds and hides nothing.
func TestToolFilters(t *testing.T) {
	t.Parallel()
	app := func() *sdkServer {
		return &sdkServer{tools: []object{{"name": "echo", "inputSchema": object{"type": "object"}}, {"name": "two", "inputSchema": object{"type": "object"}}}}
	}
	for _, tt := range []struct {
		name  string
		flags []string
		// there and gone are names in system/init.
		there, gone []string
	}{
		{"nothing", nil, []string{"Bash", "Write", "mcp__app__echo", "mcp__app__two"}, nil},
		{"a server's tools", []string{"--disallowedTools", "mcp__app__*"}, []string{"Bash"}, []string{"mcp__app__echo", "mcp__app__two"}},
		{"a server", []string{"--disallowedTools", "mcp__app"}, []string{"Bash"}, []string{"mcp__app__echo", "mcp__app__two"}},
		{"one of its tools", []string{"--disallowedTools=mcp__app__two,Write"}, []string{"Bash", "mcp__app__echo"}, []string{"mcp__app__two", "Write"}},
		{"no tools", []string{"--tools", ""}, []string{"mcp__app__echo"}, []string{"Bash", "Read", "Write", "Edit", "Agent", "Skill", "TodoWrite", "Glob"}},
		{"some tools", []string{"--tools", "Read,Glob"}, []string{"Read", "Glob", "mcp__app__echo"}, []string{"Bash", "Write"}},
		{"allowed beforehand", []string{"--allowedTools", ""}, []string{"Bash", "Write", "mcp__app__echo"}, nil},
		{"settings", []string{"--settings", `{"permissions":{"deny":["Bash","mcp__app"]}}`}, []string{"Write"}, []string{"Bash", "mcp__app__echo"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := app()
			calls := []use{}
			for _, name := range tt.gone {
				calls = append(calls, use{name, object{"command": "touch made", "file_path": "made", "content": "x"}})
			}
			r := newRoom(t).rounds(calls)
			h := r.start(tt.flags...).with(&answers{mcp: server.answer})
			h.initialize(object{"sdkMcpServers": []string{"app"}})
			h.prompt(1)
			init := h.of("system/init")[0]
			tools, _ := init["tools"].([]any)
			for _, name := range tt.there {
				if !slices.Contains(tools, any(name)) {
					t.Errorf("%s is not among %v", name, tools)
				}
			}
			for _, name := range tt.gone {
				if slices.Contains(tools, any(name)) {
					t.Errorf("%s is among %v", name, tools)
				}
			}
			for _, b := range h.toolResults() {
				if b["is_error"] != true {
					t.Errorf("ran: %v", b)
				}
			}
			if got := server.called(); len(got) != 0 || r.exists("made") {
				t.Errorf("the server was called: %v", got)
			}
		})
	}
}

// permission_denials are those of one turn, in order, once for each call, with the
// input that the model sent; mistakes, failures and tools that there are not are
// none (checklist 49, S028, spec stream-json 7.8).
func TestDenialsOfATurn(t *testing.T) {
	t.Parallel()
	calls := []use{
		bash("touch a"), bash("false"), {"Bash", object{"cmd": "x"}}, {"Nonsense", object{}}, writes("b.txt"), bash("rm -rf deep"),
	}
	r := newRoom(t).rounds(calls)
	h := r.start("--disallowedTools", "Bash(rm:*)", "--allowedTools", "Bash(false)").with(&answers{
		permission: func(object) any { return deny("no") },
		hook: func(_ string, in object) any {
			if in["tool_name"] == "Write" {
				return object{"decision": "block", "reason": "no writing"}
			}
			return object{}
		},
	})
	h.initialize(hooksOf(nil, "PreToolUse"))
	for turn := 1; turn <= 2; turn++ {
		result := h.prompt(turn)
		var want []any
		for _, i := range []int{0, 4, 5} {
			want = append(want, object{"tool_name": calls[i].tool, "tool_use_id": fmt.Sprintf("call_%d_1_%d", turn, i+1), "tool_input": calls[i].args})
		}
		if diff := cmp.Diff(want, result["permission_denials"]); diff != "" {
			t.Error(diff)
		}
	}
}
