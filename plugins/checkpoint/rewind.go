package checkpoint

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dsh/kernel/checkpoint"
	kernelsession "dsh/kernel/session"
)

// textUnknown answers for a message whose turn nobody has seen begin.
const textUnknown = "No file checkpoint found for this message."

// refused is the outcome that changes nothing.
func refused(format string, args ...any) checkpoint.Outcome {
	return checkpoint.Outcome{Reason: fmt.Sprintf(format, args...)}
}

// Rewind implements checkpoint.Keeper. An error is a failure that left nothing
// changed; where even that cannot be said, it says so.
func (k *Keeper) Rewind(ctx context.Context, sessionID, cwd, messageID string, dry bool) (checkpoint.Outcome, error) {
	if err := kernelsession.CheckID(sessionID); err != nil {
		return checkpoint.Outcome{}, fmt.Errorf("rewind files: %w", err)
	}
	t, err := k.find(cwd)
	if err != nil {
		return refused("%v", err), nil
	}
	if !exists(filepath.Join(k.folder(sessionID), journalName)) {
		return refused(textUnknown), nil
	}
	s := k.session(sessionID)
	if err := s.lock(ctx); err != nil {
		return checkpoint.Outcome{}, fmt.Errorf("rewind files: %w", err)
	}
	defer s.unlock()
	out, err := s.rewind(ctx, t, cwd, messageID, dry)
	if err != nil {
		return checkpoint.Outcome{}, fmt.Errorf("rewind files to %s: %w", messageID, err)
	}
	return out, nil
}

// op gives one file its earlier state; nil is no file.
type op struct {
	path    string
	now, to *state
}

// rewind is Rewind with the gate held.
func (s *session) rewind(ctx context.Context, t *tree, cwd, messageID string, dry bool) (checkpoint.Outcome, error) {
	if why := s.refuses(); why != "" {
		return refused("%s", why), nil
	}
	if err := s.load(ctx, t); err != nil {
		return checkpoint.Outcome{}, err
	}
	if s.top != "" && s.top != t.real {
		return refused("the checkpoints of this session are of the work tree %s, and %s is in another", s.top, cwd), nil
	}
	if err := s.settle(ctx); err != nil {
		return checkpoint.Outcome{}, err
	}
	if why := s.refuses(); why != "" {
		return refused("%s", why), nil
	}
	ops, reason := s.plan(messageID)
	if reason != "" {
		return checkpoint.Outcome{Reason: reason}, nil
	}
	if reason, err := s.fetch(ctx, ops); reason != "" || err != nil {
		return checkpoint.Outcome{Reason: reason}, err
	}
	out := checkpoint.Outcome{CanRewind: true, Files: []string{}}
	for _, o := range ops {
		out.Files = append(out.Files, s.abs(o.path))
	}
	var err error
	if out.Insertions, out.Deletions, err = s.count(ctx, ops); err != nil {
		return checkpoint.Outcome{}, err
	}
	if dry || len(ops) == 0 {
		return out, nil
	}
	if ctx.Err() != nil {
		return checkpoint.Outcome{}, context.Cause(ctx)
	}
	again, reason := s.plan(messageID)
	if !slices.EqualFunc(ops, again, func(a, b op) bool { return a.path == b.path && same(a.now, b.now) && same(a.to, b.to) }) {
		return refused("somebody changes files at this moment: %s", cmp.Or(reason, "try again")), nil
	}
	if err := s.restore(ops, cwd); err != nil {
		return checkpoint.Outcome{}, err
	}
	s.restored(ops)
	return out, nil
}

// refuses is why nothing can be rewound at this moment, "" when something can.
func (s *session) refuses() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off == "" && s.calls > 0 {
		return "a tool call is still at work; rewind when it has ended"
	}
	return s.off
}

func (s *session) abs(path string) string { return filepath.Join(s.tree.top, filepath.FromSlash(path)) }

// plan finds out what has to be done, or why it cannot be done.
func (s *session) plan(messageID string) (ops []op, reason string) {
	s.mu.Lock()
	from, known := s.marks[messageID]
	why, lost := s.lost[messageID]
	waits := slices.Contains(s.pending, messageID)
	deltas := s.deltas
	s.mu.Unlock()
	switch {
	case known:
		deltas = deltas[from:]
	case waits:
		return nil, "" // no call has changed anything since
	case lost:
		return nil, why
	default:
		return nil, textUnknown
	}
	type history struct {
		first        *state
		own, foreign bool
	}
	touched := map[string]*history{}
	for _, d := range deltas {
		for _, c := range d.changes {
			h := touched[c.path]
			if h == nil {
				h = &history{first: c.old}
				touched[c.path] = h
			}
			h.own = h.own || d.own
			h.foreign = h.foreign || !d.own
		}
	}
	at := newFinder(s.tree.top)
	var foreign, kept []string
	for path, h := range touched {
		if !h.own {
			continue
		}
		now, err := s.present(at, path)
		if err != nil {
			foreign = append(foreign, s.abs(path))
			continue
		}
		if same(now, h.first) {
			continue
		}
		var last *state
		if e := s.files[path]; e != nil {
			last = &e.state
		}
		if h.foreign || !same(now, last) {
			foreign = append(foreign, s.abs(path))
		}
		if h.first.isOpaque() {
			kept = append(kept, s.abs(path))
		}
		ops = append(ops, op{path, now, h.first})
	}
	slices.SortFunc(ops, func(a, b op) int { return cmp.Compare(a.path, b.path) })
	switch {
	case len(foreign) > 0:
		return nil, "somebody else has changed since: " + names(foreign)
	case len(kept) > 0:
		return nil, "the earlier content was too large to be kept, or could not be read: " + names(kept)
	}
	if way := s.obstacles(at, ops); len(way) > 0 {
		return nil, "something that is not covered is in the way: " + names(way)
	}
	return ops, ""
}

// maxNames bounds the files that a reason names.
const maxNames = 20

func names(paths []string) string {
	slices.Sort(paths)
	if more := len(paths) - maxNames; more > 0 {
		return strings.Join(paths[:maxNames], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(paths, ", ")
}

// present says what a file is at this moment; nil for none.
func (s *session) present(at *finder, path string) (*state, error) {
	i, ok, err := at.find(path)
	if err != nil || !ok || i.kind == 0 {
		return nil, err
	}
	if e := s.files[path]; e != nil && e.is(i) {
		return &e.state, nil
	}
	e := &entry{state: state{kind: i.kind, perm: i.perm, size: i.stamp.size}, stamp: i.stamp}
	if _, err := s.content(path, e); err != nil {
		e.id = opaque(e.stamp)
	}
	return &e.state, nil
}

// obstacles finds what stands where a file has to be made.
func (s *session) obstacles(at *finder, ops []op) (found []string) {
	goes := map[string]bool{}
	for _, o := range ops {
		if o.now != nil && o.to == nil {
			goes[o.path] = true
		}
	}
	var full func(path string) bool
	full = func(path string) bool {
		items, err := list(at.abs(path))
		if err != nil {
			return true
		}
		return slices.ContainsFunc(items, func(i item) bool {
			inner := path + "/" + i.name
			return !goes[inner] && (!i.isDir || full(inner))
		})
	}
	for _, o := range ops {
		if o.to == nil || o.now != nil {
			continue
		}
		i, ok, err := at.find(o.path)
		if err != nil || ok && (!i.isDir || full(o.path)) {
			found = append(found, s.abs(o.path))
			continue
		}
		for up := parentOf(o.path); up != ""; up = parentOf(up) {
			i, ok, err := at.find(up)
			if err != nil || ok && !i.isDir && !goes[up] {
				found = append(found, s.abs(up))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// fetch has all earlier contents in the store, or says which are lost.
func (s *session) fetch(ctx context.Context, ops []op) (reason string, err error) {
	var ids []string
	for _, o := range ops {
		if o.to != nil && !s.store.has(o.to.id) {
			ids = append(ids, o.to.id)
		}
	}
	slices.Sort(ids)
	if err := s.git.fetch(ctx, filepath.Join(s.tree.common, "objects"), slices.Compact(ids), s.store); err != nil {
		return "", err
	}
	var lost []string
	for _, o := range ops {
		if o.to == nil {
			continue
		}
		// A filter may have made another content of the one that the repository has.
		if content, err := s.store.get(o.to.id); err != nil || int64(len(content)) != o.to.size {
			lost = append(lost, s.abs(o.path))
		}
	}
	if len(lost) > 0 {
		return "the earlier content is not there any more: " + names(lost), nil
	}
	return "", nil
}

// count counts the lines that differ between the present and the earlier state.
func (s *session) count(ctx context.Context, ops []op) (insertions, deletions int, err error) {
	dir, err := os.MkdirTemp(s.dir, "count-*")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	for _, d := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			return 0, 0, err
		}
	}
	differ := false
	for i, o := range ops {
		if o.now.isOpaque() || o.now != nil && o.to != nil && o.now.id == o.to.id {
			continue
		}
		differ = true
		name := strconv.Itoa(i)
		if o.to != nil {
			content, err := s.store.get(o.to.id)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "b", name), content, 0o600)
			}
			if err != nil {
				return 0, 0, err
			}
		}
		if o.now != nil {
			content, err := s.content(o.path, &entry{state: *o.now})
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "a", name), content, 0o600)
			}
			if err != nil {
				return 0, 0, err
			}
		}
	}
	if !differ {
		return 0, 0, nil
	}
	return s.git.count(ctx, dir)
}

// restored takes a rewind down as one more change by the session.
func (s *session) restored(ops []op) {
	at := newFinder(s.tree.top)
	list := make([]found, 0, len(ops))
	for _, o := range ops {
		f := found{path: o.path}
		if o.to != nil {
			// The next snapshot reads it, and sees whether anybody was quicker.
			f.entry = &entry{state: *o.to, young: true}
			if i, ok, err := at.find(o.path); err == nil && ok {
				f.entry.stamp = i.stamp
			}
		}
		list = append(list, f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.note(blockLines(wordOwn, list)); err != nil {
		s.giveUp(err)
		return
	}
	s.take(wordOwn, list)
}
