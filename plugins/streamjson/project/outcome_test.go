package project_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/plugins/streamjson/project"
	"dsh/sdkproto"
)

// outcome shows the result of one call of a tool.
func outcome(t *testing.T, o project.Options, name string, r sdkproto.ToolResult, content ...sdkproto.Block) line {
	t.Helper()
	p := project.New(o)
	p.Begin(theTurn)
	s := newScript().begin("m").say(root, "m", nil, toolCall("c", name, "{}")).call(root, "c", name, "{}")
	return of(show(t, p, s.result(root, "c", r, content...).entries), "user tool_result")[0]
}

func image(media string, size int) sdkproto.Block {
	return sdkproto.Block{Type: sdkproto.BlockImage, Attachment: &sdkproto.Attachment{AttachmentID: "sha256:0", MediaType: media, Bytes: int64(size)}}
}

// TestOutcomes are the shapes of content and structured output (spec stream-json
// 3.4, 8.4, 9; S024; checklist 45).
func TestOutcomes(t *testing.T) {
	failed := func(code string) sdkproto.ToolResult {
		return sdkproto.ToolResult{Error: &sdkproto.ToolError{Name: "ToolError", Code: code}, Meta: json.RawMessage(`{"stdout":"x"}`)}
	}
	good := sdkproto.ToolResult{Meta: json.RawMessage(`{"stdout": "x","n":1}`)}
	png := []byte("\x89PNG")
	for name, tc := range map[string]struct {
		tool    string
		result  sdkproto.ToolResult
		content []sdkproto.Block
		want    string // content, is_error and tool_use_result
	}{
		"text":       {"Bash", good, []sdkproto.Block{sdkproto.Text("a"), sdkproto.Text("b")}, `["a\nb",null,{"stdout":"x","n":1}]`},
		"no content": {"Bash", sdkproto.ToolResult{}, nil, `["",null,null]`},
		"a failure":  {"Bash", failed("X"), []sdkproto.Block{sdkproto.Text("Exit code 3")}, `["Exit code 3",true,"Error: Exit code 3"]`},
		"a failure that says so": {"Read", failed("X"), []sdkproto.Block{sdkproto.Text("Error: no such file")},
			`["Error: no such file",true,"Error: no such file"]`},
		"cut off": {"Bash", failed("ABORTED"), []sdkproto.Block{sdkproto.Text("Error: Bash was cancelled")},
			`["[Request interrupted by user for tool use]",true,"Error: [Request interrupted by user for tool use]"]`},
		"never begun": {"Bash", failed("ABORTED_BEFORE_DISPATCH"), []sdkproto.Block{sdkproto.Text("x")},
			`["[Request interrupted by user for tool use]",true,"Error: [Request interrupted by user for tool use]"]`},
		"MCP": {"mcp__a__b", sdkproto.ToolResult{}, []sdkproto.Block{sdkproto.Text("a"), sdkproto.Text("b")},
			`[[{"type":"text","text":"a"},{"type":"text","text":"b"}],null,null]`},
		"MCP without content": {"mcp__a__b", sdkproto.ToolResult{}, nil, `[[{"type":"text","text":"(no output)"}],null,null]`},
		"MCP failure": {"mcp__a__b", sdkproto.ToolResult{Error: &sdkproto.ToolError{Name: "McpError", Code: "MCP_TOOL_ERROR"}}, []sdkproto.Block{sdkproto.Text("no")},
			`[[{"type":"text","text":"no"}],true,"Error: no"]`},
		"MCP refused": {"mcp__a__b", failed("PERMISSION_DENIED"), []sdkproto.Block{sdkproto.Text("no")}, `["no",true,"Error: no"]`},
		"MCP image": {"mcp__a__b", sdkproto.ToolResult{Meta: json.RawMessage(`[{"type":"image","data":"iVBORw=="}]`)},
			[]sdkproto.Block{sdkproto.Text("see"), image("image/png", 4)},
			`[[{"type":"text","text":"see"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}}],null,[{"type":"image","data":""}]]`},
		"an image that is read": {"Read", sdkproto.ToolResult{Meta: json.RawMessage(`{"type":"image","file":{"base64":"iVBORw==","type":"image/png","originalSize":4}}`)},
			[]sdkproto.Block{image("image/png", 4)},
			`[[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}}],null,{"type":"image","file":{"base64":"","type":"image/png","originalSize":4}}]`},
		"an image too large": {"Read", sdkproto.ToolResult{}, []sdkproto.Block{image("image/gif", 800_000)},
			`[[{"type":"text","text":"[An image (image/gif, 800000 bytes) is left out of this line: it is too large.]"}],null,null]`},
		"an image that is gone": {"Read", sdkproto.ToolResult{}, []sdkproto.Block{image("image/gif", 5)},
			`[[{"type":"text","text":"[An image (image/gif, 5 bytes) is left out of this line: it cannot be read.]"}],null,null]`},
		"a subagent":      {"Agent", sdkproto.ToolResult{}, []sdkproto.Block{sdkproto.Text("done")}, `[[{"type":"text","text":"done"}],null,null]`},
		"a failed one":    {"Agent", failed("X"), []sdkproto.Block{sdkproto.Text("no")}, `["no",true,"Error: no"]`},
		"foreign blocks":  {"Bash", sdkproto.ToolResult{}, []sdkproto.Block{{Type: "new"}, sdkproto.Text("a")}, `["a",null,null]`},
		"foreign escapes": {"Bash", sdkproto.ToolResult{Meta: json.RawMessage("{\"a\":\"\\ud800\u2029\"}")}, nil, `["",null,{"a":"` + "\ufffd\u2029" + `"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.Image = func(_ context.Context, a *sdkproto.Attachment) ([]byte, error) {
				if a.Bytes != 4 {
					return nil, errors.New("gone")
				}
				return png, nil
			}
			l := outcome(t, o, tc.tool, tc.result, tc.content...)
			got := []any{l.at("message", "content", "content"), l.at("message", "content", "is_error"), l["tool_use_result"]}
			var expected []any
			if err := json.Unmarshal([]byte(tc.want), &expected); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("content, is_error, tool_use_result (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReplaced: a result that takes the place of another one is no new fact.
func TestReplaced(t *testing.T) {
	p := project.New(options())
	p.Begin(theTurn)
	s := newScript().begin("m").say(root, "m", nil, toolCall("c", "Read", "{}"))
	s.result(root, "c", sdkproto.ToolResult{}, sdkproto.Text("long"))
	s.result(root, "c", sdkproto.ToolResult{}, sdkproto.Text("short"))
	s.entries[len(s.entries)-1].Record.Event.SurfaceOp = json.RawMessage(`{"op":"replace","start":5,"end":5}`)
	if got := of(show(t, p, s.entries), "user tool_result"); len(got) != 1 || got[0].at("message", "content", "content") != "long" {
		t.Errorf("%v", got)
	}
}

// TestLongOutput: what a tool gave is cut where the line would be too long for a
// client, and the line says so; the checker looks at every line's length (spec
// stream-json 0.2; checklist 8). What the model said is whole (case B01).
func TestLongOutput(t *testing.T) {
	const five, two = 5 << 20, 2 << 20 // bytes
	quoted := func(s string) json.RawMessage { b, _ := json.Marshal(s); return b }
	long := strings.Repeat("x", five)
	meta := json.RawMessage(`{"stdout":` + string(quoted(long)) + `,"stderr":"short"}`)
	var names []string
	for range 60_000 {
		names = append(names, "/a/path/of/some/length")
	}
	list, _ := json.Marshal(map[string]any{"filenames": names})
	for name, tc := range map[string]struct {
		tool   string
		result sdkproto.ToolResult
		text   string
	}{
		"text":            {"Bash", sdkproto.ToolResult{Meta: meta}, long},
		"an error":        {"Bash", sdkproto.ToolResult{Error: &sdkproto.ToolError{}}, long},
		"MCP":             {"mcp__a__b", sdkproto.ToolResult{Meta: quoted(long)}, long},
		"control signs":   {"Bash", sdkproto.ToolResult{}, strings.Repeat("\x01", two)},
		"not UTF-8":       {"Bash", sdkproto.ToolResult{}, strings.Repeat("\xff", two)},
		"wide":            {"Bash", sdkproto.ToolResult{}, strings.Repeat("渐🚀\u2028", two/10)},
		"a long list":     {"Glob", sdkproto.ToolResult{Meta: list}, "many"},
		"short and quick": {"Bash", sdkproto.ToolResult{}, strings.Repeat("\x01", 50_000)},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.Legacy = true
			l := outcome(t, o, tc.tool, tc.result, sdkproto.Text(tc.text))
			got, ok := l.at("message", "content", "content").(string)
			if !ok {
				got = l.at("message", "content", "content", "text").(string)
			}
			if name == "a long list" || name == "short and quick" {
				if got != tc.text {
					t.Errorf("content of %d bytes for %d", len(got), len(tc.text))
				}
				return
			}
			kept, note, found := strings.Cut(got, "\n[")
			if !found || !strings.HasSuffix(note, " bytes are left out of this line.]") || len(kept) < 100_000 || !strings.HasPrefix(strings.ToValidUTF8(tc.text, "\ufffd")+strings.Repeat("\ufffd", 700_000), kept) {
				t.Errorf("content of %d bytes, note %q", len(kept), note)
			}
			if name == "text" {
				m := l["tool_use_result"].(map[string]any)
				if m["stderr"] != "short" || !strings.Contains(m["stdout"].(string), "left out of this line") {
					t.Errorf("structured output: stderr %q, stdout of %d", m["stderr"], len(m["stdout"].(string)))
				}
			}
		})
	}
	t.Run("the model's text", func(t *testing.T) {
		s := newScript().begin("m").say(root, "m", nil, sdkproto.Text(long[:900_000]))
		p := project.New(options())
		p.Begin(theTurn)
		if got := show(t, p, s.entries)[0].str("message", "content", "text"); len(got) != 900_000 {
			t.Errorf("%d bytes", len(got))
		}
	})
	t.Run("many images", func(t *testing.T) {
		o := options()
		o.Image = func(_ context.Context, a *sdkproto.Attachment) ([]byte, error) { return make([]byte, a.Bytes), nil }
		var content []sdkproto.Block
		for range 8 {
			content = append(content, image("image/png", 150_000))
		}
		for range 200 {
			content = append(content, sdkproto.Text(strings.Repeat("y", 10_000)))
		}
		blocks := outcome(t, o, "mcp__a__b", sdkproto.ToolResult{}, content...).at("message", "content", "content").([]any)
		images := 0
		for _, b := range blocks {
			if b.(map[string]any)["type"] == "image" {
				images++
			}
		}
		last := blocks[len(blocks)-1].(map[string]any)["text"].(string)
		if images != 3 || !strings.HasSuffix(last, " more blocks are left out of this line.]") {
			t.Errorf("%d images, %q", images, last)
		}
	})
}

// TestOneCopy: base64 stands in a line once (spec stream-json 0.2).
func TestOneCopy(t *testing.T) {
	o := options()
	bytesOf := bytes.Repeat([]byte("image"), 40_000)
	o.Image = func(context.Context, *sdkproto.Attachment) ([]byte, error) { return bytesOf, nil }
	data := base64.StdEncoding.EncodeToString(bytesOf)
	meta, _ := json.Marshal(map[string]any{"type": "image", "file": map[string]any{"base64": data}})
	l := outcome(t, o, "Read", sdkproto.ToolResult{Meta: meta}, image("image/png", len(bytesOf)))
	raw, _ := json.Marshal(l)
	if n := bytes.Count(raw, []byte(data)); n != 1 {
		t.Errorf("%d copies", n)
	}
}

// TestSeparators: what some readers take for the end of a line is escaped in
// every line, in what is passed on as well (case B91; checklist 7); the checker
// looks at every line.
func TestSeparators(t *testing.T) {
	const odd = "a\u2028b\u2029c\u0085d\ufeffe\u000bf\u000c"
	o := options()
	o.Partial, o.Legacy = true, true
	p := project.New(o)
	p.Begin(project.Turn{UUID: message, Origin: json.RawMessage(`{"kind":"` + odd[:12] + `"}`)})
	arguments, _ := json.Marshal(map[string]string{"x": odd})
	raw := strings.ReplaceAll(string(arguments), `\u2028`, "\u2028")
	s := newScript().begin("m").chunks(text(0, odd), finish(sdkproto.FinishToolCalls))
	s.say(root, "m", nil, sdkproto.Text(odd), thought(odd, odd), toolCall("c", "mcp__"+odd, raw)).call(root, "c", odd, raw)
	s.result(root, "c", sdkproto.ToolResult{Meta: json.RawMessage("{\"m\":\"\u2028\ufeff\"}")}, sdkproto.Text(odd))
	s.end(failure("SERVER", 500, odd))
	got := show(t, p, s.entries)
	for _, k := range []string{"assistant text", "text"} {
		for _, l := range of(got, k)[:1] {
			if l.str("message", "content", "text") != odd && l.str("text") != odd {
				t.Errorf("%s: %v", k, l)
			}
		}
	}
}
