package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// commands is a settings text with command hooks of one event.
func commands(event string, matcher any, list ...string) string {
	var hooks []object
	for _, c := range list {
		hooks = append(hooks, object{"type": "command", "command": c})
	}
	return encode(object{"hooks": object{event: []object{{"matcher": matcher, "hooks": hooks}}}})
}

// A refusal by a hook holds for every tool and in every documented form (case B26):
// a shell command, an edit, a write, a tool of an MCP server, each refused by exit
// code 2, by the nested decision, by a decision on standard output of a command that
// ends with 2, by the older form, and by a callback. A shape that there is not is
// told and refuses nothing.
func TestRefusalsOfEveryForm(t *testing.T) {
	t.Parallel()
	nested := encode(decides("deny", object{"permissionDecisionReason": "no-by-hook"}))
	forms := map[string]string{
		"exit 2":               `echo no-by-hook >&2; exit 2`,
		"nested":               `echo '` + nested + `'`,
		"exit 2 with decision": `echo '` + nested + `'; exit 2`,
		"exit 2 against allow": `echo '` + encode(decides("allow")) + `'; echo no-by-hook >&2; exit 2`,
		"older form":           `echo '{"decision":"block","reason":"no-by-hook"}'`,
		"callback":             "",
		"no such shape":        `echo '{"permission":"deny"}'`,
	}
	for form, command := range forms {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			app := &sdkServer{tools: []object{aTool("echo")}}
			r := newRoom(t).rounds([]use{
				bash("touch by-bash"), writes("by-write"), {"Edit", object{"file_path": "edited", "old_string": "old", "new_string": "new"}}, {"mcp__app__echo", object{"text": "x"}},
			})
			r.write("edited", "old\n")
			settings := "{}"
			if command != "" {
				settings = commands("PreToolUse", "*", command)
			}
			h := r.start("--permission-mode", "bypassPermissions", "--settings", settings).with(&answers{mcp: app.answer, hook: func(string, object) any {
				return decides("deny", object{"permissionDecisionReason": "no-by-hook"})
			}})
			in := object{"sdkMcpServers": []string{"app"}}
			if command == "" {
				in["hooks"] = hooksOf(nil, "PreToolUse")["hooks"]
			}
			h.initialize(in)
			result := h.prompt(1)
			ran := r.exists("by-bash") || r.exists("by-write") || r.read("edited") != "old\n" || len(app.called()) > 0
			if form == "no such shape" {
				told := encode(h.of("system/informational"))
				if !ran || len(denials(result)) != 0 || !strings.Contains(told, "permission") {
					t.Errorf("told %s", told)
				}
				h.says("permission")
				return
			}
			if ran || len(denials(result)) != 4 {
				t.Errorf("denials %v", denials(result))
			}
			for _, b := range h.toolResults() {
				if b["is_error"] != true || !strings.Contains(contentText(b), "no-by-hook") {
					t.Errorf("result %v", b)
				}
			}
		})
	}
}

// Command hooks get their input on standard input and the project's folder in the
// environment; what they write is output, context, or nothing (spec stream-json 6.4).
// The same command twice runs once (6.1); other exit codes change nothing.
func TestCommandHooks(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{bash("touch made")})
	log := filepath.Join(r.root, "log")
	note := `{ echo "$CLAUDE_PROJECT_DIR"; cat; } >> ` + log
	settings := object{"hooks": object{
		"PreToolUse": []object{
			{"matcher": "Bash", "hooks": []object{{"type": "command", "command": note}, {"type": "command", "command": note}, {"type": "command", "command": "exit 7"}}},
			{"matcher": "Bash|Write", "hooks": []object{{"type": "command", "command": note}}},
			{"matcher": "Write", "hooks": []object{{"type": "command", "command": "exit 2"}}},
		},
		"Stop": []object{{"hooks": []object{{"type": "command", "command": "echo plain text"}}}},
	}}
	r.write("settings-of-flags.json", encode(settings))
	h := r.start("--allowedTools", "Bash", "--settings", "settings-of-flags.json")
	result := h.prompt(1)
	if !r.exists("made") || result["num_turns"] != 2.0 {
		t.Errorf("result %v", result)
	}
	lines := strings.Split(strings.TrimSpace(r.read(log)), "\n")
	if len(lines) != 2 || lines[0] != r.work {
		t.Fatalf("log %q", lines)
	}
	in := jsonOf(t, lines[1])
	if in["hook_event_name"] != "PreToolUse" || in["tool_name"] != "Bash" || dig(in, "tool_input", "command") != "touch made" || in["session_id"] != result["session_id"] || in["cwd"] != r.work {
		t.Errorf("input %v", in)
	}
	if told := encode(h.of("system/informational")); !strings.Contains(told, "exit 7") || strings.Count(told, "content") != 1 {
		t.Errorf("told %s", told)
	}
}

// Hooks of settings files run when their source is named, those of --settings
// always (spec stream-json 6.1, 7.4).
func TestHookSources(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ sources, want string }{
		{"user,project,local", "flag local project user"}, {"", "flag"}, {"project", "flag project"}, {"user,local", "flag local user"},
	} {
		t.Run(tt.sources, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).rounds([]use{bash("echo")})
			mark := func(name string) string {
				return commands("PreToolUse", nil, "touch "+filepath.Join(r.root, "mark-"+name))
			}
			r.write(r.settings+"/settings.json", mark("user"))
			r.write(".claude/settings.json", mark("project"))
			r.write(".claude/settings.local.json", mark("local"))
			h := r.start("--setting-sources="+tt.sources, "--settings", mark("flag"))
			h.prompt(1)
			found, err := filepath.Glob(filepath.Join(r.root, "mark-*"))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				got = append(got, strings.TrimPrefix(filepath.Base(f), "mark-"))
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A command that does not return ends with its whole process group when its limit,
// in seconds, is over (case B27; spec stream-json 5.2, 6.4); one that leaves a child
// with its standard output behind does not hold up anything.
func TestCommandHookLimits(t *testing.T) {
	t.Parallel()
	hook := func(command string, timeout any) string {
		h := object{"type": "command", "command": command}
		if timeout != nil {
			h["timeout"] = timeout
		}
		return encode(object{"hooks": object{"PreToolUse": []object{{"hooks": []object{h}}}}})
	}
	t.Run("does not return", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t).rounds([]use{bash("touch made")})
		h := r.start("--allowedTools", "Bash", "--settings", hook("sleep 1000 & echo $! > ../pid; wait", 0.5))
		result := h.prompt(1)
		if r.exists("made") || len(denials(result)) != 1 || result["result"] != "done" {
			t.Errorf("result %v", result)
		}
		if told := encode(h.of("system/informational")); !strings.Contains(told, "sleep 1000") {
			t.Errorf("told %s", told)
		}
		pid := strings.TrimSpace(r.read("../pid"))
		eventually(t, "the end of sleep "+pid, func() bool { return pid != "" && !sleeps(pid) })
	})
	t.Run("seconds", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t).rounds([]use{bash("touch made")})
		h := r.start("--allowedTools", "Bash", "--settings", hook("sleep 0.1", 20))
		if h.prompt(1); !r.exists("made") {
			t.Error("20 seconds were taken for less than a tenth")
		}
	})
	t.Run("leaves a child behind", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t).rounds([]use{bash("touch made")})
		h := r.start("--allowedTools", "Bash", "--settings", hook("sleep 1000 & echo $! > ../pid", 20))
		if result := h.prompt(1); !r.exists("made") || result["result"] != "done" {
			t.Errorf("result %v", result)
		}
		h.end()
		pid := strings.TrimSpace(r.read("../pid"))
		eventually(t, "the end of sleep "+pid, func() bool { return pid != "" && !sleeps(pid) })
	})
}

// sleeps reports whether the process is there and runs sleep.
func sleeps(pid string) bool {
	line, err := os.ReadFile("/proc/" + pid + "/cmdline")
	return err == nil && strings.HasPrefix(string(line), "sleep")
}

// The life of hooks is shown with --include-hook-events only, that of SessionStart
// always and in front of system/init; each start has its response with the same id
// (checklist 70, spec stream-json 6.7, 3.10). Events such as SessionEnd never are.
func TestHookEvents(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--include-hook-events"}} {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).rounds([]use{bash("echo x")})
			settings := object{}
			for _, e := range []string{"SessionStart", "SessionEnd", "Notification", "PreToolUse"} {
				settings[e] = []object{{"hooks": []object{{"type": "command", "command": "echo said-by-" + e}}}}
			}
			h := r.start(append(flags, "--settings", encode(object{"hooks": settings}))...).with(&answers{})
			h.initialize(hooksOf(nil, "PreToolUse", "Stop"))
			h.prompt(1)
			h.end()
			want := map[string]int{"SessionStart": 1}
			if flags != nil {
				want = map[string]int{"SessionStart": 1, "PreToolUse": 2, "Stop": 1}
			}
			started, byID := map[string]int{}, map[any]object{}
			for _, l := range h.of("system/hook_started") {
				event, _ := l["hook_event"].(string)
				started[event]++
				byID[l["hook_id"]] = l
			}
			if diff := cmp.Diff(want, started); diff != "" {
				t.Error(diff)
			}
			for _, l := range h.of("system/hook_response") {
				begun := byID[l["hook_id"]]
				if begun == nil || begun["hook_name"] != l["hook_name"] || begun["hook_event"] != l["hook_event"] || l["outcome"] != "success" {
					t.Errorf("response %v", l)
				}
				delete(byID, l["hook_id"])
				if l["hook_event"] == "SessionStart" && (l["exit_code"] != 0.0 || l["stdout"] != "said-by-SessionStart\n" && l["stdout"] != "said-by-SessionStart") {
					t.Errorf("response %v", l)
				}
			}
			if len(byID) != 0 {
				t.Errorf("without a response: %v", byID)
			}
			init := h.at(isType("system/init"))
			for i, l := range h.all() {
				if l["hook_event"] == "SessionStart" && i > init {
					t.Errorf("line %d is behind system/init, line %d", i, init)
				}
				if l["hook_event"] == "PreToolUse" && l["hook_name"] != "PreToolUse:Bash" {
					t.Errorf("hook_name %v", l["hook_name"])
				}
			}
		})
	}
}

// Hooks fire for the calls of subagents, in the foreground and in the background,
// with the agent's id and type, and their refusal holds (case B29, spec stream-json
// 6.5 rule 8, 6.2); denials in a subagent are those of the turn (7.8). Its lines
// carry the id of the call that made it.
func TestHooksOfSubagents(t *testing.T) {
	t.Parallel()
	for _, background := range []bool{false, true} {
		for _, refuse := range []bool{false, true} {
			t.Run(fmt.Sprintf("background %v, refuse %v", background, refuse), func(t *testing.T) {
				t.Parallel()
				rules := append(steps(object{"text": "child-work"}, []use{bash("touch sub.txt")}), object{"when": object{"text": "child-work"}, "reply": "child done"})
				rules = append(rules, steps(object{"text": "go 1"}, []use{{"Agent", object{"description": "d", "prompt": "child-work", "run_in_background": background}}})...)
				r := newRoom(t).script(encode(object{"rules": append(rules, object{"reply": "done"})}))
				a := &answers{hook: func(_ string, in object) any {
					if refuse && in["tool_name"] == "Bash" {
						return decides("deny", object{"permissionDecisionReason": "not in there"})
					}
					return object{}
				}}
				h := r.start("--allowedTools", "Bash").with(a)
				h.initialize(hooksOf(nil, "PreToolUse", "SubagentStart", "SubagentStop", "Stop"))
				result := h.prompt(1)
				if background {
					h.result(2) // the turn that the agent's end starts
				}
				var child object
				for _, in := range a.inputs("PreToolUse") {
					if in["tool_name"] == "Bash" {
						child = in
					} else if in["agent_id"] != nil {
						t.Errorf("the main thread has an agent_id: %v", in)
					}
				}
				if !is(child["agent_id"], "text") || child["agent_type"] != "general-purpose" || child["session_id"] != result["session_id"] {
					t.Errorf("input %v", child)
				}
				for _, event := range []string{"SubagentStart", "SubagentStop"} {
					if list := a.inputs(event); len(list) != 1 || list[0]["agent_id"] != child["agent_id"] || list[0]["agent_type"] != "general-purpose" {
						t.Errorf("%s: %v", event, list)
					}
				}
				if r.exists("sub.txt") == refuse {
					t.Errorf("sub.txt is there: %v", r.exists("sub.txt"))
				}
				if !background && (len(denials(result)) == 1) != refuse {
					t.Errorf("denials %v", denials(result))
				}
				shown := 0
				for _, l := range append(h.of("assistant"), h.of("user")...) {
					b := block(l)
					inside := b["name"] == "Bash" || b["tool_use_id"] == child["tool_use_id"] && b["tool_use_id"] != "call_1_1_1"
					if inside {
						shown++
					}
					if inside && l["parent_tool_use_id"] != "call_1_1_1" {
						t.Errorf("a line of the subagent: %v", l)
					}
				}
				if shown == 0 {
					t.Error("nothing of the subagent is shown")
				}
			})
		}
	}
}
