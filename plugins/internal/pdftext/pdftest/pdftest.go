// Package pdftest writes PDF files for tests, object by object.
package pdftest

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"strings"
)

// File is a PDF in the making. Objects are numbered from 1 in the order in which
// they are added.
type File struct{ objects []string }

// Add gives the number of a new object.
func (f *File) Add(body string) int {
	f.objects = append(f.objects, body)
	return len(f.objects)
}

// Stream adds a stream; extra are further members of its dictionary.
func (f *File) Stream(extra, data string) int { return f.Add(StreamOf(extra, data)) }

// StreamOf is the body of a stream.
func StreamOf(extra, data string) string {
	return fmt.Sprintf("<< %s /Length %d >>\nstream\n%s\nendstream", extra, len(data), data)
}

// Deflated packs data for the filter FlateDecode.
func Deflated(data string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write([]byte(data)) // a buffer takes everything
	_ = z.Close()
	return b.String()
}

// Table gives the file with a cross-reference table. trailer are members of the
// trailer besides Size.
func (f *File) Table(trailer string) []byte {
	var b strings.Builder
	b.WriteString("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
	offsets := make([]int, len(f.objects))
	for i, body := range f.objects {
		offsets[i] = b.Len()
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, body)
	}
	at := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(f.objects)+1)
	for _, offset := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d %s >>\nstartxref\n%d\n%%%%EOF\n", len(f.objects)+1, trailer, at)
	return []byte(b.String())
}

// Packed gives the file in the newer form: all objects but streams in one object
// stream, and a cross-reference stream whose rows are differences to the row above.
func (f *File) Packed(trailer string) []byte {
	var b strings.Builder
	b.WriteString("%PDF-1.7\n")
	packNum := len(f.objects) + 1
	tableNum := packNum + 1
	type row struct{ kind, a, b int }
	rows := make([]row, tableNum+1)
	rows[0] = row{0, 0, 255}
	var head, body strings.Builder
	n := 0
	for i, o := range f.objects {
		if strings.Contains(o, "endstream") {
			rows[i+1] = row{1, b.Len(), 0}
			fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
			continue
		}
		rows[i+1] = row{2, packNum, n}
		fmt.Fprintf(&head, "%d %d ", i+1, body.Len())
		body.WriteString(o + "\n")
		n++
	}
	rows[packNum] = row{1, b.Len(), 0}
	fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", packNum,
		StreamOf(fmt.Sprintf("/Type /ObjStm /N %d /First %d /Filter /FlateDecode", n, head.Len()), Deflated(head.String()+body.String())))
	at := b.Len()
	rows[tableNum] = row{1, at, 0}
	var table bytes.Buffer
	above := make([]byte, 6)
	for _, r := range rows {
		line := append([]byte{byte(r.kind)}, binary.BigEndian.AppendUint32(nil, uint32(r.a))...)
		line = append(line, byte(r.b))
		table.WriteByte(2)
		for i, c := range line {
			table.WriteByte(c - above[i])
		}
		above = line
	}
	fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\nstartxref\n%d\n%%%%EOF\n", tableNum, StreamOf(fmt.Sprintf(
		"/Type /XRef /Size %d /W [1 4 1] /Filter /FlateDecode /DecodeParms << /Predictor 12 /Columns 6 >> %s", len(rows), trailer), Deflated(table.String())), at)
	return []byte(b.String())
}

// Root says in a trailer which object is the catalog: the first.
const Root = "/Root 1 0 R"

// Document makes a file whose first object is the catalog. fonts are the members of
// the pages' font resources, contents the content streams of the pages.
func Document(fonts string, contents ...string) *File {
	f := &File{}
	f.Add("<< /Type /Catalog /Pages 2 0 R >>")
	var kids strings.Builder
	for i := range contents {
		fmt.Fprintf(&kids, "%d 0 R ", 3+2*i)
	}
	f.Add(fmt.Sprintf("<< /Type /Pages /Count %d /Kids [%s] /MediaBox [0 0 612 792] /Resources << /Font << %s >> >> >>", len(contents), kids.String(), fonts))
	for i, c := range contents {
		f.Add(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /Contents %d 0 R >>", 4+2*i))
		f.Stream("", c)
	}
	return f
}

// Helvetica is a font resource F1 without any objects of its own.
const Helvetica = "/F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"

// Lines is a content stream that shows lines of text, which must be plain.
func Lines(lines ...string) string {
	var b strings.Builder
	b.WriteString("BT /F1 12 Tf 14 TL 72 720 Td\n")
	for _, line := range lines {
		fmt.Fprintf(&b, "(%s) Tj T*\n", line)
	}
	b.WriteString("ET")
	return b.String()
}
