package toolfs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"dsh/kernel/tool"
	"dsh/plugins/internal/pdftext"
	"dsh/plugins/internal/textfile"
)

// rich shows a file that is more than text in v: an image, a PDF, a notebook. Without
// v.shown it is text after all, and the reader gives it from its start.
func (f *Files) rich(ctx context.Context, r *bufio.Reader, info fs.FileInfo, p claudeRead, v *viewed) (*bufio.Reader, error) {
	head, err := r.Peek(textfile.SniffLen)
	if err != nil && !errors.Is(err, io.EOF) {
		return r, err
	}
	isPDF := pdftext.IsPDF(head)
	if p.Pages != "" && !isPDF {
		v.shown = new(failed(codeArguments, "cannot read pages of %q: it is no PDF file; use offset and limit", v.path))
		return r, nil
	}
	show := func(res tool.Result, err error) (*bufio.Reader, error) {
		if err != nil {
			return r, err
		}
		v.shown = &res
		return r, nil
	}
	switch kind := imageType(head); {
	case isPDF:
		return show(f.showPDF(ctx, r, info, p, v.path))
	case kind != "" && f.images != nil:
		return show(f.showImage(ctx, r, info, kind, v.path))
	case strings.EqualFold(filepath.Ext(v.path), ".ipynb"):
		if info.Size() > maxNotebook {
			v.odd = fmt.Sprintf("a notebook of more than %d MiB is shown as the JSON it is", maxNotebook>>20)
			return r, nil
		}
		return f.showNotebook(ctx, r, info, p, v)
	}
	return r, nil
}

// readAtMost reads a file to its end. Errors: errTooLarge, those of r.
func readAtMost(r io.Reader, info fs.FileInfo, most int64) ([]byte, error) {
	if info.Size() > most {
		return nil, errTooLarge
	}
	var data bytes.Buffer
	data.Grow(int(info.Size()) + bytes.MinRead)
	_, err := data.ReadFrom(io.LimitReader(r, most+1))
	if err == nil && int64(data.Len()) > most {
		err = errTooLarge // it has grown
	}
	return data.Bytes(), err
}
