// Package tooltest is the conformance suite of tool.Tool: every tool of the
// product runs it beside its own tests.
package tooltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"dsh/kernel"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// DefaultLimit bounds the text of one result, in bytes.
const DefaultLimit = 64 << 10

// DefaultPrompt is how soon a cancelled call must be back.
const DefaultPrompt = 5 * time.Second

// Options says what the suite cannot know about a tool.
type Options struct {
	// CWD is the working directory of the calls, by default an empty one that the
	// test owns.
	CWD string
	// Good holds argument objects of calls that succeed, at least one. They are
	// called many times, also at once, and with strings changed, so they must be
	// harmless and repeatable in CWD.
	Good []string
	// NotEmpty names string members for which "" is an error.
	NotEmpty []string
	// Slow holds the arguments of a call that would go on for much longer than
	// Prompt; "" for a tool that has none.
	Slow string
	// Huge holds the arguments of a call that has far more to say than Limit; "" for
	// a tool that has none.
	Huge string
	// Limit bounds the text of one result in bytes, by default DefaultLimit.
	Limit int
	// Prompt is how soon a cancelled call must return, by default DefaultPrompt.
	Prompt time.Duration
}

// TestTool checks what the contract asks of every tool: a schema that every
// provider takes, an error result for whatever a model may send, no panic, a
// bounded result in valid UTF-8, calls side by side and a quick end. Run it with
// the race detector.
func TestTool(t *testing.T, tl tool.Tool, o Options) {
	t.Helper()
	if len(o.Good) == 0 {
		t.Fatal("tooltest: Options.Good is empty; give the arguments of a call that succeeds")
	}
	if o.CWD == "" {
		o.CWD = t.TempDir()
	}
	if o.Limit == 0 {
		o.Limit = DefaultLimit
	}
	if o.Prompt == 0 {
		o.Prompt = DefaultPrompt
	}
	s := newSuite(t, tl, o)
	t.Run("spec", s.spec)
	t.Run("good arguments", s.good)
	t.Run("bad arguments", s.bad)
	t.Run("odd strings", s.odd)
	t.Run("odd paths", s.paths)
	t.Run("huge output", s.huge)
	t.Run("calls side by side", s.concurrent)
	t.Run("cancelled", s.cancelled)
}

type suite struct {
	tool     tool.Tool
	o        Options
	pipeline *tool.Pipeline
	view     *tool.View
}

func newSuite(t *testing.T, tl tool.Tool, o Options) *suite {
	t.Helper()
	owner := kernel.NewOwner(t.Context(), "tooltest")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := owner.Close(ctx); err != nil {
			t.Errorf("close the owner of the tool: %v", err)
		}
	})
	registry := tool.NewRegistry()
	if err := registry.Register(owner, tl); err != nil {
		t.Fatalf("register: %v", err)
	}
	p := tool.NewPipeline()
	// A panic becomes an ordinary error on its way out, so it is looked for where
	// the tool ends.
	err := p.Use(owner, 1<<20, "panics", func(ctx context.Context, tl tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
		res, err := next(ctx, tl, in)
		var broken *tool.PanicError
		if errors.As(err, &broken) {
			t.Errorf("%s panicked with the arguments %.300q: %v\n%s", tl.Spec().Name, in.Arguments, broken.Value, broken.Stack)
		}
		return res, err
	})
	if err != nil {
		t.Fatalf("add a stage: %v", err)
	}
	return &suite{tl, o, p, registry.View(nil)}
}

// call runs one call through the pipeline and checks what holds for every
// result.
func (s *suite) call(ctx context.Context, t *testing.T, arguments string) tool.Result {
	t.Helper()
	res := s.pipeline.Call(ctx, s.view, s.tool.Spec().Name, arguments, tool.Invocation{
		SessionID: "s1", CWD: s.o.CWD, CallID: "call-1", Turn: 1, Step: 1,
		Emit:     func(...session.Draft) error { return nil },
		Progress: func(string) {},
	})
	size := 0
	for i, b := range res.Content {
		if b.Type != sdkproto.BlockText {
			continue
		}
		size += len(b.Text)
		if !utf8.ValidString(b.Text) {
			t.Errorf("arguments %.200q: block %d of the result is not valid UTF-8", arguments, i)
		}
	}
	if size > s.o.Limit {
		t.Errorf("arguments %.200q: the result has %d bytes of text, more than %d", arguments, size, s.o.Limit)
	}
	if size == 0 {
		t.Errorf("arguments %.200q: the result says nothing", arguments)
	}
	if res.Meta != nil && (!wirejson.Valid(res.Meta) || !utf8.Valid(res.Meta)) {
		t.Errorf("arguments %.200q: meta is not one JSON value in UTF-8: %.200q", arguments, res.Meta)
	}
	switch {
	case res.IsError && (res.Error == nil || res.Error.Name == "" || res.Error.Code == ""):
		t.Errorf("arguments %.200q: an error result without name and code: %.300q", arguments, text(res))
	case !res.IsError && res.Error != nil:
		t.Errorf("arguments %.200q: a good result with the error %+v", arguments, *res.Error)
	}
	return res
}

func (s *suite) spec(t *testing.T) {
	spec := s.tool.Spec()
	if strings.TrimSpace(spec.Description) == "" || !utf8.ValidString(spec.Description) {
		t.Errorf("the description is empty or not UTF-8: %q", spec.Description)
	}
	if again := s.tool.Spec(); again.Name != spec.Name || again.Description != spec.Description || string(again.Parameters) != string(spec.Parameters) {
		t.Error("two reads of the spec differ; it is part of the prompt and must not change")
	}
	if spec.ReadOnly && spec.Destructive {
		t.Error("the tool says that it is both read-only and destructive")
	}
	if _, err := tool.NewChecker(spec.Parameters); err != nil {
		t.Fatalf("the parameters: %v", err)
	}
	var top map[string]any
	if err := wirejson.Unmarshal(spec.Parameters, &top); err != nil {
		t.Fatalf("the parameters are not a JSON object: %v", err)
	}
	if top["type"] != "object" {
		t.Errorf(`the parameters have the type %v, want "object"`, top["type"])
	}
	if _, ok := top["properties"].(map[string]any); !ok {
		t.Error("the parameters have no properties object")
	}
	if top["additionalProperties"] != false {
		t.Error("the parameters allow unknown members")
	}
	plain(t, "", top)
	for _, name := range required(top) {
		if _, ok := properties(top)[name]; !ok {
			t.Errorf("the required member %q is not among the properties", name)
		}
	}
	subject := spec.Subject
	for _, name := range []string{subject.Member, subject.Dir} {
		if _, ok := properties(top)[name]; name != "" && !ok {
			t.Errorf("the subject of permission rules is in %q, which is not among the properties", name)
		}
	}
	if (subject.Kind == "") != (subject.Member == "") || subject.Kind != "" && subject.Rule == "" {
		t.Errorf("the subject of permission rules is not whole: %+v", subject)
	}
	for _, name := range slices.Sorted(maps.Keys(properties(top))) {
		if d, _ := properties(top)[name]["description"].(string); strings.TrimSpace(d) == "" {
			t.Errorf("the member %q has no description", name)
		}
	}
}

// plain refuses the parts of JSON Schema that not every provider takes.
func plain(t *testing.T, at string, schema map[string]any) {
	t.Helper()
	for _, key := range []string{"$ref", "$defs", "oneOf", "anyOf", "allOf", "not", "if", "patternProperties"} {
		if _, ok := schema[key]; ok {
			t.Errorf("the schema at %q uses %s, which some providers refuse", at, key)
		}
	}
	switch typ, _ := schema["type"].(string); typ {
	case "string", "number", "integer", "boolean":
	case "array":
		items, ok := schema["items"].(map[string]any)
		if !ok {
			t.Errorf("the array at %q does not say what its items are", at)
			return
		}
		plain(t, at+"/items", items)
	case "object":
		for _, name := range slices.Sorted(maps.Keys(properties(schema))) {
			plain(t, at+"/"+name, properties(schema)[name])
		}
	default:
		t.Errorf("the schema at %q has the type %v, want one plain type", at, schema["type"])
	}
}

func (s *suite) good(t *testing.T) {
	for _, arguments := range s.o.Good {
		for range 2 {
			if res := s.call(t.Context(), t, arguments); res.IsError {
				t.Errorf("arguments %s: %s", arguments, text(res))
			}
		}
	}
}

func (s *suite) bad(t *testing.T) {
	base := s.decode(t, s.o.Good[0])
	schema := s.schema(t)
	bad := map[string]string{
		"a list":           `[]`,
		"a string":         `"x"`,
		"null":             `null`,
		"a number":         `1`,
		"half an object":   `{"a":`,
		"two objects":      `{} {}`,
		"text":             `please do it`,
		"an open string":   `{"a":"b`,
		"not UTF-8":        "\xff\xfe",
		"a NUL byte":       "\x00",
		"very deep lists":  strings.Repeat("[", 20000),
		"an unknown thing": s.with(t, base, "no_such_member_", 1),
	}
	for _, name := range required(schema) {
		without := maps.Clone(base)
		delete(without, name)
		bad["without "+name] = s.encode(t, without)
	}
	for name, p := range properties(schema) {
		for kind, v := range wrong(p["type"]) {
			bad[fmt.Sprintf("%s is %s", name, kind)] = s.with(t, base, name, v)
		}
	}
	for _, name := range s.o.NotEmpty {
		bad[name+" is empty"] = s.with(t, base, name, "")
		bad[name+" is blank"] = s.with(t, base, name, " \t\n")
	}
	if len(required(schema)) > 0 {
		bad["nothing"] = ""
		bad["an empty object"] = `{}`
	}
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		t.Run(name, func(t *testing.T) {
			if res := s.call(t.Context(), t, bad[name]); !res.IsError {
				t.Errorf("arguments %.300q were taken: %.300q", bad[name], text(res))
			}
		})
	}
}

// wrong gives values that are not of a type.
func wrong(typ any) map[string]any {
	all := map[string]any{
		"a string": "x", "a fraction": 1.5, "a boolean": true, "null": nil,
		"a list": []any{map[string]any{"x": 1}}, "an object": map[string]any{"x": 1},
	}
	switch typ {
	case "string":
		delete(all, "a string")
	case "number":
		delete(all, "a fraction")
	case "boolean":
		delete(all, "a boolean")
	case "array":
		delete(all, "a list")
	case "object":
		delete(all, "an object")
	}
	return all
}

// odd puts strange values into every member in turn; the call may do with them
// what it likes, within the rules that hold for every result.
func (s *suite) odd(t *testing.T) {
	strange := map[string]any{
		"accents":        "héllo wörld",
		"wide letters":   "世界/こんにちは",
		"emoji":          "👩‍👩‍👧‍👦 🇩🇪",
		"right to left":  "\u202eשלום",
		"combining":      strings.Repeat("e\u0301\u0323", 50),
		"not normalised": "\u00c5\u212b\u0041\u030a",
		"a NUL":          "a\x00b",
		"control bytes":  "\x01\x1b[31m\x7f\r",
		"line ends":      "a\r\nb\rc\n\u2028d",
		"quotes":         `"'` + "`$(){}[]*?\\",
		"a BOM":          "\ufeffx",
		"a replacement":  "\ufffd",
		"dots":           "..",
		"a dash":         "-rf",
		"a long name":    strings.Repeat("x", 5000),
		"a long text":    strings.Repeat("long 世界\n", 10000),
		"many slashes":   strings.Repeat("a/", 3000),
		"brackets":       strings.Repeat("[", 500) + strings.Repeat("(", 500) + strings.Repeat("{", 500),
		"stars":          strings.Repeat("*a", 200),
	}
	numbers := map[string]any{
		"zero": 0, "minus one": -1, "large": int64(1) << 62, "very large": json.Number("1e300"),
		"beyond 64 bits": json.Number("99999999999999999999"), "lowest": json.Number("-9223372036854775808"), "with a fraction of zero": json.Number("3.0"),
	}
	schema := s.schema(t)
	base := s.decode(t, s.o.Good[0])
	for _, name := range slices.Sorted(maps.Keys(properties(schema))) {
		var values map[string]any
		switch properties(schema)[name]["type"] {
		case "string":
			values = strange
		case "integer", "number":
			values = numbers
		}
		for _, kind := range slices.Sorted(maps.Keys(values)) {
			t.Run(name+" is "+kind, func(t *testing.T) {
				s.call(t.Context(), t, s.with(t, base, name, values[kind]))
			})
		}
		if values != nil && properties(schema)[name]["type"] == "string" {
			t.Run(name+" has half a surrogate", func(t *testing.T) {
				raw := s.with(t, base, name, "SURROGATE")
				s.call(t.Context(), t, strings.Replace(raw, "SURROGATE", `a\ud83db`, 1))
			})
		}
	}
}

// paths puts paths that lead somewhere else into the members that hold one; the
// call may refuse them or not, within the rules that hold for every result, and a
// read-only one leaves what is there as it was.
func (s *suite) paths(t *testing.T) {
	subject := s.tool.Spec().Subject
	var members []string
	if subject.Kind == tool.SubjectPath || subject.Kind == tool.SubjectPattern {
		members = append(members, subject.Member)
	}
	if subject.Dir != "" {
		members = append(members, subject.Dir)
	}
	if len(members) == 0 {
		return
	}
	outside := t.TempDir()
	const kept = "the text outside\n"
	file := filepath.Join(outside, "file")
	if err := os.WriteFile(file, []byte(kept), 0o600); err != nil {
		t.Fatal(err)
	}
	odd := map[string]string{
		"a folder outside": outside, "a file outside": file, "a way out and back": filepath.Join("..", filepath.Base(s.o.CWD)),
		"below a file": filepath.Join(file, "below"), "nothing": filepath.Join(outside, "no", "such"), "a URL": "file://" + file, "a slash at the end": file + "/",
	}
	for kind, target := range map[string]string{"a link out": outside, "a link to a file": file, "a link to nothing": filepath.Join(outside, "new"), "a link to itself": "tooltest a link to itself"} {
		link := filepath.Join(s.o.CWD, "tooltest "+kind)
		if err := os.Symlink(target, link); err != nil {
			t.Logf("%s is not tested: %v", kind, err)
			continue
		}
		t.Cleanup(func() { os.Remove(link) })
		odd[kind], odd["a relative "+kind], odd["below "+kind] = link, filepath.Base(link), filepath.Join(link, "file")
	}
	base := s.decode(t, s.o.Good[0])
	for _, member := range members {
		for _, kind := range slices.Sorted(maps.Keys(odd)) {
			t.Run(member+" is "+kind, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), s.o.Prompt)
				defer cancel()
				s.call(ctx, t, s.with(t, base, member, odd[kind]))
			})
		}
	}
	if b, err := os.ReadFile(file); s.tool.Spec().ReadOnly && (err != nil || string(b) != kept) {
		t.Errorf("a read-only tool has changed a file: %q, %v", b, err)
	}
}

// huge makes the call that has too much to say: it succeeds, within the limit that
// holds for every result.
func (s *suite) huge(t *testing.T) {
	if s.o.Huge == "" {
		return
	}
	res := s.call(t.Context(), t, s.o.Huge)
	if res.IsError {
		t.Errorf("arguments %s: %s", s.o.Huge, text(res))
	}
	if n := len(text(res)); n < 4<<10 {
		t.Errorf("arguments %s: the result has %d bytes; give a call that has more to say", s.o.Huge, n)
	}
}

func (s *suite) concurrent(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 4 {
				arguments := s.o.Good[(i+j)%len(s.o.Good)]
				if res := s.call(t.Context(), t, arguments); res.IsError {
					t.Errorf("beside other calls, arguments %s: %s", arguments, text(res))
				}
			}
		})
	}
	wg.Wait()
}

func (s *suite) cancelled(t *testing.T) {
	t.Run("before it starts", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, arguments := range append(slices.Clone(s.o.Good), s.o.Slow) {
			s.prompt(t, arguments, func() { s.call(ctx, t, arguments) })
		}
	})
	if s.o.Slow == "" {
		return
	}
	t.Run("out of time", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		s.prompt(t, s.o.Slow, func() {
			if res := s.call(ctx, t, s.o.Slow); !res.IsError {
				t.Errorf("a call that ran out of time has a good result: %.300q", text(res))
			}
		})
	})
	t.Run("in the middle", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(100*time.Millisecond, cancel)
		defer timer.Stop()
		s.prompt(t, s.o.Slow, func() {
			if res := s.call(ctx, t, s.o.Slow); !res.IsError {
				t.Errorf("a call that was cut short has a good result: %.300q", text(res))
			}
		})
		if ctx.Err() == nil {
			t.Error("the slow call ended before it was cancelled; give one that takes longer")
		}
		cancel()
	})
}

func (s *suite) prompt(t *testing.T, arguments string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(s.o.Prompt):
		t.Errorf("arguments %.200q: a cancelled call is not back after %v", arguments, s.o.Prompt)
		<-done
	}
}

func (s *suite) schema(t *testing.T) map[string]any {
	t.Helper()
	return s.decode(t, string(s.tool.Spec().Parameters))
}

func (s *suite) decode(t *testing.T, object string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := wirejson.Unmarshal([]byte(object), &m); err != nil {
		t.Fatalf("decode %.200q: %v", object, err)
	}
	return m
}

func (s *suite) encode(t *testing.T, v any) string {
	t.Helper()
	b, err := wirejson.Marshal(v)
	if err != nil {
		t.Fatalf("encode %v: %v", v, err)
	}
	return string(b)
}

func (s *suite) with(t *testing.T, base map[string]any, name string, v any) string {
	t.Helper()
	if n, ok := v.(json.Number); ok {
		v = json.RawMessage(n)
	}
	m := maps.Clone(base)
	m[name] = v
	return s.encode(t, m)
}

func properties(schema map[string]any) map[string]map[string]any {
	raw, _ := schema["properties"].(map[string]any)
	props := make(map[string]map[string]any, len(raw))
	for name, v := range raw {
		if p, ok := v.(map[string]any); ok {
			props[name] = p
		}
	}
	return props
}

func required(schema map[string]any) []string {
	raw, _ := schema["required"].([]any)
	var names []string
	for _, v := range raw {
		if name, ok := v.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

func text(r tool.Result) string {
	var b strings.Builder
	for _, c := range r.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}
