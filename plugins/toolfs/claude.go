package toolfs

import (
	"context"
	"fmt"
	"strings"

	"dsh/kernel/tool"
	"dsh/plugins/internal/dialect"
	"dsh/sdkproto/wirejson"
)

// The parameters of Read, Write and Edit (spec stream-json 9). The path may be
// relative all the same: models send such, and there is only one thing it can
// mean.
type claudeRead struct {
	FilePath   string `json:"file_path" jsonschema:"The absolute path of the file to read."`
	Offset     int    `json:"offset,omitzero" jsonschema:"The number of the first line to give, or of the first cell of a notebook; the first is 1, which is the default."`
	Limit      int    `json:"limit,omitzero" jsonschema:"How many lines to give at most, or cells of a notebook."`
	Pages      string `json:"pages,omitzero" jsonschema:"The pages of a PDF file to give, such as 3 or 1-5; at most 20 in one call."`
	AllowLarge bool   `json:"allow_large,omitzero" jsonschema:"Give up to four times as much text as usual in one result."`
}

type claudeWrite struct {
	FilePath string `json:"file_path" jsonschema:"The absolute path of the file to write."`
	Content  string `json:"content" jsonschema:"All that the file shall hold."`
}

type claudeEdit struct {
	FilePath   string `json:"file_path" jsonschema:"The absolute path of the file to edit."`
	OldString  string `json:"old_string" jsonschema:"The text to replace. Empty only to create a file."`
	NewString  string `json:"new_string" jsonschema:"The text to put in its place. Empty to delete old_string."`
	ReplaceAll bool   `json:"replace_all,omitzero" jsonschema:"Replace old_string wherever it is, not only in one place."`
}

// claude makes the tools of the dialect claude.
func (f *Files) claude() {
	f.numberEnd, f.globName, f.writeName, f.readName = "\t", "Glob", "Write", "Read"
	f.read = tool.Typed(tool.Spec{
		Name: "Read",
		Description: fmt.Sprintf("Reads a file. Each line of a text comes with its number and a tab in front, which are not part of the file. "+
			"Gives up to %d lines unless limit says otherwise; use offset to read on in a long file. Shows images (PNG, JPEG, GIF, WebP), "+
			"the cells of notebooks (.ipynb) with their outputs, and the text of PDF files, of which one with more than %d pages needs pages. "+
			"Reads no folders: use Glob to list one, and Grep to find a place in large files.", f.config.ReadLines, pagesUnasked),
		ReadOnly: true,
		Parallel: true,
		Subject:  tool.Subject{Rule: "Read", Kind: tool.SubjectPath, Member: "file_path"},
	}, f.callClaudeRead)
	f.write = tool.Typed(tool.Spec{
		Name: "Write",
		Description: "Writes a whole text file: creates it, with the folders above it, or replaces all that it holds. " +
			"To change parts of a file use Edit.",
		Destructive: true,
		Subject:     tool.Subject{Rule: "Write", Kind: tool.SubjectPath, Member: "file_path"},
	}, f.callClaudeWrite)
	f.edit = tool.Typed(tool.Spec{
		Name: "Edit",
		Description: "Replaces text in a file. old_string must be in the file exactly as given, white space included and without the line numbers that Read shows, " +
			"and only once, unless replace_all is set: add lines around it until it is unique. Line ends need not agree; those of the file are kept.",
		Destructive: true,
		Subject:     tool.Subject{Rule: "Edit", Kind: tool.SubjectPath, Member: "file_path"},
	}, f.callClaudeEdit)
	f.notebook = f.notebookTool()
}

// withMeta adds a structured result.
func withMeta(r tool.Result, meta any) (tool.Result, error) {
	var err error
	r.Meta, err = wirejson.Marshal(meta)
	return r, err
}

// claudeFile is the structured result of Read.
type claudeFile struct {
	// Type is text, image, pdf or notebook, File a claudeText, claudeImage, claudePDF or
	// claudeNotebook.
	Type string `json:"type"`
	File any    `json:"file"`
}

type claudeText struct {
	FilePath string `json:"filePath"`
	Content  string `json:"content"`
	NumLines int    `json:"numLines"`
	// StartLine is 1 for the first line of the file. TotalLines is only what was
	// counted when the file is very long.
	StartLine  int `json:"startLine"`
	TotalLines int `json:"totalLines"`
}

func (f *Files) callClaudeRead(ctx context.Context, in tool.Invocation, p claudeRead) (tool.Result, error) {
	v, refused, err := f.view(ctx, in, p)
	if err != nil || refused != nil {
		return dialect.Bare(deref(refused)), err
	}
	if v.shown != nil {
		return dialect.Bare(*v.shown), nil
	}
	text := v.page.text
	switch {
	case v.page.total == 0:
		text = "(the file is empty)"
	case v.page.shown == 0:
		text = fmt.Sprintf("(nothing to show: the file has %s, and line %d was asked for)", counted(v.page.total, "line"), v.first)
	case !v.page.exact || v.page.changed || v.first+v.page.shown-1 < v.page.total:
		text += "(" + v.page.note(v.first) + ")"
	default:
		text = strings.TrimSuffix(text, "\n")
	}
	if v.odd != "" {
		text += "\n(" + v.odd + ")"
	}
	return withMeta(tool.TextResult(text), claudeFile{"text", claudeText{
		FilePath: v.path, Content: v.page.content(), NumLines: v.page.shown, StartLine: v.first, TotalLines: v.page.total,
	}})
}

// claudeWritten is the structured result of Write.
type claudeWritten struct {
	// Type is create or update.
	Type            string `json:"type"`
	FilePath        string `json:"filePath"`
	Content         string `json:"content"`
	StructuredPatch []hunk `json:"structuredPatch"`
	// OriginalFile is nil for a file that is new or is not text.
	OriginalFile *string `json:"originalFile"`
	UserModified bool    `json:"userModified"`
	// Omitted names the members that were left out because they are too long.
	Omitted []string `json:"omitted,omitzero"`
}

func (f *Files) callClaudeWrite(ctx context.Context, in tool.Invocation, p claudeWrite) (tool.Result, error) {
	res, err := f.change(ctx, in, "write", p.FilePath, f.planWrite(p.Content), func(path string, c change) tool.Result {
		m := claudeWritten{Type: "create", FilePath: path, StructuredPatch: []hunk{}}
		text := fmt.Sprintf("The file %s has been created (%s).", printable(path), counted(countTextLines(c.after), "line"))
		l := limited{&m.Omitted}
		m.Content = l.text("content", p.Content)
		if c.old != nil {
			m.Type = "update"
			text = strings.Replace(text, "created", "updated", 1)
			if c.comparable {
				m.OriginalFile = l.optional("originalFile", c.before)
				m.StructuredPatch = l.patch(path, c)
			}
		}
		res, err := withMeta(tool.TextResult(text), m)
		if err != nil {
			res = tool.TextResult(text) // it is done; what only shows it must not make it fail
		}
		return res
	})
	return dialect.Bare(res), err
}

// claudeEdited is the structured result of Edit.
type claudeEdited struct {
	FilePath        string   `json:"filePath"`
	OldString       string   `json:"oldString"`
	NewString       string   `json:"newString"`
	OriginalFile    *string  `json:"originalFile"`
	StructuredPatch []hunk   `json:"structuredPatch"`
	UserModified    bool     `json:"userModified"`
	ReplaceAll      bool     `json:"replaceAll"`
	Omitted         []string `json:"omitted,omitzero"`
}

func (f *Files) callClaudeEdit(ctx context.Context, in tool.Invocation, p claudeEdit) (tool.Result, error) {
	e := editParams(p)
	if r := e.refused(); r != nil {
		return dialect.Bare(*r), nil
	}
	res, err := f.change(ctx, in, "edit", p.FilePath, f.planEdit(e), func(path string, c change) tool.Result {
		m := claudeEdited{FilePath: path, ReplaceAll: p.ReplaceAll}
		l := limited{&m.Omitted}
		m.OldString, m.NewString = l.text("oldString", p.OldString), l.text("newString", p.NewString)
		if c.old != nil {
			m.OriginalFile = l.optional("originalFile", c.before)
		}
		m.StructuredPatch = l.patch(path, c)
		what := "updated"
		if c.old == nil {
			what = "created"
		}
		text := fmt.Sprintf("The file %s has been %s.", printable(path), what)
		if c.noticed {
			text += hadChanged
		}
		if lines := snippet(m.StructuredPatch); lines != "" {
			text += " It now reads there:\n" + lines
		}
		res, err := withMeta(tool.TextResult(text), m)
		if err != nil {
			res = tool.TextResult(text)
		}
		return res
	})
	return dialect.Bare(res), err
}
