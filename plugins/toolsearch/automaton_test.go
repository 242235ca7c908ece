package toolsearch

import (
	"regexp/syntax"
	"strings"
	"testing"
)

// pieces are what generated files are made of: line ends of all kinds, characters
// whose case or class engines see differently, and bytes that are no text.
var pieces = []string{
	"a", "b", "ab", "needle", "Needle", "x1", "foo bar", "foo_bar", "  ", "\t", "\n", "\n", "\n", "\r\n", "\r", "\n\n", "é", "É", "世界", "K", "\u212a", "ſ", "s",
	"\u00a0", "\u2028", "٣", "\xff", "\xc3", "\xe9\xe9", "\ufffd", "\ufeff", "_", "-", "(", "TODO:", "ß", "ẞ", "I", "ı", "İ", "\x0b", "\x1c", "\x85",
}

var patterns = []string{
	"needle", "Needle|TODO", "(?i)needle", "(?i)k", "(?i)s", "(?i)É", "(?i)ß", "(?i)i", `\w`, `\W`, `\d`, `\D+b`, `\s`, `\S\s\S`, `\bfoo\b`, `\Bo`, `b\b`, `e\B`, `^a`, `b$`, `a$`,
	`\r`, `\s$`, `^\s+$`, `^.$`, `^..$`, "a.b", "a.*b", "[^a]b", "[^\\x00-\\x7f]", `\pL`, `\PL`, `\p{Greek}|世`, "世.", "\ufffd", `[\x{fffd}]`, `a\x{fffd}?b`, "é", `\xe9`, "ab{2,}", "(ab|a)(b|1)", `\Aa`, `b\z`,
	"x[0-9]", "(?U)a.*b", "[[:space:]]b", `\Q(\E`, "(?s)a.b", "(?-s)a.b", "a|", "a*", "^$", "", `\x0b`, `[ -~]\n`, "\ufeff", "^\ufeff?a",
}

// TestAutomaton: of the lines of a text it passes those that may match, by what
// bytes tell, and no others.
func TestAutomaton(t *testing.T) {
	for _, tc := range []struct{ pattern, lines, want string }{
		{`[0-9]{3}`, "12 3|x123|1234|12", "x123|1234"},
		{`^[a-z]+_[0-9]+x$`, "ab_1x|ab_1xx| ab_1x|a_12x|_1x|ab_1x", "ab_1x|a_12x|ab_1x"},
		{`a$`, "ab|ba|a|b", "ba|a"},
		{`^a|b$`, "ac|ca|cb|bc", "ac|cb"},
		{`(?i)ab`, "xAb|a b|AB|ba", "xAb|AB"},
		{`[a-c]\d|x y`, "a1|d1|x|x y", "a1|x y"},
		{`a.b`, "ab|acb|aéb|a世b", "acb|aéb|a世b"},
		{`a[^b]{2}c`, "axc|axyc|abbc", "axyc"},
		{`^$`, "a||b", ""},
		// Beyond ASCII it is told from ASCII alone.
		{`é[0-9]`, "è1|e1|é", "è1"},
	} {
		tree, err := syntax.Parse(tc.pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		p := newProgram(tree)
		if p == nil {
			if tc.want != "" {
				t.Errorf("%q: no program", tc.pattern)
			}
			continue
		}
		for _, end := range []string{"\n", "\r\n"} {
			text := []byte(strings.ReplaceAll(tc.lines, "|", end))
			var got []string
			a := newAutomaton(p)
			for pos := 0; pos < len(text); {
				at := a.from(text, pos)
				if at == len(text) {
					break
				}
				start := strings.LastIndexByte(string(text[:at]), '\n') + 1
				line, rest, _ := strings.Cut(string(text[start:]), "\n")
				got = append(got, strings.TrimSuffix(line, "\r"))
				pos = len(text) - len(rest)
			}
			if said := strings.Join(got, "|"); said != tc.want {
				t.Errorf("%q with %q: got %q, want %q", tc.pattern, end, said, tc.want)
			}
		}
	}
}

// TestAutomatonBounds: one with more states than it may have passes everything,
// and one that passes everything from the start is none.
func TestAutomatonBounds(t *testing.T) {
	for pattern, none := range map[string]bool{`(a|b)*a(a|b){12}[c]`: false, "a*": true, "^": true, "$": true, `a{0,3}`: true, `(?:[ab]{1000})`: false, `[a-z]{900}[0-9]{900}[a-f]{500}`: true} {
		tree, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		p := newProgram(tree)
		if (p == nil) != none {
			t.Errorf("%q: got a program: %v", pattern, p != nil)
		}
		if p == nil {
			continue
		}
		a := newAutomaton(p)
		text := []byte(strings.Repeat("abbabaabbbaababbabaaabbabbbbaabbab", 300) + "\n")
		if at := a.from(text, 0); len(a.states) > maxStates || a.full && at == len(text) {
			t.Errorf("%q: %d states, full %v, passes at %d", pattern, len(a.states), a.full, at)
		}
	}
}
