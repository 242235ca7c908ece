package toollsp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/tool"
	"dsh/plugins/spill"
	"dsh/sdkproto/wirejson"
)

func location(path string, line, character int) string {
	return fmt.Sprintf(`{"uri":%q,"range":{"start":{"line":%d,"character":%d},"end":{"line":%[2]d,"character":%d}}}`, uriOf(path), line, character, character+1)
}

// TestAnswers: what a server says, in the forms that the protocol allows, becomes text
// with lines and characters counted from 1, and a structured result.
func TestAnswers(t *testing.T) {
	const source = "alpha\n\t𝒳𝒳 = beta\r\ngamma é beta\n"
	for _, tc := range []struct {
		name, op, method string
		answer           func(x, y string) string // the paths of the two files
		query            string
		// sent are the parameters of the request, with URI for that of the file.
		sent        string
		text        string
		count, file int
	}{
		{"a definition behind astral characters", opDefinition, "textDocument/definition",
			func(x, _ string) string { return location(x, 1, 8) }, "",
			`{"textDocument":{"uri":"URI"},"position":{"line":1,"character":8}}`,
			"1 definition in a.x:\na.x:2:7: 𝒳𝒳 = beta", 1, 1},
		{"locations out of order, one twice", opReferences, "textDocument/references",
			func(x, y string) string {
				return "[" + location(y, 0, 1) + "," + location(x, 2, 8) + "," + location(x, 1, 8) + "," + location(x, 2, 8) + "]"
			}, "",
			`{"textDocument":{"uri":"URI"},"position":{"line":1,"character":8},"context":{"includeDeclaration":true}}`,
			"3 references in 2 files:\na.x:2:7: 𝒳𝒳 = beta\na.x:3:9: gamma é beta\nsub dir/ü.x:1:2: other", 3, 2},
		{"links", opImplementation, "textDocument/implementation",
			func(_, y string) string {
				return fmt.Sprintf(`[{"targetUri":%q,"targetRange":{"start":{"line":0,"character":0},"end":{"line":9,"character":0}},"targetSelectionRange":{"start":{"line":0,"character":3},"end":{"line":0,"character":4}}}]`, uriOf(y))
			}, "", "", "1 implementation in 1 file:\nsub dir/ü.x:1:4: other", 1, 1},
		{"no file", opDefinition, "textDocument/definition",
			func(string, string) string {
				return strings.Replace(location("/x", 4, 0), "file:///x", "jdt://contents/A.class", 1)
			}, "", "",
			"1 definition in 1 file:\njdt://contents/A.class:5:1:", 1, 1},
		{"beyond the end of the file", opDefinition, "textDocument/definition",
			func(x, _ string) string { return "[" + location(x, 99, 7) + "," + location(x, 0, 700) + "]" }, "", "",
			"2 definitions in a.x:\na.x:1:6: alpha\na.x:100:8:", 2, 1},
		{"nothing", opDefinition, "textDocument/definition", func(string, string) string { return "null" }, "", "",
			"No definitions found (at a.x:2:7; the line is \"𝒳𝒳 = beta\", and character must be that of a name).", 0, 0},
		{"an empty list", opReferences, "textDocument/references", func(string, string) string { return "[]" }, "", "",
			"No references found (at a.x:2:7; the line is \"𝒳𝒳 = beta\", and character must be that of a name).", 0, 0},
		{"hover", opHover, "textDocument/hover", func(string, string) string { return `{"contents":{"kind":"markdown","value":"**beta** int\n"}}` }, "", "",
			"**beta** int", 1, 1},
		{"hover, older forms", opHover, "textDocument/hover",
			func(string, string) string { return `{"contents":[{"language":"x","value":"var beta"},"A word.",""]}` }, "", "",
			"```x\nvar beta\n```\n\nA word.", 1, 1},
		{"no hover", opHover, "textDocument/hover", func(string, string) string { return "null" }, "", "",
			"No types or documentation found (at a.x:2:7; the line is \"𝒳𝒳 = beta\", and character must be that of a name).", 0, 0},
		{"outline", opDocumentSymbol, "textDocument/documentSymbol", func(string, string) string {
			return `[{"name":"T","kind":23,"detail":"struct{...}","range":{"start":{"line":0,"character":0},"end":{"line":2,"character":0}},"selectionRange":{"start":{"line":0,"character":0},"end":{"line":0,"character":1}},
			"children":[{"name":"b","kind":8,"range":{"start":{"line":1,"character":0},"end":{"line":1,"character":9}},"selectionRange":{"start":{"line":1,"character":8},"end":{"line":1,"character":9}}}]},
			{"name":"f","kind":12,"selectionRange":{"start":{"line":2,"character":6}}}]`
		}, "", `{"textDocument":{"uri":"URI"}}`, "3 symbols in a.x:\nstruct T struct{...}  1:1\n  field b  2:7\nfunction f  3:7", 3, 1},
		{"outline, older form", opDocumentSymbol, "textDocument/documentSymbol", func(x, _ string) string {
			return `[{"name":"m","kind":6,"containerName":"T","location":` + location(x, 1, 8) + `}]`
		}, "", "", "1 symbol in a.x:\nmethod m (in T)  2:7", 1, 1},
		{"symbols of the workspace", opWorkspaceSymbol, "workspace/symbol", func(x, y string) string {
			return `[{"name":"other","kind":13,"location":` + location(y, 0, 0) + `},{"name":"beta","kind":99,"containerName":"p","location":` + location(x, 1, 8) + `}]`
		}, "be", `{"query":"be"}`, "2 symbols in 2 files:\na.x:2:7: symbol beta (in p)\nsub dir/ü.x:1:1: variable other", 2, 2},
		{"diagnostics that are asked for", opDiagnostics, "textDocument/diagnostic", func(string, string) string {
			return `{"kind":"full","items":[{"range":{"start":{"line":1,"character":8},"end":{"line":1,"character":9}},"severity":2,"code":"unused","source":"vet","message":"beta is\nnot used"},
			{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":1}},"code":7,"message":"no alpha"}]}`
		}, "", `{"textDocument":{"uri":"URI"}}`,
			"2 diagnostics in a.x:\na.x:1:1: error: no alpha (7)\n    | alpha\na.x:2:7: warning: beta is\n    not used (vet unused)\n    | 𝒳𝒳 = beta", 2, 1},
		{"no diagnostics", opDiagnostics, "textDocument/diagnostic", func(string, string) string { return `{"kind":"full","items":[]}` }, "", "",
			"No diagnostics for a.x.", 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			answers := map[string]json.RawMessage{"initialize": json.RawMessage(`{"capabilities":{"diagnosticProvider":{}}}`)}
			x := setUp(t, script{Answers: answers})
			path, other := x.Put("a.x", source), x.Put("sub dir/ü.x", "other\n")
			// The server is started with the first call, so its script may still change.
			answers[tc.method] = json.RawMessage(tc.answer(path, other))
			c, _ := config(t, script{Log: x.log, Answers: answers})
			x.l.config.Servers = c.Servers
			a := at(tc.op, "a.x", 2, 7)
			if tc.query != "" {
				a["query"] = tc.query
			}
			res := x.Call(t.Context(), "LSP", a)
			if res.IsError {
				t.Fatalf("failed: %s", x.text(res))
			}
			if diff := cmp.Diff(tc.text, x.text(res)); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			var meta answered
			if err := wirejson.UnmarshalStrict(res.Meta, &meta); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(answered{tc.op, path, tc.text, tc.count, tc.file}, meta); diff != "" {
				t.Errorf("structured result (-want +got):\n%s", diff)
			}
			if tc.sent == "" {
				return
			}
			want := []string{strings.ReplaceAll(tc.sent, "URI", uriOf(path))}
			if diff := cmp.Diff(want, x.sent(tc.method)); diff != "" {
				t.Errorf("the server was asked (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCalls: who calls a function and what it calls takes two questions.
func TestCalls(t *testing.T) {
	x := setUp(t, script{})
	path := x.Put("a.x", "f\n  g\ng\n")
	item := func(name string, line int) string {
		return fmt.Sprintf(`{"name":%q,"kind":12,"uri":%q,"range":{},"selectionRange":{"start":{"line":%d,"character":0}},"data":{"mine":1}}`, name, uriOf(path), line)
	}
	c, _ := config(t, script{Log: x.log, Answers: map[string]json.RawMessage{
		"textDocument/prepareCallHierarchy": json.RawMessage("[" + item("g", 2) + "]"),
		"callHierarchy/incomingCalls":       json.RawMessage(`[{"from":` + item("f", 0) + `,"fromRanges":[{"start":{"line":1,"character":2}}]}]`),
		"callHierarchy/outgoingCalls":       json.RawMessage(`[{"to":` + item("g", 2) + `,"fromRanges":[{"start":{"line":1,"character":2}}]}]`),
	}})
	x.l.config.Servers = c.Servers
	if got, want := x.Good("LSP", at(opIncoming, "a.x", 3, 1)), "1 call in a.x:\na.x:2:3: in function f: g"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := x.Good("LSP", at(opOutgoing, "a.x", 1, 1)), "1 called function in a.x:\na.x:3:1: function g"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if diff := cmp.Diff([]string{`{"item":` + item("g", 2) + `}`}, x.sent("callHierarchy/incomingCalls")); diff != "" {
		t.Errorf("the item does not go back as it came (-want +got):\n%s", diff)
	}
}

// TestBounds: results beyond the bound are counted and kept in a file (decision D19).
func TestBounds(t *testing.T) {
	var locs []string
	x := setUp(t, script{})
	x.l.spiller = spill.New(t.TempDir())
	path := x.Put("a.x", strings.Repeat("name\n", 240))
	for i := range 240 {
		locs = append(locs, location(path, i, 0))
	}
	c, _ := config(t, script{Log: x.log, Answers: map[string]json.RawMessage{
		"textDocument/references": json.RawMessage("[" + strings.Join(locs, ",") + "]"),
		"textDocument/hover":      json.RawMessage(`{"contents":"` + strings.Repeat("é", maxText) + `"}`),
	}})
	x.l.config.Servers = c.Servers
	res := x.Call(t.Context(), "LSP", at(opReferences, "a.x", 1, 1))
	text := x.text(res)
	head, file, ok := strings.Cut(text, "\n\n(these are the first 100 of 240; all of it is in ")
	if !ok || !strings.HasPrefix(text, "240 references in a.x:\na.x:1:1: name\n") || strings.Count(head, "\n") != 100 {
		t.Fatalf("got %s", text)
	}
	whole, err := readFile(strings.TrimSuffix(file, ")"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(whole.text, "\n"); n != 240 || !strings.HasSuffix(whole.text, "a.x:240:1: name\n") {
		t.Errorf("the file has %d lines and ends with %q", n, whole.lines[max(0, n-1)])
	}
	var meta answered
	if err := wirejson.Unmarshal(res.Meta, &meta); err != nil || meta.ResultCount != 240 || meta.FileCount != 1 {
		t.Errorf("structured: %d in %d files, %v", meta.ResultCount, meta.FileCount, err)
	}
	x.l.spiller = nil
	if text := x.Good("LSP", at(opHover, "a.x", 1, 1)); len(text) > maxText+200 || !strings.HasSuffix(text, "(this is the beginning; ask for something narrower to see others)") {
		t.Errorf("got %d bytes ending %q", len(text), text[len(text)-100:])
	}
}

// TestHidden: what rules keep from the tool is not shown.
func TestHidden(t *testing.T) {
	x := setUp(t, script{})
	path, secret := x.Put("a.x", "name\n"), x.Put("secret.x", "name = password\n")
	c, _ := config(t, script{Log: x.log, Answers: map[string]json.RawMessage{
		"textDocument/references": json.RawMessage("[" + location(path, 0, 0) + "," + location(secret, 0, 0) + "]"),
	}})
	x.l.config.Servers = c.Servers
	res := x.invoke(t.Context(), at(opReferences, "a.x", 1, 1), tool.Invocation{Hidden: func(p string) bool { return p == secret }})
	want := "1 reference in a.x:\na.x:1:1: name\n\n(1 in files that may not be read is left out)"
	if got := x.text(res); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
