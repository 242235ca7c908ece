package toolfs

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// notebook is as Jupyter writes them, with a member that nobody knows and a
// number that does not survive a floating point number.
const notebook = `{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {},
   "source": [
    "# Title\n",
    "text with \"cells\": [ and }"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "calc",
   "metadata": {"x-unknown": 12345678901234567890},
   "outputs": [
    {"output_type": "stream", "text": ["]}"]}
   ],
   "source": [
    "1 + 1"
   ]
  }
 ],
 "metadata": {
  "language_info": {
   "name": "julia"
  }
 },
 "nbformat": 4,
 "nbformat_minor": 5,
 "x-more": {"a": [1.50, 1e3]}
}
`

// replaced gives the notebook with parts of it in other words.
func replaced(t *testing.T, pairs ...string) string {
	t.Helper()
	s := notebook
	for i := 0; i < len(pairs); i += 2 {
		if strings.Count(s, pairs[i]) != 1 {
			t.Fatalf("%q is in the notebook %d times", pairs[i], strings.Count(s, pairs[i]))
		}
		s = strings.Replace(s, pairs[i], pairs[i+1], 1)
	}
	return s
}

const outputs = `"outputs": [
    {"output_type": "stream", "text": ["]}"]}
   ]`

// TestNotebookEdit: everything that an edit is not about stays byte for byte.
func TestNotebookEdit(t *testing.T) {
	for _, tc := range []struct {
		name string
		args args
		want string
		text string
		// meta are members of the structured result: id, type, mode.
		meta [3]string
	}{
		{"replace a code cell", args{"cell_id": "calc", "new_source": "2 + 2\n3"},
			replaced(t, `"1 + 1"`, `"2 + 2\n",`+"\n    "+`"3"`, `"execution_count": 3`, `"execution_count": null`, outputs, `"outputs": []`),
			"Updated cell calc of $DIR/n.ipynb.", [3]string{"calc", "code", "replace"}},
		{"replace text", args{"cell_id": "intro", "new_source": "é", "edit_mode": "replace"},
			replaced(t, `"# Title\n",`+"\n    "+`"text with \"cells\": [ and }"`, `"é"`),
			"Updated cell intro of $DIR/n.ipynb.", [3]string{"intro", "markdown", "replace"}},
		{"by number", args{"cell_id": "cell-0", "new_source": ""},
			replaced(t, "[\n    "+`"# Title\n",`+"\n    "+`"text with \"cells\": [ and }"`+"\n   ]", `[]`),
			"Updated cell cell-0 of $DIR/n.ipynb.", [3]string{"cell-0", "markdown", "replace"}},
		{"code becomes text", args{"cell_id": "calc", "new_source": "x", "cell_type": "markdown"},
			replaced(t, `"1 + 1"`, `"x"`, ",\n   "+outputs, "", ",\n   "+`"execution_count": 3`, "", "\"cell_type\": \"code\"", "\"cell_type\": \"markdown\""),
			"Updated cell calc of $DIR/n.ipynb.", [3]string{"calc", "markdown", "replace"}},
		{"delete the last", args{"cell_id": "calc", "new_source": "", "edit_mode": "delete"},
			notebook[:strings.Index(notebook, ",\n  {\n   \"cell_type\": \"code\"")] + notebook[strings.Index(notebook, "\n ],\n \"metadata\""):],
			"Deleted cell calc from $DIR/n.ipynb.", [3]string{"calc", "code", "delete"}},
		{"delete the first", args{"cell_id": "intro", "new_source": "", "edit_mode": "delete"},
			notebook[:strings.Index(notebook, "{\n   \"cell_type\": \"markdown\"")] + notebook[strings.Index(notebook, "{\n   \"cell_type\": \"code\""):],
			"Deleted cell intro from $DIR/n.ipynb.", [3]string{"intro", "markdown", "delete"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := claudeSetUp(t, nil)
			x.Put("n.ipynb", notebook)
			tc.args["notebook_path"] = "n.ipynb"
			res := x.call("NotebookEdit", tc.args)
			if got := strings.ReplaceAll(text(res), x.Dir, "$DIR"); got != tc.text || res.IsError {
				t.Fatalf("got %q, want %q", got, tc.text)
			}
			if diff := cmp.Diff(tc.want, x.get("n.ipynb")); diff != "" {
				t.Errorf("the file (-want +got):\n%s", diff)
			}
			want := map[string]any{
				"new_source": tc.args["new_source"], "cell_id": tc.meta[0], "cell_type": tc.meta[1], "language": "julia", "edit_mode": tc.meta[2],
				"notebook_path": "$DIR/n.ipynb", "original_file": notebook, "updated_file": tc.want,
			}
			if diff := cmp.Diff(any(want), x.shape(res.Meta)); diff != "" {
				t.Errorf("meta (-want +got):\n%s", diff)
			}
		})
	}
}

type cell struct {
	Type    string          `json:"cell_type"`
	ID      string          `json:"id"`
	Source  json.RawMessage `json:"source"`
	Outputs json.RawMessage `json:"outputs"`
	Count   json.RawMessage `json:"execution_count"`
}

func cellsOf(t *testing.T, text string) []cell {
	t.Helper()
	var n struct{ Cells []cell }
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return n.Cells
}

// TestNotebookInsert: a new cell has an id where the format has ids, and stands
// behind the cell that is named or in front of all.
func TestNotebookInsert(t *testing.T) {
	const old = `{"cells": [{"cell_type": "raw", "source": "a"}], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}`
	const empty = "{\n \"cells\": [],\n \"nbformat\": 4,\n \"nbformat_minor\": 5\n}\n"
	for _, tc := range []struct {
		name, file, after, kind string
		at, count               int
		withID                  bool
	}{
		{"in front", notebook, "", "code", 0, 3, true},
		{"in the middle", notebook, "intro", "markdown", 1, 3, true},
		{"at the end", notebook, "calc", "code", 2, 3, true},
		{"no ids before 4.5, one line", old, "0", "code", 1, 2, false},
		{"in front, one line", old, "", "markdown", 0, 2, false},
		{"the only one", empty, "", "code", 0, 1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := claudeSetUp(t, nil)
			x.Put("n.ipynb", tc.file)
			a := args{"notebook_path": "n.ipynb", "new_source": "x = 1\ny", "cell_type": tc.kind, "edit_mode": "insert"}
			if tc.after != "" {
				a["cell_id"] = tc.after
			}
			res := x.call("NotebookEdit", a)
			if res.IsError {
				t.Fatal(text(res))
			}
			cells := cellsOf(t, x.get("n.ipynb"))
			if len(cells) != tc.count {
				t.Fatalf("%d cells, want %d", len(cells), tc.count)
			}
			got := cells[tc.at]
			if got.Type != tc.kind || string(compact(t, got.Source)) != `["x = 1\n","y"]` || (got.ID != "") != tc.withID {
				t.Errorf("the new cell is %+v", got)
			}
			if code := tc.kind == "code"; code != (string(got.Outputs) == "[]") || code != (string(got.Count) == "null") {
				t.Errorf("outputs %s, execution_count %s", got.Outputs, got.Count)
			}
			if m := x.shape(res.Meta).(map[string]any); got.ID != "" && m["cell_id"] != got.ID || m["edit_mode"] != "insert" {
				t.Errorf("meta %v, want the id %s", m, got.ID)
			}
			// Taking the cell out again gives back what was there.
			if tc.name == "in the middle" {
				x.Good("NotebookEdit", args{"notebook_path": "n.ipynb", "new_source": "", "cell_id": got.ID, "edit_mode": "delete"})
				if diff := cmp.Diff(tc.file, x.get("n.ipynb")); diff != "" {
					t.Errorf("the file (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func compact(t *testing.T, raw json.RawMessage) json.RawMessage {
	t.Helper()
	var lines []string
	if err := json.Unmarshal(raw, &lines); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(lines)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestNotebookOneLine: other forms that are as good, and what a cell lacks.
func TestNotebookOneLine(t *testing.T) {
	for name, tc := range map[string]struct{ file, kind, want string }{
		"a source that is one string": {
			`{"cells":[{"source":"a","cell_type":"markdown"}],"nbformat":4}`, "", `{"cells":[{"source":"b\nc","cell_type":"markdown"}],"nbformat":4}`},
		"text becomes code": {
			`{"cells":[{"source":"a","cell_type":"markdown"}],"nbformat":4}`, "code",
			`{"cells":[{"source":"b\nc","cell_type":"code", "outputs": [], "execution_count": null}],"nbformat":4}`},
		"code becomes text, outputs last": {
			`{"cells":[{"source":["a"],"cell_type":"code","outputs":[]}],"nbformat":4}`, "markdown",
			`{"cells":[{"source":["b\n", "c"],"cell_type":"markdown"}],"nbformat":4}`},
		"code becomes text": {
			`{"cells":[{"execution_count":1,"outputs":[],"source":["a"],"cell_type":"code"}],"nbformat":4}`, "markdown",
			`{"cells":[{"source":["b\n", "c"],"cell_type":"markdown"}],"nbformat":4}`},
	} {
		t.Run(name, func(t *testing.T) {
			x := claudeSetUp(t, nil)
			x.Put("n.ipynb", tc.file)
			a := args{"notebook_path": "n.ipynb", "new_source": "b\nc", "cell_id": "0"}
			if tc.kind != "" {
				a["cell_type"] = tc.kind
			}
			x.Good("NotebookEdit", a)
			if diff := cmp.Diff(tc.want, x.get("n.ipynb")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNotebookRefused: a refused edit leaves the file as it is.
func TestNotebookRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		args args
		says string
	}{
		"no such cell":      {notebook, args{"cell_id": "nope", "new_source": ""}, "it has no cell nope; it has intro, calc"},
		"a number too high": {notebook, args{"cell_id": "cell-2", "new_source": ""}, "it has no cell cell-2"},
		"which cell":        {notebook, args{"new_source": ""}, "cell_id is missing; it has intro, calc"},
		"what cell":         {notebook, args{"new_source": "", "edit_mode": "insert"}, "cell_type is missing"},
		"not JSON":          {`{"cells": [}`, args{"cell_id": "0", "new_source": ""}, "it is not valid JSON"},
		"format 3":          {`{"worksheets": [], "nbformat": 3}`, args{"cell_id": "0", "new_source": ""}, "it has no list of cells"},
		"no source":         {`{"cells": [{"cell_type": "code"}]}`, args{"cell_id": "0", "new_source": ""}, "the cell has no source"},
		"odd cells":         {`{"cells": ["x", 1]}`, args{"cell_id": "1", "new_source": ""}, "the cell has no source"},
		"no cells":          {`{"cells": []}`, args{"cell_id": "0", "new_source": ""}, "it has no cells"},
		"a bad mode":        {notebook, args{"cell_id": "intro", "new_source": "", "edit_mode": "append"}, "edit_mode"},
	} {
		t.Run(name, func(t *testing.T) {
			x := claudeSetUp(t, nil)
			x.Put("n.ipynb", tc.file)
			tc.args["notebook_path"] = "n.ipynb"
			res := x.call("NotebookEdit", tc.args)
			if !res.IsError || !strings.Contains(text(res), tc.says) {
				t.Errorf("got %q, want %q", text(res), tc.says)
			}
			if x.get("n.ipynb") != tc.file {
				t.Error("the file was changed")
			}
		})
	}
	x := claudeSetUp(t, nil)
	x.Bad("NotebookEdit", args{"notebook_path": "missing.ipynb", "cell_id": "0", "new_source": ""}, "FS_NOT_FOUND", "not found")
}
