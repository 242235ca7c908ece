package toolfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"dsh/kernel/tool"
	"dsh/plugins/internal/dialect"
	"dsh/plugins/internal/textfile"
	"dsh/sdkproto/wirejson"
)

// notebookParams are the parameters of NotebookEdit (spec stream-json 9).
type notebookParams struct {
	NotebookPath string `json:"notebook_path" jsonschema:"The absolute path of the notebook, a .ipynb file."`
	CellID       string `json:"cell_id,omitzero" jsonschema:"The cell to replace or delete, or the one to insert behind: its id, or its number as in cell-0 for the first. Without it a cell is inserted in front of all others."`
	NewSource    string `json:"new_source" jsonschema:"The new text of the cell. Empty when it is deleted."`
	CellType     string `json:"cell_type,omitzero" jsonschema:"What the cell is to be; needed to insert one, by default what it was." enum:"code,markdown"`
	EditMode     string `json:"edit_mode,omitzero" jsonschema:"replace, which is the default, insert or delete." enum:"replace,insert,delete"`
}

// notebookResult is the structured result.
type notebookResult struct {
	NewSource    string `json:"new_source"`
	CellID       string `json:"cell_id,omitzero"`
	CellType     string `json:"cell_type"`
	Language     string `json:"language"`
	EditMode     string `json:"edit_mode"`
	NotebookPath string `json:"notebook_path"`
	OriginalFile string `json:"original_file"`
	UpdatedFile  string `json:"updated_file"`
	// Omitted names the members that were left out because they are too long.
	Omitted []string `json:"omitted,omitzero"`
}

// Ways to edit a notebook.
const (
	replaceCell = "replace"
	insertCell  = "insert"
	deleteCell  = "delete"
)

const codeCell = "code"

func (f *Files) notebookTool() tool.Tool {
	return tool.Typed(tool.Spec{
		Name: "NotebookEdit",
		Description: "Replaces, inserts or deletes one cell of a Jupyter notebook (.ipynb, format 4). Read shows the cells with their ids. " +
			"The outputs of a code cell that is replaced are dropped.",
		Destructive: true,
		Subject:     tool.Subject{Rule: "NotebookEdit", Kind: tool.SubjectPath, Member: "notebook_path"},
	}, f.callNotebook)
}

func (f *Files) callNotebook(ctx context.Context, in tool.Invocation, p notebookParams) (tool.Result, error) {
	if p.EditMode == "" {
		p.EditMode = replaceCell
	}
	done := notebookResult{NewSource: p.NewSource, CellType: p.CellType, EditMode: p.EditMode}
	if p.EditMode == deleteCell {
		done.NewSource = ""
	}
	res, err := f.change(ctx, in, "edit", p.NotebookPath, func(path string) (change, *tool.Result) {
		refuse := func(r tool.Result) (change, *tool.Result) { return change{}, &r }
		if !strings.EqualFold(filepath.Ext(path), ".ipynb") {
			return refuse(failed(codeArguments, "cannot edit %q: it is no notebook (.ipynb); use Edit", path))
		}
		d, err := load(path, f.config.EditBytes)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return refuse(f.describe("edit", path, err))
		case errors.Is(err, errTooLarge):
			return refuse(failed(codeTooLarge, "cannot edit %q: it is larger than %d bytes", path, f.config.EditBytes))
		case err != nil:
			return refuse(f.describe("edit", path, err))
		}
		after, err := editNotebook(d.text, p, &done)
		if err != nil {
			return refuse(failed(codeNotebook, "cannot edit %q: %v", path, err))
		}
		if int64(len(after)) > f.config.EditBytes {
			return refuse(failed(codeTooLarge, "cannot edit %q: it would become larger than %d bytes", path, f.config.EditBytes))
		}
		data, err := d.enc.EncodeString(after)
		if err != nil {
			return refuse(f.describe("edit", path, err))
		}
		return change{old: d.info, state: f.stateOf(d, true), data: data, before: d.text, after: after}, nil
	}, func(path string, c change) tool.Result {
		l := limited{&done.Omitted}
		done.NotebookPath, done.NewSource = path, l.text("new_source", done.NewSource)
		done.OriginalFile, done.UpdatedFile = l.text("original_file", c.before), l.text("updated_file", c.after)
		said := map[string]string{replaceCell: "Updated cell %s of %s.", insertCell: "Inserted cell %s into %s.", deleteCell: "Deleted cell %s from %s."}[p.EditMode]
		text := fmt.Sprintf(said, printable(done.CellID), printable(path))
		if c.noticed {
			text += hadChanged
		}
		res, err := withMeta(tool.TextResult(text), done)
		if err != nil {
			res = tool.TextResult(text)
		}
		return res
	})
	return dialect.Bare(res), err
}

// editNotebook gives the text of a notebook after an edit. Everything that the
// edit is not about stays byte for byte, members that nobody here knows included.
// It fills in which cell it was, of what type and language.
func editNotebook(text string, p notebookParams, done *notebookResult) (string, error) {
	if !wirejson.Valid([]byte(text)) {
		return "", errors.New("it is not valid JSON; mend it with Edit first")
	}
	top := membersOf(text, 0)
	cells, ok := top["cells"]
	if !ok || text[cells.start] != '[' {
		return "", errors.New("it has no list of cells; only notebooks of format 4 can be edited")
	}
	done.Language = language(text, top)
	items := itemsOf(text, cells.start)
	at := -1
	if p.CellID != "" {
		if at = findCell(text, items, p.CellID); at < 0 {
			return "", fmt.Errorf("it has no cell %s; %s", shorten(p.CellID), cellNames(text, items))
		}
		done.CellID = p.CellID
	} else if p.EditMode != insertCell {
		return "", fmt.Errorf("cell_id is missing; %s", cellNames(text, items))
	}
	if p.EditMode == insertCell {
		if p.CellType == "" {
			return "", errors.New("cell_type is missing; a new cell is code or markdown")
		}
		return insertInto(text, cells, items, at, p, wantsIDs(text, top), done), nil
	}
	cell := items[at]
	was := stringAt(text, membersOf(text, cell.start)["cell_type"])
	if p.EditMode == deleteCell {
		done.CellType = was
		return removeItem(text, items, at), nil
	}
	if done.CellType = p.CellType; done.CellType == "" {
		done.CellType = was
	}
	return replaceIn(text, cell.start, was, p.NewSource, done.CellType)
}

// replaceIn gives the cell that begins at a place a new source, and a new type if
// that changes.
func replaceIn(text string, cell int, was, source, kind string) (string, error) {
	if kind != codeCell && was == codeCell {
		// The format forbids these in other cells.
		for _, name := range []string{"outputs", "execution_count"} {
			if m, ok := membersOf(text, cell)[name]; ok {
				cut := memberWithComma(text, span{start: cell, end: skipValue(text, cell)}, m)
				text = text[:cut.start] + text[cut.end:]
			}
		}
	}
	members := membersOf(text, cell)
	at, ok := members["source"]
	if !ok {
		return "", errors.New("the cell has no source; only notebooks of format 4 can be edited")
	}
	edits := []splice{{at, sourceJSON(source, text[at.start] == '[', indentBefore(text, at.key))}}
	if kind != was {
		if m, ok := members["cell_type"]; ok {
			edits = append(edits, splice{m, quoted(kind)})
		}
	}
	if kind == codeCell {
		// What the cell gave was given by another text.
		missing := ""
		for _, m := range [][2]string{{"outputs", "[]"}, {"execution_count", "null"}} {
			if has, ok := members[m[0]]; ok {
				edits = append(edits, splice{has, m[1]})
			} else {
				missing += ", " + quoted(m[0]) + ": " + m[1]
			}
		}
		if missing != "" {
			end := lastEnd(members)
			edits = append(edits, splice{span{start: end, end: end}, missing})
		}
	}
	return apply(text, edits), nil
}

// insertInto puts a new cell behind the one at a place, -1 for the front.
func insertInto(text string, cells span, items []span, at int, p notebookParams, withID bool, done *notebookResult) string {
	outer := indentBefore(text, cells.key)
	inner := outer + step(outer)
	if len(items) > 0 {
		inner = indentBefore(text, items[0].start)
	}
	deeper := inner + step(outer)
	if outer == "" || inner == "" {
		outer, inner, deeper = "", "", ""
	}
	var fields []string
	field := func(name, value string) { fields = append(fields, deeper+quoted(name)+": "+value) }
	field("cell_type", quoted(p.CellType))
	if p.CellType == codeCell {
		field("execution_count", "null")
	}
	done.CellID = "cell-" + strconv.Itoa(at+1)
	if withID {
		done.CellID = uuid.NewString()[:8]
		field("id", quoted(done.CellID))
	}
	field("metadata", "{}")
	if p.CellType == codeCell {
		field("outputs", "[]")
	}
	field("source", sourceJSON(p.NewSource, true, deeper))
	sep := ","
	if deeper == "" {
		sep = ", "
	}
	cell := "{" + strings.Join(fields, sep) + inner + "}"
	switch {
	case len(items) == 0:
		return text[:cells.start] + "[" + inner + cell + outer + "]" + text[cells.end:]
	case at < 0:
		first := items[0].start
		return text[:first] + cell + sepWith(inner) + text[first:]
	}
	end := items[at].end
	return text[:end] + sepWith(inner) + cell + text[end:]
}

func sepWith(indent string) string {
	if indent == "" {
		return ", "
	}
	return "," + indent
}

// findCell gives the place of a cell by its id, or by its number as cell-N or N.
func findCell(text string, items []span, id string) int {
	for i, item := range items {
		if m, ok := membersOf(text, item.start)["id"]; ok && stringAt(text, m) == id {
			return i
		}
	}
	n, err := strconv.Atoi(strings.TrimPrefix(id, "cell-"))
	if err != nil || n < 0 || n >= len(items) {
		return -1
	}
	return n
}

// cellNames lists the cells that there are.
func cellNames(text string, items []span) string {
	if len(items) == 0 {
		return "it has no cells"
	}
	const most = 30
	var names []string
	for i, item := range items[:min(len(items), most)] {
		name := "cell-" + strconv.Itoa(i)
		if m, ok := membersOf(text, item.start)["id"]; ok {
			name = shorten(stringAt(text, m))
		}
		names = append(names, name)
	}
	if len(items) > most {
		names = append(names, fmt.Sprintf("and %d more", len(items)-most))
	}
	return "it has " + strings.Join(names, ", ")
}

func shorten(name string) string {
	s, _ := textfile.Cut(name, 64)
	return s
}

// wantsIDs reports whether cells have ids: since format 4.5.
func wantsIDs(text string, top map[string]span) bool {
	number := func(name string) int {
		m := top[name]
		n, _ := strconv.Atoi(text[m.start:m.end]) // 0 where it says nothing usable
		return n
	}
	major := number("nbformat")
	return major > 4 || major == 4 && number("nbformat_minor") >= 5
}

// language is that of the notebook's code; Python when it does not say.
func language(text string, top map[string]span) string {
	meta, ok := top["metadata"]
	if !ok || text[meta.start] != '{' {
		return "python"
	}
	members := membersOf(text, meta.start)
	for _, place := range [][2]string{{"language_info", "name"}, {"kernelspec", "language"}} {
		if m, ok := members[place[0]]; ok && text[m.start] == '{' {
			if name := stringAt(text, membersOf(text, m.start)[place[1]]); name != "" {
				return name
			}
		}
	}
	return "python"
}

// sourceJSON writes a source as a list of its lines, which is how notebooks are
// kept, or as one string.
func sourceJSON(source string, list bool, indent string) string {
	if !list {
		return quoted(source)
	}
	if source == "" {
		return "[]"
	}
	deeper, sep := indent+step(indent), ","
	if indent == "" {
		deeper, sep = "", ", "
	}
	var lines []string
	for line := range strings.Lines(source) {
		lines = append(lines, deeper+quoted(line))
	}
	return "[" + strings.Join(lines, sep) + indent + "]"
}

func quoted(s string) string { return string(wirejson.AppendString(nil, s)) }
