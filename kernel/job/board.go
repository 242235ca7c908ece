package job

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"dsh/kernel"
)

const (
	// maxRunning bounds the jobs of a session that run at the same time.
	maxRunning = 200
	// maxEnded is how many ended jobs of a session are remembered.
	maxEnded = 100
)

// Board knows the jobs of all sessions. Its methods may be called from any
// goroutine.
type Board struct {
	mu       sync.Mutex
	entries  map[string]*Entry
	sessions map[string][]*Entry // oldest first
	watchers []*watcher

	// telling keeps the order in which changes are told.
	telling sync.Mutex
}

type watcher struct {
	owner *kernel.Owner
	fn    func(Job)
}

// Entry is the place of one job on the board, for who runs it.
type Entry struct {
	board *Board
	// work is guarded by Board.mu.
	work Work
	// over is closed when the job has ended.
	over chan struct{}
}

// NewBoard makes an empty board.
func NewBoard() *Board {
	return &Board{entries: map[string]*Entry{}, sessions: map[string][]*Entry{}}
}

// Start puts work on the board. Whoever does so must call End once. Errors:
// ErrFull.
func (b *Board) Start(w Work) (*Entry, error) {
	e := &Entry{board: b, work: w, over: make(chan struct{})}
	e.work.Began, e.work.Status = time.Now(), Running
	b.telling.Lock()
	defer b.telling.Unlock()
	b.mu.Lock()
	running := 0
	for _, x := range b.sessions[w.SessionID] {
		if !x.work.Over() {
			running++
		}
	}
	if running >= maxRunning {
		b.mu.Unlock()
		return nil, fmt.Errorf("start a task: %w: %d of session %s; wait for one to end, or stop one", ErrFull, running, w.SessionID)
	}
	if old := b.entries[w.ID]; old != nil {
		// A subagent that is taken up again has the id that it had.
		b.drop(old)
	}
	b.entries[w.ID] = e
	b.sessions[w.SessionID] = append(b.sessions[w.SessionID], e)
	b.mu.Unlock()
	b.tell(e)
	return e, nil
}

// Detached records that the call does not wait any more, and where the output is.
func (e *Entry) Detached(outputFile string) {
	e.change(func(w *Work) { w.Background, w.OutputFile, w.Detach = true, outputFile, nil })
}

// End records that the job has ended. Only the first call counts.
func (e *Entry) End(end End) {
	e.change(func(w *Work) {
		w.Status, w.Summary, w.ExitCode, w.Ended = end.Status, end.Summary, end.ExitCode, time.Now()
		w.Stop, w.Detach = nil, nil
		close(e.over)
	})
}

// change changes a job that has not ended, and tells of it.
func (e *Entry) change(f func(*Work)) {
	b := e.board
	b.telling.Lock()
	defer b.telling.Unlock()
	b.mu.Lock()
	if e.work.Over() {
		b.mu.Unlock()
		return
	}
	f(&e.work)
	if e.work.Over() {
		b.prune(e.work.SessionID)
	}
	b.mu.Unlock()
	b.tell(e)
}

// prune forgets the oldest of too many ended jobs. Calls that were waited for are
// nothing to ask for later, and go at once.
func (b *Board) prune(session string) {
	ended := 0
	for _, e := range slices.Backward(slices.Clone(b.sessions[session])) {
		if !e.work.Over() {
			continue
		}
		if ended++; ended > maxEnded || !e.work.Background {
			b.drop(e)
		}
	}
}

func (b *Board) drop(e *Entry) {
	session := e.work.SessionID
	if b.entries[e.work.ID] == e {
		delete(b.entries, e.work.ID)
	}
	b.sessions[session] = slices.DeleteFunc(b.sessions[session], func(x *Entry) bool { return x == e })
	if len(b.sessions[session]) == 0 {
		delete(b.sessions, session)
	}
}

// tell tells the watchers of a change; Board.telling is held.
func (b *Board) tell(e *Entry) {
	b.mu.Lock()
	j, watchers := e.work.Job, b.watchers
	b.mu.Unlock()
	for _, w := range watchers {
		if w.owner.Context().Err() == nil {
			w.fn(j)
		}
	}
}

// Lookup gives a job of any session.
func (b *Board) Lookup(id string) (Job, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[id]
	if e == nil {
		return Job{}, false
	}
	return e.work.Job, true
}

// List gives the jobs of a session, in the order in which they were started: those
// that run, in the foreground too, and the last that ended in the background.
func (b *Board) List(sessionID string) []Job {
	b.mu.Lock()
	defer b.mu.Unlock()
	jobs := make([]Job, 0, len(b.sessions[sessionID]))
	for _, e := range b.sessions[sessionID] {
		jobs = append(jobs, e.work.Job)
	}
	return jobs
}

// Stop begins to end a job; one that has ended is no error. Errors: ErrUnknown.
func (b *Board) Stop(id string) error {
	b.mu.Lock()
	e := b.entries[id]
	var stop func()
	if e != nil {
		stop = e.work.Stop
		e.work.StopAsked = e.work.StopAsked || !e.work.Over()
	}
	b.mu.Unlock()
	if e == nil {
		return fmt.Errorf("%w: %s", ErrUnknown, id)
	}
	if stop != nil {
		stop()
	}
	return nil
}

// Detach moves calls of a session that wait for their work to the background: the
// one with callID, or all of them when it is "". It reports whether there was one.
func (b *Board) Detach(sessionID, callID string) bool {
	b.mu.Lock()
	var detach []func() bool
	for _, e := range b.sessions[sessionID] {
		if w := e.work; w.Detach != nil && !w.Background && (callID == "" || w.CallID == callID) {
			detach = append(detach, w.Detach)
		}
	}
	b.mu.Unlock()
	any := false
	for _, f := range detach {
		any = f() || any
	}
	return any
}

// Wait returns when the job has ended, with what it is then; or when ctx ends, with
// what it is now and ctx's cause. Errors: ErrUnknown.
func (b *Board) Wait(ctx context.Context, id string) (Job, error) {
	b.mu.Lock()
	e := b.entries[id]
	b.mu.Unlock()
	if e == nil {
		return Job{}, fmt.Errorf("%w: %s", ErrUnknown, id)
	}
	var err error
	select {
	case <-e.over:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return e.work.Job, err
}

// Forget drops what is left of a session's jobs; they are not stopped by it.
func (b *Board) Forget(sessionID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range slices.Clone(b.sessions[sessionID]) {
		b.drop(e)
	}
}

// Watch calls fn for every job that is put on the board, and for every change of
// one, in order, until o is closed: when it is started, when its call does not wait
// any more, when it has ended. fn must not block, and must not change the board.
func (b *Board) Watch(o *kernel.Owner, fn func(Job)) error {
	w := &watcher{o, fn}
	if err := o.OnClose("watch tasks", func(context.Context) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.watchers = slices.DeleteFunc(slices.Clone(b.watchers), func(x *watcher) bool { return x == w })
		return nil
	}); err != nil {
		return fmt.Errorf("watch the tasks: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watchers = append(slices.Clone(b.watchers), w)
	return nil
}
