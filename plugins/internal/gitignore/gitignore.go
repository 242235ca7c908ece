// Package gitignore decides, as git does, which files of a tree a walk leaves
// out: the last matching rule of the deepest ignore file wins, and what lies in
// an ignored folder is ignored whatever other rules say (a walk that does not
// enter such a folder gets that for nothing).
//
// Names are compared byte by byte, with respect to case. One habit of git is
// left out, against which its own manual speaks: stars behind the plain start
// of a pattern with slashes, as in "a**/b", are ordinary stars here.
package gitignore

import "strings"

// Dir is a folder of a walk with all the rules that hold in it. It does not
// change and may be used from any goroutine.
type Dir struct {
	// up is the place of the next weaker rules, nil for none.
	up *Dir
	// path is the folder's, relative to the root: "" or with a slash at the end.
	path  string
	rules []rule
}

// Root is the folder where a walk begins, without rules.
func Root() *Dir { return &Dir{} }

// With adds the rules of an ignore file that lies in d. They go ahead of those
// added before.
func (d *Dir) With(file []byte) *Dir {
	rules := parse(string(file))
	if len(rules) == 0 {
		return d
	}
	return &Dir{up: d, path: d.path, rules: rules}
}

// Child is the folder of that name in d.
func (d *Dir) Child(name string) *Dir {
	up := d
	if len(d.rules) == 0 {
		up = d.up
	}
	return &Dir{up: up, path: d.path + name + "/"}
}

// Ignored reports whether the entry of that name in d is ignored.
func (d *Dir) Ignored(name string, isDir bool) bool {
	for at := d; at != nil; at = at.up {
		for i := len(at.rules) - 1; i >= 0; i-- {
			r := &at.rules[i]
			if r.dirOnly && !isDir {
				continue
			}
			if r.basename && r.segments[0].match(name) || !r.basename && r.matchPath(d.path[len(at.path):], name) {
				return !r.negated
			}
		}
	}
	return false
}

type rule struct {
	negated, dirOnly bool
	// basename: the one segment is compared with an entry's name at any depth.
	basename bool
	segments []segment
}

func parse(file string) []rule {
	var rules []rule
	for line := range strings.SplitSeq(strings.TrimPrefix(file, "\xef\xbb\xbf"), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.HasPrefix(line, "#") {
			continue
		}
		line = trimSpaces(line)
		var r rule
		line, r.negated = strings.CutPrefix(line, "!")
		line, r.dirOnly = strings.CutSuffix(line, "/")
		if line == "" {
			continue
		}
		if r.basename = !strings.Contains(line, "/"); r.basename {
			r.segments = []segment{newSegment(line)}
		} else {
			for _, s := range split(strings.TrimPrefix(line, "/")) {
				r.segments = append(r.segments, newSegment(s))
			}
		}
		rules = append(rules, r)
	}
	return rules
}

// trimSpaces cuts the spaces at the end, but not one that a backslash keeps.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = min(i+1, len(line))
	}
	return line[:end]
}

// split cuts a pattern at its slashes. A backslash before one means nothing.
func split(pattern string) []string {
	var parts []string
	var part strings.Builder
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		if c == '\\' && i+1 < len(pattern) {
			i++
			if c = pattern[i]; c != '/' {
				part.WriteByte('\\')
			}
		}
		if c == '/' {
			parts = append(parts, part.String())
			part.Reset()
			continue
		}
		part.WriteByte(c)
	}
	return append(parts, part.String())
}
