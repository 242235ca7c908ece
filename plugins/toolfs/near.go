package toolfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// nearScan bounds the names of a folder that are looked at.
	nearScan = 2000
	// nearNames is how many are offered.
	nearNames = 3
)

// near says what there is in place of a path that does not exist: names like it
// in its folder, or the part of the path that does exist. It begins with "; ".
func near(path string) string {
	dir, base := filepath.Split(path)
	f, err := os.Open(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("; the folder %q does not exist either, only %q does", filepath.Clean(dir), deepest(dir))
		}
		return ""
	}
	defer f.Close()
	names, err := f.Readdirnames(nearScan)
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	type candidate struct {
		name string
		cost int
	}
	var like []candidate
	for _, name := range names {
		if cost, ok := likeness(base, name); ok {
			like = append(like, candidate{name, cost})
		}
	}
	if len(like) == 0 {
		return ""
	}
	slices.SortFunc(like, func(a, b candidate) int {
		if a.cost != b.cost {
			return a.cost - b.cost
		}
		return strings.Compare(a.name, b.name)
	})
	quoted := make([]string, 0, nearNames)
	for _, c := range like[:min(len(like), nearNames)] {
		quoted = append(quoted, fmt.Sprintf("%q", filepath.Join(dir, c.name)))
	}
	return "; did you mean " + strings.Join(quoted, " or ") + "?"
}

// deepest is the part of a path that exists.
func deepest(path string) string {
	for path = filepath.Clean(path); ; path = filepath.Dir(path) {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
	}
}

// likeness compares two names without respect to case; less is more alike.
func likeness(a, b string) (cost int, ok bool) {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if len(a) > 255 || len(b) > 255 {
		return 0, false
	}
	longest := max(utf8.RuneCountInString(a), utf8.RuneCountInString(b))
	cost = distance([]rune(a), []rune(b))
	if cost*3 <= longest {
		return cost, true
	}
	stem := func(name string) string { return strings.TrimSuffix(name, filepath.Ext(name)) }
	same := stem(a) != "" && stem(a) == stem(b)
	return cost, same || len(a) >= 4 && strings.Contains(b, a)
}

// distance counts the letters to change, add or remove.
func distance(a, b []rune) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
