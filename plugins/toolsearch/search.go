package toolsearch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
	"unicode"

	"dsh/kernel"
	"dsh/kernel/tool"
	"dsh/plugins/internal/dialect"
	"dsh/plugins/internal/failure"
	"dsh/plugins/internal/textfile"
)

// Search offers the tools glob and grep (decision D20), or Glob and Grep. Both walk the tree
// themselves, so that their answers depend on no other program, ripgrep included.
type Search struct {
	config Config
	owner  *kernel.Owner
	tools  *tool.Registry
	// ripgrep speeds the search of many files up.
	ripgrep *ripgrep

	glob, grep tool.Tool
}

// New makes the tools; register puts them where the agents find them.
func New(p Params) *Search {
	c := p.Config
	s := &Search{
		config: c, owner: p.Self.Owner, tools: p.Tools,
		ripgrep: &ripgrep{setting: c.Ripgrep, runner: p.Runner, confiner: p.Confiner, log: p.Self.Log, ahead: aheadOfRipgrep, limit: ripgrepLimit},
	}
	if c.Dialect == dialect.Claude {
		s.claude()
		return s
	}
	s.glob = tool.Typed(tool.Spec{
		Name: "glob",
		Description: "Finds files by name. * and ? stand for any characters of a name, ** for any number of folders, {a,b} for a or b: **/*.go, src/**/*.{ts,tsx}. " +
			"A pattern without ** looks only in the folders it names. " +
			fmt.Sprintf("Gives absolute paths, those changed last first, %d at most. ", c.MaxFiles) + leftOut,
		ReadOnly: true,
		Parallel: true,
		Subject:  tool.Subject{Rule: "Glob", Kind: tool.SubjectPattern, Member: "pattern", Dir: "path"},
	}, s.callGlob)
	s.grep = tool.Typed(tool.Spec{
		Name: "grep",
		Description: "Finds the lines of files that match a regular expression (RE2 syntax: no look-around, no back-references; (?i) in front ignores case). " +
			fmt.Sprintf("Gives the lines with their numbers for each file, %d lines at most. ", c.MaxMatches) + leftOut,
		ReadOnly: true,
		Parallel: true,
		Subject:  tool.Subject{Rule: "Grep", Kind: tool.SubjectPath, Member: "path"},
	}, s.callGrep)
	return s
}

const leftOut = "What .gitignore names is left out, and so are files and folders whose name begins with a dot, unless the pattern names them so."

func (s *Search) register() error {
	for _, t := range []tool.Tool{s.glob, s.grep} {
		if err := s.tools.Register(s.owner, t); err != nil {
			return err
		}
	}
	return nil
}

// Codes of failed calls, for programs.
const (
	codeArguments  = failure.Arguments
	codeBadPattern = "SEARCH_BAD_PATTERN"
	codeNotFound   = "SEARCH_NOT_FOUND"
	codeFailed     = "SEARCH_FAILED"
)

const (
	// maxNothing bounds what says that nothing was found, in characters.
	maxNothing = 2000
	// maxResult bounds the text of a result, in bytes.
	maxResult = 50 << 10
)

func failed(code, format string, args ...any) tool.Result {
	return failure.Result("SearchError", code, "Error: ", format, args...)
}

func describe(path string, err error) tool.Result {
	var at *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failed(codeNotFound, "cannot search %q: not found", path)
	case errors.As(err, &at):
		return failed(codeFailed, "cannot search %q: %v", path, at.Err)
	}
	return failed(codeFailed, "cannot search %q: %v", path, err)
}

// errTime ends a search that takes too long, with what it has found.
var errTime = errors.New("the search took too long")

func (s *Search) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, time.Duration(s.config.TimeoutMs)*time.Millisecond, errTime)
}

func (s *Search) tookTooLong() string {
	return fmt.Sprintf("the search was stopped after %v, so there may be more; use a narrower pattern or path", time.Duration(s.config.TimeoutMs)*time.Millisecond)
}

// show gives a path on one line of valid text.
func show(path string) string {
	s, _ := textfile.Printable([]byte(path))
	if strings.ContainsFunc(s, unicode.IsControl) {
		return strconv.Quote(s)
	}
	return s
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
