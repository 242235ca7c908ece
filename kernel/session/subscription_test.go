package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"dsh/kernel"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// A change of status takes its exact place between the facts (decision R2).
func TestSignalOrder(t *testing.T) {
	o := kernel.NewOwner(t.Context(), "test")
	var a, b recorder
	subs := []*session.Subscription{a.subscribe(o, 4), b.subscribe(o, 4)}
	l := newLog(&memory{})
	var want []string
	for _, s := range subs {
		l.Subscribe(s)
	}
	for i := range 200 {
		mustAppend(t, l, turn(1), turn(2))
		l.Signal(sdkproto.StatusRunning)
		mustAppend(t, l, turn(3))
		l.Signal(sdkproto.StatusIdle)
		want = append(want, fmt.Sprintf("s:%d s:%d s:running s:%d s:idle", 3*i, 3*i+1, 3*i+2))
	}
	for i, r := range []*recorder{&a, &b} {
		drain(t, subs[i])
		if got := r.text(); got != strings.Join(want, " ") {
			t.Errorf("subscription %d heard another order", i)
		}
	}
	closeAll(t, o, l)
}

// Many logs and producers: of each log every fact once and in order.
func TestSubscribeManyLogs(t *testing.T) {
	const logs, producers, batches = 8, 4, 50
	o := kernel.NewOwner(t.Context(), "test")
	last := map[string]int64{}
	total := 0
	sub := session.NewSubscription(o, slog.New(slog.DiscardHandler), "counter", 16, func(_ context.Context, e session.Entry) error {
		if e.Record.Event.Seq != last[e.SessionID] {
			t.Errorf("session %s: seq %d in place of %d", e.SessionID, e.Record.Event.Seq, last[e.SessionID])
		}
		last[e.SessionID]++
		total++
		return nil
	})
	var wg sync.WaitGroup
	var all []*session.Log
	for i := range logs {
		l := session.NewLog(session.Header{ID: fmt.Sprint(i)}, &memory{}, 0, 0)
		l.Subscribe(sub)
		all = append(all, l)
		for range producers {
			wg.Go(func() {
				for range batches {
					if err := l.Room(t.Context()); err != nil {
						t.Error(err)
					}
					if _, err := l.Append(turn(1), turn(2), turn(3)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	drain(t, sub)
	closeAll(t, o, all...)
	if want := logs * producers * batches * 3; total != want {
		t.Errorf("heard %d facts, want %d", total, want)
	}
}

func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := kernel.NewOwner(t.Context(), "test")
		gate := make(chan struct{})
		var heard int
		slow := session.NewSubscription(o, slog.New(slog.DiscardHandler), "slow", 3, func(ctx context.Context, _ session.Entry) error {
			select {
			case <-gate:
				heard++
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		var quick recorder
		l := newLog(&memory{})
		l.Subscribe(quick.subscribe(o, 1))
		l.Subscribe(slow)
		room := func() error { return l.Room(t.Context()) }

		mustAppend(t, l, turn(1), turn(2))
		if err := await(t, async(room)); err != nil {
			t.Errorf("Room with 2 of 3 places taken: %v", err)
		}
		mustAppend(t, l, turn(3))
		waiting := async(room)
		synctest.Wait()
		select {
		case err := <-waiting:
			t.Errorf("Room with 3 of 3 places taken returned %v", err)
		default:
		}
		ctx, cancel := context.WithCancel(t.Context())
		impatient := async(func() error { return l.Room(ctx) })
		cancel()
		if err := await(t, impatient); !errors.Is(err, context.Canceled) {
			t.Errorf("Room with an ended context: got error %v, want %v", err, context.Canceled)
		}
		// Append never waits, and a full queue takes what closes a turn.
		mustAppend(t, l, turn(4), turn(5))
		gate <- struct{}{}
		gate <- struct{}{}
		synctest.Wait()
		select {
		case err := <-waiting:
			t.Errorf("Room returned with 3 entries left: %v", err)
		default:
		}
		gate <- struct{}{}
		if err := await(t, waiting); err != nil {
			t.Errorf("Room after a place came free: %v", err)
		}
		draining := async(func() error { return slow.Drain(t.Context()) })
		synctest.Wait()
		select {
		case err := <-draining:
			t.Errorf("Drain returned with 2 entries left: %v", err)
		default:
		}
		close(gate)
		if err := await(t, draining); err != nil || heard != 5 {
			t.Errorf("Drain: error %v, %d entries heard, want 5", err, heard)
		}
		closeAll(t, o, l)
	})
}

// Nobody waits for a subscription that has ended, however it did.
func TestDeafSubscriptions(t *testing.T) {
	broken := errors.New("pipe is broken")
	for name, tc := range map[string]struct {
		fn   func(context.Context, session.Entry) error
		say  string
		born func(*kernel.Owner) // what happens to the owner before
	}{
		"error": {fn: func(context.Context, session.Entry) error { return broken }, say: "pipe is broken"},
		"panic": {fn: func(context.Context, session.Entry) error { panic("no such field") }, say: "no such field"},
		"owner closed before": {
			fn:   func(context.Context, session.Entry) error { t.Error("a dead subscription heard something"); return nil },
			born: func(o *kernel.Owner) { closeAll(t, o) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := kernel.NewOwner(t.Context(), "test")
			if tc.born != nil {
				tc.born(o)
			}
			var said bytes.Buffer
			sub := session.NewSubscription(o, slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug})), "sub", 1, tc.fn)
			l := newLog(&memory{})
			l.Subscribe(sub)
			for i := range 100 {
				mustAppend(t, l, turn(i+1), turn(i+1))
				if err := await(t, async(func() error { return l.Room(t.Context()) })); err != nil {
					t.Fatalf("Room: %v", err)
				}
			}
			l.Signal(sdkproto.StatusIdle)
			drain(t, sub)
			closeAll(t, o, l)
			if !strings.Contains(said.String(), tc.say) {
				t.Errorf("the log says %q, want %q in it", said.String(), tc.say)
			}
		})
	}
}

// Closing the owner ends the subscription at once, entries in the queue or not,
// and lets producers go.
func TestSubscriptionEndsWithOwner(t *testing.T) {
	o := kernel.NewOwner(t.Context(), "test")
	entered := make(chan struct{}, 1)
	heard := 0
	sub := session.NewSubscription(o, slog.New(slog.DiscardHandler), "sub", 2, func(ctx context.Context, _ session.Entry) error {
		heard++
		entered <- struct{}{}
		<-ctx.Done()
		return nil
	})
	l := newLog(&memory{})
	l.Subscribe(sub)
	mustAppend(t, l, turn(1), turn(2), turn(3))
	<-entered
	waiting := async(func() error { return l.Room(t.Context()) })
	closeAll(t, o)
	if err := await(t, waiting); err != nil {
		t.Errorf("Room: %v", err)
	}
	if heard != 1 {
		t.Errorf("%d entries were handed on, want 1", heard)
	}
	mustAppend(t, l, turn(4))
	closeAll(t, nil, l)
}

func TestSubscribeTwiceHearsOnce(t *testing.T) {
	o := kernel.NewOwner(t.Context(), "test")
	var b recorder
	sub := b.subscribe(o, 10)
	l := newLog(&memory{})
	mustAppend(t, l, turn(1))
	l.Subscribe(sub)
	l.Subscribe(sub)
	mustAppend(t, l, turn(2))
	mustAppend(t, l, turn(3))
	drain(t, sub)
	if want := "s:1 s:2"; b.text() != want {
		t.Errorf("heard %q, want %q", b.text(), want)
	}
	closeAll(t, o, l)
}
