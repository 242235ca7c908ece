package toolsearch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"dsh/kernel/tool"
	"dsh/kernel/workspace"
	"dsh/plugins/internal/textfile"
)

type globParams struct {
	Pattern string `json:"pattern" jsonschema:"The pattern of the paths to find, relative to path."`
	Path    string `json:"path,omitzero" jsonschema:"The folder to look in: an absolute path, or one relative to the working directory, which is the default."`
}

func (s *Search) callGlob(ctx context.Context, in tool.Invocation, p globParams) (tool.Result, error) {
	g, refused, err := s.globbing(ctx, in, p)
	if err != nil || refused != nil {
		return deref(refused), err
	}
	return tool.TextResult(s.globText(g.found, g.base, g.pattern, g.late)), nil
}

// globbed is what the walk of a pattern found.
type globbed struct {
	found newest
	// base and pattern are what was searched for where.
	base, pattern string
	// late says that the time did not suffice.
	late bool
}

func deref(r *tool.Result) tool.Result {
	if r == nil {
		return tool.Result{}
	}
	return *r
}

// globbing finds the files of a pattern, or says why it cannot be used.
func (s *Search) globbing(ctx context.Context, in tool.Invocation, p globParams) (g globbed, refused *tool.Result, err error) {
	refuse := func(r tool.Result) (globbed, *tool.Result, error) { return g, &r, nil }
	if strings.TrimSpace(p.Pattern) == "" {
		return refuse(failed(codeArguments, "the pattern is empty; use ** for all files"))
	}
	pattern := filepath.ToSlash(p.Pattern)
	if err := checkGlob(pattern); err != nil {
		return refuse(failed(codeBadPattern, "the pattern %q cannot be used: %v", p.Pattern, err))
	}
	base, res := s.base(in.CWD, p.Path)
	if res != nil {
		return g, res, nil
	}
	// What a pattern names without wildcards need not be searched for, may lead out
	// of path, and is meant even if it is ignored.
	named, pattern := doublestar.SplitPattern(pattern)
	base, err = workspace.Resolve(base, filepath.FromSlash(named))
	if err != nil {
		return refuse(failed(codeArguments, "cannot search: %v", err))
	}
	if pattern == "" {
		pattern = "**"
	}
	ctx, cancel := s.limited(ctx)
	defer cancel()
	found := newest{most: s.config.MaxFiles}
	w := walk{cwd: in.CWD, base: base, hidden: namesHidden(pattern), depth: depthOf(pattern), unread: in.Hidden, visit: func(path, rel string, e fs.DirEntry) error {
		if !doublestar.MatchUnvalidated(pattern, rel) {
			return nil
		}
		info, err := e.Info()
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			info, err = os.Stat(path)
		}
		if err == nil && info.Mode().IsRegular() {
			found.add(path, info.ModTime())
		}
		return nil
	}}
	err = w.run(ctx)
	switch {
	case errors.Is(err, errTime):
	case err != nil && ctx.Err() != nil:
		return g, nil, context.Cause(ctx)
	case err != nil && named == ".":
		return refuse(describe(base, err))
	}
	return globbed{found, base, pattern, errors.Is(err, errTime)}, nil, nil
}

// maxBraces bounds the alternatives of a pattern, which are tried in all their
// combinations.
const maxBraces = 8

func checkGlob(pattern string) error {
	switch {
	case !doublestar.ValidatePattern(pattern):
		return errors.New("a bracket or brace is not closed; put \\ before one that is meant as it is")
	case strings.Count(pattern, "{") > maxBraces:
		return fmt.Errorf("it has more than %d braces; search more than once", maxBraces)
	}
	return nil
}

// base gives the folder to search.
func (s *Search) base(cwd, path string) (string, *tool.Result) {
	if path == "" {
		path = "."
	}
	base, err := workspace.Resolve(cwd, path)
	if err != nil {
		r := failed(codeArguments, "cannot search: %v", err)
		return "", &r
	}
	return base, nil
}

func (s *Search) globText(found newest, base, pattern string, late bool) string {
	var b strings.Builder
	shown := 0
	for _, f := range found.list() {
		line := show(f.path)
		if b.Len()+len(line) > maxResult && shown > 0 {
			break
		}
		b.WriteString(line)
		b.WriteByte('\n')
		shown++
	}
	var notes []string
	switch {
	case shown == 0:
		note, _ := textfile.Cut("No files match "+show(pattern)+" in "+show(base), maxNothing)
		if !strings.Contains(pattern, "**") {
			note += " (without ** a pattern looks only in the folders it names)"
		}
		b.WriteString(note)
	case shown < found.count && late:
		notes = append(notes, fmt.Sprintf("%d of at least %d files, those changed last", shown, found.count))
	case shown < found.count:
		notes = append(notes, fmt.Sprintf("%d of %d files, those changed last; use a narrower pattern or path to see others", shown, found.count))
	}
	if late {
		notes = append(notes, s.tookTooLong())
	}
	if len(notes) > 0 {
		fmt.Fprintf(&b, "\n(%s)", strings.Join(notes, "; "))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// depthOf is how many folders deep a pattern can match.
func depthOf(pattern string) int {
	if strings.Contains(pattern, "**") || strings.ContainsAny(pattern, `{\[`) {
		return -1
	}
	return strings.Count(pattern, "/")
}

// newest keeps those of many files that were changed last.
type newest struct {
	most  int
	count int
	files []foundFile
}

type foundFile struct {
	path string
	time time.Time
}

func (n *newest) add(path string, t time.Time) {
	n.count++
	n.files = append(n.files, foundFile{path, t})
	if len(n.files) >= 2*n.most+64 {
		n.files = slices.Clip(n.list())
	}
}

// list gives the files, newest first.
func (n *newest) list() []foundFile {
	slices.SortFunc(n.files, func(a, b foundFile) int {
		if c := b.time.Compare(a.time); c != 0 {
			return c
		}
		return strings.Compare(a.path, b.path)
	})
	return n.files[:min(len(n.files), n.most)]
}
