package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"dsh/plugins/internal/gitignore"
)

// session is what is remembered of one session at the root.
type session struct {
	k       *Keeper
	id, dir string
	// gate is full while a snapshot is taken or a rewind is at work: whoever has put
	// something in may use what follows.
	gate chan struct{}

	loaded bool
	tree   *tree
	setup  setup
	git    *git
	store  *store
	index  *index
	// files are those of the last snapshot, by their paths below the top.
	files map[string]*entry
	walks uint32

	mu sync.Mutex
	// calls is how many calls are at work that may change something. dirty: some were,
	// and no snapshot was taken since. fresh: none was in this turn.
	calls        int
	dirty, fresh bool
	// off is why nothing is remembered any more, "" while something is.
	off string
	history
}

// history is what the journal holds, besides the files.
type history struct {
	// top is the work tree, without links.
	top string
	// based: there is a first snapshot.
	based  bool
	deltas []delta
	// marks say how many deltas there were before the turn of a message, pending are
	// the turns that wait for a snapshot.
	marks   map[string]int
	pending []string
	// lost says of messages why they cannot be gone back to.
	lost map[string]string
}

// lose gives up all snapshots; session.mu is held, and the gate.
func (s *session) lose(why string) {
	if s.lost == nil {
		s.lost = map[string]string{}
	}
	for id := range s.marks {
		s.lost[id] = why
	}
	for _, id := range s.pending {
		s.lost[id] = why
	}
	s.history = history{lost: s.lost}
	s.files = map[string]*entry{}
}

// take adds a snapshot; session.mu is held, and the gate.
func (s *session) take(word string, list []found) {
	d := delta{own: word == wordOwn}
	for _, f := range list {
		c := change{path: f.path}
		if e := s.files[f.path]; e != nil {
			c.old = &e.state
		}
		if f.entry == nil {
			delete(s.files, f.path)
		} else {
			c.new = &f.entry.state
			s.files[f.path] = f.entry
		}
		if word != wordBase {
			d.changes = append(d.changes, c)
		}
	}
	if word == wordBase {
		s.based = true
	}
	if len(d.changes) > 0 {
		s.deltas = append(s.deltas, d)
	}
	if word == wordOwn {
		return
	}
	if s.marks == nil {
		s.marks = map[string]int{}
	}
	for _, id := range s.pending {
		s.marks[id] = len(s.deltas)
	}
	s.pending = nil
}

func (s *session) lock(ctx context.Context) error {
	select {
	case s.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *session) unlock() { <-s.gate }

// turn takes down that the turn of a message begins.
func (s *session) turn(messageID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off != "" || len(s.pending) > 0 && s.pending[len(s.pending)-1] == messageID {
		return
	}
	s.fresh = true
	if err := s.note(wordLine(wordTurn, messageID)); err != nil {
		s.k.log.Warn("the beginning of a turn is not among the checkpoints", "session", s.id, "error", err)
		return
	}
	s.pending = append(s.pending, messageID)
}

// enter is called before a call that may change something, and leave behind it;
// idle says that no turn goes on. The error is that of ctx.
func (s *session) enter(ctx context.Context, t *tree, idle bool) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	s.mu.Lock()
	first := s.off == "" && s.calls == 0
	s.mu.Unlock()
	if first {
		if err := s.fail(ctx, s.before(ctx, t, idle)); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh = false
	s.calls++
	return nil
}

// before takes the snapshots that are due before a call; the gate is held.
func (s *session) before(ctx context.Context, t *tree, idle bool) error {
	if err := s.prepare(ctx, t); err != nil {
		return err
	}
	s.mu.Lock()
	dirty, fresh := s.dirty, s.fresh || idle
	s.mu.Unlock()
	if !s.based {
		return s.snapshot(ctx, wordBase)
	}
	if dirty {
		if err := s.snapshot(ctx, wordOwn); err != nil {
			return err
		}
	}
	if !fresh {
		return nil
	}
	return s.snapshot(ctx, wordForeign)
}

// fail ends the checkpoints of the session because of an error, if it is one, and
// unless nobody wants the call any more: that alone is an error. The session goes on
// without them; the gate is held.
func (s *session) fail(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveUp(err)
	return nil
}

// giveUp ends the checkpoints of the session; session.mu is held, and the gate.
func (s *session) giveUp(err error) {
	why := fmt.Sprintf("the checkpoints of this session have ended: %v", err)
	s.k.log.Warn("no more checkpoints for a session", "session", s.id, "error", err)
	s.lose(why)
	s.off = why
	if err := s.note(wordLine(wordOff, why)); err != nil {
		s.k.log.Warn("the end of the checkpoints is not on the disk", "session", s.id, "error", err)
	}
}

// leave takes the snapshot behind the last of the calls that ran side by side, while
// the caller goes on.
func (s *session) leave() {
	s.mu.Lock()
	s.calls--
	s.dirty = true
	last := s.calls == 0 && s.off == ""
	s.mu.Unlock()
	if last {
		s.follow("checkpoint behind a call")
	}
}

// follow takes the snapshot that is missing while the caller goes on.
func (s *session) follow(what string) {
	s.k.self.Owner.Go(what, func(ctx context.Context) {
		_ = s.catchUp(ctx) // the harness is ending, then
	})
}

// catchUp takes the snapshot that is missing, if any. The error is that of ctx.
func (s *session) catchUp(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	return s.settle(ctx)
}

// settle is catchUp with the gate held.
func (s *session) settle(ctx context.Context) error {
	s.mu.Lock()
	missing := s.dirty && s.calls == 0 && s.off == "" && s.based
	s.mu.Unlock()
	if !missing {
		return nil
	}
	return s.fail(ctx, s.snapshot(ctx, wordOwn))
}

// mark has one more snapshot taken behind what the hooks on the end of a turn do.
func (s *session) mark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty = s.dirty || s.based && !s.fresh && s.calls == 0 && s.off == ""
}

// prepare reads what there is and settles which work tree this is; the gate is held.
func (s *session) prepare(ctx context.Context, t *tree) error {
	if err := s.load(ctx, t); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.top == t.real {
		return nil
	}
	if s.top != "" {
		why := fmt.Sprintf("the work tree of the session was %s then and is %s now", s.top, t.real)
		pending := s.pending
		s.pending = nil
		s.lose(why)
		if err := s.note(wordLine(wordOff, why)); err != nil {
			return err
		}
		for _, id := range pending {
			if err := s.note(wordLine(wordTurn, id)); err != nil {
				return err
			}
		}
		s.pending = pending
	}
	s.top = t.real
	return s.note(wordLine(wordTop, t.real))
}

// load reads what there is; the gate is held.
func (s *session) load(ctx context.Context, t *tree) error {
	if s.loaded && s.tree.real == t.real {
		s.tree = t
		return nil
	}
	s.git = &git{runner: s.k.runner, session: s.id, dir: filepath.Join(s.dir, "git")}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	var err error
	if s.setup, err = s.git.settings(ctx, t); err != nil {
		return err
	}
	if err := s.git.init(s.setup.long); err != nil {
		return err
	}
	s.store = &store{dir: filepath.Join(s.dir, "objects"), long: s.setup.long, most: s.k.config.MaxBytes}
	if err := s.store.measure(); err != nil {
		return err
	}
	if !s.loaded {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.replay(); err != nil {
			return err
		}
		s.fresh = true // whatever happened since is not the session's
	}
	s.tree, s.index, s.loaded = t, nil, true
	return nil
}

// errSlow is the cause of a snapshot that takes too long.
func errSlow(limit time.Duration) error {
	return fmt.Errorf("a snapshot of the work tree takes longer than %v", limit)
}

// snapshot takes a snapshot and keeps it; the gate is held.
func (s *session) snapshot(ctx context.Context, word string) error {
	limit := time.Duration(s.k.config.MaxTime)
	within, cancel := context.WithTimeoutCause(ctx, limit, errSlow(limit))
	defer cancel()
	list, err := s.scan(within)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == 0 {
		s.dirty = false
	}
	if word == wordOwn && len(list) == 0 {
		return nil
	}
	if err := s.note(blockLines(word, list)); err != nil {
		return err
	}
	s.take(word, list)
	if word == wordBase {
		s.k.prune(s.id)
	}
	return nil
}

// doubt is a file that has to be read to know what it is.
type doubt struct {
	path  string
	item  item
	known *entry
}

// scan walks the work tree and gives what differs from the last snapshot, in the
// order of paths. It changes nothing of the session but the numbers of walks, and
// the stamps of files that are the same with others.
func (s *session) scan(ctx context.Context) ([]found, error) {
	s.index = readIndex(filepath.Join(s.tree.git, "index"), s.setup.long, s.index)
	s.walks++
	var doubts []doubt
	added := map[string]bool{}
	visit := func(path string, i item) {
		e := s.files[path]
		if e == nil {
			added[path] = true
		} else if e.seen = s.walks; e.is(i) {
			return
		}
		doubts = append(doubts, doubt{path, i, e})
	}
	w := &walk{ctx: ctx, top: s.tree.top, most: s.k.config.MaxFiles, visit: visit}
	rules := gitignore.Root().With(readSmall(s.setup.ignore)).With(readSmall(filepath.Join(s.tree.common, "info", "exclude")))
	if err := w.run(rules); err != nil {
		return nil, fmt.Errorf("look through the work tree %s: %w", s.tree.top, err)
	}
	var list []found
	at := newFinder(s.tree.top)
	for path, e := range s.files {
		if e.seen == s.walks {
			continue
		}
		i, ok, err := at.find(path)
		switch {
		case err != nil: // nobody may look there; it may well be as it was
		case !ok || i.kind == 0:
			list = append(list, found{path, nil})
		case !e.is(i):
			doubts = append(doubts, doubt{path, i, e})
		}
	}
	if s.index.beside == nil {
		s.index.beside = []string{}
		for path := range s.index.files {
			if !added[path] && s.files[path] == nil {
				s.index.beside = append(s.index.beside, path)
			}
		}
	}
	for _, path := range s.index.beside {
		if s.files[path] != nil || added[path] {
			continue
		}
		if i, ok, err := at.find(path); err == nil && ok && i.kind != 0 {
			doubts = append(doubts, doubt{path, i, nil})
		}
	}
	trusted := s.setup.plain && !w.attributes && !s.index.attributes
	resolved, err := s.resolve(ctx, doubts, trusted)
	if err != nil {
		return nil, err
	}
	for i, d := range doubts {
		e := resolved[i]
		if e != nil && d.known != nil && d.known.state == e.state {
			e.seen = d.known.seen
			*d.known = *e
			continue
		}
		if e != nil || d.known != nil {
			list = append(list, found{d.path, e})
		}
	}
	slices.SortFunc(list, func(a, b found) int { return cmp.Compare(a.path, b.path) })
	return list, nil
}

// is reports whether an entry is what a walk met, as far as can be seen.
func (e *entry) is(i item) bool {
	return e.kind == i.kind && e.perm == i.perm && e.stamp == i.stamp && !e.young
}

// resolve reads files, several at a time; nil is one that is gone.
func (s *session) resolve(ctx context.Context, doubts []doubt, trusted bool) ([]*entry, error) {
	out := make([]*entry, len(doubts))
	errs := make([]error, min(runtime.GOMAXPROCS(0), 4))
	var all sync.WaitGroup
	for w := range errs {
		all.Go(func() {
			for i := w; i < len(doubts); i += len(errs) {
				if ctx.Err() != nil {
					errs[w] = context.Cause(ctx)
					return
				}
				if out[i], errs[w] = s.read(doubts[i], trusted); errs[w] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return out, cmp.Or(errs...)
}

// read finds out the state of a file, and keeps its content unless the repository
// has it.
func (s *session) read(d doubt, trusted bool) (*entry, error) {
	e := &entry{state: state{kind: d.item.kind, perm: d.item.perm, size: d.item.stamp.size}, stamp: d.item.stamp, seen: s.walks}
	git := s.index.files[d.path].id
	if trusted && d.item.kind == regular && s.index.trusts(d.path, d.item.stamp) {
		e.id = git
		return e, nil
	}
	now := time.Now()
	content, err := s.content(d.path, e)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		e.id, e.size = opaque(e.stamp), e.stamp.size
		return e, nil
	}
	e.young = e.stamp.isYoung(now)
	if e.id == git || d.known != nil && d.known.id == e.id {
		return e, nil
	}
	if err := s.store.put(e.id, content); err != nil {
		return nil, fmt.Errorf("keep the content of %s: %w", d.path, err)
	}
	return e, nil
}

// content reads a file or link of the work tree and completes what e says of it.
func (s *session) content(path string, e *entry) (content []byte, err error) {
	abs := filepath.Join(s.tree.top, filepath.FromSlash(path))
	if e.kind == link {
		target, err := os.Readlink(abs)
		if err != nil {
			return nil, err
		}
		content = []byte(target)
	} else {
		var i item
		if content, i, err = readFile(abs, s.k.config.MaxFileBytes); err != nil {
			return nil, err
		}
		e.perm, e.stamp = i.perm, i.stamp
	}
	e.size, e.id = int64(len(content)), s.store.idOf(content)
	return content, nil
}
