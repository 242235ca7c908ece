package checkpoint

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dsh/kernel"
	"dsh/plugins/processlocal"
)

// benchRig is a committed work tree of n files of 4 KB, a hundred in each folder,
// with a session that knows nothing of it.
func benchRig(b *testing.B, n int) *rig {
	b.Helper()
	r := &rig{t: b, home: folderOf(b), top: folderOf(b)}
	r.git("init", "-q")
	r.git("config", "gc.auto", "0")
	body := strings.Repeat("what stands in a file of a big tree\n", 110)
	for i := range n {
		r.write(fmt.Sprintf("d%d/e%d/f%d.txt", i/1000, i/100, i), fmt.Sprint(i, "\n", body))
	}
	r.commit()
	// Believe the index, as a second later.
	at := int64(4e9)
	if err := os.Chtimes(r.abs(".git/index"), timeOf(at), timeOf(at)); err != nil {
		b.Fatal(err)
	}
	o := kernel.NewOwner(context.Background(), "bench")
	b.Cleanup(func() {
		if err := o.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	self := kernel.Instance{ID: "checkpoint", Owner: o, Root: kernel.NewRoot(o), Log: slog.New(slog.DiscardHandler), Home: r.home}
	runner, err := processlocal.New(processlocal.Params{Self: self})
	if err != nil {
		b.Fatal(err)
	}
	config := defaults()
	r.keep = New(Params{Self: self, Config: config, Runner: runner, Agents: noAgents{}})
	return r
}

// BenchmarkFirst is the first snapshot of a session: the one before its first call.
func BenchmarkFirst(b *testing.B) {
	for _, n := range []int{10_000, 50_000} {
		for _, plain := range []bool{true, false} {
			b.Run(fmt.Sprintf("%d/plain=%v", n, plain), func(b *testing.B) {
				r := benchRig(b, n)
				if !plain {
					r.write(".gitattributes", "* text=auto\n")
				}
				s := r.session()
				t := r.tree()
				for b.Loop() {
					b.StopTimer()
					if err := r.keep.Forget(context.Background(), "s"); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
					if err := s.enter(context.Background(), t, false); err != nil {
						b.Fatal(err)
					}
					s.mu.Lock()
					s.calls, s.dirty = 0, false
					s.mu.Unlock()
				}
				if s.off != "" {
					b.Fatal(s.off)
				}
			})
		}
	}
}

// BenchmarkCall is what each further call costs: the snapshot behind it, of which
// one file has changed. The model is asked meanwhile.
func BenchmarkCall(b *testing.B) {
	for _, n := range []int{10_000, 50_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := benchRig(b, n)
			s, t := r.session(), r.tree()
			if err := s.enter(context.Background(), t, false); err != nil {
				b.Fatal(err)
			}
			i := 0
			for b.Loop() {
				i++
				r.write("d0/e0/f0.txt", fmt.Sprint(i))
				s.mu.Lock()
				s.calls, s.dirty = 0, true
				s.mu.Unlock()
				if err := s.catchUp(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			if s.off != "" || len(s.deltas) != i {
				b.Fatal(s.off, len(s.deltas))
			}
		})
	}
}

// BenchmarkResume reads the journal of a session.
func BenchmarkResume(b *testing.B) {
	r := benchRig(b, 50_000)
	s, t := r.session(), r.tree()
	if err := s.enter(context.Background(), t, false); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(s.dir, journalName))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := s.replay(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(info.Size()), "journal-bytes")
}

// BenchmarkGitStatus is for comparison: what git itself needs for the same tree.
func BenchmarkGitStatus(b *testing.B) {
	for _, n := range []int{10_000, 50_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := benchRig(b, n)
			r.git("status", "--porcelain")
			for b.Loop() {
				r.git("status", "--porcelain")
			}
		})
	}
}
