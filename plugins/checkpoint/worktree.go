package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// gitName is what git calls its own file or folder in a work tree.
const gitName = ".git"

// maxSmall bounds the files of rules and references that are read.
const maxSmall = 1 << 20

// tree is a Git work tree.
type tree struct {
	// top is its folder, as far as possible in the words of the session; real is the
	// same without links.
	top, real string
	// git is the folder of its index, common that of what work trees share.
	git, common string
}

// findTree finds the work tree that a folder lies in. The error is for people.
func findTree(cwd string) (*tree, error) {
	real, err := filepath.EvalSymlinks(cwd)
	if err != nil {
		return nil, fmt.Errorf("the working directory cannot be used: %w", err)
	}
	for _, from := range []string{cwd, real} {
		for dir := from; ; {
			if git := repositoryOf(dir); git != "" {
				t := &tree{top: dir, git: git, common: commonOf(git)}
				if t.real, err = filepath.EvalSymlinks(dir); err != nil {
					return nil, fmt.Errorf("the work tree cannot be used: %w", err)
				}
				return t, nil
			}
			if isRepository(dir) {
				return nil, fmt.Errorf("%s is inside the Git repository %s and not in a work tree; checkpoints are recorded only there", cwd, dir)
			}
			up := filepath.Dir(dir)
			if up == dir {
				break
			}
			dir = up
		}
	}
	return nil, fmt.Errorf("%s is not in a Git work tree; checkpoints are recorded only there", cwd)
}

// repositoryOf gives the repository whose work tree has its top in dir, "" when
// there is none.
func repositoryOf(dir string) string {
	path := filepath.Join(dir, gitName)
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return ""
	case !info.IsDir():
		text, ok := strings.CutPrefix(string(readSmall(path)), "gitdir:")
		if !ok {
			return ""
		}
		if path = strings.TrimSpace(text); !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
	}
	if !isRepository(path) {
		return ""
	}
	return path
}

// isRepository reports whether a folder looks to git like a repository.
func isRepository(dir string) bool {
	is := func(path string, folder bool) bool {
		info, err := os.Stat(path)
		return err == nil && info.IsDir() == folder
	}
	if !is(filepath.Join(dir, "HEAD"), false) {
		return false
	}
	common := commonOf(dir)
	return is(filepath.Join(common, "objects"), true) && is(filepath.Join(common, "refs"), true)
}

// commonOf gives what a repository of a linked work tree shares with the others.
func commonOf(git string) string {
	text := strings.TrimSpace(string(readSmall(filepath.Join(git, "commondir"))))
	switch {
	case text == "":
		return git
	case filepath.IsAbs(text):
		return text
	}
	return filepath.Join(git, text)
}

// readSmall reads a file of bounded size; one that is too long, is no file or
// cannot be read is like an empty one.
func readSmall(path string) []byte { return readAtMost(path, maxSmall) }

func readAtMost(path string, most int64) []byte {
	f, err := openLinked(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil || int64(len(data)) > most {
		return nil
	}
	return data
}

// setup is what the configuration of git says of a work tree.
type setup struct {
	// ignore is the user's own ignore file, "" for none.
	ignore string
	// plain: no setting has git change contents between the work tree and its
	// objects. Attributes may.
	plain bool
	// long: ids are SHA-256.
	long bool
}

// settings asks git. The program prints settings and does nothing else.
func (g *git) settings(ctx context.Context, t *tree) (setup, error) {
	home, _ := os.UserHomeDir()
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" && home != "" {
		config = filepath.Join(home, ".config")
	}
	s := setup{plain: true}
	if config != "" {
		s.ignore = filepath.Join(config, "git", "ignore")
		s.plain = !exists(filepath.Join(config, "git", "attributes"))
	}
	s.plain = s.plain && !exists("/etc/gitattributes") && !exists(filepath.Join(t.common, "info", "attributes"))
	out, code, err := g.run(ctx, t.git, nil, "config", "-z", "--type=path", "--get-regexp",
		`^(core\.(autocrlf|eol|attributesfile|excludesfile|bare)|extensions\.objectformat)$`)
	if err != nil {
		return s, err
	}
	if code > 1 { // 1 is that there is none of them
		return s, fmt.Errorf("git config ended with %d: %s", code, strings.TrimSpace(string(out)))
	}
	for line := range strings.SplitSeq(string(out), "\x00") {
		key, value, _ := strings.Cut(line, "\n")
		switch key {
		case "core.autocrlf":
			s.plain = s.plain && strings.EqualFold(value, "false")
		case "core.eol", "core.attributesfile":
			s.plain = false
		case "core.excludesfile":
			s.ignore = value
		case "extensions.objectformat":
			s.long = strings.EqualFold(value, "sha256")
		case "core.bare":
			if strings.EqualFold(value, "true") && t.git == t.common {
				return s, errors.New("the repository is a bare one, without a work tree; checkpoints are recorded only there")
			}
		}
	}
	return s, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
