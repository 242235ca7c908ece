package toolfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"dsh/kernel/tool"
)

type editParams struct {
	FilePath   string `json:"file_path" jsonschema:"The file to edit: an absolute path, or one relative to the working directory."`
	OldString  string `json:"old_string" jsonschema:"The text to replace. Empty only to create a file."`
	NewString  string `json:"new_string" jsonschema:"The text to put in its place. Empty to delete old_string."`
	ReplaceAll bool   `json:"replace_all,omitzero" jsonschema:"Replace old_string wherever it is, not only in one place."`
}

func (f *Files) callEdit(ctx context.Context, in tool.Invocation, p editParams) (tool.Result, error) {
	if r := p.refused(); r != nil {
		return *r, nil
	}
	return f.change(ctx, in, "edit", p.FilePath, f.planEdit(p), inTags)
}

// refused says what is wrong with an edit whatever the file holds.
func (p *editParams) refused() *tool.Result {
	if unify(p.OldString) != unify(p.NewString) {
		return nil
	}
	r := failed(codeArguments, "cannot edit %q: old_string and new_string are the same but for line ends; nothing would change", p.FilePath)
	return &r
}

func (f *Files) planEdit(p editParams) plan {
	return func(path string) (change, *tool.Result) {
		refuse := func(r tool.Result) (change, *tool.Result) { return change{}, &r }
		d, err := load(path, f.config.EditBytes)
		switch {
		case errors.Is(err, fs.ErrNotExist) && p.OldString == "":
			data, err := d.enc.EncodeString(p.NewString)
			if err != nil {
				return refuse(f.describe("edit", path, err))
			}
			return change{data: data, after: p.NewString, comparable: true, said: fmt.Sprintf("Created file (%s)", counted(countTextLines(p.NewString), "line"))}, nil
		case errors.Is(err, errBinary):
			return refuse(failed(codeBinary, "cannot edit %q: it is binary (%d bytes); change it with a command", path, d.info.Size()))
		case errors.Is(err, errTooLarge):
			return refuse(failed(codeTooLarge, "cannot edit %q: it is larger than %d bytes; change it with a command such as sed", path, f.config.EditBytes))
		case err != nil:
			return refuse(f.describe("edit", path, err))
		case p.OldString == "" && d.text != "":
			return refuse(failed(codeArguments, "cannot edit %q: it exists and is not empty, so old_string must say what to replace; to replace all of it use %s", path, f.writeName))
		}
		after, at, err := substitute(d.text, p.OldString, p.NewString, p.ReplaceAll, f.config.EditBytes)
		switch {
		case errors.Is(err, errTooLarge):
			return refuse(failed(codeTooLarge, "cannot edit %q: it would become larger than %d bytes", path, f.config.EditBytes))
		case errors.Is(err, errTooMany):
			return refuse(failed(codeTooLarge, "cannot edit %q: old_string is in it %d times, more than one call replaces; change it with a command such as sed", path, at.count))
		case errors.Is(err, errNoMatch):
			return refuse(failed(codeNoMatch, "cannot edit %q: old_string is not in it%s", path, f.similar(d.text, p.OldString)))
		case err != nil:
			return refuse(failed(codeNotUnique, "cannot edit %q: old_string is in it %d times, %s; add lines around it to make it unique, or set replace_all", path, at.count, at.where()))
		}
		data, err := d.enc.EncodeString(after)
		if err != nil {
			return refuse(f.describe("edit", path, err))
		}
		said := fmt.Sprintf("Updated file (%s, %s)", counted(at.count, "replacement"), at.where())
		return change{old: d.info, state: f.stateOf(d, true), data: data, before: d.text, after: after, comparable: true, said: said}, nil
	}
}

// where names the lines of the first matches.
func (m matches) where() string {
	numbers := make([]string, len(m.lines))
	for i, n := range m.lines {
		numbers[i] = strconv.Itoa(n)
	}
	s := "line " + numbers[0]
	if len(numbers) > 1 {
		s = "lines " + strings.Join(numbers, ", ")
	}
	if m.count > len(numbers) {
		s += ", …"
	}
	return s
}

// similar points at the line of a text that is most like the start of what was
// looked for. It begins with "; " if it has something to say.
func (f *Files) similar(text, old string) string {
	text, old = unify(text), unify(old)
	if bare, ok := f.withoutNumbers(old); ok && strings.Contains(text, bare) {
		return fmt.Sprintf("; leave out the line numbers that %s puts in front of each line", f.readName)
	}
	var wanted string
	for line := range strings.SplitSeq(old, "\n") {
		if wanted = strings.TrimSpace(line); wanted != "" {
			break
		}
	}
	if wanted == "" {
		return ""
	}
	bestLine, bestText, best := 0, "", 0.6
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		have := strings.TrimSpace(line)
		if have == wanted {
			return fmt.Sprintf("; line %d begins the same but what follows or the white space differs; read the file there and copy it exactly", n)
		}
		if score := alike(wanted, have); score > best {
			bestLine, bestText, best = n, have, score
		}
	}
	if bestLine == 0 {
		return "; read the file and copy the text exactly"
	}
	shown, cut := cutRunes(bestText, 200)
	if cut {
		shown += "…"
	}
	return fmt.Sprintf("; the most similar line is %d: %s", bestLine, shown)
}

// alike compares what two lines have in common at both ends with their length.
func alike(a, b string) float64 {
	longest, shortest := max(len(a), len(b)), min(len(a), len(b))
	if longest == 0 || shortest*2 < longest {
		return 0
	}
	same := 0
	for same < shortest && a[same] == b[same] {
		same++
	}
	end := 0
	for end < shortest-same && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	return float64(same+end) / float64(longest)
}

// withoutNumbers takes the number, such as "12: ", from the front of every line,
// if all have it.
func (f *Files) withoutNumbers(text string) (bare string, ok bool) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line == "" && i == len(lines)-1 {
			break
		}
		number, rest, found := strings.Cut(line, f.numberEnd)
		if !found {
			number, found = strings.CutSuffix(line, strings.TrimSpace(f.numberEnd))
			rest = ""
		}
		if _, err := strconv.Atoi(strings.TrimSpace(number)); err != nil || !found {
			return "", false
		}
		lines[i] = rest
	}
	return strings.Join(lines, "\n"), true
}
