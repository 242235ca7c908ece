package toollsp

import (
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A person, and the model, count lines and characters from 1, a character being
// one Unicode code point; the protocol counts from 0 and in UTF-16 units.

// splitLines gives the lines of a text without their ends. A lone carriage return
// does not end a line: the tool Read and most servers do not see it so.
func splitLines(text string) []string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSuffix(l, "\r")
	}
	return lines
}

// units gives the protocol's count for a character of a line, which may be the one
// behind the last.
func units(line string, character int) (int, error) {
	n, at := 0, 1
	for _, r := range line {
		if at == character {
			return n, nil
		}
		n += utf16.RuneLen(r)
		at++
	}
	if at == character {
		return n, nil
	}
	return 0, fmt.Errorf("the line has %d characters", utf8.RuneCountInString(line))
}

// character gives the character of a line that stands at the protocol's count. One
// within a character is its beginning, one beyond the end is behind the last.
func character(line string, units int) int {
	at := 1
	for _, r := range line {
		if units -= utf16.RuneLen(r); units < 0 {
			return at
		}
		at++
	}
	return at
}

// uriOf gives the URI of an absolute path.
func uriOf(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	u := url.URL{Scheme: "file", Path: path}
	return u.String()
}

// pathOf gives the path of a URI; ok is false when it names no file.
func pathOf(uri string) (path string, ok bool) {
	u, err := url.Parse(uri)
	if err != nil || !strings.EqualFold(u.Scheme, "file") || u.Path == "" || strings.ContainsRune(u.Path, 0) {
		return "", false
	}
	if u.Host != "" && u.Host != "localhost" {
		return "", false
	}
	path = u.Path
	if runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, "/")
	}
	path = filepath.Clean(filepath.FromSlash(path))
	return path, filepath.IsAbs(path)
}
