// Package killpoint ends the process at a chosen write of a session store, the
// way kill -9 does, so that tests can look at what is left (decision D29). It is
// for tests only.
package killpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"dsh/kernel/session"
)

// Env is the variable by which a test tells the process it starts where to die:
// a Point as text. Unset or empty means nowhere.
const Env = "DSH_TEST_KILLPOINT"

// Point is one place in the life of a store, written "append:3:half".
type Point struct {
	// Op is Append or Sync, of any session, or an event type: the appends that hold
	// an event of that type.
	Op string
	// N counts the operations of that kind from 1.
	N int64
	// When is Before, After, or, for appends, Half: half of its bytes are written.
	When string
}

// Values of Op and When.
const (
	Append = "append"
	Sync   = "sync"
	Before = "before"
	After  = "after"
	Half   = "half"
)

func (p Point) String() string { return fmt.Sprintf("%s:%d:%s", p.Op, p.N, p.When) }

// Parse reads a Point.
func Parse(text string) (Point, error) {
	f := strings.Split(text, ":")
	if len(f) != 3 || f[0] != Append && f[0] != Sync && !strings.Contains(f[0], "/") ||
		f[2] != Before && f[2] != After && (f[2] != Half || f[0] == Sync) {
		return Point{}, fmt.Errorf("kill point %q: want OP:N:before, OP:N:after or OP:N:half; OP is append, an event type or, but for half, sync", text)
	}
	n, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil || n < 1 {
		return Point{}, fmt.Errorf("kill point %q: the number must be 1 or more", text)
	}
	return Point{f[0], n, f[2]}, nil
}

// FromEnv wraps st when Env is set in this process; see Wrap.
func FromEnv(st session.Store, path func(id string) string) (session.Store, error) {
	text := os.Getenv(Env)
	if text == "" {
		return st, nil
	}
	p, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return Wrap(st, p, path), nil
}

// Wrap gives a store that does what st does until the process reaches p and
// dies. path tells the file of a session, to which st appends; it is needed for
// Half only.
func Wrap(st session.Store, p Point, path func(id string) string) session.Store {
	return &store{Store: st, point: p, path: path}
}

type store struct {
	session.Store
	point  Point
	path   func(string) string
	passed atomic.Int64 // operations of the point's kind
}

func (s *store) Create(ctx context.Context, h session.Header) (session.Writer, error) {
	w, err := s.Store.Create(ctx, h)
	if err != nil {
		return nil, err
	}
	return &writer{w, s, h.ID}, nil
}

func (s *store) Open(ctx context.Context, id, cwd string, fn func(session.Header, *session.Record) error) (session.Writer, error) {
	w, err := s.Store.Open(ctx, id, cwd, fn)
	if err != nil {
		return nil, err
	}
	return &writer{w, s, id}, nil
}

type writer struct {
	session.Writer
	store *store
	id    string
}

func (w *writer) Append(records []session.Record) error {
	op := w.store.point.Op
	holds := func(r session.Record) bool { return r.Event.Type == op }
	if op != Append && !slices.ContainsFunc(records, holds) || w.store.passed.Add(1) != w.store.point.N {
		return w.Writer.Append(records)
	}
	return w.store.around(func() error {
		if w.store.point.When == Half {
			return w.half(records)
		}
		return w.Writer.Append(records)
	})
}

func (w *writer) Sync(ctx context.Context) error {
	if w.store.point.Op != Sync || w.store.passed.Add(1) != w.store.point.N {
		return w.Writer.Sync(ctx)
	}
	return w.store.around(func() error { return w.Writer.Sync(ctx) })
}

// around dies on the right side of do; when do fails the process lives on, and
// the test that expects it to die will tell.
func (s *store) around(do func() error) error {
	if s.point.When == Before {
		die()
	}
	if err := do(); err != nil {
		return err
	}
	die()
	return nil
}

// half leaves what a write leaves that was cut off in the middle.
func (w *writer) half(records []session.Record) error {
	path := w.store.path(w.id)
	before, err := length(path)
	if err != nil {
		return err
	}
	if err := w.Writer.Append(records); err != nil {
		return err
	}
	after, err := length(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, before+(after-before)/2)
}

func length(path string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// die ends the process without any of its own code running afterwards.
func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err == nil {
		const delivery = time.Minute
		time.Sleep(delivery)
	}
	panic(fmt.Sprintf("kill point: the process could not be killed: %v", err))
}
