package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"dsh/sdkproto"
)

// Events is what is stored of the session from the event with that sequence
// number on, live or not, asked for page by page as it is needed; it ends where
// the log ends at that moment. An error is the last element. With the number
// after the last event that was seen it gives what a sequence that ended with
// ErrMissed has left out.
func (s *Session) Events(ctx context.Context, fromSeq int64) iter.Seq2[sdkproto.Event, error] {
	return func(yield func(sdkproto.Event, error) bool) {
		for from := fromSeq; ; {
			var page sdkproto.EventsResult
			err := s.client.ask(ctx, sdkproto.MethodSessionEvents, sdkproto.EventsParams{SessionID: s.id, FromSeq: from}, &page)
			if err == nil && len(page.Events) > 0 && page.NextSeq <= from {
				err = fmt.Errorf("%s: %w: nextSeq does not move on", sdkproto.MethodSessionEvents, ErrProtocol)
			}
			if err != nil {
				yield(sdkproto.Event{}, err)
				return
			}
			if len(page.Events) == 0 {
				return
			}
			for _, e := range page.Events {
				if !yield(e, nil) {
					return
				}
			}
			from = page.NextSeq
		}
	}
}

// Follow is the events of the session from the one with that sequence number
// on, each once and in order: first what is stored, then what comes. It does not
// end by itself. What its reader is too slow for is read from the store again,
// so that it never ends with ErrMissed. The last element is an error: that of
// ctx, ErrClosed, ErrLost, ErrSilent, or one of Events; a later Follow from the
// number after the last event goes on. A client that has opted out of chunks
// gets none here either.
func (s *Session) Follow(ctx context.Context, fromSeq int64) iter.Seq2[sdkproto.Event, error] {
	return func(yield func(sdkproto.Event, error) bool) {
		f := &follower{session: s, next: fromSeq, yield: yield, chunks: s.client.asked.Chunks == nil || *s.client.asked.Chunks}
		err := f.pass(ctx)
		for errors.Is(err, ErrMissed) {
			err = f.pass(ctx)
		}
		if err != errBrokenOff {
			yield(sdkproto.Event{}, fmt.Errorf("follow session %s: %w", s.id, err))
		}
	}
}

// errBrokenOff says that the reader wants no more.
var errBrokenOff = errors.New("broken off")

// follower is one range over Follow.
type follower struct {
	session *Session
	next    int64 // the sequence number that the reader needs
	chunks  bool  // chunks are wanted
	yield   func(sdkproto.Event, error) bool
}

// pass goes on until something ends it.
func (f *follower) pass(ctx context.Context) error {
	listening, stop := context.WithCancel(ctx)
	defer stop()
	id := f.session.id
	// Before the store is read, so that nothing falls between.
	live := f.session.client.listen(listening, func(n *Notification) bool { return n.Event != nil && n.SessionID == id })
	if err := f.stored(ctx, math.MaxInt64); err != nil {
		return err
	}
	for n, err := range live {
		if err != nil {
			return err
		}
		// Without chunks there are gaps in what comes.
		if n.Event.Seq > f.next && f.chunks {
			if err := f.stored(ctx, n.Event.Seq); err != nil {
				return err
			}
		}
		if err := f.take(*n.Event); err != nil {
			return err
		}
	}
	return nil // not reached: what comes ends with an error
}

// stored hands on what is in the store, before the event with that number.
func (f *follower) stored(ctx context.Context, before int64) error {
	for e, err := range f.session.Events(ctx, f.next) {
		if err != nil {
			return err
		}
		if e.Seq >= before {
			return nil
		}
		if err := f.take(e); err != nil {
			return err
		}
	}
	return nil
}

// take hands on one event, unless it was before.
func (f *follower) take(e sdkproto.Event) error {
	if e.Seq < f.next {
		return nil
	}
	f.next = e.Seq + 1
	if !f.chunks && e.Type == sdkproto.TypeAssistantChunk {
		return nil
	}
	if !f.yield(e, nil) {
		return errBrokenOff
	}
	return nil
}
