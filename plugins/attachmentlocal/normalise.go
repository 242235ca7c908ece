package attachmentlocal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"time"

	"golang.org/x/image/draw"
	"golang.org/x/image/webp"

	"dsh/kernel/attachment"
	"dsh/sdkproto"
)

// What is stored of an image (spec jsonrpc 9.7): its long edge, in pixels, and
// its size, in bytes.
const (
	maxLongEdge   = 2048
	maxStoredSize = 4<<20 - 1
)

// bounds are those of one image.
type bounds struct{ edge, size int }

func boundsOf(u *attachment.Upload) bounds {
	b := bounds{maxLongEdge, maxStoredSize}
	if u.MaxEdge > 0 {
		b.edge = min(b.edge, u.MaxEdge)
	}
	if u.MaxBytes > 0 {
		b.size = min(b.size, u.MaxBytes)
	}
	return b
}

// decodeLimit is how long one image may take to decode. The largest takes
// seconds; a file can be made that takes hours.
const decodeLimit = 30 * time.Second

// Media types (spec jsonrpc 2.8).
const (
	typePNG  = "image/png"
	typeJPEG = "image/jpeg"
	typeGIF  = "image/gif"
	typeWebP = "image/webp"
)

type format struct {
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}

// formats are the decoders by media type. Of a GIF the first picture counts,
// which is the one that models are shown.
func formats() map[string]format {
	return map[string]format{
		typePNG:  {png.DecodeConfig, png.Decode},
		typeJPEG: {jpeg.DecodeConfig, jpeg.Decode},
		typeGIF:  {gif.DecodeConfig, gif.Decode},
		typeWebP: {webp.DecodeConfig, webp.Decode},
	}
}

// normalised is what is stored of one image.
type normalised struct {
	bytes         []byte
	mediaType     string
	width, height int
	// original is set when the image was scaled: its size before, upright.
	original *sdkproto.Dimensions
}

// normalise checks an image by decoding it, and changes what has to be changed.
// One that needs no change stays as it is, byte for byte.
func (s *Store) normalise(ctx context.Context, f format, mediaType string, data []byte, most bounds) (*normalised, error) {
	c, err := config(f, data)
	if err != nil {
		return nil, invalid(mediaType, err)
	}
	switch {
	case c.Width < 1 || c.Height < 1:
		return nil, invalid(mediaType, errors.New("it has no pixels"))
	case c.Width > maxSide || c.Height > maxSide:
		return nil, refuse(0, attachment.CodeDimensionTooLarge, "Image upload is %dx%d pixels and may have %d a side.", c.Width, c.Height, maxSide)
	case c.Width*c.Height > maxPixels:
		return nil, refuse(0, attachment.CodeTooManyPixels, "Image upload has %d pixels and may have %d.", c.Width*c.Height, maxPixels)
	}
	// What decoded images take at one time is bounded, whoever sends them.
	room := footprint(c)
	if err := s.room.Acquire(ctx, room); err != nil {
		return nil, context.Cause(ctx)
	}
	defer s.room.Release(room)

	img, err := decode(ctx, f, data)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, invalid(mediaType, err)
	}
	n := &normalised{bytes: data, mediaType: mediaType, width: c.Width, height: c.Height}
	turn := upright
	if mediaType == typeJPEG {
		turn = orientation(data)
	}
	if turn == upright && max(c.Width, c.Height) <= most.edge && len(data) <= most.size {
		return n, nil
	}
	return shrink(ctx, n, img, turn, most)
}

func invalid(mediaType string, err error) error {
	return refuse(0, attachment.CodeInvalidImage, "Image upload does not decode as %s: %v.", mediaType, err)
}

// maxFootprint is the room for decoded images, in bytes: that of the largest.
const maxFootprint = maxPixels * 8

// footprint is about what a decoded image takes, in bytes.
func footprint(c image.Config) int64 {
	perPixel := int64(4)
	switch c.ColorModel {
	case color.RGBA64Model, color.NRGBA64Model:
		perPixel = 8
	}
	return int64(c.Width) * int64(c.Height) * perPixel
}

// config and decode contain a panic of a decoder: what it reads is a stranger's.
func config(f format, data []byte) (c image.Config, err error) {
	defer contain(&err)
	return f.config(bytes.NewReader(data))
}

func decode(ctx context.Context, f format, data []byte) (img image.Image, err error) {
	defer contain(&err)
	ctx, cancel := context.WithTimeoutCause(ctx, decodeLimit, fmt.Errorf("it takes more than %v", decodeLimit))
	defer cancel()
	return f.decode(&interruptible{ctx, bytes.NewReader(data)})
}

func contain(err *error) {
	if p := recover(); p != nil {
		*err = errors.New("the decoder gave up")
	}
}

// interruptible ends a decoding with its context. It gives little at a time, so
// that the decoders come back for more.
type interruptible struct {
	ctx context.Context
	r   *bytes.Reader
}

func (r *interruptible) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	const piece = 4 << 10
	return r.r.Read(p[:min(len(p), piece)])
}

// shrink turns an image upright, scales it down to the long edge and encodes it
// so that it stays within its bounds.
func shrink(ctx context.Context, n *normalised, img image.Image, turn orient, most bounds) (*normalised, error) {
	canvas := image.Rect(0, 0, n.width, n.height)
	if img.Bounds() != canvas {
		// The first picture of a GIF may cover a part only.
		whole := image.NewNRGBA(canvas)
		draw.Draw(whole, img.Bounds(), img, img.Bounds().Min, draw.Src)
		img = whole
	}
	size := canvas.Size()
	if turn.swaps() {
		n.width, n.height = n.height, n.width
	}
	before := sdkproto.Dimensions{Width: n.width, Height: n.height}
	for edge := min(max(size.X, size.Y), most.edge); edge > 0; edge = edge * 3 / 4 {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		small := turn.apply(scale(img, edge))
		data, mediaType, err := encode(small, n.mediaType, most.size)
		if err != nil {
			return nil, fmt.Errorf("encode an image anew: %w", err)
		}
		if data == nil {
			continue // noise, or close to it: only fewer pixels help
		}
		n.bytes, n.mediaType = data, mediaType
		n.width, n.height = small.Bounds().Dx(), small.Bounds().Dy()
		if after := (sdkproto.Dimensions{Width: n.width, Height: n.height}); after != before {
			n.original = &before
		}
		return n, nil
	}
	return nil, errors.New("encode an image anew: no size is small enough")
}

// scale gives a copy with a long edge of so many pixels.
func scale(img image.Image, edge int) *image.RGBA {
	size := img.Bounds().Size()
	long := max(size.X, size.Y)
	fit := func(side int) int { return max(1, (side*edge+long/2)/long) }
	dst := image.NewRGBA(image.Rect(0, 0, fit(size.X), fit(size.Y)))
	if dst.Bounds().Size() == size {
		draw.Draw(dst, dst.Bounds(), img, img.Bounds().Min, draw.Src)
	} else {
		draw.BiLinear.Scale(dst, dst.Bounds(), img, img.Bounds(), draw.Src, nil)
	}
	return dst
}

// encode gives the best form of at most so many bytes: without loss unless the
// image came as JPEG, and only an opaque one as JPEG, which has no transparency.
// nil when there is none.
func encode(img *image.RGBA, from string, most int) (data []byte, mediaType string, err error) {
	if from != typeJPEG {
		data, err := capped(most, func(w io.Writer) error { return png.Encode(w, img) })
		if data != nil || err != nil {
			return data, typePNG, err
		}
		if !img.Opaque() {
			return nil, "", nil
		}
	}
	for _, quality := range [...]int{90, 80, 65, 50} {
		data, err := capped(most, func(w io.Writer) error { return jpeg.Encode(w, img, &jpeg.Options{Quality: quality}) })
		if data != nil || err != nil {
			return data, typeJPEG, err
		}
	}
	return nil, "", nil
}

var errTooLarge = errors.New("too large")

// capped gives what f writes, nil when that is more than so many bytes.
func capped(most int, f func(io.Writer) error) ([]byte, error) {
	b := cappedBuffer{most: most}
	if err := f(&b); err != nil {
		if errors.Is(err, errTooLarge) {
			return nil, nil
		}
		return nil, err
	}
	return b.Bytes(), nil
}

type cappedBuffer struct {
	bytes.Buffer
	most int
}

func (b *cappedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		return 0, errTooLarge
	}
	return b.Buffer.Write(p)
}
