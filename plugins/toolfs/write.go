package toolfs

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"strings"

	"dsh/kernel/tool"
	"dsh/kernel/workspace"
	"dsh/plugins/internal/textfile"
)

type writeParams struct {
	FilePath string `json:"file_path" jsonschema:"The file to write: an absolute path, or one relative to the working directory."`
	Content  string `json:"content" jsonschema:"All that the file shall hold."`
}

func (f *Files) callWrite(ctx context.Context, in tool.Invocation, p writeParams) (tool.Result, error) {
	return f.change(ctx, in, "write", p.FilePath, f.planWrite(p.Content), inTags)
}

// plan says what a call is going to do to the file at a path, or why it must not.
type plan func(path string) (change, *tool.Result)

func (f *Files) planWrite(content string) plan {
	return func(path string) (change, *tool.Result) {
		d, known, res := f.existing(path)
		if res != nil {
			return change{}, res
		}
		c := change{old: d.info, whole: true, before: d.text, after: content, comparable: known}
		if d.info != nil {
			c.state = f.stateOf(d, known)
		}
		text := content
		if known && d.info != nil {
			// A new text in the style of the file that was there (case B65).
			if d.enc != textfile.UTF8 {
				text = strings.TrimPrefix(text, textfile.UTF8BOM.BOM())
			}
			if !strings.Contains(text, "\r\n") {
				text = withEnds(text, lineEnd(d.text))
			}
			c.after = text
		}
		data, err := d.enc.EncodeString(text)
		if err != nil {
			r := f.describe("write", path, err)
			return change{}, &r
		}
		c.data = data
		c.said = fmt.Sprintf("Updated file (%s)", counted(countTextLines(text), "line"))
		if d.info == nil {
			c.said = strings.Replace(c.said, "Updated", "Created", 1)
		}
		return c, nil
	}
}

// existing loads the file that is to be replaced, if there is one and it is
// text that fits; known is false if only its info is of use.
func (f *Files) existing(path string) (d document, known bool, res *tool.Result) {
	d, err := load(path, f.config.EditBytes)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return d, true, nil
	case d.info != nil:
		// What it holds is to be replaced whatever it is, and tells no style.
		return document{info: d.info}, false, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		// A file that may be written but not read.
		if info, statErr := os.Stat(path); statErr == nil {
			return document{info: info}, false, nil
		}
	}
	r := f.describe("write", path, err)
	return d, false, &r
}

// change is what a call is going to do to a file.
type change struct {
	// old describes the file, nil for one to be created; state is what it was then.
	old   fs.FileInfo
	state fileState
	// whole says that nothing of the file stays, so that nobody's work may be in it.
	whole bool
	// noticed says that somebody else had changed the file; it is filled in for show.
	noticed bool
	data    string
	// before and after are the texts, for the diff, if they are comparable.
	before, after string
	comparable    bool
	// said tells the model what was done.
	said string
}

// change carries out a call that changes a file: it finds the file behind the
// path, holds it, asks what to do, and shows what was done to the absolute path.
func (f *Files) change(ctx context.Context, in tool.Invocation, doing, path string, what plan, show func(path string, c change) tool.Result) (tool.Result, error) {
	named, err := workspace.Resolve(in.CWD, path)
	if err != nil {
		return failed(codeArguments, "cannot %s: %v", doing, err), nil
	}
	real, err := target("", named)
	if err != nil {
		return f.describe(doing, named, err), nil
	}
	unlock, err := f.locks.lock(ctx, real)
	if err != nil {
		return tool.Result{}, err
	}
	defer unlock()
	if err := cancelled(ctx); err != nil {
		return tool.Result{}, err
	}
	c, res := what(real)
	if res != nil {
		return *res, nil
	}
	key := seenKey{in.SessionID, real}
	if c.noticed = c.old != nil && f.seen.changed(key, c.state); c.noticed && c.whole {
		f.seen.hold(key, c.state) // so the same call goes through when it comes again
		return failed(codeChanged, "cannot %s %q: another program changed it since it was last read or written here, and nothing of that would be left; "+
			"use %s to see what is new, or make the same call again to replace it all the same", doing, named, f.readName), nil
	}
	if err := replaceFile(ctx, real, c.data, c.old); err != nil {
		if gone := cancelled(ctx); gone != nil {
			return tool.Result{}, gone
		}
		return f.describe(doing, named, err), nil
	}
	f.left(key, c.data)
	return show(named, c), nil
}

// stateOf is the state of a document, with its sum if all of it was read.
func (f *Files) stateOf(d document, whole bool) fileState {
	s := stateOf(d.info)
	if whole {
		s.sum, s.whole = maphash.String(f.seen.seed, d.raw), true
	}
	return s
}

// left remembers what a call has written.
func (f *Files) left(key seenKey, data string) {
	info, err := os.Lstat(key.path)
	if err != nil {
		return // gone again; who writes it next makes a new one
	}
	s := stateOf(info)
	s.sum, s.whole = maphash.String(f.seen.seed, data), true
	f.seen.hold(key, s)
}

// hadChanged follows what a call says that it did.
const hadChanged = " Another program had changed the file since it was last read or written here."

// inTags shows a change under the dialect dsh.
func inTags(path string, c change) tool.Result {
	said := c.said
	if c.noticed {
		said += "." + hadChanged
	}
	out := tool.TextResult(fmt.Sprintf("<path>%s</path>\n<type>file</type>\n<content>\n%s\n</content>", printable(path), said))
	if c.comparable {
		out.Meta = meta(path, c.before, c.after)
	}
	return out
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
