package profile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long the files must have been quiet before a change is told:
// editors write a file in several steps.
const settle = 200 * time.Millisecond

// Watch calls changed each time one of the profile's files has changed,
// appeared or gone, those of the home folder that are not there yet included,
// until ctx ends. Files that ${file:} names are not watched. changed is called
// by the goroutine of Watch.
func (p *Profile) Watch(ctx context.Context, changed func()) error {
	files, err := p.files()
	if err != nil {
		return err
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch the files of profile %s: %w", p.Name, err)
	}
	defer w.Close()
	// A file that is replaced by another takes its watch with it, so folders are
	// watched.
	for _, dir := range folders(files) {
		if err := w.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("watch the files of profile %s: folder %s: %w", p.Name, dir, err)
		}
	}
	quiet := time.NewTimer(0)
	<-quiet.C
	defer quiet.Stop()
	for {
		select {
		case e, ok := <-w.Events:
			if !ok {
				return nil
			}
			if slices.Contains(files, e.Name) {
				quiet.Reset(settle)
			}
		case err, ok := <-w.Errors:
			if !ok {
				return nil
			}
			// Events may have been lost.
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				quiet.Reset(settle)
			}
		case <-quiet.C:
			changed()
		case <-ctx.Done():
			return nil
		}
	}
}

// files are the absolute paths of the files that make the profile, or would if
// they were there.
func (p *Profile) files() ([]string, error) {
	names := slices.DeleteFunc(slices.Clone(p.Layers), func(name string) bool { return strings.HasPrefix(name, "embedded:") })
	if p.home != "" {
		names = append(names, filepath.Join(p.home, "profiles", p.Name+".yaml"), filepath.Join(p.home, "profile.yaml"))
	}
	for i, name := range names {
		abs, err := filepath.Abs(name)
		if err != nil {
			return nil, fmt.Errorf("watch the files of profile %s: %s: %w", p.Name, name, err)
		}
		names[i] = abs
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func folders(files []string) []string {
	dirs := make([]string, len(files))
	for i, file := range files {
		dirs[i] = filepath.Dir(file)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
