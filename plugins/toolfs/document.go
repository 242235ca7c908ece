package toolfs

import (
	"errors"
	"io"
	"io/fs"
	"strings"

	"dsh/plugins/internal/textfile"
	"dsh/sdkproto/wirejson"
)

// document is a file's text and what a change has to keep about the file.
type document struct {
	// text has the line ends of the file, no byte-order mark, and in an UTF-8 file
	// whatever bytes there are.
	text string
	// raw is what the file holds, byte for byte.
	raw string
	enc textfile.Encoding
	// info describes the file; nil for one that does not exist.
	info fs.FileInfo
}

var (
	errBinary   = errors.New("it is binary")
	errTooLarge = errors.New("it is too large")
)

// load reads a whole file of at most max bytes. Errors: errBinary, errTooLarge,
// and those of textfile.Open.
func load(path string, max int64) (document, error) {
	f, info, err := textfile.Open(path)
	if err != nil {
		return document{}, err
	}
	defer f.Close()
	d := document{info: info}
	if info.Size() > max {
		return d, errTooLarge
	}
	// The size may be wrong: a file grows, and those of /proc have none.
	var raw strings.Builder
	raw.Grow(int(info.Size()))
	if _, err := io.CopyBuffer(&raw, io.LimitReader(f, max+1), make([]byte, 64<<10)); err != nil {
		return d, err
	}
	if int64(raw.Len()) > max {
		return d, errTooLarge
	}
	d.raw = raw.String()
	d.enc = textfile.Sniff([]byte(d.raw[:min(len(d.raw), textfile.SniffLen)]))
	switch body := d.raw[len(d.enc.BOM()):]; d.enc {
	case textfile.Binary:
		return d, errBinary
	case textfile.UTF16LE, textfile.UTF16BE:
		text, err := io.ReadAll(d.enc.Reader(strings.NewReader(body)))
		if err != nil {
			return d, err
		}
		d.text = string(text)
		back, err := d.enc.EncodeString(d.text)
		if err != nil || back != d.raw {
			return d, errors.New("its UTF-16 is damaged; change it with another program")
		}
	default:
		d.text = body
	}
	return d, nil
}

// lineEnd is the main style of a text: "\r\n" or "\n", or "" when it has no line
// end at all. Ties are LF.
func lineEnd(text string) string {
	all := strings.Count(text, "\n")
	crlf := strings.Count(text, "\r\n")
	switch {
	case all == 0:
		return ""
	case crlf > all-crlf:
		return "\r\n"
	}
	return "\n"
}

// unify gives a text with LF ends only.
func unify(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// withEnds gives a text of LF ends another style.
func withEnds(text, end string) string {
	if end != "\r\n" {
		return text
	}
	return strings.ReplaceAll(text, "\n", end)
}

const (
	// diffInput bounds the parts of texts that are compared, and diffOutput the diff,
	// in bytes: it is presentation only and is kept in the log for ever.
	diffInput  = 256 << 10
	diffOutput = 32 << 10
)

// presentation is the meta member of a result (spec jsonrpc 5.3).
type presentation struct {
	// Diff is a unified diff.
	Diff string `json:"diff"`
	// Truncated is set when Diff is not all of it.
	Truncated bool `json:"truncated,omitzero"`
}

// meta compares two texts of a file; nil if what differs is too long, or nothing.
func meta(path, before, after string) []byte {
	if before == after {
		return nil
	}
	u, ok := compare(path, before, after)
	if !ok {
		return nil
	}
	p := presentation{Diff: printable(u.String())}
	if len(p.Diff) > diffOutput {
		cut := p.Diff[:diffOutput]
		p.Diff, p.Truncated = cut[:strings.LastIndexByte(cut, '\n')+1], true
	}
	m, err := wirejson.Marshal(p)
	if err != nil {
		return nil
	}
	return m
}

// countTextLines counts lines as read does.
func countTextLines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}
