package session

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
	"unicode/utf8"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// Log is a live session: the only way to append to it and to hear of it.
//
// All methods may be called from any goroutine.
type Log struct {
	header Header
	w      Writer
	now    func() time.Time

	mu    sync.Mutex
	next  int64 // seq of the next event
	last  int64 // time of the last event, epoch milliseconds
	folds []Fold
	subs  []*Subscription
	err   error // why the log takes no more

	syncMu  sync.Mutex
	synced  int64         // everything below this seq is on the disk
	syncing chan struct{} // closed when the sync in flight ended
	syncErr error         // of the last sync; there is none after a failed one
	closing bool          // no sync may start any more

	closeOnce sync.Once
	closeErr  error
}

// NewLog continues a stored session at seq next, after an event of time last
// (both 0 for a new one). The folds have seen everything before.
func NewLog(h Header, w Writer, next, last int64, folds ...Fold) *Log {
	return &Log{header: h, w: w, now: time.Now, next: next, last: last, folds: folds, synced: next}
}

// Header gives the session's head record.
func (l *Log) Header() Header { return l.header }

// Next is the seq that the next event will get.
func (l *Log) Next() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// LastTime is the time of the last event, in epoch milliseconds; 0 before the
// first.
func (l *Log) LastTime() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Append records facts, all or none, and returns the seq of the first. It never
// waits for subscribers: producers of long output call Room before. A draft that
// cannot be encoded refuses the whole batch and leaves the log as it was. After a
// failed write the log is failed and every later call returns that error.
func (l *Log) Append(drafts ...Draft) (first int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, l.err
	}
	if len(drafts) == 0 {
		return l.next, nil
	}
	records, err := l.encode(drafts)
	if err != nil {
		return 0, err
	}
	if err := l.w.Append(records); err != nil {
		l.err = fmt.Errorf("append to session %s: %w", l.header.ID, err)
		return 0, l.err
	}
	first = l.next
	l.next += int64(len(records))
	l.last = records[len(records)-1].Event.Time
	for i := range records {
		for _, f := range l.folds {
			if err := f.Apply(&records[i]); err != nil {
				l.err = fmt.Errorf("session %s: %w", l.header.ID, err)
				return first, l.err
			}
		}
	}
	for _, s := range l.subs {
		s.push(l.header.ID, records)
	}
	return first, nil
}

// encode gives the records of a batch. They share one buffer, each event stands
// in it once, and its payload is a part of it.
func (l *Log) encode(drafts []Draft) ([]Record, error) {
	const usualSize = 192
	records := make([]Record, len(drafts))
	buf := make([]byte, 0, usualSize*len(drafts))
	ends := make([]struct{ data, dataEnd, end int }, len(drafts))
	now, at := l.now().UnixMilli(), l.last
	for i := range drafts {
		d := &drafts[i]
		if d.Time != 0 {
			at = max(at, d.Time)
		} else {
			at = max(at, now)
		}
		ev := sdkproto.Event{Type: d.Type, Seq: l.next + int64(i), Time: at, Ignorable: d.Ignorable, SourceEventSeqs: d.Sources}
		err := checkType(d.Type)
		if err == nil {
			err = surfaceOf(d, &ev)
		}
		if err == nil {
			buf = ev.AppendHead(buf)
			ends[i].data = len(buf)
			buf, err = appendPayload(buf, d.Data)
		}
		if err != nil {
			return nil, fmt.Errorf("encode event %s of session %s: %w", d.Type, l.header.ID, err)
		}
		ends[i].dataEnd = len(buf)
		buf = ev.AppendTail(buf)
		ends[i].end = len(buf)
		records[i] = Record{Event: ev, Data: d.Data}
	}
	start := 0
	for i, e := range ends {
		records[i].Raw = buf[start:e.end:e.end]
		records[i].Event.Data = buf[e.data:e.dataEnd:e.dataEnd]
		start = e.end
	}
	return records, nil
}

// checkType refuses what could not be read back.
func checkType(eventType string) error {
	if eventType == "" || !utf8.ValidString(eventType) {
		return errors.New("an event type must be text and not empty")
	}
	return nil
}

// surfaceOf sets the surface operation: mandatory for the types that change the
// history, forbidden for all others (spec jsonrpc 5.1).
func surfaceOf(d *Draft, ev *sdkproto.Event) error {
	switch {
	case !sdkproto.IsSurface(d.Type):
		if d.Surface != nil {
			return errors.New("an event of this type has no surface operation")
		}
	case d.Surface == nil:
		ev.SurfaceOp = []byte(sdkproto.SurfaceAppend)
	default:
		op, err := wirejson.Compact(d.Surface)
		if err != nil {
			return fmt.Errorf("surface operation: %w", err)
		}
		ev.SurfaceOp = op
	}
	return nil
}

type appender interface {
	AppendJSON(dst []byte) ([]byte, error)
}

// appendPayload appends one JSON value on one line, whatever the payload's own
// encoder or a raw member of it gives.
func appendPayload(dst []byte, data any) ([]byte, error) {
	a, ok := data.(appender)
	if !ok {
		return wirejson.Append(dst, data)
	}
	start := len(dst)
	dst, err := a.AppendJSON(dst)
	if err != nil {
		return dst, err
	}
	if c, ok := data.(*sdkproto.AssistantChunk); ok && c.Chunk.IsDelta() {
		return dst, nil
	}
	line, err := wirejson.Compact(dst[start:])
	if err != nil {
		return dst, err
	}
	return append(dst[:start], line...), nil
}

// Signal puts a change of status into every subscriber's order, at this place
// between the facts. It is not stored (decision R2).
func (l *Log) Signal(status sdkproto.Status) {
	l.push(Entry{SessionID: l.header.ID, Status: status})
}

// Settle puts the end of an activation of this session, a delegated one, into
// every subscriber's order. It is not stored.
func (l *Log) Settle(s Settled) {
	l.push(Entry{SessionID: l.header.ID, Settled: &s})
}

func (l *Log) push(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.subs {
		s.pushEntry(e)
	}
}

// Room waits until every subscription has room for more, so that a client that
// does not read slows its producers down (decision R3).
func (l *Log) Room(ctx context.Context) error {
	l.mu.Lock()
	subs := l.subs
	l.mu.Unlock()
	for _, s := range subs {
		if err := s.room(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Subscribe adds a subscription to those that hear of this log; it hears what
// is appended from now on.
func (l *Log) Subscribe(s *Subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A new slice, because Room reads the old one without the lock. Those that
	// have ended go.
	subs := make([]*Subscription, 0, len(l.subs)+1)
	for _, x := range l.subs {
		if x != s && !x.deaf() {
			subs = append(subs, x)
		}
	}
	l.subs = append(subs, s)
}

// View runs f while no event is being applied, so that it may read the folds.
// f must not call the log.
func (l *Log) View(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// Sync returns when everything appended before the call is on the disk. One
// sync runs at a time; callers that come meanwhile share the next. When ctx ends
// first, the sync goes on without the caller. A failed sync fails the log: what
// the system had taken may be lost, and a second attempt would not tell.
func (l *Log) Sync(ctx context.Context) error {
	target := l.Next()
	for {
		l.syncMu.Lock()
		err, wait := l.syncErr, l.syncing
		if l.synced < target && err == nil && wait == nil {
			if l.closing {
				err = ErrClosed
			} else {
				wait = make(chan struct{})
				l.syncing = wait
				go l.sync(context.WithoutCancel(ctx), wait)
			}
		}
		enough := l.synced >= target
		l.syncMu.Unlock()
		if enough {
			return nil
		}
		if err != nil {
			return fmt.Errorf("sync session %s: %w", l.header.ID, err)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return fmt.Errorf("sync session %s: %w", l.header.ID, context.Cause(ctx))
		}
	}
}

// sync is one sync in flight; Close waits for it.
func (l *Log) sync(ctx context.Context, done chan struct{}) {
	covers := l.Next()
	err := l.syncWriter(ctx)
	if err != nil {
		l.fail(fmt.Errorf("sync session %s: %w", l.header.ID, err))
	}
	l.syncMu.Lock()
	if err == nil {
		l.synced = max(l.synced, covers)
	}
	l.syncErr, l.syncing = err, nil
	close(done)
	l.syncMu.Unlock()
}

// syncWriter contains a panic of the store: the goroutine has no caller that
// would.
func (l *Log) syncWriter(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return l.w.Sync(ctx)
}

func (l *Log) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
}

// Close syncs, gives up the right to write and refuses everything after. Later
// calls return what the first did.
func (l *Log) Close() error {
	l.closeOnce.Do(func() {
		l.mu.Lock()
		l.err = ErrClosed
		next := l.next
		l.mu.Unlock()

		l.syncMu.Lock()
		l.closing = true
		wait := l.syncing
		l.syncMu.Unlock()
		if wait != nil {
			<-wait
		}
		if err := l.w.Close(); err != nil {
			l.closeErr = fmt.Errorf("close session %s: %w", l.header.ID, err)
			return
		}
		l.syncMu.Lock()
		defer l.syncMu.Unlock()
		if l.syncErr == nil {
			l.synced = next
		}
	})
	return l.closeErr
}
