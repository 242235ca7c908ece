package checkpoint

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The repository stays as it is, to the byte and the nanosecond: index, refs, stash,
// reflog, objects, config, hooks.
func TestRepositoryUntouched(t *testing.T) {
	r := newRig(t)
	r.write("a", "1\n")
	r.write("d/b", "1\n")
	r.commit()
	r.write("a", "stashed\n")
	r.git("stash")
	r.write("staged", "1\n")
	r.git("add", "staged")
	r.git("gc", "-q")
	r.git("branch", "other")
	before := deepWorld(t, r.abs(".git"))
	id := r.turn(func() { r.write("a", "2\n"); r.remove("d"); r.write("staged", "2\n"); r.write("new", "2\n") })
	r.rewind(id, true)
	if out := r.must(id); len(out.Files) != 4 {
		t.Errorf("got %+v", out)
	}
	if diff := cmp.Diff(before, deepWorld(t, r.abs(".git"))); diff != "" {
		t.Errorf("the repository has changed:\n%s", diff)
	}
	if got := r.git("status", "--porcelain"); got != "A  staged\n" {
		t.Errorf("status %q", got)
	}
}

// A repository that names programs in its config and attributes has none of them
// run, and the bytes of its files come back as they were.
func TestHostileRepository(t *testing.T) {
	r := newRig(t)
	ran := filepath.Join(folderOf(t), "ran")
	program := r.abs(".git/evil")
	r.write(".git/evil", "#!/bin/sh\necho \"$0 $*\" >>'"+ran+"'\ncat\n")
	r.chmod(".git/evil", 0o755)
	r.write("plain", "1\r\n")
	r.commit()
	for _, hook := range []string{"post-index-change", "pre-commit", "post-checkout", "reference-transaction", "fsmonitor-watchman"} {
		r.write(".git/hooks/"+hook, "#!/bin/sh\necho "+hook+" >>'"+ran+"'\n")
		r.chmod(".git/hooks/"+hook, 0o755)
	}
	for key, value := range map[string]string{
		"filter.evil.clean": program, "filter.evil.smudge": program, "filter.evil.process": program, "filter.evil.required": "true",
		"core.fsmonitor": program, "core.hooksPath": r.abs(".git/hooks"), "core.pager": program, "core.editor": program, "core.sshCommand": program,
		"diff.external": program, "diff.evil.textconv": program, "diff.evil.command": program, "core.autocrlf": "true", "core.alternateRefsCommand": program,
		"alias.config": "!" + program, "alias.diff": "!" + program, "gc.auto": "1", "credential.helper": program, "uploadpack.packObjectsHook": program,
		"remote.origin.promisor": "true", "remote.origin.url": "ext::" + program, "remote.origin.partialclonefilter": "blob:none", "extensions.partialClone": "origin",
	} {
		r.git("config", key, value)
	}
	r.write(".gitattributes", "* filter=evil diff=evil text=auto ident working-tree-encoding=UTF-16\n")
	r.write("f", "$Id: kept$\r\n1\n")
	// A submodule with a monitor of its own.
	gitIn(t, r.top, "init", "-q", "nested")
	r.write("nested/f", "1\n")
	gitIn(t, r.abs("nested"), "add", "f")
	gitIn(t, r.abs("nested"), "config", "core.fsmonitor", program)
	// What the tests' own git ran does not count.
	if err := remove(ran); err != nil {
		t.Fatal(err)
	}
	before := world(t, r.top)
	id := r.turn(func() { r.write("f", "2\n"); r.write("plain", "2\r\n"); r.write(".gitattributes", "") })
	r.rewind(id, true)
	if out := r.must(id); len(out.Files) != 3 {
		t.Errorf("got %+v", out)
	}
	if diff := cmp.Diff(before, world(t, r.top)); diff != "" {
		t.Errorf("files (-before +now):\n%s", diff)
	}
	if said, err := os.ReadFile(ran); err == nil {
		t.Errorf("programs of the repository ran:\n%s", said)
	}
	// They would have run.
	cmd := exec.Command("git", "add", "-A")
	cmd.Dir = r.top
	_ = cmd.Run() // it fails on what the filter says
	if said, _ := os.ReadFile(ran); !bytes.Contains(said, []byte("evil")) {
		t.Errorf("the test's programs do not run at all: %q", said)
	}
}

// What the index says of a file is not believed where a filter may stand between
// (the bytes come back all the same), and not within the second of its making.
func TestIndexIsNotBelieved(t *testing.T) {
	for name, setup := range map[string]func(r *rig){
		"line ends by config":     func(r *rig) { r.git("config", "core.autocrlf", "true") },
		"line ends by attributes": func(r *rig) { r.write(".gitattributes", "* text\n") },
		"by info/attributes":      func(r *rig) { r.write(".git/info/attributes", "* text\n") },
		"plain":                   func(*rig) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			setup(r)
			r.write("a", "1\r\n2\r\n")
			r.git("add", "-A")
			age(t, r, "a")
			before := world(t, r.top)
			id := r.turn(func() { r.write("a", "x\n") })
			r.must(id)
			if diff := cmp.Diff(before, world(t, r.top)); diff != "" {
				t.Errorf("files (-before +now):\n%s", diff)
			}
		})
	}
}

// age makes the index believe in files, as it does a second after they were written.
func age(t *testing.T, r *rig, paths ...string) {
	t.Helper()
	x := readIndex(filepath.Join(r.top, ".git/index"), false, nil)
	for _, p := range paths {
		i, err := look(r.abs(p))
		if err != nil {
			t.Fatal(err)
		}
		for !x.trusts(p, i.stamp) {
			next := i.stamp.mtime/1e9 + 2
			err := os.Chtimes(r.abs(".git/index"), timeOf(next), timeOf(next))
			if err != nil {
				t.Fatal(err)
			}
			if x = readIndex(filepath.Join(r.top, ".git/index"), false, nil); len(x.files) == 0 {
				t.Fatal("no index")
			}
			if !x.trusts(p, i.stamp) {
				t.Fatalf("the index is not believed: %+v, %+v", x.files[p], i.stamp)
			}
		}
	}
}

// A content that the repository has is not copied; when it is gone from there, the
// rewind is refused.
func TestContentsOfTheRepository(t *testing.T) {
	r := newRig(t)
	r.write("a", "1\n")
	r.write("b", "untracked\n")
	r.git("add", "a")
	age(t, r, "a")
	id := r.turn(func() { r.write("a", "2\n"); r.write("b", "2\n") })
	s := r.session()
	for text, kept := range map[string]bool{"1\n": false, "2\n": true, "untracked\n": true} {
		if got := s.store.has(s.store.idOf([]byte(text))); got != kept {
			t.Errorf("%q is kept: %v, want %v", text, got, kept)
		}
	}
	r.rename(".git/objects", ".git/away")
	if err := os.Mkdir(r.abs(".git/objects"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := world(t, r.top)
	if why := ask(t, r.keep, r.top, id); !strings.Contains(why, "not there any more: "+r.abs("a")) {
		t.Errorf("reason %q", why)
	}
	if diff := cmp.Diff(before, world(t, r.top)); diff != "" {
		t.Errorf("a refused rewind changed files:\n%s", diff)
	}
}
