package session_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit is for hangs only.
const limit = 20 * time.Second

func turn(n int) session.Draft {
	return session.Draft{Type: sdkproto.TypeTurnStart, Data: &sdkproto.TurnStart{Turn: n}}
}

func newLog(w *memory, folds ...session.Fold) *session.Log {
	return session.NewLog(session.Header{ID: "s"}, w, 0, 0, folds...)
}

// fold is a function as a Fold.
type fold func(*session.Record) error

func (f fold) Apply(r *session.Record) error { return f(r) }

func mustAppend(t *testing.T, l *session.Log, drafts ...session.Draft) int64 {
	t.Helper()
	first, err := l.Append(drafts...)
	if err != nil {
		t.Fatalf("Append: %v", err)
	}
	return first
}

func TestAppend(t *testing.T) {
	w := &memory{}
	l := newLog(w)
	if first := mustAppend(t, l, turn(1), session.Draft{
		Type: sdkproto.TypeUserMessage, Time: 7, Sources: []int64{0}, Data: &sdkproto.Message{
			Content: []sdkproto.Block{sdkproto.Text("<a & b>")}, Source: sdkproto.Source{Kind: "user"}, Role: "user", ID: "x"},
	}); first != 0 {
		t.Errorf("the first seq is %d, want 0", first)
	}
	if first := mustAppend(t, l); first != 2 || w.appends != 1 {
		t.Errorf("an empty Append gives seq %d in %d writes, want 2 in 1", first, w.appends)
	}
	if first := mustAppend(t, l, session.Draft{Type: "vendor/x", Ignorable: true, Data: nil}); first != 2 {
		t.Errorf("the third seq is %d, want 2", first)
	}
	at := w.records[0].Event.Time
	for i, want := range []string{
		fmt.Sprintf(`{"type":"turn/start","seq":0,"time":%d,"data":{"turn":1}}`, at),
		fmt.Sprintf(`{"type":"user/message","seq":1,"time":%d,"data":{"content":[{"type":"text","text":"<a & b>"}],"source":{"kind":"user"},"role":"user","id":"x"},"sourceEventSeqs":[0],"surfaceOp":"append"}`, at),
		fmt.Sprintf(`{"type":"vendor/x","seq":2,"time":%d,"data":null,"ignorable":true}`, w.records[2].Event.Time),
	} {
		r := w.records[i]
		if string(r.Raw) != want {
			t.Errorf("record %d is\n%s\nwant\n%s", i, r.Raw, want)
		}
		if string(r.Event.AppendJSON(nil)) != want {
			t.Errorf("the event of record %d says something else than its encoded form: %+v", i, r.Event)
		}
		// The payload is in memory once.
		begin, data := uintptr(unsafe.Pointer(unsafe.SliceData(r.Raw))), uintptr(unsafe.Pointer(unsafe.SliceData(r.Event.Data)))
		if data < begin || data >= begin+uintptr(len(r.Raw)) {
			t.Errorf("the payload of record %d is a second copy", i)
		}
	}
	if l.Next() != 3 || l.LastTime() != w.records[2].Event.Time {
		t.Errorf("next seq %d, last time %d", l.Next(), l.LastTime())
	}
}

func TestTimesNeverDecrease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UnixMilli()
		w := &memory{}
		l := session.NewLog(session.Header{ID: "s"}, w, 5, now+1000)
		at := func(ms int64) session.Draft { d := turn(1); d.Time = ms; return d }
		mustAppend(t, l, at(now+10), turn(1), at(now+3000), turn(1), at(now))
		time.Sleep(2 * time.Second)
		mustAppend(t, l, turn(1))
		time.Sleep(2 * time.Second)
		mustAppend(t, l, turn(1), at(1))
		for i, want := range []int64{1000, 1000, 3000, 3000, 3000, 3000, 4000, 4000} {
			if got := w.records[i].Event.Time - now; got != want {
				t.Errorf("event %d is %d ms after the start, want %d", i, got, want)
			}
		}
	})
}

func TestAppendRefuses(t *testing.T) {
	for name, d := range map[string]session.Draft{
		"no type":                          {Data: 1},
		"type is no text":                  {Type: "a/\xff", Data: 1},
		"payload cannot be encoded":        {Type: "vendor/x", Data: func() {}},
		"payload's own encoder gives junk": {Type: sdkproto.TypeAssistantChunk, Data: &sdkproto.AssistantChunk{Chunk: sdkproto.Chunk{Type: "finish", Reason: &sdkproto.FinishReason{Kind: "stop"}, ReplayState: []byte(`{"a":`)}}},
		"surface operation is no JSON":     {Type: sdkproto.TypeUserMessage, Data: &sdkproto.Message{}, Surface: []byte(`{"op"`)},
		"surface operation of other types": {Type: sdkproto.TypeTurnEnd, Data: &sdkproto.TurnEnd{}, Surface: []byte(sdkproto.SurfaceAppend)},
	} {
		t.Run(name, func(t *testing.T) {
			w := &memory{}
			l := newLog(w)
			if _, err := l.Append(turn(1), d); err == nil {
				t.Fatalf("it was accepted: %s", w.records[1].Raw)
			}
			if len(w.records) != 0 || l.Next() != 0 {
				t.Errorf("a part of the batch was written: %d records", len(w.records))
			}
			// The log itself is as it was.
			mustAppend(t, l, turn(1))
		})
	}
}

// A raw member on several lines must not break the log's lines.
func TestAppendKeepsToOneLine(t *testing.T) {
	w := &memory{}
	l := newLog(w)
	mustAppend(t, l,
		session.Draft{Type: sdkproto.TypeAssistantChunk, Data: &sdkproto.AssistantChunk{Turn: 1, Step: 1, Chunk: sdkproto.Chunk{
			Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: "stop"}, ReplayState: []byte("{\n  \"a\": [\n1 ]\n}")}}},
		session.Draft{Type: sdkproto.TypeToolResult, Data: &sdkproto.ToolResult{Meta: []byte("{\n\"diff\": \"x\\ny\"\r\n}")}, Surface: []byte("{\"op\":\n\"replace\"}")},
	)
	for i, want := range []string{`"replayState":{"a":[1]}}}}`, `"meta":{"diff":"x\ny"}},"surfaceOp":{"op":"replace"}}`} {
		if raw := string(w.records[i].Raw); strings.ContainsAny(raw, "\n\r") || !strings.HasSuffix(raw, want) {
			t.Errorf("record %d is\n%s\nwant it on one line, ending with\n%s", i, raw, want)
		}
	}
}

// A failed write hands out nothing and fails the log (decision D2).
func TestFailedWrite(t *testing.T) {
	o := kernel.NewOwner(t.Context(), "test")
	heard := &recorder{}
	sub := heard.subscribe(o, 10)
	folded := 0
	w := &memory{}
	l := newLog(w, fold(func(*session.Record) error { folded++; return nil }))
	l.Subscribe(sub)
	mustAppend(t, l, turn(1))
	full := errors.New("disk full")
	w.err = full
	for range 2 {
		if _, err := l.Append(turn(2)); !errors.Is(err, full) || !strings.Contains(err.Error(), "session s") {
			t.Errorf("Append: got error %v, want %v and the session", err, full)
		}
		w.err = nil
	}
	l.Signal(sdkproto.StatusIdle)
	drain(t, sub)
	if got := heard.text(); got != "s:0 s:idle" || folded != 1 {
		t.Errorf("heard %q, folded %d; want \"s:0 s:idle\" and 1", got, folded)
	}
	if w.appends != 2 {
		t.Errorf("a failed log still writes: %d writes, want 2", w.appends)
	}
	if err := l.Sync(t.Context()); err != nil {
		t.Errorf("what was written before cannot be synced: %v", err)
	}
	closeAll(t, o, l)
	if w.closed != 1 {
		t.Errorf("the writer was closed %d times, want once", w.closed)
	}
}

func TestFailedFold(t *testing.T) {
	broken := errors.New("broken")
	l := newLog(&memory{}, fold(func(r *session.Record) error {
		if r.Event.Seq == 1 {
			return broken
		}
		return nil
	}))
	mustAppend(t, l, turn(1))
	for range 2 {
		if _, err := l.Append(turn(2)); !errors.Is(err, broken) {
			t.Errorf("Append: got error %v, want %v", err, broken)
		}
	}
}

// Sync covers what was appended before it, and those who come during one share
// the next.
func TestSyncShares(t *testing.T) {
	w := &memory{hold: make(chan struct{}), holding: make(chan struct{}, 10)}
	l := newLog(w)
	mustAppend(t, l, turn(1))
	first := async(func() error { return l.Sync(t.Context()) })
	<-w.holding
	// These come too late for the one in flight.
	mustAppend(t, l, turn(2))
	var rest []<-chan error
	for range 5 {
		rest = append(rest, async(func() error { return l.Sync(t.Context()) }))
	}
	w.hold <- struct{}{}
	if err := await(t, first); err != nil {
		t.Errorf("the first Sync: %v", err)
	}
	<-w.holding
	for i, r := range rest {
		select {
		case err := <-r:
			t.Errorf("waiter %d returned before the second sync: %v", i, err)
		default:
		}
	}
	close(w.hold)
	for _, r := range rest {
		if err := await(t, r); err != nil {
			t.Errorf("a later Sync: %v", err)
		}
	}
	if w.syncs != 2 || w.synced != 2 {
		t.Errorf("%d syncs cover %d records, want 2 and 2", w.syncs, w.synced)
	}
	if err := l.Sync(t.Context()); err != nil || w.syncs != 2 {
		t.Errorf("Sync with nothing new: error %v, %d syncs in all, want 2", err, w.syncs)
	}
}

func TestSyncOutlivesItsCaller(t *testing.T) {
	w := &memory{hold: make(chan struct{}), holding: make(chan struct{}, 10)}
	l := newLog(w)
	mustAppend(t, l, turn(1))
	ctx, cancel := context.WithCancel(t.Context())
	impatient := async(func() error { return l.Sync(ctx) })
	<-w.holding
	patient := async(func() error { return l.Sync(t.Context()) })
	cancel()
	if err := await(t, impatient); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller whose context ended: got error %v, want %v", err, context.Canceled)
	}
	// Close waits for the sync in flight: the writer's methods do not overlap with
	// its Close.
	closing := async(l.Close)
	select {
	case err := <-closing:
		t.Errorf("Close returned during a sync: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(w.hold)
	if err := await(t, patient); err != nil {
		t.Errorf("the caller that waited: %v", err)
	}
	if err := await(t, closing); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := l.Append(turn(2)); !errors.Is(err, session.ErrClosed) {
		t.Errorf("Append after Close: got error %v, want %v", err, session.ErrClosed)
	}
	if err := l.Close(); err != nil || w.closed != 1 {
		t.Errorf("a second Close: error %v, writer closed %d times", err, w.closed)
	}
}

// After a failed sync nothing may count as acknowledged that was not before.
func TestFailedSync(t *testing.T) {
	w := &memory{}
	l := newLog(w)
	mustAppend(t, l, turn(1))
	if err := l.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, turn(2))
	broken := errors.New("I/O error")
	w.syncErr = broken
	for range 2 {
		if err := l.Sync(t.Context()); !errors.Is(err, broken) {
			t.Errorf("Sync: got error %v, want %v", err, broken)
		}
		w.syncErr = nil
	}
	if _, err := l.Append(turn(3)); !errors.Is(err, broken) {
		t.Errorf("Append after a failed Sync: got error %v, want %v", err, broken)
	}
	closeAll(t, nil, l)
	if err := l.Sync(t.Context()); !errors.Is(err, broken) {
		t.Errorf("Sync after Close: got error %v, want %v", err, broken)
	}
}

func TestPanicOfSync(t *testing.T) {
	w := &panicking{}
	l := session.NewLog(session.Header{ID: "s"}, w, 0, 0)
	mustAppend(t, l, turn(1))
	if err := l.Sync(t.Context()); err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("got error %v, want one that says %q", err, "no disk")
	}
	closeAll(t, nil, l)
}

type panicking struct{ memory }

func (*panicking) Sync(context.Context) error { panic("no disk") }

func TestViewExcludesAppend(t *testing.T) {
	var n int
	l := newLog(&memory{}, fold(func(*session.Record) error { n++; return nil }))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				if _, err := l.Append(turn(1), turn(2)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 200 {
		l.View(func() {
			if n%2 != 0 {
				t.Errorf("View sees half a batch: %d records", n)
			}
		})
	}
	wg.Wait()
	if n != 1600 {
		t.Errorf("%d records were folded, want 1600", n)
	}
}

// recorder writes down what a subscription hears.
type recorder struct {
	mu   sync.Mutex
	seen []string
}

func (r *recorder) hear(_ context.Context, e session.Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Record == nil {
		r.seen = append(r.seen, e.SessionID+":"+string(e.Status))
	} else {
		r.seen = append(r.seen, fmt.Sprintf("%s:%d", e.SessionID, e.Record.Event.Seq))
	}
	return nil
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.seen, " ")
}

func (r *recorder) subscribe(o *kernel.Owner, bound int) *session.Subscription {
	return session.NewSubscription(o, slog.New(slog.DiscardHandler), "recorder", bound, r.hear)
}

func drain(t *testing.T, s *session.Subscription) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := s.Drain(ctx); err != nil {
		t.Fatalf("Drain: %v", err)
	}
}

func closeAll(t *testing.T, o *kernel.Owner, logs ...*session.Log) {
	t.Helper()
	for _, l := range logs {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if o == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := o.Close(ctx); err != nil {
		t.Errorf("close the owner: %v", err)
	}
}

func async(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

func await(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		t.Fatal("it hangs")
		return nil
	}
}
