package checkpoint

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// oracle knows the whole tree at every moment that counts, and nothing else.
type oracle struct {
	// before is the tree before the turn of each message.
	before map[string]map[string]string
	ids    []string
	// own and foreign say in which of the steps so far a file was changed by the
	// session and by others; at is the step before the turn of each message.
	own, foreign map[string][]int
	at           map[string]int
	step         int
	// last is the tree at the last step.
	last map[string]string
}

// note takes down what has changed since the last step.
func (o *oracle) note(now map[string]string, own bool) {
	o.step++
	for path := range union(o.last, now) {
		if o.last[path] == now[path] {
			continue
		}
		if own {
			o.own[path] = append(o.own[path], o.step)
		} else {
			o.foreign[path] = append(o.foreign[path], o.step)
		}
	}
	o.last = now
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// expect says what a rewind gives: the tree behind it, or the files that forbid it.
func (o *oracle) expect(id string, now map[string]string) (after map[string]string, conflicts []string) {
	after = maps.Clone(now)
	since := func(steps []int) bool {
		return slices.ContainsFunc(steps, func(s int) bool { return s > o.at[id] })
	}
	for path := range union(now, o.before[id]) {
		if !since(o.own[path]) || now[path] == o.before[id][path] {
			continue
		}
		if since(o.foreign[path]) || now[path] != o.last[path] {
			conflicts = append(conflicts, path)
		}
		if was, ok := o.before[id][path]; ok {
			after[path] = was
		} else {
			delete(after, path)
		}
	}
	slices.Sort(conflicts)
	return after, conflicts
}

// What random turns, random edits by others, commits, restarts and rewinds do agrees
// with a model that copies the whole tree at every step; the counts are those of git
// (S056, S057, S058; checklist 85).
func TestRewindAgainstModel(t *testing.T) {
	home := folderOf(t)
	k := boot(t, home)
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		r := &rig{t: t, home: home, keep: k, top: filepath.Join(folderOf(t), "w")}
		if err := os.Mkdir(r.top, 0o755); err != nil {
			t.Fatal(err)
		}
		id := "s" + strconv.Itoa(runs)
		sessionOf := func() *session { return r.keep.session(id) }
		r.git("init", "-q")
		r.write(".gitignore", "*.ign\n")
		tree := r.tree()
		o := &oracle{before: map[string]map[string]string{}, own: map[string][]int{}, foreign: map[string][]int{}, at: map[string]int{}, last: world(t, r.top)}
		based, fresh := false, false
		pending := []string{}
		edit := func() {
			path := rapid.SampledFrom([]string{"a", "b", "d/a", "d/e/b", "f", "f/g", "x.ign"}).Draw(rt, "path")
			switch rapid.IntRange(0, 6).Draw(rt, "edit") {
			case 0, 1, 2:
				r.clearWay(path)
				lines := rapid.SliceOfN(rapid.SampledFrom([]string{"1\n", "2\n", "3\r\n", "\x00", "4"}), 0, 6).Draw(rt, "lines")
				r.write(path, strings.Join(lines, ""))
			case 3:
				r.remove(path)
			case 4:
				if info, err := os.Lstat(r.abs(path)); err == nil && info.Mode().IsRegular() {
					r.chmod(path, rapid.SampledFrom([]os.FileMode{0o644, 0o755, 0o600}).Draw(rt, "mode"))
				}
			case 5:
				r.clearWay(path)
				r.write(path, "")
				r.remove(path)
				r.link(rapid.SampledFrom([]string{"a", "nowhere", "d"}).Draw(rt, "to"), path)
			case 6:
				to := rapid.SampledFrom([]string{"a", "c", "d/new"}).Draw(rt, "new name")
				if info, err := os.Lstat(r.abs(path)); err == nil && !info.IsDir() && to != path {
					r.clearWay(to)
					r.write(to, "")
					if _, err := os.Lstat(r.abs(path)); err == nil {
						r.rename(path, to)
					}
				}
			}
		}
		// The tree of the snapshots, without what is ignored.
		covered := func() map[string]string {
			w := world(t, r.top)
			maps.DeleteFunc(w, func(path, _ string) bool { return strings.HasSuffix(path, ".ign") })
			return w
		}
		rt.Repeat(map[string]func(*rapid.T){
			"message": func(*rapid.T) {
				id := fmt.Sprint("m", len(o.ids))
				o.ids = append(o.ids, id)
				sessionOf().turn(id)
				pending, fresh = append(pending, id), true
			},
			"call": func(rt *rapid.T) {
				if len(o.ids) == 0 {
					rt.Skip("no turn yet")
				}
				s := sessionOf()
				if err := s.enter(t.Context(), tree, false); err != nil {
					rt.Fatal(err)
				}
				if fresh || !based {
					if !based {
						o.last = covered()
					}
					o.note(covered(), false)
					for _, id := range pending {
						o.before[id], o.at[id] = o.last, o.step
					}
					pending, fresh, based = nil, false, true
				}
				for range rapid.IntRange(0, 3).Draw(rt, "edits") {
					edit()
				}
				s.leave()
				if err := s.catchUp(t.Context()); err != nil {
					rt.Fatal(err)
				}
				o.note(covered(), true)
			},
			"somebody else": func(rt *rapid.T) {
				if len(o.ids) > 0 && !fresh {
					rt.Skip("a turn goes on")
				}
				edit()
			},
			"commit": func(*rapid.T) { r.git("add", "-A"); r.git("commit", "-q", "--allow-empty", "-m", "x") },
			"restart": func(*rapid.T) {
				r.keep.mu.Lock()
				defer r.keep.mu.Unlock()
				delete(r.keep.sessions, id)
				fresh = true
			},
			"rewind": func(rt *rapid.T) {
				if len(o.ids) == 0 {
					rt.Skip("nothing to go back to")
				}
				to := rapid.SampledFrom(o.ids).Draw(rt, "message")
				now := covered()
				after, conflicts := now, []string(nil)
				if o.before[to] != nil {
					after, conflicts = o.expect(to, now)
				}
				ignored := world(t, r.top)["x.ign"]
				kept := filepath.Join(folderOf(t), "kept")
				copyTree(t, r.top, kept)
				dry, err := r.keep.Rewind(t.Context(), id, r.top, to, true)
				if err != nil {
					rt.Fatal(err)
				}
				if diff := cmp.Diff(now, covered()); diff != "" {
					rt.Fatalf("a dry run changed files:\n%s", diff)
				}
				out, err := r.keep.Rewind(t.Context(), id, r.top, to, false)
				if err != nil {
					rt.Fatal(err)
				}
				if diff := cmp.Diff(dry, out); diff != "" {
					rt.Fatalf("dry and real run differ:\n%s", diff)
				}
				if strings.Contains(out.Reason, "in the way") {
					// Files that are not covered, or not the session's, stand there.
					if diff := cmp.Diff(now, covered()); diff != "" {
						rt.Fatalf("a refused rewind changed files:\n%s", diff)
					}
					return
				}
				if len(conflicts) > 0 {
					after = now
					for _, path := range conflicts {
						if !strings.Contains(out.Reason, r.abs(path)) {
							rt.Errorf("%q does not name %s", out.Reason, path)
						}
					}
				}
				if out.CanRewind != (len(conflicts) == 0) {
					rt.Fatalf("got %+v, want conflicts %v", out, conflicts)
				}
				if diff := cmp.Diff(after, covered()); diff != "" {
					rt.Fatalf("files (-want +got):\n%s\n%+v", diff, out)
				}
				if got := world(t, r.top)["x.ign"]; got != ignored {
					rt.Fatalf("an ignored file was %s and is %s", ignored, got)
				}
				if len(conflicts) > 0 {
					return
				}
				if plus, minus := counts(t, kept, r.top); plus != out.Insertions || minus != out.Deletions {
					rt.Errorf("counts %d and %d, git says %d and %d, from %v to %v", out.Insertions, out.Deletions, plus, minus, now, after)
				}
				var files []string
				for path := range union(now, after) {
					if now[path] != after[path] {
						files = append(files, r.abs(path))
					}
				}
				slices.Sort(files)
				got := slices.Clone(out.Files)
				slices.Sort(got)
				if !slices.Equal(files, got) {
					rt.Errorf("files %q, want %q", got, files)
				}
				// What others did meanwhile is still nobody's.
				was := maps.Clone(o.last)
				for path := range union(now, after) {
					if now[path] == after[path] {
						continue
					}
					if text, ok := after[path]; ok {
						was[path] = text
					} else {
						delete(was, path)
					}
				}
				o.note(was, true)
			},
			"": func(*rapid.T) {},
		})
	})
}

// clearWay removes files that stand where folders of a path have to be, and a folder
// at its place.
func (r *rig) clearWay(path string) {
	r.t.Helper()
	for up := path; up != ""; up = parentOf(up) {
		info, err := os.Lstat(r.abs(up))
		if err == nil && (info.IsDir() == (up == path) || info.Mode().Type() == os.ModeSymlink) {
			r.remove(up)
		}
	}
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, path)
		at := filepath.Join(to, rel)
		switch {
		case rel == gitName:
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(at, 0o755)
		case d.Type() == os.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(target, at)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(at, data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// counts is what git counts between two trees, ignored files and its own folder left
// out.
func counts(t *testing.T, a, b string) (plus, minus int) {
	t.Helper()
	after := filepath.Join(folderOf(t), "after")
	copyTree(t, b, after)
	for line := range strings.Lines(gitIn(t, t.TempDir(), "diff", "--no-index", "--no-renames", "--numstat", a, after)) {
		words := strings.SplitN(line, "\t", 3)
		n, _ := strconv.Atoi(words[0])
		m, _ := strconv.Atoi(words[1])
		plus, minus = plus+n, minus+m
	}
	return plus, minus
}
