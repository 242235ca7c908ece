package toollsp

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/process"
	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
)

func TestDeclaration(t *testing.T) {
	if err := kernel.CheckDeclaration(Plugin); err != nil {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Config)
		wrong  []string
	}{
		{"defaults", func(*Config) {}, nil},
		{"a known kind needs no extensions", func(c *Config) { c.Servers = map[string]Server{"go": {Command: "gopls"}} }, nil},
		{"switched off", func(c *Config) { c.Servers = map[string]Server{"go": {Disabled: true}} }, nil},
		{"nothing at all", func(c *Config) { *c = Config{} }, []string{
			"startTimeout", "loadTimeout", "timeout", "diagnosticsTimeout", "idleTimeout", "maxServers", "maxResults", "maxFile"}},
		{"a bad server", func(c *Config) {
			c.Servers = map[string]Server{"a/b": {Extensions: []string{"go", "."}, Confine: "tight"}, "q": {Command: "bin/q"}}
		}, []string{"servers/a~1b/command", "servers/a~1b/extensions", "servers/a~1b/extensions", "servers/a~1b/confine", "servers/q/command", "servers/q/extensions"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := defaults()
			tc.change(&c)
			var got []string
			if err := c.Validate(); err != nil {
				for _, one := range err.(interface{ Unwrap() []error }).Unwrap() {
					got = append(got, strings.TrimPrefix(one.(*kernel.FieldError).Pointer, "/"))
				}
			}
			if diff := cmp.Diff(tc.wrong, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestS076Missing: the tool is there on a machine without any language server, and a
// call says what is missing and what to do (S076).
func TestS076Missing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, tc := range []struct {
		name, file string
		change     func(*Config)
		says       []string
	}{
		{"a known kind", "a.go", func(*Config) {}, []string{"no language server for .go files", "PATH has no gopls", `servers: {go: {command: /path/to/gopls, extensions: [".go"]}}`, "row lsp"}},
		{"several known", "a.TSX", func(*Config) {}, []string{"no typescript-language-server and no vtsls"}},
		{"an unknown kind", "a.nim", func(*Config) {}, []string{"no language server is known for .nim files", `servers: {nim: {command: a-language-server, extensions: [".nim"]}}`}},
		{"no kind", "Makefile", func(*Config) {}, []string{"Makefile has no file type"}},
		{"not looked for", "a.go", func(c *Config) { c.Detect = false }, []string{"none is looked for (detect)"}},
		{"switched off", "a.go", func(c *Config) { c.Servers = map[string]Server{"go": {Disabled: true}} }, []string{"servers/go/disabled"}},
		{"configured and gone", "a.go", func(c *Config) { c.Servers = map[string]Server{"go": {Command: "my-gopls"}} },
			[]string{"my-gopls", "servers/go/command", "executable file not found"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := defaults()
			tc.change(&c)
			x := compose(t, Params{Config: c}, "")
			if _, ok := x.View.Lookup("LSP"); !ok {
				t.Fatal("there is no tool LSP")
			}
			x.Put(tc.file, "text\n")
			x.Bad("LSP", at(opHover, tc.file, 1, 1), codeNoServer, tc.says...)
		})
	}
}

// TestArguments: what a call leaves out or gets wrong is said without starting a
// server.
func TestArguments(t *testing.T) {
	x := setUp(t, script{}, func(c *Config) { c.MaxFile = 1000 })
	x.Put("a.x", "𝒳 = 1\nlast")
	x.Put("binary.x", "a\x00b")
	x.Put("large.x", strings.Repeat("a", 1001))
	for _, tc := range []struct {
		name string
		args args
		code string
		says []string
	}{
		{"no line", args{"operation": opHover, "filePath": "a.x", "character": 1}, codeArguments, []string{"hover needs line, counted from 1"}},
		{"no character", args{"operation": opDefinition, "filePath": "a.x", "line": 1}, codeArguments, []string{"goToDefinition needs character, counted from 1"}},
		{"a line below 1", at(opHover, "a.x", -1, 1), codeArguments, []string{"counted from 1"}},
		{"no query", args{"operation": opWorkspaceSymbol, "filePath": "a.x", "query": " "}, codeArguments, []string{"needs query"}},
		{"no path", args{"operation": opHover, "filePath": " ", "line": 1, "character": 1}, codeArguments, []string{"path is empty"}},
		{"a line too far", at(opHover, "a.x", 3, 1), codeArguments, []string{"line 3 does not exist: a.x has 2 lines"}},
		{"a character too far", at(opHover, "a.x", 1, 7), codeArguments, []string{"character 7 of line 1 does not exist: the line has 5 characters"}},
		{"an unknown operation", at("rename", "a.x", 1, 1), codeArguments, []string{"operation"}},
		{"no file", at(opHover, "b.x", 1, 1), codeNotFound, []string{"b.x does not exist"}},
		{"a directory", at(opHover, ".", 1, 1), codeNoFile, []string{"it is a directory"}},
		{"a binary", at(opHover, "binary.x", 1, 1), codeNoFile, []string{"not a text"}},
		{"a large file", at(opHover, "large.x", 1, 1), codeNoFile, []string{"too large"}},
	} {
		t.Run(tc.name, func(t *testing.T) { x.Bad("LSP", tc.args, tc.code, tc.says...) })
	}
	if n := x.starts(); n != 0 {
		t.Errorf("%d servers were started", n)
	}
}

// TestSpec: spec stream-json 9 has the tool read-only.
func TestSpec(t *testing.T) {
	x := setUp(t, script{})
	lsp, _ := x.View.Lookup("LSP")
	spec := lsp.Spec()
	if !spec.ReadOnly || !spec.Parallel || spec.Destructive || spec.Subject != (tool.Subject{Rule: "Read", Kind: tool.SubjectPath, Member: "filePath"}) {
		t.Errorf("spec %+v", spec)
	}
	if got, want := tooltest.Inputs(t, lsp), "character? filePath line? operation query?"; got != want {
		t.Errorf("inputs %s, want %s", got, want)
	}
}

func TestContract(t *testing.T) {
	x := setUp(t, script{Answers: hello, Hang: []string{"textDocument/references"}})
	x.Put("a.x", "name\n")
	x.Put("sub/b.x", "name\n")
	tooltest.TestTool(t, x.l.tool, tooltest.Options{
		CWD: x.Dir,
		Good: []string{
			`{"operation":"hover","filePath":"a.x","line":1,"character":2,"query":"ignored"}`,
			`{"operation":"workspaceSymbol","filePath":"sub/b.x","query":"n"}`,
			`{"operation":"documentSymbol","filePath":"a.x"}`,
		},
		NotEmpty: []string{"operation", "filePath"},
		Slow:     `{"operation":"findReferences","filePath":"a.x","line":1,"character":1}`,
	})
}

// policy is a deployment's.
type policy struct{ c *process.Confinement }

func (p policy) Confinement(string) *process.Confinement { return p.c }

// TestConfinement: a server is confined as its call is, or as the deployment says, or
// as its config says; and servers of different confinement are different ones.
func TestConfinement(t *testing.T) {
	call := &process.Confinement{Mode: process.ReadOnly, NoNetwork: true}
	deployed := &process.Confinement{Mode: process.WorkspaceWrite, Write: []string{"/w"}}
	tmp := os.TempDir()
	for _, tc := range []struct {
		name         string
		call, policy *process.Confinement
		confine      string
		want         *process.Confinement
	}{
		{"nothing", nil, nil, "", nil},
		{"the deployment's", nil, deployed, "", deployed},
		{"the call's", call, deployed, "", call},
		{"none by config", call, deployed, process.FullAccess, nil},
		{"less by config", nil, deployed, process.ReadOnly, &process.Confinement{Mode: process.ReadOnly}},
		{"own folders", nil, nil, process.WorkspaceWrite, &process.Confinement{Mode: process.WorkspaceWrite, Write: []string{"/root", tmp}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := &LSP{policy: policy{tc.policy}, confiner: struct{ process.Confiner }{}}
			got, err := l.confinement(tool.Invocation{Confinement: tc.call}, &launch{confine: tc.confine}, "/root")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if words(nil) == words(call) || words(call) == words(deployed) {
		t.Error("confinements are not told apart")
	}
	if _, err := (&LSP{}).confinement(tool.Invocation{}, &launch{confine: process.ReadOnly}, "/root"); err == nil || !strings.Contains(err.Error(), "no row of the profile can confine programs") {
		t.Errorf("without a confiner: %v", err)
	}
}
