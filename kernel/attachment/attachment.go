// Package attachment holds the contract of stored images: bytes are checked by
// decoding, kept once under the digest of what is stored, and referred to from
// the session log, which never holds base64 (S132, spec jsonrpc 9.7, 9.8).
package attachment

import (
	"context"
	"errors"
	"fmt"

	"dsh/sdkproto"
)

// ErrNotFound: no such attachment is stored.
var ErrNotFound = errors.New("no such attachment")

// Codes of Error (spec jsonrpc 9.8).
const (
	CodeTooManyImages      = "TOO_MANY_IMAGES"
	CodeImagesTooLarge     = "IMAGES_TOO_LARGE"
	CodeImageTooLarge      = "IMAGE_TOO_LARGE"
	CodeTooManyPixels      = "IMAGE_TOO_MANY_PIXELS"
	CodeDimensionTooLarge  = "IMAGE_DIMENSION_TOO_LARGE"
	CodeUnsupportedType    = "UNSUPPORTED_IMAGE_TYPE"
	CodeTypeMismatch       = "IMAGE_TYPE_MISMATCH"
	CodeInvalidImageBase64 = "INVALID_IMAGE_BASE64"
	CodeInvalidImage       = "INVALID_IMAGE"
)

// Error says why an image was not admitted.
type Error struct {
	// Code is one of the Code constants.
	Code string
	// Index is the image's place in its batch, from 0; -1 when the whole batch is
	// meant.
	Index   int
	Message string
}

func (e *Error) Error() string {
	if e.Index < 0 {
		return e.Message
	}
	return fmt.Sprintf("image %d: %s", e.Index+1, e.Message)
}

// Upload is an image before admission.
type Upload struct {
	// Base64 is the canonical standard encoding with padding. Bytes, when not
	// nil, are the image itself and go ahead of it.
	Base64 string
	Bytes  []byte
	// MediaType is one of image/png, image/jpeg, image/webp and image/gif.
	MediaType string
	// Name is shown to people and models; it may be empty.
	Name string
	// MaxEdge and MaxBytes, unless 0, bound what is stored of the image, where that is
	// less than the store keeps: the long edge in pixels and the size in bytes.
	MaxEdge, MaxBytes int
}

// Store keeps images. Its methods may be called from any goroutine.
type Store interface {
	// Admit checks a batch and stores all of it or nothing, and gives the
	// references in order. An image may be turned, scaled down and encoded anew;
	// the reference is that of what is stored. It is on the disk when Admit
	// returns. Errors: *Error for what is wrong with an image, else the disk's.
	Admit(ctx context.Context, batch []Upload) ([]sdkproto.Attachment, error)
	// Read gives the stored bytes. Errors: ErrNotFound.
	Read(ctx context.Context, id string) ([]byte, error)
}
