package pdftext_test

import (
	"bytes"
	"context"
	"encoding/ascii85"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/plugins/internal/pdftext"
	"dsh/plugins/internal/pdftext/pdftest"
)

// read gives the pages of a file.
func read(t *testing.T, data []byte) (pages []pdftext.Page) {
	t.Helper()
	d, err := pdftext.Open(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.Pages() {
		p, err := d.Page(t.Context(), i+1)
		if err != nil {
			t.Fatalf("page %d: %v", i+1, err)
		}
		pages = append(pages, p)
	}
	return pages
}

func one(t *testing.T, data []byte) pdftext.Page {
	t.Helper()
	pages := read(t, data)
	if len(pages) != 1 {
		t.Fatalf("%d pages, want 1", len(pages))
	}
	return pages[0]
}

// TestContent: what the operators of ISO 32000-1, 9.4 and 8.10 put on a page.
func TestContent(t *testing.T) {
	const font = "BT /F1 10 Tf 14 TL 72 700 Td "
	for name, tc := range map[string]struct{ content, want string }{
		"a line": {font + "(Hello) Tj ET", "Hello"},
		"escapes": {font + `(a\(b\) \101\60z\\ (x) \
y) Tj ET`, `a(b) A0z\ (x) y`},
		"hexadecimal, odd":            {font + "<48 65 6c6C 6f2> Tj ET", "Hello"},
		"the encoding":                {font + "(caf\xe9 \x93quoted\x94 \x96 5\x80) Tj ET", "café “quoted” – 5€"},
		"lines":                       {font + "(a) Tj T* (b) Tj (c) ' 1 2 (d) \" ET", "a\nb\nc\nd"},
		"TD sets the leading":         {font + "(a) Tj 0 -12 TD (b) Tj T* (c) Tj ET", "a\nb\nc"},
		"a paragraph":                 {font + "(a) Tj 0 -30 Td (b) Tj ET", "a\n\nb"},
		"kerning is no gap":           {font + "[(A) 80 (V) -30 (A)] TJ ET", "AVA"},
		"a gap is one":                {font + "[(two) -300 (words)] TJ ET", "two words"},
		"a gap beside a blank":        {font + "[(two ) -300 (words)] TJ ET", "two words"},
		"placed on one line":          {font + "(left) Tj 200 0 Td (right) Tj ET", "left right"},
		"placed where the last ended": {font + "(ab) Tj 10 0 Td (cd) Tj ET", "abcd"}, // a letter is half the size wide
		"back to the left":            {font + "(right) Tj -60 0 Td (left) Tj ET", "right\nleft"},
		"raised a little":             {font + "(x) Tj 4 Ts (2) Tj 0 Ts (y) Tj ET", "x2y"},
		"turned text":                 {"BT /F1 10 Tf 0 1 -1 0 50 50 Tm (up) Tj 0 -14 Td (next) Tj ET", "up\nnext"},
		"scaled by the page":          {"q 0.1 0 0 0.1 0 0 cm BT /F1 100 Tf 700 7000 Td (a) Tj 50 0 Td (b) Tj 0 -140 Td (c) Tj ET Q", "ab\nc"},
		"a picture in the stream":     {font + "(a) Tj ET BI /W 1 /H 1 /BPC 8 ID \x01EI\x02(x) Tj EI BT /F1 10 Tf 72 600 Td (b) Tj ET", "a\n\nb"},
		"comments and bad words":      {"% no\n" + font + "(a) Tj bogus [1 2 << /x (y) >> ] nonsense (b) Tj ET", "ab"},
		"operands that lack":          {font + "Tj [ ] TJ Td Tm (a) Tj ET", "a"},
		"cut in a string":             {font + "(a) Tj (b", "a"},
		"a tab":                       {font + "(a\\tb) Tj ET", "a b"},
		"a font that is not there":    {"BT /F9 10 Tf 0 0 Td (plain) Tj ET", "plain"},
		"nothing":                     {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := one(t, pdftest.Document(pdftest.Helvetica, tc.content).Table(pdftest.Root))
			if diff := cmp.Diff(pdftext.Page{Text: tc.want, Images: strings.Count(tc.content, " ID ")}, p); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestFonts: what codes mean (ISO 32000-1, 9.6, 9.7, 9.10).
func TestFonts(t *testing.T) {
	const mapping = `/CIDInit /ProcSet findresource begin 12 dict begin begincmap
1 begincodespacerange <0000> <FFFF> endcodespacerange
2 beginbfchar <0001> <0041> <0002> <00660069> endbfchar
3 beginbfrange <0010> <0012> <03B1> <0020> <0021> [<D83DDE00> <0042>] <0030> <0030> <00480069> endbfrange
endcmap end end`
	for name, tc := range map[string]struct {
		font, mapping, show, want string
		unknown                   int
	}{
		"names of letters":       {font: "/Subtype /Type1 /Encoding << /Differences [65 /eacute /Scaron /ffi /uni20AC /u1F600 /alpha /f_l /a.sc /g42 200 /Ccaron] >>", show: "(ABCDEFGHI\\310@)", want: "éŠffi€😀αfla\ufffdČ@", unknown: 1},
		"Mac letters":            {font: "/Subtype /TrueType /Encoding /MacRomanEncoding", show: "<8e dc df>", want: "é‹ﬂ"},
		"the standard encoding":  {font: "/Subtype /Type1", show: "(it's \\256 \\341 \\373)", want: "it’s ﬁ Æ ß"},
		"widths":                 {font: "/Subtype /Type1 /FirstChar 97 /Widths [1000 1000]", show: "(a) Tj 10 0 Td (b) Tj 18 0 Td (c)", want: "ab c"},
		"letters of a form type": {font: "/Subtype /Type3 /FontMatrix [0.01 0 0 0.01 0 0] /FirstChar 97 /Widths [100 100] /Encoding << /Differences [97 /a /b] >>", show: "(a) Tj 10 0 Td (b)", want: "ab"},
		"mapped codes":           {font: "/Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<< /DW 500 >>]", mapping: mapping, show: "<00010002001000110012002000210030>", want: "Afiαβγ😀BHi"},
		"mapped, some unknown":   {font: "/Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<< >>]", mapping: mapping, show: "<00010013>", want: "A\ufffd", unknown: 1},
		"codes that nobody maps": {font: "/Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<< >>]", show: "<00410042>", want: "\ufffd\ufffd", unknown: 2},
		"UTF-16 codes":           {font: "/Subtype /Type0 /Encoding /UniGB-UCS2-H /DescendantFonts [<< >>]", show: "<4e16754c>", want: "世界"},
		"one byte, mapped":       {font: "/Subtype /TrueType", mapping: "1 begincodespacerange <00> <FF> endcodespacerange 1 beginbfchar <61> <0416> endbfchar", show: "(ab)", want: "Жb"},
		"codes of two lengths":   {font: "/Subtype /Type0 /Encoding /GBK-EUC-H /DescendantFonts [<< >>]", mapping: "2 begincodespacerange <00> <80> <8140> <FEFE> endcodespacerange 2 beginbfchar <61> <0061> <8140> <4E02> endbfchar", show: "<61814061>", want: "a丂a"},
		"wide widths":            {font: "/Subtype /Type0 /Encoding /UniGB-UCS2-H /DescendantFonts [<< /W [97 [1000] 98 99 2000] >>]", show: "<0061> Tj 10 0 Td <0062> Tj 20 0 Td <0063> Tj 28 0 Td <0064>", want: "abc d"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, filter := range []string{"", "/FlateDecode"} {
				f := pdftest.Document("/F1 5 0 R", "BT /F1 10 Tf 72 700 Td "+tc.show+" Tj ET")
				more := ""
				if tc.mapping != "" {
					more = "/ToUnicode 6 0 R"
				}
				f.Add("<< /Type /Font " + tc.font + more + " >>")
				if filter == "" {
					f.Stream("", tc.mapping)
				} else {
					f.Stream("/Filter "+filter, pdftest.Deflated(tc.mapping))
				}
				if diff := cmp.Diff(pdftext.Page{Text: tc.want, Unknown: tc.unknown}, one(t, f.Table(pdftest.Root))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestForms: a form is a content stream with resources of its own; a picture is
// counted.
func TestForms(t *testing.T) {
	f := &pdftest.File{}
	f.Add("<< /Type /Catalog /Pages 2 0 R >>")
	f.Add("<< /Type /Pages /Count 1 /Kids [3 0 R] >>")
	f.Add("<< /Type /Page /Contents [4 0 R 5 0 R] /Resources << /Font << " + pdftest.Helvetica + " >> /XObject << /X 6 0 R /P 7 0 R >> >> >>")
	f.Stream("", "BT /F1 10 Tf 72 700 Td (before) Tj ET /X D")
	f.Stream("", "BT /F1 10 Tf 72 600 Td (behind) Tj ET /X Do /P Do")
	f.Stream("/Type /XObject /Subtype /Form /Matrix [1 0 0 1 0 -100] /Resources << /Font << "+pdftest.Helvetica+" >> /XObject << /X 6 0 R >> >>", "BT /F1 10 Tf 72 688 Td (in the form) Tj ET")
	f.Stream("/Type /XObject /Subtype /Image /Filter /DCTDecode", "\xff\xd8\xff")
	if diff := cmp.Diff(pdftext.Page{Text: "before\n\nbehind\nin the form", Images: 1}, one(t, f.Table(pdftest.Root))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFilters: ISO 32000-1, 7.4.
func TestFilters(t *testing.T) {
	content := pdftest.Lines(strings.Repeat("the same words again ", 20), "and other words")
	plain85 := make([]byte, ascii85.MaxEncodedLen(len(content)))
	plain85 = plain85[:ascii85.Encode(plain85, []byte(content))]
	deflated := pdftest.Deflated(content)
	for name, tc := range map[string]struct{ dict, data string }{
		"none":               {"", content},
		"deflate":            {"/Filter /FlateDecode", deflated},
		"deflate, in a list": {"/Filter [/FlateDecode] /DecodeParms [null]", deflated},
		"deflate, cut":       {"/Filter /FlateDecode", deflated[:len(deflated)-4]},
		"hexadecimal":        {"/Filter /ASCIIHexDecode", hex.EncodeToString([]byte(content)) + ">"},
		"base 85":            {"/Filter /ASCII85Decode", string(plain85) + "~>"},
		"two":                {"/Filter [/ASCIIHexDecode /FlateDecode]", hex.EncodeToString([]byte(deflated)) + ">"},
		"run lengths":        {"/Filter /RunLengthDecode", runLengths(content)},
		"differences":        {"/Filter /FlateDecode /DecodeParms << /Predictor 15 /Columns 5 >>", pdftest.Deflated(differences(content))},
	} {
		t.Run(name, func(t *testing.T) {
			f := &pdftest.File{}
			f.Add("<< /Type /Catalog /Pages 2 0 R >>")
			f.Add("<< /Type /Pages /Kids [3 0 R] /Resources << /Font << " + pdftest.Helvetica + " >> >> >>")
			f.Add("<< /Type /Page /Contents 4 0 R >>")
			f.Stream(tc.dict, tc.data)
			want := strings.TrimSpace(strings.Repeat("the same words again ", 20)) + "\nand other words"
			if diff := cmp.Diff(want, one(t, f.Table(pdftest.Root)).Text); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// runLengths encodes every second byte as a run of one.
func runLengths(data string) string {
	var b bytes.Buffer
	for i := 0; i < len(data); {
		if i%2 == 0 {
			end := min(len(data), i+100)
			b.WriteByte(byte(end - i - 1))
			b.WriteString(data[i:end])
			i = end
			continue
		}
		b.WriteByte(0)
		b.WriteByte(data[i])
		i++
	}
	b.WriteByte(128)
	return b.String()
}

// differences encodes rows of five bytes with each of the five PNG filters.
func differences(data string) string {
	for len(data)%5 != 0 {
		data += " "
	}
	var b bytes.Buffer
	above := make([]byte, 5)
	for n := 0; n*5 < len(data); n++ {
		row := []byte(data[n*5 : n*5+5])
		kind := n % 5
		b.WriteByte(byte(kind))
		for i, c := range row {
			var left, corner byte
			if i > 0 {
				left, corner = row[i-1], above[i-1]
			}
			guess := [5]int{0, int(left), int(above[i]), (int(left) + int(above[i])) / 2, 0}
			a, u, k := int(left), int(above[i]), int(corner)
			abs := func(n int) int { return max(n, -n) }
			p := a + u - k
			switch {
			case abs(p-a) <= abs(p-u) && abs(p-a) <= abs(p-k):
				guess[4] = a
			case abs(p-u) <= abs(p-k):
				guess[4] = u
			default:
				guess[4] = k
			}
			b.WriteByte(c - byte(guess[kind]))
		}
		above = row
	}
	return b.String()
}

func threePages() *pdftest.File {
	return pdftest.Document(pdftest.Helvetica, pdftest.Lines("first"), pdftest.Lines("second"), pdftest.Lines("third"))
}

// TestContainers: ways to say where the objects are, also wrong ones (ISO 32000-1,
// 7.5).
func TestContainers(t *testing.T) {
	table := threePages().Table(pdftest.Root)
	packed := threePages().Packed(pdftest.Root)
	update := func() []byte {
		old := bytes.LastIndex(table, []byte("xref\n0 "))
		body := string(table) + "4 0 obj\n" + pdftest.StreamOf("", pdftest.Lines("changed")) + "\nendobj\n"
		return fmt.Appendf([]byte(body), "xref\n4 1\n%010d 00000 n \ntrailer\n<< /Size 9 /Root 1 0 R /Prev %d >>\nstartxref\n%d\n%%%%EOF\n", len(table), old, len(body))
	}()
	// The table hides the first page's text, which older readers shall not see.
	hybrid := func() []byte {
		line := regexp.MustCompile(`(?m)^(\d{10}) 00000 n $`).FindAllSubmatch(table, -1)[3]
		offset, _ := strconv.Atoi(string(line[1]))
		hidden := bytes.Replace(table[:bytes.LastIndex(table, []byte("trailer"))], line[0], []byte("0000000000 00000 f "), 1)
		at := len(hidden)
		row := string([]byte{1, byte(offset >> 8), byte(offset), 0})
		hidden = fmt.Appendf(hidden, "9 0 obj\n%s\nendobj\n", pdftest.StreamOf("/Type /XRef /Size 10 /W [1 2 1] /Index [4 1]", row))
		// The trailer of the table stands behind its rows: the stream goes elsewhere.
		rows := hidden[bytes.LastIndex(hidden, []byte("xref\n0 ")):at]
		body := append(bytes.Clone(hidden[:at-len(rows)]), hidden[at:]...)
		stream := at - len(rows)
		return fmt.Appendf(append(body, rows...), "trailer\n<< /Size 10 /Root 1 0 R /XRefStm %d >>\nstartxref\n%d\n%%%%EOF\n", stream, len(body))
	}()
	cut := func(data []byte, word string) []byte { return data[:bytes.LastIndex(data, []byte(word))] }
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"a table":                         {table, "first second third"},
		"streams":                         {packed, "first second third"},
		"a table and a stream":            {hybrid, "first second third"},
		"changed at the end":              {update, "changed second third"},
		"something in front":              {append([]byte("\r\nHTTP junk\n"), table...), "first second third"},
		"something behind":                {append(bytes.Clone(table), "\n<html>\n"...), "first second third"},
		"wrong offsets":                   {bytes.Replace(table, []byte("\n1 0 obj"), []byte("\n     1 0 obj"), 1), "first second third"},
		"no table":                        {cut(table, "xref\n0 "), "first second third"},
		"no table, streams":               {cut(packed, "startxref"), "first second third"},
		"cut in the last page":            {cut(table, "(third)"), "first second "},
		"the old table is a circle":       {bytes.Replace(update, []byte("/Prev "), []byte("/Prev 1 % "), 1), "changed second third"},
		"a wrong length":                  {bytes.ReplaceAll(table, []byte("/Length "), []byte("/Length 9")), "first second third"},
		"a version that comes":            {bytes.Replace(table, []byte("%PDF-1.7"), []byte("%PDF-2.0"), 1), "first second third"},
		"a table that promises too much":  {bytes.Replace(table, []byte("xref\n0 "), []byte("xref\n0 99999999"), 1), "first second third"},
		"a stream that promises too much": {bytes.Replace(packed, []byte("/Size "), []byte("/Size 99999999"), 1), "first second third"},
	} {
		t.Run(name, func(t *testing.T) {
			var texts []string
			for _, p := range read(t, tc.data) {
				texts = append(texts, p.Text)
			}
			if got := strings.Join(texts, " "); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	noPages := &pdftest.File{}
	noPages.Add("<< /Type /Catalog /Pages 2 0 R >>")
	noPages.Add("<< /Type /Pages /Kids [2 0 R 2 0 R 9 0 R 3 0 R] >>")
	noPages.Add("<< /Type /Pages /Kids [2 0 R] >>")
	circle := &pdftest.File{}
	circle.Add("2 0 R")
	circle.Add("1 0 R")
	for name, tc := range map[string]struct {
		data []byte
		want error
	}{
		"nothing":             {nil, pdftext.ErrMalformed},
		"only a header":       {[]byte("%PDF-1.4\n"), pdftext.ErrMalformed},
		"another file":        {bytes.Repeat([]byte("words "), 1000), pdftext.ErrMalformed},
		"pages in a circle":   {noPages.Table(pdftest.Root), pdftext.ErrMalformed},
		"a root in a circle":  {circle.Table(pdftest.Root), pdftext.ErrMalformed},
		"encrypted":           {threePages().Table(pdftest.Root + " /Encrypt << /Filter /Standard >>"), pdftext.ErrEncrypted},
		"encrypted, streams":  {threePages().Packed(pdftest.Root + " /Encrypt << /Filter /Standard >>"), pdftext.ErrEncrypted},
		"encrypted, no table": {append(bytes.TrimSuffix(threePages().Table(pdftest.Root+" /Encrypt 99 0 R"), []byte("%%EOF\n")), "startxref 5"...), pdftext.ErrEncrypted},
	} {
		t.Run(name, func(t *testing.T) {
			if d, err := pdftext.Open(t.Context(), tc.data); !errors.Is(err, tc.want) || d != nil {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
	d, err := pdftext.Open(t.Context(), threePages().Table(pdftest.Root))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 4} {
		if _, err := d.Page(t.Context(), n); err == nil || !strings.Contains(err.Error(), "the document has 3") {
			t.Errorf("page %d: %v", n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	long := pdftest.Document(pdftest.Helvetica, strings.Repeat("0 0 m\n", 100_000)).Table(pdftest.Root)
	if d, err = pdftext.Open(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Page(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a page that nobody wants: %v", err)
	}
}

// TestBombs: a small file cannot ask for much memory, whatever it says.
func TestBombs(t *testing.T) {
	zeros := pdftest.Deflated(strings.Repeat("0 ", 20<<20))
	page := func(extra, data string) []byte {
		f := &pdftest.File{}
		f.Add("<< /Type /Catalog /Pages 2 0 R >>")
		f.Add("<< /Type /Pages /Kids [3 0 R] /Resources << /Font << " + pdftest.Helvetica + " >> /XObject << /X 4 0 R >> >> >>")
		f.Add("<< /Type /Page /Contents 4 0 R >>")
		f.Stream("/Subtype /Form "+extra, data)
		return f.Table(pdftest.Root)
	}
	var b strings.Builder
	b.WriteString("%PDF-1.4\n1 0 obj << /Type /Catalog /Pages 2 0 R >>\n2 0 obj << /Type /Pages /Kids [")
	for i := range 50_000 {
		fmt.Fprintf(&b, "%d 0 R ", i+3)
	}
	b.WriteString("] >> endobj\n")
	for i := range 50_000 {
		fmt.Fprintf(&b, "%d 0 obj << >> stream\n", i+3)
	}
	b.WriteString(strings.Repeat(" ", 8<<20))
	packs := &pdftest.File{}
	packs.Add("<< /Type /Catalog /Pages 2 0 R >>")
	packs.Add("<< /Type /Pages /Kids [" + strings.Repeat("3 0 R ", 1000) + "] >>")
	packs.Stream("/Type /ObjStm /N 99999999 /First 0 /Filter /FlateDecode", zeros)
	bombs := map[string][]byte{
		"a stream of zeros":         page("/Filter /FlateDecode", zeros),
		"one in the other":          page("/Filter [/FlateDecode /FlateDecode]", pdftest.Deflated(zeros)),
		"lists in lists":            page("", strings.Repeat("[", 1<<20)),
		"dictionaries in a list":    page("/Filter /FlateDecode", pdftest.Deflated("["+strings.Repeat("<</a<</b", 1<<20))),
		"a large form, many times":  page("/Filter /FlateDecode", pdftest.Deflated("/X Do /X Do "+strings.Repeat(" ", 10<<20))),
		"text without end":          page("/Filter /FlateDecode", pdftest.Deflated("BT /F1 1 Tf "+strings.Repeat("(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) Tj ", 300_000))),
		"rows without end":          page("/Filter /FlateDecode /DecodeParms << /Predictor 12 /Columns 999999999 /Colors 60 >>", zeros),
		"an object stream of zeros": packs.Table(pdftest.Root),
	}
	if untilExhausted {
		maps.Copy(bombs, map[string][]byte{
			"streams without end":         []byte(b.String()),
			"a list without end":          page("/Filter /FlateDecode", pdftest.Deflated("["+strings.Repeat("0 ", 7<<20))),
			"forms that paint themselves": page("", strings.Repeat("/X Do ", 10)),
			"a table of millions":         []byte("%PDF-1.4\n" + "1 0 obj\n" + pdftest.StreamOf("/Type /XRef /Root 1 0 R /Size 2000000000 /W [0 0 1] /Index [0 2000000000] /Filter /FlateDecode", pdftest.Deflated(strings.Repeat("\x00", 15<<20))) + "\nendobj\nstartxref\n9\n%%EOF"),
		})
	}
	for name, data := range bombs {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			d, err := pdftext.Open(t.Context(), data)
			if err == nil {
				var p pdftext.Page
				p, err = d.Page(t.Context(), 1)
				if len(p.Text) > 1<<20 || name == "text without end" && !p.Cut {
					t.Errorf("%d bytes of text, cut: %v", len(p.Text), p.Cut)
				}
			}
			runtime.ReadMemStats(&after)
			// What is allocated in all is more than what is held at any time.
			if grown := (after.TotalAlloc - before.TotalAlloc) >> 20; grown > 700 {
				t.Errorf("%d MiB were allocated: %v", grown, err)
			} else {
				t.Logf("%d MiB: %v", grown, err)
			}
		})
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(threePages().Table(pdftest.Root))
	f.Add(threePages().Packed(pdftest.Root))
	f.Add(pdftest.Document("/F1 << /Subtype /Type0 /DescendantFonts [<< /W [1 [2] 3 4 5] >>] >>", "BT /F1 1 Tf [(ab) 3 <0041>] TJ ET BI ID x EI").Table(pdftest.Root))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := pdftext.Open(t.Context(), data)
		if err != nil {
			return
		}
		for n := range min(d.Pages(), 3) {
			_, _ = d.Page(t.Context(), n+1)
		}
	})
}

func BenchmarkPage(b *testing.B) {
	lines := make([]string, 50)
	for i := range lines {
		lines[i] = "A line of words such as a page of a book has, about eighty letters of them in all"
	}
	data := pdftest.Document(pdftest.Helvetica, pdftest.Lines(lines...)).Packed(pdftest.Root)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		d, err := pdftext.Open(b.Context(), data)
		if err != nil {
			b.Fatal(err)
		}
		if p, err := d.Page(b.Context(), 1); err != nil || len(p.Text) < 4000 {
			b.Fatal(err, len(p.Text))
		}
	}
}
