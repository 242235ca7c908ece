package streamjson

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dsh/plugins/internal/gitignore"
)

const (
	// maxSuggestions is how many paths are suggested.
	maxSuggestions = 15
	// maxLooked and lookLimit bound the search for them, in entries and in time: what
	// is near is found first.
	maxLooked = 50_000
	lookLimit = time.Second
)

// suggestFiles answers file_suggestions: paths below the working directory that
// hold the query, the best first; those of folders end with a slash.
func (s *Server) suggestFiles(ctx context.Context, r *request) (any, error) {
	in, err := fields[struct {
		Query json.RawMessage `json:"query"`
	}](r)
	if err != nil {
		return nil, err
	}
	query, ok := text(in.Query)
	if !ok {
		return nil, errors.New("query must be a string")
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	return map[string]any{"suggestions": suggestPaths(ctx, s.cwd, query), "cwd": s.cwd}, nil
}

// found is a path that a query fits, with slashes; a lower rank is better.
type found struct {
	path string
	rank int
}

// place is a folder to look into.
type place struct {
	dir, rel string
	rules    *gitignore.Dir
}

// suggestPaths looks level by level. It follows no links, and leaves out what git
// ignores and, unless the query asks for such names, what begins with a dot.
func suggestPaths(ctx context.Context, cwd, query string) []string {
	query = strings.ToLower(strings.TrimPrefix(filepath.ToSlash(query), "./"))
	hidden := strings.HasPrefix(query, ".") || strings.Contains(query, "/.")
	var all []found
	looked := 0
	for level := []place{{cwd, "", gitignore.Above(cwd, cwd)}}; len(level) > 0; {
		var below []place
		for _, p := range level {
			entries, err := os.ReadDir(p.dir)
			if err != nil {
				continue
			}
			rules := p.rules.With(gitignore.Read(filepath.Join(p.dir, gitignore.File)))
			for _, e := range entries {
				if looked++; looked > maxLooked || ctx.Err() != nil {
					return best(all)
				}
				name := e.Name()
				if name == gitignore.Folder || !hidden && strings.HasPrefix(name, ".") || rules.Ignored(name, e.IsDir()) {
					continue
				}
				path := p.rel + name
				if e.IsDir() {
					path += "/"
					below = append(below, place{filepath.Join(p.dir, name), path, rules.Child(name)})
				}
				if rank, fits := rankOf(path, name, query); fits {
					all = append(all, found{path, rank})
				}
			}
		}
		if query == "" {
			break // what is here, to begin with
		}
		level = below
	}
	return best(all)
}

// rankOf says how well a path fits.
func rankOf(path, name, query string) (rank int, fits bool) {
	path, name = strings.ToLower(path), strings.ToLower(name)
	switch {
	case path == query || path == query+"/":
		return 0, true
	case strings.HasPrefix(name, query):
		return 1, true
	case strings.HasPrefix(path, query):
		return 2, true
	case strings.Contains(name, query):
		return 3, true
	case strings.Contains(path, query):
		return 4, true
	}
	return 0, false
}

func best(all []found) []string {
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(len(a.path), len(b.path)), cmp.Compare(a.path, b.path))
	})
	paths := make([]string, 0, maxSuggestions)
	for _, f := range all[:min(len(all), maxSuggestions)] {
		paths = append(paths, f.path)
	}
	return paths
}

// within reports whether a real path is a folder or lies in it.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
