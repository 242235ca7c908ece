package toolfs

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/plugins/internal/pdftext/pdftest"
)

// book is a PDF of so many pages, each with one line.
func book(pages int) *pdftest.File {
	contents := make([]string, pages)
	for i := range contents {
		contents[i] = pdftest.Lines(fmt.Sprintf("This is page %d.", i+1))
	}
	return pdftest.Document(pdftest.Helvetica, contents...)
}

// TestReadPDF: pages of a PDF by table and by compressed streams (spec stream-json 9).
func TestReadPDF(t *testing.T) {
	page := func(n, total int) string { return fmt.Sprintf("<page %d of %d>\nThis is page %d.\n", n, total, n) }
	pages := func(first, last, total int) string {
		var all []string
		for n := first; n <= last; n++ {
			all = append(all, page(n, total))
		}
		return strings.TrimSuffix(strings.Join(all, "\n"), "\n")
	}
	for _, tc := range []struct {
		name  string
		total int
		pages string
		// first and last are what is shown; 0 for an error with text.
		first, last int
		text        string
	}{
		{"one page", 1, "", 1, 1, ""},
		{"ten pages", 10, "", 1, 10, ""},
		{"too many to guess", 11, "", 0, 0, "it has 11 pages; say with pages which to give, such as 1-10, at most 20 in one call"},
		{"one of many", 30, "7", 7, 7, ""},
		{"some of many", 30, " 11 - 12 ", 11, 12, ""},
		{"twenty", 30, "1-20", 1, 20, ""},
		{"twenty-one", 30, "1-21", 0, 0, "21 pages are too many; one call gives 20, such as 1-20"},
		{"to the end", 30, "29-", 29, 30, ""},
		{"beyond the end", 30, "29-99", 29, 30, ""},
		{"behind the end", 30, "31", 0, 0, "there is no page 31; it has 30 pages"},
		{"backwards", 30, "5-3", 0, 0, `pages "5-3" is no range; write 3 or 1-5`},
		{"from nothing", 30, "0-3", 0, 0, "is no range"},
		{"no numbers", 30, "all", 0, 0, "is no range"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := claudeSetUp(t, nil)
			for form, data := range map[string][]byte{"table": book(tc.total).Table(pdftest.Root), "streams": book(tc.total).Packed(pdftest.Root)} {
				x.Put("a.pdf", string(data))
				a := args{"file_path": "a.pdf"}
				if tc.pages != "" {
					a["pages"] = tc.pages
				}
				if tc.first == 0 {
					x.Bad("Read", a, codeArguments, "cannot read", tc.text)
					continue
				}
				res := x.call("Read", a)
				if diff := cmp.Diff(pages(tc.first, tc.last, tc.total), text(res)); diff != "" || res.IsError {
					t.Errorf("%s (-want +got):\n%s", form, diff)
				}
				want := map[string]any{"type": "pdf", "file": map[string]any{
					"filePath": "$DIR/a.pdf", "base64": "", "originalSize": float64(len(data)),
					"firstPage": float64(tc.first), "lastPage": float64(tc.last), "totalPages": float64(tc.total),
				}}
				if diff := cmp.Diff(any(want), x.shape(res.Meta)); diff != "" {
					t.Errorf("%s: meta (-want +got):\n%s", form, diff)
				}
			}
		})
	}
}

// TestReadPDFSays: what there is to say of a page, and what cannot be read.
func TestReadPDFSays(t *testing.T) {
	x := claudeSetUp(t, nil)
	scan := pdftest.Document(pdftest.Helvetica, "q BI /W 1 /H 1 ID \x01 EI Q", "", pdftest.Lines("text"))
	x.Put("scan.pdf", string(scan.Table(pdftest.Root)))
	want := "<page 1 of 3>\n\n(the page has no text, only 1 image)\n\n<page 2 of 3>\n\n(the page has no text)\n\n<page 3 of 3>\ntext\n\n" +
		"(pages without text may have been scanned: make images of them with a command such as pdftoppm -png, and read those)"
	if diff := cmp.Diff(want, x.Good("Read", args{"file_path": "scan.pdf"})); diff != "" {
		t.Errorf("a scan (-want +got):\n%s", diff)
	}
	odd := pdftest.Document("/F1 << /Subtype /Type0 /Encoding /Identity-H >>", "BT /F1 9 Tf <00010002> Tj ET")
	x.Put("odd.pdf", string(odd.Table(pdftest.Root)))
	if got := x.Good("Read", args{"file_path": "odd.pdf"}); !strings.Contains(got, "\ufffd\ufffd\n(2 letters shown as \ufffd: the file does not say which they are)") {
		t.Errorf("unknown letters: %q", got)
	}
	bad := pdftest.Document(pdftest.Helvetica, pdftest.Lines("good"))
	bad.Add("<< /Type /Page /Contents 6 0 R >>")
	bad.Stream("/Filter /DCTDecode", "x")
	x.Put("bad.pdf", strings.Replace(string(bad.Table(pdftest.Root)), "/Kids [3 0 R ]", "/Kids [3 0 R 5 0 R]", 1))
	if got := x.Good("Read", args{"file_path": "bad.pdf"}); !strings.Contains(got, "good") || !strings.Contains(got, "<page 2 of 2>\n\n(the page cannot be read: ") {
		t.Errorf("a bad page: %q", got)
	}
	x.Put("secret.pdf", string(book(1).Table(pdftest.Root+" /Encrypt << /Filter /Standard >>")))
	x.Bad("Read", args{"file_path": "secret.pdf"}, codePDF, "encrypted", "qpdf --decrypt")
	x.Put("broken.pdf", "%PDF-1.7\nand no more")
	x.Bad("Read", args{"file_path": "broken.pdf"}, codePDF, "damaged")
	x.Put("a.pdf", string(book(1).Table(pdftest.Root)))
	x.Bad("Read", args{"file_path": "a.pdf", "offset": 2}, codeArguments, "use pages, such as 1-5")
	// Under dsh a PDF is a binary file like any other.
	plain := setUp(t, defaults())
	plain.Put("a.pdf", string(book(1).Packed(pdftest.Root)))
	plain.Bad("read", args{"file_path": "a.pdf"}, codeBinary)
}

// TestReadPDFBounds: a result is bounded and says how to read on, until all is read.
func TestReadPDFBounds(t *testing.T) {
	x := claudeSetUp(t, nil)
	contents := make([]string, 12)
	for i := range contents {
		lines := make([]string, 200)
		for k := range lines {
			lines[k] = fmt.Sprintf("page %d line %d %s", i+1, k+1, strings.Repeat("word ", 10))
		}
		contents[i] = pdftest.Lines(lines...)
	}
	x.Put("a.pdf", string(pdftest.Document(pdftest.Helvetica, contents...).Packed(pdftest.Root)))
	seen := 0
	for next := "1-12"; next != ""; {
		got := x.Good("Read", args{"file_path": "a.pdf", "pages": next})
		if len(got) > 51<<10 {
			t.Fatalf("a result of %d bytes", len(got))
		}
		seen += strings.Count(got, " line ")
		_, rest, more := strings.Cut(got, "(the result is full: use pages ")
		next, _, _ = strings.Cut(rest, " ")
		if !more {
			next = ""
		}
	}
	if seen != 12*200 {
		t.Errorf("%d lines were shown, want %d", seen, 12*200)
	}
	if got := x.Good("Read", args{"file_path": "a.pdf", "pages": "1-12", "allow_large": true}); len(got) < 100<<10 || len(got) > 201<<10 {
		t.Errorf("a large result has %d bytes", len(got))
	}
	x.Put("long.pdf", string(pdftest.Document(pdftest.Helvetica, pdftest.Lines(strings.Repeat("word ", 20_000))).Table(pdftest.Root)))
	if got := x.Good("Read", args{"file_path": "long.pdf"}); len(got) > 51<<10 || !strings.Contains(got, "(the page has more text than fits") {
		t.Errorf("a long page gives %d bytes", len(got))
	}
	x.Put("huge.pdf", "%PDF-1.7\n"+strings.Repeat("\n", maxPDF))
	x.Bad("Read", args{"file_path": "huge.pdf"}, codeTooLarge, "64 MiB", "pdftotext")
}

func BenchmarkReadPDF(b *testing.B) {
	x := claudeSetUp(b, nil)
	data := book(20).Packed(pdftest.Root)
	x.Put("a.pdf", string(bytes.Clone(data)))
	for b.Loop() {
		x.Good("Read", args{"file_path": "a.pdf", "pages": "1-20"})
	}
}
