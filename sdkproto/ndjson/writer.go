package ndjson

import (
	"bytes"
	"container/list"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
)

const (
	// writeChunk is how many bytes of several frames go into one write: a pipe
	// takes 64 KiB, and beyond half of that nothing is gained (performance.md,
	// rule 1).
	writeChunk = 32 << 10
	// queueBytes bounds what a Writer holds. One larger frame is taken when
	// nothing else is held.
	queueBytes = 4 << 20
	// writeKeep is the largest buffer kept once its frames are written.
	writeKeep = 256 << 10
)

// Writer puts frames on a stream, each as one whole line. Producers only copy
// their frame into a queue; one goroutine, started by NewWriter and ended by
// Close, does the writing, so that a peer that does not read holds up nobody
// for longer than the producer's own context (decision R4, spec jsonrpc 1.6).
//
// The goroutine writes at once when it is idle. What arrives during a write
// goes out together in the next ones, in chunks of 32 KiB: many frames to a
// write when the producers are faster than the peer, no delay when they are
// not, and no timer.
//
// All methods may be called from many goroutines.
type Writer struct {
	dst       io.Writer
	maxFrames int

	mu sync.Mutex
	// work tells the goroutine that queue or closed changed.
	work sync.Cond
	// queue holds the lines that the goroutine has not fetched.
	queue []byte
	// frames and held count what was accepted and is not written, fetched or not.
	frames, held int
	// accepted and written count bytes since the beginning.
	accepted, written uint64
	// waiting holds a *waiter for every producer without room, oldest first.
	waiting list.List
	// flushes is sorted by mark, because accepted only grows.
	flushes []*flush
	closed  bool
	// abandoned is the error of the Close that did not wait any longer.
	abandoned error
	err       error
	// over is set when something accepted will never be written.
	over bool

	failed chan struct{}
	done   chan struct{} // closed when the goroutine has ended
}

// waiter is a producer that waits for room. Whoever makes the room copies the
// frame for it, so that frames keep the order in which their producers came.
type waiter struct {
	frame []byte
	done  chan error // of one element
}

// flush is a caller that waits until mark bytes are written.
type flush struct {
	mark uint64
	done chan struct{}
}

// NewWriter returns a Writer to w that holds at most that many frames, at least
// one, and at most 4 MiB of them. It starts a goroutine, which Close ends. w is
// written to by that goroutine alone.
func NewWriter(w io.Writer, frames int) *Writer {
	q := &Writer{
		dst:       w,
		maxFrames: max(1, frames),
		failed:    make(chan struct{}),
		done:      make(chan struct{}),
	}
	q.work.L = &q.mu
	go q.run()
	return q
}

// Frame queues frame, a line without its end, as the next line of the stream.
// The bytes are copied; the caller may use them again at once. The frames of
// one goroutine are written in its order, those of several in the order in
// which they came.
//
// If there is no room Frame waits until ctx is done, and then returns an error
// that wraps that of ctx, the frame not having been queued. ctx does not matter
// when there is room. A nil error means queued, not written: see Flush and
// Failed.
//
// Other errors: the one of Err once a write has failed; ErrClosed after Close,
// also for a Frame that waits at that moment; one that wraps ErrFrame if frame
// is empty or holds a line feed.
func (w *Writer) Frame(ctx context.Context, frame []byte) error {
	if len(frame) == 0 {
		return fmt.Errorf("%w: it is empty", ErrFrame)
	}
	if i := bytes.IndexByte(frame, '\n'); i >= 0 {
		return fmt.Errorf(`%w: raw line feed at byte %d of %d; encode it as \n`, ErrFrame, i, len(frame))
	}

	w.mu.Lock()
	if err := w.refusal(); err != nil {
		w.mu.Unlock()
		return err
	}
	if w.waiting.Len() == 0 && w.room(frame) {
		w.enqueue(frame)
		w.mu.Unlock()
		return nil
	}
	me := &waiter{frame: frame, done: make(chan error, 1)}
	place := w.waiting.PushBack(me)
	w.mu.Unlock()

	select {
	case err := <-me.done:
		return err
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case err := <-me.done:
		return err // served between the two locks
	default:
	}
	w.waiting.Remove(place)
	w.admit() // a smaller one behind it may fit
	return fmt.Errorf("ndjson: no room for a frame of %d bytes, the peer does not read: %w", len(frame), ctx.Err())
}

// Flush waits until every frame that was queued before the call has been
// written, or ctx is done. It returns the error of Err if one of them could not
// be written, and one that wraps ErrClosed if a Close gave them up.
func (w *Writer) Flush(ctx context.Context) error {
	w.mu.Lock()
	me := &flush{mark: w.accepted, done: make(chan struct{})}
	if w.written >= me.mark || w.over {
		defer w.mu.Unlock()
		return w.outcome(me.mark)
	}
	w.flushes = append(w.flushes, me)
	w.mu.Unlock()

	var late error
	select {
	case <-me.done:
	case <-ctx.Done():
		late = ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if late != nil && w.written < me.mark && !w.over {
		w.flushes = slices.DeleteFunc(w.flushes, func(f *flush) bool { return f == me })
		return fmt.Errorf("ndjson: flush with %d bytes unwritten: %w", me.mark-w.written, late)
	}
	return w.outcome(me.mark)
}

// Failed is closed at the first write error, after which nothing is written any
// more. A broken pipe is to be treated like the end of input (spec jsonrpc 1.6).
func (w *Writer) Failed() <-chan struct{} { return w.failed }

// Err returns the first write error, which wraps that of the stream, or nil.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close refuses new frames, waits until the queued ones are written and ends
// the goroutine. It returns nil if every frame was written, and the error of
// Err if one could not be.
//
// When ctx is done first, Close returns an error that wraps that of ctx and
// leaves the goroutine behind: it ends, writing nothing more, as soon as the
// write it is in returns. It is not possible to interrupt that write (decision
// R4).
//
// Close may be called again. The stream itself stays open.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		w.dismiss(ErrClosed)
		w.work.Signal()
	}
	w.mu.Unlock()

	select {
	case <-w.done:
	case <-ctx.Done():
		w.mu.Lock()
		// With nothing held the goroutine is in no write: it is about to end.
		if w.held > 0 && w.abandoned == nil && !w.over {
			w.abandoned = fmt.Errorf("ndjson: close with %d frames (%d bytes) unwritten: %w", w.frames, w.held, ctx.Err())
		}
		abandoned := w.abandoned
		w.mu.Unlock()
		if abandoned != nil {
			return abandoned
		}
		<-w.done
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	return w.abandoned
}

// run is the goroutine.
func (w *Writer) run() {
	defer close(w.done)
	var batch []byte
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.queue) == 0 && !w.closed {
			w.work.Wait()
		}
		if len(w.queue) == 0 {
			return
		}
		batch, w.queue = w.queue, batch[:0]
		for rest := batch; len(rest) > 0; {
			n := chunk(rest)
			w.mu.Unlock()
			err := writeAll(w.dst, rest[:n])
			w.mu.Lock()
			if err != nil {
				w.fail(err)
				return
			}
			w.settle(rest[:n])
			if w.abandoned != nil {
				w.giveUp()
				return
			}
			rest = rest[n:]
		}
		if cap(batch) > writeKeep {
			batch = nil
		}
	}
}

// chunk returns the length of what goes into the next write: as many whole
// lines as fit, at least one.
func chunk(lines []byte) int {
	if len(lines) <= writeChunk {
		return len(lines)
	}
	if i := bytes.LastIndexByte(lines[:writeChunk], '\n'); i >= 0 {
		return i + 1
	}
	return writeChunk + bytes.IndexByte(lines[writeChunk:], '\n') + 1
}

// writeAll goes on after a short write, which is no error for a pipe in
// non-blocking mode.
func writeAll(dst io.Writer, p []byte) error {
	for len(p) > 0 {
		n, err := dst.Write(p)
		if err != nil {
			return fmt.Errorf("ndjson: write frames: %w", err)
		}
		if n <= 0 || n > len(p) {
			return fmt.Errorf("ndjson: write frames: %d of %d bytes taken: %w", n, len(p), io.ErrShortWrite)
		}
		p = p[n:]
	}
	return nil
}

// The methods below are called with mu held.

// refusal says why no frame is taken any more.
func (w *Writer) refusal() error {
	if w.err != nil {
		return w.err
	}
	if w.closed {
		return ErrClosed
	}
	return nil
}

// outcome is the result of a flush up to mark.
func (w *Writer) outcome(mark uint64) error {
	if w.written >= mark {
		return nil
	}
	if w.err != nil {
		return w.err
	}
	return fmt.Errorf("ndjson: flush with %d bytes unwritten: %w", mark-w.written, ErrClosed)
}

func (w *Writer) room(frame []byte) bool {
	return w.frames < w.maxFrames && (w.held == 0 || w.held+len(frame) < queueBytes)
}

func (w *Writer) enqueue(frame []byte) {
	w.queue = slices.Grow(w.queue, len(frame)+1)
	w.queue = append(append(w.queue, frame...), '\n')
	w.frames++
	w.held += len(frame) + 1
	w.accepted += uint64(len(frame) + 1)
	w.work.Signal()
}

// admit takes the frames of those who wait, oldest first, as far as they fit.
func (w *Writer) admit() {
	for first := w.waiting.Front(); first != nil; first = w.waiting.Front() {
		next := first.Value.(*waiter)
		if !w.room(next.frame) {
			return
		}
		w.waiting.Remove(first)
		w.enqueue(next.frame)
		next.done <- nil
	}
}

// dismiss sends everybody away who waits for room.
func (w *Writer) dismiss(err error) {
	for first := w.waiting.Front(); first != nil; first = w.waiting.Front() {
		w.waiting.Remove(first)
		first.Value.(*waiter).done <- err
	}
}

// settle accounts for lines that are written.
func (w *Writer) settle(lines []byte) {
	w.frames -= bytes.Count(lines, []byte{'\n'})
	w.held -= len(lines)
	w.written += uint64(len(lines))
	for len(w.flushes) > 0 && w.flushes[0].mark <= w.written {
		close(w.flushes[0].done)
		w.flushes = slices.Delete(w.flushes, 0, 1)
	}
	w.admit()
}

// fail keeps the first write error and sends everybody away.
func (w *Writer) fail(err error) {
	w.err = err
	close(w.failed)
	w.dismiss(err)
	w.giveUp()
}

// giveUp drops what is not written.
func (w *Writer) giveUp() {
	w.over = true
	w.queue = nil
	for _, f := range w.flushes {
		close(f.done)
	}
	w.flushes = nil
}
