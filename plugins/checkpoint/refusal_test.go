package checkpoint

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/checkpoint"
)

// ask rewinds a session in a folder, which must be refused, and gives the reason.
func ask(t *testing.T, k *Keeper, cwd, id string) string {
	t.Helper()
	var reasons []string
	for _, dry := range []bool{true, false} {
		out, err := k.Rewind(context.Background(), "s", cwd, id, dry)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(checkpoint.Outcome{Reason: out.Reason}, out); diff != "" || out.Reason == "" {
			t.Errorf("got %+v, want a refusal", out)
		}
		reasons = append(reasons, out.Reason)
	}
	if reasons[0] != reasons[1] {
		t.Errorf("dry %q, real %q", reasons[0], reasons[1])
	}
	return reasons[1]
}

// S059: checkpoints are there only in the work tree of a Git repository.
func TestOutsideOfGit(t *testing.T) {
	for name, make := range map[string]func(t *testing.T, dir string) (cwd string){
		"no repository": func(_ *testing.T, dir string) string { return dir },
		"a bare one":    func(t *testing.T, dir string) string { gitIn(t, dir, "init", "-q", "--bare"); return dir },
		"below a bare one": func(t *testing.T, dir string) string {
			gitIn(t, dir, "init", "-q", "--bare")
			return filepath.Join(dir, "objects")
		},
		"its own folder": func(t *testing.T, dir string) string {
			gitIn(t, dir, "init", "-q")
			return filepath.Join(dir, ".git", "objects")
		},
		"no such folder": func(_ *testing.T, dir string) string { return filepath.Join(dir, "none") },
		"an empty .git": func(t *testing.T, dir string) string {
			return within(t, os.Mkdir(filepath.Join(dir, ".git"), 0o755), dir)
		},
		"a broken .git": func(t *testing.T, dir string) string {
			return within(t, os.WriteFile(filepath.Join(dir, ".git"), []byte("gitdir: nowhere\n"), 0o644), dir)
		},
		"a .git of nothing": func(t *testing.T, dir string) string {
			return within(t, os.WriteFile(filepath.Join(dir, ".git"), nil, 0o644), dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := boot(t, folderOf(t))
			cwd := make(t, folderOf(t))
			if why := ask(t, k, cwd, "m1"); !strings.Contains(why, cwd) {
				t.Errorf("reason %q", why)
			}
		})
	}
}

func within(t *testing.T, err error, dir string) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Every kind of work tree has them: without a commit, of a linked work tree, of a
// submodule, with ids of SHA-256, with its index in any version, through a link, and
// from a folder below the top.
func TestWorkTrees(t *testing.T) {
	for name, tc := range map[string]func(r *rig) (top, cwd string){
		"without a commit": func(r *rig) (string, string) { return r.top, r.top },
		"below the top": func(r *rig) (string, string) {
			r.write("x/y/f", "1\n")
			return r.top, r.abs("x/y")
		},
		"linked work tree": func(r *rig) (string, string) {
			r.commit()
			r.git("worktree", "add", "-q", r.abs("../linked-"+filepath.Base(r.top)))
			top := r.abs("../linked-" + filepath.Base(r.top))
			r.t.Cleanup(func() { os.RemoveAll(top) })
			return top, top
		},
		"submodule": func(r *rig) (string, string) {
			r.commit()
			other := folderOf(r.t)
			gitIn(r.t, other, "init", "-q")
			gitIn(r.t, other, "-c", "protocol.file.allow=always", "submodule", "add", "-q", r.top, "sub")
			return filepath.Join(other, "sub"), filepath.Join(other, "sub")
		},
		"sha256": func(r *rig) (string, string) {
			top := folderOf(r.t)
			gitIn(r.t, top, "init", "-q", "--object-format=sha256")
			if err := os.WriteFile(filepath.Join(top, "old"), []byte("1\n"), 0o644); err != nil {
				r.t.Fatal(err)
			}
			gitIn(r.t, top, "add", "-A")
			return top, top
		},
		"through a link": func(r *rig) (string, string) {
			at := filepath.Join(folderOf(r.t), "link")
			r.write("x/f", "1\n")
			if err := os.Symlink(r.abs("x"), at); err != nil {
				r.t.Fatal(err)
			}
			return r.top, at
		},
		"index 3": func(r *rig) (string, string) {
			r.git("add", "-A")
			r.write("later", "1\n")
			r.git("add", "-N", "later")
			return r.top, r.top
		},
		"index 4": func(r *rig) (string, string) {
			r.git("add", "-A")
			r.git("update-index", "--index-version", "4")
			return r.top, r.top
		},
		"split index": func(r *rig) (string, string) {
			r.git("add", "-A")
			r.git("update-index", "--split-index")
			return r.top, r.top
		},
		"broken index": func(r *rig) (string, string) {
			r.git("add", "-A")
			r.write(".git/index", "DIRC\x00\x00\x00\x02\x00\x00\xff\xff and no more")
			return r.top, r.top
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.write("old", "1\n")
			r.write("d/old", "1\n")
			top, cwd := tc(r)
			at, err := findTree(cwd)
			if err != nil || at.real != top {
				t.Fatalf("found %+v, %v, want %s", at, err, top)
			}
			r.top = top
			before := world(t, top)
			s := r.session()
			id := r.begin()
			if err := s.enter(t.Context(), at, false); err != nil {
				t.Fatal(err)
			}
			r.write("old", "2\n")
			r.write("new", "2\n")
			s.leave()
			out, err := r.keep.Rewind(t.Context(), "s", cwd, id, false)
			if err != nil || !out.CanRewind || out.Insertions != 1 || out.Deletions != 2 {
				t.Errorf("got %+v, %v", out, err)
			}
			if diff := cmp.Diff(before, world(t, top)); diff != "" {
				t.Errorf("files (-before +now):\n%s", diff)
			}
		})
	}
}

func (r *rig) commit() { r.t.Helper(); r.git("add", "-A"); r.git("commit", "-qm", "x") }

// Other refusals say what they are about.
func TestRefusals(t *testing.T) {
	r := newRig(t)
	r.write("a", "1\n")
	if why := ask(t, r.keep, r.top, "m1"); why != textUnknown {
		t.Errorf("reason %q before any turn", why)
	}
	id := r.turn(func() { r.write("a", "2\n") })
	if why := ask(t, r.keep, r.top, "never"); why != textUnknown {
		t.Errorf("reason %q for an unknown message", why)
	}
	other := folderOf(t)
	gitIn(t, other, "init", "-q")
	if why := ask(t, r.keep, other, id); !strings.Contains(why, r.top) || !strings.Contains(why, other) {
		t.Errorf("reason %q in another work tree", why)
	}
	r.rename(".git", "hidden")
	if why := ask(t, r.keep, r.top, id); !strings.Contains(why, "not in a Git work tree") {
		t.Errorf("reason %q without a repository", why)
	}
	r.rename("hidden", ".git")
	if err := r.keep.Forget(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if why := ask(t, r.keep, r.top, id); why != textUnknown || exists(r.keep.folder("s")) {
		t.Errorf("reason %q for a forgotten session", why)
	}
}

// What is too large to be kept can be removed, and not restored.
func TestLargeFiles(t *testing.T) {
	r := newRig(t, "checkpoint.maxFileBytes=10")
	r.write("a", "12345678901\n")
	r.write("b", "1\n")
	id := r.turn(func() { r.write("b", "2\n"); r.write("new", "12345678901\n") })
	r.must(id)
	if r.read("b") != "1\n" || r.read("new") != "(none)" {
		t.Errorf("b is %q, new %q", r.read("b"), r.read("new"))
	}
	id = r.turn(func() { r.write("a", "x\n"); r.write("b", "3\n") })
	if why := ask(t, r.keep, r.top, id); !strings.Contains(why, r.abs("a")) || strings.Contains(why, r.abs("b")) {
		t.Errorf("reason %q", why)
	}
	if r.read("b") != "3\n" {
		t.Errorf("b is %q", r.read("b"))
	}
}

// A tree beyond the limits has no checkpoints for the rest of the session, with one
// reason, and its calls go on; a new process begins anew.
func TestLimits(t *testing.T) {
	for name, tc := range map[string]struct{ set, reason string }{
		"files": {"checkpoint.maxFiles=5", "more than 5 files"},
		"room":  {"checkpoint.maxBytes=100", "more room than they may take"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tc.set)
			r.write("a", "1\n")
			first := r.turn(func() { r.write("a", "2\n") })
			second := r.turn(func() {
				for i := range 6 {
					r.write(fmt.Sprint("f", i), strings.Repeat(fmt.Sprint(i), 30))
				}
			})
			third := r.turn(func() { r.write("b", "1\n") })
			for _, id := range []string{first, second, third} {
				if why := ask(t, r.keep, r.top, id); !strings.Contains(why, tc.reason) {
					t.Errorf("reason %q", why)
				}
			}
			// As another process would see it, without the limit.
			r.keep = boot(t, r.home)
			fourth := r.turn(func() { r.write("a", "4\n") })
			for _, id := range []string{first, second} {
				if why := ask(t, r.keep, r.top, id); !strings.Contains(why, tc.reason) {
					t.Errorf("reason %q after a restart", why)
				}
			}
			if r.must(fourth); r.read("a") != "2\n" {
				t.Errorf("a is %q", r.read("a"))
			}
		})
	}
}

// The latest sessions' checkpoints are kept.
func TestPrune(t *testing.T) {
	home := folderOf(t)
	for i := range 5 {
		dir := filepath.Join(home, folder, fmt.Sprint("old", i))
		if err := os.MkdirAll(filepath.Join(dir, "objects"), 0o700); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			if err := os.WriteFile(filepath.Join(dir, journalName), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := newRig(t)
	r.keep = boot(t, home, "checkpoint.keepSessions=2")
	r.turn(func() {})
	var left []string
	entries, err := os.ReadDir(filepath.Join(home, folder))
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{"old2", "s"}, left); diff != "" || err != nil {
		t.Errorf("left (-want +got): %v\n%s", err, diff)
	}
}
