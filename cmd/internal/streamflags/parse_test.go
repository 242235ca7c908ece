package streamflags

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const id = "6f0c0b9e-3f0e-4b0e-9a55-1d0a7d8f6f11"

// overridesOf gives what a command line sets, without the two formats, which
// every one sets.
func overridesOf(t *testing.T, args []string) []string {
	t.Helper()
	l, err := Parse(args, false)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	sets, names, err := l.Overrides()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	for _, set := range sets {
		if key, _, _ := strings.Cut(set, "="); names[strings.TrimRight(key, ":+")] == "" && !slices.Contains(l.Sets, set) {
			t.Errorf("nothing says where %s comes from", set)
		}
	}
	return slices.DeleteFunc(sets, func(s string) bool { return strings.Contains(s, "putFormat=") })
}

// Spec stream-json 1.2: both styles, empty values, lists, switches, aliases.
func TestGrammar(t *testing.T) {
	for name, tc := range map[string]struct {
		args string // parted by |
		want string // likewise
	}{
		"two tokens":            {"--model|m", `front.model="m"`},
		"equals sign":           {"--model=m", `front.model="m"`},
		"equals in the value":   {"--model=a=b", `front.model="a=b"`},
		"empty, two tokens":     {"--system-prompt||--verbose", `front.systemPrompt=""`},
		"empty, equals sign":    {"--system-prompt=", `front.systemPrompt=""`},
		"dash, equals sign":     {"--system-prompt=--model", `front.systemPrompt="--model"`},
		"dash that is no flag":  {"--system-prompt|- be brief", `front.systemPrompt="- be brief"`},
		"the last counts":       {"--model|a|--model=b", `front.model="b"`},
		"quoting":               {"--model|a\"b\nc", `front.model="a\"b\nc"`},
		"no tools":              {"--tools||--model|m", `front.model="m"|front.tools=[]`},
		"no tools, equals sign": {"--tools=", `front.tools=[]`},
		"default tools":         {"--tools|default", ``},
		"tools":                 {"--tools|Read,Edit", `front.tools=["Read","Edit"]`},
		"a list until a flag":   {"--allowedTools|Read|Bash(git:*)|--model|m", `front.model="m"|permissions.flags.allow=["Read","Bash(git:*)"]`},
		"a list, equals sign":   {"--allowedTools=Read|prompt", `permissions.flags.allow=["Read"]|front.prompt="prompt"`},
		"lists add up":          {"--allowed-tools|A|--allowedTools=B C", `permissions.flags.allow=["A","B","C"]`},
		"parentheses":           {"--disallowedTools|Bash(git commit, push) Edit,Read(a b)", `permissions.flags.deny=["Bash(git commit, push)","Edit","Read(a b)"]`},
		"escaped parentheses":   {`--disallowedTools|Bash(echo \(, b) Edit`, `permissions.flags.deny=["Bash(echo \\(, b)","Edit"]`},
		"switch":                {"--include-partial-messages", `front.includePartialMessages=true`},
		"switch on":             {"--include-partial-messages=true", `front.includePartialMessages=true`},
		"switch off":            {"--include-partial-messages=false", `front.includePartialMessages=false`},
		"switch and prompt":     {"-p|hello", `front.prompt="hello"`},
		"prompt before":         {"hello|-p", `front.prompt="hello"`},
		"end of flags":          {"-p|--|--model", `front.prompt="--model"`},
		"end of a list":         {"--allowedTools|Read|--|prompt", `permissions.flags.allow=["Read"]|front.prompt="prompt"`},
		"resume, equals sign":   {"--resume=" + id, `front.resume="` + id + `"`},
		"resume, two tokens":    {"--resume|" + id, `front.resume="` + id + `"`},
		"resume, short":         {"-r|" + id, `front.resume="` + id + `"`},
		"continue":              {"-c", `front.continue=true`},
		"name":                  {"-n|title", `front.name="title"`},
		"session id":            {"--session-id=" + strings.ToUpper(id), `front.sessionId="` + id + `"`},
		"fork":                  {"--resume=x|--fork-session|--session-id=" + id, `front.sessionId="` + id + `"|front.forkSession=true|front.resume="x"`},
		"drops nothing":         {"--resume=x|--resume-drops-turn=", `front.resumeDropsTurn=""|front.resume="x"`},
		"at an entry":           {"--resume=x|--resume-session-at=y|--resume-drops-turn=z", `front.resumeDropsTurn="z"|front.resume="x"|front.resumeAt="y"`},
		"mirror":                {"--session-mirror", `front.sessionMirror=true`},
		"plugins":               {"--plugin-dir|a|--plugin-dir=b|--plugin-dir-no-mcp|c", `content.folders=["a","b"]|content.foldersWithoutServers=["c"]`},
		"numbers":               {"--max-turns|3|--max-budget-usd|0.5|--max-thinking-tokens=0", `front.maxThinkingTokens=0|front.maxTurns=3|budget.process.usd=0.5`},
		"thinking disabled":     {"--thinking|disabled", `front.maxThinkingTokens=0`},
		"thinking adaptive":     {"--thinking|adaptive", ``},
		"fallback":              {"--fallback-model|a, b", `front.fallbackModels=["a","b"]`},
		"mode":                  {"--permission-mode|plan", `permissions.mode="plan"`},
		"mode auto":             {"--permission-mode=auto", `permissions.mode="default"`},
		"skip":                  {"--dangerously-skip-permissions", `permissions.mode="bypassPermissions"`},
		"skip is allowed":       {"--allow-dangerously-skip-permissions", ``},
		"prompts of the client": {"--permission-prompt-tool|stdio|--permission-prompts|host", ``},
		"prompts of a tool":     {"--permission-prompt-tool=mcp__a__b", `permissions.promptTool="mcp__a__b"`},
		"no prompts":            {"--permission-prompts=none", `permissions.approvals="never"`},
		"no sources":            {"--setting-sources=", `settings.sources=[]`},
		"sources":               {"--setting-sources=user,project", `settings.sources=["user","project"]`},
		"settings":              {`--settings|{"model":"m"}`, `settings.flags={"model":"m"}`},
		"schema":                {`--json-schema={"type":"object"}`, `front.jsonSchema:={"type":"object"}`},
		"strict":                {"--strict-mcp-config", `mcp.settings=false`},
		"api format":            {"--api-format|anthropic|--data-dir|/p", `front.apiFormat="anthropic"`},
		"own sets come last":    {"--set|front.model=x|--set|loop.maxSteps=3|--model|m", `front.model="m"|front.model=x|loop.maxSteps=3`},
		"hosted and other servers": {`--mcp-config|{"mcpServers":{"app":{"type":"sdk","name":"other"},"fs":{"command":"npx","args":["-y"],"env":{"A":"b"}}}}`,
			`front.sdkServers=["app"]|mcp.servers={"fs":{"command":"npx","args":["-y"],"env":{"A":"b"},"expand":true}}`},
		"hosted goes before": {`--mcp-config={"mcpServers":{"a":{"command":"x"}}}|--mcp-config={"mcpServers":{"a":{"type":"sdk"}}}`, `front.sdkServers=["a"]`},
		"remote servers": {`--mcp-config|{"mcpServers":{"a":{"type":"http","url":"https://h/p","headers":{"X":"y"},"timeout":500}}}|{"mcpServers":{"b":{"type":"sse","url":"http://h"}}}`,
			`mcp.servers={"a":{"type":"http","url":"https://h/p","headers":{"X":"y"},"timeout":"500ms","expand":true},"b":{"type":"sse","url":"http://h","expand":true}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var want []string
			if tc.want != "" {
				want = strings.Split(tc.want, "|")
			}
			got := overridesOf(t, strings.Split(tc.args, "|"))
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Checklist 2, 3: everything that the two SDKs may pass, as they pass it.
func TestHosts(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "prompt.md")
	if err := os.WriteFile(file, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	python := []string{
		"--output-format", "stream-json", "--verbose", "--system-prompt", "", "--tools", "", "--allowedTools", "Read,Skill(pdf)", "--max-turns", "3",
		"--max-budget-usd", "0.5", "--disallowedTools", "Bash", "--task-budget", "1000", "--model", "m", "--fallback-model", "n", "--betas", "b1,b2",
		"--permission-prompt-tool", "stdio", "--permission-mode", "acceptEdits", "--continue", "--fork-session", "--session-id=" + id,
		"--settings", `{"sandbox":{"enabled":true}}`, "--add-dir", dir, "--add-dir", dir, "--mcp-config", `{"mcpServers":{"calc":{"type":"sdk","name":"calc"}}}`,
		"--strict-mcp-config", "--include-partial-messages", "--include-hook-events", "--setting-sources=user,project", "--plugin-dir", dir,
		"--max-thinking-tokens", "8000", "--thinking-display", "summarized", "--effort", "high", "--json-schema", `{"type":"object","properties":{}}`,
		"--session-mirror", "--replay-user-messages", "--debug-to-stderr", "--input-format", "stream-json",
	}
	typescript := []string{
		"--output-format", "stream-json", "--verbose", "--input-format", "stream-json", "--thinking=adaptive", "--effort=max", "--max-turns=2", "--max-budget-usd=1",
		"--task-budget=5", "--model=m", "--agent=a", "--betas=b", "--json-schema={\"type\":\"object\"}", "--debug", "--debug-file=" + filepath.Join(dir, "d.log"),
		"--permission-prompt-tool=stdio", "--permission-prompts=host", "--continue", "--allowedTools=Read,Edit", "--disallowedTools=Bash", "--tools=default",
		`--mcp-config={"mcpServers":{"x":{"type":"stdio","command":"y"}}}`, "--setting-sources=", "--strict-mcp-config", "--permission-mode=default",
		"--allow-dangerously-skip-permissions", "--fallback-model=n,o", "--include-hook-events", "--include-partial-messages", "--add-dir=" + dir,
		"--plugin-dir=" + dir, "--plugin-dir-no-mcp=" + dir, "--fork-session", "--session-id=" + id, "--settings={}", "--no-session-persistence", "--session-mirror",
		"--channels=c", "--project-config-root=" + dir, "--await-initialize", "--initialize-fields=settings,disallowedTools", "--managed-settings-in-initialize",
		`--managed-settings={"permissions":{"deny":["WebFetch"]}}`, "--workload=w", "--await-claim", "--prompt-suggestions", "--forward-subagent-text",
	}
	for name, args := range map[string][]string{"python": python, "typescript": typescript} {
		t.Run(name, func(t *testing.T) {
			got := overridesOf(t, args)
			for _, want := range []string{`front.model="m"`, `front.sessionId="` + id + `"`, "front.continue=true", "mcp.settings=false", `permissions.flags.deny=["Bash"]`} {
				if !slices.Contains(got, want) {
					t.Errorf("%s is missing in %q", want, got)
				}
			}
		})
	}
	got := overridesOf(t, []string{"--resume=" + id, "--system-prompt-file", file, "--append-system-prompt-file=" + file})
	if want := []string{`front.systemPrompt="from a file"`, `front.appendSystemPrompt="from a file"`, `front.resume="` + id + `"`}; !cmp.Equal(want, got) {
		t.Error(cmp.Diff(want, got))
	}
}

// Every flag of spec stream-json 1.3 is known, in the style that its kind allows.
func TestEveryFlag(t *testing.T) {
	const all = `output-format input-format verbose system-prompt system-prompt-file append-system-prompt append-system-prompt-file tools allowedTools
		disallowedTools max-turns max-budget-usd task-budget model fallback-model betas permission-prompt-tool permission-prompts permission-mode
		allow-dangerously-skip-permissions dangerously-skip-permissions continue resume fork-session session-id resume-session-at resume-drops-turn
		no-session-persistence session-mirror settings setting-sources add-dir mcp-config strict-mcp-config include-partial-messages include-hook-events
		replay-user-messages forward-subagent-text prompt-suggestions plugin-dir plugin-dir-no-mcp thinking max-thinking-tokens thinking-display effort
		json-schema agent agents debug debug-file channels project-config-root await-initialize initialize-fields managed-settings-in-initialize
		managed-settings workload await-claim name bare disable-slash-commands worktree ide mcp-debug exclude-dynamic-system-prompt-sections
		append-subagent-system-prompt api-format data-dir`
	l := &Line{flags: table()}
	for _, name := range strings.Fields(all) {
		if l.find("--"+name) == nil {
			t.Errorf("--%s is not known", name)
		}
	}
	seen := map[string]bool{}
	for _, f := range l.flags {
		for _, name := range append(slices.Clone(f.others), f.name) {
			if seen[name] {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
		}
		if f.ignored == "" && (f.usage == "" || !slices.Contains(groups(), f.group)) {
			t.Errorf("--%s: help does not say what it does", f.name)
		}
		if f.ignored == "" && f.key == "" && f.form != formSpecial {
			t.Errorf("--%s does nothing and does not say why", f.name)
		}
		if f.kind != kindSwitch && f.value == "" {
			t.Errorf("--%s: help does not name its value", f.name)
		}
	}
}

// Checklist 4, 5, S007, S080, B84: what cannot be understood, and the nearest
// name.
func TestMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"--input-format|stream-json":                      "--input-format stream-json needs --output-format stream-json",
		"--input-format=stream-json|--output-format=json": "--input-format stream-json needs --output-format stream-json",
		"--modle|x":                                `unknown flag --modle; did you mean "--model"?`,
		"--Model|x":                                `unknown flag --Model; did you mean "--model"?`,
		"-model|x":                                 `unknown flag -model; did you mean "--model"?`,
		"-x":                                       `unknown flag -x; --help lists the flags`,
		"--model":                                  "--model needs a value: --model MODEL",
		"--model|--verbose":                        "--model needs a value: --model MODEL; a value that begins with - is written behind an equals sign",
		"--allowedTools|--verbose":                 "--allowedTools needs a value: --allowedTools RULES; a value that begins with - is written behind an equals sign",
		"--verbose=yes":                            `--verbose takes nothing, or =true or =false, not "yes"`,
		"--permission-mode|nonsense":               `--permission-mode "nonsense" is not known; use default, acceptEdits, plan, bypassPermissions, dontAsk, manual, auto`,
		"--permission-mode|plna":                   `--permission-mode "plna" is not known; use default, acceptEdits, plan, bypassPermissions, dontAsk, manual, auto; did you mean "plan"?`,
		"--api-format|gemini":                      `--api-format "gemini" is not known; use anthropic, openai, deepseek, mock`,
		"--effort=":                                `--effort "" is not known; use low, medium, high, xhigh, max`,
		"--max-turns|0":                            `--max-turns "0" is no number that can be used; use a whole number, 1 or more`,
		"--max-turns|-1":                           `--max-turns "-1" is no number that can be used; use a whole number, 1 or more`,
		"--max-turns|many":                         `--max-turns "many" is no number that can be used; use a whole number, 1 or more`,
		"--max-budget-usd|NaN":                     `--max-budget-usd "NaN" is no amount of US dollars; use a number above 0, such as 2.50`,
		"--session-id=1":                           `--session-id "1" is no UUID; write one like ` + id,
		"--session-id={" + id + "}":                `--session-id "{` + id + `}" is no UUID; write one like ` + id,
		"--session-id=" + id + "|-c":               "--session-id is the id of a new session: with --resume or --continue it needs --fork-session",
		"--resume":                                 "--resume needs the id of a session; --continue takes the newest one of this folder",
		"--resume=":                                "--resume needs the id of a session; --continue takes the newest one of this folder",
		"--resume-session-at=y":                    "--resume-session-at needs --resume or --continue",
		"-c|-r|x":                                  "--resume and --continue exclude each other",
		"--json-schema|{":                          "--json-schema is no JSON object: ",
		"--json-schema|[]":                         "--json-schema is no JSON object: ",
		`--json-schema|{"type":7}`:                 "--json-schema ",
		"--agents|null":                            "--agents is no JSON object: it is null",
		"--permission-prompt-tool|Bash":            `--permission-prompt-tool "Bash" is neither stdio nor an MCP tool mcp__SERVER__TOOL`,
		"--permission-prompt-tool|mcp__a":          `--permission-prompt-tool "mcp__a" is neither stdio nor an MCP tool mcp__SERVER__TOOL`,
		"--setting-sources=user,projekt":           `--setting-sources has no "projekt"; use user, project, local; did you mean "project"?`,
		"--system-prompt|a|--system-prompt-file":   "--system-prompt-file needs a value: --system-prompt-file FILE",
		"--system-prompt=a|--system-prompt-file=b": "--system-prompt and --system-prompt-file exclude each other",
		"--dangerously-skip-permissions|--permission-mode=plan": "--dangerously-skip-permissions and --permission-mode plan exclude each other",
		"--thinking=disabled|--max-thinking-tokens=5":           "--thinking disabled and --max-thinking-tokens 5 exclude each other",
		"two|prompts":                  `there is more than one prompt, the last is "prompts"; put a prompt of several words into quotes`,
		"--max-turns=0|--api-format=x": `--api-format "x" is not known; use anthropic, openai, deepseek, mock` + "\n--max-turns \"0\" is no number that can be used; use a whole number, 1 or more",
	} {
		t.Run(args, func(t *testing.T) {
			_, err := Parse(strings.Split(args, "|"), false)
			if err == nil {
				t.Fatal("it is understood")
			}
			prefix := strings.HasSuffix(want, ": ") || strings.HasSuffix(want, " ")
			if got := err.Error(); got != want && !(prefix && strings.HasPrefix(got, want)) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// Case B14: what a flag names and cannot be used is a start that fails, with the
// flag and the file in its text; no content of a file is repeated.
func TestUnusableFiles(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.json")
	if err := os.WriteFile(broken, []byte(`{"mcpServers":{"a":{"command":"s3cret"`), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--mcp-config|" + broken:                         "--mcp-config: " + broken + ": is no JSON object: ",
		"--mcp-config|" + dir + "/none":                  "--mcp-config: stat " + dir + "/none: ",
		"--mcp-config|" + dir:                            "--mcp-config: " + dir + " is not a regular file",
		`--mcp-config|{"mcpServers":{"a":{}}}`:           `--mcp-config: server "a" has neither a command nor a url`,
		`--mcp-config|{"mcpServers":{"a":{"args":"x"}}}`: "--mcp-config: /mcpServers/a/args: ",
		"--settings|" + broken:                           "--settings: " + broken + ": is no JSON object: ",
		"--settings|{]":                                  "--settings: is no JSON object: ",
		"--system-prompt-file|" + dir + "/none":          "--system-prompt-file: stat " + dir + "/none: ",
		"--add-dir|" + broken:                            "--add-dir: " + broken + " is no folder",
	} {
		t.Run(args, func(t *testing.T) {
			l, err := Parse(strings.Split(args, "|"), false)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = l.Overrides()
			switch {
			case err == nil:
				t.Fatal("it can be used")
			case !strings.HasPrefix(err.Error(), want):
				t.Errorf("got  %v\nwant %s", err, want)
			case strings.Contains(err.Error(), "s3cret"):
				t.Errorf("it repeats the file: %v", err)
			}
		})
	}
}

// Spec stream-json 7.4: of layers, scalars are replaced and lists add up.
func TestManagedSettings(t *testing.T) {
	got := overridesOf(t, []string{
		"--settings", `{"model":"a","permissions":{"deny":["A"],"defaultMode":"plan"},"env":{"X":"1"}}`,
		"--managed-settings", `{"model":"b","permissions":{"deny":["B"]},"env":{"Y":"2"}}`,
	})
	want := `settings.flags={"env":{"X":"1","Y":"2"},"model":"b","permissions":{"defaultMode":"plan","deny":["A","B"]}}`
	if diff := cmp.Diff([]string{want}, got); diff != "" {
		t.Error(diff)
	}
}

// The formats of a line, and what serve adds.
func TestFormats(t *testing.T) {
	for args, want := range map[string][2]string{ // without and with serve
		"":                        {"text text", "stream-json stream-json"},
		"--verbose":               {"text text", "stream-json stream-json"},
		"-p|x":                    {"text text", "text text"},
		"x":                       {"text text", "text text"},
		"--output-format=json":    {"text json", "text json"},
		"-p|--output-format=text": {"text text", "text text"},
		"--output-format=stream-json|--input-format=stream-json": {"stream-json stream-json", "stream-json stream-json"},
	} {
		for i, serve := range []bool{false, true} {
			var list []string
			if args != "" {
				list = strings.Split(args, "|")
			}
			l, err := Parse(list, serve)
			if err != nil {
				t.Fatal(err)
			}
			if got := l.Input + " " + l.Output; got != want[i] {
				t.Errorf("%q, serve %v: got %s, want %s", args, serve, got, want[i])
			}
		}
	}
}

// The notes name exactly what somebody waits for in vain.
func TestNotes(t *testing.T) {
	l, err := Parse([]string{"--verbose", "--session-mirror", "--worktree", "--await-claim"}, false)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"--worktree has no effect: the session works in the folder that it is started in",
	}
	if diff := cmp.Diff(want, l.Notes); diff != "" {
		t.Error(diff)
	}
}

func TestHelp(t *testing.T) {
	text := Help("dcl", [][2]string{{"doctor", "look"}})
	for _, f := range table() {
		if !strings.Contains(text, "--"+f.name) {
			t.Errorf("--%s is missing", f.name)
		}
	}
	for _, want := range append(groups(), "  doctor        look", "-r, --resume [ID]", "--allowedTools, --allowed-tools RULES...", "[permissions.flags.allow]") {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("--model|m|-p|x")
	f.Add("--allowedTools|Bash(a,b|--|x")
	f.Fuzz(func(t *testing.T, args string) {
		l, err := Parse(strings.Split(args, "|"), false)
		if (l == nil) == (err == nil) {
			t.Fatalf("%v, %v", l, err)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	args := strings.Fields("--output-format stream-json --verbose --model m --permission-mode default --allowedTools Read,Edit --include-partial-messages --input-format stream-json")
	for b.Loop() {
		if _, err := Parse(args, false); err != nil {
			b.Fatal(err)
		}
	}
}
