package sessionjsonl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"dsh/kernel/session"
)

// writer extends one session file. An idle one holds nothing but its file.
type writer struct {
	store  *Store
	header session.Header
	path   string
	// unnamed says that the folder has to be synced before the file can be found
	// after a power failure.
	unnamed atomic.Bool

	mu     sync.Mutex // guards what Append and Sync share
	file   *os.File   // nil before the first Append
	size   int64
	synced int64 // of size; what an earlier writer wrote counts as synced
	err    error // why the writer takes no more
	lost   error // why what was written may not be on the disk, for good
}

// scratchKept bounds the scratch that is kept for the next batch, in bytes.
const scratchKept = 256 << 10

// Append writes the rows of a batch in one go.
func (w *writer) Append(records []session.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	scratch := w.store.scratch.Get().(*[]byte)
	defer func() {
		if cap(*scratch) <= scratchKept {
			w.store.scratch.Put(scratch)
		}
	}()
	rows, err := (*scratch)[:0], error(nil)
	fresh := w.file == nil
	if fresh {
		if rows, err = session.AppendHeader(rows, &w.header); err != nil {
			return w.fail(err)
		}
	}
	rows = session.AppendRows(rows, records)
	*scratch = rows
	if fresh {
		if w.file, err = w.store.create(w.header.ID, w.path); err != nil {
			return w.fail(err)
		}
		w.unnamed.Store(true)
	}
	n, err := w.file.Write(rows)
	if err != nil {
		return w.fail(errors.Join(err, w.takeBack(fresh, n)))
	}
	w.size += int64(n)
	return nil
}

// fail ends the writer, with the first reason there was.
func (w *writer) fail(err error) error {
	if w.err == nil {
		w.err = fmt.Errorf("write session file %s: %w", w.path, err)
	}
	return w.err
}

// takeBack undoes a write of which n bytes went through.
func (w *writer) takeBack(fresh bool, n int) error {
	if fresh {
		f := w.file
		w.file = nil
		return removeLocked(f, w.path)
	}
	if n == 0 {
		return nil
	}
	return w.file.Truncate(w.size)
}

// Sync brings the file, and at first its name, to the disk.
func (w *writer) Sync(ctx context.Context) error {
	w.mu.Lock()
	f, size, synced, lost := w.file, w.size, w.synced, w.lost
	w.mu.Unlock()
	if lost != nil {
		return lost
	}
	if size == synced {
		return nil
	}
	if err := w.sync(ctx, f); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced = max(w.synced, size)
	return nil
}

func (w *writer) sync(ctx context.Context, f *os.File) error {
	select {
	case w.store.gate <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("sync %s: %w", w.path, context.Cause(ctx))
	}
	err := w.store.syncFile(f)
	<-w.store.gate
	if err != nil {
		// What the system had may be gone, and the next sync would succeed.
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lost = fmt.Errorf("sync %s: %w", w.path, err)
		_ = w.fail(w.lost)
		return w.lost
	}
	if w.unnamed.Load() {
		if err := w.store.names.sync(ctx); err != nil {
			return fmt.Errorf("sync %s: %w", w.path, err)
		}
		w.unnamed.Store(false)
	}
	return nil
}

// Close syncs and lets the session go.
func (w *writer) Close() error {
	w.mu.Lock()
	closed := errors.Is(w.err, session.ErrClosed)
	w.mu.Unlock()
	if closed {
		return nil
	}
	err := w.Sync(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = session.ErrClosed
	if w.file != nil {
		err = errors.Join(err, w.file.Close())
		w.file = nil
	}
	w.store.release(w.header.ID)
	return err
}

// create makes the file of a new session and takes its lock. A file that a crash
// tore before its header was whole never was a session: it is used again.
func (s *Store) create(id, path string) (*os.File, error) {
	flags := os.O_RDWR | os.O_APPEND | os.O_CREATE | os.O_EXCL
	f, err := os.OpenFile(path, flags, fileMode)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDir(s.dir); err != nil {
			return nil, err
		}
		f, err = os.OpenFile(path, flags, fileMode)
	}
	if errors.Is(err, fs.ErrExist) {
		return reuse(id, path)
	}
	if err != nil {
		return nil, err
	}
	// Until it is locked, another process may look at the new file, or even take
	// it for a torn one and use it.
	if err = lockSoon(f); err == nil && !isNew(f, path) {
		err = session.ErrExists
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// isNew reports whether nobody has written to the open file of that name.
func isNew(f *os.File, path string) bool {
	info, err := f.Stat()
	return err == nil && info.Size() == 0 && isAt(f, path)
}

func reuse(id, path string) (*os.File, error) {
	if _, err := readHead(path); !errors.Is(err, session.ErrNotFound) {
		return nil, session.ErrExists
	}
	f, err := openLocked(id, path)
	if err != nil {
		return nil, err
	}
	// Again, now that nobody else can write it.
	lines := lineReader{r: bufio.NewReaderSize(f, headBuffer), max: maxHead}
	if _, err := lines.next(); err != io.EOF {
		return nil, errors.Join(session.ErrExists, f.Close())
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// makeDir makes a folder and what is missing above it, and syncs the folders
// that got a new name.
func makeDir(dir string) error {
	err := os.Mkdir(dir, dirMode)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDir(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, dirMode)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}
