package kernel

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is the reason when something is registered with an owner that has
// been closed, and the cause of its context's end.
var ErrClosed = errors.New("owner is closed")

// Owner undoes what was done in its name. Everything registered at run time (a
// tool, an adapter, a listener, a goroutine, another owner) hangs on one; Close
// undoes it all in reverse order, exactly once, and names what is stuck.
//
// All methods may be called from any goroutine.
type Owner struct {
	name   string
	parent *Owner
	ctx    context.Context
	cancel context.CancelCauseFunc
	clock  *generations
	// born is the first generation of what the owner registers; retired, unless
	// 0, the first that has it no more.
	born    Generation
	retired atomic.Int64
	// place orders owners, see Compare.
	place []int

	mu    sync.Mutex
	steps map[int]step
	// order holds the ids of steps, oldest first, and some of steps that are gone.
	order  []int
	next   int
	closed bool
	done   chan struct{}
	err    error
}

type step struct {
	name string
	undo func(context.Context) error
}

// NewOwner makes the root of a tree. Its context ends with ctx or with Close.
func NewOwner(ctx context.Context, name string) *Owner {
	c, cancel := context.WithCancelCause(ctx)
	return &Owner{name: name, ctx: c, cancel: cancel, clock: newGenerations(), steps: map[int]step{}, done: make(chan struct{})}
}

// Name is the path of the owner's names, root first.
func (o *Owner) Name() string {
	if o.parent == nil {
		return o.name
	}
	return o.parent.Name() + "/" + o.name
}

// Row names the row of the profile that the owner belongs to, as "row shell";
// "" for one that belongs to none.
func (o *Owner) Row() string {
	for p := o; p != nil; p = p.parent {
		if strings.HasPrefix(p.name, "row ") {
			return p.name
		}
	}
	return ""
}

// Context ends when Close begins, with ErrClosed as its cause.
func (o *Owner) Context() context.Context { return o.ctx }

// Child makes an owner that is closed with this one, at its place in the order,
// unless it is closed earlier. A child of a closed owner is born closed.
func (o *Owner) Child(name string) *Owner { return o.child(name, o.place, Now) }

// ChildAt is Child with a place among the children of o: what it registers
// stands before what those of a higher place register, whenever that happens.
func (o *Owner) ChildAt(name string, place int) *Owner {
	return o.child(name, append(slices.Clone(o.place), place), Now)
}

func (o *Owner) child(name string, place []int, born Generation) *Owner {
	c := NewOwner(o.ctx, name)
	c.parent, c.clock, c.place = o, o.clock, place
	if born == Now {
		born = max(o.born, o.clock.now())
	}
	c.born = born
	id, err := o.add(step{name, c.Close})
	if err != nil {
		c.closed = true
		c.cancel(ErrClosed)
		close(c.done)
		return c
	}
	if _, err := c.add(step{"", func(context.Context) error { o.remove(id); return nil }}); err != nil {
		panic("a new owner refused its first step") // cannot happen: nobody else holds c
	}
	return c
}

// OnClose registers f to run at Close. The context given to f carries the
// deadline of its step. It returns ErrClosed, and forgets f, when the owner is
// closed already.
func (o *Owner) OnClose(name string, f func(context.Context) error) error {
	_, err := o.add(step{name, f})
	return err
}

// Go runs f in a goroutine that Close waits for. f must return soon after its
// context, which is the owner's, has ended. A panic in f is contained and
// reported by Close. On a closed owner f does not run.
func (o *Owner) Go(name string, f func(context.Context)) {
	done := make(chan error, 1)
	finished := make(chan struct{})
	id, err := o.add(step{name, func(ctx context.Context) error {
		select {
		case <-finished:
			return <-done
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}})
	if err != nil {
		return
	}
	go func() {
		defer close(finished)
		defer func() {
			if r := recover(); r != nil {
				done <- fmt.Errorf("panic: %v\n%s", r, debug.Stack())
				return
			}
			done <- nil
			o.remove(id)
		}()
		f(o.ctx)
	}()
}

// Close ends the context, then undoes everything in reverse order. Each step
// gets an equal share of what is left of ctx's deadline, and at least a tenth
// of a second; a step that outlives its share is left behind and named in the
// error. Later calls wait for the first, or for their own context.
func (o *Owner) Close(ctx context.Context) error {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		select {
		case <-o.done:
			return o.err
		case <-ctx.Done():
			return fmt.Errorf("close %s: %w", o.Name(), context.Cause(ctx))
		}
	}
	o.closed = true
	o.mu.Unlock()
	o.cancel(ErrClosed)

	var errs []error
	for {
		s, left, ok := o.pop()
		if !ok {
			break
		}
		if err := runStep(ctx, s, left); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %s: %w", o.Name(), s.name, err))
		}
	}
	o.err = errors.Join(errs...)
	close(o.done)
	return o.err
}

func (o *Owner) pop() (s step, left int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.steps) == 0 {
		return step{}, 0, false
	}
	for {
		last := o.order[len(o.order)-1]
		o.order = o.order[:len(o.order)-1]
		if s, ok = o.steps[last]; ok {
			delete(o.steps, last)
			return s, len(o.steps), true
		}
	}
}

const leastShare = 100 * time.Millisecond

func runStep(ctx context.Context, s step, after int) error {
	if deadline, ok := ctx.Deadline(); ok {
		share := max(time.Until(deadline)/time.Duration(after+1), leastShare)
		if ctx.Err() != nil {
			// An expired context would leave the step no time at all.
			ctx = context.WithoutCancel(ctx)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, share, fmt.Errorf("still running after %v", share.Round(time.Millisecond)))
		defer cancel()
	}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- fmt.Errorf("panic: %v\n%s", r, debug.Stack())
			}
		}()
		done <- s.undo(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		// The step may have ended at the same moment.
		select {
		case err := <-done:
			return err
		default:
			return context.Cause(ctx)
		}
	}
}

// Pending names what Close would undo, in the order of registration.
func (o *Owner) Pending() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var names []string
	for _, id := range o.order {
		if s := o.steps[id]; s.name != "" {
			names = append(names, s.name)
		}
	}
	return names
}

func (o *Owner) add(s step) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return 0, fmt.Errorf("%s: %w", o.Name(), ErrClosed)
	}
	id := o.next
	o.next++
	o.steps[id] = s
	if len(o.order) > 2*len(o.steps)+16 {
		o.order = slices.DeleteFunc(o.order, func(id int) bool { _, ok := o.steps[id]; return !ok })
	}
	o.order = append(o.order, id)
	return id, nil
}

func (o *Owner) remove(id int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.steps, id)
}
