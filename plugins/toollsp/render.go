package toollsp

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"dsh/kernel/tool"
	"dsh/plugins/internal/textfile"
)

const (
	// maxLines bounds the results that are written out, here and in a file.
	maxLines = 5000
	// maxText bounds the text of a result, in bytes.
	maxText = 40 << 10
	// maxSource bounds a line of a file that is shown, in characters.
	maxSource = 250
	// maxName bounds a name or a detail of a symbol, in characters.
	maxName = 250
)

// view shows paths as the model of a call knows them.
type view struct {
	cwd string
	// real is cwd without links: servers may have followed them.
	real string
}

func newView(in tool.Invocation) *view {
	v := &view{cwd: filepath.Clean(in.CWD)}
	var err error
	if v.real, err = filepath.EvalSymlinks(v.cwd); err != nil {
		v.real = v.cwd
	}
	return v
}

// show gives a path on one line of valid text, relative to the working directory if
// it is below.
func (v *view) show(path string) string {
	for _, dir := range []string{v.cwd, v.real} {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			path = rel
			break
		}
	}
	return safe(path)
}

func safe(text string) string {
	s, _ := textfile.Printable([]byte(text))
	if strings.ContainsFunc(s, unicode.IsControl) {
		return strconv.Quote(s)
	}
	return s
}

// oneLine makes one line of bounded length of a text.
func oneLine(text string) string {
	text = shorten(strings.Join(strings.Fields(text), " "), maxName)
	text, _ = textfile.Printable([]byte(text))
	return text
}

// where says what an operation was about.
func (a *asking) where() string {
	if a.position == nil {
		return ""
	}
	q := a.question
	line := strings.TrimSpace(sourceLine(a.file.lines, q.Line-1))
	return fmt.Sprintf(" (at %s:%d:%d; the line is %q, and character must be that of a name)", a.show(a.file.path), q.Line, q.Character, line)
}

func sourceLine(lines []string, n int) string {
	if n < 0 || n >= len(lines) {
		return ""
	}
	text, _ := textfile.Printable([]byte(shorten(lines[n], maxSource)))
	return text
}

// result makes the result of what was found.
func (a *asking) result(f *findings) (tool.Result, error) {
	m := answered{Operation: a.question.Operation, FilePath: a.file.path}
	left := f.sift(a)
	files := map[string]bool{}
	for _, p := range f.places {
		files[cmp.Or(p.path, p.uri)] = true
	}
	m.ResultCount, m.FileCount = len(f.places), len(files)
	var text string
	var notes []string
	switch {
	case f.text != "":
		m.ResultCount, m.FileCount = 1, 1
		text, notes = a.fit(strings.ReplaceAll(f.text, "\x00", "\ufffd"))
	case f.silent:
		text = fmt.Sprintf("The language server has reported nothing about %s so far. That may mean that nothing is wrong, or that it is not done; ask again to see.", a.show(a.file.path))
	case len(f.places) == 0:
		text = a.nothing(f)
	default:
		text, notes = a.list(f, len(files))
	}
	if left > 0 {
		notes = append(notes, fmt.Sprintf("%d in files that may not be read %s left out", left, map[bool]string{true: "is", false: "are"}[left == 1]))
	}
	if f.unwatched {
		notes = append(notes, fmt.Sprintf("the workspace has more than %d files, so the server may not know of changes to those that it was not asked about", maxEntries))
	}
	if len(notes) > 0 {
		text += "\n\n(" + strings.Join(notes, "; ") + ")"
	}
	m.Result = text
	return encode(m)
}

// sift takes out what comes twice and what may not be read, puts the rest in order and
// gives how many may not be read.
func (f *findings) sift(a *asking) (hidden int) {
	if a.in.Hidden != nil {
		f.places = slices.DeleteFunc(f.places, func(p place) bool {
			if p.path != "" && p.path != a.file.path && a.in.Hidden(p.path) {
				hidden++
				return true
			}
			return false
		})
	}
	if f.outline {
		return hidden
	}
	slices.SortStableFunc(f.places, func(x, y place) int {
		return cmp.Or(cmp.Compare(x.path, y.path), cmp.Compare(x.uri, y.uri), cmp.Compare(x.at.Line, y.at.Line), cmp.Compare(x.at.Character, y.at.Character))
	})
	f.places = slices.Compact(f.places)
	return hidden
}

func (a *asking) nothing(f *findings) string {
	switch a.question.Operation {
	case opDiagnostics:
		return fmt.Sprintf("No diagnostics for %s.", a.show(a.file.path))
	case opDocumentSymbol:
		return fmt.Sprintf("No symbols in %s.", a.show(a.file.path))
	case opWorkspaceSymbol:
		return fmt.Sprintf("No symbols found for %q.", shorten(a.question.Query, maxName))
	}
	return fmt.Sprintf("No %s found%s.", f.many, a.where())
}

// list writes places out.
func (a *asking) list(f *findings, files int) (text string, notes []string) {
	head := counted(len(f.places), f.one, f.many)
	if a.question.Operation == opDocumentSymbol || files < 2 && f.places[0].path == a.file.path {
		head += " in " + a.show(a.file.path)
	} else {
		head += " in " + counted(files, "file", "files")
	}
	var all []string
	var of *file // the file that was read last: places are in order
	for _, p := range f.places[:min(len(f.places), maxLines)] {
		if of == nil || of.path != p.path {
			of = &file{path: p.path}
			if p.path == a.file.path {
				of = a.file
			} else if read, err := readFile(p.path, a.lsp.config.MaxFile); p.path != "" && err == nil {
				of = read
			}
		}
		all = append(all, a.line(p, of, f.outline))
	}
	shown, size := 0, 0
	for _, line := range all[:min(len(all), a.lsp.config.MaxResults)] {
		if size += len(line) + 1; size > maxText && shown > 0 {
			break
		}
		shown++
	}
	text = head + ":\n" + strings.Join(all[:shown], "\n")
	if shown < len(f.places) {
		notes = append(notes, a.rest(fmt.Sprintf("these are the first %d of %d", shown, len(f.places)), strings.Join(all, "\n")+"\n"))
	}
	return text, notes
}

// line writes one place out; of is its file, without lines when that cannot be read.
func (a *asking) line(p place, of *file, outline bool) string {
	where := a.show(p.path)
	if p.path == "" {
		where = oneLine(p.uri)
	}
	number, at := p.at.Line+1, p.at.Character+1
	var source string
	if p.at.Line >= 0 && p.at.Line < len(of.lines) {
		at = character(of.lines[p.at.Line], p.at.Character)
		source = strings.TrimSpace(sourceLine(of.lines, p.at.Line))
	}
	if outline {
		return fmt.Sprintf("%s%s  %d:%d", strings.Repeat("  ", p.depth), p.what, number, at)
	}
	text := fmt.Sprintf("%s:%d:%d:", where, number, at)
	what, _ := textfile.Printable([]byte(strings.ReplaceAll(p.what, "\n", "\n    ")))
	switch {
	case a.question.Operation == opDiagnostics:
		text += " " + what + "\n    | " + source
	case what != "" && source != "" && p.source:
		text += " " + what + ": " + source
	case p.source:
		text += " " + what + source
	default:
		text += " " + what
	}
	return strings.TrimRight(text, " ")
}

// fit bounds a text.
func (a *asking) fit(text string) (string, []string) {
	if len(text) <= maxText {
		return text, nil
	}
	short := strings.ToValidUTF8(text[:maxText], "") + "…"
	return short, []string{a.rest("this is the beginning", text)}
}

// rest keeps what there is no room for in a file, if the profile can, and says so.
func (a *asking) rest(what, all string) string {
	if a.lsp.spiller == nil {
		return what + "; ask for something narrower to see others"
	}
	path, err := tool.Keep(a.lsp.spiller, a.in.SessionID, a.in.CallID, []byte(all))
	if err != nil {
		a.lsp.log.Warn("the whole answer of a language server cannot be kept", "error", err)
		return what + "; ask for something narrower to see others"
	}
	if n := strings.Count(all, "\n"); n >= maxLines {
		return fmt.Sprintf("%s; the first %d are in %s", what, maxLines, safe(path))
	}
	return what + "; all of it is in " + safe(path)
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
