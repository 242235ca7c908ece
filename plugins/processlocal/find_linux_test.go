package processlocal

import (
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/process/group"
)

func TestParseStat(t *testing.T) {
	const rest = " 1 70 60 0 -1 4194304 112 0 0 0 0 0 0 0 20 0 1 0 88123 5771264 231 18446744073709551615 1 1 0"
	for _, tc := range []struct {
		name, line string
		want       survivor
		ok         bool
	}{
		{"running", "80 (bash) S" + rest, survivor{80, 70, 60, 88123}, true},
		{"odd name", "80 (a) R 9 (b c) D" + rest, survivor{80, 70, 60, 88123}, true},
		{"dead", "80 (bash) Z" + rest, survivor{}, false},
		{"cut off", "80 (bash) S 1 70 60", survivor{}, false},
		{"empty", "", survivor{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := parseStat(80, []byte(tc.line))
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(survivor{})); diff != "" || ok != tc.ok {
				t.Errorf("ok %v, (-want +got):\n%s", ok, diff)
			}
		})
	}
}

// TestRecycledGroup: a group that has the number of one of ours, and none of
// those that were in it, belongs to somebody else and is left alone.
func TestRecycledGroup(t *testing.T) {
	stranger := exec.Command("sleep", "300")
	stranger.SysProcAttr = group.Apart()
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stranger.Process.Kill()
		_ = stranger.Wait() // says that it was killed
	}()
	pid := stranger.Process.Pid
	procs, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	var born uint64
	for _, p := range procs {
		if p.pid == pid {
			born = p.start
		}
	}
	for _, tc := range []struct {
		name  string
		known map[int]uint64
		want  int
	}{
		{"the call still lasts", nil, 1},
		{"known", map[int]uint64{pid: born}, 1},
		{"nobody was left", map[int]uint64{}, 0},
		{"the process number came again, too", map[int]uint64{pid: born - 1}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &program{group: pid}
			if tc.known != nil {
				p.known.Store(&tc.known)
			}
			if got := find([]*program{p}, "a marker that nobody carries"); len(got) != tc.want {
				t.Errorf("found %v, want %d", got, tc.want)
			}
		})
	}
}
