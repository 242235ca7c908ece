package toolfs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"dsh/kernel/attachment"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

const (
	// maxImage bounds the image files that are shown, in bytes: what an attachment
	// store takes (spec jsonrpc 9.8).
	maxImage = 20 << 20
	// shownImage bounds an image that a model is shown, in bytes: as base64 it has
	// 5 MiB, which is what providers take.
	shownImage = 5 << 20 / 4 * 3
)

// imageType tells the media type of an image that models take from its first
// bytes, "" for anything else.
func imageType(head []byte) string {
	switch s := string(head[:min(len(head), 16)]); {
	case strings.HasPrefix(s, "\x89PNG\r\n\x1a\n"):
		return "image/png"
	case strings.HasPrefix(s, "\xff\xd8\xff"):
		return "image/jpeg"
	case strings.HasPrefix(s, "GIF87a"), strings.HasPrefix(s, "GIF89a"):
		return "image/gif"
	case strings.HasPrefix(s, "RIFF") && len(s) >= 12 && s[8:12] == "WEBP":
		return "image/webp"
	}
	return ""
}

// claudeImage is the structured result of an image.
type claudeImage struct {
	// Base64 is always empty: the image is in the message, and neither a line nor
	// the log has it twice (spec stream-json 0.2 item 6, S132).
	Base64 string `json:"base64"`
	Type   string `json:"type"`
	// OriginalSize is that of the file in bytes.
	OriginalSize int64            `json:"originalSize"`
	Dimensions   claudeDimensions `json:"dimensions"`
}

type claudeDimensions struct {
	OriginalWidth  int `json:"originalWidth"`
	OriginalHeight int `json:"originalHeight"`
	DisplayWidth   int `json:"displayWidth"`
	DisplayHeight  int `json:"displayHeight"`
}

// imageParams are the parameters of read_image.
type imageParams struct {
	FilePath string `json:"file_path" jsonschema:"The image to look at: an absolute path, or one relative to the working directory."`
}

// imageTool is read_image of the dialect dsh (spec jsonrpc 11.4).
func (f *Files) imageTool() tool.Tool {
	return tool.Typed(tool.Spec{
		Name:        "read_image",
		Description: "Shows an image (PNG, JPEG, GIF, WebP), scaled down if it is large. For models that take images only.",
		ReadOnly:    true,
		Parallel:    true,
		Subject:     tool.Subject{Rule: "Read", Kind: tool.SubjectPath, Member: "file_path"},
	}, func(ctx context.Context, in tool.Invocation, p imageParams) (tool.Result, error) {
		path, file, info, refused, err := f.open(ctx, in, p.FilePath)
		if file == nil {
			return deref(refused), err
		}
		defer file.Close()
		r := bufio.NewReader(&patient{ctx, file})
		head, err := r.Peek(16)
		if err != nil && !errors.Is(err, io.EOF) {
			return f.readFailed(ctx, path, err)
		}
		kind := imageType(head)
		if kind == "" {
			return failed(codeImage, "cannot show %q: it is no image of the types PNG, JPEG, GIF and WebP; use read for text", path), nil
		}
		res, err := f.showImage(ctx, r, info, kind, path)
		if err != nil {
			return f.readFailed(ctx, path, err)
		}
		res.Meta = nil // which is of the other dialect
		return res, nil
	})
}

// showImage puts an image where the models' adapters find it. A model that takes no
// images is told so by its adapter.
func (f *Files) showImage(ctx context.Context, r io.Reader, info fs.FileInfo, kind, path string) (tool.Result, error) {
	data, err := readAtMost(r, info, maxImage)
	if errors.Is(err, errTooLarge) {
		return failed(codeTooLarge, "cannot read %q: the image is larger than %d MiB; make a smaller copy with a command first", path, maxImage>>20), nil
	}
	if err != nil {
		return tool.Result{}, err
	}
	a, err := f.admit(ctx, attachment.Upload{Bytes: data, MediaType: kind, Name: filepath.Base(path)})
	if why := unfit(err); why != "" {
		return failed(codeImage, "cannot read %q: %s", path, why), nil
	}
	if err != nil {
		return tool.Result{}, err
	}
	d := claudeDimensions{a.Width, a.Height, a.Width, a.Height}
	if o := a.OriginalDimensions; o != nil {
		d.OriginalWidth, d.OriginalHeight = o.Width, o.Height
	}
	content := []sdkproto.Block{{Type: sdkproto.BlockImage, Attachment: &a}}
	if d.OriginalWidth != d.DisplayWidth || d.OriginalHeight != d.DisplayHeight {
		// Without this a model counts the pixels of what it sees.
		content = append(content, sdkproto.Text(fmt.Sprintf("(the image has %dx%d pixels and is shown with %dx%d)", d.OriginalWidth, d.OriginalHeight, d.DisplayWidth, d.DisplayHeight)))
	}
	return withMeta(tool.Result{Content: content}, claudeFile{"image", claudeImage{Type: a.MediaType, OriginalSize: int64(len(data)), Dimensions: d}})
}

// admit keeps an image in the size in which models are shown it.
func (f *Files) admit(ctx context.Context, u attachment.Upload) (sdkproto.Attachment, error) {
	u.MaxEdge, u.MaxBytes = f.config.ImageEdge, shownImage
	kept, err := f.images.Admit(ctx, []attachment.Upload{u})
	if err != nil {
		return sdkproto.Attachment{}, err
	}
	return kept[0], nil
}

// unfit says what is wrong with an image; "" when the error is of another kind.
func unfit(err error) string {
	var refused *attachment.Error
	if errors.As(err, &refused) {
		return refused.Message
	}
	return ""
}
