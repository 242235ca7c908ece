package toolsearch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"time"

	"dsh/kernel"
	"dsh/kernel/process"
	"dsh/kernel/tool"
)

// Values of Config.Ripgrep beside a path.
const (
	ripgrepAuto  = "auto"
	ripgrepNever = "never"
)

// ripgrep has the program rg tell which of many files may match, where ours would
// match line by line: by texts and automatons it is as fast as rg, and by those
// that outgrow their bounds many times slower. The walk that
// finds the files, and the search of those that rg names, are ours, so that the
// results are those of a machine without it: rg need only be as good as a sieve
// (foreign). It gets files by their paths, with every rule of its own about
// ignored, hidden, binary and large files off.
type ripgrep struct {
	setting  string
	runner   process.Runner
	confiner process.Confiner
	log      *slog.Logger
	// ahead and limit are aheadOfRipgrep and ripgrepLimit.
	ahead int
	limit time.Duration
	// eager: it is asked in any search, for tests.
	eager bool

	mu sync.Mutex
	// looked is set once path says where a usable rg is; "" for nowhere.
	looked bool
	path   string
}

// Bounds of rg.
const (
	// aheadOfRipgrep is how many files of a search are searched here before rg is
	// started for the others: a small search is over by then, and so is one that
	// finds much.
	aheadOfRipgrep = 400
	// ripgrepLimit is how long rg may take for one batch of files, or to say its
	// version.
	ripgrepLimit = 5 * time.Second
)

// wanted reports whether it is worth while to ask for rg.
func (r *ripgrep) wanted() bool {
	if r.runner == nil || r.setting == ripgrepNever {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.looked || r.path != ""
}

// errNoRipgrep says that there is no usable rg.
var errNoRipgrep = errors.New("there is no ripgrep")

// find gives the path of a usable rg. It looks once; a call that is cancelled
// meanwhile leaves it to the next.
func (r *ripgrep) find(ctx context.Context, session, dir string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.looked {
		path, err := r.look(ctx, session, dir)
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if err != nil && !errors.Is(err, exec.ErrNotFound) || err != nil && r.setting != ripgrepAuto {
			r.log.Warn("ripgrep is not used; searches go on without it", "ripgrep", r.setting, "error", err)
		}
		r.looked, r.path = true, path
	}
	if r.path == "" {
		return "", errNoRipgrep
	}
	return r.path, nil
}

func (r *ripgrep) look(ctx context.Context, session, dir string) (string, error) {
	path := r.setting
	if path == ripgrepAuto {
		var err error
		if path, err = exec.LookPath("rg"); err != nil {
			return "", err
		}
	}
	var out bounded
	out.room = 4 << 10
	exit, err := r.runner.Run(ctx, process.Command{
		Path: path, Args: []string{"--no-config", "--version"}, Dir: dir, Output: &out, Timeout: r.limit, SessionID: session, Confinement: r.confinement(),
	})
	switch {
	case err != nil:
		return "", err
	case exit.TimedOut || exit.Code != 0:
		return "", fmt.Errorf("%s --version: %s", path, ended(exit))
	case !strings.HasPrefix(string(out.b), "ripgrep "):
		return "", fmt.Errorf("%s is another program: its --version is %.40q", path, out.b)
	}
	return path, nil
}

// confinement lets rg read and do nothing else, where the machine can hold that.
func (r *ripgrep) confinement() *process.Confinement {
	c := &process.Confinement{Mode: process.ReadOnly, NoNetwork: true}
	if r.confiner == nil || r.confiner.Probe(c).Level == process.ReachedNone {
		return nil
	}
	return c
}

func ended(e process.Exit) string {
	switch {
	case e.TimedOut:
		return "it did not end in time"
	case e.Signal != "":
		return "it was ended by " + e.Signal
	}
	return fmt.Sprintf("it ended with the code %d", e.Code)
}

// giveUp has no further search use rg.
func (r *ripgrep) giveUp(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.path != "" {
		r.log.Warn("ripgrep is not used any more; searches go on without it", "path", r.path, "error", err)
	}
	r.path = ""
}

// sieve is rg for one search.
type sieve struct {
	ripgrep *ripgrep
	session string
	// dir is the searched folder, expression what foreign has made.
	dir, expression string
}

// sieve makes that of a search for lines below a folder; nil where rg cannot help.
func (s *Search) sieve(in tool.Invocation, dir string, re *regexp.Regexp) *sieve {
	if !s.ripgrep.wanted() || re.MatchString("") {
		return nil
	}
	tree, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return nil
	}
	expression, ok := foreign(tree)
	if !ok {
		return nil
	}
	return &sieve{s.ripgrep, in.SessionID, dir, "(?:" + expression + ")|" + utf16Mark}
}

// utf16Mark passes files in UTF-16, which rg is told to take for bytes: to decode
// them is left to one of the two.
const utf16Mark = `(?-u:^(?:\xFF\xFE|\xFE\xFF))`

// errUnsuited says that rg cannot do this search and may well do others.
var errUnsuited = errors.New("ripgrep cannot search this")

// pass tells which files may match, by the indexes of their paths below dir.
// After an error nothing is known of them; unless it is the end of ctx or
// errUnsuited, rg is not used any more.
func (s *sieve) pass(ctx context.Context, files []found) ([]bool, error) {
	program, err := s.ripgrep.find(ctx, s.session, s.dir)
	if err != nil {
		return nil, err
	}
	args := []string{
		"--no-config", "--no-messages", "--color=never", "--no-mmap", "--text", "--encoding=none", "--files-with-matches", "--null", "--case-sensitive",
		"--regexp=" + s.expression, "--",
	}
	named := make(map[string]int, len(files))
	out := bounded{}
	passed := make([]bool, len(files))
	for i, f := range files {
		if passed[i] = !f.sifted; passed[i] {
			continue
		}
		name := "." + string(filepath.Separator) + filepath.FromSlash(f.rel)
		args = append(args, name)
		named[name] = i
		out.room += len(name) + 1
	}
	if len(named) == 0 {
		return passed, nil
	}
	exit, err := s.ripgrep.runner.Run(ctx, process.Command{
		Path: program, Args: args, Dir: s.dir, Output: &out, Errors: discard{}, Timeout: s.ripgrep.limit, SessionID: s.session,
		Confinement: s.ripgrep.confinement(),
	})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil, exit.Cancelled, exit.Code == 2 && !out.over:
		// A command line that is too long, a file that may not be read, an expression
		// that is too large for it.
		return nil, errUnsuited
	}
	if err := read(passed, &out, exit, named); err != nil {
		s.ripgrep.giveUp(err)
		return nil, err
	}
	return passed, nil
}

// read marks the files that rg names as passed.
func read(passed []bool, out *bounded, exit process.Exit, named map[string]int) error {
	if exit.TimedOut || exit.Code != 0 && exit.Code != 1 {
		return errors.New(ended(exit))
	}
	rest, n := string(out.b), 0
	for rest != "" && !out.over {
		name, after, whole := strings.Cut(rest, "\x00")
		i, known := named[name]
		if !whole || !known {
			return fmt.Errorf("it names a file that it was not given: %.100q", name)
		}
		passed[i], rest = true, after
		n++
	}
	if out.over || (n > 0) != (exit.Code == 0) {
		return fmt.Errorf("it names %d of %d files and %s", n, len(named), ended(exit))
	}
	return nil
}

// bounded takes output up to its room.
type bounded struct {
	b    []byte
	room int
	over bool
}

func (o *bounded) Write(p []byte) (int, error) {
	kept := min(len(p), o.room-len(o.b))
	o.b = append(o.b, p[:kept]...)
	o.over = o.over || kept < len(p)
	return len(p), nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// checkRipgrep refuses a setting that is none.
func checkRipgrep(setting string) error {
	if setting == ripgrepAuto || setting == ripgrepNever || filepath.IsAbs(setting) {
		return nil
	}
	return kernel.Invalid("ripgrep", "%q is neither %s nor %s nor an absolute path; name rg by its full path", setting, ripgrepAuto, ripgrepNever)
}
