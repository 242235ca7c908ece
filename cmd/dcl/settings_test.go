package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto/wirejson"
)

// settings gives the answer to get_settings.
func (h *host) settings(id string) object {
	h.t.Helper()
	got := h.control(id, "get_settings", nil)
	answer, _ := got["response"].(object)
	if got["subtype"] != "success" || answer == nil {
		h.t.Fatalf("get_settings: %v", got)
	}
	return answer
}

// decoded is JSON text as a test sees it in a line.
func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	if err := wirejson.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// says compares a part of an answer with JSON text.
func says(t *testing.T, what string, got any, want string) {
	t.Helper()
	if diff := cmp.Diff(decoded(t, want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// put writes the settings files of a room.
func (r *room) put(user, project, local string) *room {
	for path, text := range map[string]string{
		filepath.Join(r.settings, "settings.json"): user, ".claude/settings.json": project, ".claude/settings.local.json": local,
	} {
		if text != "" {
			r.write(path, text)
		}
	}
	return r
}

// Checklist 32, S047, S048, spec stream-json 4.9, 7.4: the four sources are there,
// from low to high, whatever files there are; of what they come to the upper one
// holds, lists are joined, and nobody's files count who has not agreed to them, but
// for what they forbid.
func TestGetSettings(t *testing.T) {
	t.Parallel()
	const (
		user    = `{"model":"user-model","outputStyle":"terse","env":{"A":"1","B":"1"},"permissions":{"allow":["Bash(ls)","Read"],"deny":["WebFetch"]}}`
		project = `{"model":"project-model","env":{"B":"2"},"permissions":{"allow":["Read","Glob"],"defaultMode":"acceptEdits","deny":["Bash(rm *)"]}}`
		local   = "{\n // mine\n \"model\":\"local-model\",\"effortLevel\":\"low\"}"
		flag    = `{"model":"flag-model","permissions":{"ask":["Write"]}}`
	)
	const empty = `{}`
	localSaid := `{"model":"local-model","effortLevel":"low"}`
	for name, tc := range map[string]struct {
		flags     []string
		sources   [4]string
		effective string
		// model and effort are those applied.
		model, effort string
	}{
		"nothing": {nil, [4]string{empty, empty, empty, empty}, empty, "mock-model", "null"},
		"all": {[]string{"--setting-sources", "user,project,local", "--settings", flag}, [4]string{user, project, localSaid, flag},
			`{"model":"flag-model","outputStyle":"terse","effortLevel":"low","env":{"A":"1","B":"2"},
			  "permissions":{"allow":["Bash(ls)","Read","Glob"],"deny":["WebFetch","Bash(rm *)"],"defaultMode":"acceptEdits","ask":["Write"]}}`, "flag-model", `"low"`},
		"local beats project": {[]string{"--setting-sources", "project,local"}, [4]string{empty, project, localSaid, empty},
			`{"model":"local-model","effortLevel":"low","env":{"B":"2"},"permissions":{"allow":["Read","Glob"],"defaultMode":"acceptEdits","deny":["Bash(rm *)"]}}`, "local-model", `"low"`},
		"project beats user": {[]string{"--setting-sources=user,project"}, [4]string{user, project, empty, empty},
			`{"model":"project-model","outputStyle":"terse","env":{"A":"1","B":"2"},
			  "permissions":{"allow":["Bash(ls)","Read","Glob"],"deny":["WebFetch","Bash(rm *)"],"defaultMode":"acceptEdits"}}`, "project-model", "null"},
		"none is read": {[]string{"--setting-sources="}, [4]string{empty, empty, empty, empty}, empty, "mock-model", "null"},
		"nobody has agreed": {[]string{"--effort", "high"}, [4]string{user, project, localSaid, empty},
			`{"model":"user-model","outputStyle":"terse","env":{"A":"1","B":"1"},"permissions":{"allow":["Bash(ls)","Read"],"deny":["WebFetch","Bash(rm *)"]}}`, "user-model", `"high"`},
		"the launch names the model": {[]string{"--setting-sources", "user,local", "--model", "mock-model", "--effort=xhigh"}, [4]string{user, empty, localSaid, empty},
			`{"model":"local-model","outputStyle":"terse","effortLevel":"low","env":{"A":"1","B":"1"},"permissions":{"allow":["Bash(ls)","Read"],"deny":["WebFetch"]}}`, "mock-model", `"max"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			if name != "nothing" {
				r.put(user, project, local)
			}
			got := r.start(append([]string{"--api-format", "mock"}, tc.flags...)...).settings("s")
			sources, _ := got["sources"].([]any)
			if len(sources) != 4 {
				t.Fatalf("sources %v", sources)
			}
			for i, want := range []string{"userSettings", "projectSettings", "localSettings", "flagSettings"} {
				if dig(sources[i].(object), "source") != want {
					t.Errorf("source %d is %v, want %s", i, sources[i], want)
				}
				says(t, want, dig(sources[i].(object), "settings"), tc.sources[i])
			}
			says(t, "effective", got["effective"], tc.effective)
			if dig(got, "applied", "model") != tc.model {
				t.Errorf("applied %v, want %s", got["applied"], tc.model)
			}
			says(t, "effort", dig(got, "applied", "effort"), tc.effort)
		})
	}
}

// Case B82, spec stream-json 7.4: a settings file that cannot be used is empty among
// the sources, and the reason stands beside it.
func TestGetSettingsOfABrokenFile(t *testing.T) {
	t.Parallel()
	got := newRoom(t).put(`{"model":`, "", "").start().settings("s")
	sources, _ := got["sources"].([]any)
	first, _ := sources[0].(object)
	says(t, "settings", first["settings"], `{}`)
	if why, _ := first["error"].(string); !strings.Contains(why, "settings.json:1:") {
		t.Errorf("error %v", first["error"])
	}
}

// Checklist 30, S045, S049, spec stream-json 4.7: a budget of thinking tokens is an
// effort by the table, and null is the launch's own.
func TestThinkingTokens(t *testing.T) {
	t.Parallel()
	for _, launch := range []struct{ flag, effort string }{{"", "null"}, {"--effort=medium", `"medium"`}, {"--max-thinking-tokens=0", `"off"`}} {
		t.Run(launch.flag, func(t *testing.T) {
			t.Parallel()
			var flags []string
			if launch.flag != "" {
				flags = append(flags, launch.flag)
			}
			h := newRoom(t).start(flags...)
			says(t, "at the start", dig(h.settings("s"), "applied", "effort"), launch.effort)
			for i, step := range []struct {
				tokens any
				effort string
			}{
				{0, `"off"`}, {1, `"low"`}, {4096, `"low"`}, {4097, `"medium"`}, {16384, `"medium"`}, {16385, `"high"`}, {32768, `"high"`}, {32769, `"max"`},
				{nil, launch.effort},
			} {
				got := h.control(fmt.Sprint("t", i), "set_max_thinking_tokens", object{"max_thinking_tokens": step.tokens})
				says(t, "the answer", got["response"], `{}`)
				says(t, fmt.Sprint(step.tokens), dig(h.settings(fmt.Sprint("s", i)), "applied", "effort"), step.effort)
			}
		})
	}
}

// Checklist 31, S046, spec stream-json 4.8: what cannot be applied changes nothing,
// also where other keys of it can; the error names it.
func TestApplyFlagSettingsRefused(t *testing.T) {
	t.Parallel()
	r := newRoom(t).put(`{"permissions":{"disableBypassPermissionsMode":"disable"}}`, "", "")
	h := r.start("--settings", `{"model":"kept","permissions":{"deny":["WebFetch"]}}`)
	before := h.settings("before")
	good := object{"model": "other", "effortLevel": "high"}
	for i, tc := range []struct {
		settings any
		names    string
	}{
		{nil, "settings"}, {"model", "settings"}, {[]any{}, "settings"}, {object{"env": object{"A": "1"}}, `"env"`}, {object{"outputStyle": "x"}, `"outputStyle"`},
		{object{"permissions": object{"allow": []any{"Bash"}, "defaultMode": "plan"}}, `"permissions.allow"`}, {object{"permissions": nil}, "permissions"},
		{object{"permissions": "plan"}, "permissions"}, {object{"permissions": object{"defaultMode": "warp"}}, "permissions.defaultMode"},
		{object{"permissions": object{"defaultMode": 5}}, "permissions.defaultMode"}, {object{"permissions": object{"defaultMode": "bypassPermissions"}}, "bypassPermissions"},
		{object{"model": ""}, "model"}, {object{"model": 5}, "model"}, {object{"effortLevel": "off"}, "effortLevel"}, {object{"effortLevel": 3}, "effortLevel"},
	} {
		settings := tc.settings
		if o, ok := settings.(object); ok {
			all := object{}
			for k, v := range good {
				all[k] = v
			}
			for k, v := range o {
				all[k] = v
			}
			settings = all
		}
		got := h.control(fmt.Sprint("a", i), "apply_flag_settings", object{"settings": settings})
		text, _ := got["error"].(string)
		if got["subtype"] != "error" || !strings.Contains(text, tc.names) {
			t.Errorf("%v: answer %v, want an error with %s", tc.settings, got, tc.names)
		}
	}
	if diff := cmp.Diff(before, h.settings("after")); diff != "" {
		t.Errorf("something was changed:\n%s", diff)
	}
}

// S046, S049, spec stream-json 4.8: what is applied stands in the flag layer, above
// all files, with what the launch has put there, and is in force; null takes it back.
func TestApplyFlagSettings(t *testing.T) {
	t.Parallel()
	r, server := withProvider(t)
	r.put(`{"model":"file-model","permissions":{"defaultMode":"acceptEdits"}}`, "", "")
	h := r.start("--api-format", "deepseek", "--settings", `{"permissions":{"deny":["WebFetch"]},"effortLevel":"low"}`)
	for i, step := range []struct {
		apply, flag, model, effort, mode string
	}{
		{`{}`, `{"permissions":{"deny":["WebFetch"]},"effortLevel":"low"}`, "file-model", `"low"`, "acceptEdits"},
		{`{"model":"flag-model","effortLevel":"xhigh","permissions":{"defaultMode":"plan"}}`,
			`{"model":"flag-model","effortLevel":"xhigh","permissions":{"deny":["WebFetch"],"defaultMode":"plan"}}`, "flag-model", `"max"`, "plan"},
		{`{"effortLevel":"high","permissions":{}}`, `{"model":"flag-model","effortLevel":"high","permissions":{"deny":["WebFetch"],"defaultMode":"plan"}}`, "flag-model", `"high"`, "plan"},
		{`{"permissions":{"defaultMode":"manual"}}`, `{"model":"flag-model","effortLevel":"high","permissions":{"deny":["WebFetch"],"defaultMode":"manual"}}`, "flag-model", `"high"`, "default"},
		{`{"model":null,"permissions":{"defaultMode":null}}`, `{"effortLevel":"high","permissions":{"deny":["WebFetch"]}}`, "file-model", `"high"`, "acceptEdits"},
		{`{"effortLevel":null}`, `{"permissions":{"deny":["WebFetch"]}}`, "file-model", `null`, "acceptEdits"},
	} {
		got := h.control(fmt.Sprint("a", i), "apply_flag_settings", object{"settings": decoded(t, step.apply)})
		if got["subtype"] != "success" {
			t.Fatalf("%s: %v", step.apply, got)
		}
		says(t, step.apply, got["response"], `{}`)
		answer := h.settings(fmt.Sprint("s", i))
		says(t, step.apply, dig(answer["sources"].([]any)[3].(object), "settings"), step.flag)
		says(t, step.apply, dig(answer, "applied", "effort"), step.effort)
		if dig(answer, "applied", "model") != step.model {
			t.Errorf("%s: applied %v, want %s", step.apply, answer["applied"], step.model)
		}
		h.user("go")
		h.result(i + 1)
		if bodies := requestBodies(t, server); bodies[len(bodies)-1]["model"] != step.model {
			t.Errorf("%s: request for %v, want %s", step.apply, bodies[len(bodies)-1]["model"], step.model)
		}
		mode := h.wait("system/init", func(l object) bool { return l["subtype"] == "init" })["permissionMode"]
		for _, l := range h.of("system/status") {
			mode = l["permissionMode"]
		}
		if mode != step.mode {
			t.Errorf("%s: mode %v, want %s", step.apply, mode, step.mode)
		}
	}
}

// Checklist 25 and 26, S061, decisions D3, D4 and D5 of spec stream-json 0.4: while a
// turn runs queries are answered, and changes are checked, answered at once and not
// in force before its end: not for its next request, not for its next call, and not
// in what get_settings says. Behind the result they are, in the order in which they
// came.
func TestChangesDuringATurn(t *testing.T) {
	t.Parallel()
	p := provide(t, speeches()[0])
	p.server.Script(p.calls("c1", "Bash", `{"command":"touch one"}`), p.calls("c2", "Bash", `{"command":"touch two"}`), p.says("done"), p.says("next"))
	p.launch()
	p.user("go")
	first := p.wait("a question", func(l object) bool { return l["type"] == "control_request" })
	before := p.settings("s1")
	for i, c := range []struct {
		subtype string
		fields  object
	}{
		{"set_model", object{"model": "lost"}},
		{"set_max_thinking_tokens", object{"max_thinking_tokens": 5}},
		{"apply_flag_settings", object{"settings": object{"model": "later", "effortLevel": "high", "permissions": object{"defaultMode": "bypassPermissions"}}}},
	} {
		says(t, c.subtype, p.control(fmt.Sprint("c", i), c.subtype, c.fields)["response"], `{"applies":"after_turn"}`)
	}
	for subtype, fields := range map[string]object{
		"set_model": {"model": 5}, "set_max_thinking_tokens": {"max_thinking_tokens": -1}, "apply_flag_settings": {"settings": object{"env": object{}}},
		"mcp_toggle": {"serverName": "x", "enabled": true}, "mcp_reconnect": {"serverName": "x"},
	} {
		if got := p.control("bad "+subtype, subtype, fields); got["subtype"] != "error" {
			t.Errorf("%s: %v", subtype, got)
		}
	}
	for _, query := range []string{"mcp_status", "get_context_usage", "get_session_cost", "list_models"} {
		if got := p.control(query, query, nil); got["subtype"] != "success" {
			t.Errorf("%s: %v", query, got)
		}
	}
	if diff := cmp.Diff(before, p.settings("s2")); diff != "" {
		t.Errorf("the settings have changed before the end of the turn:\n%s", diff)
	}
	p.answering(map[string]func(object) any{"can_use_tool": func(object) any { return object{"behavior": "allow"} }})
	p.respond(first["request_id"].(string), object{"behavior": "allow"})
	p.result(1)
	if n := len(p.of("control_request")); n != 2 { // the second call is still asked about
		t.Errorf("%d questions, want 2", n)
	}
	after := p.settings("s3")
	says(t, "applied", dig(after, "applied", "effort"), `"high"`)
	says(t, "flags", dig(after["sources"].([]any)[3].(object), "settings"), `{"model":"later","effortLevel":"high","permissions":{"defaultMode":"bypassPermissions"}}`)
	p.prompt(2)
	var models []string
	for _, body := range requestBodies(t, p.server) {
		models = append(models, fmt.Sprint(body["model"]))
	}
	was := dig(before, "applied", "model").(string)
	if diff := cmp.Diff([]string{was, was, was, "later"}, models); diff != "" {
		t.Errorf("models of the requests (-want +got):\n%s", diff)
	}
	// The client hears of the mode before the result behind which it holds.
	var told []string
	for _, l := range p.all() {
		if l["type"] == "result" || l["subtype"] == "status" {
			told = append(told, fmt.Sprint(l["type"], l["permissionMode"]))
		}
	}
	if diff := cmp.Diff([]string{"systembypassPermissions", "result<nil>", "result<nil>"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// S061: a change that comes right behind a message waits for the end of its turn,
// also while that has not begun; one that waits when the input ends is no trouble.
func TestChangeRightBehindAMessage(t *testing.T) {
	t.Parallel()
	r, server := withProvider(t)
	c, lines := r.speak(asks("one")+requests("m", "set_model", object{"model": "later"})+asks("two")+requests("n", "set_model", object{"model": "never"}),
		"--model", "deepseek-flash")
	if c.code != 0 || c.stderr != "" || len(only(lines, "result/success")) != 2 {
		t.Fatalf("exit code %d, %q\n%s", c.code, kinds(lines), c.stderr)
	}
	var models []any
	for _, body := range requestBodies(t, server) {
		models = append(models, body["model"])
	}
	// Both answers may come before the first turn has begun, too; then the change is
	// not one during a turn.
	for _, l := range only(lines, "control_response") {
		waited := dig(l, "response", "response", "applies") == "after_turn"
		switch id := dig(l, "response", "request_id"); {
		case id == "m" && waited && models[0] == "later":
			t.Errorf("the first turn is answered by %v", models)
		case id == "m" && models[1] == "deepseek-flash":
			t.Errorf("the second turn is answered by %v", models)
		}
	}
}

// Spec stream-json 1.3, 4.1: settings that come with the handshake are those of the
// launch, and only what is in force is claimed.
func TestSettingsOfTheHandshake(t *testing.T) {
	t.Parallel()
	settings := object{
		"model": "handed", "outputStyle": "terse", "permissions": object{"deny": []any{"WebFetch"}, "defaultMode": "plan"}, "env": object{"HANDED": "over"},
		"hooks": object{"UserPromptSubmit": []any{object{"hooks": []any{object{"type": "command", "command": `printf 'seen %s' "$HANDED" > hook`}}}}},
	}
	for name, brought := range map[string]any{"as an object": settings, "as text": wire(settings)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, server := withProvider(t)
			h := r.start("--await-initialize", "--initialize-fields=settings", "--api-format", "deepseek", "--settings", `{"permissions":{"deny":["WebSearch"]}}`)
			got := h.control("i", "initialize", object{"settings": brought})
			if dig(got, "response", "settings_applied") != true || dig(got, "response", "output_style") != "terse" {
				t.Errorf("answer %v", got)
			}
			init := h.wait("system/init", func(l object) bool { return l["subtype"] == "init" })
			if init["permissionMode"] != "plan" || init["model"] != "handed" || strings.Contains(fmt.Sprint(init["tools"]), "WebFetch") {
				t.Errorf("init %v", init)
			}
			says(t, "effective", dig(h.settings("s"), "effective", "permissions"), `{"deny":["WebSearch","WebFetch"],"defaultMode":"plan"}`)
			h.user("go")
			h.result(1)
			if model := requestBodies(t, server)[0]["model"]; model != "handed" {
				t.Errorf("the request is for %v", model)
			}
			if got := r.read("hook"); got != "seen over" {
				t.Errorf("the hook has written %q", got)
			}
		})
	}
	h := newRoom(t).start()
	for i, bad := range []any{5, []any{}, "/no/such/file", object{"permissions": object{"deny": "Bash"}}} {
		got := h.control(fmt.Sprint("bad", i), "initialize", object{"settings": bad})
		if text, _ := got["error"].(string); !strings.Contains(text, "settings") {
			t.Errorf("%v: %v", bad, got)
		}
	}
	if got := h.control("good", "initialize", nil); got["subtype"] != "success" {
		t.Errorf("a handshake after bad ones: %v", got)
	}
}

// Spec stream-json 7.4: env of the settings is there for programs; that of a file
// which nobody has agreed to is not.
func TestVariablesOfTheSettings(t *testing.T) {
	t.Parallel()
	r := newRoom(t).rounds([]use{bash(`echo "$OF_USER-$OF_PROJECT-$OF_FLAG"`)}).
		put(`{"env":{"OF_USER":"u","OF_FLAG":"u","NUMBER":5}}`, `{"env":{"OF_PROJECT":"p"}}`, "")
	c, lines := r.speak(asks("go"), "--permission-mode", "bypassPermissions", "--settings", `{"env":{"OF_FLAG":"f"}}`)
	results := only(lines, "user")
	if c.code != 0 || len(results) != 1 || !strings.Contains(fmt.Sprint(block(results[0])["content"]), "u--f") {
		t.Errorf("exit code %d, %v\n%s", c.code, results, c.stderr)
	}
}
