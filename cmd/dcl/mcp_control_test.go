package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// toolsFrom gives the names in init.tools that begin so, sorted.
func toolsFrom(init object, prefix string) (names []string) {
	list, _ := init["tools"].([]any)
	for _, v := range list {
		if name, _ := v.(string); strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// mcp_status, mcp_toggle and mcp_reconnect (checklist 35; S050, S052, S053; spec
// stream-json 4.10, 4.12): each state is told, what is switched off is gone from the
// next model request and what is on again is back, and every failure is an error
// that says why.
func TestMCPControl(t *testing.T) {
	t.Parallel()
	p := provide(t, speeches()[0])
	p.server.Script(p.says("ok"), p.says("ok"), p.says("ok"))
	p.launch(serving(map[string]string{"book": "good", "gone": "exit"})...)
	p.initialize(nil)
	p.prompt(1)
	row := p.status(1, "book")
	if diff := cmp.Diff(object{"name": "book", "version": "1.2"}, row["serverInfo"]); diff != "" || row["status"] != "connected" || dig(row, "config", "type") != "stdio" {
		t.Errorf("mcp_status %v (-want +got):\n%s", row, diff)
	}
	if diff := cmp.Diff([]string{"approve", "ask", "echo", "grow", "transfer"}, slices.Sorted(slices.Values(members(row["tools"], "name")))); diff != "" {
		t.Errorf("tools without a prefix (-want +got):\n%s", diff)
	}
	n := 100
	eventually(t, "the failure of a server", func() bool { n++; row = p.status(n, "gone"); return row["status"] == "failed" })
	if text, _ := row["error"].(string); !strings.Contains(text, "no database here") {
		t.Errorf("mcp_status %v", row)
	}
	refused := func(id, subtype string, fields object, part string) {
		t.Helper()
		got := p.control(id, subtype, fields)
		if text, _ := got["error"].(string); got["subtype"] != "error" || !strings.Contains(text, part) {
			t.Errorf("%s %v: %v", subtype, fields, got)
		}
	}
	done := func(id, subtype string, fields object) {
		t.Helper()
		if got := p.control(id, subtype, fields); got["subtype"] != "success" || len(got["response"].(object)) != 0 {
			t.Errorf("%s %v: %v", subtype, fields, got)
		}
	}
	state := func(n int, name, want string) {
		t.Helper()
		if got := p.status(n, name); got["status"] != want || (want == "disabled") == (got["tools"] != nil) {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
	done("off", "mcp_toggle", object{"serverName": "book", "enabled": false})
	state(2, "book", "disabled")
	refused("no", "mcp_reconnect", object{"serverName": "book"}, "disabled")
	state(3, "book", "disabled")
	p.prompt(2)
	done("on", "mcp_toggle", object{"serverName": "book", "enabled": true})
	state(4, "book", "connected")
	done("again", "mcp_reconnect", object{"serverName": "book"})
	state(5, "book", "connected")
	for i, subtype := range []string{"mcp_reconnect", "mcp_toggle"} {
		refused(fmt.Sprint("gone", i), subtype, object{"serverName": "gone", "enabled": true}, "no database here")
	}
	if got := p.status(6, "gone"); got["status"] != "failed" {
		t.Errorf("mcp_status %v", got)
	}
	p.prompt(3)
	var counts []int
	for _, body := range requestBodies(t, p.server) {
		n := 0
		for _, name := range offered(body) {
			if strings.HasPrefix(name, "mcp__book__") {
				n++
			}
		}
		counts = append(counts, n)
	}
	if diff := cmp.Diff([]int{5, 0, 5}, counts); diff != "" {
		t.Errorf("tools of the server in the requests (-want +got):\n%s", diff)
	}
	if code := p.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// dcl mcp writes servers into the settings of a scope, with the long flags or the
// short ones, and the next session has them (S063): those of the folder where it is
// trusted.
func TestMCPCommand(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script("rules: [{reply: ok}]")
	echo := func(name string) string { return "mcp__" + name + "__echo" }
	session := func() (servers map[any]any, rows map[string]any, tools []string) {
		h := r.start()
		h.prompt(1)
		rows = map[string]any{}
		list, _ := dig(h.control("s", "mcp_status", nil), "response", "mcpServers").([]any)
		for _, v := range list {
			one, _ := v.(object)
			rows[fmt.Sprint(one["name"])] = fmt.Sprint(one["scope"], " ", one["status"])
		}
		init := h.of("system/init")[0]
		if code := h.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		return serversOf(init), rows, slices.DeleteFunc(toolsFrom(init, "mcp__"), func(n string) bool { return !strings.HasSuffix(n, "__echo") })
	}
	check := func(what string, want map[any]any, wantRows map[string]any, wantTools ...string) {
		t.Helper()
		servers, rows, tools := session()
		if diff := cmp.Diff(want, servers); diff != "" {
			t.Errorf("%s: init.mcp_servers (-want +got):\n%s", what, diff)
		}
		if diff := cmp.Diff(wantRows, rows); diff != "" {
			t.Errorf("%s: mcp_status (-want +got):\n%s", what, diff)
		}
		if diff := cmp.Diff(wantTools, tools); diff != "" {
			t.Errorf("%s: tools (-want +got):\n%s", what, diff)
		}
	}
	r.command("mcp", "add", "mine", "--", mcpProgram, "good")
	r.command("mcp", "add", "-s", "project", "-e", "A=b", "ours", "--", mcpProgram, "good")
	r.command("mcp", "add-json", "--scope=local", "here", `{"command":"`+mcpProgram+`","args":["good"]}`)
	check("not trusted", map[any]any{"mine": "connected", "ours": "disabled", "here": "disabled"},
		map[string]any{"mine": "user connected", "ours": "project disabled", "here": "local disabled"}, echo("mine"))
	r.command("trust", "add")
	check("trusted", map[any]any{"mine": "connected", "ours": "connected", "here": "connected"},
		map[string]any{"mine": "user connected", "ours": "project connected", "here": "local connected"}, echo("here"), echo("mine"), echo("ours"))
	for _, part := range []string{"mine", "ours", "here"} {
		if list := r.command("mcp", "list"); !strings.Contains(list, part) {
			t.Errorf("mcp list lacks %s: %s", part, list)
		}
	}
	if one := r.command("mcp", "get", "ours"); !strings.Contains(one, mcpProgram+" good") || !strings.Contains(one, "A: ***") {
		t.Errorf("mcp get: %s", one)
	}
	for _, name := range []string{"mine", "ours", "here"} {
		r.command("mcp", "remove", name)
	}
	check("removed", map[any]any{}, map[string]any{})
	for what, args := range map[string][]string{
		"a server twice":      {"remove", "mine"},
		"a scope":             {"add", "--scope", "everywhere", "x", "--", "x"},
		"a name":              {"add", "no good", "--", "x"},
		"a transport":         {"add", "-t", "pigeon", "x", "http://127.0.0.1:1/"},
		"headers for a child": {"add", "-H", "A: b", "x", "--", "x"},
		"JSON":                {"add-json", "x", `{"command":"x","arg":["y"]}`},
	} {
		if c := r.complete("", append([]string{"mcp"}, args...)...); c.code != 1 || c.stdout != "" || c.stderr == "" {
			t.Errorf("%s: code %d, %q, %q", what, c.code, c.stdout, c.stderr)
		}
	}
}

// dcl doctor names the model that would answer: the one of the settings files that
// count, below the one of the profile.
func TestDoctorModel(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.set("DEEPSEEK_API_KEY", "sk-x").set("ANTHROPIC_API_KEY", "sk-y")
	model := func(args ...string) string {
		for _, line := range strings.Split(r.complete("", append([]string{"doctor"}, args...)...).stdout, "\n") {
			if words := strings.Fields(line); len(words) > 2 && words[1] == "model" {
				return strings.Join(append(words[:1], words[2:]...), " ")
			}
		}
		return ""
	}
	for _, tc := range []struct {
		file, text string
		args       []string
		want       string
	}{
		{want: "ok claude-opus-5-5 of provider anthropic answers; credential: ANTHROPIC_API_KEY"},
		{file: r.settings + "/settings.json", text: `{"model":"deepseek-flash"}`,
			want: "ok deepseek-flash of provider deepseek-official answers, as the settings files say; credential: DEEPSEEK_API_KEY"},
		{args: []string{"--set", "front.model=haiku"}, want: "ok claude-haiku-5-5 of provider anthropic answers; credential: ANTHROPIC_API_KEY"},
		{file: r.settings + "/settings.json", text: `{"model":`, want: "ok claude-opus-5-5 of provider anthropic answers; credential: ANTHROPIC_API_KEY"},
	} {
		if tc.file != "" {
			r.write(tc.file, tc.text)
		}
		if got := model(tc.args...); got != tc.want {
			t.Errorf("%s %v: got %q, want %q", tc.text, tc.args, got, tc.want)
		}
	}
}
