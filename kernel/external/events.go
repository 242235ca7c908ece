package external

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/session"
	pb "dsh/sdkproto/plugin/pb/v1"
)

// Bounds of a sink.
const (
	// window is how many events may be without an acknowledgement.
	window = 256
	// maxBuffered is how many events are kept in memory for a plugin that is
	// behind; the others are read back from the log.
	maxBuffered = 4096
	// maxStreamFailures is how many streams may fail in a row without a single
	// acknowledgement (case B73).
	maxStreamFailures = 3
)

func (r *row) registerEvents(o *kernel.Owner, wanted bool) error {
	if !wanted {
		return nil
	}
	if r.in.Agents == nil {
		return missing("a sink for events", "agent.Registry")
	}
	k := &sink{row: r, types: r.seen.GetEvents(), sessions: map[string]*followed{}, changed: make(chan struct{})}
	r.sink = k
	heard := session.NewSubscription(o, r.in.Self.Log, r.task(), window, func(_ context.Context, e session.Entry) error {
		k.hear(e)
		return nil
	})
	if err := r.in.Agents.Watch(o, func(a agent.Agent, _ agent.Spec) {
		k.follow(a)
		a.Log().Subscribe(heard)
	}); err != nil {
		return err
	}
	o.Go("events", k.run)
	return nil
}

// sink hands the events of all sessions to a plugin. It keeps nobody waiting:
// what does not fit into memory is read back from the log.
type sink struct {
	row   *row
	types []string

	mu       sync.Mutex
	sessions map[string]*followed
	// order lists the sessions with events to send, the longest waiting first.
	order    []string
	buffered int
	inFlight int
	// acked counts acknowledged events.
	acked int64
	off   bool
	// changed is closed and replaced whenever something above changes.
	changed chan struct{}
}

// followed is a session with its place in it.
type followed struct {
	// next is the seq to send, head the seq behind the last event there is.
	next, head int64
	// buffer holds events without a gap between them, from next on or later.
	buffer []*session.Record
	// sent are the seqs without an acknowledgement.
	sent []int64
	over bool
}

func (k *sink) wants(eventType string) bool {
	return len(k.types) == 0 || slices.ContainsFunc(k.types, func(t string) bool {
		return t == eventType || strings.HasSuffix(t, "/") && strings.HasPrefix(eventType, t)
	})
}

// notify wakes everybody who waits. The caller holds mu.
func (k *sink) notify() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// follow begins with an agent's next event.
func (k *sink) follow(a agent.Agent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f, ok := k.sessions[a.ID()]; ok {
		f.over = false
	} else {
		next := a.Log().Next()
		k.sessions[a.ID()] = &followed{next: next, head: next}
	}
	context.AfterFunc(a.Life(), func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if f := k.sessions[a.ID()]; f != nil {
			f.over = true
			k.forget(a.ID(), f)
		}
	})
}

// forget drops a session that is over once nothing of it is due. The caller
// holds mu.
func (k *sink) forget(id string, f *followed) {
	if f.over && f.next >= f.head && len(f.sent) == 0 {
		delete(k.sessions, id)
	}
}

// hear takes up an event.
func (k *sink) hear(e session.Entry) {
	if e.Record == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.sessions[e.SessionID]
	seq := e.Record.Event.Seq
	if f == nil || k.off || seq < f.head {
		return
	}
	f.head = seq + 1
	if n := len(f.buffer); k.buffered < maxBuffered && (n == 0 || f.buffer[n-1].Event.Seq+1 == seq) {
		f.buffer = append(f.buffer, e.Record)
		k.buffered++
	}
	if !slices.Contains(k.order, e.SessionID) {
		k.order = append(k.order, e.SessionID)
		k.notify()
	}
}

// drain waits until everything has been acknowledged.
func (k *sink) drain(ctx context.Context) {
	for {
		k.mu.Lock()
		done, changed := k.off || len(k.order) == 0 && k.inFlight == 0, k.changed
		k.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// run keeps a stream to whichever instance runs.
func (k *sink) run(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil && !k.row.sup.isLeft() {
		i, err := k.row.sup.wait(ctx)
		if err != nil {
			return
		}
		before := k.progress()
		err = k.stream(ctx, i)
		k.rewind()
		if ctx.Err() != nil || k.row.sup.isLeft() {
			return
		}
		if failures++; k.progress() > before {
			failures = 1
		}
		if i.ctx.Err() != nil {
			continue // the supervisor tells, and paces
		}
		if failures >= maxStreamFailures {
			k.row.in.Self.Log.Error("the plugin gets no more events", "streams", failures, "error", err)
			k.stop()
			return
		}
		k.row.in.Self.Log.Warn("the plugin's stream of events ended and is opened again", "error", err)
		select {
		case <-time.After(pauseBefore(failures + 1)):
		case <-ctx.Done():
		}
	}
}

func (k *sink) progress() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.acked
}

func (k *sink) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.off, k.buffered, k.inFlight, k.order = true, 0, 0, nil
	clear(k.sessions)
	k.notify()
}

// rewind goes back behind the last acknowledgement of each session.
func (k *sink) rewind() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inFlight = 0
	for id, f := range k.sessions {
		if len(f.sent) > 0 {
			f.next, f.sent = f.sent[0], nil
			if !slices.Contains(k.order, id) {
				k.order = append(k.order, id)
			}
		}
	}
	k.notify()
}

// stream sends events to one instance until it or ctx ends.
func (k *sink) stream(ctx context.Context, i *instance) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(i.ctx, cancel)()
	out, err := pb.NewEventSinkServiceClient(i.conn).Consume(ctx)
	if err != nil {
		return err
	}
	received := make(chan error, 1)
	go func() {
		received <- k.receive(out)
		cancel()
	}()
	err = k.sendAll(ctx, out)
	// It ends a server that waits for more.
	_ = out.CloseSend()
	cancel()
	return errors.Join(err, <-received)
}

func (k *sink) receive(out grpc.BidiStreamingClient[pb.ConsumeRequest, pb.ConsumeResponse]) error {
	for {
		ack, err := out.Recv()
		if errors.Is(err, io.EOF) {
			return errors.New("the plugin ended the stream")
		}
		if err != nil {
			return err
		}
		k.acknowledge(ack.GetSessionId(), ack.GetSeq())
	}
}

func (k *sink) acknowledge(id string, seq int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.sessions[id]
	if f == nil {
		return
	}
	n := 0
	for n < len(f.sent) && f.sent[n] <= seq {
		n++
	}
	f.sent = slices.Delete(f.sent, 0, n)
	k.inFlight -= n
	k.acked += int64(n)
	k.forget(id, f)
	k.notify()
}

func (k *sink) sendAll(ctx context.Context, out grpc.BidiStreamingClient[pb.ConsumeRequest, pb.ConsumeResponse]) error {
	for {
		id, err := k.due(ctx)
		if err != nil {
			return err
		}
		if err := k.sendSession(ctx, out, id); err != nil {
			return err
		}
	}
}

// due waits for a session with events to send and for room in the window.
func (k *sink) due(ctx context.Context) (id string, err error) {
	for {
		k.mu.Lock()
		if len(k.order) > 0 && k.inFlight < window {
			id = k.order[0]
			k.order = slices.Delete(k.order, 0, 1)
		}
		changed := k.changed
		k.mu.Unlock()
		if id != "" {
			return id, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// sendSession sends what there is of a session, as far as the window goes.
func (k *sink) sendSession(ctx context.Context, out grpc.BidiStreamingClient[pb.ConsumeRequest, pb.ConsumeResponse], id string) error {
	for {
		r, from, ok := k.take(id)
		if !ok {
			return nil
		}
		if r != nil {
			if err := k.send(out, id, r); err != nil {
				return err
			}
			continue
		}
		// It is not in memory.
		err := k.row.in.Agents.Events(ctx, id, from, func(r *session.Record) error {
			if !k.reached(id, r.Event.Seq) {
				return errWindow
			}
			return k.send(out, id, r)
		})
		switch {
		case errors.Is(err, errWindow):
		case errors.Is(err, session.ErrNotFound):
			k.skip(id)
		case err != nil:
			return fmt.Errorf("read back the events of session %s: %w", id, err)
		default:
			if k.stuck(id, from) {
				k.skip(id) // the log does not have what it had
			}
		}
	}
}

var errWindow = errors.New("enough for now")

// take gives the next event of a session when it is in memory, else where to
// read on. ok is false when nothing is due or the window is full.
func (k *sink) take(id string) (r *session.Record, from int64, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.sessions[id]
	if f == nil {
		return nil, 0, false
	}
	for len(f.buffer) > 0 && f.buffer[0].Event.Seq < f.next {
		f.buffer[0] = nil
		f.buffer = f.buffer[1:]
		k.buffered--
	}
	switch {
	case f.next >= f.head:
		k.forget(id, f)
		k.notify()
		return nil, 0, false
	case k.inFlight >= window:
		if !slices.Contains(k.order, id) {
			k.order = append(k.order, id)
		}
		return nil, 0, false
	case len(f.buffer) > 0 && f.buffer[0].Event.Seq == f.next:
		return f.buffer[0], 0, true
	}
	return nil, f.next, true
}

// reached reports whether an event that was read back is the next one.
func (k *sink) reached(id string, seq int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.sessions[id]
	return f != nil && f.next <= seq && k.inFlight < window
}

func (k *sink) stuck(id string, from int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.sessions[id]
	return f != nil && f.next == from
}

func (k *sink) skip(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.sessions[id]; f != nil {
		f.next = f.head
	}
}

// send sends one event, if it is wanted, and notes that.
func (k *sink) send(out grpc.BidiStreamingClient[pb.ConsumeRequest, pb.ConsumeResponse], id string, r *session.Record) error {
	wanted := k.wants(r.Event.Type)
	k.mu.Lock()
	if f := k.sessions[id]; f != nil {
		f.next = r.Event.Seq + 1
		f.head = max(f.head, f.next)
		if wanted {
			f.sent = append(f.sent, r.Event.Seq)
			k.inFlight++
		}
	}
	k.mu.Unlock()
	if !wanted {
		return nil
	}
	return out.Send(&pb.ConsumeRequest{SessionId: id, Seq: r.Event.Seq, Event: r.Raw})
}
