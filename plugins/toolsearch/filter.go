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
type filter struct{ texts [][]byte }

// maxTexts bounds the texts of a filter.
const maxTexts = 8

// newFilter makes a filter that passes all that matches; one without texts
// passes everything.
func newFilter(re *syntax.Regexp) filter {
	var f filter
	texts := required(re)
	if len(texts) > maxTexts {
		texts = nil
	}
	for _, s := range texts {
		f.texts = append(f.texts, []byte(s))
	}
	return f
}

// required gives texts one of which is part of everything an expression
// matches; nil if it finds none.
func required(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return nil
		}
		s := string(re.Rune)
		// U+FFFD also matches a byte that is not text.
		parts := strings.FieldsFunc(s, func(r rune) bool { return r == utf8.RuneError })
		if len(parts) > 0 {
			return []string{slices.MaxFunc(parts, byLength)}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if s := required(sub); shortest(s) > shortest(best) {
				best = s
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			s := required(sub)
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

// refuses reports that nothing in a text matches, because no text of f is there.
func (f *filter) refuses(text []byte) bool {
	return len(f.texts) > 0 && !slices.ContainsFunc(f.texts, func(s []byte) bool { return bytes.Contains(text, s) })
}

// shortest is the length of the shortest text, 0 without any.
func (f *filter) shortest() int {
	least := 0
	for i, s := range f.texts {
		if i == 0 || len(s) < least {
			least = len(s)
		}
	}
	return least
}

// scan finds the texts of a filter in one block, from the front to the end.
type scan struct {
	filter *filter
	block  []byte
	// next is where each text is found next; behind the block if nowhere.
	next []int
}

// start begins with a block.
func (f *filter) start(block []byte) *scan {
	s := &scan{filter: f, block: block, next: make([]int, len(f.texts))}
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
