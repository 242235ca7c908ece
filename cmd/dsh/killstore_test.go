package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"dsh/kernel/session"
)

// killEnv tells dsh-probe where to die: a killPoint as text. Unset is nowhere.
const killEnv = "DSH_TEST_KILL"

// killPoint is a place in the life of a store, "append:3:half": around the n-th
// operation of any session, before it, after it, or when half of the bytes of an
// append are written.
type killPoint struct {
	op   string // append, sync, or an event type: appends that hold such an event
	n    int64
	when string
}

func (p killPoint) String() string { return fmt.Sprintf("%s:%d:%s", p.op, p.n, p.when) }

func parseKillPoint(text string) (killPoint, error) {
	f := strings.Split(text, ":")
	if len(f) != 3 {
		return killPoint{}, fmt.Errorf("%s=%s: want OP:N:WHEN", killEnv, text)
	}
	n, err := strconv.ParseInt(f[1], 10, 64)
	return killPoint{f[0], n, f[2]}, err
}

// killStore is a store in which the process dies as kill -9 makes it die.
type killStore struct {
	session.Store
	dir        string // of the session files
	point      killPoint
	operations atomic.Int64 // of the kind of point
}

func (s *killStore) Create(ctx context.Context, h session.Header) (session.Writer, error) {
	w, err := s.Store.Create(ctx, h)
	return &killWriter{w, s, h.ID}, err
}

func (s *killStore) Open(ctx context.Context, id, cwd string, fn func(session.Header, *session.Record) error) (session.Writer, error) {
	w, err := s.Store.Open(ctx, id, cwd, fn)
	return &killWriter{w, s, id}, err
}

type killWriter struct {
	session.Writer
	store *killStore
	id    string
}

func (w *killWriter) Append(records []session.Record) error {
	op := w.store.point.op
	holds := func(r session.Record) bool { return r.Event.Type == op }
	return w.around(op == "append" || slices.ContainsFunc(records, holds), func() error { return w.Writer.Append(records) })
}

func (w *killWriter) Sync(ctx context.Context) error {
	return w.around(w.store.point.op == "sync", func() error { return w.Writer.Sync(ctx) })
}

// around does an operation and, when it is the one, dies at it.
func (w *killWriter) around(counts bool, do func() error) error {
	p := w.store.point
	if !counts || w.store.operations.Add(1) != p.n {
		return do()
	}
	path := filepath.Join(w.store.dir, session.EncodeID(w.id)+".jsonl")
	before, err := fileSize(path)
	if err != nil {
		return err
	}
	if p.when != "before" {
		if err := do(); err != nil {
			return err
		}
	}
	if p.when == "half" {
		after, err := fileSize(path)
		if err != nil {
			return err
		}
		if err := os.Truncate(path, before+(after-before)/2); err != nil {
			return err
		}
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	if err := self.Kill(); err != nil {
		return err
	}
	time.Sleep(patience) // the signal is on its way
	return errors.New("the process cannot kill itself")
}

func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
