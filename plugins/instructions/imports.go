package instructions

import (
	"fmt"
	"path/filepath"
	"strings"

	"dsh/plugins/internal/contextfile"
)

// maxImports bounds the files that one file imports.
const maxImports = 50

// importer collects what a file imports.
type importer struct {
	*Instructions
	root string
	// known are the real paths of files that are given already.
	known map[string]bool
	// left is how many bytes there may still be.
	left int
	out  *strings.Builder
}

// imports appends the files that text, which stands in file, names; cut says that
// there was more than may be. What looks like an import and is no file below the
// root stays what it is, text.
func (in *importer) imports(file, text string, depth int) (cut bool) {
	if depth == 0 {
		return false
	}
	for _, name := range references(text) {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(file), filepath.FromSlash(name))
		}
		info, err := contextfile.Find(path)
		if err != nil || info == nil || !info.Mode().IsRegular() {
			continue
		}
		real, err := contextfile.Inside(in.root, path)
		if err != nil {
			in.notices.Warn("an import is left out", path, err)
			continue
		}
		if in.known[real] || len(in.known) > maxImports {
			continue
		}
		in.known[real] = true
		if in.left <= 0 {
			return true
		}
		imported, short, err := contextfile.Read(real, in.left)
		if err != nil {
			in.notices.Warn("an import is left out", path, err)
			continue
		}
		in.left -= len(imported)
		fmt.Fprintf(in.out, "\n\nThe file %s, which is imported above:\n\n%s", real, strings.TrimSpace(imported))
		if short || in.imports(real, imported, depth-1) {
			return true
		}
	}
	return false
}

// references lists the paths behind an @ at the start of a word, outside of code.
func references(text string) []string {
	var names []string
	fence := ""
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		if mark := fenceOf(trimmed); mark != "" {
			switch {
			case fence == "":
				fence = mark
			case strings.HasPrefix(mark, fence) && mark == trimmed:
				fence = ""
			}
			continue
		}
		if fence != "" || !strings.Contains(line, "@") {
			continue
		}
		for n, part := range strings.Split(line, "`") {
			if n%2 == 1 {
				continue // between backticks
			}
			for word := range strings.FieldsSeq(part) {
				name, ok := strings.CutPrefix(strings.TrimLeft(word, "(["), "@")
				name = strings.TrimRight(name, ".,;:!?)]")
				if ok && name != "" && !strings.HasPrefix(name, "~") {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// fenceOf gives the mark that begins or ends a block of code, "" for none.
func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 {
			return line[:n]
		}
	}
	return ""
}
