package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// TaskLimit is how long a load task may take unless it says otherwise
// (decision D6).
const TaskLimit = 60 * time.Second

// slowTask is when a load task that is still running is named on stderr (spec
// jsonrpc 3.1).
const slowTask = 5 * time.Second

// TaskState says how a load task stands.
type TaskState struct {
	Name     string
	Required bool
	// Done is set once the task ended; Err is then its failure, if any.
	Done bool
	Err  error
}

// Ready is the barrier in front of `initialize`: it opens when every load task
// has ended, well or badly. Each task has a limit of its own; the barrier is
// never cut (S119). The zero value has no tasks and is open.
type Ready struct {
	owner *Owner
	log   *slog.Logger

	mu      sync.Mutex
	tasks   []*TaskState
	pending int
	opened  chan struct{} // closed when pending falls to 0; nil while nobody waits
}

// NewReady makes a barrier whose tasks run as goroutines of o.
func NewReady(o *Owner, log *slog.Logger) *Ready { return &Ready{owner: o, log: log} }

// Hold keeps the barrier shut until release is called; calling it again does
// nothing.
func (r *Ready) Hold(name string) (release func()) {
	t := r.begin(name, true)
	return func() { r.end(t, nil) }
}

// Go starts a load task with the usual limit. The task's context hangs on the
// process, not on the caller. A required task that fails fails `initialize`;
// any other is a state to be shown.
func (r *Ready) Go(name string, required bool, task func(context.Context) error) {
	r.GoWithin(name, required, TaskLimit, task)
}

// GoWithin is Go with a limit of the task's own. A task that outlives it counts
// as failed and is left behind.
func (r *Ready) GoWithin(name string, required bool, limit time.Duration, task func(context.Context) error) {
	t := r.begin(name, required)
	r.owner.Go("load task "+name, func(ctx context.Context) {
		ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %v", limit))
		defer cancel()
		slow := time.AfterFunc(slowTask, func() {
			r.log.Warn("a load task is still running", "task", name, "limit", limit)
		})
		defer slow.Stop()
		done := make(chan error, 1)
		go func() {
			defer func() {
				if p := recover(); p != nil {
					done <- fmt.Errorf("panic: %v\n%s", p, debug.Stack())
				}
			}()
			done <- task(ctx)
		}()
		var err error
		select {
		case err = <-done:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		// A process may end before everything is loaded.
		cut := r.owner.Context().Err() != nil && (errors.Is(err, ErrClosed) || errors.Is(err, context.Canceled))
		if err != nil && !cut {
			r.log.Warn("a load task failed", "task", name, "required", required, "error", err)
		}
		r.end(t, err)
	})
	if r.owner.Context().Err() != nil {
		r.end(t, context.Cause(r.owner.Context()))
	}
}

// Wait returns when every task has ended, with the failures of the required
// ones, or with ctx's error, which names the tasks still running. Tasks started
// later form a new generation, for which a new Wait waits.
func (r *Ready) Wait(ctx context.Context) error {
	for {
		r.mu.Lock()
		if r.pending == 0 {
			err := r.failed()
			r.mu.Unlock()
			return err
		}
		if r.opened == nil {
			r.opened = make(chan struct{})
		}
		opened := r.opened
		r.mu.Unlock()
		select {
		case <-opened:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", strings.Join(r.Pending(), ", "), context.Cause(ctx))
		}
	}
}

// Pending names the tasks that are still running.
func (r *Ready) Pending() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, t := range r.tasks {
		if !t.Done {
			names = append(names, t.Name)
		}
	}
	return names
}

// States lists all tasks in the order they were started.
func (r *Ready) States() []TaskState {
	r.mu.Lock()
	defer r.mu.Unlock()
	states := make([]TaskState, len(r.tasks))
	for i, t := range r.tasks {
		states[i] = *t
	}
	return states
}

// snapshot gives the tasks there are, for revert.
func (r *Ready) snapshot() []*TaskState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.tasks)
}

// failedSince gives the failures of tasks that began after a snapshot.
func (r *Ready) failedSince(from []*TaskState) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, t := range r.tasks {
		if t.Err != nil && !slices.Contains(from, t) {
			errs = append(errs, fmt.Errorf("load task %s: %w", t.Name, t.Err))
		}
	}
	return errors.Join(errs...)
}

// revert forgets how tasks ended that began after a snapshot, and lets those that
// still run fail nothing: what they belong to is not there any more, and what
// they replaced is.
func (r *Ready) revert(to []*TaskState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tasks {
		if !t.Done && !slices.Contains(to, t) {
			t.Required = false
			to = append(to, t)
		}
	}
	r.tasks = to
}

func (r *Ready) begin(name string, required bool) *TaskState {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &TaskState{Name: name, Required: required}
	// A task that is started again replaces its former self.
	r.tasks = slices.DeleteFunc(r.tasks, func(old *TaskState) bool { return old.Name == name && old.Done })
	r.tasks = append(r.tasks, t)
	r.pending++
	return t
}

func (r *Ready) end(t *TaskState, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.Done {
		return
	}
	t.Done, t.Err = true, err
	r.pending--
	if r.pending == 0 && r.opened != nil {
		close(r.opened)
		r.opened = nil
	}
}

func (r *Ready) failed() error {
	var errs []error
	for _, t := range r.tasks {
		if t.Required && t.Err != nil {
			errs = append(errs, fmt.Errorf("load task %s: %w", t.Name, t.Err))
		}
	}
	return errors.Join(errs...)
}
