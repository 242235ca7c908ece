package permissions

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"

	"dsh/plugins/internal/gitignore"
)

// pathPattern is the content of a rule about paths (spec stream-json 7.2): a
// plain way to a folder or file, and a pattern in the manner of .gitignore for
// what is below it.
type pathPattern struct {
	// from is where the way starts.
	from start
	// way is the plain part; it may be "".
	way string
	// rest is the pattern below the way, nil when the way itself, with all that is
	// below it, is meant.
	rest *gitignore.Dir
	// folded is rest in small letters, for disks that do not tell case.
	folded *gitignore.Dir
	// inner: only what is below the way is meant, not the way itself.
	inner bool
}

type start int

const (
	fromCWD start = iota
	// fromRoot is the folder of the settings file's project.
	fromRoot
	fromHome
	fromSlash
)

const special = `*?[\`

func parsePath(content string) (*pathPattern, error) {
	p := &pathPattern{from: fromCWD}
	text := filepath.ToSlash(content)
	switch {
	case strings.ContainsAny(content, "\n\x00"):
		return nil, errors.New("a pattern of paths is one line")
	case strings.HasPrefix(text, "!"):
		return nil, errors.New("a pattern of paths cannot begin with !; write a rule for what is meant")
	case strings.HasPrefix(text, "//"):
		p.from, text = fromSlash, text[1:]
	case text == "~" || strings.HasPrefix(text, "~/"):
		p.from, text = fromHome, "/"+strings.TrimPrefix(text[1:], "/")
	case strings.HasPrefix(text, "/"):
		p.from = fromRoot
	case strings.HasPrefix(text, "./"):
		text = text[1:]
	case text == "." || text == "..":
		text = "/" + text
	case !strings.Contains(strings.TrimSuffix(text, "/"), "/"):
		// A name without a slash is meant at any depth.
		p.inner = true
		return p, p.compile(text)
	}
	parts := strings.Split(strings.Trim(text, "/"), "/")
	if strings.Trim(text, "/") == "" {
		return p, nil
	}
	n := 0
	for n < len(parts) && !strings.ContainsAny(parts[n], special) {
		n++
	}
	p.way = strings.Join(parts[:n], "/")
	switch rest := parts[n:]; {
	case len(rest) == 0:
		return p, nil
	case len(rest) == 1 && rest[0] == "**":
		p.inner = true
		return p, nil
	default:
		p.inner = true
		return p, p.compile("/" + strings.Join(rest, "/"))
	}
}

func (p *pathPattern) compile(pattern string) error {
	if strings.HasPrefix(pattern, "#") {
		pattern = `\` + pattern
	}
	none := gitignore.Root()
	p.rest = none.With([]byte(pattern))
	p.folded = none.With([]byte(strings.ToLower(pattern)))
	if p.rest == none {
		return errors.New("the pattern of paths matches nothing")
	}
	return nil
}

// scene is what patterns are relative to.
type scene struct {
	cwd, root, home string
	// fold: the disk does not tell case.
	fold bool
	disk *disk
}

func (p *pathPattern) base(s scene) string {
	dir := s.cwd
	switch p.from {
	case fromRoot:
		if s.root != "" {
			dir = s.root
		}
	case fromHome:
		if dir = s.home; dir == "" {
			return ""
		}
	case fromSlash:
		dir = string(filepath.Separator)
		if runtime.GOOS == "windows" && len(p.way) > 1 && p.way[1] == ':' {
			return filepath.Clean(filepath.FromSlash(p.way) + `\`)
		}
	}
	return filepath.Join(dir, filepath.FromSlash(p.way))
}

// covers reports whether the place is meant, in any spelling; resolved looks
// only at where it leads, and tells case: so much a rule needs to allow.
func (p *pathPattern) covers(s scene, at place, resolved bool) bool {
	base := p.base(s)
	if base == "" {
		return false
	}
	real := s.disk.follow(base)
	if resolved {
		return p.matches(real, at.real, false, true)
	}
	return p.matches(base, at.lexical, s.fold, false) || p.matches(real, at.real, s.fold, false) ||
		base != real && p.matches(real, at.lexical, s.fold, false)
}

// matches compares one spelling. Unless strict, what names a folder's content
// names the folder, too, and a pattern for folders one that may be a file.
func (p *pathPattern) matches(base, path string, fold, strict bool) bool {
	rel, ok := below(base, path, fold)
	switch {
	case !ok:
		return false
	case rel == ".":
		return !p.inner || !strict && p.rest == nil
	case p.rest == nil:
		return true
	}
	dir := p.rest
	if fold {
		dir = p.folded
	}
	parts := strings.Split(filepath.ToSlash(rel), "/")
	for i, name := range parts {
		last := i == len(parts)-1
		if dir.Ignored(name, !last || !strict) {
			return true
		}
		dir = dir.Child(name)
	}
	// "src/*/gen/**" names what is in gen; a search of gen itself is about that.
	return !strict && dir.Ignored("x", false)
}

// wildcard compares a text with a pattern in which * stands for any characters.
func wildcard(pattern, text string) bool {
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && pattern[p] == text[t]:
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchesCommand compares a simple command with the content of a rule (spec
// stream-json 7.2): ":*" and " *" at the end stand for any arguments, or none.
func matchesCommand(content, command string) bool {
	prefix, ok := strings.CutSuffix(content, ":*")
	if !ok {
		prefix, ok = strings.CutSuffix(content, " *")
	}
	if ok {
		return wildcard(prefix, command) || wildcard(prefix+" *", command)
	}
	return wildcard(content, command)
}
