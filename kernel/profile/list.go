package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Names lists the profiles that can be named: the embedded ones and those in
// $DSH_HOME/profiles, sorted. It uses Embedded and Home only.
func Names(o Options) ([]string, error) {
	var names []string
	collect := func(entries []fs.DirEntry) {
		for _, e := range entries {
			name, ok := strings.CutSuffix(e.Name(), ".yaml")
			if ok && !e.IsDir() && nameForm.matches(name) && name != "desktop" {
				names = append(names, name)
			}
		}
	}
	if o.Embedded != nil {
		entries, err := fs.ReadDir(o.Embedded, ".")
		if err != nil {
			return nil, fmt.Errorf("list embedded profiles: %w", err)
		}
		collect(entries)
	}
	if o.Home != "" {
		entries, err := os.ReadDir(filepath.Join(o.Home, "profiles"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list profiles: %w", err)
		}
		collect(entries)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Listed is a profile as a listing shows it.
type Listed struct {
	Name, Summary string
	// Err tells why the profile's files cannot be read; nil when they can.
	Err error
}

// List gives the profiles of Names with their summaries. It reads the profiles'
// files and what they extend, and composes nothing.
func List(o Options) ([]Listed, error) {
	names, err := Names(o)
	if err != nil {
		return nil, err
	}
	var all []Listed
	for _, name := range names {
		l := &loader{opts: o, taken: map[string]bool{}}
		l.named(name, Position{}, nil, false, true)
		all = append(all, Listed{Name: name, Summary: l.summary, Err: l.bad.join()})
	}
	return all, nil
}
