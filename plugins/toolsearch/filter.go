package toolsearch

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// filter finds lines that may match an expression: those that hold one of a few
// texts. Looking for texts is many times quicker than matching each line.
type filter struct {
	texts [][]byte
	// fold: the texts are in lower case and looked for without respect to the case
	// of ASCII letters.
	fold bool
}

// maxTexts bounds the texts of a filter.
const maxTexts = 8

// newFilter makes a filter that passes all that matches; one without texts
// passes everything.
func newFilter(re *syntax.Regexp) filter {
	var f filter
	texts := f.required(re)
	if len(texts) > maxTexts {
		texts = nil
	}
	for _, s := range texts {
		if f.fold {
			s = string(lower(nil, []byte(s)))
		}
		f.texts = append(f.texts, []byte(s))
	}
	f.fold = f.fold && len(f.texts) > 0
	return f
}

// required gives texts one of which is part of everything an expression
// matches; nil if it finds none. It sets f.fold if it has to.
func (f *filter) required(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		s := string(re.Rune)
		// U+FFFD also matches a byte that is not text.
		parts := strings.FieldsFunc(s, func(r rune) bool { return r == utf8.RuneError })
		if re.Flags&syntax.FoldCase != 0 {
			// Beyond ASCII case is more than one bit, and k and s have a third form there.
			parts = strings.FieldsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf || strings.ContainsRune("kKsS", r) })
			f.fold = true
		}
		if len(parts) > 0 {
			return []string{slices.MaxFunc(parts, byLength)}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return f.required(re.Sub[0])
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if s := f.required(sub); shortest(s) > shortest(best) {
				best = s
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			s := f.required(sub)
			if s == nil {
				return nil
			}
			all = append(all, s...)
		}
		return all
	}
	return nil
}

func byLength(a, b string) int { return len(a) - len(b) }

// shortest is the length of the shortest text, 0 without any.
func shortest(texts []string) int {
	if len(texts) == 0 {
		return 0
	}
	return len(slices.MinFunc(texts, byLength))
}

// lower appends b to dst with the ASCII letters in lower case.
func lower(dst, b []byte) []byte {
	start := len(dst)
	dst = append(dst, b...)
	for i, c := range dst[start:] {
		if 'A' <= c && c <= 'Z' {
			dst[start+i] = c | 0x20
		}
	}
	return dst
}

// scan finds the texts of a filter in one block, from the front to the end.
type scan struct {
	filter *filter
	block  []byte
	// next is where each text is found next; behind the block if nowhere.
	next []int
}

// start begins with a block that is in lower case if the filter folds.
func (f *filter) start(block []byte) scan {
	s := scan{filter: f, block: block, next: make([]int, len(f.texts))}
	for i := range s.next {
		s.next[i] = s.find(i, 0)
	}
	return s
}

// from gives the first place at or behind pos where a text is; the length of
// the block if there is none.
func (s *scan) from(pos int) int {
	if len(s.next) == 0 {
		return pos
	}
	first := len(s.block)
	for i := range s.next {
		if s.next[i] < pos {
			s.next[i] = s.find(i, pos)
		}
		first = min(first, s.next[i])
	}
	return first
}

func (s *scan) find(i, pos int) int {
	if at := bytes.Index(s.block[pos:], s.filter.texts[i]); at >= 0 {
		return pos + at
	}
	return len(s.block)
}
