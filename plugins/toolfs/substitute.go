package toolfs

import (
	"errors"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

var (
	errNoMatch   = errors.New("no match")
	errNotUnique = errors.New("not unique")
	errTooMany   = errors.New("too many matches")
)

const (
	// maxReplaced bounds the places that one call replaces.
	maxReplaced = 1 << 20
	// maxNamed bounds those whose lines are named.
	maxNamed = 10
)

// matches says where a string is in a text.
type matches struct {
	count int
	// lines holds the line numbers of the first few; the first line is 1.
	lines []int
}

// substitute replaces old by new in a text. CRLF and LF count as equal; lines
// that stay keep their bytes, and line ends that are new have the text's main
// style (case B65). Errors: errNoMatch; errNotUnique, unless all is set;
// errTooMany; errTooLarge for more than most bytes.
func substitute(text, old, new string, all bool, most int64) (after string, at matches, err error) {
	if old == "" {
		return new, matches{1, []int{1}}, nil
	}
	u := newUnified(text)
	old = unify(old)
	keep := maxNamed
	if all {
		keep = maxReplaced
	}
	starts, count := find(u.text, old, keep, !all)
	at = matches{count, u.lines(starts[:min(len(starts), maxNamed)])}
	switch {
	case count == 0:
		return "", at, errNoMatch
	case count > 1 && !all:
		return "", at, errNotUnique
	case count > len(starts):
		return "", at, errTooMany
	}
	end := lineEnd(text)
	if end == "" {
		end = lineEnd(new)
	}
	edits := inner(old, unify(new), len(u.dropped) > 0)
	for i := range edits {
		edits[i].New = withEnds(edits[i].New, end)
	}
	size := int64(len(text))
	for _, e := range edits {
		size += int64(count) * int64(len(e.New)-(e.End-e.Start))
	}
	// Carriage returns that go with what is replaced are not counted, so the bound
	// may be met a little early.
	if size > most {
		return "", at, errTooLarge
	}
	var b strings.Builder
	b.Grow(int(size))
	from := 0
	for _, s := range starts {
		for _, e := range edits {
			b.WriteString(text[from:u.original(s+e.Start)])
			b.WriteString(e.New)
			from = u.original(s + e.End)
		}
	}
	b.WriteString(text[from:])
	return b.String(), at, nil
}

// find counts the places of old in a text and gives the first keep of them.
// Those that overlap are found only on request: they make a match ambiguous,
// but only one can be replaced.
func find(text, old string, keep int, overlapping bool) (starts []int, count int) {
	step := len(old)
	if overlapping {
		step = 1
	}
	for from := 0; ; count++ {
		i := strings.Index(text[from:], old)
		if i < 0 {
			return starts, count
		}
		if count < keep {
			starts = append(starts, from+i)
		}
		from += i + step
	}
}

// inner gives the edits that turn old into new and leave alone the line ends
// that both have. In a text with CRLF that matters: what is not touched keeps
// the bytes it has.
func inner(old, new string, crlf bool) []udiff.Edit {
	edits := []udiff.Edit{{Start: 0, End: len(old), New: new}}
	if crlf {
		edits = udiff.Lines(old, new)
	}
	for i := range edits {
		e := &edits[i]
		gone := old[e.Start:e.End]
		head := 0
		for head < len(gone) && head < len(e.New) && gone[head] == e.New[head] {
			head++
		}
		tail := 0
		for tail < len(gone)-head && tail < len(e.New)-head && gone[len(gone)-1-tail] == e.New[len(e.New)-1-tail] {
			tail++
		}
		e.Start, e.End, e.New = e.Start+head, e.End-tail, e.New[head:len(e.New)-tail]
	}
	return edits
}

// unified is a text with LF ends that knows its original.
type unified struct {
	text string
	// dropped holds the place in text of each LF that was a CRLF.
	dropped []int
}

func newUnified(text string) unified {
	if !strings.Contains(text, "\r\n") {
		return unified{text: text}
	}
	u := unified{text: unify(text), dropped: make([]int, 0, strings.Count(text, "\r\n"))}
	for from := 0; ; {
		i := strings.Index(text[from:], "\r\n")
		if i < 0 {
			return u
		}
		u.dropped = append(u.dropped, from+i-len(u.dropped))
		from += i + 2
	}
}

// original gives the place in the original text of one in u.text; for a line end
// that is before its CR.
func (u unified) original(i int) int {
	n, _ := slices.BinarySearch(u.dropped, i)
	return i + n
}

// lines gives the number of the line of each place; places are in order.
func (u unified) lines(places []int) []int {
	numbers := make([]int, len(places))
	line, from := 1, 0
	for i, p := range places {
		line += strings.Count(u.text[from:p], "\n")
		numbers[i], from = line, p
	}
	return numbers
}
