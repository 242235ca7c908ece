package attachmentlocal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"io"
	"testing"

	"dsh/kernel/attachment"
	"dsh/kernel/attachment/attachmenttest"
)

// The first picture of a GIF may cover a part of it: the rest is clear.
func TestPartOfGIF(t *testing.T) {
	palette := color.Palette{color.NRGBA{R: 255, A: 255}}
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, &gif.GIF{
		Image: []*image.Paletted{image.NewPaletted(image.Rect(2000, 0, 3000, 10), palette)}, Delay: []int{0},
		Config: image.Config{ColorModel: palette, Width: 4000, Height: 20},
	}); err != nil {
		t.Fatal(err)
	}
	s := NewStore(t.TempDir())
	refs, err := s.Admit(context.Background(), []attachment.Upload{{Bytes: b.Bytes(), MediaType: typeGIF}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := s.Read(context.Background(), refs[0].AttachmentID)
	if err != nil {
		t.Fatal(err)
	}
	m, err := formats()[refs[0].MediaType].decode(bytes.NewReader(data))
	if err != nil || m.Bounds() != image.Rect(0, 0, 2048, 10) {
		t.Fatalf("%v, %v", m.Bounds(), err)
	}
	for x, want := range map[int]uint32{100: 0, 1200: 0xffff, 1900: 0} {
		if r, _, _, a := m.At(x, 2).RGBA(); r != want || a != want {
			t.Errorf("at %d: red %x, alpha %x, want %x", x, r, a, want)
		}
	}
}

// A decoder that panics, or that never comes to an end, is an image that does
// not decode.
func TestDecoders(t *testing.T) {
	size := func(io.Reader) (image.Config, error) {
		return image.Config{Width: 1, Height: 1, ColorModel: color.NRGBAModel}, nil
	}
	s := NewStore(t.TempDir())
	for name, decode := range map[string]func(io.Reader) (image.Image, error){
		"panic": func(io.Reader) (image.Image, error) { panic("index out of range") },
		"error": func(io.Reader) (image.Image, error) { return nil, errors.New("no") },
	} {
		_, err := s.normalise(context.Background(), format{size, decode}, typePNG, nil, boundsOf(&attachment.Upload{}))
		var refused *attachment.Error
		if !errors.As(err, &refused) || refused.Code != attachment.CodeInvalidImage {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	endless := func(r io.Reader) (image.Image, error) {
		for {
			cancel()
			if _, err := r.Read(make([]byte, 1)); err != nil {
				return nil, fmt.Errorf("decode: %w", err)
			}
		}
	}
	if _, err := s.normalise(ctx, format{size, endless}, typePNG, make([]byte, 1<<20), boundsOf(&attachment.Upload{})); !errors.Is(err, context.Canceled) {
		t.Errorf("endless: %v", err)
	}
}

// EXIF that is broken, or not what it seems, is no orientation.
func TestOrientation(t *testing.T) {
	plain := attachmenttest.JPEG(t, attachmenttest.Gradient(2, 2))
	good := attachmenttest.Oriented(plain, 6, binary.BigEndian)
	exif := bytes.Index(good, []byte("Exif"))
	change := func(at int, b ...byte) []byte {
		out := bytes.Clone(good)
		copy(out[exif+at:], b)
		return out
	}
	for _, tc := range []struct {
		name string
		data []byte
		want orient
	}{
		{"there", good, 6},
		{"behind padding", append(append([]byte{0xff, 0xd8}, 0xff, 0xff, 0xff), good[3:]...), 6},
		{"behind another part", append([]byte{0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2}, good[2:]...), 6},
		{"none", plain, 1},
		{"0", attachmenttest.Oriented(plain, 0, binary.BigEndian), 1},
		{"9", attachmenttest.Oriented(plain, 9, binary.LittleEndian), 1},
		{"no TIFF header", change(6, 'X'), 1},
		{"directory beyond the end", change(10, 0xff, 0xff, 0xff, 0xff), 1},
		{"more entries than there are", change(14, 0xff, 0xff), 6},
		{"another kind of number", change(6+10+12+3, 4), 1},
		{"size beyond the end", append(bytes.Clone(good[:4]), 0xff, 0xff), 1},
		{"size of nothing", []byte{0xff, 0xd8, 0xff, 0xe1, 0, 0, 0xff, 0xe1}, 1},
		{"empty", nil, 1},
	} {
		if got := orientation(tc.data); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
	for n := range len(good) {
		orientation(good[:n]) // must not panic
	}
}

func FuzzOrientation(f *testing.F) {
	f.Add([]byte("\xff\xd8\xff\xe1\x00\x20Exif\x00\x00II*\x00\x08\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if o := orientation(data); o < 1 || o > 8 {
			t.Errorf("orientation %d", o)
		}
	})
}
