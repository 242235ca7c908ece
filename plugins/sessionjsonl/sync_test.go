package sessionjsonl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"dsh/kernel/session"
	"dsh/sdkproto"
)

// counted is a store that counts what it brings to the disk.
type counted struct {
	*Store
	files, names atomic.Int64
	// err is what the next syncs of files give.
	err error
}

func count(t *testing.T) *counted {
	c := &counted{Store: NewStore(filepath.Join(t.TempDir(), "sessions.d"), "", slog.New(slog.DiscardHandler))}
	c.syncFile = func(f *os.File) error {
		c.files.Add(1)
		return errors.Join(c.err, syncData(f))
	}
	do := c.Store.names.do
	c.Store.names.do = func() error {
		c.names.Add(1)
		return do()
	}
	return c
}

func (c *counted) want(t *testing.T, when string, files, names int64) {
	t.Helper()
	if f, n := c.files.Load(), c.names.Load(); f != files || n != names {
		t.Errorf("%s: %d syncs of the file and %d of its name, want %d and %d", when, f, n, files, names)
	}
}

var event = session.Record{
	Event: sdkproto.Event{Type: sdkproto.TypeTurnStart},
	Raw:   []byte(`{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}`),
}

func (c *counted) create(t *testing.T, id string) session.Writer {
	t.Helper()
	w, err := c.Create(t.Context(), session.Header{ID: id, CreatedAt: 1})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// The first sync brings the file's name to the disk as well, for a session that
// was opened too: its last writer may have died before it did.
func TestWhatSyncSyncs(t *testing.T) {
	c := count(t)
	w := c.create(t, "s")
	step := func(when string, do func() error, files, names int64) {
		t.Helper()
		if err := do(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		c.want(t, when, files, names)
	}
	appendOne := func() error { return w.Append([]session.Record{event}) }
	syncIt := func() error { return w.Sync(t.Context()) }
	step("sync of nothing", syncIt, 0, 0)
	step("append", appendOne, 0, 0)
	step("first sync", syncIt, 1, 1)
	step("sync again", syncIt, 1, 1)
	step("append again", appendOne, 1, 1)
	step("second sync", syncIt, 2, 1)
	step("third append", appendOne, 2, 1)
	step("close", w.Close, 3, 1)

	path := c.path("s")
	if err := os.WriteFile(path, []byte(`{"type":"session","version":0,"id":"s","createdAt":1}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := c.Open(t.Context(), "s", "", func(session.Header, *session.Record) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	step("open", func() error { return nil }, 3, 1)
	step("append after open", appendOne, 3, 1)
	step("sync after open", syncIt, 4, 2)
	step("close after open", w.Close, 4, 2)
}

// A failed sync is never followed by one that succeeds: what it lost stays lost.
func TestFailedSync(t *testing.T) {
	c := count(t)
	w := c.create(t, "s")
	if err := w.Append([]session.Record{event}); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("I/O error")
	c.err = broken
	if err := w.Sync(t.Context()); !errors.Is(err, broken) {
		t.Errorf("Sync: got error %v, want %v", err, broken)
	}
	c.err = nil
	if err := w.Sync(t.Context()); !errors.Is(err, broken) {
		t.Errorf("Sync after a failed one: got error %v, want %v", err, broken)
	}
	if err := w.Append([]session.Record{event}); !errors.Is(err, broken) {
		t.Errorf("Append after a failed Sync: got error %v, want %v", err, broken)
	}
	if err := w.Close(); !errors.Is(err, broken) {
		t.Errorf("Close: got error %v, want %v", err, broken)
	}
	// The session itself is free again.
	w, err := c.Open(t.Context(), "s", "", func(session.Header, *session.Record) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close of the next writer: %v", err)
	}
}

// Sessions that begin at the same time share the syncs of their folder, and each
// has one that began after its file was there (performance rule 7).
func TestSharedNameSyncs(t *testing.T) {
	c := count(t)
	begun, gate := make(chan struct{}, 100), make(chan struct{})
	do := c.Store.names.do
	c.Store.names.do = func() error {
		begun <- struct{}{}
		<-gate
		return do()
	}
	start := func(id string) <-chan error {
		w := c.create(t, id)
		if err := w.Append([]session.Record{event}); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- errors.Join(w.Sync(context.Background()), w.Close()) }()
		return done
	}
	first := start("first")
	<-begun
	const others = 50
	var wg sync.WaitGroup
	for i := range others {
		done := start(fmt.Sprint(i))
		wg.Go(func() {
			if err := <-done; err != nil {
				t.Errorf("session %d: %v", i, err)
			}
		})
	}
	// All wait for the next sync, or are about to.
	for {
		c.Store.names.mu.Lock()
		waiting := c.Store.names.tickets
		c.Store.names.mu.Unlock()
		if waiting == others+1 {
			break
		}
	}
	gate <- struct{}{}
	if err := <-first; err != nil {
		t.Errorf("the first session: %v", err)
	}
	gate <- struct{}{}
	wg.Wait()
	if n := c.names.Load(); n != 2 {
		t.Errorf("%d syncs of the folder for %d sessions, want 2", n, others+1)
	}
}
