package toolfs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"dsh/kernel/attachment"
	"dsh/sdkproto"
)

// maxImage bounds the image files that are shown, in bytes.
const maxImage = 32 << 20

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

// picture is an image that was read.
type picture struct {
	attachment sdkproto.Attachment
	// size is that of the file in bytes.
	size int64
}

// picture puts an image where the models' adapters find it.
func (f *Files) picture(ctx context.Context, r io.Reader, kind, path string) (*picture, error) {
	var raw bytes.Buffer
	n, err := raw.ReadFrom(io.LimitReader(r, maxImage+1))
	if err != nil {
		return nil, err
	}
	if n > maxImage {
		return nil, errors.New("the image is larger than 32 MiB; make it smaller with a command first")
	}
	kept, err := f.images.Admit(ctx, []attachment.Upload{{Bytes: raw.Bytes(), MediaType: kind, Name: filepath.Base(path)}})
	if err != nil {
		return nil, err
	}
	return &picture{kept[0], n}, nil
}
