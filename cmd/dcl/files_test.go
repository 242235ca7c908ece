package main

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// calling has the model make these calls, one a step, then say done.
func calling(calls ...object) string {
	var rules []any
	for i, c := range calls {
		rules = append(rules, object{"when": object{"step": i + 1}, "reply": []any{object{"call": c}}})
	}
	return encode(object{"rules": append(rules, object{"reply": "done"})})
}

func call(tool string, args object) object { return object{"tool": tool, "args": args} }

// toolOutcomes gives the tool results of a finished turn: "failed: " or "", the text, and the
// structured result.
func (h *host) toolOutcomes() (texts []string, structured []any) {
	h.t.Helper()
	for _, l := range h.of("user") {
		b := block(l)
		if b["type"] != "tool_result" {
			continue
		}
		text, _ := b["content"].(string)
		if parts, ok := b["content"].([]any); ok {
			for _, p := range parts {
				p, _ := p.(object)
				part, _ := p["text"].(string)
				text += fmt.Sprint("[", p["type"], "]", part)
			}
		}
		if b["is_error"] == true {
			text = "failed: " + text
		}
		texts, structured = append(texts, strings.ReplaceAll(text, h.room.work, "$W")), append(structured, l["tool_use_result"])
	}
	return texts, structured
}

// handmadePDF is a PDF of pages with one line each, in packed streams.
func handmadePDF(lines ...string) string {
	var b bytes.Buffer
	b.WriteString("%PDF-1.5\n")
	var offsets []int
	add := func(body string) {
		offsets = append(offsets, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(offsets), body)
	}
	var kids strings.Builder
	for i := range lines {
		fmt.Fprintf(&kids, "%d 0 R ", 4+2*i)
	}
	add("<< /Type /Catalog /Pages 2 0 R >>")
	add(fmt.Sprintf("<< /Type /Pages /Count %d /Kids [%s] >>", len(lines), kids.String()))
	add("<< /Type /Font /Subtype /Type1 /BaseFont /Courier /Encoding /WinAnsiEncoding >>")
	for i, line := range lines {
		add(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>", 5+2*i))
		var packed bytes.Buffer
		z := zlib.NewWriter(&packed)
		_, _ = fmt.Fprintf(z, "BT /F1 12 Tf 72 720 Td (%s) Tj ET", line) // a buffer takes everything
		_ = z.Close()
		add(fmt.Sprintf("<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream", packed.Len(), packed.String()))
	}
	at := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, offset := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, at)
	return b.String()
}

// What Read shows of a PDF, a notebook and a folder (issue 6, spec stream-json 9).
func TestReadOfOtherFiles(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.write("two.pdf", handmadePDF("First page, caf\xe9", "Second page"))
	r.write("many.pdf", handmadePDF("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"))
	r.write("n.ipynb", `{"cells":[{"cell_type":"code","id":"a1","execution_count":2,"source":["print(1)"],"outputs":[{"output_type":"stream","name":"stdout","text":["1\n"]}]}],"metadata":{},"nbformat":4,"nbformat_minor":5}`)
	r.write("dir/f", "")
	h := r.script(calling(
		call("Read", object{"file_path": "two.pdf"}), call("Read", object{"file_path": "many.pdf"}), call("Read", object{"file_path": "many.pdf", "pages": "11-12"}),
		call("Read", object{"file_path": "n.ipynb"}), call("Read", object{"file_path": "dir"}),
	)).start("--permission-mode", "bypassPermissions")
	h.user("go")
	h.result(1)
	texts, structured := h.toolOutcomes()
	want := []string{
		"<page 1 of 2>\nFirst page, café\n\n<page 2 of 2>\nSecond page",
		`failed: cannot read "$W/many.pdf": it has 12 pages; say with pages which to give, such as 1-10, at most 20 in one call`,
		"<page 11 of 12>\n11\n\n<page 12 of 12>\n12",
		"<cell id=\"a1\" type=\"code\" language=\"python\">\nprint(1)\n</cell>\n<output>\n1\n</output>",
		`failed: cannot read "$W/dir": it is a directory; use Glob with the pattern "$W/dir/**" to list it`,
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(r.work, "many.pdf"))
	if err != nil {
		t.Fatal(err)
	}
	pdf := object{"type": "pdf", "file": object{"filePath": filepath.Join(r.work, "many.pdf"), "base64": "", "originalSize": float64(info.Size()), "firstPage": 11.0, "lastPage": 12.0, "totalPages": 12.0}}
	if diff := cmp.Diff(any(pdf), structured[2]); diff != "" {
		t.Errorf("the PDF (-want +got):\n%s", diff)
	}
	cells := []any{object{"cellType": "code", "cell_id": "a1", "source": "print(1)", "language": "python", "execution_count": 2.0, "outputs": []any{object{"output_type": "stream", "text": "1\n"}}}}
	if diff := cmp.Diff(any(cells), dig(structured[3].(object), "file", "cells")); diff != "" || structured[3].(object)["type"] != "notebook" {
		t.Errorf("the notebook (-want +got):\n%s", diff)
	}
}

// A file that a command changed since the session read it is noticed: Write refuses
// once, Edit says so (issue 6, S060).
func TestChangedFilesAreNoticed(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.write("f", "one\n")
	write := call("Write", object{"file_path": "f", "content": "mine\n"})
	h := r.script(calling(
		call("Read", object{"file_path": "f"}), call("Bash", object{"command": "echo two >> f"}), write, write,
		call("Bash", object{"command": "echo three >> f"}), call("Edit", object{"file_path": "f", "old_string": "mine", "new_string": "ours"}), write,
	)).start("--permission-mode", "bypassPermissions")
	h.user("go")
	h.result(1)
	texts, _ := h.toolOutcomes()
	for i, want := range map[int]string{
		2: `failed: cannot write "$W/f": another program changed it since it was last read or written here, and nothing of that would be left; use Read to see what is new, or make the same call again to replace it all the same`,
		3: "The file $W/f has been updated (1 line).",
		5: "The file $W/f has been updated. Another program had changed the file since it was last read or written here. It now reads there:\n1\tours\n2\tthree",
		6: "The file $W/f has been updated (1 line).",
	} {
		if i >= len(texts) || texts[i] != want {
			t.Errorf("call %d: %q, want %q", i+1, texts, want)
		}
	}
}

// Images that Read shows, in files and in outputs of notebooks, reach a model that
// takes them, and a model that takes none is told so.
func TestImagesReachTheModel(t *testing.T) {
	t.Parallel()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 8, 4))); err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString(picture.Bytes())
	eachSpeech(t, func(t *testing.T, p *provider) {
		p.room.write("p.png", picture.String())
		p.room.write("n.ipynb", `{"cells":[{"cell_type":"code","source":"plot()","outputs":[{"output_type":"display_data","data":{"image/png":"`+encoded+`"}}]}],"nbformat":4}`)
		p.launch("--permission-mode", "bypassPermissions")
		p.server.Script(p.calls("c1", "Read", `{"file_path":"p.png"}`), p.calls("c2", "Read", `{"file_path":"n.ipynb"}`), p.says("done"))
		p.user("go")
		p.result(1)
		if n := p.attempts(); n != 3 {
			t.Fatalf("%d requests", n)
		}
		last := p.body(2)
		shown, told := strings.Count(last, encoded), strings.Count(last, "image/png, 8x4 pixels; this model is given text only")
		if p.format == "anthropic" && (shown != 2 || told != 0) || p.format == "deepseek" && (shown != 0 || told != 2) || shown+told != 2 {
			t.Errorf("%d images are shown and %d told of: %.3000s", shown, told, last)
		}
		texts, structured := p.toolOutcomes()
		if len(texts) != 2 || strings.Contains(encode(structured), encoded) {
			t.Errorf("results %q, structured %s", texts, encode(structured))
		}
	})
}
