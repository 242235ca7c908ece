package checkpoint

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"dsh/kernel/process"
)

// gitLimit bounds one run of git.
const gitLimit = 30 * time.Second

// git runs the program git for a session.
type git struct {
	runner  process.Runner
	session string
	// dir is a private repository without a single object.
	dir string
}

// init makes the private repository.
func (g *git) init(long bool) error {
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	if long {
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n"
	}
	for _, d := range []string{"objects", "refs"} {
		if err := os.MkdirAll(filepath.Join(g.dir, d), 0o700); err != nil {
			return err
		}
	}
	return errors.Join(
		os.WriteFile(filepath.Join(g.dir, "HEAD"), []byte("ref: refs/heads/none\n"), 0o600),
		os.WriteFile(filepath.Join(g.dir, "config"), []byte(config), 0o600))
}

// run runs git on a repository and gives what it prints.
func (g *git) run(ctx context.Context, repository string, env []string, args ...string) ([]byte, int, error) {
	var out bytes.Buffer
	code, err := g.runTo(ctx, &out, repository, env, nil, args...)
	return out.Bytes(), code, err
}

func (g *git) runTo(ctx context.Context, out io.Writer, repository string, env []string, input []byte, args ...string) (int, error) {
	var errs bytes.Buffer
	exit, err := g.runner.Run(ctx, process.Command{
		Path: "git", Args: args, Dir: filepath.Dir(g.dir), Input: input, Output: out, Errors: &errs, Timeout: gitLimit, SessionID: g.session,
		// What the environment says of other repositories does not count.
		Env: append([]string{
			"GIT_DIR=" + repository, "GIT_WORK_TREE=" + filepath.Dir(g.dir), "GIT_INDEX_FILE=" + filepath.Join(g.dir, "index"), "GIT_NAMESPACE=", "GIT_CONFIG_COUNT=0", "GIT_CONFIG_PARAMETERS=",
			"GIT_ALTERNATE_OBJECT_DIRECTORIES=", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0",
			"GIT_EXTERNAL_DIFF=", "GIT_TRACE=0", "GIT_TRACE2=0", "LC_ALL=C",
		}, env...),
	})
	switch {
	case err != nil:
		return 0, err
	case exit.TimedOut:
		return 0, fmt.Errorf("git %s took longer than %v", args[0], gitLimit)
	case exit.Cancelled:
		return 0, context.Cause(ctx)
	case exit.Code > 1 || exit.Code < 0:
		return exit.Code, fmt.Errorf("git %s ended with %d: %.500s", args[0], exit.Code, strings.TrimSpace(errs.String()))
	}
	return exit.Code, nil
}

// private is the environment that leaves all configuration but that of the private
// repository out.
func private(more ...string) []string {
	return append(more, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM="+os.DevNull, "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_ATTR_NOSYSTEM=1")
}

// fetch copies contents from the objects of a repository into a store. Those that
// the repository does not have any more stay away.
func (g *git) fetch(ctx context.Context, objects string, ids []string, into *store) error {
	if len(ids) == 0 {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(g.dir), "fetch-*")
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		_ = remove(f.Name()) // the folder goes with its session
	}()
	_, err = g.runTo(ctx, f, g.dir, private("GIT_OBJECT_DIRECTORY="+objects), []byte(strings.Join(ids, "\n")+"\n"), "cat-file", "--batch")
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReader(f)
	for {
		// ID TYPE SIZE, or ID missing.
		line, err := in.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		words := strings.Fields(line)
		if len(words) != 3 {
			continue
		}
		size, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil || size < 0 || size > into.most {
			return fmt.Errorf("git cat-file says %q", line)
		}
		content := make([]byte, size+1)
		if _, err := io.ReadFull(in, content); err != nil {
			return err
		}
		content = content[:size]
		if words[1] != "blob" || into.idOf(content) != words[0] {
			continue
		}
		if err := into.put(words[0], content); err != nil {
			return err
		}
	}
}

// count compares the files of the folders a and b in dir and counts lines. Files
// with zeros in them count nothing.
func (g *git) count(ctx context.Context, dir string) (insertions, deletions int, err error) {
	out, _, err := g.run(ctx, g.dir, private(), "diff", "--no-index", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-color", "--numstat",
		"--", filepath.Join(dir, "a"), filepath.Join(dir, "b"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(out)) {
		words := strings.SplitN(line, "\t", 3)
		if len(words) < 3 {
			continue
		}
		more, _ := strconv.Atoi(words[0]) // a dash is none
		less, _ := strconv.Atoi(words[1])
		insertions, deletions = insertions+more, deletions+less
	}
	return insertions, deletions, nil
}
