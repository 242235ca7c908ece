package toolfs

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/attachment/attachmenttest"
	"dsh/plugins/attachmentlocal"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// notebookOf makes a notebook of cells in JSON.
func notebookOf(cells ...string) string {
	return `{"cells": [` + strings.Join(cells, ",") + `], "metadata": {"kernelspec": {"language": "julia"}}, "nbformat": 4, "nbformat_minor": 5}`
}

// TestReadNotebook: cells and outputs in text and in the structured result (spec
// stream-json 9).
func TestReadNotebook(t *testing.T) {
	x := claudeSetUp(t, nil)
	x.Put("n.ipynb", notebook)
	res := x.call("Read", args{"file_path": "n.ipynb"})
	const want = "<cell id=\"intro\" type=\"markdown\">\n# Title\ntext with \"cells\": [ and }\n</cell>\n" +
		"<cell id=\"calc\" type=\"code\" language=\"julia\">\n1 + 1\n</cell>\n<output>\n]}\n</output>"
	if diff := cmp.Diff(want, text(res)); diff != "" || res.IsError {
		t.Errorf("(-want +got):\n%s", diff)
	}
	meta := `{"type":"notebook","file":{"filePath":"$DIR/n.ipynb","startCell":1,"totalCells":2,"cells":[
		{"cellType":"markdown","cell_id":"intro","source":"# Title\ntext with \"cells\": [ and }"},
		{"cellType":"code","cell_id":"calc","source":"1 + 1","language":"julia","execution_count":3,"outputs":[{"output_type":"stream","text":"]}"}]}]}}`
	if diff := cmp.Diff(decoded(t, meta), x.shape(res.Meta)); diff != "" {
		t.Errorf("meta (-want +got):\n%s", diff)
	}
}

// TestReadNotebookOutputs: what the outputs of a cell look like (nbformat 4).
func TestReadNotebookOutputs(t *testing.T) {
	for name, tc := range map[string]struct{ output, want string }{
		"a stream":           {`{"output_type":"stream","name":"stdout","text":["a\n","b\n"]}`, "a\nb"},
		"one string":         {`{"output_type":"stream","name":"stdout","text":"a"}`, "a"},
		"a value":            {`{"output_type":"execute_result","data":{"text/html":["<b>"],"text/plain":["42"]},"metadata":{}}`, "42"},
		"Markdown":           {`{"output_type":"display_data","data":{"text/markdown":"*a*"}}`, "*a*"},
		"no text":            {`{"output_type":"display_data","data":{"text/html":"<b>","image/svg+xml":"<svg/>"}}`, "(an output of the type image/svg+xml, text/html, which is not shown)"},
		"an error":           {`{"output_type":"error","ename":"E","evalue":"v","traceback":["\u001b[0;31mE\u001b[0m","line 2\u001b["]}`, "E\nline 2"},
		"a bare error":       {`{"output_type":"error","ename":"ValueError","evalue":"no"}`, "ValueError: no"},
		"an image, no place": {`{"output_type":"display_data","data":{"image/png":"AAAA","text/plain":"<Figure>"}}`, "(an image of the type image/png, which is not shown here)"},
		"no characters":      {`{"output_type":"stream","text":"a\u0000b"}`, "a\ufffdb"},
		"long":               {`{"output_type":"stream","text":"` + strings.Repeat("é", 10_001) + `"}`, strings.Repeat("é", 9999) + "… (cut at 10000 characters)"},
		"nothing known":      {`{}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			x := claudeSetUp(t, nil)
			x.Put("n.ipynb", notebookOf(`{"cell_type":"code","source":[],"outputs":[`+tc.output+`]}`))
			want := "<cell id=\"cell-0\" type=\"code\" language=\"julia\">\n\n</cell>\n<output>\n" + tc.want + "\n</output>"
			if diff := cmp.Diff(want, x.Good("Read", args{"file_path": "n.ipynb"})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestReadNotebookImages: images of outputs are image blocks in their places.
func TestReadNotebookImages(t *testing.T) {
	store := attachmentlocal.NewStore(filepath.Join(t.TempDir(), "images"))
	x := claudeSetUp(t, store)
	data := attachmenttest.PNG(t, attachmenttest.Gradient(2000, 20))
	encoded := base64.StdEncoding.EncodeToString(data)
	encoded = encoded[:60] + `\n` + encoded[60:] + `\n`
	picture := `{"output_type":"display_data","data":{"image/png":"` + encoded + `","text/plain":"<Figure>"}}`
	x.Put("n.ipynb", notebookOf(`{"cell_type":"code","source":"a","outputs":[`+picture+`,{"output_type":"stream","text":"behind"}]}`, `{"cell_type":"markdown","source":"b"}`))
	res := x.call("Read", args{"file_path": "n.ipynb"})
	var kinds []string
	for _, b := range res.Content {
		kinds = append(kinds, b.Type+" "+b.Text)
	}
	want := []string{
		"text <cell id=\"cell-0\" type=\"code\" language=\"julia\">\na\n</cell>", "image ",
		"text <output>\nbehind\n</output>\n<cell id=\"cell-1\" type=\"markdown\">\nb\n</cell>",
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if a := res.Content[1].Attachment; a == nil || a.Width != 1568 || a.Name != "n.ipynb" {
		t.Errorf("the image is %+v", a)
	}
	if m := fmt.Sprint(x.shape(res.Meta)); !strings.Contains(m, "image:map[image_data: media_type:image/png]") || strings.Contains(string(res.Meta), encoded[:40]) {
		t.Errorf("meta %s", m)
	}
	many := strings.TrimSuffix(strings.Repeat(picture+",", maxPictures+1), ",")
	x.Put("n.ipynb", notebookOf(`{"cell_type":"code","source":"a","outputs":[`+many+`,{"output_type":"display_data","data":{"image/png":"AAAA"}}]}`))
	res = x.call("Read", args{"file_path": "n.ipynb"})
	images := 0
	for _, b := range res.Content {
		if b.Type == sdkproto.BlockImage {
			images++
		}
	}
	if got := text(res); images != maxPictures || !strings.Contains(got, "not shown: one call shows 10") {
		t.Errorf("%d images are shown: %q", images, got)
	}
	x.Put("n.ipynb", notebookOf(`{"cell_type":"code","source":"a","outputs":[{"output_type":"display_data","data":{"image/png":"PGh0bWw+"}},{"output_type":"display_data","data":{"image/png":"iVBORw0KGgo="}}]}`))
	if got := x.Good("Read", args{"file_path": "n.ipynb"}); !strings.Contains(got, "which is damaged") || !strings.Contains(got, "not shown: Image upload does not decode") {
		t.Errorf("bad images: %q", got)
	}
}

// TestReadNotebookParts: a long notebook is read in parts, by cells.
func TestReadNotebookParts(t *testing.T) {
	x := claudeSetUp(t, nil)
	cells := make([]string, 40)
	for i := range cells {
		cells[i] = fmt.Sprintf(`{"cell_type":"markdown","source":"cell number %d %s"}`, i+1, strings.Repeat("x", 4000))
	}
	x.Put("n.ipynb", notebookOf(cells...))
	seen, offset := 0, 1
	for offset > 0 {
		got := x.Good("Read", args{"file_path": "n.ipynb", "offset": offset})
		if len(got) > 51<<10 {
			t.Fatalf("a result of %d bytes", len(got))
		}
		seen += strings.Count(got, "cell number ")
		_, rest, more := strings.Cut(got, "use offset ")
		offset = 0
		if more {
			if _, err := fmt.Sscan(rest, &offset); err != nil {
				t.Fatal(err)
			}
		}
	}
	if seen != len(cells) {
		t.Errorf("%d cells were shown, want %d", seen, len(cells))
	}
	for a, want := range map[[2]int]string{
		{2, 1}: "(showing cells 2-2 of 40; use offset 3 to read on)", {41, 0}: "(nothing to show: the notebook has 40 cells, and cell 41 was asked for)",
	} {
		if got := x.Good("Read", args{"file_path": "n.ipynb", "offset": a[0], "limit": a[1]}); !strings.HasSuffix(got, want) {
			t.Errorf("%v: %.300q", a, got)
		}
	}
	x.Put("n.ipynb", notebookOf())
	if got := x.Good("Read", args{"file_path": "n.ipynb"}); got != "(the notebook has no cells)" {
		t.Errorf("no cells: %q", got)
	}
	outputs := strings.TrimSuffix(strings.Repeat(`{"output_type":"stream","text":"`+strings.Repeat("y", 9000)+`"},`, 10), ",")
	x.Put("n.ipynb", notebookOf(`{"cell_type":"code","source":"`+strings.Repeat("x", 20_000)+`","outputs":[`+outputs+`]}`))
	if got := x.Good("Read", args{"file_path": "n.ipynb"}); len(got) > 52<<10 || !strings.Contains(got, "outputs of this cell left out)") {
		t.Errorf("%d bytes: %.200q", len(got), got[len(got)-200:])
	}
	x.Put("n.ipynb", notebookOf(`{"cell_type":"raw","source":"`+strings.Repeat("x", 100_000)+`"}`))
	if got := x.Good("Read", args{"file_path": "n.ipynb"}); len(got) > 51<<10 || !strings.Contains(got, "… (cut here)") {
		t.Errorf("%d bytes", len(got))
	}
}

// TestReadNoNotebook: what is called a notebook and is none is shown as text.
func TestReadNoNotebook(t *testing.T) {
	for name, file := range map[string]string{
		"no JSON": "{\"cells\": [\n", "format 3": `{"worksheets": [{"cells": []}], "nbformat": 3}`, "odd cells": `{"cells": "none"}`, "another": "[1]", "text": "hello\n",
	} {
		t.Run(name, func(t *testing.T) {
			x := claudeSetUp(t, nil)
			x.Put("n.ipynb", file)
			res := x.call("Read", args{"file_path": "n.ipynb"})
			want := "1\t" + strings.TrimSuffix(file, "\n") + "\n(the file is shown as the text it is: it is no valid notebook of format 4)"
			if text(res) != want || res.IsError {
				t.Errorf("got %q, want %q", text(res), want)
			}
			var m claudeFile
			if err := wirejson.Unmarshal(res.Meta, &m); err != nil || m.Type != "text" {
				t.Errorf("meta %s: %v", res.Meta, err)
			}
		})
	}
	x := claudeSetUp(t, nil)
	x.Put("n.ipynb", "")
	if got := x.Good("Read", args{"file_path": "n.ipynb"}); !strings.HasPrefix(got, "(the file is empty)") {
		t.Errorf("an empty file: %q", got)
	}
	x.Put("n.ipynb", notebookOf(`{"cell_type":"raw","source":"`+strings.Repeat("x", maxNotebook)+`"}`))
	if got := x.Good("Read", args{"file_path": "n.ipynb"}); !strings.Contains(got, "a notebook of more than 32 MiB is shown as the JSON it is") {
		t.Errorf("a huge file: %.200q", got[len(got)-200:])
	}
	// Under dsh a notebook is text.
	plain := setUp(t, defaults())
	plain.Put("n.ipynb", notebook)
	if got := plain.Good("read", args{"file_path": "n.ipynb"}); !strings.Contains(got, `2:  "cells": [`) {
		t.Errorf("read gives %q", got)
	}
}
