package main

import (
	"bytes"
	"io/fs"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"dsh/profiles"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// The schema that editors get takes the built-in profiles, and marks in them
// what a start would refuse.
func TestSchema(t *testing.T) {
	var text bytes.Buffer
	if err := writeSchema(&text); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(&text)
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("profile.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("profile.json")
	if err != nil {
		t.Fatal(err)
	}
	check := func(source string) error {
		var v any
		if err := yaml.Unmarshal([]byte(source), &v); err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	names, err := fs.Glob(profiles.FS, "*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		source, err := fs.ReadFile(profiles.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(string(source)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for source, good := range map[string]bool{
		"extends: sdk\nplugins: {loop: {config: {maxSteps: 50, retries: {delay: 1s}}}}": true,
		"extends: sdk\nplugins: {loop: {config: {maxStep: 50}}}":                        false,
		"plugins: {mine: {use: agentloop, config: {retries: {maks: 1}}}}":               false,
		"plugins: {mine: {use: agent-loop}}":                                            false,
		"plugins: {headless: {config: {output: json}}}":                                 true,
		"plugins: {headless: {config: {output: xml}}}":                                  false,
	} {
		if err := check(source); (err == nil) != good {
			t.Errorf("%s\nis good: %v, got %v", source, good, err)
		}
	}
}

func event(t *testing.T, eventType string, data any) *sdkproto.Event {
	t.Helper()
	raw, err := wirejson.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return &sdkproto.Event{Type: eventType, Data: raw}
}

// Nothing that a model or a program wrote steers the terminal.
func TestScreenIsPlain(t *testing.T) {
	var b strings.Builder
	s := newScreen(&b)
	for _, e := range []*sdkproto.Event{
		event(t, sdkproto.TypeUserMessage, sdkproto.Message{
			Content: []sdkproto.Block{sdkproto.Text("a\nb"), {Type: sdkproto.BlockImage}}, Source: sdkproto.Source{Kind: sdkproto.SourceUser},
		}),
		event(t, sdkproto.TypeAssistantMessage, sdkproto.AssistantMessage{Message: sdkproto.Message{
			Content: []sdkproto.Block{{Type: sdkproto.BlockReasoning, Text: "hm"}, sdkproto.Text("\x1b[2Jhello\u009b")},
		}}),
		event(t, sdkproto.TypeTurnEnd, sdkproto.TurnEnd{Reason: sdkproto.TurnEndReason{Kind: sdkproto.EndAborted}}),
	} {
		if err := s.stored(e); err != nil {
			t.Fatal(err)
		}
	}
	want := "\n> a\n> b\n> [image]\n\n(thinks) hm\n\n?[2Jhello?\n! the turn ended: aborted\n"
	if b.String() != want {
		t.Errorf("got %q\nwant %q", b.String(), want)
	}
}

func TestFenced(t *testing.T) {
	for text, want := range map[string]string{
		"plain\n":         "```\nplain\n```\n",
		"```\ninner\n```": "````\n```\ninner\n```\n````\n",
		"a ````` b":       "``````\na ````` b\n``````\n",
	} {
		if got := fenced("", text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
