package toolfs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dsh/kernel/attachment"
	"dsh/kernel/tool"
	"dsh/plugins/internal/textfile"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

const (
	// maxNotebook bounds the notebooks that are shown as cells, in bytes.
	maxNotebook = 32 << 20
	// outputRunes bounds one output of a cell, in characters.
	outputRunes = 10_000
	// maxPictures is how many images of outputs one call shows.
	maxPictures = 10
)

// claudeNotebook is the structured result of a notebook: the cells that are shown.
type claudeNotebook struct {
	FilePath string       `json:"filePath"`
	Cells    []claudeCell `json:"cells"`
	// StartCell is 1 for the first cell of the notebook.
	StartCell  int `json:"startCell"`
	TotalCells int `json:"totalCells"`
}

type claudeCell struct {
	CellType string `json:"cellType"`
	// CellID is the one that NotebookEdit takes.
	CellID string `json:"cell_id"`
	Source string `json:"source"`
	// Language and ExecutionCount are those of a code cell.
	Language       string         `json:"language,omitzero"`
	ExecutionCount *int           `json:"execution_count,omitzero"`
	Outputs        []claudeOutput `json:"outputs,omitzero"`
}

type claudeOutput struct {
	OutputType string             `json:"output_type"`
	Text       string             `json:"text,omitzero"`
	Image      *claudeOutputImage `json:"image,omitzero"`
}

type claudeOutputImage struct {
	// ImageData is always empty, see claudeImage.
	ImageData string `json:"image_data"`
	MediaType string `json:"media_type"`
}

// The parts of a notebook of format 4 that are shown. What varies between writers is
// left to lenient readers.
type ipynb struct {
	Cells []ipynbCell `json:"cells"`
}

type ipynbCell struct {
	ID       string          `json:"id"`
	CellType string          `json:"cell_type"`
	Source   json.RawMessage `json:"source"`
	Count    *int            `json:"execution_count"`
	Outputs  []ipynbOutput   `json:"outputs"`
}

type ipynbOutput struct {
	OutputType string                     `json:"output_type"`
	Text       json.RawMessage            `json:"text"`
	Data       map[string]json.RawMessage `json:"data"`
	Name       string                     `json:"ename"`
	Value      string                     `json:"evalue"`
	Traceback  []string                   `json:"traceback"`
}

// lines reads a text that is one string or a list of its lines.
func lines(raw json.RawMessage) string {
	var one string
	if wirejson.Unmarshal(raw, &one) == nil {
		return one
	}
	var many []string
	if wirejson.Unmarshal(raw, &many) == nil {
		return strings.Join(many, "")
	}
	return ""
}

// showNotebook shows the cells of a notebook in v; what is none is left to be shown
// as text.
func (f *Files) showNotebook(ctx context.Context, r io.Reader, info fs.FileInfo, p claudeRead, v *viewed) (*bufio.Reader, error) {
	raw, err := readAtMost(r, info, maxNotebook)
	if err != nil {
		return nil, err
	}
	text := strings.TrimPrefix(string(raw), textfile.UTF8BOM.BOM())
	var book ipynb
	if err := wirejson.Unmarshal([]byte(text), &book); err != nil || book.Cells == nil {
		v.odd = "the file is shown as the text it is: it is no valid notebook of format 4"
		return bufio.NewReaderSize(bytes.NewReader(raw), 64<<10), nil
	}
	s := &cellsShown{
		files: f, ctx: ctx, most: f.bounds(p).bytes, first: v.first,
		language: language(text, membersOf(text, 0)),
		meta:     claudeNotebook{FilePath: v.path, Cells: []claudeCell{}, StartCell: v.first, TotalCells: len(book.Cells)},
	}
	last := len(book.Cells)
	if p.Limit > 0 {
		last = min(last, v.first-1+p.Limit)
	}
	for i := v.first - 1; i < last && !s.full; i++ {
		if err := s.add(i, &book.Cells[i]); err != nil {
			return nil, err
		}
	}
	res, err := s.result()
	v.shown = &res
	return nil, err
}

// cellsShown is the result of a notebook in the making.
type cellsShown struct {
	files    *Files
	ctx      context.Context
	language string
	meta     claudeNotebook
	// first is the number of the first cell that is asked for, most bounds the text in
	// bytes.
	first, most int
	full        bool

	content []sdkproto.Block
	text    strings.Builder // of the last block
	size    int             // of all text
	images  int
}

func (s *cellsShown) write(text string) {
	s.text.WriteString(text)
	s.size += len(text)
}

// room is how many bytes of text there is room for.
func (s *cellsShown) room() int { return s.most - s.size }

// fit shortens a text to a number of bytes, and says so in it.
func fit(text string, room int) string {
	if len(text) <= room {
		return text
	}
	return strings.ToValidUTF8(text[:max(0, room)], "") + "\n… (cut here)"
}

func (s *cellsShown) add(i int, c *ipynbCell) error {
	shown := claudeCell{CellType: c.CellType, CellID: c.ID, Source: printable(lines(c.Source))}
	if shown.CellID == "" {
		shown.CellID = "cell-" + strconv.Itoa(i)
	}
	head := fmt.Sprintf("<cell id=%q type=%q", shorten(shown.CellID), shorten(c.CellType))
	if c.CellType == codeCell {
		shown.Language, shown.ExecutionCount = s.language, c.Count
		head += fmt.Sprintf(" language=%q", shorten(s.language))
	}
	head += ">\n"
	if len(s.meta.Cells) > 0 && len(head)+len(shown.Source) > s.room() {
		s.full = true
		return nil
	}
	shown.Source = fit(shown.Source, s.room()-len(head))
	s.write(head + shown.Source + "\n</cell>\n")
	for k := range c.Outputs {
		if s.room() <= 0 {
			s.full = true
			s.write(fmt.Sprintf("(%s of this cell left out)\n", counted(len(c.Outputs)-k, "output")))
			break
		}
		o, err := s.output(&c.Outputs[k])
		if err != nil {
			return err
		}
		shown.Outputs = append(shown.Outputs, o)
	}
	s.meta.Cells = append(s.meta.Cells, shown)
	return nil
}

// output shows one output of a cell.
func (s *cellsShown) output(o *ipynbOutput) (claudeOutput, error) {
	shown := claudeOutput{OutputType: o.OutputType}
	if kind, data := pictureOf(o.Data); data != "" {
		said, err := s.picture(data, &shown)
		if err != nil {
			return shown, err
		}
		if shown.Image != nil {
			return shown, nil
		}
		shown.Text = fmt.Sprintf("(an image of the type %s, %s)", shorten(kind), said)
	} else {
		shown.Text = printable(o.said())
	}
	if cut, wasCut := textfile.Cut(shown.Text, outputRunes); wasCut {
		shown.Text = fmt.Sprintf("%s (cut at %d characters)", cut, outputRunes)
	}
	shown.Text = fit(shown.Text, s.room())
	s.write("<output>\n" + strings.TrimSuffix(shown.Text, "\n") + "\n</output>\n")
	return shown, nil
}

// pictureOf gives the image of an output as base64.
func pictureOf(data map[string]json.RawMessage) (kind, encoded string) {
	for _, kind := range []string{"image/png", "image/jpeg", "image/gif", "image/webp"} {
		if raw, ok := data[kind]; ok {
			return kind, lines(raw)
		}
	}
	return "", ""
}

// picture shows an image, or says why not.
func (s *cellsShown) picture(encoded string, shown *claudeOutput) (said string, err error) {
	f := s.files
	switch {
	case f.images == nil:
		return "which is not shown here", nil
	case s.images == maxPictures:
		return fmt.Sprintf("not shown: one call shows %d; use offset to read on", maxPictures), nil
	}
	data, err := base64.StdEncoding.DecodeString(encoded) // which skips line ends
	kind := imageType(data)
	if err != nil || kind == "" {
		return "which is damaged", nil
	}
	a, err := f.admit(s.ctx, attachment.Upload{Bytes: data, MediaType: kind, Name: filepath.Base(s.meta.FilePath)})
	if why := unfit(err); why != "" {
		return "not shown: " + why, nil
	}
	if err != nil {
		return "", err
	}
	s.images++
	s.endText()
	s.content = append(s.content, sdkproto.Block{Type: sdkproto.BlockImage, Attachment: &a})
	shown.Image = &claudeOutputImage{MediaType: a.MediaType}
	return "", nil
}

// said is an output as text.
func (o *ipynbOutput) said() string {
	switch {
	case o.OutputType == "error":
		if len(o.Traceback) > 0 {
			return uncoloured(strings.Join(o.Traceback, "\n"))
		}
		return o.Name + ": " + o.Value
	case o.Data == nil:
		return uncoloured(lines(o.Text))
	}
	for _, kind := range []string{"text/plain", "text/markdown", "text/latex"} {
		if raw, ok := o.Data[kind]; ok {
			return uncoloured(lines(raw))
		}
	}
	kinds := make([]string, 0, len(o.Data))
	for kind := range o.Data {
		kinds = append(kinds, shorten(kind))
	}
	slices.Sort(kinds)
	return "(an output of the type " + strings.Join(kinds, ", ") + ", which is not shown)"
}

// uncoloured takes out the escape sequences that colour a terminal.
func uncoloured(text string) string {
	if !strings.Contains(text, "\x1b[") {
		return text
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		end := strings.IndexFunc(rest, func(r rune) bool { return r >= '@' && r <= '~' })
		if end < 0 {
			return b.String()
		}
		text = rest[end+1:]
	}
}

func (s *cellsShown) endText() {
	if s.text.Len() > 0 {
		s.content = append(s.content, sdkproto.Text(strings.TrimSuffix(s.text.String(), "\n")))
		s.text.Reset()
	}
}

func (s *cellsShown) result() (tool.Result, error) {
	total, shown := s.meta.TotalCells, len(s.meta.Cells)
	switch last := s.first - 1 + shown; {
	case total == 0:
		s.write("(the notebook has no cells)")
	case shown == 0:
		s.write(fmt.Sprintf("(nothing to show: the notebook has %s, and cell %d was asked for)", counted(total, "cell"), s.first))
	case last < total:
		s.write(fmt.Sprintf("(showing cells %d-%d of %d; use offset %d to read on)", s.first, last, total, last+1))
	}
	s.endText()
	return withMeta(tool.Result{Content: s.content}, claudeFile{"notebook", s.meta})
}
