package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The index is read as git reads it, in every version; what is not a file of its own
// in the work tree is left out.
func TestIndexAgainstGit(t *testing.T) {
	for _, version := range []string{"2", "3", "4"} {
		for _, format := range []string{"sha1", "sha256"} {
			t.Run(version+"/"+format, func(t *testing.T) {
				t.Parallel()
				r := &rig{t: t, top: folderOf(t)}
				r.git("init", "-q", "--object-format="+format)
				for i := range 30 {
					r.write(fmt.Sprintf("d%d/%s/f%d", i%3, strings.Repeat("x", i), i), fmt.Sprint(i))
				}
				r.link("nowhere", "link")
				r.git("add", "-A")
				if version == "3" {
					r.write("later", "1\n")
					r.git("add", "-N", "later")
				} else {
					r.git("update-index", "--index-version", version)
				}
				want := map[string]string{}
				for line := range strings.SplitSeq(r.git("ls-files", "-s", "-z"), "\x00") {
					if head, path, ok := strings.Cut(line, "\t"); ok {
						want[path] = strings.Fields(head)[1]
					}
				}
				got := map[string]string{}
				for path, f := range readIndex(r.abs(".git/index"), format == "sha256", nil).files {
					got[path] = f.id
				}
				if diff := cmp.Diff(want, got); diff != "" || len(got) < 31 {
					t.Errorf("files (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A path of a foreign index leads neither out of the work tree nor into a repository.
func TestInside(t *testing.T) {
	for path, want := range map[string]bool{
		"a": true, "a/b": true, ".gitignore": true, "a/.git-x": true, "..a": true,
		"": false, "/a": false, "../a": false, "a/../../b": false, "a//b": false, "./a": false, ".git/config": false, "a/.GIT/hooks/x": false,
	} {
		if got := isInside(path); got != want {
			t.Errorf("%q: got %v, want %v", path, got, want)
		}
	}
}

// Whatever an index holds, reading it ends, and gives paths of the work tree only.
func FuzzIndex(f *testing.F) {
	dir := f.TempDir()
	gitIn(f, dir, "init", "-q")
	for _, version := range []string{"2", "4"} {
		for _, name := range []string{"a", "ab"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
				f.Fatal(err)
			}
		}
		gitIn(f, dir, "add", "-A")
		gitIn(f, dir, "update-index", "--index-version", version)
		data, err := os.ReadFile(filepath.Join(dir, ".git", "index"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, size := range []int{20, 32} {
			x := &index{files: map[string]tracked{}}
			_ = x.parse(data, size) // an error is good, too
			for path := range x.files {
				if !isInside(path) {
					t.Errorf("path %q", path)
				}
			}
		}
	})
}
