package toolfs

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/attachment"
	"dsh/kernel/attachment/attachmenttest"
	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
	"dsh/plugins/attachmentlocal"
	"dsh/plugins/internal/pdftext/pdftest"
	"dsh/sdkproto"
)

func claudeSetUp(t testing.TB, images attachment.Store) *fixture {
	t.Helper()
	x := &fixture{}
	x.Fixture = tooltest.NewFixture(t, func(o *kernel.Owner, r *tool.Registry) error {
		c := defaults()
		c.Dialect = "claude"
		x.f = newFiles(c, o, r, images)
		return x.f.register()
	})
	return x
}

// shape is a structured result with the fixture's folder written as $DIR.
func (x *fixture) shape(raw json.RawMessage) any {
	x.T.Helper()
	if raw == nil {
		return nil
	}
	return decoded(x.T, strings.ReplaceAll(string(raw), x.Dir, "$DIR"))
}

func decoded(t testing.TB, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func TestClaudeConformance(t *testing.T) {
	x := claudeSetUp(t, nil)
	x.Put("a.txt", "one\ntwo\n")
	x.Put("huge", strings.Repeat("text\n", 2000))
	if err := os.Truncate(x.Path("huge"), 1<<40); err != nil {
		t.Fatal(err)
	}
	x.Put("e.txt", "x y\n")
	x.Put("n.ipynb", `{"cells":[{"cell_type":"code","id":"a","source":[]}],"nbformat":4,"nbformat_minor":5}`)
	x.Put("m.ipynb", notebook)
	x.Put("a.pdf", string(book(3).Packed(pdftest.Root)))
	for name, tc := range map[string]struct {
		tool tool.Tool
		o    tooltest.Options
	}{
		"Read": {x.f.read, tooltest.Options{Good: []string{`{"file_path":"a.txt","offset":1,"limit":5}`, `{"file_path":"a.txt","offset":9}`,
			`{"file_path":"a.pdf","pages":"2-3"}`, `{"file_path":"m.ipynb","offset":1,"limit":1}`, `{"file_path":"a.txt","allow_large":true}`}, NotEmpty: []string{"file_path"}, Slow: `{"file_path":"huge","offset":1000000}`}},
		"Write":        {x.f.write, tooltest.Options{Good: []string{`{"file_path":"b/c.txt","content":"hello\n"}`, `{"file_path":"b/d.txt","content":""}`}, NotEmpty: []string{"file_path"}}},
		"Edit":         {x.f.edit, tooltest.Options{Good: []string{`{"file_path":"e.txt","old_string":" y","new_string":"x y","replace_all":true}`}, NotEmpty: []string{"file_path"}}},
		"NotebookEdit": {x.f.notebook, tooltest.Options{Good: []string{`{"notebook_path":"n.ipynb","cell_id":"a","new_source":"1 + 1","cell_type":"code","edit_mode":"replace"}`}, NotEmpty: []string{"notebook_path"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.tool.Spec().Name; got != name {
				t.Errorf("the tool is called %s", got)
			}
			tc.o.CWD = x.Dir
			tooltest.TestTool(t, tc.tool, tc.o)
		})
	}
}

// TestClaudeSpecs compares with the table of spec stream-json 9.
func TestClaudeSpecs(t *testing.T) {
	x := claudeSetUp(t, nil)
	for _, tc := range []struct {
		tool     tool.Tool
		inputs   string
		readOnly bool
		subject  tool.Subject
	}{
		{x.f.read, "allow_large? file_path limit? offset? pages?", true, tool.Subject{Rule: "Read", Kind: "path", Member: "file_path"}},
		{x.f.write, "content file_path", false, tool.Subject{Rule: "Write", Kind: "path", Member: "file_path"}},
		{x.f.edit, "file_path new_string old_string replace_all?", false, tool.Subject{Rule: "Edit", Kind: "path", Member: "file_path"}},
		{x.f.notebook, "cell_id? cell_type? edit_mode? new_source notebook_path", false, tool.Subject{Rule: "NotebookEdit", Kind: "path", Member: "notebook_path"}},
	} {
		spec := tc.tool.Spec()
		if got := tooltest.Inputs(t, tc.tool); got != tc.inputs || spec.ReadOnly != tc.readOnly || spec.Subject != tc.subject {
			t.Errorf("%s: inputs %s, spec %+v", spec.Name, got, spec)
		}
	}
}

// TestClaudeRead: spec stream-json 9, peers' transcript 13.
func TestClaudeRead(t *testing.T) {
	x := claudeSetUp(t, nil)
	x.Put("two", "hello\nworld\n")
	x.Put("open", "hello\nworld")
	x.Put("crlf", "a\r\nb\r\n")
	x.Put("empty", "")
	x.Put("long", strings.Repeat("x\n", 2500))
	file := func(name, content, rest string) string {
		return `{"type":"text","file":{"filePath":"$DIR/` + name + `","content":"` + content + `",` + rest + `}}`
	}
	for _, tc := range []struct {
		name string
		args args
		text string
		meta string
	}{
		{"whole", args{"file_path": "two"}, "1\thello\n2\tworld", file("two", `hello\nworld\n`, `"numLines":2,"startLine":1,"totalLines":2`)},
		{"no line end", args{"file_path": "open"}, "1\thello\n2\tworld", file("open", `hello\nworld`, `"numLines":2,"startLine":1,"totalLines":2`)},
		{"CRLF (case B65)", args{"file_path": "crlf"}, "1\ta\n2\tb", file("crlf", `a\nb\n`, `"numLines":2,"startLine":1,"totalLines":2`)},
		{"from a line", args{"file_path": "two", "offset": 2}, "2\tworld", file("two", `world\n`, `"numLines":1,"startLine":2,"totalLines":2`)},
		{"some lines", args{"file_path": "two", "limit": 1}, "1\thello\n(showing lines 1-1 of 2; use offset 2 to read on)", file("two", `hello\n`, `"numLines":1,"startLine":1,"totalLines":2`)},
		{"empty", args{"file_path": "empty"}, "(the file is empty)", file("empty", ``, `"numLines":0,"startLine":1,"totalLines":0`)},
		{"behind the end", args{"file_path": "two", "offset": 9}, "(nothing to show: the file has 2 lines, and line 9 was asked for)", file("two", ``, `"numLines":0,"startLine":9,"totalLines":2`)},
		{"truncated", args{"file_path": "long", "offset": 2, "limit": 2}, "2\tx\n3\tx\n(showing lines 2-3 of 2500; use offset 4 to read on)", file("long", `x\nx\n`, `"numLines":2,"startLine":2,"totalLines":2500`)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res := x.call("Read", tc.args)
			if text(res) != tc.text || res.IsError {
				t.Errorf("got %q, want %q", text(res), tc.text)
			}
			if diff := cmp.Diff(decoded(t, tc.meta), x.shape(res.Meta)); diff != "" {
				t.Errorf("meta (-want +got):\n%s", diff)
			}
		})
	}
	if got := x.Good("Read", args{"file_path": "long"}); !strings.HasSuffix(got, "2000\tx\n(showing lines 1-2000 of 2500; use offset 2001 to read on)") {
		t.Errorf("got %.100q", got[len(got)-100:])
	}
}

// TestClaudeErrors: no text begins with "Error: ", and none names a tool of the
// other dialect.
func TestClaudeErrors(t *testing.T) {
	x := claudeSetUp(t, nil)
	x.Put("a.txt", "one\ntwo\ntwo\n")
	x.Put("bin", "\x00\x01")
	x.Put("dir/f", "")
	for _, tc := range []struct {
		tool string
		args args
		code string
		text string
	}{
		{"Read", args{"file_path": "a.txt", "pages": "1"}, "INVALID_ARGUMENTS", "it is no PDF file; use offset and limit"},
		{"Read", args{"file_path": "missing"}, "FS_NOT_FOUND", `cannot read "$DIR/missing": not found`},
		{"Read", args{"file_path": "dir"}, "FS_NOT_A_FILE", `cannot read "$DIR/dir": it is a directory; use Glob with the pattern "$DIR/dir/**" to list it`},
		{"Read", args{"file_path": "bin"}, "FS_BINARY", `cannot read "$DIR/bin": it is binary`},
		{"Edit", args{"file_path": "a.txt", "old_string": "two", "new_string": "2"}, "FS_NOT_UNIQUE", `cannot edit "$DIR/a.txt": old_string is in it 2 times, lines 2, 3; add lines around it`},
		{"Edit", args{"file_path": "a.txt", "old_string": "three", "new_string": "3"}, "FS_NO_MATCH", `cannot edit "$DIR/a.txt": old_string is not in it`},
		{"Edit", args{"file_path": "a.txt", "old_string": "1\tone\n2\ttwo", "new_string": "3"}, "FS_NO_MATCH", "leave out the line numbers that Read puts in front of each line"},
		{"Edit", args{"file_path": "a.txt", "old_string": "x", "new_string": "x"}, "INVALID_ARGUMENTS", "are the same"},
		{"Edit", args{"file_path": "a.txt", "old_string": "", "new_string": "x"}, "INVALID_ARGUMENTS", "to replace all of it use Write"},
		{"Write", args{"file_path": "dir", "content": ""}, "FS_NOT_A_FILE", `cannot write "$DIR/dir": it is a directory`},
		{"NotebookEdit", args{"notebook_path": "a.txt", "new_source": "", "cell_id": "0"}, "INVALID_ARGUMENTS", "it is no notebook"},
	} {
		res := x.call(tc.tool, tc.args)
		if !res.IsError || res.Error.Code != tc.code || strings.HasPrefix(text(res), "Error") || res.Meta != nil ||
			!strings.Contains(strings.ReplaceAll(text(res), x.Dir, "$DIR"), tc.text) {
			t.Errorf("%s %v: got %+v %q", tc.tool, tc.args, res.Error, text(res))
		}
	}
}

// TestClaudeWriteEdit: spec stream-json 9, peers' transcript 15. A file is edited
// that was never read (S060).
func TestClaudeWriteEdit(t *testing.T) {
	x := claudeSetUp(t, nil)
	for _, step := range []struct {
		name, tool string
		args       args
		text, meta string
	}{
		{"create", "Write", args{"file_path": "new", "content": "alpha\nbeta\n"}, "The file $DIR/new has been created (2 lines).",
			`{"type":"create","filePath":"$DIR/new","content":"alpha\nbeta\n","structuredPatch":[],"originalFile":null,"userModified":false}`},
		{"edit", "Edit", args{"file_path": "new", "old_string": "beta", "new_string": "gamma"}, "The file $DIR/new has been updated. It now reads there:\n1\talpha\n2\tgamma",
			`{"filePath":"$DIR/new","oldString":"beta","newString":"gamma","originalFile":"alpha\nbeta\n","structuredPatch":[{"oldStart":1,"oldLines":2,"newStart":1,"newLines":2,"lines":[" alpha","-beta","+gamma"]}],"userModified":false,"replaceAll":false}`},
		{"replace", "Write", args{"file_path": "new", "content": "alpha\n\ndelta"}, "The file $DIR/new has been updated (3 lines).",
			`{"type":"update","filePath":"$DIR/new","content":"alpha\n\ndelta","structuredPatch":[{"oldStart":1,"oldLines":2,"newStart":1,"newLines":3,"lines":[" alpha","-gamma","+","+delta","\\ No newline at end of file"]}],"originalFile":"alpha\ngamma\n","userModified":false}`},
		{"create by edit", "Edit", args{"file_path": "other", "old_string": "", "new_string": "x\n"}, "The file $DIR/other has been created. It now reads there:\n1\tx",
			`{"filePath":"$DIR/other","oldString":"","newString":"x\n","originalFile":null,"structuredPatch":[{"oldStart":1,"oldLines":0,"newStart":1,"newLines":1,"lines":["+x"]}],"userModified":false,"replaceAll":false}`},
	} {
		res := x.call(step.tool, step.args)
		if got := strings.ReplaceAll(text(res), x.Dir, "$DIR"); got != step.text || res.IsError {
			t.Errorf("%s: got %q, want %q", step.name, got, step.text)
		}
		if diff := cmp.Diff(decoded(t, step.meta), x.shape(res.Meta)); diff != "" {
			t.Errorf("%s: meta (-want +got):\n%s", step.name, diff)
		}
	}
	if got := x.get("new"); got != "alpha\n\ndelta" {
		t.Errorf("the file holds %q", got)
	}
}

// TestClaudeBounds: what is too long for a structured result is left out, and the
// result says so (checklist 8).
func TestClaudeBounds(t *testing.T) {
	x := claudeSetUp(t, nil)
	long := strings.Repeat("line of text\n", 100_000)
	x.Put("long", long+"end\n")
	res := x.call("Edit", args{"file_path": "long", "old_string": "end", "new_string": "END"})
	var edited claudeEdited
	if err := json.Unmarshal(res.Meta, &edited); err != nil || res.IsError {
		t.Fatal(err, text(res))
	}
	// The patch is that of the place, however long the file.
	patch := []hunk{{99998, 4, 99998, 4, []string{" line of text", " line of text", " line of text", "-end", "+END"}}}
	if want := []string{"originalFile"}; edited.OriginalFile != nil || !cmp.Equal(want, edited.Omitted) || edited.NewString != "END" || !cmp.Equal(patch, edited.StructuredPatch) {
		t.Errorf("%d bytes of meta, omitted %q, patch %+v", len(res.Meta), edited.Omitted, edited.StructuredPatch)
	}
	res = x.call("Write", args{"file_path": "long", "content": long})
	var written claudeWritten
	if err := json.Unmarshal(res.Meta, &written); err != nil || res.IsError {
		t.Fatal(err, text(res))
	}
	if want := []string{"content", "originalFile"}; written.Content != "" || written.Type != "update" || !cmp.Equal(want, written.Omitted) {
		t.Errorf("%d bytes of meta, omitted %q", len(res.Meta), written.Omitted)
	}
	if x.get("long") != long {
		t.Error("the file does not hold what was written")
	}
	res = x.call("Edit", args{"file_path": "long", "old_string": "line", "new_string": "word", "replace_all": true})
	if err := json.Unmarshal(res.Meta, &edited); err != nil || len(text(res)) > 20_000 || !cmp.Equal([]string{"originalFile", "structuredPatch"}, edited.Omitted) {
		t.Errorf("%v, %d bytes of text, omitted %q", err, len(text(res)), edited.Omitted)
	}
}

// TestClaudeImage: an image is an image block, and not in the structured result
// (spec stream-json 3.4, 0.2 item 6).
func TestClaudeImage(t *testing.T) {
	store := attachmentlocal.NewStore(filepath.Join(t.TempDir(), "images"))
	x := claudeSetUp(t, store)
	m := attachmenttest.Gradient(30, 20)
	for name, data := range map[string][]byte{"image/png": attachmenttest.PNG(t, m), "image/jpeg": attachmenttest.JPEG(t, m), "image/gif": attachmenttest.GIF(t, m)} {
		x.Put("picture", string(data))
		res := x.call("Read", args{"file_path": "picture"})
		if res.IsError || len(res.Content) != 1 || res.Content[0].Type != sdkproto.BlockImage || res.Content[0].Attachment == nil {
			t.Fatalf("%s: got %+v", name, res)
		}
		if kept, err := store.Read(t.Context(), res.Content[0].Attachment.AttachmentID); err != nil || len(kept) == 0 {
			t.Errorf("%s: the store has %d bytes: %v", name, len(kept), err)
		}
		want := map[string]any{"type": "image", "file": map[string]any{
			"base64": "", "type": res.Content[0].Attachment.MediaType, "originalSize": float64(len(data)),
			"dimensions": map[string]any{"originalWidth": 30.0, "originalHeight": 20.0, "displayWidth": 30.0, "displayHeight": 20.0},
		}}
		if diff := cmp.Diff(any(want), x.shape(res.Meta)); diff != "" {
			t.Errorf("%s: meta (-want +got):\n%s", name, diff)
		}
	}
	x.Put("broken", "\x89PNG\r\n\x1a\nand no more")
	x.Bad("Read", args{"file_path": "broken"}, "FS_IMAGE", "cannot read")

	// Without a place for images they are refused as before.
	plain := claudeSetUp(t, nil)
	plain.Put("p", string(attachmenttest.PNG(t, m)))
	plain.Bad("Read", args{"file_path": "p"}, "FS_BINARY")
}

// TestClaudeImageLimits: an image is shown in a size that providers take, and one that
// is too large to decode is refused by its header.
func TestClaudeImageLimits(t *testing.T) {
	store := attachmentlocal.NewStore(filepath.Join(t.TempDir(), "images"))
	x := claudeSetUp(t, store)
	x.Put("wide.png", string(attachmenttest.PNG(t, attachmenttest.Gradient(3136, 100))))
	res := x.call("Read", args{"file_path": "wide.png"})
	if res.IsError || len(res.Content) != 2 || text(res) != "(the image has 3136x100 pixels and is shown with 1568x50)" {
		t.Fatalf("got %+v", res.Content)
	}
	if a := res.Content[0].Attachment; a.Width != 1568 || a.Height != 50 {
		t.Errorf("it is shown as %dx%d", a.Width, a.Height)
	}
	const dimensions = "map[displayHeight:50 displayWidth:1568 originalHeight:100 originalWidth:3136]"
	if m := fmt.Sprint(x.shape(res.Meta)); !strings.Contains(m, dimensions) {
		t.Errorf("meta %s", m)
	}
	// As base64 it has at most 5 MiB.
	asked := &asks{Store: store}
	x.f.images = asked
	x.Good("Read", args{"file_path": "wide.png"})
	if u := asked.upload; base64.StdEncoding.EncodedLen(u.MaxBytes) != 5<<20 || u.MaxEdge != 1568 || u.Name != "wide.png" {
		t.Errorf("the store is asked for %d bytes, %d pixels, the name %q", u.MaxBytes, u.MaxEdge, u.Name)
	}
	// A header of 60000x60000 pixels in front of nothing.
	bomb := attachmenttest.PNG(t, attachmenttest.Gradient(1, 1))
	binary.BigEndian.PutUint32(bomb[16:], 60_000)
	binary.BigEndian.PutUint32(bomb[20:], 60_000)
	binary.BigEndian.PutUint32(bomb[29:], crc32.ChecksumIEEE(bomb[12:29]))
	x.Put("bomb.png", string(bomb))
	grown := allocated(func() { x.Bad("Read", args{"file_path": "bomb.png"}, codeImage, "60000x60000 pixels") })
	if grown > 10<<20 {
		t.Errorf("%d MiB were allocated", grown>>20)
	}
	x.Put("huge.png", "\x89PNG\r\n\x1a\n")
	if err := os.Truncate(x.Path("huge.png"), maxImage+1); err != nil {
		t.Fatal(err)
	}
	x.Bad("Read", args{"file_path": "huge.png"}, codeTooLarge, "20 MiB")
	// What is only called an image is what it is (case B46).
	x.Put("fake.png", "<html>no picture</html>\n")
	if got := x.Good("Read", args{"file_path": "fake.png"}); got != "1\t<html>no picture</html>" {
		t.Errorf("got %q", got)
	}
}

// asks is a store that remembers what it was last asked for.
type asks struct {
	attachment.Store
	upload attachment.Upload
}

func (a *asks) Admit(ctx context.Context, batch []attachment.Upload) ([]sdkproto.Attachment, error) {
	a.upload = batch[0]
	return a.Store.Admit(ctx, batch)
}

// TestClaudeAllowLarge: four times as much text on request.
func TestClaudeAllowLarge(t *testing.T) {
	x := claudeSetUp(t, nil)
	x.Put("f", strings.Repeat(strings.Repeat("x", 99)+"\n", 3000))
	for _, large := range []bool{false, true} {
		got := x.Good("Read", args{"file_path": "f", "allow_large": large})
		most := 50 << 10
		if large {
			most *= 4
		}
		if len(got) > most+100 || len(got) < most-200 || !strings.Contains(got, "showing lines 1-") {
			t.Errorf("allow_large %v: %d bytes", large, len(got))
		}
	}
	x.Put("short lines", strings.Repeat("x\n", 9000))
	if got := x.Good("Read", args{"file_path": "short lines", "allow_large": true}); !strings.Contains(got, "showing lines 1-8000 of 9000") {
		t.Errorf("%.100q", got[len(got)-100:])
	}
}

// TestReadImage: the dialect dsh has a tool of its own for images (spec jsonrpc 11.4).
func TestReadImage(t *testing.T) {
	store := attachmentlocal.NewStore(filepath.Join(t.TempDir(), "images"))
	x := &fixture{}
	x.Fixture = tooltest.NewFixture(t, func(o *kernel.Owner, r *tool.Registry) error {
		x.f = newFiles(defaults(), o, r, store)
		return x.f.register()
	})
	x.Put("p.png", string(attachmenttest.PNG(t, attachmenttest.Gradient(30, 20))))
	x.Put("wide.gif", string(attachmenttest.GIF(t, attachmenttest.Gradient(1600, 4))))
	x.Put("broken", "\x89PNG\r\n\x1a\nand no more")
	x.Put("text.png", "text\n")
	x.Put("empty.png", "")
	x.Put("dir/f", "")
	res := x.call("read_image", args{"file_path": "p.png"})
	if res.IsError || len(res.Content) != 1 || res.Content[0].Attachment == nil || res.Content[0].Attachment.Width != 30 || res.Meta != nil {
		t.Errorf("got %+v", res)
	}
	if got := x.Good("read_image", args{"file_path": "wide.gif"}); got != "(the image has 1600x4 pixels and is shown with 1568x4)" {
		t.Errorf("got %q", got)
	}
	x.Bad("read_image", args{"file_path": "broken"}, codeImage, "cannot read")
	x.Bad("read_image", args{"file_path": "text.png"}, codeImage, "it is no image", "use read")
	x.Bad("read_image", args{"file_path": "empty.png"}, codeImage, "it is no image")
	x.Bad("read_image", args{"file_path": "dir"}, codeNotFile, "it is a directory")
	x.Bad("read_image", args{"file_path": "missing"}, codeNotFound, "not found")
	x.Bad("read", args{"file_path": "p.png"}, codeBinary, "use read_image")
	if got := tooltest.Inputs(t, x.f.readImage); got != "file_path" || !x.f.readImage.Spec().ReadOnly {
		t.Errorf("inputs %s", got)
	}
	// The suite wants text from every call: an image that is scaled has it.
	tooltest.TestTool(t, x.f.readImage, tooltest.Options{CWD: x.Dir, Good: []string{`{"file_path":"wide.gif"}`}, NotEmpty: []string{"file_path"}})
}
