package checkpoint

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reread gives what another process makes of a journal.
func reread(t *testing.T, text string) *session {
	t.Helper()
	s := &session{dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(s.dir, journalName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.replay(); err != nil {
		t.Fatal(err)
	}
	return s
}

func statesOf(s *session) map[string]state {
	all := map[string]state{}
	for path, e := range s.files {
		all[path] = e.state
	}
	return all
}

// A journal that was cut off anywhere is as good as one that ends with the last whole
// snapshot in it, also when more is written behind it.
func TestJournalCutOff(t *testing.T) {
	r := newRig(t)
	r.write("a b\n\"", "1\n")
	r.write("b", "1\n")
	r.turn(func() { r.write("b", "2\n"); r.remove("a b\n\""); r.link("x", "c") })
	r.turn(func() { r.write("b", "3\n"); r.write("\xff", "3\n") })
	whole, err := os.ReadFile(filepath.Join(r.keep.folder("s"), journalName))
	if err != nil {
		t.Fatal(err)
	}
	full := reread(t, string(whole))
	if diff := cmp.Diff(statesOf(r.session()), statesOf(full), cmp.AllowUnexported(state{})); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(r.session().marks, full.marks); diff != "" || full.top != r.top || len(full.marks) != 2 {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	// Snapshots and turns begin with a word; the one in front is whole there.
	good := []int{}
	for n := 0; n < len(whole); {
		line, _, _ := strings.Cut(string(whole[n:]), "\n")
		word, _, _ := strings.Cut(line, " ")
		if slices.Contains([]string{wordTop, wordTurn, wordBase, wordForeign, wordOwn}, word) {
			good = append(good, n)
		}
		n += len(line) + 1
	}
	if len(good) != 7 {
		t.Fatalf("the journal has %d parts, want a top, 2 turns and 4 snapshots:\n%s", len(good), whole)
	}
	var last *session
	for cut := range len(whole) {
		s := reread(t, string(whole[:cut]))
		if slices.Contains(good, cut) {
			last = s
		}
		same := func() bool { return maps.Equal(statesOf(s), statesOf(last)) && maps.Equal(s.marks, last.marks) }
		if !same() {
			t.Fatalf("cut off at %d: got %v, want %v", cut, statesOf(s), statesOf(last))
		}
		if err := s.note(wordLine(wordTurn, "later")); err != nil {
			t.Fatal(err)
		}
		if err := s.replay(); err != nil || !slices.Contains(s.pending, "later") || !same() {
			t.Fatalf("cut off at %d, then written to: %v, %v, %v", cut, statesOf(s), s.pending, err)
		}
	}
}

// What is between snapshots while a process was killed is somebody else's: it is not
// undone, and not lost.
func TestKilledBetween(t *testing.T) {
	r := newRig(t)
	r.write("a", "1\n")
	first := r.turn(func() { r.write("a", "2\n") })
	second := r.begin()
	s := r.session()
	if err := s.enter(t.Context(), r.tree(), false); err != nil {
		t.Fatal(err)
	}
	r.write("b", "by a call that was cut off\n")
	r.keep = boot(t, r.home)
	third := r.turn(func() { r.write("a", "3\n") })
	for _, id := range []string{third, second, first} {
		r.must(id)
	}
	if r.read("a") != "1\n" || r.read("b") == "(none)" {
		t.Errorf("a is %q, b %q", r.read("a"), r.read("b"))
	}
}
