package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// Checklist 1, spec stream-json 1.5, F19: the version is a number of three parts of
// at least 2.0.0 at the beginning of the only line, and nothing is done for it.
func TestVersion(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^(\d+)\.\d+\.\d+ \(dcl [^()]+\)\n$`)
	for _, args := range [][]string{{"-v"}, {"--version"}} {
		r := newRoom(t)
		c := r.complete("", args...)
		m := form.FindStringSubmatch(c.stdout)
		if c.code != 0 || c.stderr != "" || m == nil {
			t.Errorf("%q: %+v", args, c)
			continue
		}
		if major, _ := strconv.Atoi(m[1]); major < 2 {
			t.Errorf("%q: version %s is below 2.0.0", args, m[0])
		}
		if files := r.files(); files != nil {
			t.Errorf("%q wrote %q", args, files)
		}
	}
}

// Checklist 4 and 5, S007, spec stream-json 1.7: a mistake of the command line is
// exit code 1 with a reason that names it, nothing on standard output, and nothing
// done before.
func TestUsage(t *testing.T) {
	t.Parallel()
	const some = "6f0c0b9e-3f0e-4b0e-9a55-1d0a7d8f6f11"
	stream := func(more ...string) []string { return slices.Concat(streamFlags, more) }
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"stream-json input alone":            {[]string{"--input-format", "stream-json"}, "--output-format stream-json"},
		"stream-json input, = form":          {[]string{"--input-format=stream-json"}, "--output-format stream-json"},
		"stream-json input and text output":  {[]string{"--input-format", "stream-json", "--output-format", "text"}, "--output-format stream-json"},
		"stream-json input and json output":  {[]string{"--input-format=stream-json", "--output-format=json"}, "--output-format stream-json"},
		"unknown format":                     {[]string{"-p", "x", "--output-format", "xml"}, "xml"},
		"unknown flag":                       {stream("--no-such-flag"), "--no-such-flag"},
		"unknown flag, = form":               {stream("--no-such-flag=1"), "--no-such-flag"},
		"unknown letter":                     {stream("-Z"), "-Z"},
		"nearly a flag":                      {stream("--permision-mode", "plan"), "--permission-mode"},
		"unknown mode":                       {stream("--permission-mode", "nonsense"), "nonsense"},
		"unknown mode, = form":               {stream("--permission-mode=nonsense"), "nonsense"},
		"no value":                           {stream("--model"), "--model"},
		"a flag as the value":                {stream("--max-turns", "--model", "x"), "--max-turns"},
		"session id that is none":            {stream("--session-id=nope"), "nope"},
		"session id and resume without fork": {stream("--session-id="+some, "--resume="+some), "--fork-session"},
		"schema that is no JSON":             {stream("--json-schema", "{"), "--json-schema"},
		"schema that is none":                {stream("--json-schema", `{"properties":5}`), "--json-schema"},
		"turns that are no number":           {stream("--max-turns", "many"), "many"},
		"turns below one":                    {stream("--max-turns=-1"), "-1"},
		"budget that is no number":           {stream("--max-budget-usd", "lots"), "lots"},
		"thinking tokens that are none":      {stream("--max-thinking-tokens=1.5"), "1.5"},
		"unknown effort":                     {stream("--effort", "enormous"), "enormous"},
		"unknown thinking":                   {stream("--thinking=maybe"), "maybe"},
		"unknown API format":                 {stream("--api-format", "pigeon"), "anthropic, openai, deepseek"},
		"unknown settings source":            {stream("--setting-sources=galaxy"), "galaxy"},
		"unknown prompt tool":                {stream("--permission-prompt-tool", "carrier"), "carrier"},
		"value of a switch":                  {stream("--include-partial-messages=maybe"), "maybe"},
		"prompt that is empty":               {[]string{"-p", ""}, "prompt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			c := r.complete(requests("i", "initialize", nil), tc.args...)
			if c.code != 1 || c.stdout != "" || !strings.Contains(c.stderr, tc.says) {
				t.Errorf("exit code %d, output %q, want 1, nothing, and a reason that says %q:\n%s", c.code, c.stdout, tc.says, c.stderr)
			}
			if files := r.files(); files != nil {
				t.Errorf("it wrote %q", files)
			}
		})
	}
}

// hostLists are the argument lists that the published clients make of their
// options, whole: the order and form of each flag is theirs (spec stream-json 1.3).
// DIR, MCP and SETTINGS stand for what lies in the room.
var hostLists = map[string][]string{
	"Python": {
		"--output-format", "stream-json", "--verbose", "--system-prompt", "", "--tools", "",
		"--allowedTools", "Read,Bash(git status:*),Skill(pdf)", "--max-turns", "7", "--max-budget-usd", "1.5",
		"--disallowedTools", "WebFetch,Bash(rm:*)", "--task-budget", "20000", "--model", "mock-model", "--fallback-model", "mock-model",
		"--betas", "context-1m-2025-08-07", "--permission-prompt-tool", "stdio", "--permission-mode", "acceptEdits",
		"--session-id=6f0c0b9e-3f0e-4b0e-9a55-1d0a7d8f6f11", "--settings", `{"permissions":{"allow":["Read"]},"sandbox":{"enabled":false}}`,
		"--add-dir", "DIR/a", "--add-dir", "DIR/b", "--mcp-config", `{"mcpServers": {"app": {"type": "sdk", "name": "app"}}}`,
		"--include-partial-messages", "--include-hook-events", "--strict-mcp-config", "--session-mirror", "--setting-sources=user,project",
		"--plugin-dir", "DIR/a", "--replay-user-messages", "--data-dir", "DIR/data", "--append-subagent-system-prompt=-x",
		"--max-thinking-tokens", "4096", "--thinking-display", "summarized", "--effort", "high",
		"--json-schema", `{"type": "object", "properties": {"a": {"type": "string"}}}`, "--input-format", "stream-json",
	},
	"Python, the alternatives": {
		"--output-format", "stream-json", "--verbose", "--append-system-prompt", "Be brief.", "--tools", "default", "--permission-mode", "dontAsk",
		"--continue", "--settings", "SETTINGS", "--mcp-config", "MCP", "--setting-sources=", "--thinking", "adaptive", "--debug-to-stderr=false", "--input-format", "stream-json",
	},
	"Python, more alternatives": {
		"--output-format", "stream-json", "--verbose", "--system-prompt-file", "DIR/prompt.txt", "--tools", "Read,Bash", "--fork-session", "--thinking", "disabled",
		"--input-format", "stream-json",
	},
	"TypeScript": {
		"--output-format", "stream-json", "--verbose", "--input-format", "stream-json", "--max-thinking-tokens=4096", "--thinking-display=omitted",
		"--effort=xhigh", "--max-turns=7", "--max-budget-usd=1.5", "--task-budget=20000", "--model=mock-model", "--agent=general-purpose",
		"--betas=context-1m-2025-08-07", `--json-schema={"type":"object"}`, "--debug-file=DIR/debug.log", "--permission-prompt-tool=stdio",
		"--permission-prompts=host", "--channels=one", "--channels=two", "--allowedTools=Read,Bash(git status:*),Skill", "--disallowedTools=WebFetch",
		"--tools=", `--mcp-config={"mcpServers":{}}`, "--setting-sources=", "--strict-mcp-config", "--permission-mode=plan",
		"--allow-dangerously-skip-permissions", "--fallback-model=other", "--include-hook-events", "--include-partial-messages", "--session-mirror",
		"--project-config-root=DIR", "--add-dir=DIR/a", "--add-dir=DIR/b", "--await-initialize", "--plugin-dir=DIR/a", "--plugin-dir-no-mcp=DIR/b",
		"--session-id=6f0c0b9e-3f0e-4b0e-9a55-1d0a7d8f6f11", "--no-session-persistence", "--initialize-fields=settings,disallowedTools",
		"--managed-settings-in-initialize", "--workload", "cron", "--settings", `{"model":"mock-model"}`, "--replay-user-messages", "--prompt-suggestions",
	},
	"TypeScript, the alternatives": {
		"--output-format", "stream-json", "--verbose", "--input-format", "stream-json", "--thinking=adaptive", "--debug", "--continue", "--tools=default",
		"--setting-sources=user,project,local", "--managed-settings", `{"permissions":{"deny":["WebFetch"]}}`, "--settings", "SETTINGS", "--data-dir=DIR/data",
		"--api-format", "mock",
	},
	"TypeScript, disabled thinking": {
		"--output-format", "stream-json", "--verbose", "--input-format", "stream-json", "--thinking=disabled", "--fork-session", "--tools=Read,Bash",
		"--permission-mode=bypassPermissions",
	},
	"Java": {
		"--output-format", "stream-json", "--input-format", "stream-json", "--model", "mock-model", "--permission-mode", "default",
		"--permission-prompt-tool", "stdio", "--include-partial-messages", "--api-format", "mock", "--data-dir", "DIR/data",
	},
}

// place fills in what stands for paths in argument lists.
func (r *room) place(args []string) []string {
	r.t.Helper()
	for _, name := range []string{"a", "b"} {
		if err := os.MkdirAll(filepath.Join(r.work, name), 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
	r.write("prompt.txt", "Be brief.")
	r.write("mcp.json", `{"mcpServers":{}}`)
	r.write("settings.json", `{"permissions":{"allow":["Read"]}}`)
	paths := strings.NewReplacer("DIR", r.work, "MCP", filepath.Join(r.work, "mcp.json"), "SETTINGS", filepath.Join(r.work, "settings.json"))
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = paths.Replace(arg)
	}
	return out
}

// Checklist 2 and 3, S006, S011: the argument lists of the clients start a session
// that answers.
func TestHostArguments(t *testing.T) {
	t.Parallel()
	for name, args := range hostLists {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// What a schema asks for is given by a tool.
			r := newRoom(t).script(`rules: [{when: {text: schema, step: 1}, reply: [{call: {tool: StructuredOutput, args: {}}}]}, {reply: done}]`)
			prompt := "hello"
			if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--json-schema") }) {
				prompt = "schema"
			}
			// Nothing of the client answers but that it has no such server.
			h := r.run(r.place(args)...).answering(nil)
			if got := h.control("i", "initialize", object{"hooks": nil}); got["subtype"] != "success" {
				t.Fatalf("initialize: %v", got)
			}
			h.user(prompt)
			if result := h.result(1); result["subtype"] != "success" || result["is_error"] != false {
				t.Errorf("result %v", result)
			}
			if code := h.end(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			for _, arg := range args {
				if id, ok := strings.CutPrefix(arg, "--session-id="); ok && h.result(1)["session_id"] != id {
					t.Errorf("session_id %v, want %s", h.result(1)["session_id"], id)
				}
			}
		})
	}
}

// everyFlag are the flags of spec stream-json 1.3 that take a value, each with one,
// and those that do not. The sessions of --resume have a test of their own.
var everyFlag = struct {
	values   [][2]string
	switches []string
}{
	values: [][2]string{
		{"system-prompt", "Be brief."}, {"append-system-prompt", "And kind."}, {"tools", "Read"}, {"allowedTools", "Read"}, {"disallowedTools", "WebFetch"},
		{"max-turns", "3"}, {"max-budget-usd", "0.5"}, {"task-budget", "1000"}, {"model", "mock-model"}, {"fallback-model", "a,b"}, {"betas", "a,b"},
		{"permission-prompt-tool", "stdio"}, {"permission-prompts", "none"}, {"permission-mode", "plan"},
		{"session-id", "6f0c0b9e-3f0e-4b0e-9a55-1d0a7d8f6f11"}, {"resume-drops-turn", ""}, {"settings", "{}"}, {"setting-sources", "user"},
		{"add-dir", "DIR/a"}, {"mcp-config", `{"mcpServers":{}}`}, {"plugin-dir", "DIR/a"}, {"plugin-dir-no-mcp", "DIR/a"},
		{"max-thinking-tokens", "0"}, {"thinking-display", "omitted"}, {"effort", "max"}, {"json-schema", "{}"}, {"agents", "{}"},
		{"debug-file", "DIR/debug.log"}, {"channels", "c"}, {"project-config-root", "DIR"}, {"initialize-fields", "settings"}, {"managed-settings", "{}"},
		{"workload", "cron"}, {"name", "n"}, {"append-subagent-system-prompt", "x"}, {"api-format", "mock"}, {"data-dir", "DIR/data"},
	},
	switches: []string{
		"verbose", "allow-dangerously-skip-permissions", "fork-session", "no-session-persistence", "session-mirror",
		"strict-mcp-config", "include-partial-messages", "include-hook-events", "replay-user-messages", "forward-subagent-text", "prompt-suggestions",
		"await-initialize", "managed-settings-in-initialize", "await-claim", "bare", "disable-slash-commands", "ide", "mcp-debug",
		"exclude-dynamic-system-prompt-sections",
	},
}

// Spec stream-json 1.2, 1.3, checklist 2, 3 and 15: every flag is taken in each of
// its forms, and a session without a message ends with exit code 0 and no result.
func TestEveryFlag(t *testing.T) {
	t.Parallel()
	forms := map[string][]string{
		"aliases": {
			"--allowed-tools", "Read", "--disallowed-tools", "WebFetch", "-c", "-n", "title", "--verbose",
			"--input-format=stream-json", "--output-format=stream-json",
		},
		"lists until the next flag": slices.Concat(streamFlags, []string{
			"--allowedTools", "Read", "Bash(git log:*)", "--disallowedTools", "WebFetch", "Bash(rm:*)", "--tools", "Read", "Bash",
			"--add-dir", "DIR/a", "DIR/b", "--mcp-config", "MCP", `{"mcpServers":{}}`, "--betas", "a", "b", "--channels", "a", "b", "--verbose",
		}),
		"repeated": slices.Concat(streamFlags, []string{
			"--add-dir", "DIR/a", "--add-dir=DIR/b", "--plugin-dir", "DIR/a", "--plugin-dir=DIR/b", "--plugin-dir-no-mcp", "DIR/a", "--plugin-dir-no-mcp=DIR/b",
			"--mcp-config", "MCP", `--mcp-config={"mcpServers":{}}`, "--channels", "a", "--channels=b", "--allowedTools", "Read", "--allowedTools=Bash",
		}),
		"empty values":   slices.Concat(streamFlags, []string{"--system-prompt", "", "--tools", "", "--setting-sources", "", "--resume-drops-turn", ""}),
		"empty values =": slices.Concat(streamFlags, []string{"--system-prompt=", "--tools=", "--setting-sources=", "--resume-drops-turn="}),
		"values with dashes": slices.Concat(streamFlags, []string{
			"--system-prompt=-x", "--append-system-prompt=--verbose", "--name=-n", "--workload=--",
		}),
		"bypass":          slices.Concat(streamFlags, []string{"--dangerously-skip-permissions=true"}),
		"optional values": slices.Concat(streamFlags, []string{"--debug", "--worktree", "--verbose"}),
		"optional values, given": slices.Concat(streamFlags, []string{
			"--debug=api", "--worktree=w", "--permission-mode", "default",
		}),
	}
	two, equal, truth, lies := slices.Clone(streamFlags), slices.Clone(streamFlags), slices.Clone(streamFlags), slices.Clone(streamFlags)
	for _, f := range everyFlag.values {
		two, equal = append(two, "--"+f[0], f[1]), append(equal, "--"+f[0]+"="+f[1])
	}
	for _, f := range everyFlag.switches {
		two, truth, lies = append(two, "--"+f), append(truth, "--"+f+"=true"), append(lies, "--"+f+"=false")
	}
	forms["two tokens"], forms["= values"], forms["switches =true"], forms["switches =false"] = two, equal, truth, lies
	for name, args := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			if c := r.complete("", r.place(args)...); c.code != 0 || c.stdout != "" {
				t.Errorf("%+v", c)
			}
		})
	}
}

// firstRequest runs one turn with flags against a fake provider and gives the body
// of the request that the model got.
func firstRequest(t *testing.T, r *room, flags ...string) object {
	t.Helper()
	server := llmtest.NewServer(t, llmtest.DeepSeek())
	server.Script(llmtest.Stream(llmtest.DeepSeek().Whole(sdkproto.Text("ok"))))
	r.set("DEEPSEEK_API_KEY", llmtest.Key).set("DEEPSEEK_BASE_URL", server.URL)
	c, lines := r.speak(requests("i", "initialize", nil)+asks("go"), append([]string{"--model", "deepseek-flash"}, flags...)...)
	got := server.Received()
	if results := only(lines, "result"); c.code != 0 || len(results) != 1 || len(got) != 1 {
		t.Fatalf("exit code %d, %d requests, %v\n%s", c.code, len(got), results, c.stderr)
	}
	var body object
	if err := wirejson.Unmarshal(got[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	return body
}

// systemPrompt is that of a request, "" without one.
func systemPrompt(body object) string {
	messages, _ := body["messages"].([]any)
	if first, _ := messages[0].(object); first["role"] == "system" {
		text, _ := first["content"].(string)
		return text
	}
	return ""
}

// offered are the names of the tools in a request.
func offered(body object) (names []string) {
	tools, _ := body["tools"].([]any)
	for _, one := range tools {
		o, _ := one.(object)
		name, _ := dig(o, "function", "name").(string)
		names = append(names, name)
	}
	return names
}

// S011, spec stream-json 1.3: what flags say of the system prompt and the tools is
// what the model is sent.
func TestFlagsReachTheModel(t *testing.T) {
	t.Parallel()
	has := func(body object, name string) bool { return slices.Contains(offered(body), name) }
	for name, tc := range map[string]struct {
		flags []string
		right func(body object) bool
	}{
		"no flags": {nil, func(b object) bool {
			return systemPrompt(b) != "" && has(b, "Read") && has(b, "Bash") && has(b, "Write")
		}},
		"a system prompt":        {[]string{"--system-prompt", "Be brief."}, func(b object) bool { return systemPrompt(b) == "Be brief." }},
		"an empty system prompt": {[]string{"--system-prompt", ""}, func(b object) bool { return systemPrompt(b) == "" }},
		"a system prompt's file": {[]string{"--system-prompt-file", "DIR/prompt.txt"}, func(b object) bool { return systemPrompt(b) == "Be brief." }},
		"an appended prompt": {[]string{"--append-system-prompt", "Be brief."}, func(b object) bool {
			text, ok := strings.CutSuffix(systemPrompt(b), "Be brief.")
			return ok && strings.TrimSpace(text) != ""
		}},
		"both prompts": {[]string{"--system-prompt", "Be kind.", "--append-system-prompt", "Be brief."}, func(b object) bool {
			return strings.HasPrefix(systemPrompt(b), "Be kind.") && strings.HasSuffix(systemPrompt(b), "Be brief.") && len(systemPrompt(b)) < 30
		}},
		"no tools":         {[]string{"--tools", ""}, func(b object) bool { return len(offered(b)) == 0 }},
		"no tools, = form": {[]string{"--tools="}, func(b object) bool { return len(offered(b)) == 0 }},
		"two tools": {[]string{"--tools", "Read,Bash"}, func(b object) bool {
			return slices.Equal(slices.Sorted(slices.Values(offered(b))), []string{"Bash", "Read"})
		}},
		"two listed tools": {[]string{"--tools", "Read", "Bash"}, func(b object) bool {
			return slices.Equal(slices.Sorted(slices.Values(offered(b))), []string{"Bash", "Read"})
		}},
		"all tools":         {[]string{"--tools", "default"}, func(b object) bool { return has(b, "Read") && has(b, "Bash") && has(b, "Write") }},
		"a tool taken away": {[]string{"--disallowedTools", "Bash"}, func(b object) bool { return !has(b, "Bash") && has(b, "Read") }},
		"a rule only":       {[]string{"--disallowed-tools=Bash(rm:*)"}, func(b object) bool { return has(b, "Bash") }},
		"the model":         {nil, func(b object) bool { m, _ := b["model"].(string); return strings.HasPrefix(m, "deepseek-") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			if body := firstRequest(t, r, r.place(tc.flags)...); !tc.right(body) {
				t.Errorf("system prompt %q, tools %q", systemPrompt(body), offered(body))
			}
		})
	}
}

// S011, S020, spec stream-json 3.2: what flags say of the session is what
// system/init says.
func TestFlagsReachTheSession(t *testing.T) {
	t.Parallel()
	const id = "6f0c0b9e-3f0e-4b0e-9a55-1d0a7d8f6f11"
	broken := `{"mcpServers":{"gone":{"command":"/no/such/program"}}}`
	listed := func(init object, member, name, key string) any {
		list, _ := init[member].([]any)
		for _, one := range list {
			if o, ok := one.(object); ok && o["name"] == name {
				return o[key]
			} else if one == name {
				return name
			}
		}
		return nil
	}
	for name, tc := range map[string]struct {
		flags []string
		right func(init object) bool
	}{
		"default":                {nil, func(o object) bool { return o["permissionMode"] == "default" }},
		"acceptEdits":            {[]string{"--permission-mode", "acceptEdits"}, func(o object) bool { return o["permissionMode"] == "acceptEdits" }},
		"plan":                   {[]string{"--permission-mode=plan"}, func(o object) bool { return o["permissionMode"] == "plan" }},
		"dontAsk":                {[]string{"--permission-mode", "dontAsk"}, func(o object) bool { return o["permissionMode"] == "dontAsk" }},
		"bypassPermissions":      {[]string{"--permission-mode", "bypassPermissions"}, func(o object) bool { return o["permissionMode"] == "bypassPermissions" }},
		"bypass by its own flag": {[]string{"--dangerously-skip-permissions"}, func(o object) bool { return o["permissionMode"] == "bypassPermissions" }},
		"the id":                 {[]string{"--session-id=" + id}, func(o object) bool { return o["session_id"] == id }},
		"the id, two tokens":     {[]string{"--session-id", id}, func(o object) bool { return o["session_id"] == id }},
		"agents":                 {[]string{"--agents", `{"tester":{"description":"tests","prompt":"Test."}}`}, func(o object) bool { return listed(o, "agents", "tester", "") == "tester" }},
		"a server as JSON":       {[]string{"--mcp-config", broken}, func(o object) bool { return listed(o, "mcp_servers", "gone", "status") == "failed" }},
		"a server in a file":     {[]string{"--mcp-config", "DIR/broken.json"}, func(o object) bool { return listed(o, "mcp_servers", "gone", "status") == "failed" }},
		"the output style":       {[]string{"--settings", `{"outputStyle":"terse"}`}, func(o object) bool { return o["output_style"] == "terse" }},
		"no commands":            {[]string{"--disable-slash-commands"}, func(o object) bool { return is(o["slash_commands"], "strings") }},
		"the model":              {[]string{"--model=mock-model"}, func(o object) bool { return o["model"] == "mock-model" }},
		"the working folder":     {nil, func(o object) bool { return o["cwd"] == o["want"] }},
		"a tool that is taken": {[]string{"--disallowedTools", "Bash"}, func(o object) bool {
			return listed(o, "tools", "Bash", "") == nil && listed(o, "tools", "Read", "") == "Read"
		}},
		"tools that are left": {[]string{"--tools=Read"}, func(o object) bool { l, _ := o["tools"].([]any); return len(l) == 1 && l[0] == "Read" }},
		"the version": {nil, func(o object) bool {
			v, _ := o["claude_code_version"].(string)
			return strings.HasPrefix(o["said"].(string), v+" ")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			r.write("broken.json", broken)
			c, lines := r.speak(asks("hello"), r.place(tc.flags)...)
			inits := only(lines, "system/init")
			if c.code != 0 || len(inits) != 1 {
				t.Fatalf("exit code %d, %d system/init\n%s", c.code, len(inits), c.stderr)
			}
			init := inits[0]
			init["want"] = r.work
			init["said"] = r.complete("", "-v").stdout
			if !tc.right(init) {
				t.Errorf("%v", init)
			}
		})
	}
}

// S008, S009: increments and echoes are there with their flags only.
func TestLinesByFlag(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ flag, kind string }{{"--include-partial-messages", "stream_event"}, {"--replay-user-messages", "user"}} {
		for _, form := range []struct {
			flags []string
			there bool
		}{{nil, false}, {[]string{tc.flag}, true}, {[]string{tc.flag + "=true"}, true}, {[]string{tc.flag + "=false"}, false}} {
			_, lines := newRoom(t).speak(asks("hello"), form.flags...)
			if got := len(only(lines, tc.kind)) > 0; got != form.there {
				t.Errorf("%q: %v lines of type %s, want %v", form.flags, got, tc.kind, form.there)
			}
		}
	}
}
