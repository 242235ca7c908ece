package toolfs

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"dsh/kernel/tool"
	"dsh/sdkproto/wirejson"
)

// in makes a call of another session.
func (x *fixture) in(session, name string, a args) tool.Result {
	x.T.Helper()
	raw, err := wirejson.Marshal(a)
	if err != nil {
		x.T.Fatal(err)
	}
	return x.Pipe.Call(x.T.Context(), x.View, name, string(raw), tool.Invocation{SessionID: session, CWD: x.Dir, CallID: "c"})
}

// TestNoticed: what somebody else does to a file that a session knows is noticed;
// what nobody did is not (issue 6, S060, case B65).
func TestNoticed(t *testing.T) {
	read := func(x *fixture) { x.Good("read", args{"file_path": "f"}) }
	other := func(x *fixture) { x.Put("f", "two\nthree\n") }
	for name, tc := range map[string]struct {
		before  func(x *fixture)
		noticed bool
	}{
		"never read":          {func(x *fixture) {}, false},
		"read":                {read, false},
		"read and changed":    {func(x *fixture) { read(x); other(x) }, true},
		"changed, then read":  {func(x *fixture) { read(x); other(x); read(x) }, false},
		"read in part":        {func(x *fixture) { x.Good("read", args{"file_path": "f", "limit": 1}); other(x) }, true},
		"written and changed": {func(x *fixture) { x.Good("write", args{"file_path": "f", "content": "one\n"}); other(x) }, true},
		"edited and changed": {func(x *fixture) {
			x.Good("edit", args{"file_path": "f", "old_string": "one", "new_string": "1"})
			other(x)
		}, true},
		"touched":                {func(x *fixture) { read(x); touch(x, "f") }, false},
		"the same again":         {func(x *fixture) { read(x); x.Put("f", "one\ntwo\n") }, false},
		"changed and kept times": {func(x *fixture) { read(x); sameTimes(x, "f", "ONE\ntwo\n") }, true},
		"replaced":               {func(x *fixture) { read(x); x.Put("g", "two\n"); rename(x, "g", "f") }, true},
		"gone":                   {func(x *fixture) { read(x); remove(x, "f") }, false},
		"read by another":        {func(x *fixture) { x.in("other", "read", args{"file_path": "f"}); other(x) }, false},
		"changed by another": {func(x *fixture) {
			read(x)
			x.in("other", "edit", args{"file_path": "f", "old_string": "one", "new_string": "1"})
		}, true},
		"another way to it": {func(x *fixture) { x.Good("read", args{"file_path": x.Path("sub/../f")}); other(x) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			x := setUp(t, defaults())
			x.Put("f", "one\ntwo\n")
			tc.before(x)
			if tc.noticed {
				was := x.get("f")
				x.Bad("write", args{"file_path": "f", "content": "mine\n"}, codeChanged, "another program changed it", "use read")
				if x.get("f") != was {
					t.Error("a refused call wrote")
				}
			}
			// The second time it is meant.
			x.Good("write", args{"file_path": "f", "content": "mine\n"})
			if x.get("f") != "mine\n" {
				t.Errorf("the file holds %q", x.get("f"))
			}

			x = setUp(t, defaults())
			x.Put("f", "one\ntwo\n")
			tc.before(x)
			if name == "gone" {
				return
			}
			got := x.Good("edit", args{"file_path": "f", "old_string": "two", "new_string": "2"})
			if said := strings.Contains(got, strings.TrimSpace(hadChanged)); said != tc.noticed {
				t.Errorf("the edit says %q", got)
			}
			if got := x.Good("edit", args{"file_path": "f", "old_string": "2", "new_string": "II"}); strings.Contains(got, "Another program") {
				t.Errorf("the edit after says %q", got)
			}
			x.Good("write", args{"file_path": "f", "content": "mine\n"})
		})
	}
}

func touch(x *fixture, name string) {
	if err := os.Chtimes(x.Path(name), time.Time{}, time.Now().Add(time.Hour)); err != nil {
		x.T.Fatal(err)
	}
}

// sameTimes changes a file, but not its size and time.
func sameTimes(x *fixture, name, content string) {
	info, err := os.Stat(x.Path(name))
	if err != nil {
		x.T.Fatal(err)
	}
	x.Put(name, content)
	if err := os.Chtimes(x.Path(name), time.Time{}, info.ModTime()); err != nil {
		x.T.Fatal(err)
	}
}

func rename(x *fixture, from, to string) {
	if err := os.Rename(x.Path(from), x.Path(to)); err != nil {
		x.T.Fatal(err)
	}
}

func remove(x *fixture, name string) {
	if err := os.Remove(x.Path(name)); err != nil {
		x.T.Fatal(err)
	}
}

// TestNoticedByClaude: the same under the other dialect, notebooks included.
func TestNoticedByClaude(t *testing.T) {
	x := claudeSetUp(t, nil)
	x.Put("f", "one\ntwo\n")
	x.Good("Read", args{"file_path": "f"})
	x.Put("f", "one\nthree\n")
	if got := x.Good("Edit", args{"file_path": "f", "old_string": "one", "new_string": "1"}); !strings.Contains(got, "has been updated. Another program had changed the file since") {
		t.Errorf("Edit says %q", got)
	}
	x.Put("f", "four\n")
	x.Bad("Write", args{"file_path": "f", "content": "x"}, codeChanged, "use Read to see what is new")
	x.Put("n.ipynb", notebook)
	if got := x.Good("Read", args{"file_path": "n.ipynb"}); !strings.Contains(got, "# Title") {
		t.Errorf("Read says %q", got)
	}
	x.Put("n.ipynb", replaced(t, "# Title", "# Other"))
	if got := x.Good("NotebookEdit", args{"notebook_path": "n.ipynb", "cell_id": "calc", "new_source": "2"}); !strings.HasSuffix(got, strings.TrimSpace(hadChanged)) {
		t.Errorf("NotebookEdit says %q", got)
	}
	if got := x.get("n.ipynb"); !strings.Contains(got, "# Other") || !strings.Contains(got, `"2"`) {
		t.Error("one of the changes is lost")
	}
}

// TestLargeFileNoticed: of a file whose end no call reads only time and size tell.
func TestLargeFileNoticed(t *testing.T) {
	x := setUp(t, defaults())
	long := strings.Repeat("a line of text\n", (countAhead+4<<20)/15)
	x.Put("f", long)
	x.Good("read", args{"file_path": "f"})
	x.Put("f", long+"more\n")
	x.Bad("write", args{"file_path": "f", "content": "x"}, codeChanged)
}

// TestSeenIsBounded: the files that were not used for the longest time are forgotten.
func TestSeenIsBounded(t *testing.T) {
	s := newSeen()
	key := func(i int) seenKey { return seenKey{"s", fmt.Sprint(i)} }
	for i := range maxSeen {
		s.hold(key(i), fileState{size: 1})
	}
	s.hold(key(0), fileState{size: 1})
	s.hold(key(maxSeen), fileState{size: 1})
	if len(s.of) != maxSeen || s.order.Len() != maxSeen {
		t.Errorf("%d files are remembered, want %d", len(s.of), maxSeen)
	}
	now := fileState{size: 2}
	for i, want := range map[int]bool{0: true, 1: false, 2: true, maxSeen: true} {
		if got := s.changed(key(i), now); got != want {
			t.Errorf("file %d: changed %v, want %v", i, got, want)
		}
	}
}

// TestChangedInTheMoment: a file that changes while a call works on it is not
// replaced.
func TestChangedInTheMoment(t *testing.T) {
	x := setUp(t, defaults())
	x.Put("f", "one\n")
	info, err := os.Lstat(x.Path("f"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Link(x.Path("f"), x.Path("linked")); err != nil {
		t.Fatal(err)
	}
	linked, err := os.Lstat(x.Path("linked"))
	if err != nil {
		t.Fatal(err)
	}
	x.Put("linked", "one, and more\n")
	if err := replaceFile(t.Context(), x.Path("linked"), "mine\n", linked); err == nil || x.f.describe("edit", "f", err).Error.Code != codeChanged {
		t.Errorf("a file with two names that had changed: %v", err)
	}
	remove(x, "linked")
	if err := replaceFile(t.Context(), x.Path("f"), "mine\n", info); err == nil || x.f.describe("edit", "f", err).Error.Code != codeChanged {
		t.Errorf("a file that had changed: %v", err)
	}
	if err := replaceFile(t.Context(), x.Path("f"), "mine\n", nil); err == nil || x.f.describe("write", "f", err).Error.Code != codeChanged {
		t.Errorf("a file that had appeared: %v", err)
	}
	if got := x.get("f"); got != "one, and more\n" {
		t.Errorf("the file holds %q", got)
	}
	x.onlyFiles("", "f")
}
