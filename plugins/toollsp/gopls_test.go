//go:build gopls

package toollsp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dsh/kernel/tool"
)

// TestGopls asks a real gopls, which DSH_GOPLS names, about a small module, and again
// after its files have changed.
func TestGopls(t *testing.T) {
	gopls := os.Getenv("DSH_GOPLS")
	if gopls == "" {
		t.Fatal("DSH_GOPLS does not say where gopls is")
	}
	// The built-in entry for .go must find it.
	t.Setenv("PATH", filepath.Dir(gopls)+string(os.PathListSeparator)+os.Getenv("PATH"))
	x := compose(t, Params{Config: defaults()}, "")
	x.Put("go.mod", "module example.test/m\n\ngo 1.24\n")
	x.Put("shape/shape.go", `// Package shape has shapes.
package shape

// Shape has an area.
type Shape interface{ Area() float64 }

// Square is a shape; 𝒳 is the length of its sides.
type Square struct{ 𝒳 float64 }

// Area implements Shape.
func (s Square) Area() float64 { return s.𝒳 * s.𝒳 }
`)
	x.Put("main.go", `package main

import "example.test/m/shape"

func total(shapes ...shape.Shape) (sum float64) {
	for _, s := range shapes {
		sum += s.Area()
	}
	return sum
}

func main() {
	/* 🙂🙂 */ println(total(shape.Square{𝒳: 2}, shape.Square{}))
}
`)
	ask := func(a args, want ...string) string {
		t.Helper()
		text := x.Good("LSP", a)
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%v lacks %q:\n%s", a, part, text)
			}
		}
		return text
	}
	began := time.Now()
	ask(at(opDefinition, "main.go", 13, 19), "main.go:5:6: func total(shapes ...shape.Shape)")
	t.Logf("the first answer took %v", time.Since(began))
	// Behind two characters that are two UTF-16 units each.
	ask(at(opDefinition, "main.go", 13, 31), "1 definition in 1 file:\nshape/shape.go:8:6: type Square struct")
	ask(at(opDefinition, "main.go", 13, 38), "shape/shape.go:8:21: type Square struct{ 𝒳 float64 }")
	ask(at(opReferences, "shape/shape.go", 8, 21), "4 references in 2 files:\nmain.go:13:38: ", "shape/shape.go:11:43: func (s Square)", "shape/shape.go:11:49: ")
	ask(at(opImplementation, "shape/shape.go", 5, 6), "shape/shape.go:8:6: type Square struct")
	ask(at(opHover, "main.go", 13, 19), "func total(shapes ...shape.Shape) (sum float64)")
	ask(at(opIncoming, "main.go", 5, 6), "main.go:13:19: in function main: ")
	ask(at(opOutgoing, "main.go", 12, 6), "main.go:5:6: function total")
	ask(args{"operation": opDocumentSymbol, "filePath": "shape/shape.go"},
		"interface Shape interface{...}  5:6\n  method Area func() float64  5:23\n", "struct Square struct{...}  8:6\n  field 𝒳 float64  8:21")
	ask(args{"operation": opWorkspaceSymbol, "filePath": "main.go", "query": "Square"}, "shape/shape.go:8:6: struct ", "Square")
	ask(args{"operation": opDiagnostics, "filePath": "main.go"}, "No diagnostics for main.go.")

	// Files change behind the server's back: one that it was asked about and one that
	// it was not.
	x.Put("main.go", strings.Replace(string(must(os.ReadFile(x.Path("main.go")))), "println(", "more()\n\tprintln(", 1))
	x.Put("more.go", "package main\n\nfunc more() { unknown() }\n")
	ask(at(opDefinition, "main.go", 13, 11), "more.go:3:6: func more()")
	ask(args{"operation": opDiagnostics, "filePath": "more.go"}, "1 diagnostic in more.go:\nmore.go:3:15: error: undefined: unknown (compiler UndeclaredName)\n    | func more() { unknown() }")
	if err := os.Remove(x.Path("more.go")); err != nil {
		t.Fatal(err)
	}
	ask(args{"operation": opDiagnostics, "filePath": "main.go"}, "main.go:13:11: error: undefined: more")

	// The library of the language is not below the working directory, and its server
	// is the workspace's all the same.
	x.Put("main.go", "package main\n\nimport \"strings\"\n\nfunc main() { println(strings.ToUpper(\"x\")) }\n")
	text := ask(at(opDefinition, "main.go", 5, 31), "strings.go:", ": func ToUpper(s string) string {")
	library, _, _ := strings.Cut(strings.SplitN(text, "\n", 2)[1], ":")
	if !filepath.IsAbs(library) {
		t.Fatalf("the library is at %q", library)
	}
	ask(args{"operation": opDocumentSymbol, "filePath": library}, "function ToUpper")
	x.l.mu.Lock()
	defer x.l.mu.Unlock()
	if len(x.l.servers) != 1 {
		t.Errorf("%d servers run, want one", len(x.l.servers))
	}
}

// TestGoplsPublishes: without pull diagnostics gopls reports when it sees fit.
func TestGoplsPublishes(t *testing.T) {
	c := defaults()
	c.Servers = map[string]Server{"go": {Command: os.Getenv("DSH_GOPLS")}}
	x := compose(t, Params{Config: c}, "")
	x.Put("go.mod", "module example.test/m\n\ngo 1.24\n")
	x.Put("a.go", "package m\n\nfunc f() int { return g() }\n")
	x.Put("b.go", "package m\n\nfunc g() int { return 1 }\n")
	diagnostics := args{"operation": opDiagnostics, "filePath": "a.go"}
	for _, step := range []struct{ b, want string }{
		{"package m\n\nfunc g() int { return 1 }\n", "No diagnostics for a.go."},
		{"package m\n\nfunc g() string { return \"\" }\n", "1 diagnostic in a.go:\na.go:3:23: error: cannot use g()"},
		{"package m\n\nfunc g() int { return 22 }\n", "No diagnostics for a.go."},
		{"package m\n\nfunc g() int { return 33 }\n", "No diagnostics for a.go."},
	} {
		x.Put("b.go", step.b)
		if text := x.Good("LSP", diagnostics); !strings.HasPrefix(text, step.want) {
			t.Errorf("with %q got %q, want %q", step.b, text, step.want)
		}
	}
	res := x.invoke(t.Context(), diagnostics, tool.Invocation{})
	if res.IsError {
		t.Error(x.text(res))
	}
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}
