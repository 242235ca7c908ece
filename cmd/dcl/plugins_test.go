package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plugin writes a plugin with one of each kind of part beside the workspace, and
// gives its folder.
func (r *room) plugin(name string) string {
	r.t.Helper()
	dir := filepath.Join(r.root, "plugins", name)
	r.set(logVariable, r.root)
	for file, text := range map[string]string{
		".claude-plugin/plugin.json": encode(object{"name": name, "version": "1.2.3", "description": "has one of each"}),
		"commands/greet.md":          "---\ndescription: Greets\nargument-hint: \"[who]\"\n---\nSay hello to $1 from ${CLAUDE_PLUGIN_ROOT}.",
		"commands/deep/er.md":        "Deeper.",
		"agents/looker.md":           "---\nname: looker\ndescription: looks closely\ntools: Read, Grep\nskills: [knots]\n---\nYou look closely.",
		"agents/broken.md":           "---\nname: broken\n---\nThere is no description.",
		"skills/knots/SKILL.md":      "---\nname: knots\ndescription: ties\n---\nA bowline in ${CLAUDE_PLUGIN_ROOT} does not slip.\n",
		"output-styles/terse.md":     "---\ndescription: few words\n---\nUse few words.",
		"hooks/hooks.json": encode(object{"description": "d", "hooks": object{"UserPromptSubmit": []object{{"hooks": []object{{
			"type": "command", "command": `printf '%s\n' "${CLAUDE_PLUGIN_ROOT}" >> hooked`,
		}}}}}}),
		".mcp.json": encode(object{"mcpServers": object{"book": object{"command": mcpProgram, "args": []string{"by the book", "${CLAUDE_PLUGIN_ROOT}/data"}}}}),
	} {
		r.write(filepath.Join(dir, file), text)
	}
	return dir
}

// members gives a member of each object of a list.
func members(list any, key string) (values []string) {
	items, _ := list.([]any)
	for _, item := range items {
		o, _ := item.(object)
		values = append(values, fmt.Sprint(o[key]))
	}
	return values
}

func (h *host) init() object {
	h.t.Helper()
	return h.wait("system/init", func(l object) bool { return l["subtype"] == "init" })
}

// namesBut gives a list without what is in another one.
func namesBut(list any, gone ...string) (left []string) {
	items, _ := list.([]any)
	for _, item := range items {
		if text := fmt.Sprint(item); !slices.Contains(gone, text) {
			left = append(left, text)
		}
	}
	return left
}

// A plugin that --plugin-dir names has its commands, agents, skills, output styles,
// hooks and MCP servers in the session, under its name; what is no good of it is left
// out (issue 7; S040, S076; checklist 16; spec stream-json 1.3, 3.2, 4.1, 11.7).
func TestPluginFolder(t *testing.T) {
	t.Parallel()
	p := provide(t, speeches()[2])
	dir := p.room.plugin("demo")
	p.server.Script(
		p.delegate("c1", object{"description": "d", "prompt": "sub task", "subagent_type": "demo:looker", "run_in_background": false}),
		p.says("found"), p.calls("c2", "Skill", `{"skill":"demo:knots"}`), p.calls("c3", "mcp__plugin_demo_book__echo", `{"text":"x"}`), p.says("done"),
	)
	p.launch("--plugin-dir", dir, "--settings", `{"outputStyle":"demo:terse"}`, "--permission-mode", "bypassPermissions")
	answer := p.initialize(object{})
	if diff := cmp.Diff([]string{"demo:deep:er", "demo:greet"}, members(answer["commands"], "name")[len(builtin):]); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"general-purpose", "demo:looker"}, members(answer["agents"], "name")); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
	says(t, "output styles", answer["available_output_styles"], encode([]any{"default", "demo:terse"}))
	init := p.init()
	says(t, "plugins", init["plugins"], encode([]any{object{"name": "demo", "path": dir, "source": "inline", "version": "1.2.3"}}))
	says(t, "skills", init["skills"], encode([]any{"demo:knots"}))
	says(t, "agents", init["agents"], encode([]any{"general-purpose", "demo:looker"}))
	says(t, "output_style", init["output_style"], encode("demo:terse"))
	if got := serversOf(init); got["plugin:demo:book"] != "connected" {
		t.Errorf("servers %v", got)
	}
	if !slices.Contains(namesBut(init["tools"]), "mcp__plugin_demo_book__echo") {
		t.Errorf("tools %v", init["tools"])
	}

	p.user("/demo:greet Ada")
	p.result(1)
	if want := "Say hello to Ada from " + dir + "."; !strings.Contains(p.body(0), want) || !strings.Contains(p.body(0), "Use few words.") {
		t.Errorf("the first request lacks the command or the style: %.2000s", p.body(0))
	}
	// The agent has its prompt, its tools, and its plugin's skill.
	for _, part := range []string{"You look closely.", "A bowline in " + dir} {
		if !strings.Contains(p.body(1), part) {
			t.Errorf("the agent's request lacks %q", part)
		}
	}
	if strings.Contains(p.body(1), `"Bash"`) || !strings.Contains(p.body(1), `"Grep"`) {
		t.Errorf("the agent has other tools than its own")
	}
	results := p.toolResults()
	if text := contentText(results[1]); !strings.Contains(text, "A bowline in "+dir) {
		t.Errorf("the skill is %q", text)
	}
	if text := contentText(results[2]); text != "echo x" {
		t.Errorf("the server says %q", text)
	}
	if got := p.room.read("hooked"); got != dir+"\n" {
		t.Errorf("the hook wrote %q", got)
	}
	if !strings.Contains(p.errorOutput(), "broken.md") {
		t.Errorf("nobody is told of the agent that is left out: %s", p.errorOutput())
	}
	p.end()
}

// --plugin-dir-no-mcp leaves the servers out, --strict-mcp-config those of all plugins
// (spec stream-json 1.3); a folder that cannot be used is told and hinders nothing.
func TestPluginFlags(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	dir := r.plugin("demo")
	for name, tc := range map[string]struct {
		flags   []string
		plugins []string
		errors  string
	}{
		"without servers": {[]string{"--plugin-dir-no-mcp", dir}, []string{"demo"}, ""},
		"strict":          {[]string{"--plugin-dir", dir, "--strict-mcp-config"}, []string{"demo"}, ""},
		"relative, twice": {[]string{"--plugin-dir-no-mcp", "../plugins/demo", "--plugin-dir-no-mcp=" + dir}, []string{"demo"}, ""},
		"missing":         {[]string{"--plugin-dir-no-mcp", dir, "--plugin-dir", dir + "-not"}, []string{"demo"}, "no such folder"},
		"no plugin":       {[]string{"--plugin-dir", r.work}, nil, "holds no plugin"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := *r
			one.t = t
			h := one.start(tc.flags...)
			h.initialize(object{})
			init := h.init()
			if diff := cmp.Diff(tc.plugins, members(init["plugins"], "name")); diff != "" {
				t.Errorf("plugins (-want +got):\n%s", diff)
			}
			if got := serversOf(init); len(got) > 0 {
				t.Errorf("servers %v", got)
			}
			if text := strings.Join(members(init["plugin_errors"], "message"), "\n"); (text == "") != (tc.errors == "") || !strings.Contains(text, tc.errors) {
				t.Errorf("errors %q", text)
			}
			if code := h.end(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// reload_plugins takes what has changed and says what there is now; a plugin that has
// gone bad leaves the old set running, hooks and servers included, and is counted; a
// server that has not changed is not restarted; while a turn runs nothing is done
// (S054; checklist 26; spec stream-json 4.0, 4.13, 4.18).
func TestReloadPlugins(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(encode(object{"rules": []any{
		object{"when": object{"text": "slow"}, "reply": []any{object{"text": "here"}, object{"delay": "60s"}}},
		object{"reply": "done"},
	}}))
	dir := r.plugin("demo")
	other := filepath.Join(r.root, "plugins", "other")
	r.write(filepath.Join(other, "commands", "one.md"), "One.")
	h := r.start("--plugin-dir", dir, "--plugin-dir", other, "--include-partial-messages")
	h.initialize(object{})
	h.init()
	pids := r.marked(h.cmd.Process.Pid)

	n := 0
	reload := func(more object) object {
		t.Helper()
		n++
		response, _ := h.control(fmt.Sprint("r", n), "reload_plugins", more)["response"].(object)
		return response
	}
	commands := func(o object) []string { return members(o["commands"], "name")[len(builtin):] }
	names := []string{"demo:deep:er", "demo:greet", "other:one"}
	same := reload(nil)
	if diff := cmp.Diff(names, commands(same)); diff != "" || same["error_count"] != 0.0 {
		t.Errorf("errors %v, commands (-want +got):\n%s", same["error_count"], diff)
	}
	if got := members(same["mcpServers"], "status"); !slices.Equal(got, []string{"connected"}) {
		t.Errorf("servers %v", same["mcpServers"])
	}
	lives := func(when string) {
		t.Helper()
		now := r.marked(h.cmd.Process.Pid)
		if len(pids) == 0 || slices.ContainsFunc(pids, func(pid string) bool { return !slices.Contains(now, pid) }) {
			t.Errorf("%s: the server's process is gone: %v of %v", when, now, pids)
		}
	}
	lives("nothing changed")

	// A broken plugin: nothing of either changes.
	r.write(filepath.Join(other, "commands", "two.md"), "Two.")
	r.write(filepath.Join(dir, "hooks", "hooks.json"), "{")
	broken := reload(nil)
	if diff := cmp.Diff(names, commands(broken)); diff != "" || broken["error_count"] != 1.0 {
		t.Errorf("errors %v, commands (-want +got):\n%s", broken["error_count"], diff)
	}
	if diff := cmp.Diff([]string{"demo", "other"}, members(broken["plugins"], "name")); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	warning := h.wait("a word about it", func(l object) bool { return l["subtype"] == "informational" })
	if text := fmt.Sprint(warning["content"]); !strings.Contains(text, "hooks.json:1:") || warning["level"] != "warning" {
		t.Errorf("told %v", warning)
	}
	h.prompt(1)
	if got := r.read("hooked"); got != dir+"\n" {
		t.Errorf("the old hook wrote %q", got)
	}
	lives("a failed reload")

	// Mended: the command, another server and no hook any more.
	r.write(filepath.Join(dir, "hooks", "hooks.json"), "{}")
	r.write(filepath.Join(dir, ".mcp.json"), encode(object{"mcpServers": object{"second": object{"command": mcpProgram, "args": []string{"by the book"}}}}))
	r.write(filepath.Join(dir, "commands", "greet.md"), "---\ndescription: Says hello\n---\nHello.")
	if err := os.RemoveAll(filepath.Join(dir, "commands", "deep")); err != nil {
		t.Fatal(err)
	}
	r.write(filepath.Join(dir, "agents", "new.md"), "---\ndescription: new\n---\nYou are new.")
	r.write(filepath.Join(dir, "skills", "sails", "SKILL.md"), "---\ndescription: sets\n---\nReef early.")
	third := filepath.Join(r.root, "plugins", "third")
	r.write(filepath.Join(third, "commands", "three.md"), "Three.")
	mended := reload(object{"add_plugins": []object{{"type": "local", "path": third}}})
	if diff := cmp.Diff([]string{"demo:greet", "other:one", "other:two", "third:three"}, commands(mended)); diff != "" || mended["error_count"] != 0.0 {
		t.Errorf("errors %v, commands (-want +got):\n%s", mended["error_count"], diff)
	}
	if got := members(mended["commands"], "description")[len(builtin)]; got != "Says hello" {
		t.Errorf("the command still %q", got)
	}
	if diff := cmp.Diff([]string{"general-purpose", "demo:looker", "demo:new"}, members(mended["agents"], "name")); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
	if got := fmt.Sprint(members(mended["mcpServers"], "name"), members(mended["mcpServers"], "status")); got != "[plugin:demo:second] [connected]" {
		t.Errorf("servers %s", got)
	}
	skills, _ := h.control("s", "reload_skills", nil)["response"].(object)
	if diff := cmp.Diff([]string{"demo:knots", "demo:sails"}, members(skills["skills"], "name")); diff != "" {
		t.Errorf("skills (-want +got):\n%s", diff)
	}
	h.prompt(2)
	if got := r.read("hooked"); got != dir+"\n" {
		t.Errorf("the hook that is gone wrote: %q", got)
	}

	// Refusals change nothing.
	for field, in := range map[string]object{
		"add_plugins":  {"add_plugins": "x"},
		"absolute":     {"add_plugins": []object{{"type": "local", "path": "relative"}}},
		`must be "loc`: {"add_plugins": []object{{"type": "npm", "path": "/x"}}},
	} {
		if got := h.control("bad "+field, "reload_plugins", in); got["subtype"] != "error" || !strings.Contains(fmt.Sprint(got["error"]), field) {
			t.Errorf("%v: %v", in, got)
		}
	}
	h.user("slow")
	h.wait("the turn", func(l object) bool {
		return l["type"] == "stream_event" && strings.Contains(fmt.Sprint(l["event"]), "here")
	})
	if got := h.control("busy", "reload_plugins", nil); got["error_code"] != "turn_running" {
		t.Errorf("mid-turn: %v", got)
	}
	h.control("stop", "interrupt", nil)
	h.result(3)
	h.end()
}

// initialize.plugins are there from the first turn, and confirmed only when all of them
// are (spec stream-json 4.1).
func TestInitializePlugins(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	dir := r.plugin("demo")
	local := func(path string) object { return object{"type": "local", "path": path, "skipMcpDiscovery": true} }
	for name, tc := range map[string]struct {
		plugins any
		applied any
		there   []string
		fault   string
	}{
		"one":          {[]object{local(dir)}, true, []string{"demo"}, ""},
		"none":         {[]object{}, true, nil, ""},
		"one of two":   {[]object{local(dir), local(dir + "-not")}, false, []string{"demo"}, ""},
		"not a list":   {object{}, nil, nil, "invalid field plugins"},
		"another type": {[]object{{"type": "git", "path": dir}}, nil, nil, "invalid field plugins"},
		"no path":      {[]object{{"type": "local"}}, nil, nil, "invalid field plugins"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := *r
			one.t = t
			h := one.start("--await-initialize")
			answer := h.control("i", "initialize", object{"plugins": tc.plugins, "agent": agentOf(tc.there)})
			if tc.fault != "" {
				if !strings.Contains(fmt.Sprint(answer["error"]), tc.fault) {
					t.Errorf("answer %v", answer)
				}
				return
			}
			if got := dig(answer, "response", "plugins_applied"); got != tc.applied {
				t.Errorf("plugins_applied is %v in %v", got, answer)
			}
			init := h.init()
			if diff := cmp.Diff(tc.there, members(init["plugins"], "name")); diff != "" {
				t.Errorf("plugins (-want +got):\n%s", diff)
			}
			if got := slices.Contains(namesBut(init["slash_commands"]), "demo:greet"); got != (tc.there != nil) {
				t.Errorf("commands %v", init["slash_commands"])
			}
			h.end()
		})
	}
}

// agentOf is an agent of the plugin, where that is there: initialize can name it.
func agentOf(plugins []string) string {
	if plugins == nil {
		return ""
	}
	return "demo:looker"
}

// Agents of files are kinds of agents: of one name the client's counts before the
// project's, the user's, a plugin's and the built-in one; one that is no good is left
// out; --agent and initialize.agent may name them; a new file is there in the next
// turn (S034, S035; checklist 40; spec stream-json 11.7).
func TestAgentFiles(t *testing.T) {
	t.Parallel()
	p := provide(t, speeches()[2])
	agent := func(dir, name, says string) {
		p.room.write(filepath.Join(dir, "agents", name+".md"), "---\nname: "+name+"\ndescription: "+says+"\n---\nYou are of the "+says+".")
	}
	user, project := p.room.settings, ".claude"
	agent(user, "general-purpose", "user")
	agent(user, "one", "user")
	agent(user, "two", "user")
	agent(user, "three", "user")
	agent(project, "two", "project")
	agent(project, "three", "project")
	p.room.write(filepath.Join(user, "agents", "bad.md"), "---\nname: bad\ndescription: d\nmaxTurns: many\n---\nText.")
	p.server.Script(p.says("first"), p.says("second"), p.says("third"))
	p.launch("--agent", "two")
	answer := p.initialize(object{"agents": object{"three": object{"description": "client", "prompt": "You are of the client."}}})
	got := map[string]string{}
	for i, name := range members(answer["agents"], "name") {
		got[name] = members(answer["agents"], "description")[i]
	}
	if diff := cmp.Diff(map[string]string{"general-purpose": "user", "one": "user", "two": "project", "three": "client"}, got); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
	if names := namesBut(p.init()["agents"]); len(names) != len(got) || slices.ContainsFunc(names, func(n string) bool { return got[n] == "" }) {
		t.Errorf("init has %v", names)
	}
	p.prompt(1)
	agent(project, "late", "project")
	p.prompt(2)
	p.prompt(3)
	p.attempts()
	if body := p.body(0); !strings.Contains(body, "You are of the project.") {
		t.Errorf("the main agent's prompt is missing: %.500s", body)
	}
	for i, there := range map[int]bool{0: false, 2: true} {
		if strings.Contains(p.body(i), `- late: project`) != there {
			t.Errorf("request %d: the model knows of the new agent: %v", i+1, !there)
		}
	}
	reloaded, _ := p.control("r", "reload_plugins", nil)["response"].(object)
	if !slices.Contains(members(reloaded["agents"], "name"), "late") {
		t.Errorf("agents %v", reloaded["agents"])
	}
	p.end()
	if text := p.errorOutput(); !strings.Contains(text, "bad.md") {
		t.Errorf("nobody is told of the bad one: %s", text)
	}
}

// The output style that the settings name is in the system prompt, the project's before
// the user's; reload_output_styles lists what there is (spec stream-json 3.2, 4.18).
func TestOutputStyles(t *testing.T) {
	t.Parallel()
	p := provide(t, speeches()[2])
	p.room.write(filepath.Join(p.room.settings, "output-styles", "plain.md"), "The user's plain style.")
	p.room.write(".claude/output-styles/plain.md", "The project's plain style.")
	p.room.write(filepath.Join(p.room.settings, "settings.json"), `{"outputStyle":"plain"}`)
	p.server.Script(p.says("first"))
	p.launch()
	answer := p.initialize(object{})
	says(t, "styles", answer["available_output_styles"], encode([]any{"default", "plain"}))
	says(t, "output_style", answer["output_style"], encode("plain"))
	p.prompt(1)
	p.attempts()
	if body := p.body(0); !strings.Contains(body, "The project's plain style.") || strings.Contains(body, "The user's plain style.") {
		t.Errorf("the style is not in the request: %.800s", body)
	}
	p.room.write(".claude/output-styles/later.md", "---\nname: another\n---\nLater.")
	again, _ := p.control("r", "reload_output_styles", nil)["response"].(object)
	says(t, "styles", again["available_output_styles"], encode([]any{"default", "another", "plain"}))
	p.end()
}

// --setting-sources says whose commands, skills, agents, styles, memory files and
// installed plugins there are (spec stream-json 1.3, 3.2).
func TestSourcesOfContent(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string][]string{"user,project": {"user", "project"}, "user": {"user"}, "project": {"project"}, "": nil} {
		t.Run("sources "+flag, func(t *testing.T) {
			t.Parallel()
			p := provide(t, speeches()[2])
			for whose, dir := range map[string]string{"user": p.room.settings, "project": filepath.Join(p.room.work, ".claude")} {
				p.room.write(filepath.Join(dir, "commands", whose+"-command.md"), "x")
				p.room.write(filepath.Join(dir, "agents", whose+"-agent.md"), "---\ndescription: d\n---\nx")
				p.room.write(filepath.Join(dir, "skills", whose+"-skill", "SKILL.md"), "---\ndescription: d\n---\nx")
				p.room.write(filepath.Join(dir, "output-styles", whose+"-style.md"), "x")
				p.room.write(filepath.Join(dir, "CLAUDE.md"), "The memory of the "+whose+".")
			}
			p.room.command("plugin", "install", p.room.plugin("demo"))
			p.server.Script(p.says("first"))
			p.launch("--setting-sources="+flag, "--strict-mcp-config")
			answer := p.initialize(object{})
			init := p.init()
			got := map[string][]string{}
			for what, list := range map[string][]string{
				"command": namesBut(init["slash_commands"], builtin...), "agent": namesBut(init["agents"], "general-purpose"),
				"skill": namesBut(init["skills"]), "style": namesBut(answer["available_output_styles"], "default"),
			} {
				for _, name := range list {
					if whose, ok := strings.CutSuffix(name, "-"+what); ok {
						got[what] = append(got[what], whose)
					} else if !strings.HasPrefix(name, "demo:") || !slices.Contains(want, "user") {
						t.Errorf("%s %s", what, name)
					}
				}
				slices.Sort(got[what])
				if sorted := slices.Sorted(slices.Values(want)); !slices.Equal(sorted, got[what]) {
					t.Errorf("%s: %v, want %v", what, got[what], sorted)
				}
			}
			if installed := len(members(init["plugins"], "name")) == 1; installed != slices.Contains(want, "user") {
				t.Errorf("plugins %v", init["plugins"])
			}
			p.prompt(1)
			p.attempts()
			for _, whose := range []string{"user", "project"} {
				if told := strings.Contains(p.body(0), "The memory of the "+whose+"."); told != slices.Contains(want, whose) {
					t.Errorf("memory of the %s: %v", whose, told)
				}
			}
			usage, _ := p.control("c", "get_context_usage", nil)["response"].(object)
			types := members(usage["memoryFiles"], "type")
			if len(types) != len(want) {
				t.Errorf("memory files %v", usage["memoryFiles"])
			}
			p.end()
		})
	}
}

// dcl plugin keeps plugins in the data folder, which sessions use from then on, and
// fetches nothing (issue 7).
func TestPluginCommand(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	dir := r.plugin("demo")
	used := func() []string {
		t.Helper()
		_, lines := r.speak(encode(object{"type": "control_request", "request_id": "i", "request": object{"subtype": "initialize"}})+"\n", "--strict-mcp-config")
		for _, l := range lines {
			if l["subtype"] == "init" {
				return members(l["plugins"], "name")
			}
		}
		t.Fatal("no init")
		return nil
	}
	has := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%q lacks %q", text, part)
			}
		}
	}
	fails := func(part string, args ...string) {
		t.Helper()
		c := r.complete("", append([]string{"plugin"}, args...)...)
		if c.code != 1 || c.stdout != "" || !strings.Contains(c.stderr, part) {
			t.Errorf("%v: code %d, %q, %q; want %q", args, c.code, c.stdout, c.stderr, part)
		}
	}
	has(r.command("plugin", "validate", dir), "demo 1.2.3", "commands, agents, skills, output styles, hooks, 1 MCP servers")
	has(r.command("plugin", "install", dir), "installed demo")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got := used(); !slices.Equal(got, []string{"demo"}) {
		t.Errorf("used %v", got)
	}
	has(r.command("plugin", "list", "--json"), `"name": "demo"`, `"enabled": true`, `"version": "1.2.3"`)
	has(r.command("doctor"), "plugins", "1 installed, in use: demo")
	has(r.command("plugin", "disable", "demo"), "disabled demo")
	has(r.command("plugin", "disable", "demo"), "already")
	has(r.command("plugin", "list"), "demo", "disabled")
	if got := used(); got != nil {
		t.Errorf("disabled, and used %v", got)
	}
	has(r.command("plugin", "enable", "demo"), "enabled demo")
	if got := used(); !slices.Equal(got, []string{"demo"}) {
		t.Errorf("enabled again, used %v", got)
	}
	r.plugin("demo")
	has(r.command("plugin", "install", dir), "replaced demo")
	fails(`did you mean "demo"`, "remove", "demos")
	fails("no name of a plugin", "remove", "../sessions")
	fails("nothing is fetched", "install", "demo@market")
	fails("holds no plugin", "install", r.work)
	r.write(filepath.Join(dir, ".claude-plugin", "plugin.json"), `{"name":"de mo","commands":"../out","hooks":7}`)
	fails(`"de mo" is no name`, "validate", dir)
	fails("no path inside the plugin", "validate", dir)
	fails("hooks of a plugin is a path", "validate", dir)
	fails("install", "list-all")
	has(r.command("plugin", "remove", "demo"), "removed demo")
	if got := used(); got != nil {
		t.Errorf("removed, and used %v", got)
	}
	if list := r.command("plugin", "list", "--json"); list != "[]\n" {
		t.Errorf("the list is %q", list)
	}
}
