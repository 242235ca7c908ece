package pdftext

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf16"
)

// font turns the codes of shown strings into letters and widths.
type font struct {
	// letters are those of the codes of a simple font; wide says that codes have two
	// bytes or what lengths says.
	letters [256]string
	wide    bool
	// utf16 says that codes are UTF-16.
	utf16 bool
	// toUnicode goes ahead of letters; nil without one.
	toUnicode *charmap
	// lengths tells how many bytes a code has; nil for two of a wide font.
	lengths *charmap
	widths  map[int]float64
	// usual is the width of what widths does not have, unit what a width is of the
	// font's size.
	usual, unit float64
}

// glyph is one code of a shown string.
type glyph struct {
	// text is "" when the file does not say what letter it is.
	text string
	// width is in parts of the font's size.
	width float64
	// blank is the code 32 of one byte, which the word spacing widens.
	blank bool
}

// plain is for text that names no font which there is.
func plain() *font {
	f := &font{usual: 500, unit: 0.001}
	f.letters = encodingOf("")
	return f
}

// maxWidths bounds the widths of a font that are kept.
const maxWidths = 1 << 16

// font reads a font of a page's resources.
func (d *Document) font(v any) *font {
	r, isRef := v.(ref)
	if isRef {
		if f, known := d.fonts[r.num]; known {
			return f
		}
	}
	info := d.dict(v)
	if info == nil {
		return plain()
	}
	f := plain()
	if s, ok := d.resolve(info["ToUnicode"]).(*stream); ok {
		f.toUnicode = d.charmap(s)
	}
	if d.resolve(info["Subtype"]) == name("Type0") {
		d.composite(f, info)
	} else {
		d.simple(f, info)
	}
	if isRef {
		d.fonts[r.num] = f
	}
	return f
}

func (d *Document) simple(f *font, info dict) {
	kind, _ := d.resolve(info["Subtype"]).(name)
	base := name("")
	if kind == "TrueType" {
		base = "WinAnsiEncoding"
	}
	encoding := d.resolve(info["Encoding"])
	switch e := encoding.(type) {
	case name:
		base = e
	case dict:
		if b, ok := d.resolve(e["BaseEncoding"]).(name); ok {
			base = b
		}
	}
	f.letters = encodingOf(base)
	if e, ok := encoding.(dict); ok {
		code := 0
		for _, v := range d.list(e["Differences"]) {
			switch v := d.resolve(v).(type) {
			case int:
				code = v
			case name:
				if code >= 0 && code < len(f.letters) {
					f.letters[code] = d.letter(string(v))
				}
				code++
			}
		}
	}
	if kind == "Type3" {
		if m := d.list(info["FontMatrix"]); len(m) == 6 {
			f.unit = d.float(m[0], f.unit)
		}
	}
	first := d.int(info["FirstChar"], 0)
	widths := d.list(info["Widths"])
	if len(widths) == 0 {
		return
	}
	f.widths = make(map[int]float64, min(len(widths), maxWidths))
	f.usual = d.float(d.dict(info["FontDescriptor"])["MissingWidth"], 0)
	for i, w := range widths[:min(len(widths), maxWidths)] {
		f.widths[first+i] = d.float(w, 0)
	}
}

func (d *Document) composite(f *font, info dict) {
	f.wide, f.letters = true, [256]string{}
	switch e := d.resolve(info["Encoding"]).(type) {
	case name:
		f.utf16 = strings.Contains(string(e), "UCS2") || strings.Contains(string(e), "UTF16")
		if !f.utf16 && !strings.HasPrefix(string(e), "Identity") {
			f.lengths = f.toUnicode // it is one of many that nobody carries around
		}
	case *stream:
		f.lengths = d.charmap(e)
	}
	var below dict
	if list := d.list(info["DescendantFonts"]); len(list) > 0 {
		below = d.dict(list[0])
	}
	f.usual = d.float(below["DW"], 1000)
	f.widths = map[int]float64{}
	list := d.list(below["W"])
	for i := 0; i+1 < len(list) && len(f.widths) < maxWidths; {
		first := d.int(list[i], 0)
		switch next := d.resolve(list[i+1]).(type) {
		case []any:
			for k, w := range next[:min(len(next), maxWidths)] {
				f.widths[first+k] = d.float(w, 0)
			}
			i += 2
		default:
			if i+2 >= len(list) {
				return
			}
			last, w := d.int(next, 0), d.float(list[i+2], 0)
			for code := first; code <= last && len(f.widths) < maxWidths; code++ {
				d.meter.step()
				f.widths[code] = w
			}
			i += 3
		}
	}
}

// glyphs calls show for each code of a shown string.
func (f *font) glyphs(s string, m *meter, show func(glyph)) {
	for s != "" {
		m.step()
		size := 1
		if f.wide {
			size = min(f.lengths.length(s, 2), len(s))
		}
		code := 0
		for _, b := range []byte(s[:size]) {
			code = code<<8 | int(b)
		}
		g := glyph{width: f.usual * f.unit, blank: size == 1 && code == ' '}
		if w, ok := f.widths[code]; ok {
			g.width = w * f.unit
		}
		text, known := f.toUnicode.text(code, size)
		switch {
		case known:
			g.text = text
		case f.utf16:
			g.text = fromUTF16(s[:size])
		case !f.wide:
			g.text = f.letters[code]
		}
		s = s[size:]
		show(g)
	}
}

func fromUTF16(s string) string {
	units := make([]uint16, 0, len(s)/2)
	for i := 0; i+1 < len(s); i += 2 {
		units = append(units, uint16(s[i])<<8|uint16(s[i+1]))
	}
	return string(utf16.Decode(units))
}

// charmap is a CMap: what the codes of a font mean.
type charmap struct {
	single map[charcode]string
	ranges []charRange
	// spaces are the ranges of the codes by length.
	spaces []charRange
}

type charcode struct{ code, size int }

// charRange is a run of codes. What the first means is text, and the others follow
// it; or each has its own in list.
type charRange struct {
	low, high, size int
	text            string
	list            []any
}

// maxMapped bounds the entries of all charmaps of a document.
const maxMapped = 1 << 20

func (d *Document) charmap(s *stream) *charmap {
	data, err := d.unpack(s)
	if err != nil {
		return nil
	}
	m := &charmap{single: map[charcode]string{}}
	l := d.lexer(data, 0)
	var operands []any
	for {
		v := l.value()
		op, isOp := v.(keyword)
		if !isOp {
			if _, ended := v.(ending); ended {
				break
			}
			operands = append(operands, v)
			continue
		}
		if d.mapped += len(operands); d.mapped > maxMapped {
			panic(stop{errTooMuch})
		}
		switch op {
		case "endcodespacerange":
			for ; len(operands) >= 2; operands = operands[2:] {
				if r, ok := rangeOf(operands); ok {
					m.spaces = append(m.spaces, r)
				}
			}
		case "endbfchar":
			for ; len(operands) >= 2; operands = operands[2:] {
				from, ok := operands[0].(string)
				to, ok2 := operands[1].(string)
				if ok && ok2 {
					m.single[charcode{codeOf(from), len(from)}] = fromUTF16(to)
				}
			}
		case "endbfrange":
			for ; len(operands) >= 3; operands = operands[3:] {
				r, ok := rangeOf(operands)
				switch to := operands[2].(type) {
				case string:
					r.text = to
				case []any:
					r.list = to
				default:
					ok = false
				}
				if ok {
					m.ranges = append(m.ranges, r)
				}
			}
		}
		operands = nil
	}
	slices.SortStableFunc(m.ranges, func(a, b charRange) int { return cmp.Or(a.size-b.size, a.low-b.low) })
	return m
}

func codeOf(s string) (code int) {
	for _, b := range []byte(s[:min(len(s), 4)]) {
		code = code<<8 | int(b)
	}
	return code
}

func rangeOf(operands []any) (charRange, bool) {
	low, ok := operands[0].(string)
	high, ok2 := operands[1].(string)
	return charRange{low: codeOf(low), high: codeOf(high), size: len(low)}, ok && ok2 && len(low) > 0 && len(low) <= 4
}

// length is how many bytes the code at the start of s has.
func (m *charmap) length(s string, otherwise int) int {
	if m == nil || len(m.spaces) == 0 {
		return otherwise
	}
	for size := 1; size <= min(4, len(s)); size++ {
		code := codeOf(s[:size])
		for _, r := range m.spaces[:min(len(m.spaces), 100)] {
			if r.size == size && code >= r.low && code <= r.high {
				return size
			}
		}
	}
	return m.spaces[0].size
}

// text gives what a code means.
func (m *charmap) text(code, size int) (text string, ok bool) {
	if m == nil {
		return "", false
	}
	if text, ok = m.single[charcode{code, size}]; ok {
		return text, text != ""
	}
	i, found := slices.BinarySearchFunc(m.ranges, charcode{code, size}, func(r charRange, c charcode) int {
		return cmp.Or(r.size-c.size, r.low-c.code)
	})
	if !found {
		i--
	}
	if i < 0 || m.ranges[i].size != size || code < m.ranges[i].low || code > m.ranges[i].high {
		return "", false
	}
	r := m.ranges[i]
	if r.list != nil {
		if code-r.low >= len(r.list) {
			return "", false
		}
		s, _ := r.list[code-r.low].(string)
		text = fromUTF16(s)
		return text, text != ""
	}
	if len(r.text) < 2 {
		return "", false
	}
	units := []byte(r.text)
	last := len(units) - 2
	n := int(units[last])<<8 + int(units[last+1]) + code - r.low
	units[last], units[last+1] = byte(n>>8), byte(n)
	text = fromUTF16(string(units))
	return text, text != ""
}
