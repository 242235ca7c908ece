package session_test

import (
	"context"
	"slices"
	"sync"

	"dsh/kernel/session"
)

// memory is a store of one session, and its writer. It can be told to fail, and
// to hold a sync until a test lets it go.
type memory struct {
	mu      sync.Mutex
	header  session.Header
	records []session.Record
	synced  int // records that a finished sync covers
	syncs   int
	closed  int
	appends int
	err     error         // of the next Append
	syncErr error         // of every Sync
	hold    chan struct{} // when set, a Sync waits for it
	holding chan struct{} // told when a Sync begins to wait
}

func (m *memory) Append(records []session.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.appends++
	if m.err != nil {
		return m.err
	}
	m.records = append(m.records, records...)
	return nil
}

func (m *memory) Sync(context.Context) error {
	m.mu.Lock()
	n, hold, holding := len(m.records), m.hold, m.holding
	m.mu.Unlock()
	if hold != nil {
		holding <- struct{}{}
		<-hold
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.syncs++
	if m.syncErr != nil {
		return m.syncErr
	}
	m.synced = max(m.synced, n)
	return nil
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed++
	m.synced = len(m.records)
	return nil
}

func (m *memory) Create(_ context.Context, h session.Header) (session.Writer, error) {
	m.header = h
	return m, nil
}

func (m *memory) Open(_ context.Context, _, _ string, fn func(session.Header, *session.Record) error) (session.Writer, error) {
	for _, r := range m.stored() {
		if err := fn(m.header, &r); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *memory) Read(_ context.Context, _ string, from int64, fn func(*session.Record) error) error {
	for _, r := range m.stored() {
		if r.Event.Seq >= from {
			if err := fn(&r); err != nil {
				return err
			}
		}
	}
	return nil
}

// stored gives the records as a store gives them: encoded only.
func (m *memory) stored() []session.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	records := slices.Clone(m.records)
	for i := range records {
		records[i].Data = nil
	}
	return records
}

func (m *memory) Header(context.Context, string) (session.Header, error) { return m.header, nil }

func (m *memory) List(context.Context, string) ([]session.Header, error) {
	return []session.Header{m.header}, nil
}

func (m *memory) Delete(context.Context, string) error { return nil }
