package external

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// supervisor keeps one plugin running: it starts it again after it ended, with
// growing pauses and not for ever (case B70), and gives calls the instance that
// runs now.
type supervisor struct {
	// name is the row's id, for people and models.
	name string
	log  *slog.Logger
	// start starts an instance, within its own limit, and makes it ready for calls.
	start func(context.Context) (*instance, error)
	// report is told of every start after the first; outcome gives how it went, or
	// that there will be none.
	report func(outcome <-chan error)
	// restarts is how many starts may follow the first in a row.
	restarts int

	mu      sync.Mutex
	current *instance
	// generation counts instances.
	generation int
	// why says why there is no current one, in a sentence's end; until, unless
	// zero, when the next one starts.
	why   error
	until time.Time
	// changed is closed and replaced when current or why change.
	changed chan struct{}

	leaving sync.Once
	// last is what ran when the plugin was let go of, nil for nothing.
	last *instance
	// left is closed when the plugin is let go of, ended when it is gone; endErr
	// says then what is left of it.
	left, ended chan struct{}
	endErr      error
}

func newSupervisor(name string, log *slog.Logger, restarts int) *supervisor {
	return &supervisor{
		name: name, log: log, restarts: restarts, why: errors.New("it has not started yet"),
		changed: make(chan struct{}), left: make(chan struct{}), ended: make(chan struct{}),
	}
}

// Limits of the supervisor.
const (
	// goodMinute is how long an instance must have run for its end to count as the
	// first.
	goodMinute = time.Minute
	// firstPause doubles with each start that follows another, up to longestPause.
	// The first start after an end comes at once.
	firstPause   = 500 * time.Millisecond
	longestPause = 30 * time.Second
	// restartWait is how long a call waits for a start that is under way.
	restartWait = 2 * time.Second
	// endLimit is more than the end of an instance takes.
	endLimit = shutdownLimit + partingLimit + termLimit + killLimit
)

// errLetGo is the state of a plugin whose row goes, or whose harness ends.
var errLetGo = errors.New("it is being ended")

// errOff is the state of a plugin that is not started any more.
var errOff = errors.New("it stays off until the profile is reloaded or the harness restarts")

// set puts an instance in the place of the last one, and gives its generation.
func (s *supervisor) set(i *instance, why error, until time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i != nil {
		s.generation++
	}
	s.current, s.why, s.until = i, why, until
	close(s.changed)
	s.changed = make(chan struct{})
	return s.generation
}

// run watches instances until ctx ends. first is running.
func (s *supervisor) run(ctx context.Context, first *instance) {
	i, begun, failures := first, time.Now(), 0
	var why error
	for {
		if i != nil {
			select {
			case <-i.ctx.Done():
			case <-s.left:
				return
			case <-ctx.Done():
				return
			}
			if s.isLeft() {
				return
			}
			why = fmt.Errorf("it ended (%s)%s", i.program.exit, i.program.said())
			tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			_ = i.end(tidy) // it is gone already
			cancel()
			if time.Since(begun) >= goodMinute {
				failures = 0
			}
		}
		if ctx.Err() != nil {
			return
		}
		failures++
		if failures > s.restarts {
			off := fmt.Errorf("%w; that was end %d in a row, and %w", why, failures, errOff)
			s.set(nil, off, time.Time{})
			s.log.Error("the plugin is off", "error", off)
			outcome := make(chan error, 1)
			outcome <- off
			s.report(outcome)
			return
		}
		pause := pauseBefore(failures)
		s.set(nil, why, time.Now().Add(pause))
		s.log.Warn("the plugin ended and is started again", "in", pause, "start", failures, "of", s.restarts, "error", why)
		select {
		case <-time.After(pause):
		case <-s.left:
			return
		case <-ctx.Done():
			return
		}
		outcome := make(chan error, 1)
		s.report(outcome)
		var err error
		begun = time.Now()
		i, err = s.start(ctx)
		outcome <- err
		if err != nil {
			why = fmt.Errorf("it could not be started again: %w", err)
			continue
		}
		s.log.Info("the plugin runs again", "generation", s.set(i, nil, time.Time{}))
	}
}

func (s *supervisor) isLeft() bool {
	select {
	case <-s.left:
		return true
	default:
		return false
	}
}

func pauseBefore(failures int) time.Duration {
	if failures <= 1 {
		return 0
	}
	return min(firstPause<<min(failures-2, 10), longestPause)
}

// letGo begins to end the plugin for good; ended is closed when it is gone.
func (s *supervisor) letGo() {
	s.leaving.Do(func() {
		s.mu.Lock()
		i := s.current
		s.mu.Unlock()
		s.last = i
		s.set(nil, errLetGo, time.Time{})
		close(s.left)
		go func() {
			defer close(s.ended)
			if i != nil {
				limited, cancel := context.WithTimeout(context.Background(), endLimit)
				defer cancel()
				s.endErr = i.end(limited)
			}
		}()
	})
}

// close ends the plugin for good and waits for that. When there is little time it
// is not asked for long: it must be gone before the harness is.
func (s *supervisor) close(ctx context.Context) error {
	s.letGo()
	patience := endLimit
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline) / 2
	}
	select {
	case <-s.ended:
		return s.endErr
	case <-time.After(patience):
		if s.last != nil {
			s.last.program.kill()
		}
	}
	select {
	case <-s.ended:
		return s.endErr
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// acquire gives the instance that runs, waiting a moment for one that starts.
func (s *supervisor) acquire(ctx context.Context) (*instance, error) {
	limit := time.NewTimer(restartWait)
	defer limit.Stop()
	for {
		s.mu.Lock()
		i, why, until, changed := s.current, s.why, s.until, s.changed
		s.mu.Unlock()
		pause := time.Until(until)
		switch {
		case i != nil && i.ctx.Err() == nil:
			return i, nil
		case i != nil: // it has just ended, and run will say what comes next
			why = errors.New("it has ended")
		case until.IsZero():
			return nil, s.unavailable(why)
		case pause > 0:
			return nil, s.unavailable(fmt.Errorf("%w; it is started again in %v", why, max(pause.Round(time.Second), time.Second)))
		}
		select {
		case <-changed:
		case <-limit.C:
			return nil, s.unavailable(fmt.Errorf("%w; it is starting again", why))
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// wait gives the next instance that runs, however long that takes. Its error says
// that there will be none, or ctx's.
func (s *supervisor) wait(ctx context.Context) (*instance, error) {
	for {
		s.mu.Lock()
		i, changed := s.current, s.changed
		s.mu.Unlock()
		if i != nil && i.ctx.Err() == nil {
			return i, nil
		}
		select {
		case <-changed:
		case <-s.left:
			return nil, errLetGo
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// failure is a failed call, or one that could not be made: its text names the
// plugin.
type failure struct {
	msg string
	err error
	// ended: the plugin is not there.
	ended bool
	// timeout: the plugin did not answer in time.
	timeout bool
}

func (f *failure) Error() string { return f.msg }
func (f *failure) Unwrap() error { return f.err }

func (s *supervisor) unavailable(why error) error {
	return &failure{fmt.Sprintf("the plugin %s is not available: %v", s.name, why), why, true, false}
}

// call runs one call under a limit. f's context ends with the caller's, the
// limit, or the instance, so that nothing a plugin does holds anybody up.
func (s *supervisor) call(ctx context.Context, limit time.Duration, f func(context.Context, *instance) error) error {
	i, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	joined, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stop := context.AfterFunc(i.ctx, cancel)
	defer stop()
	if err = f(joined, i); err == nil {
		return nil
	}
	return s.explain(ctx, joined, i, limit, err)
}

// explain gives an error of a call its words.
func (s *supervisor) explain(caller, joined context.Context, i *instance, limit time.Duration, err error) error {
	if caller.Err() != nil {
		return context.Cause(caller)
	}
	code := status.Code(err)
	if code == codes.Unavailable && i.ctx.Err() == nil {
		// The connection shows the end of a program before the program does.
		select {
		case <-i.ctx.Done():
		case <-time.After(endNotice):
		}
	}
	if i.ctx.Err() != nil {
		return &failure{fmt.Sprintf("the plugin %s ended during the call (%s)%s", s.name, i.program.exit, i.program.said()), err, true, false}
	}
	if errors.Is(joined.Err(), context.DeadlineExceeded) || overdue(joined, code) {
		return &failure{fmt.Sprintf("the plugin %s did not answer within %v", s.name, limit), err, false, true}
	}
	st, ok := status.FromError(err)
	if !ok {
		return &failure{fmt.Sprintf("the plugin %s: %v", s.name, err), err, false, false}
	}
	text := i.program.out.redact(clip(st.Message(), maxErrorText))
	switch code {
	case codes.Unimplemented:
		text = "it does not offer this: " + text
	case codes.ResourceExhausted:
		text = "a message is too large: " + text
	case codes.Unavailable:
		text = "the connection is lost: " + text
	}
	return &failure{fmt.Sprintf("the plugin %s: %s", s.name, text), err, false, false}
}

// overdue reports whether a call was cut off at its limit by the other side: the
// limit goes with the call, and the plugin's clock may be the first to say so.
func overdue(joined context.Context, code codes.Code) bool {
	deadline, ok := joined.Deadline()
	return ok && (code == codes.Canceled || code == codes.DeadlineExceeded) && time.Until(deadline) < clockSlack
}

// Bounds of what is said about a failed call.
const (
	clockSlack   = 50 * time.Millisecond
	endNotice    = 500 * time.Millisecond
	maxErrorText = 4000
)
