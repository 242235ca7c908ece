package session_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"

	"dsh/kernel"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// discard is a writer that packs rows and forgets them.
type discard struct{ rows []byte }

func (d *discard) Append(records []session.Record) error {
	d.rows = session.AppendRows(d.rows[:0], records)
	return nil
}
func (*discard) Sync(context.Context) error { return nil }
func (*discard) Close() error               { return nil }

// deltas are batches as a loop makes them from a fast stream.
func deltas(n int) []session.Draft {
	out := make([]session.Draft, n)
	for i := range out {
		out[i] = textDelta(0, "word ")
	}
	return out
}

// What a chunk costs between the adapter and the subscribers.
func BenchmarkAppendDeltas(b *testing.B) {
	for _, size := range []int{1, 64} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			o := kernel.NewOwner(b.Context(), "bench")
			sub := session.NewSubscription(o, slog.New(slog.DiscardHandler), "bench", 1024, func(context.Context, session.Entry) error { return nil })
			var state session.State
			l := session.NewLog(session.Header{ID: "s"}, &discard{}, 0, 0, &state)
			l.Subscribe(sub)
			batch := deltas(size)
			b.ReportAllocs()
			for i := 0; i < b.N; i += size {
				if i&0xffff == 0 {
					if _, err := l.Append(stepEnd(), stepStart()); err != nil {
						b.Fatal(err)
					}
				}
				if err := l.Room(b.Context()); err != nil {
					b.Fatal(err)
				}
				if _, err := l.Append(batch...); err != nil {
					b.Fatal(err)
				}
			}
			if err := sub.Drain(b.Context()); err != nil {
				b.Fatal(err)
			}
			if err := o.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// Reading back, per event.
func BenchmarkParseRows(b *testing.B) {
	const events = 256
	w := &discard{}
	l := session.NewLog(session.Header{ID: "s"}, w, 0, 0)
	if _, err := l.Append(deltas(events)...); err != nil {
		b.Fatal(err)
	}
	row := w.rows[:len(w.rows)-1]
	b.ReportAllocs()
	for i := 0; i < b.N; i += events {
		if _, err := session.ParseRow(row, 0, func(*session.Record) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// A session that has had one turn and is idle. The messages, not the log,
// should be what it costs.
func BenchmarkIdleSession(b *testing.B) {
	var pool session.HeaderPool
	keep := make([]*session.Log, 0, b.N)
	b.ReportAllocs()
	for range b.N {
		state := &session.State{}
		state.Header.Pool = &pool
		l := session.NewLog(session.Header{ID: "session-0123456789"}, &discard{}, 0, 0, state)
		if _, err := l.Append(turnStart(), stepStart(), userMessage("a"), requestHeader(), assistant(sdkproto.Text("answer")), stepEnd(), turnEnd("completed")); err != nil {
			b.Fatal(err)
		}
		keep = append(keep, l)
	}
	b.StopTimer()
	live := heapLive()
	perSession := float64(live) / float64(b.N)
	b.ReportMetric(perSession, "live-B/session")
	for _, l := range keep {
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// heapLive is the live heap in bytes, that of the test binary included.
func heapLive() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
