package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto/wirejson"
)

// person is a schema of an object, that of the reference's transcripts.
const person = `{"type":"object","properties":{"name":{"type":"string"},"n":{"type":"integer"}},"required":["name"],"additionalProperties":false}`

// outputs has the model call StructuredOutput once for each of arguments, step by
// step, then say done.
func outputs(arguments ...string) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i, a := range arguments {
		fmt.Fprintf(&b, "  - when: {step: %d}\n    reply: [{text: working}, {call: {tool: StructuredOutput, arguments: '%s'}}]\n", i+1, a)
	}
	b.WriteString("  - reply: done\n")
	return b.String()
}

// requiring says how a client asks for a schema: by flag, in initialize, or in
// both, where the request wins (spec stream-json 4.1).
func requiring(schema string) map[string]struct {
	flags []string
	init  object
} {
	return map[string]struct {
		flags []string
		init  object
	}{
		"by flag":       {[]string{"--json-schema", schema}, object{}},
		"in initialize": {nil, object{"jsonSchema": objectOf(schema)}},
		"in both":       {[]string{"--json-schema", `{"type":"boolean"}`}, object{"jsonSchema": objectOf(schema)}},
	}
}

// objectOf decodes an object.
func objectOf(text string) (o object) {
	if err := wirejson.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	return o
}

// TestStructured: a value that matches comes as JSON, and its text as the result;
// the call ends the turn, and shows as any other (S037, spec stream-json 11.6,
// checklist 83).
func TestStructured(t *testing.T) {
	t.Parallel()
	for name, how := range requiring(person) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).script(outputs(`{"name": "x", "n": 3}`)).start(how.flags...)
			h.control("i", "initialize", how.init)
			h.user("go")
			result := h.result(1)
			if diff := cmp.Diff(object{"name": "x", "n": 3.0}, result["structured_output"]); diff != "" {
				t.Errorf("structured_output (-want +got):\n%s", diff)
			}
			if result["result"] != `{"name":"x","n":3}` || endOf(result) != "success ok completed" || result["stop_reason"] != "tool_use" || result["num_turns"] != 1.0 {
				t.Errorf("result %v", result)
			}
			if denials, _ := result["permission_denials"].([]any); len(denials) != 0 {
				t.Errorf("denials %v", denials)
			}
			init := h.of("system/init")[0]
			if tools, _ := init["tools"].([]any); !slices.Contains(tools, any("StructuredOutput")) {
				t.Errorf("tools %v", tools)
			}
			if got := strings.Join(h.blocks(), " "); got != "text tool_use tool_result" {
				t.Errorf("blocks %s", got)
			}
			// Each turn anew.
			h.user("go")
			if again := h.result(2); again["structured_output"] == nil {
				t.Errorf("the second result %v", again)
			}
			if code := h.end(); code != 0 {
				t.Errorf("exit %d", code)
			}
			if asked := h.of("control_request"); len(asked) != 0 {
				t.Errorf("the host was asked: %v", asked)
			}
		})
	}
}

// blocks are the types of the blocks of all messages so far.
func (h *host) blocks() (list []string) {
	for _, l := range h.all() {
		if l["type"] == "assistant" || l["type"] == "user" {
			kind, _ := block(l)["type"].(string)
			list = append(list, kind)
		}
	}
	return list
}

// TestStructuredMended: what does not match is an error for the model, with all
// that is wrong, and the turn goes on.
func TestStructuredMended(t *testing.T) {
	t.Parallel()
	h := newRoom(t).script(outputs(`{"nam": "x", "n": "y"}`, `{"name": `, `{"name": "x"}`)).start("--json-schema", person)
	h.user("go")
	result := h.result(1)
	if diff := cmp.Diff(object{"name": "x"}, result["structured_output"]); diff != "" || result["num_turns"] != 3.0 {
		t.Errorf("%s; result %v", diff, result)
	}
	var said []string
	for _, l := range h.of("user") {
		if b := block(l); b["is_error"] == true {
			text, _ := b["content"].(string)
			said = append(said, text)
		}
	}
	if len(said) != 2 {
		t.Fatalf("errors %q", said)
	}
	for _, part := range []string{"/name: missing", "/nam: unknown", "/n: type: y"} {
		if !strings.Contains(said[0], part) {
			t.Errorf("%q is not in %q", part, said[0])
		}
	}
	if !strings.Contains(said[1], "cannot be read") {
		t.Errorf("the second error: %q", said[1])
	}
	if code := h.end(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// TestStructuredNever: a turn without a value that matches is an error, after five
// attempts or as many as the variable says, whatever is wrong with them, and after
// one reminder of a model that makes none.
func TestStructuredNever(t *testing.T) {
	t.Parallel()
	bad := `{"n": 1}`
	for name, tc := range map[string]struct {
		script   string
		variable string
		turns    float64
		text     string
	}{
		"five":           {outputs(bad, bad, bad, bad, bad, `{"name": "late"}`), "", 5, "after 5 attempts"},
		"no JSON":        {outputs(`{`, `[`, `{"`, bad, `{"name"`), "", 5, "after 5 attempts"},
		"two":            {outputs(bad, bad, `{"name": "late"}`), "2", 2, "after 2 attempts"},
		"none":           {outputs(), "", 2, "without giving a structured output"},
		"one, then none": {outputs(bad), "", 3, "without giving a structured output; 1 did not match"},
		"only the last":  {outputs(bad, bad, bad, bad), "", 6, "4 did not match"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).script(tc.script)
			if tc.variable != "" {
				r.set("MAX_STRUCTURED_OUTPUT_RETRIES", tc.variable)
			}
			h := r.start("--json-schema", person)
			h.user("go")
			result := h.result(1)
			text, _ := result["result"].(string)
			if endOf(result) != "error_max_structured_output_retries error structured_output_retry_exhausted" || !strings.Contains(text, tc.text) {
				t.Errorf("result %v", result)
			}
			if diff := cmp.Diff([]any{text}, result["errors"]); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if _, has := result["structured_output"]; has || result["num_turns"] != tc.turns {
				t.Errorf("result %v, want %v turns", result, tc.turns)
			}
			if code := h.end(); code != 1 {
				t.Errorf("exit %d", code)
			}
		})
	}
}

// TestStructuredAnew: attempts and the reminder count for one turn.
func TestStructuredAnew(t *testing.T) {
	t.Parallel()
	h := newRoom(t).script(`
rules:
  - when: {step: 1}
    reply: prose
  - when: {step: 5}
    reply: [{call: {tool: StructuredOutput, args: {name: x}}}]
  - reply: [{call: {tool: StructuredOutput, args: {n: 1}}}]
`).start("--json-schema", person)
	for n := 1; n <= 3; n++ {
		h.user("go")
		if result := h.result(n); dig(result, "structured_output", "name") != "x" || result["num_turns"] != 5.0 {
			t.Errorf("result %d: %v", n, result)
		}
	}
}

// TestStructuredReminded: the reminder is a message of the model's history, and a
// model that heeds it succeeds.
func TestStructuredReminded(t *testing.T) {
	t.Parallel()
	eachSpeech(t, func(t *testing.T, p *provider) {
		p.server.Script(p.says("here you are"), p.calls("c1", "StructuredOutput", `{"name":"x"}`))
		p.launch("--json-schema", person)
		p.user("go")
		result := p.result(1)
		if diff := cmp.Diff(object{"name": "x"}, result["structured_output"]); diff != "" || result["subtype"] != "success" || result["result"] != `{"name":"x"}` {
			t.Errorf("%s; result %v", diff, result)
		}
		if n := p.attempts(); n != 2 {
			t.Fatalf("%d requests", n)
		}
		const reminder = "its result has to be given with the tool StructuredOutput"
		if strings.Contains(p.body(0), reminder) || !strings.Contains(p.body(1), reminder) {
			t.Errorf("the second request does not remind: %.3000s", p.body(1))
		}
		p.goesOnWithOutput(2)
	})
}

// goesOnWithOutput checks that the next turn is a good one, too.
func (p *provider) goesOnWithOutput(n int) {
	p.t.Helper()
	p.server.Script(p.calls("c2", "StructuredOutput", `{"name":"again"}`))
	p.user("more")
	if result := p.result(n); dig(result, "structured_output", "name") != "again" {
		p.t.Errorf("the next turn: %v", result)
	}
	for _, r := range p.server.Received() {
		paired(p.t, r.Body)
	}
}

// TestStructuredRoots: the value may be any JSON value; what providers do not take
// for parameters is wrapped for them, and unwrapped again.
func TestStructuredRoots(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		schema, arguments string
		want              any
		text              string
	}{
		"an array":    {`{"type":"array","items":{"type":"integer"}}`, `{"value": [1, 2]}`, []any{1.0, 2.0}, `[1,2]`},
		"a string":    {`{"enum":["yes","no"]}`, `{"value": "yes"}`, "yes", `"yes"`},
		"false":       {`{"type":"boolean"}`, `{"value": false}`, false, `false`},
		"null":        {`{"type":"null"}`, `{"value": null}`, nil, `null`},
		"one of two":  {`{"anyOf":[` + person + `,{"type":"null"}]}`, `{"value": {"name": "x"}}`, object{"name": "x"}, `{"name":"x"}`},
		"a separator": {person, "{\"name\": \"a\u2028b\"}", object{"name": "a\u2028b"}, "{\"name\":\"a\u2028b\"}"},
		"format":      {`{"type":"object","properties":{"at":{"type":"string","format":"date"}}}`, `{"at": "soon"}`, object{"at": "soon"}, `{"at":"soon"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).script(outputs(tc.arguments)).start()
			h.control("i", "initialize", object{"jsonSchema": objectOf(tc.schema)})
			h.user("go")
			result := h.result(1)
			got, has := result["structured_output"]
			if diff := cmp.Diff(tc.want, got); diff != "" || !has || jsonText(result["result"]) != jsonText(tc.text) {
				t.Errorf("%s; result %v", diff, result)
			}
		})
	}
}

// TestStructuredLarge: a value whose text would make the line too long for clients
// stands there once (case B01).
func TestStructuredLarge(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 400_000)
	h := newRoom(t).script(outputs(`{"s": "`+long+`"}`)).startWith(func(h *host) { h.long = true }, "--json-schema", `{"type":"object"}`)
	h.user("go")
	if result := h.result(1); dig(result, "structured_output", "s") != long || result["result"] != "working" {
		t.Errorf("result %.300v", result)
	}
}

// jsonText is a JSON text without the freedom of how characters are escaped.
func jsonText(v any) string {
	text, _ := v.(string)
	return strings.ReplaceAll(text, `\u2028`, "\u2028")
}

// TestStructuredAnyMode: no mode, no list of tools and no agent takes the tool
// away, and nobody is asked about it.
func TestStructuredAnyMode(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"plan":                   {"--permission-mode", "plan"},
		"dontAsk":                {"--permission-mode", "dontAsk"},
		"acceptEdits":            {"--permission-mode", "acceptEdits"},
		"no tools":               {"--tools", ""},
		"one tool":               {"--tools", "Read"},
		"an agent":               {"--agents", `{"a":{"description":"d","prompt":"p","tools":["Read"]}}`, "--agent", "a"},
		"an agent without tools": {"--agents", `{"a":{"description":"d","prompt":"p","tools":[]}}`, "--agent", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).script(outputs(`{"name": "x"}`)).start(append(flags, "--json-schema", person)...)
			h.user("go")
			if result := h.result(1); dig(result, "structured_output", "name") != "x" || result["subtype"] != "success" {
				t.Errorf("result %v", result)
			}
			if asked := h.of("control_request"); len(asked) != 0 {
				t.Errorf("the host was asked: %v", asked)
			}
		})
	}
}

// TestStructuredOnlyHere: without a schema there is no such tool, and a subagent
// never has it.
func TestStructuredOnlyHere(t *testing.T) {
	t.Parallel()
	t.Run("without a schema", func(t *testing.T) {
		t.Parallel()
		h := newRoom(t).script(outputs(`{"name": "x"}`)).start()
		h.user("go")
		result := h.result(1)
		if _, has := result["structured_output"]; has || result["result"] != "done" {
			t.Errorf("result %v", result)
		}
		if tools, _ := h.of("system/init")[0]["tools"].([]any); slices.Contains(tools, any("StructuredOutput")) {
			t.Errorf("tools %v", tools)
		}
	})
	t.Run("a subagent", func(t *testing.T) {
		t.Parallel()
		p := provide(t, speeches()[2])
		p.server.Script(
			p.calls("c1", "Agent", `{"description":"d","prompt":"child","subagent_type":"general-purpose"}`),
			p.says("from the child"),
			p.calls("c2", "StructuredOutput", `{"name":"x"}`))
		p.launch("--json-schema", person, "--set", "permissions.mode=bypassPermissions")
		p.user("go")
		if result := p.result(1); dig(result, "structured_output", "name") != "x" {
			t.Errorf("result %v", result)
		}
		for i, want := range []bool{true, false, true} {
			if got := strings.Contains(p.body(i), `"name":"StructuredOutput"`); got != want {
				t.Errorf("request %d has the tool: %v", i+1, got)
			}
		}
	})
}

// TestStructuredRefused: a schema that does not compile is an error of the launch,
// or of the request, which may be sent again (spec stream-json 1.7, 11.6).
func TestStructuredRefused(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"no JSON": `{`, "no object": `7`, "no schema": `{"type":7}`, "an unknown draft": `{"$schema":"http://json-schema.org/draft-04/schema#"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newRoom(t).complete("", append(slices.Clone(streamFlags), "--json-schema", schema)...)
			if c.code != 1 || c.stdout != "" || !strings.Contains(c.stderr, "--json-schema") {
				t.Errorf("%+v", c)
			}
		})
	}
	t.Run("in initialize", func(t *testing.T) {
		t.Parallel()
		h := newRoom(t).script(outputs(`{"name": "x"}`)).start()
		for id, schema := range map[string]any{"a": object{"type": 7}, "b": []any{}, "c": "x", "d": object{"$schema": "http://json-schema.org/draft-04/schema#"}} {
			got := h.control(id, "initialize", object{"jsonSchema": schema})
			if text, _ := got["error"].(string); got["subtype"] != "error" || !strings.Contains(text, "jsonSchema") {
				t.Errorf("%v: %v", schema, got)
			}
		}
		if got := h.control("e", "initialize", object{"jsonSchema": objectOf(person)}); got["subtype"] != "success" {
			t.Errorf("%v", got)
		}
		h.user("go")
		if result := h.result(1); dig(result, "structured_output", "name") != "x" {
			t.Errorf("result %v", result)
		}
	})
}

// TestStructuredLate: an initialize behind the first turn holds for those to come.
func TestStructuredLate(t *testing.T) {
	t.Parallel()
	h := newRoom(t).script(`
rules:
  - when: {turn: 1}
    reply: plain
  - reply: [{call: {tool: StructuredOutput, args: {name: x}}}]
`).start()
	h.user("go")
	if first := h.result(1); first["result"] != "plain" {
		t.Errorf("result %v", first)
	}
	h.control("i", "initialize", object{"jsonSchema": objectOf(person)})
	h.user("go")
	if second := h.result(2); dig(second, "structured_output", "name") != "x" {
		t.Errorf("result %v", second)
	}
}

// TestStructuredPrinted: what -p prints is the value.
func TestStructuredPrinted(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script(outputs(`{"name": "x"}`))
	if c := r.complete("", "-p", "go", "--json-schema", person); c.code != 0 || c.stdout != "{\"name\":\"x\"}\n" {
		t.Errorf("%+v", c)
	}
	if c := r.complete("", "-p", "go", "--json-schema", person, "--output-format", "json"); c.code != 0 ||
		dig(objectOf(c.stdout), "structured_output", "name") != "x" {
		t.Errorf("%+v", c)
	}
}

// TestStructuredHooks: a hook sees the call, and what it makes of the result does
// not change the value.
func TestStructuredHooks(t *testing.T) {
	t.Parallel()
	h := newRoom(t).script(outputs(`{"name": "x"}`)).start("--json-schema", person)
	seen := make(chan object, 4)
	h.answering(map[string]func(object) any{"hook_callback": func(request object) any {
		input, _ := request["input"].(object)
		seen <- input
		return object{"hookSpecificOutput": object{"hookEventName": "PostToolUse", "updatedToolOutput": "changed"}}
	}})
	h.control("i", "initialize", object{"hooks": object{"PostToolUse": []any{object{"matcher": "StructuredOutput", "hookCallbackIds": []any{"h"}}}}})
	h.user("go")
	if result := h.result(1); dig(result, "structured_output", "name") != "x" {
		t.Errorf("result %v", result)
	}
	select {
	case input := <-seen:
		if dig(input, "tool_input", "name") != "x" {
			t.Errorf("hook input %v", input)
		}
	default:
		t.Error("no hook was called")
	}
}
