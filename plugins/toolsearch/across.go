package toolsearch

import (
	"bytes"
	"context"
	"io"
	"regexp"

	"dsh/plugins/internal/textfile"
)

// maxAcross bounds the files that are searched for what stretches over lines, in
// bytes: such a file is in memory as a whole.
const maxAcross = 4 << 20

// acrossLines finds an expression whose matches may stretch over lines.
type acrossLines struct {
	first *regexp.Regexp
	// next finds the next match in a text that begins with one character of what
	// stands in front, so that the expression sees what it may look back at. The
	// match is its first group.
	next *regexp.Regexp
}

// newAcrossLines takes an expression that compiles. In it . matches a line end,
// too, and ^ and $ match at the lines.
func newAcrossLines(pattern string) (*acrossLines, error) {
	first, err := regexp.Compile(`(?ms)` + pattern)
	if err != nil {
		return nil, err
	}
	next, err := regexp.Compile(`\A(?s:.)(?s:.*?)((?ms)` + pattern + `)`)
	if err != nil {
		return nil, err
	}
	return &acrossLines{first, next}, nil
}

// each gives the matches of a text in order, until visit says that it is enough.
// Between two matches it looks whether the search is still wanted.
func (a *acrossLines) each(ctx context.Context, text []byte, visit func(start, end int) bool) error {
	at := a.first.FindIndex(text)
	for at != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !visit(at[0], at[1]) {
			return nil
		}
		// An empty match must not be found again.
		from := at[1]
		if at[1] == at[0] {
			from++
		}
		if from > len(text) {
			return nil
		}
		// The last byte of a longer character does for it: what an expression can see
		// of either is that it is no letter of ASCII and no line end.
		found := a.next.FindSubmatchIndex(text[from-1:])
		if found == nil {
			return nil
		}
		at = []int{from - 1 + found[2], from - 1 + found[3]}
	}
	return nil
}

// file searches a file that is not too large.
func (a *acrossLines) file(ctx context.Context, m *matcher, f io.Reader, size int64) (res fileResult, err error) {
	if size > maxAcross {
		res.tooLarge = true
		return res, nil
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxAcross))
	if err != nil {
		return res, err
	}
	enc := textfile.Sniff(raw)
	if enc == textfile.Binary {
		res.binary = true
		return res, nil
	}
	text := raw[len(enc.BOM()):]
	if enc == textfile.UTF16LE || enc == textfile.UTF16BE {
		if text, err = io.ReadAll(enc.Reader(bytes.NewReader(text))); err != nil {
			return res, err
		}
	}
	if m.filter.refuses(text) {
		return res, nil
	}
	// line is the number of the one that begins at lineStart; shown is the last that
	// was kept.
	line, lineStart, shown := 1, 0, 0
	err = a.each(ctx, text, func(start, end int) bool {
		res.count++
		if m.counting {
			return res.count < m.most
		}
		begin := bytes.LastIndexByte(text[:start], '\n') + 1
		line += bytes.Count(text[lineStart:begin], []byte{'\n'})
		lineStart = begin
		last := end
		if end > start && text[end-1] == '\n' {
			last-- // the line end belongs to the line before
		}
		n := line
		for pos := begin; pos <= last && len(res.hits) < m.most; n++ {
			stop := bytes.IndexByte(text[pos:], '\n')
			if stop += pos; stop < pos {
				stop = len(text)
			}
			from, to := pos, stop
			if m.parts {
				from, to = max(pos, start), min(stop, end)
			}
			if part := bytes.TrimSuffix(text[from:max(from, to)], []byte{'\r'}); m.parts && len(part) > 0 || !m.parts && n > shown {
				res.hits = append(res.hits, hit{n, m.excerpt(part, []int{0, 0})})
				shown = n
			}
			pos = stop + 1
		}
		return len(res.hits) < m.most
	})
	return res, err
}
