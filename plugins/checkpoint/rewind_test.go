package checkpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/checkpoint"
)

// S056, S057: whatever a turn did to files is undone, and the answer counts lines
// as git does; a dry run says the same and does nothing.
func TestRestores(t *testing.T) {
	for name, tc := range map[string]struct {
		before, change func(r *rig)
		files          []string
		plus, minus    int
	}{
		"edited":         {func(r *rig) { r.write("a", "1\n2\n3\n") }, func(r *rig) { r.write("a", "1\nx\ny\n3\n") }, []string{"a"}, 1, 2},
		"created":        {func(*rig) {}, func(r *rig) { r.write("d/e/a", "1\n2\n") }, []string{"d/e/a"}, 0, 2},
		"deleted":        {func(r *rig) { r.write("d/a", "1\n2\n") }, func(r *rig) { r.remove("d") }, []string{"d/a"}, 2, 0},
		"renamed":        {func(r *rig) { r.write("a", "1\n") }, func(r *rig) { r.rename("a", "b") }, []string{"a", "b"}, 1, 1},
		"mode":           {func(r *rig) { r.write("a", "1\n") }, func(r *rig) { r.chmod("a", 0o755) }, []string{"a"}, 0, 0},
		"private":        {func(r *rig) { r.write("a", "1\n"); r.chmod("a", 0o600) }, func(r *rig) { r.chmod("a", 0o644); r.write("a", "2\n") }, []string{"a"}, 1, 1},
		"read-only":      {func(r *rig) { r.write("a", "1\n"); r.chmod("a", 0o444) }, func(r *rig) { r.remove("a") }, []string{"a"}, 1, 0},
		"link elsewhere": {func(r *rig) { r.link("x", "a") }, func(r *rig) { r.remove("a"); r.link("y", "a") }, []string{"a"}, 1, 1},
		"link for file":  {func(r *rig) { r.write("a", "1\n") }, func(r *rig) { r.remove("a"); r.link("y", "a") }, []string{"a"}, 1, 1},
		"file for link":  {func(r *rig) { r.link("y", "a") }, func(r *rig) { r.remove("a"); r.write("a", "y") }, []string{"a"}, 0, 0},
		"folder for file": {func(r *rig) { r.write("a", "1\n") }, func(r *rig) { r.remove("a"); r.write("a/b/c", "2\n") },
			[]string{"a", "a/b/c"}, 1, 1},
		"file for folder": {func(r *rig) { r.write("a/b/c", "2\n") }, func(r *rig) { r.remove("a"); r.write("a", "1\n") },
			[]string{"a", "a/b/c"}, 1, 1},
		"link for folder": {func(r *rig) { r.write("a/b", "2\n"); r.write("z/b", "z\n") }, func(r *rig) { r.remove("a"); r.link("z", "a") },
			[]string{"a", "a/b"}, 1, 1},
		"binary":        {func(r *rig) { r.write("a", "1\x00\n2\n") }, func(r *rig) { r.write("a", "3\x00\n") }, []string{"a"}, 0, 0},
		"no last line":  {func(r *rig) { r.write("a", "1") }, func(r *rig) { r.write("a", "1\n") }, []string{"a"}, 1, 1},
		"line ends":     {func(r *rig) { r.write("a", "1\r\n2\r\n") }, func(r *rig) { r.write("a", "1\n2\n") }, []string{"a"}, 2, 2},
		"emptied":       {func(r *rig) { r.write("a", "1\n") }, func(r *rig) { r.write("a", "") }, []string{"a"}, 1, 0},
		"odd names":     {func(r *rig) { r.write("a \"b\n\\\xff", "1\n") }, func(r *rig) { r.remove("a \"b\n\\\xff") }, []string{"a \"b\n\\\xff"}, 1, 0},
		"nothing":       {func(r *rig) { r.write("a", "1\n") }, func(*rig) {}, []string{}, 0, 0},
		"touched alone": {func(r *rig) { r.write("a", "1\n") }, func(r *rig) { r.remove("a"); r.write("a", "1\n") }, []string{}, 0, 0},
	} {
		for _, how := range []string{"untracked", "committed", "staged"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.write("keep", "k\n")
				tc.before(r)
				if how != "untracked" {
					r.git("add", "-A")
				}
				if how == "committed" {
					r.git("commit", "-qm", "x")
				}
				before := world(t, r.top)
				first := r.turn(func() { tc.change(r) })
				r.turn(func() { r.write("later", "l\n") })
				r.must("m2")
				after := world(t, r.top)
				want := checkpoint.Outcome{CanRewind: true, Files: []string{}, Insertions: tc.plus, Deletions: tc.minus}
				for _, f := range tc.files {
					want.Files = append(want.Files, r.abs(f))
				}
				if diff := cmp.Diff(want, r.rewind(first, true)); diff != "" {
					t.Errorf("dry run (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(after, world(t, r.top)); diff != "" {
					t.Errorf("a dry run changed files:\n%s", diff)
				}
				if diff := cmp.Diff(want, r.must(first)); diff != "" {
					t.Errorf("outcome (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(before, world(t, r.top)); diff != "" {
					t.Errorf("files (-before +now):\n%s", diff)
				}
				if _, err := os.Stat(r.abs("d/e")); err == nil && name == "created" {
					t.Error("an emptied folder is left")
				}
			})
		}
	}
}

func (r *rig) rename(from, to string) {
	r.t.Helper()
	if err := os.Rename(r.abs(from), r.abs(to)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) chmod(path string, mode os.FileMode) {
	r.t.Helper()
	if err := os.Chmod(r.abs(path), mode); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) link(to, path string) {
	r.t.Helper()
	if err := os.Symlink(to, r.abs(path)); err != nil {
		r.t.Fatal(err)
	}
}

// S058: what somebody else has changed since is named, and nothing is touched; a
// file that the session did not change is nobody's concern.
func TestForeignChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		// between happens between two turns, after behind the second.
		between, after func(r *rig)
		names          []string
	}{
		"after, the same file":     {nil, func(r *rig) { r.write("a", "theirs\n") }, []string{"a"}},
		"after, its mode":          {nil, func(r *rig) { r.chmod("a", 0o755) }, []string{"a"}},
		"after, deleted":           {nil, func(r *rig) { r.remove("a") }, []string{"a"}},
		"after, a new file of it":  {nil, func(r *rig) { r.write("new", "theirs\n") }, []string{"new"}},
		"after, one deleted by it": {nil, func(r *rig) { r.write("gone", "theirs\n") }, []string{"gone"}},
		"after, two":               {nil, func(r *rig) { r.write("a", "theirs\n"); r.write("new", "theirs\n") }, []string{"a", "new"}},
		"between":                  {func(r *rig) { r.write("a", "theirs\n") }, nil, []string{"a"}},
		"after, put back by hand":  {nil, func(r *rig) { r.write("a", "1\n") }, nil},
		"after, another file":      {nil, func(r *rig) { r.write("b", "theirs\n"); r.write("c", "theirs\n"); r.remove("keep") }, nil},
		"between, another file":    {func(r *rig) { r.write("b", "theirs\n") }, nil, nil},
		"after, rewritten as is":   {nil, func(r *rig) { r.remove("a"); r.write("a", "3\n") }, nil},
		"in the way":               {nil, func(r *rig) { r.write("gone/x", "theirs\n") }, []string{"gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.write("a", "1\n")
			r.write("b", "1\n")
			r.write("gone", "1\n")
			r.write("keep", "1\n")
			first := r.turn(func() { r.write("a", "2\n"); r.write("new", "2\n"); r.remove("gone") })
			if tc.between != nil {
				tc.between(r)
			}
			r.turn(func() { r.write("a", "3\n"); r.write("other", "3\n") })
			if tc.after != nil {
				tc.after(r)
			}
			before := world(t, r.top)
			dry, real := r.rewind(first, true), r.rewind(first, false)
			if diff := cmp.Diff(dry, real); diff != "" {
				t.Errorf("dry and real run differ:\n%s", diff)
			}
			after := world(t, r.top)
			if tc.names == nil {
				if !real.CanRewind || r.read("a") != "1\n" || r.read("gone") != "1\n" || r.read("new") != "(none)" || r.read("other") != "(none)" {
					t.Errorf("got %+v and %v", real, after)
				}
				for _, untouched := range []string{"b", "c", "keep"} {
					if before[untouched] != after[untouched] {
						t.Errorf("%s was %s and is %s", untouched, before[untouched], after[untouched])
					}
				}
				return
			}
			if real.CanRewind || len(real.Files) > 0 {
				t.Errorf("got %+v, want a refusal", real)
			}
			for _, f := range []string{"a", "b", "gone", "new", "other", "keep"} {
				named := strings.Contains(real.Reason+",", r.abs(f)+",")
				if want := strings.Contains(","+strings.Join(tc.names, ",")+",", ","+f+","); named != want {
					t.Errorf("%q names %s: %v, want %v", real.Reason, f, named, want)
				}
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("a refused rewind changed files:\n%s", diff)
			}
		})
	}
}

// One may go back further, and forward again to the state before any message.
func TestBackAndForward(t *testing.T) {
	r := newRig(t)
	r.write("a", "0\n")
	states := []map[string]string{}
	for _, text := range []string{"1\n", "2\n", "3\n"} {
		states = append(states, world(t, r.top))
		r.turn(func() { r.write("a", text); r.write("f"+text[:1], text) })
	}
	for _, to := range []int{2, 0, 1, 2, 0} {
		r.must([]string{"m1", "m2", "m3"}[to])
		if diff := cmp.Diff(states[to], world(t, r.top)); diff != "" {
			t.Errorf("before message %d (-want +got):\n%s", to+1, diff)
		}
	}
	// Another turn from there, and back.
	fourth := r.turn(func() { r.write("a", "4\n") })
	r.must("m2")
	r.must(fourth)
	if diff := cmp.Diff(states[0], world(t, r.top)); diff != "" {
		t.Errorf("before message 4 (-want +got):\n%s", diff)
	}
}

// A turn that changed nothing has the state of the next, or the present one.
func TestTurnsWithoutCalls(t *testing.T) {
	r := newRig(t)
	r.write("a", "1\n")
	talk := r.begin()
	if out := r.must(talk); len(out.Files) > 0 {
		t.Errorf("got %+v", out)
	}
	r.turn(func() { r.write("a", "2\n") })
	more := r.begin()
	if out := r.must(more); len(out.Files) > 0 || r.read("a") != "2\n" {
		t.Errorf("got %+v", out)
	}
	if r.must(talk); r.read("a") != "1\n" {
		t.Errorf("a is %q", r.read("a"))
	}
}

// Of calls that run side by side the last one counts, and while one runs nothing is
// rewound.
func TestCallsSideBySide(t *testing.T) {
	r := newRig(t)
	r.write("a", "1\n")
	id := r.begin()
	s := r.session()
	for range 2 {
		if err := s.enter(t.Context(), r.tree(), false); err != nil {
			t.Fatal(err)
		}
	}
	r.write("a", "2\n")
	s.leave()
	if out := r.rewind(id, false); out.CanRewind || !strings.Contains(out.Reason, "still at work") {
		t.Errorf("got %+v while a call is at work", out)
	}
	r.write("b", "2\n")
	s.leave()
	r.must(id)
	if r.read("a") != "1\n" || r.read("b") != "(none)" {
		t.Errorf("a is %q, b %q", r.read("a"), r.read("b"))
	}
}

// Ignored files are not covered, whichever file says so; tracked ones are, and so is
// what was covered before it was ignored. Nested repositories are left alone.
func TestCovered(t *testing.T) {
	r := newRig(t)
	global := filepath.Join(folderOf(t), "ignore")
	if err := os.WriteFile(global, []byte("*.global\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.git("config", "core.excludesFile", global)
	r.write(".git/info/exclude", "*.exclude\n")
	r.write(".gitignore", "*.log\n/out/\n")
	r.write("forced.log", "1\n")
	r.git("add", "-f", "forced.log")
	r.write("out/kept/forced", "1\n")
	r.git("add", "-f", "out/kept/forced")
	for _, f := range []string{"a.log", "out/x", "d/a.log", "a.global", "a.exclude", "plain", "late.tmp"} {
		r.write(f, "1\n")
	}
	gitIn(t, r.top, "init", "-q", "nested")
	r.write("nested/f", "1\n")
	id := r.turn(func() {
		for _, f := range []string{"forced.log", "out/kept/forced", "a.log", "out/x", "d/a.log", "a.global", "a.exclude", "plain", "late.tmp", "nested/f"} {
			r.write(f, "2\n")
		}
		r.write("nested/new", "2\n")
		r.write(".gitignore", "*.log\n/out/\n*.tmp\n")
		gitIn(t, r.top, "init", "-q", "cloned")
		r.write("cloned/new", "2\n")
	})
	out := r.must(id)
	var files []string
	for _, f := range []string{".gitignore", "forced.log", "late.tmp", "out/kept/forced", "plain"} {
		files = append(files, r.abs(f))
		if f != ".gitignore" && r.read(f) != "1\n" {
			t.Errorf("%s is %q", f, r.read(f))
		}
	}
	if diff := cmp.Diff(files, out.Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for _, f := range []string{"a.log", "out/x", "d/a.log", "a.global", "a.exclude", "nested/f", "nested/new", "cloned/new"} {
		if r.read(f) != "2\n" {
			t.Errorf("%s is %q", f, r.read(f))
		}
	}
}
