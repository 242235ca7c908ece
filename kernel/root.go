package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Limits of the end of a process (decision R13). Their sum stays below 5 s.
const (
	// QuiesceLimit bounds cancelling what runs and making it durable.
	QuiesceLimit = 800 * time.Millisecond
	// FlushLimit bounds writing the last frames to a client that may not read.
	FlushLimit = 2 * time.Second
	// ReleaseLimit bounds closing owners.
	ReleaseLimit = 2 * time.Second
)

// Root is the life of the process: its context, the way to come to rest and the
// way to end.
type Root struct {
	owner     *Owner
	quiescing chan struct{}
	exiting   chan struct{}

	mu     sync.Mutex
	signal signalHook
	hooks  []quiesceHook
	once   sync.Once
	rested chan struct{}
	err    error
	code   int
	ended  bool
}

type quiesceHook struct {
	owner *Owner
	name  string
	limit time.Duration
	f     func(context.Context) error
}

func newRoot(o *Owner) *Root {
	return &Root{owner: o, quiescing: make(chan struct{}), exiting: make(chan struct{}), rested: make(chan struct{})}
}

// NewRoot makes a root without a kernel around it, for composing a plugin by
// hand (S121). Exit is seen on Exiting.
func NewRoot(o *Owner) *Root { return newRoot(o) }

// Context is cancelled when the process is released, after it came to rest.
func (r *Root) Context() context.Context { return r.owner.Context() }

// Quiescing is closed when the process begins to come to rest: from then on new
// work is refused.
func (r *Root) Quiescing() <-chan struct{} { return r.quiescing }

// OnQuiesce registers f to bring its part of the process to rest within limit:
// cancel what runs, make it durable, hand on what others wait for. Hooks run in
// the order of registration, so that what produces comes to rest before what
// drains it. Hooks of a closed owner are skipped.
func (r *Root) OnQuiesce(o *Owner, name string, limit time.Duration, f func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks = append(r.hooks, quiesceHook{o, name, limit, f})
}

// signalHook hears of signals.
type signalHook struct {
	owner *Owner
	f     func(os.Signal) (takes, ends bool)
}

// OnSignal has f hear of each signal that would end the process, until o is
// closed, in place of whoever was registered before. When it takes a signal Run
// does nothing about it; when it also ends the process by itself, a second signal
// cuts that end short. f must not block.
func (r *Root) OnSignal(o *Owner, f func(os.Signal) (takes, ends bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signal = signalHook{o, f}
}

func (r *Root) signalled(s os.Signal) (takes, ends bool) {
	r.mu.Lock()
	h := r.signal
	r.mu.Unlock()
	if h.f == nil || h.owner.Context().Err() != nil || isClosed(r.exiting) {
		return false, false
	}
	return h.f(s)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Quiesce brings the process to rest, once; later calls wait for the first. A
// hook that outlives its limit is left behind and named in the error.
func (r *Root) Quiesce(ctx context.Context) error {
	r.once.Do(func() {
		close(r.quiescing)
		go r.runHooks()
	})
	select {
	case <-r.rested:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("come to rest: %w", context.Cause(ctx))
	}
}

func (r *Root) runHooks() {
	defer close(r.rested)
	var errs []error
	for i := 0; ; i++ {
		r.mu.Lock()
		if i >= len(r.hooks) {
			r.mu.Unlock()
			break
		}
		h := r.hooks[i]
		r.mu.Unlock()
		if h.owner != nil && h.owner.Context().Err() != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), h.limit)
		if err := runStep(ctx, step{h.name, h.f}, 0); err != nil {
			errs = append(errs, fmt.Errorf("come to rest: %s: %w", h.name, err))
		}
		cancel()
	}
	r.err = errors.Join(errs...)
}

// Exit asks for the end of the process; the first code wins. It returns at
// once: the kernel releases everything and hands the code to main.
func (r *Root) Exit(code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.ended, r.code = true, code
	close(r.exiting)
}

// Exiting is closed by the first Exit.
func (r *Root) Exiting() <-chan struct{} { return r.exiting }

// Code is the code of the first Exit, 0 before it.
func (r *Root) Code() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.code
}
