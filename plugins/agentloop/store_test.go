package agentloop_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"

	"dsh/kernel/session"
	"dsh/sdkproto/wirejson"
)

// memStore keeps sessions in memory, as bytes: what is read back has been
// decoded from what was written.
type memStore struct {
	mu       sync.Mutex
	sessions map[string]*stored
	// appendErr and syncErr, when set, decide about each call.
	appendErr func(r []session.Record) error
	syncErr   func() error
	// syncing, when set, is called by every Sync before it returns.
	syncing func()
	syncs   int
	// tamper changes what is read back.
	tamper func(raw []byte) []byte
}

type stored struct {
	header session.Header
	raw    [][]byte
	open   bool
}

func newMemStore() *memStore { return &memStore{sessions: map[string]*stored{}} }

func (m *memStore) Create(_ context.Context, h session.Header) (session.Writer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sessions[h.ID]; s != nil {
		if s.open {
			return nil, &session.InUseError{ID: h.ID}
		}
		return nil, session.ErrExists
	}
	return &memWriter{m, h.ID, &stored{header: h, open: true}}, nil
}

func (m *memStore) Open(_ context.Context, id, cwd string, fn func(session.Header, *session.Record) error) (session.Writer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[id]
	switch {
	case s == nil:
		return nil, session.ErrNotFound
	case s.open:
		return nil, &session.InUseError{ID: id}
	case cwd != "" && cwd != s.header.CWD:
		return nil, session.ErrOtherCWD
	}
	for _, raw := range s.raw {
		r, err := record(raw)
		if err != nil {
			return nil, err
		}
		if err := fn(s.header, r); err != nil {
			return nil, err
		}
	}
	s.open = true
	return &memWriter{m, id, s}, nil
}

func (m *memStore) Read(_ context.Context, id string, from int64, fn func(*session.Record) error) error {
	m.mu.Lock()
	s := m.sessions[id]
	if s == nil {
		m.mu.Unlock()
		return session.ErrNotFound
	}
	lines := slices.Clone(s.raw)
	tamper := m.tamper
	m.mu.Unlock()
	for _, raw := range lines {
		if tamper != nil {
			raw = tamper(raw)
		}
		r, err := record(raw)
		if err != nil {
			return err
		}
		if r.Event.Seq < from {
			continue
		}
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}

func record(raw []byte) (*session.Record, error) {
	r := &session.Record{Raw: bytes.Clone(raw)}
	return r, wirejson.Unmarshal(r.Raw, &r.Event)
}

func (m *memStore) Header(_ context.Context, id string) (session.Header, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sessions[id]; s != nil {
		return s.header, nil
	}
	return session.Header{}, session.ErrNotFound
}

func (m *memStore) List(_ context.Context, cwd string) ([]session.Header, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []session.Header
	for _, s := range m.sessions {
		if cwd == "" || cwd == s.header.CWD {
			list = append(list, s.header)
		}
	}
	return list, nil
}

func (m *memStore) Delete(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch s := m.sessions[id]; {
	case s == nil:
		return session.ErrNotFound
	case s.open:
		return &session.InUseError{ID: id}
	}
	delete(m.sessions, id)
	return nil
}

// records gives a stored session, decoded.
func (m *memStore) records(id string) []*session.Record {
	var out []*session.Record
	err := m.Read(context.Background(), id, 0, func(r *session.Record) error { out = append(out, r); return nil })
	if err != nil {
		panic(err)
	}
	return out
}

func (m *memStore) syncCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.syncs
}

func (m *memStore) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// crash gives up all writers, as the death of their process does.
func (m *memStore) crash() *memStore {
	m.mu.Lock()
	defer m.mu.Unlock()
	after := newMemStore()
	for id, s := range m.sessions {
		after.sessions[id] = &stored{header: s.header, raw: slices.Clone(s.raw)}
	}
	return after
}

type memWriter struct {
	store *memStore
	id    string
	s     *stored
}

func (w *memWriter) Append(records []session.Record) error {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if w.store.appendErr != nil {
		if err := w.store.appendErr(records); err != nil {
			return err
		}
	}
	if !w.s.open {
		return errors.New("append to a closed writer")
	}
	w.store.sessions[w.id] = w.s
	for i := range records {
		if records[i].Event.Seq != int64(len(w.s.raw)) {
			return errors.New("sequence has a gap")
		}
		if bytes.ContainsRune(records[i].Raw, '\n') {
			return errors.New("a record has more than one line")
		}
		w.s.raw = append(w.s.raw, bytes.Clone(records[i].Raw))
	}
	return nil
}

func (w *memWriter) Sync(context.Context) error {
	w.store.mu.Lock()
	w.store.syncs++
	syncing, syncErr := w.store.syncing, w.store.syncErr
	w.store.mu.Unlock()
	if syncing != nil {
		syncing()
	}
	if syncErr != nil {
		return syncErr()
	}
	return nil
}

func (w *memWriter) Close() error {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.s.open = false
	return nil
}
