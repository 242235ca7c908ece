package subagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"dsh/kernel/agent"
	"dsh/kernel/job"
	"dsh/kernel/tool"
	"dsh/plugins/internal/dialect"
)

// run is one child from the call that wants it until nothing of it is left.
type run struct {
	// id is the child's session and agent id; label says what it is to do.
	id, label string
	parent    agent.Agent
	// call is the id of the parent's call; kind is the name of a Definition, "" for
	// none.
	call, kind string
	// root is the id of the session at the top of the delegation.
	root  string
	began time.Time
	// ctx ends when the run must end; end ends it.
	ctx context.Context
	end context.CancelCauseFunc
	// entry is the run's place on the board.
	entry *job.Entry

	child   agent.Agent
	watch   *watch
	outcome outcome // once done is closed
	done    chan struct{}
	// detached is closed when the call does not wait any more.
	detached chan struct{}

	// mu guards what follows; it may be taken under Subagents.mu.
	mu sync.Mutex
	// background: no call waits for it. waiting is the context of the call that does.
	background bool
	waiting    context.Context
	// stopping: somebody has ended it; halted: through the board. over: it is at its
	// end, and nothing of this changes any more.
	stopping, halted, over bool
	// file takes the answer of a child in the background; nil without one.
	file tool.SpillFile
}

// Causes of a run's end.
var (
	errInterrupted = errors.New("the parent has interrupted the subagent")
	errStopped     = errors.New("the subagent was stopped")
	errOver        = errors.New("the run is over")
	// errElsewhere: the child's session was opened otherwise.
	errElsewhere = errors.New("the session of the subagent is open elsewhere; wait until it is closed")
)

// String is a run for people and models.
func (r *run) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := "in the foreground"
	if r.background {
		state = "in the background"
	}
	if r.stopping {
		state = "being stopped"
	}
	return fmt.Sprintf("%s (%s), %s", r.id, r.label, state)
}

// limitError says that too many children run, and which.
type limitError struct {
	limit   string
	most    int
	running []*run
	// remedy is what else can be done than wait.
	remedy string
}

// maxNamed bounds the runs that an error names.
const maxNamed = 20

func (e *limitError) Error() string {
	named := make([]string, 0, maxNamed)
	for _, r := range e.running[:min(len(e.running), maxNamed)] {
		named = append(named, r.String())
	}
	if more := len(e.running) - maxNamed; more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%d subagents are at work, and no more than %d may be at a time (limit %s); wait for one to end%s. At work: %s",
		len(e.running), e.most, e.limit, e.remedy, strings.Join(named, "; "))
}

// busyError says that a child is at work already.
type busyError struct{ *run }

func (e *busyError) Error() string { return "subagent " + e.String() + " is still at work" }

// admit gives a new run its place. It must end with the parent's life, and with
// call as long as that waits for it. A place is free again when leave has been
// called: a child that is being stopped keeps it (case B90).
func (s *Subagents) admit(call context.Context, parent agent.Agent, t task) (*run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner.Context().Err() != nil {
		return nil, fmt.Errorf("delegate: %w", context.Cause(s.owner.Context()))
	}
	r := &run{
		id: cmp.Or(t.resume, uuid.NewString()), label: t.label, parent: parent, root: parent.ID(), call: t.call, kind: t.kind.Name,
		background: t.background, waiting: call, began: time.Now(), done: make(chan struct{}), detached: make(chan struct{}),
	}
	if i := slices.IndexFunc(s.runs, func(x *run) bool { return x.id == r.id }); i >= 0 {
		return nil, &busyError{s.runs[i]}
	}
	var siblings, family []*run
	if i := slices.IndexFunc(s.runs, func(x *run) bool { return x.id == parent.ID() }); i >= 0 {
		r.root = s.runs[i].root
	}
	for _, x := range s.runs {
		if x.parent.ID() == parent.ID() {
			siblings = append(siblings, x)
		}
		if x.root == r.root {
			family = append(family, x)
		}
	}
	if n := s.config.MaxChildren; len(siblings) >= n {
		return nil, &limitError{"maxChildren", n, siblings, s.remedy()}
	}
	if n := s.config.MaxDescendants; len(family) >= n {
		return nil, &limitError{"maxDescendants", n, family, s.remedy()}
	}
	ctx, cancel := context.WithCancelCause(parent.Life())
	stop := context.AfterFunc(s.owner.Context(), func() { cancel(context.Cause(s.owner.Context())) })
	leave := context.AfterFunc(call, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.background {
			cancel(context.Cause(call))
		}
	})
	r.ctx, r.end = ctx, func(cause error) { stop(); leave(); cancel(cause) }
	s.runs = append(s.runs, r)
	return r, nil
}

func (s *Subagents) remedy() string {
	if s.config.Dialect == dialect.Claude {
		return ""
	}
	return ", or end one with interrupt_agent"
}

func (s *Subagents) leave(r *run) {
	r.end(errOver)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = slices.DeleteFunc(s.runs, func(x *run) bool { return x == r })
	close(s.changed)
	s.changed = make(chan struct{})
}

// await returns when no run is left that which says yes to; waited says that
// there were some.
func (s *Subagents) await(ctx context.Context, which func(*run) bool) (waited bool, err error) {
	for {
		s.mu.Lock()
		left, changed := slices.ContainsFunc(s.runs, which), s.changed
		s.mu.Unlock()
		if !left {
			return waited, nil
		}
		waited = true
		select {
		case <-changed:
		case <-ctx.Done():
			return waited, context.Cause(ctx)
		}
	}
}

// allEnded returns when no child is left.
func (s *Subagents) allEnded(ctx context.Context) error {
	if _, err := s.await(ctx, func(*run) bool { return true }); err != nil {
		return fmt.Errorf("wait for the subagents to end: %w", err)
	}
	return nil
}
