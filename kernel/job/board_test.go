package job_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"dsh/kernel"
	"dsh/kernel/job"
)

func shell(id string) job.Job {
	return job.Job{ID: id, SessionID: "s", CallID: "call-" + id, Kind: job.KindShell, Description: "sleep", Background: true}
}

func start(t *testing.T, b *job.Board, w job.Work) *job.Entry {
	t.Helper()
	e, err := b.Start(w)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// S055: a task that runs is stopped, one that has ended is no error, and one that
// never was is.
func TestStop(t *testing.T) {
	b := job.NewBoard()
	stopped := 0
	e := start(t, b, job.Work{Job: shell("a"), Stop: func() { stopped++ }})
	if j, _ := b.Lookup("a"); j.StopAsked {
		t.Error("nobody has asked for a stop")
	}
	if err := b.Stop("a"); err != nil || stopped != 1 {
		t.Fatalf("Stop = %v, the work was told %d times", err, stopped)
	}
	if j, _ := b.Lookup("a"); !j.StopAsked {
		t.Error("it is not known that a stop was asked for")
	}
	e.End(job.End{Status: job.Stopped, Summary: "stopped"})
	if err := b.Stop("a"); err != nil || stopped != 1 {
		t.Errorf("Stop of an ended job = %v, the work was told %d times", err, stopped)
	}
	if err := b.Stop("never"); !errors.Is(err, job.ErrUnknown) {
		t.Errorf("Stop of a job that never was = %v", err)
	}
}

// Watchers see every change once, in order, and an end only once.
func TestWatch(t *testing.T) {
	b, o := job.NewBoard(), kernel.NewOwner(t.Context(), "test")
	var seen []string
	if err := b.Watch(o, func(j job.Job) { seen = append(seen, fmt.Sprint(j.ID, " ", j.Status, " ", j.Background)) }); err != nil {
		t.Fatal(err)
	}
	front := shell("a")
	front.Background = false
	e := start(t, b, job.Work{Job: front, Detach: func() bool { return true }})
	e.Detached("/tmp/a")
	e.End(job.End{Status: job.Completed})
	e.End(job.End{Status: job.Failed})
	e.Detached("/tmp/b")
	want := []string{"a running false", "a running true", "a completed true"}
	if !slices.Equal(seen, want) {
		t.Errorf("told %q, want %q", seen, want)
	}
	if err := o.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	start(t, b, job.Work{Job: shell("b")})
	if len(seen) != len(want) {
		t.Errorf("told %q after its owner was closed", seen[len(want):])
	}
}

// Only calls that wait can be moved to the background: the one that is named, or
// all.
func TestDetach(t *testing.T) {
	b := job.NewBoard()
	entries := map[string]*job.Entry{}
	for _, id := range []string{"a", "b", "c"} {
		w := job.Work{Job: shell(id), Detach: func() bool { entries[id].Detached(""); return true }}
		w.Background = id == "c"
		entries[id] = start(t, b, w)
	}
	if b.Detach("s", "call-c") || b.Detach("other", "") {
		t.Error("moved what does not wait, or belongs to somebody else")
	}
	if !b.Detach("s", "call-a") || b.Detach("s", "call-a") || !b.Detach("s", "") || b.Detach("s", "") {
		t.Error("not moved once each")
	}
}

// A session's ended jobs are bounded, those in the foreground are gone at once, and
// what is forgotten is unknown.
func TestBounds(t *testing.T) {
	b := job.NewBoard()
	for i := range 150 {
		start(t, b, job.Work{Job: shell(fmt.Sprint(i))}).End(job.End{Status: job.Completed})
	}
	if n := len(b.List("s")); n != 100 {
		t.Errorf("%d ended jobs are remembered, want 100", n)
	}
	front := shell("front")
	front.Background = false
	start(t, b, job.Work{Job: front}).End(job.End{Status: job.Completed})
	if _, ok := b.Lookup("front"); ok {
		t.Error("a call that was waited for is remembered")
	}
	for i := range 200 {
		start(t, b, job.Work{Job: shell(fmt.Sprint("r", i))})
	}
	if _, err := b.Start(job.Work{Job: shell("one more")}); !errors.Is(err, job.ErrFull) {
		t.Errorf("Start beyond the bound = %v", err)
	}
	b.Forget("s")
	if _, ok := b.Lookup("r0"); ok || len(b.List("s")) > 0 {
		t.Error("a forgotten session is known")
	}
}

func TestWait(t *testing.T) {
	b := job.NewBoard()
	e := start(t, b, job.Work{Job: shell("a")})
	over, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if j, err := b.Wait(over, "a"); err == nil || err.Error() != "enough" || j.Over() {
		t.Errorf("Wait = %v, %v", j, err)
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if j, err := b.Wait(t.Context(), "a"); err != nil || j.Status != job.Completed || j.Ended.IsZero() {
				t.Errorf("Wait = %v, %v", j, err)
			}
		})
	}
	e.End(job.End{Status: job.Completed})
	all.Wait()
	if _, err := b.Wait(t.Context(), "never"); !errors.Is(err, job.ErrUnknown) {
		t.Errorf("Wait for a job that never was = %v", err)
	}
}
