package profile

import (
	"fmt"
	"slices"
	"strings"
)

// DidYouMean gives the end of an error text, `; did you mean "x"?`, for the
// known name next to name, or nothing when none is near.
func DidYouMean(name string, known []string) string {
	best, least := "", len(name)/3+1
	for _, candidate := range known {
		if candidate == name {
			continue
		}
		d := distance(name, candidate)
		if strings.EqualFold(candidate, name) {
			d = 0
		}
		if d < least || d == least && best == "" {
			best, least = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// unknownKey is the text for a key that is not among known.
func unknownKey(key string, known []string) string {
	hint := DidYouMean(key, known)
	switch {
	case hint == "" && len(known) == 0:
		hint = "; no key is known here, remove it"
	case hint == "":
		shown := slices.Clone(known)
		slices.Sort(shown)
		const most = 20
		more := ""
		if len(shown) > most {
			shown, more = shown[:most], ", …"
		}
		hint = "; known keys: " + strings.Join(shown, ", ") + more
	}
	return fmt.Sprintf("unknown key %q%s", key, hint)
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours between two names.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	const longest = 100 // a key of foreign length must not cost quadratic time
	if len(s) > longest || len(t) > longest {
		return longest
	}
	before, last, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(s); i++ {
		row[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			row[j] = min(row[j-1]+1, last[j]+1, last[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(t)]
}
