package profile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/profile"
)

func load(t *testing.T, o profile.Options) *profile.Profile {
	t.Helper()
	p, err := profile.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rows gives "id use config" of each row, with "-" in front of disabled ones.
func rows(p *profile.Profile) []string {
	var all []string
	for _, e := range p.Entries {
		row := e.ID + " " + e.Use + " " + string(e.Config)
		if !e.Enabled {
			row = "-" + row
		}
		all = append(all, row)
	}
	return all
}

func environ(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func TestLayersInOrder(t *testing.T) {
	home := t.TempDir()
	embedded := fstest.MapFS{
		"base.yaml": {Data: []byte("env: {DSH_V: loop.v}\nplugins: {loop: {use: agentloop, config: {v: base, keep: {a: 1}}}, gone: {use: x}}")},
		"sdk.yaml":  {Data: []byte("extends: base\nplugins: {rpc: {use: jsonrpc}, loop: {config: {v: embedded, keep: {b: 2}}}}")},
	}
	o := profile.Options{Name: "sdk", Embedded: embedded, Home: home}
	want := func(value string) []string {
		return []string{
			`loop agentloop {"v":"` + value + `","keep":{"a":1,"b":2}}`,
			`gone x {}`,
			`rpc jsonrpc {}`,
		}
	}
	check := func(value string) {
		t.Helper()
		if diff := cmp.Diff(want(value), rows(load(t, o))); diff != "" {
			t.Fatalf("with %s on top (-want +got):\n%s", value, diff)
		}
	}
	check("embedded")
	write(t, filepath.Join(home, "profiles", "sdk.yaml"), "plugins: {loop: {config: {v: named}}}")
	check("named")
	write(t, filepath.Join(home, "profile.yaml"), "plugins: {loop: {config: {v: home}}}")
	check("home")
	o.Patches = []string{write(t, filepath.Join(home, "1.yaml"), "plugins: {loop: {config: {v: patch1}}}")}
	check("patch1")
	o.Patches = append(o.Patches, write(t, filepath.Join(home, "0.yaml"), "plugins: {loop: {config: {v: patch2}}}"))
	check("patch2")
	o.Env = environ("DSH_V", "")
	check("patch2")
	o.Env = environ("DSH_V", "variable")
	check("variable")
	o.Sets = []string{"loop.v=set"}
	check("set")
	o.Sets = append(o.Sets, "loop.v=set again")
	check("set again")
}

func TestMergeRules(t *testing.T) {
	base := "plugins:\n  a: {use: one, config: {m: {x: 1, y: 2}, l: [1, 2], s: t}}\n  b: {use: two}\n"
	for name, tc := range map[string]struct {
		patch string
		want  []string
	}{
		"mappings merge":             {"plugins: {a: {config: {m: {y: 3, z: 4}}}}", []string{`a one {"m":{"x":1,"y":3,"z":4},"l":[1,2],"s":"t"}`, "b two {}"}},
		"lists replace":              {"plugins: {a: {config: {l: [3]}}}", []string{`a one {"m":{"x":1,"y":2},"l":[3],"s":"t"}`, "b two {}"}},
		"null deletes a key":         {"plugins: {a: {config: {m: {x: null}, s: ~}}}", []string{`a one {"m":{"y":2},"l":[1,2]}`, "b two {}"}},
		"null deletes the config":    {"plugins: {a: {config: null}}", []string{"a one {}", "b two {}"}},
		"null in a new key vanishes": {"plugins: {b: {config: {n: {q: null}}}}", []string{`a one {"m":{"x":1,"y":2},"l":[1,2],"s":"t"}`, `b two {"n":{}}`}},
		"null in a list stays":       {"plugins: {a: {config: {m: null, s: null, l: [null]}}}", []string{`a one {"l":[null]}`, "b two {}"}},
		"null removes a row":         {"plugins: {a: null}", []string{"b two {}"}},
		"mapping replaces a scalar":  {"plugins: {a: {config: {m: null, l: null, s: {t: 1}}}}", []string{`a one {"s":{"t":1}}`, "b two {}"}},
		"scalar replaces a mapping":  {"plugins: {a: {config: {m: 7, l: null, s: null}}}", []string{`a one {"m":7}`, "b two {}"}},
		"use replaces":               {"plugins: {b: {use: three, enabled: false}}", []string{`a one {"m":{"x":1,"y":2},"l":[1,2],"s":"t"}`, "-b three {}"}},
		"new rows go last":           {"plugins: {c: {use: four}, b: {config: {k: 1}}}", []string{`a one {"m":{"x":1,"y":2},"l":[1,2],"s":"t"}`, `b two {"k":1}`, "c four {}"}},
		"blocks without lines":       {"plugins:\nsettings:\nenv:\n", []string{`a one {"m":{"x":1,"y":2},"l":[1,2],"s":"t"}`, "b two {}"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			p := load(t, profile.Options{Name: write(t, filepath.Join(dir, "p.yaml"), base), Patches: []string{write(t, filepath.Join(dir, "patch.yaml"), tc.patch)}})
			if diff := cmp.Diff(tc.want, rows(p)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestRowFacts(t *testing.T) {
	dir := t.TempDir()
	base := write(t, filepath.Join(dir, "p.yaml"), "plugins:\n  a: {use: one}\n  jira:\n    use: bin/jira\n    required: true\n    checksum: 0123\n  c: {use: three, required: false}\n")
	patch := write(t, filepath.Join(dir, "sub", "q.yaml"), "plugins: {a: {use: ./other}}")
	p := load(t, profile.Options{Name: base, Patches: []string{patch}, Sets: []string{"c.use=four"}})
	a, _ := p.Entry("a")
	jira, _ := p.Entry("jira")
	c, _ := p.Entry("c")
	if a.Required != nil || jira.Required == nil || !*jira.Required || c.Required == nil || *c.Required {
		t.Errorf("required: %v %v %v", a.Required, jira.Required, c.Required)
	}
	if jira.Checksum != "0123" {
		t.Errorf("checksum %q", jira.Checksum)
	}
	if a.UseDir != filepath.Dir(patch) || jira.UseDir != dir || c.UseDir != "" {
		t.Errorf("folders %q %q %q", a.UseDir, jira.UseDir, c.UseDir)
	}
	if want := (profile.Position{File: base, Line: 2, Column: 3}); a.Pos != want {
		t.Errorf("position %+v, want %+v", a.Pos, want)
	}
	if _, ok := p.Entry("nobody"); ok {
		t.Error("found a row that is not there")
	}
	if p.Name != "p" {
		t.Errorf("name %q", p.Name)
	}
}

func TestExtends(t *testing.T) {
	home := t.TempDir()
	embedded := builtin()
	embedded["left.yaml"] = &fstest.MapFile{Data: []byte("extends: base\nplugins: {loop: {config: {steps: 1}}}")}
	embedded["right.yaml"] = &fstest.MapFile{Data: []byte("extends: base\nplugins: {right: {use: r}}")}
	embedded["both.yaml"] = &fstest.MapFile{Data: []byte("extends: [left, right]")}
	embedded["ring.yaml"] = &fstest.MapFile{Data: []byte("extends: gnir")}
	embedded["gnir.yaml"] = &fstest.MapFile{Data: []byte("plugins: {}\nextends: ring")}
	embedded["far.yaml"] = &fstest.MapFile{Data: []byte("extends: ./base.yaml")}
	write(t, filepath.Join(home, "profiles", "mine.yaml"), "extends: [sdk, ../parts/extra.yaml]\nsummary: my own\nplugins: {rpc: {enabled: false}}")
	write(t, filepath.Join(home, "parts", "extra.yaml"), "summary: not mine\nplugins: {extra: {use: e}}")
	write(t, filepath.Join(home, "profiles", "base.yaml"), "plugins: {core: {config: {home: 1}}}")
	write(t, filepath.Join(home, "profiles", "right.yaml"), "extends: right")

	for name, tc := range map[string]struct {
		rows []string
		err  string
	}{
		// A base that two profiles share counts once, before both.
		"both": {rows: []string{`core core {}`, `loop agentloop {"steps":1,"tags":["a","b"]}`, `right r {}`}},
		// A file in the home folder resolves names as the command line does.
		"mine": {rows: []string{`core core {}`, `loop agentloop {"steps":9,"tags":["a","b"]}`, `-rpc jsonrpc {}`, `extra e {}`}},
		// Home files named like an embedded base do not reach into embedded chains.
		"sdk":     {rows: []string{`core core {}`, `loop agentloop {"steps":9,"tags":["a","b"]}`, `rpc jsonrpc {}`}},
		"base":    {rows: []string{`core core {"home":1}`, `loop agentloop {"steps":500,"tags":["a","b"]}`}},
		"ring":    {err: "embedded:gnir.yaml:2: extends: the profile extends itself: embedded:ring.yaml → embedded:gnir.yaml → embedded:ring.yaml;"},
		"right":   {err: filepath.Join(home, "profiles", "right.yaml") + ":1: extends: the profile extends itself: "},
		"far":     {err: "embedded:far.yaml:1: extends: an embedded profile extends embedded profiles only; give a name"},
		"skd":     {err: `there is no profile "skd"; known profiles: base, both, far, gnir, left, mine, right, ring, sdk; did you mean "sdk"?`},
		"desktop": {err: "the profile name desktop is reserved; choose another name"},
		"..":      {err: `".." is not a profile name;`},
		"":        {err: "no profile is named; known profiles: base,"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := profile.Load(profile.Options{Name: name, Embedded: embedded, Home: home})
			if tc.err != "" {
				if got := messages(t, err); len(got) != 1 || !strings.HasPrefix(got[0], tc.err) {
					t.Fatalf("got %q, want %q", got, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.rows, rows(p)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
	if p := load(t, profile.Options{Name: "mine", Embedded: embedded, Home: home}); p.Summary != "my own" {
		t.Errorf("summary %q", p.Summary)
	}
}

// TestB82 puts files of every unusable kind into each place that is read. A
// file that exists either counts in full or is an error that names it.
func TestB82(t *testing.T) {
	const deny = "plugins:\n  rpc:\n    config:\n      deny: [WebFetch]\n"
	wide := func(bigEndian bool) string {
		b := []byte{0xff, 0xfe}
		if bigEndian {
			b = []byte{0xfe, 0xff}
		}
		for _, u := range utf16.Encode([]rune(deny)) {
			if bigEndian {
				b = append(b, byte(u>>8), byte(u))
			} else {
				b = append(b, byte(u), byte(u>>8))
			}
		}
		return string(b)
	}
	contents := map[string]struct{ content, want string }{
		"mark":             {"\xef\xbb\xbf" + deny, ""},
		"CRLF":             {strings.ReplaceAll(deny, "\n", "\r\n"), ""},
		"mark and CRLF":    {"\xef\xbb\xbf" + strings.ReplaceAll(deny, "\n", "\r\n"), ""},
		"comments":         {"# one\n" + deny + "# two\n", ""},
		"trailing comma":   {"{\"plugins\": {\"rpc\": {\"config\": {\"deny\": [\"WebFetch\",],},},},}", ""},
		"UTF-16 LE":        {wide(false), ": the file is UTF-16; save it as UTF-8"},
		"UTF-16 BE":        {wide(true), ": the file is UTF-16; save it as UTF-8"},
		"UTF-16 no mark":   {wide(false)[2:], ": the file holds zero bytes, as UTF-16 does; save it as UTF-8"},
		"bad UTF-8":        {deny + "# \xe9\n", ":5: the file is not valid UTF-8 here; save it as UTF-8"},
		"empty":            {"", ": the file is empty; write `plugins: {}` or remove it"},
		"only a mark":      {"\xef\xbb\xbf", ": the file is empty; write `plugins: {}` or remove it"},
		"only comments":    {"# plugins:\n", ": the file is empty; write `plugins: {}` or remove it"},
		"only a separator": {"---\n", ": the file is empty; write `plugins: {}` or remove it"},
		"slash comment":    {"// deny\n" + deny, ":2: mapping values are not allowed in this context"},
		"truncated":        {"plugins:\n  rpc: {config: {deny: [WebFetch", ":2: did not find expected ',' or ']'"},
		"tab":              {"plugins:\n\trpc: {}\n", ":2: found character that cannot start any token"},
	}
	places := map[string]func(home string) string{
		"profiles/sdk.yaml": func(home string) string { return filepath.Join(home, "profiles", "sdk.yaml") },
		"profile.yaml":      func(home string) string { return filepath.Join(home, "profile.yaml") },
		"patch":             func(home string) string { return filepath.Join(home, "patch.yaml") },
	}
	options := func(home, place string) profile.Options {
		o := profile.Options{Name: "sdk", Embedded: builtin(), Home: home}
		if place == "patch" {
			o.Patches = []string{filepath.Join(home, "patch.yaml")}
		}
		return o
	}
	fails := func(t *testing.T, o profile.Options, want string) {
		t.Helper()
		_, err := profile.Load(o)
		if got := messages(t, err); len(got) != 1 || got[0] != want {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
	}
	for place, path := range places {
		for name, tc := range contents {
			t.Run(place+"/"+name, func(t *testing.T) {
				home := t.TempDir()
				file := write(t, path(home), tc.content)
				if tc.want != "" {
					fails(t, options(home, place), file+tc.want)
					return
				}
				rpc, _ := load(t, options(home, place)).Entry("rpc")
				if got := string(rpc.Config); got != `{"deny":["WebFetch"]}` {
					t.Fatalf("the deny rule is lost: %s", got)
				}
			})
		}
		t.Run(place+"/folder", func(t *testing.T) {
			home := t.TempDir()
			if err := os.MkdirAll(path(home), 0o755); err != nil {
				t.Fatal(err)
			}
			fails(t, options(home, place), path(home)+": this is a folder, not a file")
		})
		t.Run(place+"/wrong extension", func(t *testing.T) {
			home := t.TempDir()
			file := write(t, strings.TrimSuffix(path(home), "yaml")+"yml", deny)
			want := file + ": files in the home folder end in .yaml; rename or remove this one"
			if place == "patch" { // not in a place that is looked up by name
				want = path(home) + ": the file does not exist"
			}
			fails(t, options(home, place), want)
		})
	}
	t.Run("a folder where the folder of profiles should be", func(t *testing.T) {
		home := t.TempDir()
		write(t, filepath.Join(home, "profiles"), "a file")
		_, err := profile.Load(profile.Options{Name: "sdk", Embedded: builtin(), Home: home})
		if got := messages(t, err); runtime.GOOS != "windows" && (len(got) != 1 || !strings.HasPrefix(got[0], filepath.Join(home, "profiles", "sdk.yaml")+": ")) {
			t.Fatalf("got %q", got)
		}
	})
	t.Run("absent home files are fine", func(t *testing.T) {
		load(t, profile.Options{Name: "sdk", Embedded: builtin(), Home: filepath.Join(t.TempDir(), "none")})
	})
	t.Run("extends in a patch", func(t *testing.T) {
		home := t.TempDir()
		file := write(t, filepath.Join(home, "patch.yaml"), "extends: base\n"+deny)
		fails(t, options(home, "patch"), file+":1: extends: this file lies on top of a profile and cannot extend one; remove the key, or name the file as the profile")
	})
}

// TestAllErrorsAtOnce wants one report for every file with a fault.
func TestAllErrorsAtOnce(t *testing.T) {
	home := t.TempDir()
	patch := write(t, filepath.Join(home, "p.yaml"), "plugins:\n  x: 1\n")
	own := write(t, filepath.Join(home, "profile.yaml"), "pluggins: {}\n")
	_, err := profile.Load(profile.Options{
		Name: "sdk", Embedded: builtin(), Home: home, Patches: []string{patch, filepath.Join(home, "none.yaml")},
		Sets: []string{"nonsense", "rpc=1", "rpc.a..b=1", `rpc.a={"b":1,"b":2}`},
	})
	got := messages(t, err)
	want := []string{
		own + `:1: pluggins: unknown key "pluggins"; did you mean "plugins"?`,
		patch + ":2: plugins.x: must be a mapping with the keys use, enabled, required, checksum, config, not a number",
		filepath.Join(home, "none.yaml") + ": the file does not exist",
		"--set nonsense: there is no value; write --set row-id.key=value",
		`--set rpc: "rpc" does not name a row's key; write row-id.key`,
		`--set rpc.a..b: "rpc.a..b" holds an empty key; write row-id.key.sub`,
	}
	if len(got) != 7 || !strings.HasPrefix(got[6], "--set rpc.a: ") {
		t.Fatalf("got %q", got)
	}
	if diff := cmp.Diff(want, got[:6]); diff != "" {
		t.Fatal(diff)
	}
}

// TestB84UnknownRow patches a row that does not exist.
func TestB84UnknownRow(t *testing.T) {
	for name, tc := range map[string]struct{ patch, set, want string }{
		"patch":       {"plugins: {rcp: {config: {a: 1}}}", "", ":1: plugins.rcp: the row has no `use`; name a plugin or an executable; did you mean \"rpc\"?"},
		"--set":       {"plugins: {}", "rcp.a=1", "--set rcp.a: plugins.rcp: the row has no `use`; name a plugin or an executable; did you mean \"rpc\"?"},
		"--set wrong": {"plugins: {}", "rpc.enabled=off", "--set rpc.enabled: plugins.rpc.enabled: must be true or false, not text"},
	} {
		t.Run(name, func(t *testing.T) {
			patch := write(t, filepath.Join(t.TempDir(), "p.yaml"), tc.patch)
			o := profile.Options{Name: "sdk", Embedded: builtin(), Patches: []string{patch}}
			want := patch + tc.want
			if tc.set != "" {
				o.Sets, want = []string{tc.set}, tc.want
			}
			_, err := profile.Load(o)
			if diff := cmp.Diff([]string{want}, messages(t, err)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestOverrideValues(t *testing.T) {
	for text, want := range map[string]string{
		"text":                    `"text"`,
		"":                        `""`,
		"two words = more":        `"two words = more"`,
		"true":                    `true`,
		"9007199254740993":        `9007199254740993`,
		"1.10":                    `1.10`,
		"0123":                    `"0123"`,
		`"quoted"`:                `"quoted"`,
		` [1, "a", {"b": null}] `: `[1,"a",{"b":null}]`,
		`{"b": 1, "A.b": {}}`:     `{"A.b":{},"b":1}`,
		"${env:SECRET}":           `"${env:SECRET}"`,
		"yes":                     `"yes"`,
		"\xff":                    "\"\ufffd\"",
		`"\ud83d\ude00"`:          `"😀"`,
	} {
		t.Run(text, func(t *testing.T) {
			p := load(t, profile.Options{Name: "sdk", Embedded: builtin(), Sets: []string{"rpc.k.sub=" + text}})
			rpc, _ := p.Entry("rpc")
			if got, want := string(rpc.Config), `{"k":{"sub":`+want+`}}`; got != want {
				t.Errorf("--set: got %s, want %s", got, want)
			}
			if text == "" {
				return // an empty variable is no override (decision R27)
			}
			embedded := builtin()
			embedded["top.yaml"] = &fstest.MapFile{Data: []byte("extends: sdk\nenv: {DSH_K: rpc.k.sub, DSH_E: core.enabled}")}
			p = load(t, profile.Options{Name: "top", Embedded: embedded, Env: environ("DSH_K", text, "DSH_E", "false")})
			rpc, _ = p.Entry("rpc")
			if got, want := string(rpc.Config), `{"k":{"sub":`+want+`}}`; got != want {
				t.Errorf("variable: got %s, want %s", got, want)
			}
			if at := rpc.Origin("/k/sub").String(); at != "$DSH_K" {
				t.Errorf("origin %s", at)
			}
			if core, _ := p.Entry("core"); core.Enabled {
				t.Error("core is enabled")
			}
		})
	}
	t.Run("null deletes", func(t *testing.T) {
		p := load(t, profile.Options{Name: "sdk", Embedded: builtin(), Sets: []string{"loop.steps=null"}})
		loop, _ := p.Entry("loop")
		if got, want := string(loop.Config), `{"tags":["a","b"]}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	for name, tc := range map[string]struct {
		sets []string
		want string
	}{
		"nulls of a whole value stay":  {[]string{`loop.steps:={"const":null,"a":{"b":null}}`}, `{"steps":{"a":{"b":null},"const":null},"tags":["a","b"]}`},
		"a whole value replaces":       {[]string{`loop.x={"a":1}`, `loop.x:={"b":2}`}, `{"steps":9,"tags":["a","b"],"x":{"b":2}}`},
		"what is laid on a whole one":  {[]string{`loop.x:={"a":null,"b":1}`, `loop.x.c=3`}, `{"steps":9,"tags":["a","b"],"x":{"a":null,"b":1,"c":3}}`},
		"a whole null deletes as well": {[]string{`loop.steps:=null`}, `{"tags":["a","b"]}`},
		"a list adds":                  {[]string{`loop.tags+=["c"]`, `loop.tags+=["d"]`}, `{"steps":9,"tags":["a","b","c","d"]}`},
		"a list adds to nothing":       {[]string{`loop.more+=["c"]`}, `{"steps":9,"tags":["a","b"],"more":["c"]}`},
		"a list replaces what is none": {[]string{`loop.steps+=[1]`}, `{"steps":[1],"tags":["a","b"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := load(t, profile.Options{Name: "sdk", Embedded: builtin(), Sets: tc.sets})
			loop, _ := p.Entry("loop")
			if diff := cmp.Diff(tc.want, string(loop.Config)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("only a list adds", func(t *testing.T) {
		_, err := profile.Load(profile.Options{Name: "sdk", Embedded: builtin(), Sets: []string{`loop.tags+=c`}})
		if err == nil || !strings.Contains(err.Error(), "--set loop.tags: += adds a list") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a removed row ignores its variable", func(t *testing.T) {
		dir := t.TempDir()
		base := write(t, filepath.Join(dir, "p.yaml"), "env: {DSH_K: a.k}\nplugins: {a: {use: x}, b: {use: y}}")
		patch := write(t, filepath.Join(dir, "q.yaml"), "plugins: {a: null}")
		p := load(t, profile.Options{Name: base, Patches: []string{patch}, Env: environ("DSH_K", "1")})
		if diff := cmp.Diff([]string{"b y {}"}, rows(p)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestInterpolation(t *testing.T) {
	dir := t.TempDir()
	secret := write(t, filepath.Join(dir, "secret"), "s3cr3t-value\r\n")
	env := environ("TEXT", "some text", "PORT", "8080", "OCTAL", "0123", "YES", "true", "NOTHING", "", "NULL", "null", "TREE", "{a: 1}")
	for source, want := range map[string]string{
		`${env:TEXT}`:               `"some text"`,
		`"${env:TEXT}"`:             `"some text"`,
		`${env:PORT}`:               `8080`,
		`"${env:PORT}"`:             `"8080"`,
		`!!str ${env:PORT}`:         `"8080"`,
		`1${env:PORT}`:              `18080`,
		`${env:OCTAL}`:              `123`,
		`${env:YES}`:                `true`,
		`${env:NOTHING}`:            `""`,
		`${env:NULL}`:               `"null"`,
		`${env:TREE}`:               `"{a: 1}"`,
		`"a ${env:TEXT} b $x $$ $"`: `"a some text b $x $$ $"`,
		`$${env:TEXT}`:              `"${env:TEXT}"`,
		`"$$${env:TEXT}"`:           `"$${env:TEXT}"`,
		`${file:secret}`:            `"s3cr3t-value"`,
		`${file:./secret}`:          `"s3cr3t-value"`,
		`[[{k: "${env:TEXT}"}]]`:    `[[{"k":"some text"}]]`,
		`{"${env:TEXT}": 1}`:        `{"${env:TEXT}":1}`,
		"|\n        ${env:TEXT}":    `"some text\n"`,
	} {
		t.Run(source, func(t *testing.T) {
			file := write(t, filepath.Join(dir, "p.yaml"), "plugins:\n  a:\n    use: x\n    config:\n      k: "+source+"\n")
			a, _ := load(t, profile.Options{Name: file, Env: env}).Entry("a")
			if got, want := string(a.Config), `{"k":`+want+`}`; got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		})
	}
	t.Run("absolute file in an embedded profile", func(t *testing.T) {
		embedded := fstest.MapFS{"e.yaml": {Data: []byte("plugins:\n  a: {use: x, config: {k: '${file:" + secret + "}'}}")}}
		a, _ := load(t, profile.Options{Name: "e", Embedded: embedded}).Entry("a")
		if got, want := string(a.Config), `{"k":"s3cr3t-value"}`; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
	t.Run("relative file in an embedded profile", func(t *testing.T) {
		embedded := fstest.MapFS{"e.yaml": {Data: []byte("plugins:\n  a: {use: x, config: {k: '${file:secret}'}}")}}
		_, err := profile.Load(profile.Options{Name: "e", Embedded: embedded})
		want := "embedded:e.yaml:2: plugins.a.config.k: ${file:secret} in an embedded profile has no folder to start at; use an absolute path"
		if diff := cmp.Diff([]string{want}, messages(t, err)); diff != "" {
			t.Fatal(diff)
		}
	})
	t.Run("row keys", func(t *testing.T) {
		file := write(t, filepath.Join(dir, "p.yaml"), "plugins:\n  a:\n    use: ${env:TEXT}\n    enabled: ${env:YES}\n    required: ${env:NONE}\n")
		_, err := profile.Load(profile.Options{Name: file, Env: env})
		want := file + ":5: plugins.a.required: the environment variable NONE is not set; set it, or override this key"
		if diff := cmp.Diff([]string{want}, messages(t, err)); diff != "" {
			t.Fatal(diff)
		}
	})
	t.Run("an overridden value is not looked up", func(t *testing.T) {
		file := write(t, filepath.Join(dir, "p.yaml"), "plugins:\n  a:\n    use: x\n    config:\n      k: ${env:NONE}\n")
		a, _ := load(t, profile.Options{Name: file, Sets: []string{"a.k=1"}}).Entry("a")
		if got, want := string(a.Config), `{"k":1}`; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
	t.Run("a disabled row tells when it is decoded", func(t *testing.T) {
		file := write(t, filepath.Join(dir, "p.yaml"), "plugins:\n  a:\n    use: x\n    enabled: false\n    config:\n      k: ${env:NONE}\n")
		a, _ := load(t, profile.Options{Name: file}).Entry("a")
		var c struct {
			K int `json:"k"`
		}
		bad := a.Decode(&c)
		if want := file + ":6: plugins.a.config.k: the environment variable NONE is not set; set it, or override this key"; len(bad) != 1 || bad[0].Error() != want {
			t.Fatalf("got %v, want %s", bad, want)
		}
	})
}

func TestCredentialEnv(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "p.yaml"), `
plugins:
  b: {use: x, config: {apiKeyEnv: Z_KEY, env: {A: b}, countEnv: 3, emptyEnv: ""}}
  a: {use: x, enabled: false, config: {servers: [{tokenEnv: A_TOKEN}, {tokenEnv: Z_KEY}], Environment: no}}
`)
	want := []string{"A_TOKEN", "Z_KEY"}
	if diff := cmp.Diff(want, load(t, profile.Options{Name: file}).CredentialEnv); diff != "" {
		t.Fatal(diff)
	}
}

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		block       string
		env         []string
		flags       map[string]string
		level, home string
	}{
		"defaults":           {"", nil, nil, "info", dir},
		"block":              {"settings: {logLevel: debug, home: data}", nil, nil, "debug", filepath.Join(dir, "data")},
		"interpolated":       {"settings: {logLevel: '${env:L}', home: '${env:H}'}", []string{"L", "error", "H", "data"}, nil, "error", filepath.Join(dir, "data")},
		"environment":        {"settings: {logLevel: debug, home: data}", []string{"DSH_LOG_LEVEL", "WARN", "DSH_HOME", dir}, nil, "warn", dir},
		"blank environment":  {"settings: {logLevel: debug}", []string{"DSH_LOG_LEVEL", "", "DSH_HOME", " "}, nil, "debug", dir},
		"flags":              {"settings: {logLevel: debug}", []string{"DSH_LOG_LEVEL", "warn"}, map[string]string{"logLevel": "error", "home": ""}, "error", dir},
		"null is no setting": {"settings: {logLevel: null}", nil, nil, "info", dir},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, filepath.Join(dir, "p.yaml"), "plugins: {}\n"+tc.block)
			p := load(t, profile.Options{Name: file, Home: dir, Env: environ(tc.env...), Flags: tc.flags})
			if p.Settings.LogLevel != tc.level || p.Settings.Home != tc.home {
				t.Fatalf("got %q %q, want %q %q", p.Settings.LogLevel, p.Settings.Home, tc.level, tc.home)
			}
		})
	}
	t.Run("bad", func(t *testing.T) {
		file := write(t, filepath.Join(dir, "p.yaml"), "plugins: {}\nsettings:\n  home: [a]\n")
		_, err := profile.Load(profile.Options{Name: file, Env: environ("DSH_LOG_LEVEL", "loud"), Flags: map[string]string{"loglevel": "x"}})
		want := []string{
			file + ":3: settings.home: must be text, not a list",
			`command line: unknown key "loglevel"; did you mean "logLevel"?`,
			`$DSH_LOG_LEVEL: settings.logLevel: "loud" is not a log level; use debug, info, warn or error`,
		}
		if diff := cmp.Diff(want, messages(t, err)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestNamesAndList(t *testing.T) {
	home := t.TempDir()
	write(t, filepath.Join(home, "profiles", "mine.yaml"), "summary: my own\nextends: sdk")
	write(t, filepath.Join(home, "profiles", "sdk.yaml"), "plugins: {}")
	write(t, filepath.Join(home, "profiles", "broken.yaml"), "summary: [")
	write(t, filepath.Join(home, "profiles", "upstream", "package.json"), "{}")
	write(t, filepath.Join(home, "profiles", "notes.txt"), "")
	o := profile.Options{Embedded: builtin(), Home: home}
	names, err := profile.Names(o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"base", "broken", "mine", "sdk"}, names); diff != "" {
		t.Fatal(diff)
	}
	listed, err := profile.List(o)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, l := range listed {
		got[l.Name] = l.Summary
		if (l.Err != nil) != (l.Name == "broken") {
			t.Errorf("%s: %v", l.Name, l.Err)
		}
	}
	if diff := cmp.Diff(map[string]string{"base": "", "broken": "", "mine": "my own", "sdk": "the SDK server"}, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestLimits(t *testing.T) {
	for name, tc := range map[string]struct{ content, want string }{
		"nesting": {
			"plugins:\n  a: {use: x, config: {k: " + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "}}",
			":2: plugins.a.config.k" + strings.Repeat(".0", 196) + ": nested deeper than 200 levels",
		},
		"size": {
			"plugins: {}\n#" + strings.Repeat(" ", 4<<20),
			": the file is larger than 4194304 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, filepath.Join(t.TempDir(), "p.yaml"), tc.content)
			_, err := profile.Load(profile.Options{Name: file})
			if diff := cmp.Diff([]string{file + tc.want}, messages(t, err)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
	t.Run("many aliases are fine", func(t *testing.T) {
		file := write(t, filepath.Join(t.TempDir(), "p.yaml"), "plugins: {a: {use: x, config: {k: &k {b: 1}, l: ["+strings.Repeat("*k,", 4000)+"]}}}")
		a, _ := load(t, profile.Options{Name: file}).Entry("a")
		if got := strings.Count(string(a.Config), `{"b":1}`); got != 4001 {
			t.Fatalf("got %d copies, want 4001", got)
		}
	})
	t.Run("chain", func(t *testing.T) {
		embedded := fstest.MapFS{}
		name := func(i int) string { return "p" + strings.Repeat("x", i) }
		for i := range 40 {
			embedded[name(i)+".yaml"] = &fstest.MapFile{Data: []byte("extends: " + name(i+1))}
		}
		_, err := profile.Load(profile.Options{Name: "p", Embedded: embedded})
		want := "embedded:" + name(31) + ".yaml:1: extends: more than 32 profiles extend one another"
		if diff := cmp.Diff([]string{want}, messages(t, err)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestPositionString(t *testing.T) {
	for want, p := range map[string]profile.Position{
		"a/b.yaml:7":        {File: "a/b.yaml", Line: 7, Column: 3},
		"embedded:sdk.yaml": {File: "embedded:sdk.yaml"},
		"$DSH_X":            {File: "$DSH_X"},
	} {
		if got := p.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
