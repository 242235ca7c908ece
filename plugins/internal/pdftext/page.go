package pdftext

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"unicode"
)

// Page is what was found on one page.
type Page struct {
	// Text has a line for each line of the page, in the order in which the file paints
	// them, and an empty one where a gap is wide.
	Text string
	// Unknown counts the letters of which the file does not say what they are; each is
	// a U+FFFD in Text.
	Unknown int
	// Images counts the pictures. A page that is one picture and has no text was
	// probably scanned.
	Images int
	// Cut says that the page has more text than is given.
	Cut bool
}

// maxText bounds the text of a page, in bytes.
const maxText = 1 << 20

// Page reads a page; the first is 1. Errors: of what the page holds, and the cause
// of ctx's end.
func (d *Document) Page(ctx context.Context, n int) (p Page, err error) {
	if n < 1 || n > len(d.pages) {
		return p, fmt.Errorf("there is no page %d; the document has %d", n, len(d.pages))
	}
	d.meter = meter{ctx: ctx}
	defer contain(&err)
	data, err := d.contents(d.pages[n-1].dict)
	if err != nil {
		return p, err
	}
	w := &writer{page: &p}
	in := &interpreter{doc: d, out: w, state: initial(), resources: d.pages[n-1].resources}
	in.run(data)
	p.Text = w.text()
	return p, nil
}

// matrix maps (x, y) to (ax+cy+e, bx+dy+f).
type matrix struct{ a, b, c, d, e, f float64 }

func unit() matrix { return matrix{a: 1, d: 1} }

// times applies m first, then n.
func (m matrix) times(n matrix) matrix {
	return matrix{
		m.a*n.a + m.b*n.c, m.a*n.b + m.b*n.d,
		m.c*n.a + m.d*n.c, m.c*n.b + m.d*n.d,
		m.e*n.a + m.f*n.c + n.e, m.e*n.b + m.f*n.d + n.f,
	}
}

// state is the part of the graphics state that text depends on.
type state struct {
	ctm                                        matrix
	font                                       *font
	size, charSpace, wordSpace, scale, leading float64
	rise                                       float64
}

func initial() state { return state{ctm: unit(), font: plain(), scale: 1} }

// interpreter runs content streams for their text.
type interpreter struct {
	doc       *Document
	out       *writer
	state     state
	saved     []state
	text      matrix // of the text, and of the start of its line
	line      matrix
	resources dict
	depth     int
	// inline holds fonts that are no objects of their own, by the name of this
	// stream's resources.
	inline map[name]*font
}

// maxOperands bounds the operands of one operator, maxSaved the states that are
// saved in each other.
const (
	maxOperands = 64
	maxSaved    = 512
)

func (in *interpreter) run(data []byte) {
	l := in.doc.lexer(data, 0)
	in.text, in.line = unit(), unit()
	var operands []any
	for !in.out.page.Cut {
		switch v := l.value().(type) {
		case ending:
			return
		case keyword:
			if v == "ID" {
				skipImage(l)
				in.out.page.Images++
			} else {
				in.do(v, operands)
			}
			operands = operands[:0]
		default:
			if len(operands) == maxOperands {
				operands = append(operands[:0], operands[1:]...)
			}
			operands = append(operands, v)
		}
	}
}

// skipImage passes over the data of a picture that stands in the stream itself.
func skipImage(l *lexer) {
	for from := l.at; ; {
		i := bytes.Index(l.data[from:], []byte("EI"))
		if i < 0 {
			l.at = len(l.data)
			return
		}
		at := from + i
		from = at + 2
		if at > 0 && isSpace(l.data[at-1]) && (from >= len(l.data) || isSpace(l.data[from])) {
			l.at = from
			return
		}
	}
}

// numbers gives the last n operands; false if they are not so many numbers.
func numbers(operands []any, n int) ([]float64, bool) {
	if len(operands) < n {
		return nil, false
	}
	out := make([]float64, n)
	for i, v := range operands[len(operands)-n:] {
		f, ok := number(v)
		if !ok {
			return nil, false
		}
		out[i] = f
	}
	return out, true
}

func (in *interpreter) do(op keyword, operands []any) {
	s := &in.state
	one := func(set *float64) {
		if n, ok := numbers(operands, 1); ok {
			*set = n[0]
		}
	}
	last := func() any {
		if len(operands) == 0 {
			return nil
		}
		return operands[len(operands)-1]
	}
	switch op {
	case "q":
		if len(in.saved) < maxSaved {
			in.saved = append(in.saved, *s)
		}
	case "Q":
		if n := len(in.saved); n > 0 {
			*s, in.saved = in.saved[n-1], in.saved[:n-1]
		}
	case "cm":
		if n, ok := numbers(operands, 6); ok {
			s.ctm = matrix{n[0], n[1], n[2], n[3], n[4], n[5]}.times(s.ctm)
		}
	case "BT":
		in.text, in.line = unit(), unit()
	case "Tc":
		one(&s.charSpace)
	case "Tw":
		one(&s.wordSpace)
	case "Tz":
		one(&s.scale)
		s.scale /= 100
	case "TL":
		one(&s.leading)
	case "Ts":
		one(&s.rise)
	case "Tf":
		if len(operands) >= 2 {
			one(&s.size)
			if which, ok := operands[len(operands)-2].(name); ok {
				s.font = in.font(which)
			}
		}
	case "Td", "TD":
		if n, ok := numbers(operands, 2); ok {
			if op == "TD" {
				s.leading = -n[1]
			}
			in.move(n[0], n[1])
		}
	case "Tm":
		if n, ok := numbers(operands, 6); ok {
			in.line = matrix{n[0], n[1], n[2], n[3], n[4], n[5]}
			in.text = in.line
		}
	case "T*":
		in.move(0, -s.leading)
	case "Tj":
		in.show(last())
	case "TJ":
		list, _ := last().([]any)
		for _, v := range list {
			if n, ok := number(v); ok {
				in.advance(-n / 1000 * s.size * s.scale)
			} else {
				in.show(v)
			}
		}
	case "'":
		in.move(0, -s.leading)
		in.show(last())
	case `"`:
		if len(operands) >= 3 {
			if n, ok := numbers(operands[:len(operands)-1], 2); ok {
				s.wordSpace, s.charSpace = n[0], n[1]
			}
		}
		in.move(0, -s.leading)
		in.show(last())
	case "Do":
		if which, ok := last().(name); ok {
			in.paint(which)
		}
	}
}

func (in *interpreter) move(x, y float64) {
	in.line = matrix{1, 0, 0, 1, x, y}.times(in.line)
	in.text = in.line
}

func (in *interpreter) advance(x float64) { in.text = matrix{1, 0, 0, 1, x, 0}.times(in.text) }

func (in *interpreter) font(which name) *font {
	v := in.doc.dict(in.resources["Font"])[which]
	if _, ok := v.(ref); ok {
		return in.doc.font(v)
	}
	if f, known := in.inline[which]; known {
		return f
	}
	if in.inline == nil {
		in.inline = map[name]*font{}
	}
	f := in.doc.font(v)
	in.inline[which] = f
	return f
}

// show paints one string.
func (in *interpreter) show(v any) {
	text, ok := v.(string)
	if !ok || text == "" {
		return
	}
	s := &in.state
	place := func() matrix {
		return matrix{s.size * s.scale, 0, 0, s.size, 0, s.rise}.times(in.text).times(s.ctm)
	}
	from := place()
	var b strings.Builder
	s.font.glyphs(text, &in.doc.meter, func(g glyph) {
		if g.text == "" {
			in.out.page.Unknown++
			g.text = "\ufffd"
		}
		b.WriteString(g.text)
		x := g.width*s.size + s.charSpace
		if g.blank {
			x += s.wordSpace
		}
		in.advance(x * s.scale)
	})
	in.out.write(b.String(), from, place())
}

// paint runs a form, which is a content stream of its own, and counts a picture.
func (in *interpreter) paint(which name) {
	form, ok := in.doc.resolve(in.doc.dict(in.resources["XObject"])[which]).(*stream)
	if !ok {
		return
	}
	if in.doc.resolve(form.dict["Subtype"]) != name("Form") {
		in.out.page.Images++
		return
	}
	if in.depth >= maxDepth {
		return
	}
	data, err := in.doc.unpack(form)
	if err != nil {
		return
	}
	inner := &interpreter{doc: in.doc, out: in.out, state: in.state, resources: in.resources, depth: in.depth + 1}
	if r := in.doc.dict(form.dict["Resources"]); r != nil {
		inner.resources = r
	}
	if list := in.doc.list(form.dict["Matrix"]); len(list) == 6 {
		if n, ok := numbers(list, 6); ok {
			inner.state.ctm = matrix{n[0], n[1], n[2], n[3], n[4], n[5]}.times(in.state.ctm)
		}
	}
	inner.run(data)
}

// writer makes lines of painted strings by where they stand.
type writer struct {
	page *Page
	b    strings.Builder
	any  bool
	// end is where the last string ended.
	end matrix
}

// write adds a string that begins and ends at two places. Between them and the
// last one may be a gap, a new line or a new paragraph.
func (w *writer) write(text string, from, to matrix) {
	if w.b.Len()+len(text) > maxText {
		w.page.Cut = true
		return
	}
	height := math.Hypot(from.c, from.d)
	if w.any && height > 0 {
		w.b.WriteString(between(w.end, from, height, text, w.b.String()))
	}
	w.b.WriteString(text)
	w.end, w.any = to, true
}

// Parts of the height of the letters: how much farther a string begins than the
// last ended to be another word, line, paragraph.
const (
	wordGap      = 0.2
	lineGap      = 0.6
	paragraphGap = 1.9
)

func between(end, from matrix, height float64, text, before string) string {
	along := math.Hypot(from.a, from.b)
	if along == 0 {
		return ""
	}
	ux, uy := from.a/along, from.b/along
	dx, dy := from.e-end.e, from.f-end.f
	ahead, across := dx*ux+dy*uy, dy*ux-dx*uy
	turned := from.a*end.a+from.b*end.b < 0.5*along*math.Hypot(end.a, end.b)
	switch {
	case math.Abs(across) > paragraphGap*height:
		return "\n\n"
	case math.Abs(across) > lineGap*height, turned, ahead < -height:
		return "\n"
	case ahead > wordGap*height && !strings.HasSuffix(before, " ") && !strings.HasPrefix(text, " "):
		return " "
	}
	return ""
}

// text gives the page without control characters, blanks at line ends, and more
// than one empty line in a row.
func (w *writer) text() string {
	raw := strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t', r == '\u00a0':
			return ' '
		case unicode.IsControl(r), r == '\u00ad':
			return -1
		}
		return r
	}, w.b.String())
	var b strings.Builder
	empty := 0
	for line := range strings.SplitSeq(strings.TrimSpace(raw), "\n") {
		if line = strings.TrimRight(line, " "); line == "" {
			empty++
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n"[:1+min(empty, 1)])
		}
		b.WriteString(line)
		empty = 0
	}
	return b.String()
}
