package checkpoint

import (
	"testing"
	"time"
)

// A content may change within a tick of the clock of its file system without a
// change of its times.
func TestYoung(t *testing.T) {
	read := time.Unix(1000, 500_000_000)
	at := func(d time.Duration) int64 { return read.Add(d).UnixNano() }
	for name, tc := range map[string]struct {
		s    stamp
		want bool
	}{
		"just now":               {stamp{mtime: at(-time.Millisecond), ctime: at(-time.Millisecond)}, true},
		"its mode just now":      {stamp{mtime: at(-time.Hour), ctime: at(-time.Millisecond)}, true},
		"in the future":          {stamp{mtime: at(time.Hour), ctime: at(-time.Hour)}, true},
		"a moment ago":           {stamp{mtime: at(-time.Second - 1), ctime: at(-time.Second - 1)}, false},
		"a moment ago, seconds":  {stamp{mtime: time.Unix(999, 0).UnixNano(), ctime: time.Unix(999, 0).UnixNano()}, true},
		"some time ago, seconds": {stamp{mtime: time.Unix(998, 0).UnixNano(), ctime: time.Unix(998, 0).UnixNano()}, false},
	} {
		if got := tc.s.isYoung(read); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

// The index is believed only when nothing about a file has changed since, and when
// it was written in a later second.
func TestTrust(t *testing.T) {
	file := stamp{size: 3, mtime: 5_000_000_001, ctime: 6_000_000_002, ino: 1<<32 + 7}
	x := &index{stamp: stamp{mtime: 6_000_000_000}, files: map[string]tracked{
		"a":      {id: "x", stamp: stamp{size: 3, mtime: 5_000_000_001, ctime: 6_000_000_002, ino: 7}},
		"merged": {stamp: file},
	}}
	if !x.trusts("a", file) {
		t.Error("a file as the index has it is not believed")
	}
	for name, change := range map[string]func(*stamp){
		"size": func(s *stamp) { s.size++ }, "mtime": func(s *stamp) { s.mtime++ }, "ctime": func(s *stamp) { s.ctime++ }, "inode": func(s *stamp) { s.ino++ },
	} {
		other := file
		if change(&other); x.trusts("a", other) {
			t.Errorf("believed with another %s", name)
		}
	}
	if x.trusts("merged", file) || x.trusts("b", file) {
		t.Error("believed without a content")
	}
	if x.stamp.mtime = 5_999_999_999; x.trusts("a", file) {
		t.Error("believed within the second")
	}
}
