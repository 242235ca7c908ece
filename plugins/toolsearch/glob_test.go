package toolsearch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []string
		args  args
		want  []string
	}{
		{"any depth, newest first", []string{"b.go", "sub/a.go", "sub/deep/c.go", "d.txt"}, args{"pattern": "**/*.go"}, []string{"b.go", "sub/a.go", "sub/deep/c.go"}},
		{"one folder", []string{"b.go", "sub/a.go"}, args{"pattern": "*.go"}, []string{"b.go"}},
		{"braces", []string{"a.ts", "b.tsx", "c.js", "s/d.ts"}, args{"pattern": "**/*.{ts,tsx}"}, []string{"a.ts", "b.tsx", "s/d.ts"}},
		{"braces with folders", []string{"a/x/1", "b/2", "c/3"}, args{"pattern": "{a/x,b}/*"}, []string{"a/x/1", "b/2"}},
		{"folders in the pattern", []string{"src/a/x.c", "src/x.c", "lib/x.c"}, args{"pattern": "src/**/x.c"}, []string{"src/a/x.c", "src/x.c"}},
		{"bounded depth", []string{"a/b/c", "a/b/c2/d"}, args{"pattern": "*/*/*"}, []string{"a/b/c"}},
		{"path", []string{"a/f.go", "b/f.go"}, args{"pattern": "*.go", "path": "a"}, []string{"a/f.go"}},
		{"path with dots", []string{"a/f.go", "b/f.go"}, args{"pattern": "../b/*.go", "path": "a"}, []string{"b/f.go"}},
		{"a dot in front", []string{"a/f.go"}, args{"pattern": "./**/*.go"}, []string{"a/f.go"}},
		{"no wildcard", []string{"a/f.go", "a/g.go"}, args{"pattern": "a/f.go"}, []string{"a/f.go"}},
		{"a folder with a slash", []string{"a/f.go", "b/g.go"}, args{"pattern": "a/"}, []string{"a/f.go"}},
		{"a set", []string{"a1", "b2", "c3"}, args{"pattern": "[ab]*"}, []string{"a1", "b2"}},
		{"an escaped star", []string{"a*b", "axb"}, args{"pattern": `a\*b`}, []string{"a*b"}},
		{"wide letters", []string{"世界/语.txt"}, args{"pattern": "**/语.*"}, []string{"世界/语.txt"}},
		{"hidden are left out", []string{"a", ".b", ".c/d"}, args{"pattern": "**"}, []string{"a"}},
		{"hidden by name", []string{"a/.env", ".env", ".c/.env", "env"}, args{"pattern": "**/.env"}, []string{"a/.env", ".env", ".c/.env"}},
		{"hidden in braces", []string{".env", "env"}, args{"pattern": "{.env,env}"}, []string{".env", "env"}},
		{"a hidden folder by name", []string{".github/w/a.yml", ".github/.x/b.yml", "c.yml"}, args{"pattern": ".github/**/*.yml"}, []string{".github/w/a.yml"}},
		{"a hidden path", []string{".github/a.yml"}, args{"pattern": "*", "path": ".github"}, []string{".github/a.yml"}},
		{"the repository itself never", []string{".git/config", "sub/.git/config", ".config"}, args{"pattern": "**/.{git/config,config}"}, []string{".config"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := setUp(t, defaults())
			x.files(c.files...)
			if d := cmp.Diff(x.paths(c.want...), x.Good("glob", c.args)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestGlobAbsolutePattern(t *testing.T) {
	x := setUp(t, defaults())
	x.files("a/f.go", "f.go")
	if got := x.Good("glob", args{"pattern": x.Dir + "/a/*.go", "path": "elsewhere"}); got != x.Path("a/f.go") {
		t.Errorf("result %q", got)
	}
}

func TestGlobFindsNothing(t *testing.T) {
	x := setUp(t, defaults())
	x.files("a/f.go")
	if got, want := x.Good("glob", args{"pattern": "*.go"}), "No files match *.go in "+x.Dir+" (without ** a pattern looks only in the folders it names)"; got != want {
		t.Errorf("result %q, want %q", got, want)
	}
	if got, want := x.Good("glob", args{"pattern": "**/*.c"}), "No files match **/*.c in "+x.Dir; got != want {
		t.Errorf("result %q, want %q", got, want)
	}
	if got, want := x.Good("glob", args{"pattern": "none/**/*.c"}), "No files match **/*.c in "+x.Path("none"); got != want {
		t.Errorf("result %q, want %q", got, want)
	}
	x.Bad("glob", args{"pattern": "*", "path": "none"}, codeNotFound, "not found")
	x.Bad("glob", args{"pattern": "*", "path": "a/f.go"}, codeFailed, "not a directory")
	x.Bad("glob", args{"pattern": "a["}, codeBadPattern, "not closed")
	x.Bad("glob", args{"pattern": "{a,b"}, codeBadPattern, "not closed")
}

func TestGlobBounds(t *testing.T) {
	x := setUp(t, defaults())
	var names []string
	for i := range 330 {
		names = append(names, fmt.Sprintf("d%d/f%03d", i%7, i))
	}
	x.files(names...)
	got := x.Good("glob", args{"pattern": "**/f*"})
	want := x.paths(slices.Clone(names[:100])...) + "\n\n(100 of 330 files, those changed last; use a narrower pattern or path to see others)"
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	long := strings.Repeat("long", 60)
	for i := range 100 {
		x.Put(fmt.Sprintf("%s/%s/%s/g%d", long, long, long, i), "")
	}
	got = x.Good("glob", args{"pattern": "**/g*"})
	if len(got) > 51<<10 || !strings.Contains(got, " of 100 files, ") {
		t.Errorf("%d bytes, which end in %q", len(got), got[len(got)-100:])
	}
}

func TestGlobTakesTooLong(t *testing.T) {
	c := defaults()
	c.TimeoutMs = 1
	x := setUp(t, c)
	x.Put("d/e", "")
	ctx, cancel := x.s.limited(t.Context())
	defer cancel()
	<-ctx.Done()
	if err := (&walk{base: x.Dir, depth: -1}).run(ctx); !errors.Is(err, errTime) {
		t.Errorf("the walk ends with %v", err)
	}
	got := x.s.globText(newest{most: 10}, x.Dir, "**", true)
	if !strings.HasSuffix(got, "(the search was stopped after 1ms, so there may be more; use a narrower pattern or path)") {
		t.Errorf("result %q", got)
	}
}

func TestSearchIsCancelled(t *testing.T) {
	x := setUp(t, defaults())
	x.Put("f", "text\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range []string{"glob", "grep"} {
		if res := x.Call(ctx, name, args{"pattern": "nothing"}); !res.IsError || res.Error.Code != "ABORTED" {
			t.Errorf("%s: result %+v, want that it was cancelled", name, res)
		}
	}
}

// What a walk of a work tree finds is what git lists in it, apart from hidden
// names.
func TestGlobIgnoresWhatGitIgnores(t *testing.T) {
	x := setUp(t, defaults())
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = x.Dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull, "HOME="+x.Dir, "XDG_CONFIG_HOME="+x.Dir)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	git("init", "-q")
	x.Put(".git/info/exclude", "*.local\n")
	for name, content := range map[string]string{
		".gitignore":         "node_modules/\n*.log\n!keep.log\n/dist\ndocs/**/*.pdf\n",
		"pkg/.gitignore":     "!*.log\n/gen\n*.tmp\n",
		"pkg/sub/.gitignore": "# nothing\n!x.tmp\n",
	} {
		x.Put(name, content)
	}
	for _, name := range []string{
		"a.go", "a.log", "keep.log", "a.local", "dist/x", "pkg/dist/x", "node_modules/m/i.js", "pkg/node_modules/m/i.js", "pkg/a.log", "pkg/gen/g",
		"pkg/sub/gen/g", "pkg/a.tmp", "pkg/sub/x.tmp", "pkg/sub/y.tmp", "docs/a.pdf", "docs/x/y/b.pdf", "docs/x/b.md", "pkg/b.local",
	} {
		x.Put(name, "")
	}
	all := func(a args) []string {
		t.Helper()
		a["pattern"] = "**"
		got := strings.Split(x.Good("glob", a), "\n")
		slices.Sort(got)
		return got
	}
	var want, wantSub []string
	for name := range strings.SplitSeq(strings.TrimSpace(git("ls-files", "-co", "--exclude-standard")), "\n") {
		if strings.Contains("/"+name, "/.") {
			continue
		}
		want = append(want, x.Path(name))
		if strings.HasPrefix(name, "pkg/sub/") {
			wantSub = append(wantSub, x.Path(name))
		}
	}
	slices.Sort(want)
	slices.Sort(wantSub)
	if d := cmp.Diff(want, all(args{})); d != "" {
		t.Errorf("git's (-) and ours (+): %s", d)
	}
	if d := cmp.Diff(wantSub, all(args{"path": "pkg/sub"})); d != "" {
		t.Errorf("below a folder, git's (-) and ours (+): %s", d)
	}
	// A folder that is named is searched, ignored or not.
	if d := cmp.Diff([]string{x.Path("node_modules/m/i.js")}, all(args{"path": "node_modules"})); d != "" {
		t.Error(d)
	}
	if got := x.Good("glob", args{"pattern": "node_modules/**/*.js"}); got != x.Path("node_modules/m/i.js") {
		t.Errorf("a pattern that names an ignored folder: %q", got)
	}
}

func TestIgnoreFilesOutsideAWorkTree(t *testing.T) {
	x := setUp(t, defaults())
	x.files("a/b/c.go", "a/b/c.log", "a/d.log")
	x.Put(".gitignore", "*.log\n")
	if got := x.Good("glob", args{"pattern": "**", "path": "a/b"}); got != x.Path("a/b/c.go") {
		t.Errorf("result %q", got)
	}
}

func TestNamesHidden(t *testing.T) {
	for pattern, want := range map[string]bool{
		"": false, "*": false, "a.b": false, "./a": false, "../a": false, "a/../b": false, "..": false, ".": false, "*.go": false, "*.{a,b}": false,
		".a": true, "a/.b": true, "**/.env": true, "{.a,b}": true, "{a,.b}": true, "...": true, "..a": true, `\.a`: true, ".*": true,
	} {
		if got := namesHidden(pattern); got != want {
			t.Errorf("namesHidden(%q) = %v, want %v", pattern, got, want)
		}
	}
}
