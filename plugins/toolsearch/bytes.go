package toolsearch

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// runeSet is what an expression accepts in one place, as far as bytes tell: the
// characters of ASCII exactly, those beyond in one piece. The latter may be
// characters in any encoding, as files hold them.
type runeSet struct {
	ascii  [utf8.RuneSelf]bool
	beyond bool
}

func (s *runeSet) add(low, high rune) {
	for r := low; r <= min(high, utf8.RuneSelf-1); r++ {
		s.ascii[r] = r != '\n' // which is in no line
	}
	s.beyond = s.beyond || high >= utf8.RuneSelf
}

// fold adds a character in every case.
func (s *runeSet) fold(r rune) {
	s.add(r, r)
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		s.add(f, f)
	}
}

// takes reports whether a byte is a character of the set, or part of one.
func (s *runeSet) takes(b byte) bool {
	if b >= utf8.RuneSelf {
		return s.beyond
	}
	return s.ascii[b]
}

func anyRune() (s runeSet) {
	s.add(0, unicode.MaxRune)
	return s
}

// maxForeign bounds a foreign expression, in bytes: it goes on a command line.
const maxForeign = 8 << 10

// foreign writes an expression for the Rust engine of ripgrep so that it matches
// in every line in which the original does, and in few others: the engines differ
// in what letters, spaces and word ends are, in bytes that are no text, and in
// the ends of lines. ok is false for one that cannot be written.
func foreign(re *syntax.Regexp) (text string, ok bool) {
	w := foreignWriter{ok: true}
	w.write(re)
	return w.out.String(), w.ok && w.out.Len() <= maxForeign
}

type foreignWriter struct {
	out strings.Builder
	ok  bool
}

func (w *foreignWriter) write(re *syntax.Regexp) {
	if w.out.Len() > maxForeign {
		w.ok = false
		return
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			switch {
			case r == '\n':
				w.ok = false // no line has it
			case re.Flags&syntax.FoldCase != 0:
				var s runeSet
				s.fold(r)
				w.set(s)
			case r == utf8.RuneError: // also stands for a byte that is no text
				w.set(runeSet{beyond: true})
			default:
				fmt.Fprintf(&w.out, `\x{%X}`, r)
			}
		}
	case syntax.OpCharClass:
		var s runeSet
		for i := 0; i < len(re.Rune); i += 2 {
			s.add(re.Rune[i], re.Rune[i+1])
		}
		w.set(s)
	case syntax.OpAnyCharNotNL, syntax.OpAnyChar:
		w.set(anyRune())
	case syntax.OpBeginLine, syntax.OpBeginText:
		w.out.WriteString(`(?:^\x{FEFF}?)`)
	case syntax.OpEndLine, syntax.OpEndText:
		w.out.WriteString(`(?:\r?$)`)
	case syntax.OpWordBoundary:
		w.out.WriteString(`(?-u:\b)`)
	case syntax.OpNoWordBoundary:
		w.out.WriteString(`(?-u:\B)`)
	case syntax.OpCapture:
		w.group(re.Sub, "")
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			w.write(sub)
		}
	case syntax.OpAlternate:
		w.group(re.Sub, "|")
	case syntax.OpStar:
		w.group(re.Sub, "")
		w.out.WriteByte('*')
	case syntax.OpPlus:
		w.group(re.Sub, "")
		w.out.WriteByte('+')
	case syntax.OpQuest:
		w.group(re.Sub, "")
		w.out.WriteByte('?')
	case syntax.OpRepeat:
		w.group(re.Sub, "")
		fmt.Fprintf(&w.out, "{%d,", re.Min)
		if re.Max >= 0 {
			fmt.Fprintf(&w.out, "%d", re.Max)
		}
		w.out.WriteByte('}')
	default:
		w.ok = false // it matches nothing
	}
}

func (w *foreignWriter) group(subs []*syntax.Regexp, between string) {
	w.out.WriteString("(?:")
	for i, sub := range subs {
		if i > 0 {
			w.out.WriteString(between)
		}
		w.write(sub)
	}
	w.out.WriteByte(')')
}

func (w *foreignWriter) set(s runeSet) {
	const beyond = `(?-u:[\x80-\xFF])+`
	var class strings.Builder
	for r := 0; r < len(s.ascii); r++ {
		first := r
		for r < len(s.ascii) && s.ascii[r] {
			r++
		}
		if r > first {
			fmt.Fprintf(&class, `\x%02X-\x%02X`, first, r-1)
		}
	}
	switch {
	case class.Len() == 0 && !s.beyond:
		w.ok = false
	case class.Len() == 0:
		w.out.WriteString(`(?:` + beyond + `)`)
	case !s.beyond:
		w.out.WriteString(`[` + class.String() + `]`)
	default:
		w.out.WriteString(`(?:[` + class.String() + `]|` + beyond + `)`)
	}
}
