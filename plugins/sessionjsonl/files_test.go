package sessionjsonl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"dsh/kernel"
	"dsh/kernel/session"
	"dsh/kernel/session/sessiontest"
	"dsh/plugins/sessionjsonl"
)

func newLog(t *testing.T, st session.Store, id string) *session.Log {
	t.Helper()
	h := sessiontest.Header(id)
	w, err := st.Create(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return session.NewLog(h, w, 0, 0)
}

func nothing(session.Header, *session.Record) error { return nil }

// Two stores are to each other like two processes: only the lock keeps them
// apart.
func TestLockBetweenStores(t *testing.T) {
	home := t.TempDir()
	mine, other := quiet(home), quiet(home)
	l := newLog(t, mine, "s")
	// Both think of creating the session; the one that writes first has it.
	late := newLog(t, other, "s")
	if _, err := l.Append(sessiontest.Events()...); err != nil {
		t.Fatal(err)
	}
	if _, err := late.Append(sessiontest.Events()...); !errors.Is(err, session.ErrExists) {
		t.Errorf("the second creation: got error %v, want %v", err, session.ErrExists)
	}
	if err := late.Close(); err != nil {
		t.Errorf("Close of the loser: %v", err)
	}
	wantPID := 0
	if runtime.GOOS == "linux" {
		wantPID = os.Getpid()
	}
	for what, do := range map[string]func() error{
		"Open":   func() error { _, err := other.Open(t.Context(), "s", "", nothing); return err },
		"Delete": func() error { return other.Delete(t.Context(), "s") },
	} {
		var inUse *session.InUseError
		if err := do(); !errors.As(err, &inUse) || inUse.ID != "s" || inUse.PID != wantPID {
			t.Errorf("%s: got error %v, want session s in use by process %d", what, err, wantPID)
		}
	}
	seen := 0
	if err := other.Read(t.Context(), "s", 0, func(*session.Record) error { seen++; return nil }); err != nil || seen != len(sessiontest.Events()) {
		t.Errorf("Read beside the other's writer: %d records, error %v", seen, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	w, err := other.Open(t.Context(), "s", "", nothing)
	if err != nil {
		t.Fatalf("Open after the other's Close: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestDeleteTakesSpilledOutput(t *testing.T) {
	home := t.TempDir()
	st := quiet(home)
	for _, id := range []string{"../a", "b"} {
		l := newLog(t, st, id)
		if _, err := l.Append(sessiontest.Events()...); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(home, "spill", session.EncodeID(id), "call_1"), "output")
	}
	if err := st.Delete(t.Context(), "../a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(home, "spill", "..~002Fa")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the spilled output of the deleted session is there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(home, "spill", "b", "call_1")); err != nil {
		t.Errorf("the spilled output of the other session: %v", err)
	}
}

func TestListPassesOverForeignFiles(t *testing.T) {
	home := t.TempDir()
	if err := play(t.Context(), quiet(home), func(bool, int64) {}); err != nil {
		t.Fatal(err)
	}
	put(t, file(home, "garbage"), "garbage\n")
	put(t, file(home, "renamed"), headRow)
	put(t, file(home, "future"), strings.Replace(headRow, `"version":0`, `"version":7`, 1))
	put(t, file(home, "endless"), strings.Repeat("x", 3<<20)+"\n")
	put(t, filepath.Join(home, "sessions.d", "README.txt"), "hello")
	put(t, filepath.Join(home, "sessions.d", "folder.jsonl", "x"), "hello")
	var said bytes.Buffer
	st := sessionjsonl.NewStore(filepath.Join(home, "sessions.d"), "", slog.New(slog.NewTextHandler(&said, nil)))
	list, err := st.List(t.Context(), "")
	if err != nil || len(list) != 1 || list[0].ID != scriptID {
		t.Errorf("List gives %+v, %v", list, err)
	}
	for _, name := range []string{"garbage.jsonl", "renamed.jsonl", "future.jsonl", "endless.jsonl"} {
		if strings.Count(said.String(), name+" error=") != 1 {
			t.Errorf("%s is not warned about once:\n%s", name, said.String())
		}
	}
	if n := strings.Count(said.String(), "\n"); n != 4 {
		t.Errorf("%d warnings, want 4:\n%s", n, said.String())
	}
}

// Rows are of any length; a file is read line by line.
func TestLongRows(t *testing.T) {
	home := t.TempDir()
	st := quiet(home)
	l := newLog(t, st, "s")
	var want []int
	for _, n := range []int{0, 1, 60 << 10, 64<<10 - 1, 64 << 10, 64<<10 + 1, 200 << 10, 5 << 20} {
		if _, err := l.Append(session.Draft{Type: "vendor/big", Ignorable: true, Data: strings.Repeat("x", n)}); err != nil {
			t.Fatal(err)
		}
		want = append(want, n)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	i := 0
	err := st.Read(t.Context(), "s", 0, func(r *session.Record) error {
		text, err := session.Decode[string](r)
		if err != nil || len(text) != want[i] {
			t.Errorf("row %d holds %d bytes of text, error %v; want %d", i, len(text), err, want[i])
		}
		i++
		return nil
	})
	if err != nil || i != len(want) {
		t.Errorf("%d rows, error %v", i, err)
	}
}

func TestDirOfConfig(t *testing.T) {
	home, elsewhere := t.TempDir(), t.TempDir()
	for dir, want := range map[string]string{
		"":        filepath.Join(home, "sessions.d"),
		"logs":    filepath.Join(home, "logs"),
		elsewhere: elsewhere,
	} {
		st := sessionjsonl.New(sessionjsonl.Params{
			Self:   kernel.Instance{Home: home, Log: slog.New(slog.DiscardHandler)},
			Config: sessionjsonl.Config{Dir: dir},
		})
		l := newLog(t, st, "s")
		if _, err := l.Append(sessiontest.Events()...); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(want, "s.jsonl")); err != nil {
			t.Errorf("dir %q: %v", dir, err)
		}
	}
}

// Stores that make, open and delete one session at the same time: whoever has a
// writer has the session that is on the disk, not one that was deleted.
func TestDeleteRaces(t *testing.T) {
	home := t.TempDir()
	const racers, rounds = 4, 150
	var wg sync.WaitGroup
	for i := range racers {
		st := quiet(home)
		wg.Go(func() {
			for n := range rounds {
				if err := live(t.Context(), st, fmt.Sprintf("%d.%d", i, n)); err != nil {
					t.Errorf("racer %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// live makes or opens the session, writes a mark, and looks for it; then it
// deletes the session. Losing a race is no error.
func live(ctx context.Context, st session.Store, mark string) error {
	lost := func(err error) bool {
		var inUse *session.InUseError
		return errors.As(err, &inUse) || errors.Is(err, session.ErrExists) || errors.Is(err, session.ErrNotFound)
	}
	var state session.State
	l, err := session.Load(ctx, st, "s", "", &state)
	if errors.Is(err, session.ErrNotFound) {
		h := sessiontest.Header("s")
		w, err := st.Create(ctx, h)
		if err != nil {
			return unless(lost, err)
		}
		l = session.NewLog(h, w, 0, 0)
	} else if err != nil {
		return unless(lost, err)
	}
	if _, err := l.Append(session.Draft{Type: "vendor/mark", Ignorable: true, Data: mark}); err != nil {
		return errors.Join(unless(lost, err), l.Close())
	}
	seen := false
	err = st.Read(ctx, "s", 0, func(r *session.Record) error {
		text, err := session.Decode[string](r)
		seen = seen || text == mark
		return err
	})
	if err == nil && !seen {
		err = errors.New("what was written is not there")
	}
	if err != nil {
		return errors.Join(fmt.Errorf("beside a live writer: %w", err), l.Close())
	}
	if err := l.Close(); err != nil {
		return err
	}
	return unless(lost, st.Delete(ctx, "s"))
}

func unless(lost func(error) bool, err error) error {
	if lost(err) {
		return nil
	}
	return err
}

// TestTitle: the last title counts, wherever it stands; what a message says about one
// is none, and neither is a line that a crash has cut off.
func TestTitle(t *testing.T) {
	home := t.TempDir()
	titled := func(seq int, title string) string {
		return fmt.Sprintf(`{"seq":%d,"type":"session/title","time":1,"data":{"title":%q}}`+"\n", seq, title)
	}
	var rows strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&rows, `{"seq":%d,"type":"x","time":1,"data":{"text":"a \"session/title\" b","type":"session/title","title":"no"}}`+"\n", i+1)
	}
	for name, tc := range map[string]struct{ log, want string }{
		"none":            {headRow + rows.String(), ""},
		"one":             {headRow + titled(0, "first") + rows.String(), "first"},
		"renamed":         {headRow + titled(0, "first") + rows.String() + titled(1001, "second") + rows.String(), "second"},
		"cut off":         {headRow + titled(0, "first") + strings.TrimSuffix(titled(1, "second"), "\n"), "first"},
		"broken in front": {headRow + "{\n" + titled(0, "first"), "first"},
	} {
		t.Run(name, func(t *testing.T) {
			put(t, file(home, "s"), tc.log)
			st := quiet(home)
			if got, err := st.Title(t.Context(), "s"); err != nil || got != tc.want {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
	st := quiet(home)
	put(t, file(home, "empty"), "")
	put(t, file(home, "renamed"), headRow)
	for id, want := range map[string]error{"nobody": session.ErrNotFound, "empty": session.ErrNotFound, "renamed": session.ErrCorrupt} {
		if got, err := st.Title(t.Context(), id); !errors.Is(err, want) {
			t.Errorf("%s: %q, %v; want %v", id, got, err, want)
		}
	}
}
