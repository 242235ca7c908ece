package toolfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"dsh/kernel/tool"
	"dsh/plugins/internal/pdftext"
	"dsh/plugins/internal/textfile"
)

const (
	// maxPDF bounds the PDF files that are read, in bytes.
	maxPDF = 64 << 20
	// pagesUnasked is how many pages a file may have that is read without saying
	// which, pagesAtOnce how many one call gives.
	pagesUnasked = 10
	pagesAtOnce  = 20
	// pdfLimit is how long the reading of one may take. A page takes milliseconds; a
	// file can be made that takes hours.
	pdfLimit = 20 * time.Second
)

// claudePDF is the structured result of a PDF.
type claudePDF struct {
	FilePath string `json:"filePath"`
	// Base64 is always empty, see claudeImage.
	Base64 string `json:"base64"`
	// OriginalSize is that of the file in bytes.
	OriginalSize int64 `json:"originalSize"`
	// FirstPage and LastPage are what is shown; the first page is 1.
	FirstPage  int `json:"firstPage"`
	LastPage   int `json:"lastPage"`
	TotalPages int `json:"totalPages"`
}

// showPDF gives the text of the pages of a PDF.
func (f *Files) showPDF(ctx context.Context, r io.Reader, info fs.FileInfo, p claudeRead, path string) (tool.Result, error) {
	if p.Offset > 0 || p.Limit > 0 {
		return failed(codeArguments, "cannot read lines of %q: it is a PDF file; use pages, such as 1-5", path), nil
	}
	data, err := readAtMost(r, info, maxPDF)
	if errors.Is(err, errTooLarge) {
		return failed(codeTooLarge, "cannot read %q: the PDF file is larger than %d MiB; use a command such as pdftotext", path, maxPDF>>20), nil
	}
	if err != nil {
		return tool.Result{}, err
	}
	late := errors.New("it takes too long; take fewer pages, or a command such as pdftotext")
	limited, cancel := context.WithTimeoutCause(ctx, pdfLimit, late)
	defer cancel()
	doc, err := pdftext.Open(limited, data)
	switch {
	case ctx.Err() != nil:
		return tool.Result{}, context.Cause(ctx)
	case errors.Is(err, pdftext.ErrEncrypted):
		return failed(codePDF, "cannot read %q: the PDF file is encrypted; take the encryption off with a command first, such as qpdf --decrypt", path), nil
	case err != nil:
		return failed(codePDF, "cannot read %q: %v", path, err), nil
	}
	first, last, err := pageRange(p.Pages, doc.Pages())
	if err != nil {
		return failed(codeArguments, "cannot read %q: %v", path, err), nil
	}
	shown := &pdfPages{most: f.bounds(p).bytes, total: doc.Pages()}
	for i := first; i <= last && !shown.full; i++ {
		page, err := doc.Page(limited, i)
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		shown.add(i, page, err)
		if limited.Err() != nil {
			break
		}
	}
	if shown.last < last {
		fmt.Fprintf(&shown.b, "\n(the result is full: use pages %s to read on)", rangeText(shown.last+1, last))
	}
	if shown.unread {
		shown.b.WriteString("\n(pages without text may have been scanned: make images of them with a command such as pdftoppm -png, and read those)")
	}
	return withMeta(tool.TextResult(strings.TrimSpace(shown.b.String())), claudeFile{"pdf", claudePDF{
		FilePath: path, OriginalSize: int64(len(data)), FirstPage: first, LastPage: shown.last, TotalPages: doc.Pages(),
	}})
}

// pdfPages is the text of the pages so far.
type pdfPages struct {
	b           strings.Builder
	most, total int
	last        int
	full        bool
	unread      bool
}

func (s *pdfPages) add(n int, page pdftext.Page, err error) {
	head := fmt.Sprintf("\n<page %d of %d>\n", n, s.total)
	text := printable(page.Text)
	var notes []string
	switch {
	case err != nil:
		notes = append(notes, "the page cannot be read: "+err.Error())
	case text == "" && page.Images > 0:
		notes = append(notes, "the page has no text, only "+counted(page.Images, "image"))
		s.unread = true
	case text == "":
		notes = append(notes, "the page has no text")
	}
	if page.Unknown > 0 {
		notes = append(notes, counted(page.Unknown, "letter")+" shown as \ufffd: the file does not say which they are")
	}
	room := s.most - s.b.Len() - len(head)
	if len(text) > room {
		if s.last > 0 {
			s.full = true
			return
		}
		// The first page alone is too long.
		text = strings.ToValidUTF8(text[:max(0, room)], "")
		page.Cut, s.full = true, true
	}
	if page.Cut {
		notes = append(notes, "the page has more text than fits; use allow_large, or a command such as pdftotext")
	}
	s.b.WriteString(head + text + "\n")
	for _, note := range notes {
		short, _ := textfile.Cut(printable(note), 500)
		s.b.WriteString("(" + short + ")\n")
	}
	s.last = n
}

// pageRange reads "3" and "1-5". Without it, a short document is shown whole.
func pageRange(text string, total int) (first, last int, err error) {
	if text = strings.TrimSpace(text); text == "" {
		if total > pagesUnasked {
			return 0, 0, fmt.Errorf("it has %d pages; say with pages which to give, such as 1-%d, at most %d in one call", total, pagesUnasked, pagesAtOnce)
		}
		return 1, total, nil
	}
	from, to, isRange := strings.Cut(text, "-")
	first, err = strconv.Atoi(strings.TrimSpace(from))
	last = first
	if err == nil && isRange {
		if to = strings.TrimSpace(to); to == "" {
			last = total
		} else {
			last, err = strconv.Atoi(to)
		}
	}
	switch short, _ := textfile.Cut(text, 40); {
	case err != nil || first < 1 || last < first:
		return 0, 0, fmt.Errorf("pages %q is no range; write 3 or 1-5", short)
	case first > total:
		return 0, 0, fmt.Errorf("there is no page %d; it has %s", first, counted(total, "page"))
	}
	if last = min(last, total); last-first >= pagesAtOnce {
		return 0, 0, fmt.Errorf("%d pages are too many; one call gives %d, such as %s", last-first+1, pagesAtOnce, rangeText(first, first+pagesAtOnce-1))
	}
	return first, last, nil
}

func rangeText(first, last int) string {
	if first == last {
		return strconv.Itoa(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}
