package gitignore

import "strings"

// segment is the part of a pattern between two slashes.
type segment struct {
	glob string
	// literal: no character of glob is special.
	literal bool
	// suffix: glob is one star and a literal rest.
	suffix bool
	// any stands for any number of folders: the segment "**".
	any bool
}

// special are the characters that are more than themselves in a pattern.
const special = `*?[\`

func newSegment(glob string) segment {
	return segment{
		glob:    glob,
		literal: !strings.ContainsAny(glob, special),
		suffix:  strings.HasPrefix(glob, "*") && !strings.ContainsAny(glob[1:], special),
		any:     len(glob) >= 2 && strings.Trim(glob, "*") == "",
	}
}

func (s *segment) match(name string) bool {
	switch {
	case s.literal:
		return s.glob == name
	case s.suffix:
		return strings.HasSuffix(name, s.glob[1:])
	}
	return match(s.glob, name)
}

// matchPath compares a rule with the path dir+name; dir is "" or ends with a
// slash.
func (r *rule) matchPath(dir, name string) bool {
	p := path{dir, name}
	segs, i := r.segments, 0
	// retry is where to go on after a mismatch: behind the last "**", with one
	// more folder given to it. Going back to an earlier "**" cannot help.
	retry, from := -1, path{}
	for !p.empty() {
		if i < len(segs) && segs[i].any {
			if i++; i == len(segs) {
				return true
			}
			retry, from = i, p
			continue
		}
		if i < len(segs) {
			head, rest := p.cut()
			if segs[i].match(head) {
				i, p = i+1, rest
				continue
			}
		}
		if retry < 0 {
			return false
		}
		_, from = from.cut()
		i, p = retry, from
	}
	return i == len(segs)
}

// path is what remains to be compared, in two parts so that no string is built.
type path struct{ dir, name string }

func (p path) empty() bool { return p.dir == "" && p.name == "" }

func (p path) cut() (head string, rest path) {
	if p.dir == "" {
		return p.name, path{}
	}
	head, dir, _ := strings.Cut(p.dir, "/")
	return head, path{dir, p.name}
}

// match compares a pattern without slashes with a name, in time proportional
// to the product of their lengths at most.
func match(pattern, name string) bool {
	i, j := 0, 0
	retry, from := -1, 0
	for j < len(name) {
		if i < len(pattern) && pattern[i] == '*' {
			i++
			retry, from = i, j
			continue
		}
		if i < len(pattern) {
			if n, ok := matchByte(pattern[i:], name[j]); ok {
				i, j = i+n, j+1
				continue
			}
		}
		if retry < 0 {
			return false
		}
		from++
		i, j = retry, from
	}
	return strings.Trim(pattern[i:], "*") == ""
}

// matchByte compares the first element of a pattern with a byte; n is the
// element's length. A pattern that ends in its middle matches nothing.
func matchByte(pattern string, c byte) (n int, ok bool) {
	switch pattern[0] {
	case '?':
		return 1, true
	case '\\':
		return 2, len(pattern) > 1 && pattern[1] == c
	case '[':
		return matchSet(pattern, c)
	}
	return 1, pattern[0] == c
}

// matchSet is matchByte for [abc], [a-z], [!a] and [[:alpha:]].
func matchSet(pattern string, c byte) (n int, ok bool) {
	i := 1
	negated := i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^')
	if negated {
		i++
	}
	found := false
	// low is the start of a possible range, -1 for none.
	low := -1
	for first := true; ; first = false {
		if i >= len(pattern) {
			return 0, false
		}
		switch {
		case pattern[i] == ']' && !first:
			return i + 1, found != negated
		case pattern[i] == '-' && low >= 0 && i+1 < len(pattern) && pattern[i+1] != ']':
			i++
			if pattern[i] == '\\' {
				i++
			}
			if i >= len(pattern) {
				return 0, false
			}
			found = found || low <= int(c) && c <= pattern[i]
			low = -1
			i++
		case strings.HasPrefix(pattern[i:], "[:"):
			end := strings.IndexByte(pattern[i+2:], ']')
			if end < 0 {
				return 0, false
			}
			name, closed := strings.CutSuffix(pattern[i+2:i+2+end], ":")
			if !closed {
				found = found || c == '['
				low = '['
				i++
				continue
			}
			in, known := inClass(name, c)
			if !known {
				return 0, false
			}
			found = found || in
			low = -1
			i += 2 + end + 1
		default:
			if pattern[i] == '\\' {
				i++
			}
			if i >= len(pattern) {
				return 0, false
			}
			found = found || c == pattern[i]
			low = int(pattern[i])
			i++
		}
	}
}

// inClass knows the classes of POSIX, for ASCII.
func inClass(name string, c byte) (in, known bool) {
	lower, upper, digit := 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9'
	graph := '!' <= c && c <= '~'
	switch name {
	case "alnum":
		return lower || upper || digit, true
	case "alpha":
		return lower || upper, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < ' ' || c == 0x7f, true
	case "digit":
		return digit, true
	case "graph":
		return graph, true
	case "lower":
		return lower, true
	case "print":
		return graph || c == ' ', true
	case "punct":
		return graph && !lower && !upper && !digit, true
	case "space":
		return c == ' ' || '\t' <= c && c <= '\r', true
	case "upper":
		return upper, true
	case "xdigit":
		return digit || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F', true
	}
	return false, false
}
