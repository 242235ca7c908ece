package settings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"dsh/kernel"
	"dsh/plugins/internal/contextfile"
)

const (
	// maxAsked bounds the files that are watched.
	maxAsked = 1024
	// quiet is how long a change waits for others that belong to it.
	quiet = 100 * time.Millisecond
	// patience keeps the watch out of the start of a process, and out of those that
	// run one prompt: a large folder costs the kernel 10 ms and more. Nothing is
	// missed, because the files are compared with what was read of them.
	patience = time.Second
)

// remember keeps which files somebody asked for, so that they are watched.
func (s *Settings) remember(cwd string, places []place, infos []fs.FileInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.dirs[cwd]:
		return
	case len(s.asked)+len(places) >= maxAsked:
		s.notices.Warn("changes of settings are not seen at once in further folders", "", fmt.Errorf("%d files are watched", maxAsked))
		return
	case len(s.dirs) == 0 && s.config.Trust == trustListed:
		s.asked[s.trust.file] = found(s.trust.file)
	}
	s.dirs[cwd] = true
	for i, p := range places {
		if _, ok := s.asked[p.file]; !ok {
			s.asked[p.file] = infos[i]
		}
	}
	if s.watch != nil {
		s.watch.wake()
	}
}

// found is what is at a path, nil when that cannot be told.
func found(path string) fs.FileInfo {
	info, err := contextfile.Find(path)
	if err != nil {
		return nil
	}
	return info
}

// watch calls those who wait for changes. It runs while there are any.
type watch struct {
	notify *fsnotify.Watcher
	stop   context.CancelFunc
	// names are the paths whose events say something.
	names map[string]bool
	// more is filled when there are further files to watch, flags when the layer
	// above the files has changed.
	more, flags chan struct{}
	waiting     []*waiter
}

// waiter is one call of Watch.
type waiter struct{ fn func() }

func (w *watch) wake() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func (w *watch) flagged() {
	select {
	case w.flags <- struct{}{}:
	default:
	}
}

// Watch implements settings.Source. fn is called from one goroutine, never twice
// at once.
func (s *Settings) Watch(o *kernel.Owner, fn func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watch == nil {
		if err := s.startWatch(); err != nil {
			return fmt.Errorf("watch settings: %w", err)
		}
	}
	one := &waiter{fn}
	s.watch.waiting = append(s.watch.waiting, one)
	err := o.OnClose("watch of settings", func(context.Context) error {
		s.leave(one)
		return nil
	})
	if err != nil {
		s.leaveLocked(one)
		return fmt.Errorf("watch settings: %w", err)
	}
	return nil
}

func (s *Settings) leave(one *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveLocked(one)
}

func (s *Settings) leaveLocked(one *waiter) {
	w := s.watch
	if w == nil {
		return
	}
	w.waiting = slices.DeleteFunc(slices.Clone(w.waiting), func(x *waiter) bool { return x == one })
	if len(w.waiting) == 0 {
		w.stop()
		s.watch = nil
	}
}

func (s *Settings) startWatch() error {
	if err := s.owner.Context().Err(); err != nil {
		return context.Cause(s.owner.Context())
	}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &watch{notify: notify, stop: stop, more: make(chan struct{}, 1), flags: make(chan struct{}, 1)}
	w.wake()
	s.watch = w
	s.owner.Go("watch settings", func(owner context.Context) {
		defer context.AfterFunc(owner, stop)()
		s.follow(ctx, w)
	})
	return nil
}

// follow watches folders, not files: what replaces a file is another file.
func (s *Settings) follow(ctx context.Context, w *watch) {
	defer func() {
		if err := w.notify.Close(); err != nil {
			s.log.Debug("stop watching settings", "error", err)
		}
	}()
	for begun := time.After(patience); begun != nil; {
		select {
		case <-ctx.Done():
			return
		case <-w.flags:
			s.call(ctx, w)
		case <-begun:
			begun = nil
		}
	}
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.more:
			s.cover(w)
			due = time.After(quiet) // something may have changed before it was watched
		case <-w.flags:
			s.call(ctx, w)
		case e := <-w.notify.Events:
			if due == nil && w.names[e.Name] {
				due = time.After(quiet)
			}
		case err := <-w.notify.Errors:
			s.log.Warn("a change of a settings file may be missed", "error", err)
			due = time.After(quiet)
		case <-due:
			due = nil
			s.cover(w)
			if s.changed() {
				s.call(ctx, w)
			}
		}
	}
}

// cover adds the folders of all files, and those of their targets, as far as
// they are there; a folder to come is seen by the one above it.
func (s *Settings) cover(w *watch) {
	s.mu.Lock()
	files := slices.Collect(maps.Keys(s.asked))
	s.mu.Unlock()
	folders := map[string]bool{}
	w.names = map[string]bool{}
	for _, file := range files {
		dir := filepath.Dir(file)
		w.names[file], w.names[dir] = true, true
		folders[dir], folders[filepath.Dir(dir)] = true, true
		if real, err := filepath.EvalSymlinks(file); err == nil {
			w.names[real], folders[filepath.Dir(real)] = true, true
		}
	}
	for dir := range folders {
		if err := w.notify.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.notices.Warn("a folder of settings cannot be watched", dir, err)
		}
	}
}

// changed looks at all files and reports whether one is not as it was.
func (s *Settings) changed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := false
	for file, old := range s.asked {
		if info := found(file); !contextfile.Same(old, info) {
			s.asked[file] = info
			changed = true
		}
	}
	return changed
}

func (s *Settings) call(ctx context.Context, w *watch) {
	s.mu.Lock()
	waiting := w.waiting
	s.mu.Unlock()
	for _, one := range waiting {
		if ctx.Err() != nil {
			return
		}
		one.fn()
	}
}
