package profile_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/profile"
)

// B81's input: keys keep case, dots and slashes, numbers their digits.
func TestB81KeysAndText(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "p.yaml"), `
plugins:
  a:
    use: x
    config:
      mcpServers: {GitHub: {env: {GITHUB_TOKEN: x, Path_X: "1", COUNT: 017}}}
      rename: {createIssue: NewIssue, createissue: other}
      headers: {X-Api-Key: 0x1F}
      models: {deepseek-v4.1: 9007199254740993, org/model:tag: 1.10}
      effort: off
      version: 1.10
      id: 0123
      flag: True
      big: 123456789012345678901234567890
`)
	a, _ := load(t, profile.Options{Name: file}).Entry("a")
	const want = `{"mcpServers":{"GitHub":{"env":{"GITHUB_TOKEN":"x","Path_X":"1","COUNT":17}}},` +
		`"rename":{"createIssue":"NewIssue","createissue":"other"},"headers":{"X-Api-Key":31},` +
		`"models":{"deepseek-v4.1":9007199254740993,"org/model:tag":1.10},` +
		`"effort":"off","version":1.10,"id":123,"flag":true,"big":123456789012345678901234567890}`
	if diff := cmp.Diff(want, string(a.Config)); diff != "" {
		t.Fatal(diff)
	}
	type server struct {
		Env map[string]string `json:"env"`
	}
	type config struct {
		Servers map[string]*server `json:"mcpServers"`
		Rename  map[string]string  `json:"rename"`
		Headers map[string]string  `json:"headers"`
		Models  map[string]any     `json:"models"`
		Effort  string             `json:"effort"`
		Version string             `json:"version"`
		ID      *string            `json:"id"`
		Flag    string             `json:"flag"`
		Big     string             `json:"big"`
	}
	var got config
	if bad := a.Decode(&got); bad != nil {
		t.Fatal(bad)
	}
	id := "0123"
	wantConfig := config{
		Servers: map[string]*server{"GitHub": {map[string]string{"GITHUB_TOKEN": "x", "Path_X": "1", "COUNT": "017"}}},
		Rename:  map[string]string{"createIssue": "NewIssue", "createissue": "other"},
		Headers: map[string]string{"X-Api-Key": "0x1F"},
		Models:  map[string]any{"deepseek-v4.1": 9007199254740992.0, "org/model:tag": 1.1},
		Effort:  "off", Version: "1.10", ID: &id, Flag: "True", Big: "123456789012345678901234567890",
	}
	if diff := cmp.Diff(wantConfig, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestYAMLTyping(t *testing.T) {
	for source, want := range map[string]string{
		"yes": `"yes"`, "No": `"No"`, "on": `"on"`, "y": `"y"`,
		"true": "true", "FALSE": "false", "tRue": `"tRue"`,
		"0": "0", "-0": "-0", "+7": "7", "-007": "-7", "0o17": "15", "0xfF": "255", "0b11": `"0b11"`, "1_000": `"1_000"`,
		"0o8": `"0o8"`, "0x": `"0x"`, "0x-1": `"0x-1"`, "1:30": `"1:30"`, "2024-01-01": `"2024-01-01"`,
		"1.": "1.0", ".5": "0.5", "-.5": "-0.5", "01.50": "1.50", "1e3": "1e3", "1.e+3": "1.0e+3", "12E-2": "12E-2", "1e": `"1e"`,
		".": `"."`, "'-'": `"-"`, "+": `"+"`, "--1": `"--1"`, "-+1": `"-+1"`, "e3": `"e3"`, ".e3": `".e3"`, "1.2.3": `"1.2.3"`,
		`"12"`: `"12"`, "'true'": `"true"`, `""`: `""`, "!!str 12": `"12"`, "!!int 12": "12", "!!float 12": "12",
		"[~, null, Null]": "[null,null,null]", `"\u2028\x01"`: `"\u2028\u0001"`,
	} {
		t.Run(source, func(t *testing.T) {
			file := write(t, filepath.Join(t.TempDir(), "p.yaml"), "plugins:\n  a:\n    use: x\n    config:\n      k: "+source+"\n")
			a, _ := load(t, profile.Options{Name: file}).Entry("a")
			if got := string(a.Config); got != `{"k":`+want+`}` {
				t.Fatalf("got %s, want %s", got, want)
			}
		})
	}
}

// duration decodes itself from text.
type duration int

func (d *duration) UnmarshalText(b []byte) error {
	if _, err := fmt.Sscanf(string(b), "%ds", (*int)(d)); err != nil {
		return fmt.Errorf("%q is not a duration; write it as 30s", b)
	}
	return nil
}

// opaque decodes itself from JSON.
type opaque struct{ raw string }

func (o *opaque) UnmarshalJSON(b []byte) error {
	if strings.Contains(string(b), "bad") {
		return errors.New("bad is bad")
	}
	o.raw = string(b)
	return nil
}

type inner struct {
	Deep string `json:"deep"`
}

type target struct {
	inner
	Filter struct {
		Allow []string `json:"allow"`
		Deny  []string `json:"deny"`
	} `json:"toolFilter"`
	Models map[string]struct {
		Window int8 `json:"window"`
	} `json:"models"`
	Servers []struct {
		Name string `json:"name"`
		Port *int   `json:"port"`
	} `json:"servers"`
	Limit  int64    `json:"limit"`
	Strict bool     `json:"strict"`
	Wait   duration `json:"wait"`
	Any    opaque   `json:"any"`
	Kept   string   `json:"kept"`
	hidden string
	Not    string `json:"-"`
}

func TestDecodeErrors(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "p.yaml"), `plugins:
  a:
    use: x
    config:
      toolFilter:
        dney: [WebFetch]
        allow: {a: b}
      models:
        gpt-4.1:
          widnow: 1
        org/model~x:
          window: many
        "two words":
          window: 300
      servers:
        - name: one
        - nmae: two
      limit: 1.5
      strict: "true"
      wait: 30
      any: [bad]
      Kept: x
      hidden: 1
      Not: 2
      secretly: ${env:SECRET}
      deep: text
`)
	a, _ := load(t, profile.Options{Name: file, Env: environ("SECRET", "s3cr3t")}).Entry("a")
	var got []string
	for _, e := range a.Decode(&target{hidden: "h"}) {
		got = append(got, strings.TrimPrefix(e.Error(), file+":"))
	}
	known := "known keys: any, deep, kept, limit, models, servers, strict, toolFilter, wait"
	want := []string{
		`6: plugins.a.config.toolFilter.dney: unknown key "dney"; did you mean "deny"?`,
		`7: plugins.a.config.toolFilter.allow: cannot use a JSON object as a list`,
		`10: plugins.a.config.models."gpt-4.1".widnow: unknown key "widnow"; did you mean "window"?`,
		`12: plugins.a.config.models.org/model~x.window: cannot use a JSON string as an integer`,
		`14: plugins.a.config.models."two words".window: the number is out of range`,
		`17: plugins.a.config.servers.1.nmae: unknown key "nmae"; did you mean "name"?`,
		`18: plugins.a.config.limit: must be a whole number`,
		`19: plugins.a.config.strict: cannot use a JSON string as a boolean`,
		`20: plugins.a.config.wait: "30" is not a duration; write it as 30s`,
		`21: plugins.a.config.any: bad is bad`,
		`22: plugins.a.config.Kept: unknown key "Kept"; did you mean "kept"?`,
		`23: plugins.a.config.hidden: unknown key "hidden"; ` + known,
		`24: plugins.a.config.Not: unknown key "Not"; ` + known,
		`25: plugins.a.config.secretly: unknown key "secretly"; ` + known,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestDecodeKeepsDefaults(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "p.yaml"), "plugins: {a: {use: x, config: {limit: 5, wait: 7s, any: [1], deep: d}}, b: {use: x}}")
	p := load(t, profile.Options{Name: file})
	for id, want := range map[string]target{
		"a": {inner: inner{"d"}, Limit: 5, Wait: 7, Any: opaque{"[1]"}, Kept: "default"},
		"b": {Limit: 1, Kept: "default"},
	} {
		e, _ := p.Entry(id)
		got := target{Limit: 1, Kept: "default"}
		if bad := e.Decode(&got); bad != nil {
			t.Fatal(bad)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(target{}, opaque{}, inner{})); diff != "" {
			t.Errorf("%s: %s", id, diff)
		}
	}
}

// TestDecodeSecrets wants the interpolation in a message and never its value.
func TestDecodeSecrets(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "p.yaml"), "plugins:\n  a:\n    use: x\n    config:\n      wait: ${env:SECRET}\n")
	a, _ := load(t, profile.Options{Name: file, Env: environ("SECRET", "s3\"cr3t")}).Entry("a")
	bad := a.Decode(&target{})
	if want := file + `:5: plugins.a.config.wait: "${env:SECRET}" is not a duration; write it as 30s`; len(bad) != 1 || bad[0].Error() != want {
		t.Fatalf("got %v, want %s", bad, want)
	}
}

func TestDecodeByHand(t *testing.T) {
	e := profile.Entry{ID: "fallback", Config: []byte(`{"limitt": 1}`), Pos: profile.Position{File: "here"}}
	bad := e.Decode(&target{})
	if want := `here: plugins.fallback.config.limitt: unknown key "limitt"; did you mean "limit"?`; len(bad) != 1 || bad[0].Error() != want {
		t.Fatalf("got %v, want %s", bad, want)
	}
	composed, _ := load(t, profile.Options{Name: "sdk", Embedded: builtin()}).Entry("rpc")
	changed := *composed
	changed.Config = []byte(`{"limit": 8}`)
	var got target
	if bad := changed.Decode(&got); bad != nil || got.Limit != 8 {
		t.Fatalf("a replaced Config is not used: %v, limit %d", bad, got.Limit)
	}
}

func TestOrigin(t *testing.T) {
	dir := t.TempDir()
	base := write(t, filepath.Join(dir, "p.yaml"), `plugins:
  a:
    use: x
    config:
      models:
        gpt-4.1: {window: 1, "": 2}
        a/b~c:
          - one
          - two: 2
            three: 3
      shared: &s
        text: t
      again: *s
`)
	patch := write(t, filepath.Join(dir, "q.yaml"), "plugins:\n  a:\n    config:\n      models:\n        gpt-4.1:\n          window: 2\n")
	a, _ := load(t, profile.Options{Name: base, Patches: []string{patch}, Sets: []string{"a.models.new.key=1"}}).Entry("a")
	at := func(file string, line, column int) profile.Position {
		return profile.Position{File: file, Line: line, Column: column}
	}
	for pointer, want := range map[string]profile.Position{
		"":                        at(base, 4, 5),
		"/models":                 at(base, 5, 7),
		"/models/gpt-4.1":         at(base, 6, 9),
		"/models/gpt-4.1/window":  at(patch, 6, 11),
		"/models/gpt-4.1/":        at(base, 6, 30),
		"/models/a~1b~0c":         at(base, 7, 9),
		"/models/a~1b~0c/0":       at(base, 8, 13),
		"/models/a~1b~0c/1":       at(base, 9, 13),
		"/models/a~1b~0c/1/three": at(base, 10, 13),
		"/models/a~1b~0c/7/x":     at(base, 7, 9),
		"/models/a/b~c":           at(base, 5, 7),
		"/again":                  at(base, 13, 7),
		"/again/text":             at(base, 12, 9),
		"/models/new/key":         {File: "--set a.models.new.key"},
		"/none/of/these":          at(base, 4, 5),
	} {
		if got := a.Origin(pointer); got != want {
			t.Errorf("%q: got %+v, want %+v", pointer, got, want)
		}
	}
}
