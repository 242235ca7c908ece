package toolsearch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"

	"dsh/kernel/tool"
)

type grepParams struct {
	Pattern string `json:"pattern" jsonschema:"The regular expression to look for in each line (RE2 syntax)."`
	Path    string `json:"path,omitzero" jsonschema:"The folder or file to search: an absolute path, or one relative to the working directory, which is the default."`
	Include string `json:"include,omitzero" jsonschema:"Search only files whose name matches this pattern, such as *.go or *.{ts,tsx}; a pattern with a slash is compared with the path below the searched folder."`
}

func (s *Search) callGrep(ctx context.Context, in tool.Invocation, p grepParams) (tool.Result, error) {
	if p.Pattern == "" {
		return failed(codeArguments, "the pattern is empty; say what to look for"), nil
	}
	re, err := regexp.Compile(p.Pattern)
	if err != nil {
		return failed(codeBadPattern, "the pattern is not a regular expression in RE2 syntax: %v; look-around and back-references do not exist in it, and \\ makes a special character an ordinary one", err), nil
	}
	include := filepath.ToSlash(p.Include)
	if err := checkGlob(include); err != nil {
		return failed(codeBadPattern, "include %q cannot be used: %v", p.Include, err), nil
	}
	base, res := s.base(in.CWD, p.Path)
	if res != nil {
		return *res, nil
	}
	info, err := os.Stat(base)
	if err != nil {
		return describe(base, err), nil
	}
	ctx, cancel := s.limited(ctx)
	defer cancel()
	g := gathering{s: s}
	all := searching{
		matcher: newMatcher(re, s.config), ahead: maxAhead, add: g.add,
		admits: func(rel string) bool { return included(include, rel) },
		sieve:  s.sieve(in, base, re),
	}
	if info.IsDir() {
		w := walk{cwd: in.CWD, base: base, hidden: namesHidden(include), depth: -1, unread: in.Hidden}
		err = all.tree(ctx, w)
	} else {
		all.files, err = 1, all.one(ctx, base)
	}
	switch {
	case errors.Is(err, errTime), errors.Is(err, errEnough):
	case err != nil && ctx.Err() != nil:
		return tool.Result{}, context.Cause(ctx)
	case err != nil:
		return describe(base, err), nil
	}
	return tool.TextResult(g.text(err, all.files)), nil
}

// included compares a file with the include parameter.
func included(include, rel string) bool {
	if include == "" {
		return true
	}
	if !strings.Contains(include, "/") {
		return doublestar.MatchUnvalidated(include, path.Base(rel))
	}
	return doublestar.MatchUnvalidated(strings.TrimPrefix(include, "./"), rel)
}

// errEnough ends a search that has found as much as is given.
var errEnough = errors.New("enough was found")

// gathering collects what the files give into one text, in their order.
type gathering struct {
	s       *Search
	out     strings.Builder
	matches int
	// cutLines: a line was so long that only its start was searched.
	cutLines bool
	// full: the text reached its bound before the matches did.
	full bool
}

// searching searches files and hands what they give on, in their order.
type searching struct {
	matcher *matcher
	// ahead bounds the files that wait for an earlier one, or for a worker.
	ahead int
	// admits says which files of a walk are searched.
	admits func(rel string) bool
	// sieve, when set, says which of many files may match.
	sieve *sieve // nil for none
	// add takes what one file gave; an error ends the search.
	add func(path string, r fileResult) error
	// files counts what the walk has admitted; it is to be read when the search has
	// ended.
	files int
}

// one searches a single file that the model named.
func (g *searching) one(ctx context.Context, path string) error {
	r, err := g.matcher.named(ctx, path)
	if err != nil && !errors.Is(err, errTime) {
		return err
	}
	if r.binary {
		return errors.New("it is binary")
	}
	if err := g.add(path, r); err != nil {
		return err
	}
	return err
}

const (
	// maxWorkers bounds the files that are searched at once.
	maxWorkers = 16
	// maxAhead is the usual searching.ahead.
	maxAhead = 64
)

type job struct {
	path   string
	result fileResult
	err    error
	done   chan struct{}
}

// found is a file of a walk; rel is its path below the walk's base, with slashes.
type found struct {
	path, rel string
	// sifted: the sieve is to say whether it may match. A line of a larger file might
	// be longer than what is searched of it here, and would be in memory there.
	sifted bool
}

// tree searches the files of a walk, several at once. The first in the order of
// the walk are given, whichever is searched first, so that equal searches have
// equal results. It returns when all its goroutines have ended.
func (g *searching) tree(ctx context.Context, w walk) error {
	call := ctx
	ctx, cancel := context.WithCancelCause(call)
	jobs, order := make(chan *job), make(chan *job, g.ahead)
	var wg sync.WaitGroup
	search := func(f found) error {
		j := &job{path: f.path, done: make(chan struct{})}
		for _, c := range []chan *job{order, jobs} {
			select {
			case c <- j:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}
	var walkErr error
	sieve := g.sieve
	each := func(next func(found) error) {
		w.visit = func(path, rel string, e fs.DirEntry) error {
			if !e.Type().IsRegular() || !g.admits(rel) {
				return nil
			}
			g.files++
			f := found{path: path, rel: rel}
			if sieve != nil && g.files > sieve.ripgrep.ahead && (sieve.ripgrep.eager || g.matcher.slow.Load()) {
				info, err := e.Info()
				f.sifted = err == nil && info.Size() <= maxLine
			}
			return next(f)
		}
		walkErr = w.run(ctx)
	}
	if sieve == nil {
		wg.Go(func() {
			defer close(order)
			defer close(jobs)
			each(search)
		})
	} else {
		files := make(chan found, filesAhead)
		wg.Go(func() {
			defer close(files)
			each(func(f found) error {
				select {
				case files <- f:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
		})
		wg.Go(func() {
			defer close(order)
			defer close(jobs)
			g.sift(ctx, files, search)
		})
	}
	for range min(maxWorkers, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			buf := newBuffer()
			for j := range jobs {
				j.result, j.err = g.matcher.file(ctx, j.path, buf)
				close(j.done)
			}
		})
	}
	err := g.collect(ctx, order)
	cancel(err)
	wg.Wait()
	switch {
	case err != nil:
		return err
	case call.Err() != nil:
		// The sieve may have been cut short when the walk was over.
		return context.Cause(call)
	}
	return walkErr
}

// filesAhead bounds the files of a walk that wait for the sieve.
const filesAhead = 4096

// sift searches those of the files that the sieve passes, in their order. An error
// of search is the end of ctx, of which the others hear by themselves.
func (g *searching) sift(ctx context.Context, files <-chan found, search func(found) error) {
	var batch []found
	size, usable := 0, true
	flush := func() error {
		passed, err := g.sieve.pass(ctx, batch)
		usable = err == nil
		for i, f := range batch {
			if usable && !passed[i] {
				continue
			}
			if err := search(f); err != nil {
				return err
			}
		}
		batch, size = batch[:0], 0
		return nil
	}
	for f := range files {
		if !usable || !f.sifted && len(batch) == 0 {
			if search(f) != nil {
				return
			}
			continue
		}
		batch = append(batch, f)
		if size += len(f.rel) + 16; size >= batchSize && flush() != nil {
			return
		}
	}
	if len(batch) > 0 {
		_ = flush()
	}
}

func (g *searching) collect(ctx context.Context, order <-chan *job) error {
	for j := range order {
		select {
		case <-j.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if j.err != nil {
			// A file that is gone or may not be read is no reason to give nothing.
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			continue
		}
		if err := g.add(j.path, j.result); err != nil {
			return err
		}
	}
	return nil
}

// add writes what a file gave; errEnough says that no more is wanted.
func (g *gathering) add(path string, r fileResult) error {
	if r.binary {
		return nil
	}
	g.cutLines = g.cutLines || r.cutLines
	for i, h := range r.hits {
		if g.matches == g.s.config.MaxMatches {
			return errEnough
		}
		var entry string
		if i == 0 {
			if g.matches > 0 {
				entry = "\n"
			}
			entry += show(path) + ":\n"
		}
		entry += fmt.Sprintf("  %d: %s\n", h.line, h.text)
		if g.out.Len()+len(entry) > maxResult && g.matches > 0 {
			g.full = true
			return errEnough
		}
		g.out.WriteString(entry)
		g.matches++
	}
	return nil
}

// text is the result of a search through so many files that ended with err, which
// is nil, errTime or errEnough.
func (g *gathering) text(err error, files int) string {
	var notes []string
	switch {
	case errors.Is(err, errTime):
		notes = append(notes, g.s.tookTooLong())
	case g.full:
		notes = append(notes, fmt.Sprintf("the result is full after %s, and there are more; use a narrower pattern, path or include", counted(g.matches, "matching line")))
	case errors.Is(err, errEnough):
		notes = append(notes, fmt.Sprintf("cut at %s, and there are more; use a narrower pattern, path or include", counted(g.matches, "matching line")))
	}
	if g.cutLines {
		notes = append(notes, fmt.Sprintf("of lines longer than %d KiB only the start was searched", maxLine>>10))
	}
	if g.matches == 0 {
		fmt.Fprintf(&g.out, "No matches found in %s\n", counted(files, "file"))
	}
	if len(notes) > 0 {
		fmt.Fprintf(&g.out, "\n(%s)", strings.Join(notes, "; "))
	}
	return strings.TrimSuffix(g.out.String(), "\n")
}

// newBuffer is what a worker reads its files into.
func newBuffer() *buffer { return &buffer{b: make([]byte, 0, readSize)} }
