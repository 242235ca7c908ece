package gitignore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scenario is a tree with ignore files; the paths that end with a slash are
// folders.
type scenario struct {
	ignore map[string]string // folder ("" or "a/b") to its rules
	paths  []string
}

var scenarios = map[string]scenario{
	"names": {map[string]string{"": "*.log\nbuild/\n/top.txt\n!keep.log\n"},
		[]string{"a.log", "keep.log", "sub/a.log", "sub/keep.log", "build/x", "sub/build/x", "top.txt", "sub/top.txt", "buildx", "sub/build2/x"}},
	"a file named like a folder rule": {map[string]string{"": "build/\n"}, []string{"build", "sub/build/f"}},
	"anchored in the middle": {map[string]string{"": "doc/frotz\nfoo/*\n"},
		[]string{"doc/frotz", "a/doc/frotz", "doc/frotz2", "foo/a", "foo/b/c", "x/foo/a"}},
	"two stars": {map[string]string{"": "**/cache\nlogs/**/debug.txt\nabc/**\nx/**/\n**/deep/**\n"},
		[]string{"cache", "a/cache/b", "a/b/cache", "logs/debug.txt", "logs/a/debug.txt", "logs/a/b/debug.txt", "logs/a/b/other", "abc/x", "abc/w/y", "x/y", "x/w/z", "q/deep/f", "deep/g/h"}},
	"three stars":     {map[string]string{"": "a/***/b\n***\n!c\n"}, []string{"a/b", "a/x/b", "c", "d"}},
	"stars in a name": {map[string]string{"": "a**b\nx/c**d/e\n"}, []string{"ab", "axxb", "a/b", "x/cd/e", "x/c1d/e", "x/c/d/e"}},
	"nested files": {map[string]string{"": "*.tmp\n/only\n", "sub": "!b.tmp\n*.txt\n/c\n", "sub/deep": "!a.txt\nb.tmp\n"},
		[]string{"a.tmp", "b.tmp", "sub/a.tmp", "sub/b.tmp", "sub/a.txt", "sub/deep/a.txt", "sub/deep/b.tmp", "sub/deep/b.txt", "sub/c", "sub/deep/c", "only", "sub/only", "z.txt"}},
	"no way back into an ignored folder": {map[string]string{"": "out/\n!out/keep\n!out/sub/\n", "out": "!keep\n"},
		[]string{"out/keep", "out/sub/x", "out/other"}},
	"a way back into an emptied folder": {map[string]string{"": "/out/*\n!/out/keep/\n"},
		[]string{"out/keep/x", "out/other/x", "out/f"}},
	"everything but": {map[string]string{"": "/*\n!/src\n/src/*\n!/src/main\n"},
		[]string{"a", "src/a", "src/main/b", "lib/c"}},
	"comments and escapes": {map[string]string{"": "# a comment\n\\#hash\n\\!bang\n#\n\n   \n!\n"},
		[]string{"#hash", "!bang", "# a comment", "hash", "bang"}},
	"spaces": {map[string]string{"": "trail   \nkeep\\ \ntwo\\ \\ \n  lead\nslash\\\\ \n"},
		[]string{"trail", "trail   ", "keep ", "keep", "two  ", "two ", "  lead", "lead", "slash\\"}},
	"line ends":      {map[string]string{"": "one\r\ntwo\r\nthree"}, []string{"one", "two", "three", "one\r"}},
	"a mark":         {map[string]string{"": "\xef\xbb\xbfone\ntwo\n"}, []string{"one", "two"}},
	"question marks": {map[string]string{"": "a?c\nd/?/e\n"}, []string{"abc", "ac", "abbc", "aéc", "d/x/e", "d/xx/e", "d/e"}},
	"sets": {map[string]string{"": "[abc]1\n[a-c]2\n[!a]3\n[^a]4\n[]x]5\n[a-]6\n[\\]]7\n[[:digit:]]8\n[![:alpha:]x]9\n[a-c-e]0\n[[:x]y\n[[:nope:]]z\n[\\a-\\c]w\n"},
		[]string{"a1", "d1", "b2", "d2", "a3", "b3", "a4", "b4", "]5", "x5", "a5", "-6", "a6", "b6", "]7", "\\7", "18", "a8", "19", "a9", "x9", "-0", "e0", "d0", "[y", "xy", ":]y", "1z", "bw", "dw"}},
	"broken sets":    {map[string]string{"": "[abc\nx[\n[]\n[!]\n[a-\na\\\n"}, []string{"a", "[abc", "x[", "[]", "[!]", "[a-", "a\\"}},
	"no braces":      {map[string]string{"": "*.{js,ts}\n"}, []string{"a.js", "a.{js,ts}"}},
	"slashes":        {map[string]string{"": "/\n//\na//b\nc//\n/d/\n./e\nf\\/g\n"}, []string{"a/b", "c/x", "d/x", "s/d/x", "e", "f/g"}},
	"dots":           {map[string]string{"": ".*\n!.keep\n"}, []string{".env", ".keep", "a/.env", ".git-x/y", "a.b"}},
	"wide letters":   {map[string]string{"": "日*\n*語\n"}, []string{"日本", "本語", "本"}},
	"case":           {map[string]string{"": "README\n"}, []string{"readme", "README"}},
	"many stars":     {map[string]string{"": "*a*a*a*a*a*a*a*a*b\n"}, []string{strings.Repeat("a", 60), strings.Repeat("a", 60) + "b"}},
	"many folders":   {map[string]string{"": "**/a/**/a/**/a/**/b\n"}, []string{strings.Repeat("a/", 30) + "c", strings.Repeat("a/", 30) + "b"}},
	"only two stars": {map[string]string{"": "**\n!*/\n!*.go\n"}, []string{"a.go", "b/c.go", "b/d", "e"}},
	"root two stars": {map[string]string{"": "/**\n!/a\n"}, []string{"a", "b/c"}},
}

func TestAgainstGit(t *testing.T) {
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) { compare(t, s) })
	}
}

// TestAgainstGitAtRandom has one work tree with many folders, each with rules
// and names of its own, so that git is asked once.
func TestAgainstGitAtRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(from []string) string { return from[rng.IntN(len(from))] }
	atoms := []string{"a", "b", "*", "**", "?", "/", "/", "[ab]", "[!a]", "\\", ".", "c", "***/"}
	names := []string{"a", "b", "c", "ab", "ba", "abc", ".a", "a.b", "bb"}
	s := scenario{ignore: map[string]string{}}
	// git reads "a**/b" as "a", then "**/b", because it compares the plain start of
	// a pattern on its own; its manual says that these stars are ordinary.
	odd := regexp.MustCompile(`[^/*]\*{2,}(/|$)`)
	for i := range 150 {
		dir := fmt.Sprintf("d%d", i)
		var rules strings.Builder
		for range 1 + rng.IntN(3) {
			rule := pick([]string{"", "", "", "!", "/", "**/"})
			for range 1 + rng.IntN(5) {
				rule += pick(atoms)
			}
			if rule += pick([]string{"", "", "/", "/**"}); !odd.MatchString(rule) {
				rules.WriteString(rule + "\n")
			}
		}
		s.ignore[dir] = rules.String()
		for range 10 {
			p := dir
			for range 1 + rng.IntN(4) {
				p += "/" + pick(names)
			}
			s.paths = append(s.paths, p)
		}
	}
	// A name cannot be a folder and a file.
	slices.Sort(s.paths)
	s.paths = slices.Compact(s.paths)
	s.paths = slices.DeleteFunc(s.paths, func(p string) bool {
		return slices.ContainsFunc(s.paths, func(q string) bool { return strings.HasPrefix(q, p+"/") })
	})
	compare(t, s)
}

func compare(t *testing.T, s scenario) {
	t.Helper()
	dir := t.TempDir()
	git := func(stdin []byte, args ...string) []byte {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull, "HOME="+dir, "XDG_CONFIG_HOME="+dir)
		cmd.Stdin = bytes.NewReader(stdin)
		out, err := cmd.Output()
		if exit, ok := err.(*exec.ExitError); err != nil && !(ok && exit.ExitCode() == 1 && len(exit.Stderr) == 0) {
			t.Fatalf("git %v: %v", args, err)
		}
		return out
	}
	git(nil, "init", "-q")
	write := func(name, text string) {
		t.Helper()
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range s.paths {
		write(p, "")
	}
	for d, text := range s.ignore {
		write(filepath.Join(d, ".gitignore"), text)
	}
	out := git([]byte(strings.Join(s.paths, "\x00")+"\x00"), "check-ignore", "-z", "--stdin", "--no-index")
	want := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(out) == 0 {
		want = nil
	}
	var got []string
	for _, p := range s.paths {
		if s.ignored(p) {
			got = append(got, p)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		for _, p := range symmetric(want, got) {
			folder, _, _ := strings.Cut(p, "/")
			t.Logf("%q: rules of %q: %q", p, folder, s.ignore[folder])
		}
		t.Errorf("ignored paths, git's (-) and ours (+):\n%s\nrules %q", d, s.ignore[""])
	}
}

func symmetric(a, b []string) []string {
	var out []string
	for _, x := range slices.Concat(a, b) {
		if slices.Contains(a, x) != slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}

// ignored walks down to a path as a walk of the tree does.
func (s scenario) ignored(p string) bool {
	d := Root().With([]byte(s.ignore[""]))
	parts := strings.Split(p, "/")
	for i, name := range parts[:len(parts)-1] {
		if d.Ignored(name, true) {
			return true
		}
		d = d.Child(name).With([]byte(s.ignore[strings.Join(parts[:i+1], "/")]))
	}
	return d.Ignored(parts[len(parts)-1], false)
}

func BenchmarkIgnored(b *testing.B) {
	d := Root().With([]byte("node_modules/\n*.log\n*.o\n/build\n/dist/**\n**/generated/*.go\n.idea\n*~\n"))
	for _, name := range []string{"internal", "pkg", "service"} {
		d = d.Child(name)
	}
	b.ReportAllocs()
	for b.Loop() {
		if d.Ignored("handler.go", false) {
			b.Fatal("ignored")
		}
	}
}
