package settingsfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"dsh/plugins/internal/textfile"
	"dsh/sdkproto/wirejson"
)

// New is the document of a file that is not there yet.
func New() *Document {
	d, err := parse(textfile.UTF8, []byte("{}\n"))
	if err != nil {
		panic(err) // cannot happen
	}
	return d
}

// Set gives the member at a path of names a value, making the objects on the way
// that are missing. A value on the way that is no object is an error.
func (d *Document) Set(value any, path ...string) error {
	n := d.root
	for i, key := range path {
		if d.plain[n.start] != '{' {
			return fmt.Errorf("%q is no object; mend it first", strings.Join(path[:i], "."))
		}
		_, next := n.member(key)
		if next == nil {
			for j := len(path) - 1; j > i; j-- {
				value = map[string]any{path[j]: value}
			}
			return d.insert(n, key, value)
		}
		n = next
	}
	text, err := d.render(value, d.lineIndent(n.start))
	if err != nil {
		return err
	}
	return d.replace(splice{n.start, n.end, text})
}

// insert adds a member at the end of an object.
func (d *Document) insert(n *node, key string, value any) error {
	brace := n.end - 1
	end := brace // behind the last thing inside the braces, comments included
	for strings.IndexByte(" \t\r\n", d.text[end-1]) >= 0 {
		end--
	}
	outer := d.lineIndent(n.start)
	indent, newline := outer+d.unit(), d.newline()
	oneLine := len(n.members) > 0 && !bytes.Contains(d.text[n.start:n.end], []byte("\n"))
	var edits []splice
	if len(n.members) > 0 {
		last := n.members[len(n.members)-1]
		if oneLine {
			indent, newline = "", " "
		} else if own := d.lineIndent(last.start); strings.TrimSpace(string(d.text[d.lineStart(last.start):last.start])) == "" {
			indent = own
		}
		if !slices.ContainsFunc(d.trailing, func(at int) bool { return at >= last.value.end && at < brace }) {
			edits = append(edits, splice{last.value.end, last.value.end, ","})
		}
	}
	text, err := d.render(value, indent)
	if err != nil {
		return err
	}
	text = newline + indent + string(wirejson.AppendString(nil, key)) + ": " + text
	if !oneLine {
		text += newline + outer
	}
	return d.replace(append(edits, splice{end, brace, text})...)
}

// Remove takes the member at a path of names away; false when it is not there.
func (d *Document) Remove(path ...string) (bool, error) {
	if len(path) == 0 || !d.Has(path...) {
		return false, nil
	}
	n := d.root
	for _, key := range path[:len(path)-1] {
		_, n = n.member(key)
	}
	i, value := n.member(path[len(path)-1])
	from, to := n.members[i].start, value.end
	var edits []splice
	if comma := d.commaBehind(to, n.end-1); comma >= 0 {
		to = comma + 1
	} else if i > 0 {
		comma := d.commaBehind(n.members[i-1].value.end, from)
		edits = append(edits, splice{comma, comma + 1, ""})
	}
	// The line goes as a whole when there is nothing else on it.
	line, rest := d.lineStart(from), to
	for rest < len(d.text) && strings.IndexByte(" \t\r", d.text[rest]) >= 0 {
		rest++
	}
	if strings.TrimSpace(string(d.text[line:from])) == "" && d.text[rest] == '\n' && line > 0 {
		from, to = line, rest+1
	} else if d.text[rest] != '\n' && i+1 < len(n.members) {
		to = rest
	}
	return true, d.replace(append(edits, splice{from, to, ""})...)
}

// commaBehind gives the place of the comma that comes next between two places,
// a trailing one included; -1 for none.
func (d *Document) commaBehind(from, to int) int {
	for i := from; i < to; i++ {
		if d.plain[i] == ',' || slices.Contains(d.trailing, i) {
			return i
		}
	}
	return -1
}

// splice puts text in the place of text[from:to].
type splice struct {
	from, to int
	text     string
}

// replace makes the edits, which are in order and apart, and reads the result.
func (d *Document) replace(edits ...splice) error {
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, d.text[at:e.from]...), e.text...)
		at = e.to
	}
	next, err := parse(d.encoding, append(out, d.text[at:]...))
	if err != nil {
		return fmt.Errorf("the edited text is not usable: %w", err)
	}
	*d = *next
	return nil
}

// render writes a value over several lines, the first without indent.
func (d *Document) render(value any, indent string) (string, error) {
	raw, err := wirejson.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encode a setting: %w", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, indent, d.unit()); err != nil {
		return "", fmt.Errorf("encode a setting: %w", err)
	}
	return strings.ReplaceAll(b.String(), "\n", d.newline()), nil
}

func (d *Document) newline() string {
	if bytes.Contains(d.text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// unit is what the file indents by.
func (d *Document) unit() string {
	if len(d.root.members) > 0 {
		first := d.root.members[0].start
		if indent := d.lineIndent(first); indent != "" && len(indent) == first-d.lineStart(first) {
			return indent
		}
	}
	return "  "
}

func (d *Document) lineStart(at int) int { return bytes.LastIndexByte(d.text[:at], '\n') + 1 }

// lineIndent is the white space at the start of a place's line.
func (d *Document) lineIndent(at int) string {
	line := d.text[d.lineStart(at):]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}
