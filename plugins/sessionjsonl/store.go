package sessionjsonl

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"dsh/kernel/session"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

const (
	extension = ".jsonl"
	dirMode   = 0o700
	fileMode  = 0o600
	// syncGate bounds the syncs in flight, each of which holds a thread.
	syncGate = 256
)

// Store keeps sessions below one folder. Create and Open take a session for as
// long as their writer lives; each costs one descriptor.
type Store struct {
	dir, spill string
	log        *slog.Logger
	gate       chan struct{}
	names      dirSync
	scratch    sync.Pool // *[]byte, for the rows of a batch
	syncFile   func(*os.File) error

	mu   sync.Mutex
	live map[string]struct{} // file names of this process's writers
}

var _ session.Titler = (*Store)(nil)

var _ session.Store = (*Store)(nil)

// NewStore makes a store of the files below dir. What belongs to a session but
// is kept elsewhere, its spilled tool output, is in a folder below spill that is
// named like the session's file and removed with it (decision D19).
func NewStore(dir, spill string, log *slog.Logger) *Store {
	s := &Store{dir: dir, spill: spill, log: log, gate: make(chan struct{}, syncGate), syncFile: syncData, live: map[string]struct{}{}}
	s.names.do = func() error { return syncDir(dir) }
	s.scratch.New = func() any { return new([]byte) }
	return s
}

func (s *Store) path(id string) string {
	return filepath.Join(s.dir, session.EncodeID(id)+extension)
}

// claim keeps a second writer of this process out; the file lock does so for
// other processes.
func (s *Store) claim(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := session.EncodeID(id)
	if _, taken := s.live[name]; taken {
		return &session.InUseError{ID: id, PID: os.Getpid()}
	}
	s.live[name] = struct{}{}
	return nil
}

func (s *Store) release(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, session.EncodeID(id))
}

// Create starts a session in memory; its first Append makes the file.
func (s *Store) Create(_ context.Context, h session.Header) (session.Writer, error) {
	if err := session.CheckID(h.ID); err != nil {
		return nil, err
	}
	if err := s.claim(h.ID); err != nil {
		return nil, err
	}
	path := s.path(h.ID)
	_, err := readHead(path)
	if errors.Is(err, session.ErrNotFound) {
		return &writer{store: s, header: h, path: path}, nil
	}
	s.release(h.ID)
	var notOurs *fs.PathError
	if errors.As(err, &notOurs) {
		return nil, fmt.Errorf("create session %q: %w", h.ID, err)
	}
	return nil, fmt.Errorf("create session %q: %w: %s", h.ID, session.ErrExists, path)
}

// Open takes a stored session and cuts off what a crash left half written.
func (s *Store) Open(ctx context.Context, id, cwd string, fn func(session.Header, *session.Record) error) (session.Writer, error) {
	if err := session.CheckID(id); err != nil {
		return nil, err
	}
	if err := s.claim(id); err != nil {
		return nil, err
	}
	w, err := s.open(ctx, id, cwd, fn)
	if err != nil {
		s.release(id)
		return nil, about("open", id, err)
	}
	return w, nil
}

func (s *Store) open(ctx context.Context, id, cwd string, fn func(session.Header, *session.Record) error) (*writer, error) {
	path := s.path(id)
	f, err := openLocked(id, path)
	if err != nil {
		return nil, err
	}
	var h session.Header
	found, err := scan(ctx, f, path, func(head session.Header) error {
		h = head
		return checkHead(h, id, cwd, path)
	}, func(r *session.Record) error { return fn(h, r) })
	if err == nil && found.size > found.end {
		s.log.Warn("cut off what a crash left half written", "session", id, "file", path, "line", found.lines+1, "bytes", found.size-found.end)
		err = f.Truncate(found.end)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	w := &writer{store: s, header: h, path: path, file: f, size: found.end, synced: found.end}
	// Its last writer may have been killed before it synced the file's name.
	w.unnamed.Store(true)
	return w, nil
}

func checkHead(h session.Header, id, cwd, path string) error {
	if h.ID != id {
		return fmt.Errorf("%w: %s holds session %q", session.ErrCorrupt, path, h.ID)
	}
	if cwd != "" && (h.CWD == "" || filepath.Clean(h.CWD) != filepath.Clean(cwd)) {
		return fmt.Errorf("%w: it was started in %q, this is %q", session.ErrOtherCWD, h.CWD, cwd)
	}
	return nil
}

// Read hands the records from seq `from` on to fn.
func (s *Store) Read(ctx context.Context, id string, from int64, fn func(*session.Record) error) error {
	if err := session.CheckID(id); err != nil {
		return err
	}
	path := s.path(id)
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read session %q: %w", id, notFound(err))
	}
	defer f.Close()
	_, err = scan(ctx, f, path, func(h session.Header) error { return checkHead(h, id, "", path) }, func(r *session.Record) error {
		if r.Event.Seq < from {
			return nil
		}
		return fn(r)
	})
	if err != nil {
		return fmt.Errorf("read session %q: %w", id, err)
	}
	return nil
}

// Header reads the head of one session.
func (s *Store) Header(_ context.Context, id string) (session.Header, error) {
	if err := session.CheckID(id); err != nil {
		return session.Header{}, err
	}
	path := s.path(id)
	h, err := readHead(path)
	if err == nil {
		err = checkHead(h, id, "", path)
	}
	if err != nil {
		return session.Header{}, fmt.Errorf("read session %q: %w", id, err)
	}
	return h, nil
}

// List reads the first line of every session file. Files that are no sessions
// are passed over with a warning.
func (s *Store) List(ctx context.Context, cwd string) ([]session.Header, error) {
	files, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var list []session.Header
	for _, file := range files {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("list sessions: %w", context.Cause(ctx))
		}
		name, ok := strings.CutSuffix(file.Name(), extension)
		if !ok || file.IsDir() {
			continue
		}
		path := filepath.Join(s.dir, file.Name())
		h, err := readHead(path)
		if err == nil && session.EncodeID(h.ID) != name {
			err = fmt.Errorf("it holds session %q", h.ID)
		}
		switch {
		case errors.Is(err, session.ErrNotFound):
			// Created a moment ago, or torn by a crash before it was one.
		case err != nil:
			s.log.Warn("a session file cannot be read", "file", path, "error", err)
		case cwd == "" || h.CWD != "" && filepath.Clean(h.CWD) == filepath.Clean(cwd):
			list = append(list, h)
		}
	}
	slices.SortFunc(list, func(a, b session.Header) int {
		return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}

// Title implements session.Titler. Only lines that look like a title are decoded;
// what is broken elsewhere does not matter here.
func (s *Store) Title(ctx context.Context, id string) (title string, err error) {
	if err := session.CheckID(id); err != nil {
		return "", err
	}
	path := s.path(id)
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read session %q: %w", id, notFound(err))
	}
	defer f.Close()
	lines := lineReader{r: bufio.NewReaderSize(f, scanBuffer), max: maxLine}
	for first := true; ; first = false {
		line, err := lines.next()
		switch {
		case errors.Is(err, io.EOF) && !first:
			return title, nil
		case errors.Is(err, io.EOF):
			err = session.ErrNotFound
		case first:
			var h session.Header
			if h, err = parseHead(line, err, path); err == nil {
				err = checkHead(h, id, "", path)
			}
		case errors.Is(err, errLongLine):
			err = nil
		case err == nil && bytes.Contains(line, []byte(`"`+sdkproto.TypeSessionTitle+`"`)):
			var row struct {
				Type string                `json:"type"`
				Data sdkproto.SessionTitle `json:"data"`
			}
			if wirejson.Unmarshal(line, &row) == nil && row.Type == sdkproto.TypeSessionTitle {
				title = row.Data.Title
			}
		}
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return "", fmt.Errorf("read session %q: %w", id, err)
		}
	}
}

// Delete removes a session's file and its spilled output.
func (s *Store) Delete(ctx context.Context, id string) error {
	if err := session.CheckID(id); err != nil {
		return err
	}
	if err := s.claim(id); err != nil {
		return err
	}
	defer s.release(id)
	path := s.path(id)
	// A file without a header is another process's beginning, not a session.
	if _, err := readHead(path); errors.Is(err, session.ErrNotFound) {
		return fmt.Errorf("delete session %q: %w", id, err)
	}
	f, err := openLocked(id, path)
	if err != nil {
		return about("delete", id, err)
	}
	// The file goes last, so that a deletion that was cut off can be repeated.
	if err := os.RemoveAll(filepath.Join(s.spill, session.EncodeID(id))); err != nil {
		return errors.Join(fmt.Errorf("delete session %q: %w", id, err), f.Close())
	}
	if err := removeLocked(f, path); err != nil {
		return fmt.Errorf("delete session %q: %w", id, err)
	}
	if err := s.names.sync(ctx); err != nil {
		return fmt.Errorf("delete session %q: %w", id, err)
	}
	return nil
}

// openLocked opens a session's file for writing and takes its lock.
func openLocked(id, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, notFound(err)
	}
	err = lock(f)
	switch {
	case errors.Is(err, errLocked):
		err = &session.InUseError{ID: id, PID: holder(f)}
	case err == nil && !isAt(f, path):
		// Deleted, or deleted and made anew, between the two calls.
		err = session.ErrNotFound
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// isAt reports whether the open file is the one of that name.
func isAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}

// about names the session in an error that does not do so by itself.
func about(what, id string, err error) error {
	var inUse *session.InUseError
	if errors.As(err, &inUse) {
		return inUse
	}
	return fmt.Errorf("%s session %q: %w", what, id, err)
}

func notFound(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return session.ErrNotFound
	}
	return err
}
