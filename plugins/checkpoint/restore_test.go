package checkpoint

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A rewind that fails on its way leaves everything as it was.
func TestFailedRestore(t *testing.T) {
	r := newRig(t)
	r.write("a", "1\n")
	r.write("d/e/b", "1\n")
	r.write("m", "1\n")
	id := r.turn(func() {
		r.write("a", "2\n")
		r.write("n/o/new", "2\n")
		r.remove("d")
		r.chmod("m", 0o755)
	})
	s := r.session()
	ops, reason := s.plan(id)
	if len(ops) != 4 || reason != "" {
		t.Fatalf("got %+v, %s", ops, reason)
	}
	if _, err := s.fetch(t.Context(), ops); err != nil {
		t.Fatal(err)
	}
	// Somebody makes a file where the last one has to go.
	r.write("z", "theirs\n")
	ops = append(ops, op{path: "z", to: ops[0].to})
	before := world(t, r.top)
	err := s.restore(ops, r.top)
	if err == nil || !strings.Contains(err.Error(), "everything is as it was") || !strings.Contains(err.Error(), r.abs("z")) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, world(t, r.top)); diff != "" {
		t.Errorf("files (-before +now):\n%s", diff)
	}
	if exists(r.abs("d")) || !exists(r.abs("n/o")) {
		t.Error("folders are not as they were")
	}
}

// A link that takes the place of a folder leads no rewind out of the work tree.
func TestNoWayOut(t *testing.T) {
	r := newRig(t)
	outside := folderOf(t)
	r.write("d/f", "1\n")
	id := r.turn(func() { r.write("d/f", "2\n") })
	r.remove("d")
	r.link(outside, "d")
	if why := ask(t, r.keep, r.top, id); !strings.Contains(why, r.abs("d")) {
		t.Errorf("reason %q", why)
	}
	if len(world(t, outside)) > 0 {
		t.Error("a file was made outside of the work tree")
	}
}

// The working directory stays, even when a rewind takes all that is in it.
func TestWorkingDirectoryStays(t *testing.T) {
	r := newRig(t)
	r.write("w/x/tmp", "")
	r.remove("w/x/tmp")
	cwd := r.abs("w/x")
	id := r.turn(func() { r.write("w/x/y/f", "1\n") })
	out, err := r.keep.Rewind(t.Context(), "s", cwd, id, false)
	if err != nil || !out.CanRewind || exists(r.abs("w/x/y")) || !exists(cwd) {
		t.Errorf("got %+v, %v", out, err)
	}
}

// An ignored file stands where a folder was: it is named and stays.
func TestIgnoredInTheWay(t *testing.T) {
	r := newRig(t)
	r.write("d/f", "1\n")
	r.git("add", "-A")
	r.write(".gitignore", "d\n")
	id := r.turn(func() { r.remove("d"); r.write("d", "ignored\n") })
	if why := ask(t, r.keep, r.top, id); !strings.HasSuffix(why, "in the way: "+r.abs("d")) || r.read("d") != "ignored\n" {
		t.Errorf("reason %q, d is %q", why, r.read("d"))
	}
}
