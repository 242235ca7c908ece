package attachmentlocal

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"dsh/kernel/attachment"
	"dsh/sdkproto"
)

// Limits of admission (spec jsonrpc 9.8).
const (
	maxImages     = 20
	maxBatchBytes = 200 << 20
	maxImageBytes = 20 << 20
	maxPixels     = 64_000_000
	maxSide       = 8192
)

// maxName bounds the name of an image, in characters.
const maxName = 200

// Admit implements attachment.Store.
func (s *Store) Admit(ctx context.Context, batch []attachment.Upload) ([]sdkproto.Attachment, error) {
	if len(batch) > maxImages {
		return nil, refuse(-1, attachment.CodeTooManyImages, "A message may hold %d images, not %d.", maxImages, len(batch))
	}
	// Sizes first: they cost nothing to know.
	total := 0
	for i := range batch {
		n := size(&batch[i])
		if n > maxImageBytes {
			return nil, refuse(i, attachment.CodeImageTooLarge, "Image upload has %d bytes and may have %d.", n, maxImageBytes)
		}
		total += n
	}
	if total > maxBatchBytes {
		return nil, refuse(-1, attachment.CodeImagesTooLarge, "The images of a message have %d bytes together and may have %d.", total, maxBatchBytes)
	}
	stored := make([]normalised, len(batch))
	for i := range batch {
		n, err := s.admit(ctx, i, &batch[i])
		if err != nil {
			return nil, err
		}
		stored[i] = *n
	}
	refs := make([]sdkproto.Attachment, len(batch))
	objects := make([]object, len(batch))
	for i := range stored {
		n := &stored[i]
		objects[i] = newObject(n.bytes)
		refs[i] = sdkproto.Attachment{
			AttachmentID: idPrefix + objects[i].name, MediaType: n.mediaType, Bytes: int64(len(n.bytes)),
			Width: n.width, Height: n.height, Name: cleanName(batch[i].Name), OriginalDimensions: n.original,
		}
	}
	if err := s.write(ctx, objects); err != nil {
		return nil, fmt.Errorf("store images: %w", err)
	}
	return refs, nil
}

// size is how many bytes an upload has, for base64 what its length says.
func size(u *attachment.Upload) int {
	if u.Bytes != nil {
		return len(u.Bytes)
	}
	return base64.StdEncoding.DecodedLen(len(u.Base64)) - (len(u.Base64) - len(strings.TrimRight(u.Base64, "=")))
}

// admit checks one image and gives what is to be stored of it.
func (s *Store) admit(ctx context.Context, i int, u *attachment.Upload) (*normalised, error) {
	f, known := formats()[u.MediaType]
	if !known {
		return nil, refuse(i, attachment.CodeUnsupportedType, "Image upload has the media type %q; use image/png, image/jpeg, image/webp or image/gif.", clip(u.MediaType))
	}
	data := u.Bytes
	if data == nil {
		var ok bool
		if data, ok = decodeBase64(u.Base64); !ok {
			return nil, refuse(i, attachment.CodeInvalidImageBase64, "Image upload is not canonical base64.")
		}
	}
	if actual := sniff(data); actual != "" && actual != u.MediaType {
		return nil, refuse(i, attachment.CodeTypeMismatch, "Image upload is declared as %s and holds %s.", u.MediaType, actual)
	}
	if u.MediaType == typePNG {
		data = repaired(data)
	}
	n, err := s.normalise(ctx, f, u.MediaType, data, boundsOf(u))
	var refused *attachment.Error
	if errors.As(err, &refused) {
		refused.Index = i
	}
	return n, err
}

// decodeBase64 takes the one text that the encoder makes of the bytes: standard
// alphabet, padded, no white space, no bits left over.
func decodeBase64(text string) ([]byte, bool) {
	if strings.ContainsAny(text, "\r\n") { // which the decoder skips
		return nil, false
	}
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	return data, err == nil
}

// cleanName keeps what can be shown on one line.
func cleanName(name string) string {
	runes := []rune(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(name, "")))
	return strings.TrimSpace(string(runes[max(0, len(runes)-maxName):])) // the end has the extension
}

func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

func refuse(index int, code, format string, args ...any) *attachment.Error {
	return &attachment.Error{Code: code, Index: index, Message: fmt.Sprintf(format, args...)}
}

// sniff tells a supported format by its first bytes; "" for anything else.
func sniff(data []byte) string {
	starts := func(s string) bool { return len(data) >= len(s) && string(data[:len(s)]) == s }
	switch {
	case starts("\x89PNG\r\n\x1a\n"):
		return typePNG
	case starts("\xff\xd8\xff"):
		return typeJPEG
	case starts("GIF87a"), starts("GIF89a"):
		return typeGIF
	case starts("RIFF") && len(data) >= 12 && slices.Equal(data[8:12], []byte("WEBP")):
		return typeWebP
	}
	return ""
}
