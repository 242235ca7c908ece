// Package pdftext gets the text out of PDF files. It reads what is common (cross
// reference tables and streams, object streams, damaged files) and bounds what a
// file can ask for in memory and time. It shows no pictures, opens no encrypted
// file, and knows the letters of a font only if the file says what they are.
//
// Nothing is done before the first file: there are no tables to fill at start.
package pdftext

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

var (
	// ErrEncrypted: the file opens with a password or a key.
	ErrEncrypted = errors.New("it is encrypted")
	// ErrMalformed: the file is no PDF, or too damaged to find its pages.
	ErrMalformed = errors.New("it is no PDF file, or a damaged one")
)

// IsPDF reports that the first bytes of a file are those of a PDF.
func IsPDF(head []byte) bool { return bytes.HasPrefix(head, []byte("%PDF-")) }

const (
	// maxObjects and maxPages bound what a file may say that it holds.
	maxObjects = 1 << 20
	maxPages   = 50_000
)

// Document is an open PDF. It is not for use by several goroutines at once.
type Document struct {
	data    []byte
	meter   meter
	entries map[int]entry
	trailer dict
	// objects holds those that were read, nil for one that is being read.
	objects map[int]any
	// packs are the object streams that were unpacked.
	packs  map[int]*pack
	fonts  map[int]*font
	glyphs map[string]string
	// unpacked and mapped count bytes of streams and entries of charmaps so far.
	unpacked, mapped int

	rebuilt bool
	pages   []pageNode
}

// entry says where an object is: at an offset, or in an object stream.
type entry struct {
	offset int
	pack   int
	// free marks a number without an object.
	free bool
}

// pack is an unpacked object stream.
type pack struct {
	data    []byte
	offsets map[int]int
}

type pageNode struct{ dict, resources dict }

// Open reads where everything is in a file, which is data and must not change.
// Errors: ErrEncrypted, ErrMalformed, and the cause of ctx's end.
func Open(ctx context.Context, data []byte) (d *Document, err error) {
	// Offsets count from the header, which need not be at the very start.
	const headRoom = 1 << 10
	if at := bytes.Index(data[:min(len(data), headRoom)], []byte("%PDF-")); at > 0 {
		data = data[at:]
	}
	d = &Document{data: data, meter: meter{ctx: ctx}}
	defer contain(&err)
	d.reset()
	if !d.readTables() {
		d.rebuild()
	}
	if d.trailer["Encrypt"] != nil {
		return nil, ErrEncrypted
	}
	if d.findPages(); len(d.pages) == 0 && !d.rebuilt {
		d.rebuild()
		if d.trailer["Encrypt"] != nil {
			return nil, ErrEncrypted
		}
		d.findPages()
	}
	if len(d.pages) == 0 {
		return nil, ErrMalformed
	}
	return d, nil
}

// Pages is how many pages the document has, at least one.
func (d *Document) Pages() int { return len(d.pages) }

// contain makes an error of what ends a reading early.
func contain(err *error) {
	switch r := recover().(type) {
	case nil:
	case stop:
		*err = r.err
	default:
		*err = ErrMalformed // whatever surprised us, it is in the file
	}
}

func (d *Document) reset() {
	d.entries, d.trailer = map[int]entry{}, dict{}
	d.objects, d.packs, d.fonts = map[int]any{}, map[int]*pack{}, map[int]*font{}
}

func (d *Document) lexer(data []byte, at int) *lexer {
	return &lexer{data: data, at: max(0, min(at, len(data))), meter: &d.meter}
}

// readTables follows the cross-reference tables from the last to the first; false
// if they do not lead to a document.
func (d *Document) readTables() bool {
	const tail = 2 << 10
	start := max(0, len(d.data)-tail)
	at := bytes.LastIndex(d.data[start:], []byte("startxref"))
	if at < 0 {
		return false
	}
	next, _ := d.lexer(d.data, start+at+len("startxref")).value().(int)
	seen := map[int]bool{}
	for next > 0 && next < len(d.data) && !seen[next] {
		seen[next] = true
		t, ok := d.table(next)
		if !ok {
			return false
		}
		next, _ = t["Prev"].(int)
	}
	_, ok := d.resolve(d.trailer["Root"]).(dict)
	return ok
}

// table reads one cross-reference table or stream and gives its trailer. What is
// known already is newer.
func (d *Document) table(at int) (trailer dict, ok bool) {
	l := d.lexer(d.data, at)
	if l.value() == keyword("xref") {
		var free []int
		if trailer, free, ok = d.plainTable(l); !ok {
			return nil, false
		}
		if hybrid, ok := trailer["XRefStm"].(int); ok {
			// What this table calls free may be there for readers of streams.
			if _, v := d.objectAt(hybrid); v != nil {
				if s, ok := v.(*stream); ok {
					d.streamTable(s)
				}
			}
		}
		for _, num := range free {
			d.note(num, entry{free: true})
		}
	} else {
		_, v := d.objectAt(at)
		s, isStream := v.(*stream)
		if !isStream || !d.streamTable(s) {
			return nil, false
		}
		trailer = s.dict
	}
	for k, v := range trailer {
		if _, known := d.trailer[k]; !known {
			d.trailer[k] = v
		}
	}
	return trailer, true
}

// plainTable reads a table with its trailer; free are the numbers without an object.
func (d *Document) plainTable(l *lexer) (trailer dict, free []int, ok bool) {
	for {
		switch v := l.value().(type) {
		case int:
			n, ok := l.value().(int)
			if !ok {
				return nil, nil, false
			}
			for i := range n {
				offset, ok := l.value().(int)
				l.value() // the generation
				kind, ok2 := l.value().(keyword)
				if !ok || !ok2 {
					return nil, nil, false
				}
				if kind != "n" {
					free = append(free, v+i)
					continue
				}
				d.note(v+i, entry{offset: offset})
			}
		case keyword:
			trailer, ok = l.value().(dict)
			return trailer, free, ok && v == "trailer"
		default:
			return nil, nil, false
		}
	}
}

func (d *Document) note(num int, e entry) {
	if num < 0 || num > 1<<30 {
		return
	}
	if _, known := d.entries[num]; known {
		return
	}
	if len(d.entries) >= maxObjects {
		panic(stop{errTooMuch})
	}
	d.entries[num] = e
}

func (d *Document) streamTable(s *stream) bool {
	data, err := d.unpack(s)
	if err != nil {
		return false
	}
	var widths [3]int
	list := d.list(s.dict["W"])
	if len(list) < 3 {
		return false
	}
	row := 0
	for i := range widths {
		if widths[i] = d.int(list[i], -1); widths[i] < 0 || widths[i] > 8 {
			return false
		}
		row += widths[i]
	}
	if row == 0 {
		return false
	}
	index := d.list(s.dict["Index"])
	if len(index) == 0 {
		index = []any{0, s.dict["Size"]}
	}
	for i := 0; i+1 < len(index); i += 2 {
		first, n := d.int(index[i], 0), d.int(index[i+1], 0)
		for num := first; num < first+n && len(data) >= row; num++ {
			d.meter.step()
			var fields [3]int
			at := 0
			for i, w := range widths {
				for _, b := range data[at : at+w] {
					fields[i] = fields[i]<<8 | int(b)
				}
				at += w
			}
			data = data[row:]
			if widths[0] == 0 {
				fields[0] = 1
			}
			switch fields[0] {
			case 0:
				d.note(num, entry{free: true})
			case 1:
				d.note(num, entry{offset: fields[1]})
			case 2:
				d.note(num, entry{pack: fields[1]})
			}
		}
	}
	return true
}

// rebuild looks for objects in the whole file, for one whose tables are wrong or
// missing.
func (d *Document) rebuild() {
	d.reset()
	d.rebuilt = true
	var packs []int
	root := dict{}
	for at := 0; ; {
		i := bytes.Index(d.data[at:], []byte("obj"))
		if i < 0 {
			break
		}
		d.meter.step()
		end := at + i
		at = end + len("obj")
		num, start, ok := d.headBefore(end)
		if !ok {
			continue
		}
		delete(d.entries, num) // what stands later is newer
		d.note(num, entry{offset: start})
		const glance = 1 << 10
		head := d.data[at:min(len(d.data), at+glance)]
		switch {
		case bytes.Contains(head, []byte("/ObjStm")):
			packs = append(packs, num)
		case bytes.Contains(head, []byte("/XRef")):
			if _, v := d.objectAt(start); v != nil {
				if s, ok := v.(*stream); ok && s.dict["Root"] != nil {
					root = s.dict
				}
			}
		case bytes.Contains(head, []byte("/Catalog")) && root["Root"] == nil:
			if _, v := d.objectAt(start); v != nil {
				if c, ok := v.(dict); ok && c["Type"] == name("Catalog") {
					root["Root"] = ref{num: num}
				}
			}
		}
	}
	for _, num := range packs {
		if p := d.pack(num); p != nil {
			for member := range p.offsets {
				d.note(member, entry{pack: num})
			}
		}
	}
	for at := 0; ; {
		i := bytes.Index(d.data[at:], []byte("trailer"))
		if i < 0 {
			break
		}
		at += i + len("trailer")
		if t, ok := d.lexer(d.data, at).value().(dict); ok && t["Root"] != nil {
			root = t
		}
	}
	if root["Root"] == nil {
		for num := range d.entries {
			if c, ok := d.get(num).(dict); ok && c["Type"] == name("Catalog") {
				root = dict{"Root": ref{num: num}}
				break
			}
		}
	}
	d.trailer = root
}

// headBefore reads backwards "12 0 " in front of the word obj.
func (d *Document) headBefore(end int) (num, start int, ok bool) {
	back := func(end int) (n, start int, ok bool) {
		for end > 0 && isSpace(d.data[end-1]) {
			end--
		}
		start = end
		for start > 0 && end-start < 10 && d.data[start-1] >= '0' && d.data[start-1] <= '9' {
			start--
		}
		n, err := strconv.Atoi(string(d.data[start:end]))
		return n, start, err == nil
	}
	if end == 0 || !isSpace(d.data[end-1]) {
		return 0, 0, false
	}
	_, start, ok = back(end)
	if !ok || start == 0 || !isSpace(d.data[start-1]) {
		return 0, 0, false
	}
	return back(start)
}

// objectAt reads the object at an offset; a nil one that is none.
func (d *Document) objectAt(at int) (num int, v any) {
	l := d.lexer(d.data, at)
	num, ok := l.value().(int)
	_, ok2 := l.value().(int)
	if !ok || !ok2 || l.value() != keyword("obj") {
		return -1, nil
	}
	v = l.value()
	head, isDict := v.(dict)
	if !isDict {
		return num, v
	}
	l.skipSpace()
	if !bytes.HasPrefix(l.data[l.at:], []byte("stream")) {
		return num, v
	}
	l.at += len("stream")
	if l.peek(0) == '\r' {
		l.at++
	}
	if l.peek(0) == '\n' {
		l.at++
	}
	raw := l.data[min(l.at, len(l.data)):]
	if n := d.int(head["Length"], -1); n >= 0 && n <= len(raw) {
		behind := d.lexer(raw, n)
		behind.skipSpace()
		if bytes.HasPrefix(raw[behind.at:], []byte("endstream")) {
			return num, &stream{head, raw[:n]}
		}
	}
	if n := bytes.Index(raw, []byte("endstream")); n >= 0 {
		raw = raw[:n]
	}
	d.meter.scan(len(raw))
	return num, &stream{head, raw}
}

// get gives an object; nil for one that is not there.
func (d *Document) get(num int) any {
	if v, known := d.objects[num]; known {
		return v
	}
	e, ok := d.entries[num]
	if !ok || e.free {
		return nil
	}
	d.meter.step()
	d.objects[num] = nil // so that one which needs itself ends
	var v any
	if e.pack > 0 {
		if p := d.pack(e.pack); p != nil {
			if at, ok := p.offsets[num]; ok {
				v = d.lexer(p.data, at).value()
			}
		}
	} else {
		var found int
		if found, v = d.objectAt(e.offset); found != num {
			if d.rebuilt {
				return nil
			}
			d.rebuild()
			return d.get(num)
		}
	}
	switch v.(type) {
	case keyword, ending:
		v = nil
	}
	d.objects[num] = v
	return v
}

// pack unpacks an object stream; nil if it is none.
func (d *Document) pack(num int) *pack {
	if p, known := d.packs[num]; known {
		return p
	}
	d.packs[num] = nil
	if d.entries[num].pack > 0 {
		return nil // one in another is forbidden
	}
	s, ok := d.get(num).(*stream)
	if !ok {
		return nil
	}
	data, err := d.unpack(s)
	if err != nil {
		return nil
	}
	p := &pack{data, map[int]int{}}
	first := d.int(s.dict["First"], 0)
	l := d.lexer(data, 0)
	for range min(d.int(s.dict["N"], 0), maxObjects) {
		member, ok := l.value().(int)
		at, ok2 := l.value().(int)
		if !ok || !ok2 {
			break
		}
		p.offsets[member] = first + at
	}
	d.packs[num] = p
	return p
}

// resolve follows references.
func (d *Document) resolve(v any) any {
	for range maxDepth {
		r, ok := v.(ref)
		if !ok {
			return v
		}
		v = d.get(r.num)
	}
	return nil
}

// dict gives a dictionary, also that of a stream; nil for anything else.
func (d *Document) dict(v any) dict {
	switch v := d.resolve(v).(type) {
	case dict:
		return v
	case *stream:
		return v.dict
	}
	return nil
}

// list gives a list; of another value that is there one with that value.
func (d *Document) list(v any) []any {
	switch v := d.resolve(v).(type) {
	case nil:
		return nil
	case []any:
		return v
	default:
		return []any{v}
	}
}

func (d *Document) int(v any, otherwise int) int {
	switch v := d.resolve(v).(type) {
	case int:
		return v
	case float64:
		if v > -1<<31 && v < 1<<31 {
			return int(v)
		}
	}
	return otherwise
}

func (d *Document) float(v any, otherwise float64) float64 {
	if f, ok := number(d.resolve(v)); ok {
		return f
	}
	return otherwise
}

func number(v any) (f float64, ok bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// findPages walks the tree of pages in order.
func (d *Document) findPages() {
	d.pages = nil
	type node struct {
		v         any
		resources dict
		depth     int
	}
	left := []node{{v: d.dict(d.trailer["Root"])["Pages"]}}
	seen := map[int]bool{}
	for len(left) > 0 && len(d.pages) < maxPages {
		n := left[len(left)-1]
		left = left[:len(left)-1]
		if r, ok := n.v.(ref); ok {
			if seen[r.num] {
				continue
			}
			seen[r.num] = true
		}
		p, ok := d.resolve(n.v).(dict)
		if !ok || n.depth > maxDepth {
			continue
		}
		if r := d.dict(p["Resources"]); r != nil {
			n.resources = r
		}
		kids, isTree := d.resolve(p["Kids"]).([]any)
		if !isTree {
			if d.resolve(p["Type"]) != name("Pages") {
				d.pages = append(d.pages, pageNode{p, n.resources})
			}
			continue
		}
		for _, kid := range slices.Backward(kids) {
			left = append(left, node{kid, n.resources, n.depth + 1})
		}
	}
}

// contents gives the content stream of a page.
func (d *Document) contents(p dict) ([]byte, error) {
	var all []byte
	for _, part := range d.list(p["Contents"]) {
		s, ok := d.resolve(part).(*stream)
		if !ok {
			continue
		}
		data, err := d.unpack(s)
		if err != nil {
			return nil, fmt.Errorf("a part of the page cannot be read: %w", err)
		}
		if len(all)+len(data) > maxStream {
			return nil, errStreamTooLarge
		}
		all = append(append(all, data...), '\n') // parts end between words
	}
	return all, nil
}
