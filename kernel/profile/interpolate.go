package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// maxFileValue bounds what ${file:} may read, in bytes.
const maxFileValue = 1 << 20

// resolve gives v with the interpolations of its scalars replaced. For a scalar
// that cannot be resolved it reports why and gives nil at the top, or leaves
// the scalar as written further down.
func (l *loader) resolve(v *value, path string, bad *problems) *value {
	switch v.kind {
	case list:
		out := *v
		out.items = make([]*value, len(v.items))
		for i, item := range v.items {
			at := fmt.Sprintf("%s.%d", path, i)
			if out.items[i] = l.resolve(item, at, bad); out.items[i] == nil {
				out.items[i] = item
			}
		}
		return &out
	case mapping:
		out := *v
		out.members = make(map[string]*value, len(v.members))
		for _, key := range v.keys {
			member := v.members[key]
			if out.members[key] = l.resolve(member, keyPath(path, key), bad); out.members[key] == nil {
				out.members[key] = member
			}
		}
		return &out
	case text:
		if v.layer == nil || !strings.Contains(v.raw, "${") {
			return v
		}
	default:
		return v
	}
	expanded, used, err := l.expand(v)
	if err != nil {
		bad.add(v.pos, path, "%v", err)
		return nil
	}
	out := *v
	out.text, out.interpolated = expanded, used
	if used && v.bare {
		if k, canonical, json, ok := scalar(expanded); ok && (k == truth || k == number) {
			out.kind, out.text, out.json = k, canonical, json
		}
	}
	return &out
}

// expand replaces the interpolations of a scalar; used tells whether there were
// any besides escapes.
func (l *loader) expand(v *value) (expanded string, used bool, err error) {
	var b strings.Builder
	for rest := v.raw; rest != ""; {
		i := strings.IndexByte(rest, '$')
		if i < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:i])
		rest = rest[i:]
		switch {
		case strings.HasPrefix(rest, "$${"):
			b.WriteString("${")
			rest = rest[len("$${"):]
		case strings.HasPrefix(rest, "${"):
			inner, after, ok := strings.Cut(rest[len("${"):], "}")
			if !ok {
				return "", false, errors.New("${ has no closing brace; write $${ for a literal ${")
			}
			s, err := l.lookup(inner, v)
			if err != nil {
				return "", false, err
			}
			used = true
			b.WriteString(s)
			rest = after
		default:
			b.WriteByte('$')
			rest = rest[1:]
		}
	}
	return b.String(), used, nil
}

func (l *loader) lookup(inner string, v *value) (string, error) {
	source, name, _ := strings.Cut(inner, ":")
	switch {
	case source == "env" && variableForm.matches(name):
		s, ok := l.opts.env(name)
		if !ok {
			return "", fmt.Errorf("the environment variable %s is not set; set it, or override this key", name)
		}
		return strings.ToValidUTF8(s, "\ufffd"), nil
	case source == "env":
		return "", fmt.Errorf("%q is not the name of an environment variable", name)
	case source == "file" && name != "":
		return fileValue(name, v)
	}
	return "", fmt.Errorf("${%s} is not known; use ${env:NAME} or ${file:PATH}, or write $${ for a literal ${", inner)
}

// fileValue reads a file without the line end at its end.
func fileValue(name string, v *value) (string, error) {
	path := name
	if !filepath.IsAbs(path) {
		if v.dir() == "" {
			return "", fmt.Errorf("${file:%s} in an embedded profile has no folder to start at; use an absolute path", name)
		}
		path = filepath.Join(v.dir(), path)
	}
	data, err := readFile(path, maxFileValue)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the file %s does not exist; create it, or override this key", path)
	} else if err != nil {
		return "", fmt.Errorf("read %s: %w", path, reason(err))
	}
	if !utf8.Valid(data) {
		return "", fmt.Errorf("the file %s is not valid UTF-8", path)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}
