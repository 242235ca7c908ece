package llmscripted

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// script is what a script file says.
type script struct {
	name  string
	rules []*rule
}

// rule answers the requests it matches.
type rule struct {
	when when
	// times limits the rule to that many attempts of a request; 0 is no limit.
	times int
	reply []*item
}

// when holds what a rule asks of a request; what is not set asks nothing.
type when struct {
	text, model string // text in lower case
	pattern     *regexp.Regexp
	step, turn  int
	aside       string
}

// item is one entry of a reply.
type item struct {
	line   int
	action action
}

func (w *when) matches(f *facts) (match []string, ok bool) {
	if w.aside != f.aside {
		return nil, false // no other rule expects this question
	}
	if w.step != 0 && w.step != f.step || w.turn != 0 && w.turn != f.turn || w.model != "" && w.model != f.model {
		return nil, false
	}
	if w.text != "" && !strings.Contains(strings.ToLower(f.user), w.text) {
		return nil, false
	}
	if w.pattern == nil {
		return nil, true
	}
	match = w.pattern.FindStringSubmatch(f.user)
	return match, match != nil
}

// noRule answers where the script has no answer.
func (s *script) noRule(f *facts) string {
	for _, a := range asides() {
		if a.word == f.aside {
			return a.answer
		}
	}
	asked := f.user
	if r := []rune(asked); len(r) > 200 {
		asked = string(r[:200]) + "..."
	}
	return fmt.Sprintf(`No rule of %s matches this request: turn %d, step %d, user text %q. Add a rule that does, for example:

rules:
  - when: {text: hello, step: %d}
    reply: Hello to you too.
`, s.name, f.turn, f.step, asked, f.step)
}

// parseScript reads a script. Its error has a line "name:line: what is wrong"
// for everything that is.
func parseScript(name string, data []byte) (*script, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	var form scriptForm
	err := dec.Decode(&form)
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: the script is empty; write `rules:` and at least one rule", name)
	case err != nil:
		return nil, explain(name, err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: the file goes on after the script; a script is one YAML document", name)
	}
	if len(form.Rules) == 0 {
		return nil, fmt.Errorf("%s: the script has no rules; write `rules:` and at least one rule", name)
	}
	for i, r := range form.Rules {
		if r == nil {
			return nil, fmt.Errorf("%s: rule %d is empty; give it a reply, or remove it", name, i+1)
		}
	}
	return &script{name, form.Rules}, nil
}

// The forms below are what the YAML decoder fills; everything that can be
// checked is checked while decoding, where the line is known.

type scriptForm struct {
	Rules []*rule `yaml:"rules"`
}

type ruleForm struct {
	When  when  `yaml:"when"`
	Times count `yaml:"times"`
	Reply reply `yaml:"reply"`
}

func (r *rule) UnmarshalYAML(decode func(any) error) error {
	var form ruleForm
	bad := problems{line: lineOf(decode)}
	bad.add(decode(&form))
	*r = rule{when: form.When, times: int(form.Times), reply: form.Reply.items}
	if bad.none() && !form.Reply.set {
		bad.say("the rule has no reply; `reply: []` gives an empty answer")
	}
	return bad.err()
}

// count is a number from 1; 0 is one that the script does not give.
type count int

func (c *count) UnmarshalYAML(decode func(any) error) error {
	var n int
	bad := problems{line: lineOf(decode)}
	bad.add(decode(&n))
	if *c = count(n); bad.none() && n < 1 {
		bad.say("%d is too small; use 1 or more", n)
	}
	return bad.err()
}

type whenForm struct {
	Text    string `yaml:"text"`
	Matches string `yaml:"matches"`
	Step    count  `yaml:"step"`
	Turn    count  `yaml:"turn"`
	Model   string `yaml:"model"`

	Suggestion bool   `yaml:"suggestion"`
	Aside      string `yaml:"aside"`
}

func (w *when) UnmarshalYAML(decode func(any) error) error {
	var form whenForm
	bad := problems{line: lineOf(decode)}
	bad.add(decode(&form))
	*w = when{text: strings.ToLower(form.Text), model: form.Model, step: int(form.Step), turn: int(form.Turn), aside: form.Aside}
	if form.Suggestion {
		w.aside = asides()[llm.SuggestionPlugin].word
	}
	if form.Aside != "" && !slices.ContainsFunc(slices.Collect(maps.Values(asides())), func(a aside) bool { return a.word == form.Aside }) {
		bad.say("aside: %q is none of suggestion, summary, title and question", form.Aside)
	}
	if form.Matches != "" {
		var err error
		if w.pattern, err = regexp.Compile(form.Matches); err != nil {
			bad.say("matches: %v", err)
		}
	}
	return bad.err()
}

type reply struct {
	set   bool
	items []*item
}

func (r *reply) UnmarshalYAML(decode func(any) error) error {
	bad := problems{line: lineOf(decode)}
	r.set = true
	var short string
	if decode(&short) == nil {
		t := bad.text("reply", short)
		r.items = []*item{{bad.line, say{texts: []text{t}, repeat: 1}}}
		return bad.err()
	}
	bad.add(decode(&r.items))
	for i, it := range r.items {
		if it == nil {
			bad.say("the reply has an empty item; remove it")
			continue
		}
		switch it.action.(type) {
		case finish, fail:
			if i+1 < len(r.items) {
				bad.found = append(bad.found, fmt.Sprintf("line %d: this ends the answer; the items after it are never reached", it.line))
			}
		}
	}
	return bad.err()
}

type itemForm struct {
	Text      *string        `yaml:"text"`
	Chunks    []string       `yaml:"chunks"`
	Reasoning *string        `yaml:"reasoning"`
	Call      *callForm      `yaml:"call"`
	Delay     *time.Duration `yaml:"delay"`
	Usage     *usageForm     `yaml:"usage"`
	Finish    *string        `yaml:"finish"`
	Error     *errorForm     `yaml:"error"`
	Cut       *bool          `yaml:"cut"`
	Malformed *bool          `yaml:"malformed"`

	Repeat count          `yaml:"repeat"`
	Every  *time.Duration `yaml:"every"`
}

type callForm struct {
	Tool      string         `yaml:"tool"`
	ID        string         `yaml:"id"`
	Args      map[string]any `yaml:"args"`
	Arguments *string        `yaml:"arguments"`
}

type usageForm struct {
	InputTokens      int64 `yaml:"inputTokens"`
	OutputTokens     int64 `yaml:"outputTokens"`
	CacheReadTokens  int64 `yaml:"cacheReadTokens"`
	CacheWriteTokens int64 `yaml:"cacheWriteTokens"`
	ReasoningTokens  int64 `yaml:"reasoningTokens"`
}

type errorForm struct {
	Code       string        `yaml:"code"`
	Status     int           `yaml:"status"`
	Message    string        `yaml:"message"`
	RetryAfter time.Duration `yaml:"retryAfter"`
	RequestID  string        `yaml:"requestId"`
}

const maxRepeat = 100_000

func (it *item) UnmarshalYAML(decode func(any) error) error {
	var form itemForm
	bad := problems{line: lineOf(decode)}
	bad.add(decode(&form))
	if !bad.none() {
		return bad.err()
	}
	var kinds []string
	kind := func(key string, set bool, make func() action) {
		if set {
			kinds = append(kinds, key)
			it.action = make()
		}
	}
	it.line = bad.line
	kind("text", form.Text != nil, func() action { return form.say(&bad, "text", *form.Text) })
	kind("chunks", form.Chunks != nil, func() action { return form.say(&bad, "chunks", form.Chunks...) })
	kind("reasoning", form.Reasoning != nil, func() action { return form.say(&bad, "reasoning", *form.Reasoning) })
	kind("call", form.Call != nil, func() action { return form.Call.action(&bad) })
	kind("delay", form.Delay != nil, func() action { return pause(bad.duration("delay", form.Delay)) })
	kind("usage", form.Usage != nil, func() action { return form.Usage.action(&bad) })
	kind("finish", form.Finish != nil, func() action { return finishAction(&bad, *form.Finish) })
	kind("error", form.Error != nil, func() action { return form.Error.action(&bad) })
	kind("cut", form.Cut != nil, func() action {
		return flag(&bad, "cut", *form.Cut, llm.CodeStreamClosed, "the stream ended before the answer did")
	})
	kind("malformed", form.Malformed != nil, func() action {
		return flag(&bad, "malformed", *form.Malformed, llm.CodeMalformedResponse, "the stream holds what is no answer")
	})
	switch len(kinds) {
	case 0:
		bad.say("the item says nothing; give it one of text, chunks, reasoning, call, delay, usage, finish, error, cut, malformed")
	case 1:
		if _, speaks := it.action.(say); !speaks && (form.Repeat != 0 || form.Every != nil) {
			bad.say("repeat and every go with text, chunks or reasoning, not with %s", kinds[0])
		}
	default:
		bad.say("the item has %s; make an item of each", strings.Join(kinds, " and "))
	}
	return bad.err()
}

func (f *itemForm) say(bad *problems, key string, texts ...string) action {
	a := say{reasoning: key == "reasoning", exact: key == "chunks", repeat: max(1, int(f.Repeat))}
	for _, s := range texts {
		a.texts = append(a.texts, bad.text(key, s))
	}
	if a.repeat > maxRepeat {
		bad.say("repeat: %d is too large; use %d or less", a.repeat, maxRepeat)
	}
	if f.Every != nil {
		a.every = bad.duration("every", f.Every)
	}
	return a
}

func (f *callForm) action(bad *problems) action {
	if f.Tool == "" {
		bad.say("call: name the tool, as in `call: {tool: read, args: {file_path: README.md}}`")
	}
	a := call{tool: bad.text("tool", f.Tool), id: bad.text("id", f.ID), arguments: map[string]any{}}
	switch {
	case f.Args != nil && f.Arguments != nil:
		bad.say("call: give args, a mapping, or arguments, a text, and not both")
	case f.Args != nil:
		a.arguments = bad.tree("args", f.Args)
	case f.Arguments != nil:
		a.arguments = bad.text("arguments", *f.Arguments)
	}
	return a
}

func (f *usageForm) action(bad *problems) action {
	for _, n := range []int64{f.InputTokens, f.OutputTokens, f.CacheReadTokens, f.CacheWriteTokens, f.ReasoningTokens} {
		if n < 0 {
			bad.say("usage: %d is less than 0", n)
		}
	}
	return account(*f)
}

func finishAction(bad *problems, kind string) action {
	switch kind {
	case sdkproto.FinishStop, sdkproto.FinishToolCalls, sdkproto.FinishMaxTokens:
	default:
		bad.say("finish: %q is none of %s, %s, %s", kind, sdkproto.FinishStop, sdkproto.FinishToolCalls, sdkproto.FinishMaxTokens)
	}
	return finish(kind)
}

var codeForm = lazily(`^[A-Z][A-Z0-9_]*$`)

func (f *errorForm) action(bad *problems) action {
	if f.Code == "" {
		f.Code = llm.CodeServer
	}
	if !codeForm().MatchString(f.Code) {
		bad.say("error: the code %q must be upper case, such as SERVER, RATE_LIMIT or INVALID_REQUEST", f.Code)
	}
	if f.Status != 0 && (f.Status < 100 || f.Status > 599) {
		bad.say("error: %d is no HTTP status", f.Status)
	}
	if f.Message == "" {
		f.Message = "the script gives an error here"
	}
	return fail{
		Error: llm.Error{
			Code: f.Code, Status: f.Status, RequestID: f.RequestID,
			RetryAfter: bad.duration("retryAfter", &f.RetryAfter),
		},
		message: bad.text("message", f.Message),
	}
}

func flag(bad *problems, key string, on bool, code, message string) action {
	if !on {
		bad.say("%s: write `%s: true`, or leave it out", key, key)
	}
	return fail{Error: llm.Error{Code: code}, message: text{plain: message}}
}

// tree checks that a value can be written as JSON and makes texts of its
// strings.
func (p *problems) tree(at string, v any) any {
	switch v := v.(type) {
	case string:
		return p.text(at, v)
	case nil, bool, int, int64, uint64:
		return v
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			p.say("%s: %v has no form in JSON", at, v)
		}
		return v
	case []any:
		for i := range v {
			v[i] = p.tree(fmt.Sprintf("%s[%d]", at, i), v[i])
		}
		return v
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			v[key] = p.tree(at+"."+key, v[key])
		}
		return v
	case time.Time:
		p.say("%s: a date has no form in JSON; put it in quotes", at)
	default:
		p.say("%s: the keys of a mapping must be text; put them in quotes", at)
	}
	return nil
}
