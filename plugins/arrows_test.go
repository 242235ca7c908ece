package plugins_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers lists what each part of the module may import of the others; a part
// may always import itself. The longest prefix decides.
var layers = map[string][]string{
	"sdkproto":         {"sdkproto"},
	"kernel":           {"kernel", "sdkproto"},
	"kernel/profile":   {"sdkproto"},
	"kernel/stdio":     {"sdkproto"},
	"profiles":         {},
	"plugins":          {"kernel", "sdkproto", "plugins"},
	"plugins/*":        {"kernel", "sdkproto", "plugins/internal"},
	"plugins/internal": {"kernel", "sdkproto"},
	"cmd":              {"kernel", "sdkproto", "plugins", "profiles"},
}

// keepers lists the only places that may import a library.
var keepers = map[string][]string{
	"github.com/spf13/viper":             {"kernel/profile/", "cmd/"},
	"github.com/spf13/cobra":             {"cmd/"},
	"go.yaml.in/yaml/v3":                 {"kernel/profile/", "plugins/llmscripted/", "plugins/internal/frontmatter/"},
	"github.com/go-json-experiment/json": {"sdkproto/wirejson/"},
	"github.com/hashicorp/go-plugin":     {"kernel/external/", "sdkproto/plugin/"},
	"google.golang.org/grpc":             {"kernel/external/", "sdkproto/plugin/"},
	"github.com/sourcegraph/jsonrpc2":    {"plugins/jsonrpc/", "plugins/toollsp/"},
	"github.com/modelcontextprotocol":    {"plugins/mcp/"},
	"github.com/JohannesKaufmann":        {"plugins/toolweb/"},
	"golang.org/x/net/html":              {"plugins/toolweb/"},
	"golang.org/x/oauth2":                {"plugins/mcp/"},
	"go.uber.org/fx":                     {"kernel/*.go", "kernel/external/plugin.go", "plugins/*/plugin.go"},
	"go.uber.org/dig":                    {"kernel/*.go"},
	"go.uber.org/zap":                    {},
	"github.com/stretchr/testify":        {},
	"github.com/google/jsonschema-go":    {"kernel/tool/", "sdkproto/schema/"},
	// It compiles every meta-schema when the process starts: 9 ms.
	"github.com/santhosh-tekuri/jsonschema": {},
}

// TestArrows holds the module to cmd → plugins → kernel → sdkproto, keeps
// libraries in their places and forbids init functions.
func TestArrows(t *testing.T) {
	root := ".."
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(file, root+string(os.PathSeparator)))
		if d.IsDir() {
			if file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, imp := range parsed.Imports {
			name, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			if why := wrong(rel, name); why != "" {
				t.Errorf("%s imports %s: %s", rel, name, why)
			}
		}
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" && !strings.HasSuffix(rel, ".pb.go") {
				t.Errorf("%s has an init function; register in plugins/builtin.go or wire in cmd", rel)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func wrong(file, imported string) string {
	if inner, ok := strings.CutPrefix(imported, "dsh/"); ok {
		return wrongArrow(path.Dir(file), inner)
	}
	for lib, places := range keepers {
		if imported != lib && !strings.HasPrefix(imported, lib+"/") {
			continue
		}
		kept := slices.ContainsFunc(places, func(place string) bool {
			if strings.HasSuffix(place, "/") {
				return strings.HasPrefix(file, place)
			}
			ok, _ := path.Match(place, file)
			return ok
		})
		if !kept {
			return "only " + strings.Join(places, ", ") + " may"
		}
	}
	return ""
}

func wrongArrow(from, to string) string {
	within := func(pkg, part string) bool { return pkg == part || strings.HasPrefix(pkg, part+"/") }
	part := strings.SplitN(from, "/", 2)[0]
	allowed := layers[part]
	self := part
	switch {
	case within(from, "plugins/internal"):
		self, allowed = "plugins/internal", layers["plugins/internal"]
	case strings.HasPrefix(from, "plugins/"):
		self, allowed = strings.Join(strings.SplitN(from, "/", 3)[:2], "/"), layers["plugins/*"]
	case layers[from] != nil:
		self, allowed = from, layers[from]
	}
	if within(to, self) {
		return ""
	}
	for _, a := range allowed {
		if within(to, a) {
			return ""
		}
	}
	return self + " may import only itself and " + strings.Join(allowed, ", ")
}

// The rules themselves can fail.
func TestArrowRules(t *testing.T) {
	for _, tc := range []struct {
		file, imported string
		ok             bool
	}{
		{"sdkproto/client/client.go", "dsh/sdkproto", true},
		{"sdkproto/client/client.go", "dsh/kernel", false},
		{"kernel/tool/tool.go", "dsh/kernel/session", true},
		{"kernel/tool/tool.go", "dsh/plugins/core", false},
		{"kernel/profile/profile.go", "dsh/kernel", false},
		{"plugins/jsonrpc/server.go", "dsh/plugins/agentloop", false},
		{"plugins/jsonrpc/server.go", "dsh/plugins/internal/chatwire", true},
		{"plugins/internal/chatwire/wire.go", "dsh/plugins/jsonrpc", false},
		{"plugins/builtin.go", "dsh/plugins/jsonrpc", true},
		{"cmd/dsh/main.go", "dsh/profiles", true},
		{"kernel/run.go", "dsh/profiles", false},
		{"plugins/jsonrpc/server.go", "go.uber.org/fx", false},
		{"plugins/jsonrpc/plugin.go", "go.uber.org/fx", true},
		{"kernel/compose.go", "go.uber.org/fx/fxevent", true},
		{"kernel/session/log.go", "go.uber.org/fx", false},
		{"kernel/session/log.go", "github.com/go-json-experiment/json/jsontext", false},
	} {
		if why := wrong(tc.file, tc.imported); (why == "") != tc.ok {
			t.Errorf("%s imports %s: got %q, want ok=%v", tc.file, tc.imported, why, tc.ok)
		}
	}
}
