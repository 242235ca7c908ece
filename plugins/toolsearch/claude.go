package toolsearch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"dsh/kernel/tool"
	"dsh/plugins/internal/dialect"
	"dsh/plugins/internal/textfile"
	"dsh/sdkproto/wirejson"
)

// The parameters of Glob and Grep (spec stream-json 9).
type claudeGlob struct {
	Pattern string `json:"pattern" jsonschema:"The pattern of the paths to find, relative to path."`
	Path    string `json:"path,omitzero" jsonschema:"The folder to look in; by default the working directory."`
}

type claudeGrep struct {
	Pattern    string `json:"pattern" jsonschema:"The regular expression to look for in each line (RE2 syntax)."`
	Path       string `json:"path,omitzero" jsonschema:"The folder or file to search; by default the working directory."`
	Glob       string `json:"glob,omitzero" jsonschema:"Search only files whose name matches, such as *.go or *.{ts,tsx}; with a slash the path below the searched folder is compared, with ! in front what matches is left out."`
	Type       string `json:"type,omitzero" jsonschema:"Search only files of a kind, such as go, js, py, rust or java."`
	OutputMode string `json:"output_mode,omitzero" jsonschema:"files_with_matches, the default, gives paths; content gives the lines; count gives the number of matching lines of each file." enum:"content,files_with_matches,count"`
	Before     int    `json:"-B,omitzero" jsonschema:"With content: how many lines to show before each match."`
	After      int    `json:"-A,omitzero" jsonschema:"With content: how many lines to show after each match."`
	Around     int    `json:"-C,omitzero" jsonschema:"With content: how many lines to show before and after each match."`
	Context    int    `json:"context,omitzero" jsonschema:"The same as -C."`
	Numbers    *bool  `json:"-n,omitzero" jsonschema:"With content: whether to show the numbers of the lines, by default true."`
	IgnoreCase bool   `json:"-i,omitzero" jsonschema:"Ignore case."`
	Only       bool   `json:"-o,omitzero" jsonschema:"With content: show only what matches in place of the lines."`
	HeadLimit  *int   `json:"head_limit,omitzero" jsonschema:"How many lines or paths to give at most, by default 250; 0 for as many as there is room for."`
	Offset     int    `json:"offset,omitzero" jsonschema:"How many lines or paths to skip first."`
	Multiline  bool   `json:"multiline,omitzero" jsonschema:"Let matches stretch over lines; . then matches a line end, too."`
}

const (
	defaultHead = 250
	// maxOffset bounds what is found only to be skipped.
	maxOffset = 10_000
	// maxContext bounds the lines around a match.
	maxContext = 100
)

// Output modes of Grep.
const (
	modeFiles   = "files_with_matches"
	modeContent = "content"
	modeCount   = "count"
)

// claude makes the tools of the dialect claude.
func (s *Search) claude() {
	s.glob = tool.Typed(tool.Spec{
		Name: "Glob",
		Description: "Finds files by name. * and ? stand for any characters of a name, ** for any number of folders, {a,b} for a or b: **/*.go, src/**/*.{ts,tsx}. " +
			"A pattern without ** looks only in the folders it names. " +
			fmt.Sprintf("Gives absolute paths, those changed last first, %d at most. ", s.config.MaxFiles) + leftOut,
		ReadOnly: true,
		Parallel: true,
		Subject:  tool.Subject{Rule: "Glob", Kind: tool.SubjectPattern, Member: "pattern", Dir: "path"},
	}, s.callClaudeGlob)
	s.grep = tool.Typed(tool.Spec{
		Name: "Grep",
		Description: "Searches the content of files for a regular expression (RE2 syntax: no look-around, no back-references). " +
			"Gives the paths of the files that match, or with output_mode their lines or counts. Use it in place of the commands grep and rg. " + leftOut,
		ReadOnly: true,
		Parallel: true,
		Subject:  tool.Subject{Rule: "Grep", Kind: tool.SubjectPath, Member: "path"},
	}, s.callClaudeGrep)
}

// claudeGlobbed is the structured result of Glob.
type claudeGlobbed struct {
	DurationMs int64    `json:"durationMs"`
	NumFiles   int      `json:"numFiles"`
	Filenames  []string `json:"filenames"`
	Truncated  bool     `json:"truncated"`
}

func (s *Search) callClaudeGlob(ctx context.Context, in tool.Invocation, p claudeGlob) (tool.Result, error) {
	began := time.Now()
	g, refused, err := s.globbing(ctx, in, globParams(p))
	if err != nil || refused != nil {
		return dialect.Bare(deref(refused)), err
	}
	m := claudeGlobbed{Filenames: []string{}}
	size := 0
	for _, f := range g.found.list() {
		line := show(f.path)
		if size += len(line) + 1; size > maxResult && len(m.Filenames) > 0 {
			break
		}
		m.Filenames = append(m.Filenames, line)
	}
	m.NumFiles, m.Truncated = len(m.Filenames), len(m.Filenames) < g.found.count || g.late
	m.DurationMs = time.Since(began).Milliseconds()
	text := "No files found"
	if m.NumFiles > 0 {
		text = strings.Join(m.Filenames, "\n")
	}
	switch {
	case g.late:
		text += "\n(" + s.tookTooLong() + ")"
	case m.Truncated:
		text += fmt.Sprintf("\n(%d of %d files, those changed last; use a narrower pattern or path to see others)", m.NumFiles, g.found.count)
	case m.NumFiles == 0 && !strings.Contains(g.pattern, "**"):
		text += " (without ** a pattern looks only in the folders it names)"
	}
	return withMeta(text, m)
}

func withMeta(text string, meta any) (tool.Result, error) {
	res := tool.TextResult(text)
	var err error
	res.Meta, err = wirejson.Marshal(meta)
	return res, err
}

// claudeGrepped is the structured result of Grep.
type claudeGrepped struct {
	Mode string `json:"mode"`
	// NumFiles and Filenames are the files that the text speaks of.
	NumFiles  int      `json:"numFiles"`
	Filenames []string `json:"filenames"`
	// Content and NumLines are those of mode content, NumMatches of mode count.
	Content    *string `json:"content,omitzero"`
	NumLines   *int    `json:"numLines,omitzero"`
	NumMatches *int    `json:"numMatches,omitzero"`
	// AppliedLimit says that there is more than head_limit let through.
	AppliedLimit  int `json:"appliedLimit,omitzero"`
	AppliedOffset int `json:"appliedOffset,omitzero"`
}

func (s *Search) callClaudeGrep(ctx context.Context, in tool.Invocation, p claudeGrep) (tool.Result, error) {
	g, refused := s.grepping(in, p)
	if refused != nil {
		return dialect.Bare(*refused), nil
	}
	info, err := os.Stat(g.base)
	if err != nil {
		return dialect.Bare(describe(g.base, err)), nil
	}
	ctx, cancel := s.limited(ctx)
	defer cancel()
	g.ctx = ctx
	all := searching{matcher: g.matcher, ahead: g.ahead(), add: g.add, admits: g.admits}
	if g.matcher.across == nil {
		all.sieve = s.sieve(in, g.base, g.matcher.re)
	}
	if info.IsDir() {
		w := walk{cwd: in.CWD, base: g.base, hidden: slices.ContainsFunc(g.globs, func(x string) bool { return x[0] != '!' && namesHidden(x) }), depth: -1, unread: in.Hidden}
		err = all.tree(ctx, w)
	} else {
		err = all.one(ctx, g.base)
	}
	switch {
	case errors.Is(err, errTime), errors.Is(err, errEnough):
	case err != nil && ctx.Err() != nil:
		return tool.Result{}, context.Cause(ctx)
	case err != nil:
		return dialect.Bare(describe(g.base, err)), nil
	}
	return g.result(err)
}

// grepping makes the search of a call, or says why there is none.
func (s *Search) grepping(in tool.Invocation, p claudeGrep) (*lines, *tool.Result) {
	refuse := func(code, format string, args ...any) (*lines, *tool.Result) {
		r := failed(code, format, args...)
		return nil, &r
	}
	if p.Pattern == "" {
		return refuse(codeArguments, "the pattern is empty; say what to look for")
	}
	before, after := p.Before, p.After
	for _, around := range []int{p.Around, p.Context} {
		before, after = max(before, around), max(after, around)
	}
	head := defaultHead
	if p.HeadLimit != nil {
		head = *p.HeadLimit
	}
	switch {
	case min(p.Before, p.After, p.Around, p.Context, p.Offset, head) < 0:
		return refuse(codeArguments, "-A, -B, -C, context, head_limit and offset must be 0 or more")
	case p.Offset > maxOffset:
		return refuse(codeArguments, "offset may be %d at most; use a narrower pattern or path", maxOffset)
	}
	flagged := p.Pattern
	if p.IgnoreCase {
		flagged = "(?i)" + flagged
	}
	re, err := regexp.Compile(flagged)
	if err != nil {
		return refuse(codeBadPattern, "the pattern is not a regular expression in RE2 syntax: %v; look-around and back-references do not exist in it, and \\ makes a special character an ordinary one", err)
	}
	g := &lines{
		s: s, mode: p.OutputMode, head: head, offset: p.Offset,
		before: min(before, maxContext), after: min(after, maxContext), numbers: p.Numbers == nil || *p.Numbers,
	}
	if g.mode == "" {
		g.mode = modeFiles
	}
	if g.globs, err = splitGlobs(p.Glob); err != nil {
		return refuse(codeBadPattern, "glob %q cannot be used: %v", p.Glob, err)
	}
	if p.Type != "" {
		var ok bool
		if g.kinds, ok = fileTypes()[p.Type]; !ok {
			return refuse(codeArguments, "type %q is not known; there are %s; or use glob", p.Type, typeNames())
		}
	}
	g.matcher = newMatcher(re, s.config)
	g.matcher.most = g.wanted()
	switch g.mode {
	case modeFiles:
		g.matcher.most, g.matcher.counting = 1, true
	case modeCount:
		g.matcher.most, g.matcher.counting = 1<<40, true
	default:
		g.matcher.parts = p.Only
	}
	if p.Only {
		g.before, g.after = 0, 0
	}
	if p.Multiline {
		if g.matcher.across, err = newAcrossLines(flagged); err != nil {
			return refuse(codeBadPattern, "the pattern cannot be used with multiline: %v", err)
		}
	}
	base, refused := s.base(in.CWD, p.Path)
	g.base = base
	return g, refused
}

// lines collects what files give, as Grep shows it.
type lines struct {
	s *Search
	// ctx is the search's.
	ctx     context.Context
	matcher *matcher
	mode    string
	base    string
	globs   []string
	// kinds are the patterns of the wanted type, nil for all.
	kinds         []string
	head, offset  int
	before, after int
	numbers       bool

	out      strings.Builder
	skipped  int
	shown    int
	matches  int
	files    []string
	cutLines bool
	tooLarge int
	// full: the text reached its bound before the limit.
	full bool
	// groups counts the groups of lines that stand together.
	groups int
}

// wanted is how many lines of one file can be of use.
func (g *lines) wanted() int {
	// A line takes three bytes at the least.
	most := maxResult / 3
	if g.head > 0 {
		most = min(most, g.head)
	}
	return g.offset + most + 1
}

// ahead keeps what is found in advance small where a file may give much.
func (g *lines) ahead() int {
	if g.matcher.counting {
		return maxAhead
	}
	return max(1, min(maxAhead, maxAhead*defaultHead/g.matcher.most))
}

func (g *lines) admits(rel string) bool {
	if g.kinds != nil && !slices.ContainsFunc(g.kinds, func(x string) bool { return included(x, rel) }) {
		return false
	}
	wanted, any := false, false
	for _, x := range g.globs {
		if not, ok := strings.CutPrefix(x, "!"); ok {
			if included(not, rel) {
				return false
			}
			continue
		}
		any, wanted = true, wanted || included(x, rel)
	}
	return wanted || !any
}

// add takes up what a file gave; errEnough says that no more is wanted.
func (g *lines) add(path string, r fileResult) error {
	g.cutLines = g.cutLines || r.cutLines
	if r.tooLarge {
		g.tooLarge++
	}
	if r.binary || r.count == 0 {
		return nil
	}
	switch name := show(path); g.mode {
	case modeFiles:
		return g.entry(path, name)
	case modeCount:
		if err := g.entry(path, fmt.Sprintf("%s:%d", name, r.count)); err != nil {
			return err
		}
		if len(g.files) > 0 && g.files[len(g.files)-1] == name {
			g.matches += r.count
		}
		return nil
	}
	if g.before+g.after > 0 {
		return g.surrounded(path, r.hits)
	}
	for _, h := range r.hits {
		if err := g.line(path, h, ':'); err != nil {
			return err
		}
	}
	return nil
}

// line writes one line of a file; sep is : for one that matches, - for others.
func (g *lines) line(path string, h hit, sep byte) error {
	s := string(sep)
	text := show(path) + s
	if g.numbers {
		text += fmt.Sprintf("%d%s", h.line, s)
	}
	return g.entry(path, text+h.text)
}

// entry writes one entry, unless it is skipped.
func (g *lines) entry(path, text string) error {
	if g.skipped < g.offset {
		g.skipped++
		return nil
	}
	if g.head > 0 && g.shown == g.head {
		return errEnough
	}
	if g.out.Len()+len(text) > maxResult && g.shown > 0 {
		g.full = true
		return errEnough
	}
	g.out.WriteString(text)
	g.out.WriteByte('\n')
	g.shown++
	if name := show(path); len(g.files) == 0 || g.files[len(g.files)-1] != name {
		g.files = append(g.files, name)
	}
	return nil
}

// surrounded writes lines with those around them, which are read once more.
func (g *lines) surrounded(path string, hits []hit) error {
	f, _, err := textfile.Open(path)
	if err != nil {
		return nil // it is gone meanwhile
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, readSize)
	head, _ := r.Peek(textfile.SniffLen) // an error comes again with the first line
	enc := textfile.Sniff(head)
	if _, err := r.Discard(len(enc.BOM())); err != nil {
		return nil
	}
	if enc == textfile.UTF16LE || enc == textfile.UTF16BE {
		r = bufio.NewReaderSize(enc.Reader(r), readSize)
	}
	last := 0 // the line that was written last
	for n := 1; len(hits) > 0; n++ {
		if n%1024 == 0 && g.ctx.Err() != nil {
			return context.Cause(g.ctx)
		}
		for len(hits) > 0 && hits[0].line+g.after < n {
			hits = hits[1:]
		}
		if len(hits) == 0 {
			return nil
		}
		text, ok := startOfLine(r)
		if !ok {
			return nil
		}
		if n < hits[0].line-g.before {
			continue
		}
		if (last > 0 && n > last+1 || last == 0 && g.groups > 0) && g.shown > 0 && g.skipped >= g.offset {
			g.out.WriteString("--\n")
		}
		if last == 0 || n > last+1 {
			g.groups++
		}
		last = n
		h, sep := hit{n, ""}, byte('-')
		if i := slices.IndexFunc(hits, func(h hit) bool { return h.line >= n }); i >= 0 && hits[i].line == n {
			h, sep = hits[i], ':'
		} else {
			h.text = g.matcher.excerpt(text, []int{0, 0})
		}
		if err := g.line(path, h, sep); err != nil {
			return err
		}
	}
	return nil
}

// startOfLine reads a line and gives as much of it as may be shown; ok is false at
// the end.
func startOfLine(r *bufio.Reader) (text []byte, ok bool) {
	for {
		part, err := r.ReadSlice('\n')
		ok = ok || len(part) > 0
		if room := readSize - len(text); room > 0 {
			text = append(text, part[:min(len(part), room)]...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			text = []byte(strings.TrimRight(string(text), "\r\n"))
			return text, ok
		}
	}
}

// result is that of a search that ended with err, which is nil, errTime or
// errEnough.
func (g *lines) result(err error) (tool.Result, error) {
	m := claudeGrepped{Mode: g.mode, NumFiles: len(g.files), Filenames: g.files, AppliedOffset: g.offset}
	if m.Filenames == nil {
		m.Filenames = []string{}
	}
	// A group that there was no room for leaves its line in front behind.
	text := strings.TrimSuffix(strings.TrimSuffix(g.out.String(), "\n"), "\n--")
	switch g.mode {
	case modeContent:
		m.Content, m.NumLines = &text, &g.shown
	case modeCount:
		m.NumMatches = &g.matches
	}
	said := text
	switch {
	case g.shown == 0 && g.mode == modeFiles:
		said = "No files found"
	case g.shown == 0:
		said = "No matches found"
	case g.mode == modeCount:
		said += fmt.Sprintf("\n\nTotal: %d in %s", g.matches, counted(len(g.files), "file"))
	}
	var notes []string
	switch {
	case errors.Is(err, errTime):
		notes = append(notes, g.s.tookTooLong())
	case g.full:
		notes = append(notes, fmt.Sprintf("the result is full, and there are more; use offset %d to go on, or a narrower pattern", g.offset+g.shown))
	case errors.Is(err, errEnough):
		m.AppliedLimit = g.head
		notes = append(notes, fmt.Sprintf("cut at head_limit %d, and there are more; use offset %d to go on", g.head, g.offset+g.shown))
	}
	if g.cutLines {
		notes = append(notes, fmt.Sprintf("of lines longer than %d KiB only the start was searched", maxLine>>10))
	}
	if g.tooLarge > 0 {
		notes = append(notes, fmt.Sprintf("%s larger than %d MiB left out, because multiline needs them whole", counted(g.tooLarge, "file"), maxAcross>>20))
	}
	if len(notes) > 0 {
		said += "\n\n(" + strings.Join(notes, "; ") + ")"
	}
	return withMeta(said, m)
}

// splitGlobs gives the patterns of a glob parameter: they stand apart by white
// space, or by commas outside of braces.
func splitGlobs(glob string) ([]string, error) {
	var globs []string
	depth := 0
	parts := strings.FieldsFunc(filepath.ToSlash(glob), func(r rune) bool {
		switch r {
		case '{':
			depth++
		case '}':
			depth--
		}
		return r == ' ' || r == '\t' || r == ',' && depth <= 0
	})
	for _, part := range parts {
		if err := checkGlob(strings.TrimPrefix(part, "!")); err != nil {
			return nil, err
		}
		if part != "!" {
			globs = append(globs, part)
		}
	}
	return globs, nil
}
