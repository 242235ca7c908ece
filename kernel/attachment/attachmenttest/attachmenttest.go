// Package attachmenttest holds the tests that every attachment store has to
// pass, and makes pictures for tests.
package attachmenttest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/png"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/attachment"
	"dsh/sdkproto"
)

// TestStore holds a store to the contract of attachment.Store. open gives a
// store that keeps its images in dir; it may be called again for the same dir.
func TestStore(t *testing.T, open func(t *testing.T, dir string) attachment.Store) {
	for name, test := range map[string]func(*testing.T, attachment.Store){
		"stored as it is":      storedAsItIs,
		"identical content":    identicalContent,
		"order of a batch":     orderOfBatch,
		"all or nothing":       allOrNothing,
		"refusals":             refusals,
		"base64":               base64Forms,
		"scaled":               scaled,
		"below the size":       belowTheSize,
		"a size of its own":    ownSize,
		"upright":              turnedUpright,
		"names":                names,
		"ids that are nowhere": nowhere,
		"ended context":        endedContext,
		"racing batches":       racingBatches,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t, t.TempDir())) })
	}
	t.Run("opened again", func(t *testing.T) {
		dir := t.TempDir()
		data := PNG(t, Gradient(3, 2))
		ref := admit(t, open(t, dir), attachment.Upload{Bytes: data, MediaType: "image/png"})[0]
		if got := read(t, open(t, dir), ref.AttachmentID); !bytes.Equal(got, data) {
			t.Error("other bytes")
		}
	})
}

func admit(t *testing.T, s attachment.Store, batch ...attachment.Upload) []sdkproto.Attachment {
	t.Helper()
	refs, err := s.Admit(context.Background(), batch)
	if err != nil {
		t.Fatal(err)
	}
	if len(refs) != len(batch) {
		t.Fatalf("%d references for %d images", len(refs), len(batch))
	}
	for _, ref := range refs {
		data := read(t, s, ref.AttachmentID)
		if id := ID(data); ref.AttachmentID != id || ref.Bytes != int64(len(data)) {
			t.Errorf("%+v refers to %d bytes of id %s", ref, len(data), id)
		}
	}
	return refs
}

func read(t *testing.T, s attachment.Store, id string) []byte {
	t.Helper()
	data, err := s.Read(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func encoded(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// Spec jsonrpc 9.7: an image that needs no change is stored byte for byte.
func storedAsItIs(t *testing.T, s attachment.Store) {
	for mediaType, data := range map[string][]byte{
		"image/png":  PNG(t, Gradient(5, 7)),
		"image/jpeg": JPEG(t, Gradient(5, 7)),
		"image/gif":  GIF(t, Gradient(5, 7)),
		"image/webp": WebP(5, 7, color.NRGBA{1, 2, 3, 255}),
	} {
		want := sdkproto.Attachment{AttachmentID: ID(data), MediaType: mediaType, Bytes: int64(len(data)), Width: 5, Height: 7, Name: "a"}
		for _, u := range []attachment.Upload{{Bytes: data}, {Base64: encoded(data)}} {
			u.MediaType, u.Name = mediaType, "a"
			if diff := cmp.Diff(want, admit(t, s, u)[0]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", mediaType, diff)
			}
		}
		if !bytes.Equal(read(t, s, want.AttachmentID), data) {
			t.Errorf("%s: other bytes", mediaType)
		}
	}
	// As large as may be without a change.
	data := PNG(t, image.NewGray(image.Rect(0, 0, 2048, 2)))
	if ref := admit(t, s, attachment.Upload{Bytes: data, MediaType: "image/png"})[0]; ref.AttachmentID != ID(data) || ref.OriginalDimensions != nil {
		t.Errorf("a long edge of 2048 is changed: %+v", ref)
	}
}

func identicalContent(t *testing.T, s attachment.Store) {
	u := attachment.Upload{Bytes: PNG(t, Gradient(4, 4)), MediaType: "image/png", Name: "a.png"}
	again := u
	again.Name = "b.png"
	refs := append(admit(t, s, u, again), admit(t, s, u)...)
	if refs[0].AttachmentID != refs[1].AttachmentID || refs[0] != refs[2] || refs[1].Name != "b.png" {
		t.Errorf("references %+v", refs)
	}
}

func orderOfBatch(t *testing.T, s attachment.Store) {
	var batch []attachment.Upload
	for i := range 20 {
		batch = append(batch, attachment.Upload{Bytes: PNG(t, Gradient(i+1, 1)), MediaType: "image/png"})
	}
	for i, ref := range admit(t, s, batch...) {
		if ref.Width != i+1 {
			t.Errorf("image %d is %d wide", i, ref.Width)
		}
	}
	if refs := admit(t, s); len(refs) != 0 {
		t.Errorf("references of nothing: %+v", refs)
	}
}

// S132: one bad image keeps the good ones out.
func allOrNothing(t *testing.T, s attachment.Store) {
	good := PNG(t, Gradient(6, 6))
	_, err := s.Admit(context.Background(), []attachment.Upload{
		{Bytes: good, MediaType: "image/png"}, {Bytes: []byte("<html>"), MediaType: "image/png"},
	})
	refused(t, err, attachment.CodeInvalidImage, 1)
	if _, err := s.Read(context.Background(), ID(good)); !errors.Is(err, attachment.ErrNotFound) {
		t.Errorf("the good image: %v", err)
	}
}

func refused(t *testing.T, err error, code string, index int) {
	t.Helper()
	var e *attachment.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v, want the code %s", err, code)
	}
	if e.Code != code || e.Index != index || e.Message == "" {
		t.Errorf("code %s at %d (%s), want %s at %d", e.Code, e.Index, e.Message, code, index)
	}
}

// Spec jsonrpc 9.8, case B46.
func refusals(t *testing.T, s attachment.Store) {
	small := PNG(t, Gradient(2, 2))
	grey := color.NRGBA{9, 9, 9, 255}
	one := func(mediaType string, data []byte) []attachment.Upload {
		return []attachment.Upload{{Bytes: data, MediaType: mediaType}}
	}
	many := func(n int, u attachment.Upload) (batch []attachment.Upload) {
		for range n {
			batch = append(batch, u)
		}
		return batch
	}
	const mib = 1 << 20
	cut := JPEG(t, Gradient(64, 64))
	for _, tc := range []struct {
		name  string
		batch []attachment.Upload
		code  string
		index int
	}{
		{"21 images", many(21, attachment.Upload{Bytes: small, MediaType: "image/png"}), attachment.CodeTooManyImages, -1},
		{"more than 200 MiB", many(11, attachment.Upload{Bytes: make([]byte, 19*mib), MediaType: "image/png"}), attachment.CodeImagesTooLarge, -1},
		{"more than 20 MiB", one("image/png", make([]byte, 20*mib+1)), attachment.CodeImageTooLarge, 0},
		{"more than 20 MiB of base64", []attachment.Upload{{Base64: strings.Repeat("AAAA", (20*mib)/3+1), MediaType: "image/png"}}, attachment.CodeImageTooLarge, 0},
		{"20 MiB of nothing", one("image/png", make([]byte, 20*mib)), attachment.CodeInvalidImage, 0},
		{"too many pixels", one("image/webp", WebP(8001, 8000, grey)), attachment.CodeTooManyPixels, 0},
		{"too wide", one("image/webp", WebP(8193, 1, grey)), attachment.CodeDimensionTooLarge, 0},
		{"too high", one("image/png", PNG(t, image.NewGray(image.Rect(0, 0, 1, 8193)))), attachment.CodeDimensionTooLarge, 0},
		{"unknown type", one("image/tiff", small), attachment.CodeUnsupportedType, 0},
		{"type in capitals", one("image/PNG", small), attachment.CodeUnsupportedType, 0},
		{"no type", one("", small), attachment.CodeUnsupportedType, 0},
		{"another type", one("image/jpeg", small), attachment.CodeTypeMismatch, 0},
		{"a web page", one("image/png", []byte("<!doctype html><html></html>")), attachment.CodeInvalidImage, 0},
		{"nothing", one("image/png", []byte{}), attachment.CodeInvalidImage, 0},
		{"empty base64", []attachment.Upload{{MediaType: "image/png"}}, attachment.CodeInvalidImage, 0},
		{"the head only", one("image/png", small[:33]), attachment.CodeInvalidImage, 0},
		{"cut off", one("image/jpeg", cut[:len(cut)/2]), attachment.CodeInvalidImage, 0},
		{"the second of two", append(one("image/png", small), one("image/gif", []byte("GIF89a"))...), attachment.CodeInvalidImage, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := s.Admit(context.Background(), tc.batch)
			refused(t, err, tc.code, tc.index)
		})
	}
	// The largest of each kind that may be.
	admit(t, s, attachment.Upload{Bytes: WebP(8192, 1, grey), MediaType: "image/webp"})
}

// Spec jsonrpc 2.8: base64 is canonical.
func base64Forms(t *testing.T, s attachment.Store) {
	// A length of 1 modulo 3 has padding and bits left over.
	data := PNG(t, Gradient(2, 2))
	for len(data)%3 != 1 {
		data = append(data, 0) // behind the end of the picture
	}
	good := encoded(data)
	last := strings.IndexByte(good, '=') - 1
	for name, text := range map[string]string{
		"no padding":         strings.TrimRight(good, "="),
		"too much padding":   good + "=",
		"a line break":       good[:8] + "\n" + good[8:],
		"breaks at the end":  good + "\r\n",
		"a space":            good[:8] + " " + good[8:],
		"another alphabet":   base64.URLEncoding.EncodeToString([]byte("\xff\xff\xff\xfb")),
		"bits left over":     good[:last] + string(good[last]+1) + good[last+1:],
		"a data URL":         "data:image/png;base64," + good,
		"not base64 at all":  "hello, world",
		"padding inside":     "AA==" + good,
		"a character beyond": good[:4] + "é" + good[4:],
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Admit(context.Background(), []attachment.Upload{{Base64: text, MediaType: "image/png"}})
			refused(t, err, attachment.CodeInvalidImageBase64, 0)
		})
	}
	admit(t, s, attachment.Upload{Base64: good, MediaType: "image/png"})
}

// Spec jsonrpc 9.7: the long edge is at most 2048, and the size before is told.
func scaled(t *testing.T, s attachment.Store) {
	for _, tc := range []struct {
		name          string
		upload        attachment.Upload
		width, height int
		original      sdkproto.Dimensions
	}{
		{"wide PNG", attachment.Upload{Bytes: PNG(t, Gradient(3000, 15)), MediaType: "image/png"}, 2048, 10, sdkproto.Dimensions{Width: 3000, Height: 15}},
		{"high JPEG", attachment.Upload{Bytes: JPEG(t, Gradient(16, 4096)), MediaType: "image/jpeg"}, 8, 2048, sdkproto.Dimensions{Width: 16, Height: 4096}},
		{"a line", attachment.Upload{Bytes: PNG(t, Gradient(8192, 1)), MediaType: "image/png"}, 2048, 1, sdkproto.Dimensions{Width: 8192, Height: 1}},
		{"GIF", attachment.Upload{Bytes: GIF(t, Gradient(2050, 4)), MediaType: "image/gif"}, 2048, 4, sdkproto.Dimensions{Width: 2050, Height: 4}},
		{"WebP", attachment.Upload{Bytes: WebP(4096, 32, color.NRGBA{200, 10, 10, 255}), MediaType: "image/webp"}, 2048, 16, sdkproto.Dimensions{Width: 4096, Height: 32}},
		{"a bound of its own", attachment.Upload{Bytes: PNG(t, Gradient(400, 40)), MediaType: "image/png", MaxEdge: 100}, 100, 10, sdkproto.Dimensions{Width: 400, Height: 40}},
		{"a wider bound", attachment.Upload{Bytes: PNG(t, Gradient(3000, 15)), MediaType: "image/png", MaxEdge: 2900}, 2048, 10, sdkproto.Dimensions{Width: 3000, Height: 15}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ref := admit(t, s, tc.upload)[0]
			if ref.Width != tc.width || ref.Height != tc.height || ref.OriginalDimensions == nil || *ref.OriginalDimensions != tc.original {
				t.Errorf("%+v (before: %+v), want %dx%d from %+v", ref, ref.OriginalDimensions, tc.width, tc.height, tc.original)
			}
			m, kind, err := image.Decode(bytes.NewReader(read(t, s, ref.AttachmentID)))
			if err != nil || "image/"+kind != ref.MediaType || m.Bounds().Dx() != tc.width || m.Bounds().Dy() != tc.height {
				t.Fatalf("stored as %s %v, %v; the reference says %s", kind, m, err, ref.MediaType)
			}
			if again := admit(t, s, tc.upload)[0]; again.AttachmentID != ref.AttachmentID {
				t.Error("the same image becomes another one")
			}
		})
	}
	// Transparency stays.
	through := image.NewNRGBA(image.Rect(0, 0, 3000, 2))
	ref := admit(t, s, attachment.Upload{Bytes: PNG(t, through), MediaType: "image/png"})[0]
	m, err := png.Decode(bytes.NewReader(read(t, s, ref.AttachmentID)))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, a := m.At(0, 0).RGBA(); a != 0 {
		t.Errorf("a clear picture has an alpha of %d", a)
	}
}

// Spec jsonrpc 9.7: what is stored has less than 4 MiB.
func belowTheSize(t *testing.T, s attachment.Store) {
	type big struct {
		name   string
		upload attachment.Upload
		scaled bool
	}
	// Bytes behind the picture are not kept.
	more := make([]byte, 4<<20)
	list := []big{
		{"PNG with more behind it", attachment.Upload{Bytes: append(PNG(t, Gradient(9, 9)), more...), MediaType: "image/png"}, false},
		{"JPEG with more behind it", attachment.Upload{Bytes: append(JPEG(t, Gradient(9, 9)), more...), MediaType: "image/jpeg"}, false},
		{"GIF with more behind it", attachment.Upload{Bytes: append(GIF(t, Gradient(9, 9)), more...), MediaType: "image/gif"}, false},
	}
	if withNoise {
		list = append(list,
			big{"opaque noise", attachment.Upload{Bytes: PNG(t, Noise(1200, 1200, true)), MediaType: "image/png"}, false},
			big{"clear noise", attachment.Upload{Bytes: PNG(t, Noise(1050, 1050, false)), MediaType: "image/png"}, true},
			big{"noise as JPEG", attachment.Upload{Bytes: JPEG(t, Noise(2048, 2048, true)), MediaType: "image/jpeg"}, false})
	}
	for _, tc := range list {
		t.Run(tc.name, func(t *testing.T) {
			if len(tc.upload.Bytes) < 4<<20 {
				t.Fatalf("the picture has only %d bytes", len(tc.upload.Bytes))
			}
			ref := admit(t, s, tc.upload)[0]
			if ref.Bytes >= 4<<20 {
				t.Errorf("%d bytes are stored", ref.Bytes)
			}
			if (ref.OriginalDimensions != nil) != tc.scaled {
				t.Errorf("%dx%d, before: %v", ref.Width, ref.Height, ref.OriginalDimensions)
			}
		})
	}
}

// ownSize: an upload may ask for less than the store keeps.
func ownSize(t *testing.T, s attachment.Store) {
	data := PNG(t, Noise(100, 100, true))
	most := len(data) / 2
	ref := admit(t, s, attachment.Upload{Bytes: data, MediaType: "image/png", MaxBytes: most})[0]
	if ref.Bytes > int64(most) || ref.Width == 0 {
		t.Errorf("%+v, want at most %d bytes", ref, most)
	}
	if ref := admit(t, s, attachment.Upload{Bytes: data, MediaType: "image/png", MaxBytes: len(data)})[0]; ref.AttachmentID != ID(data) {
		t.Error("an image within its bounds was changed")
	}
}

// Spec jsonrpc 9.7: the orientation of a JPEG is applied. The corners of the
// upright picture are those of the gradient for every orientation.
func turnedUpright(t *testing.T, s attachment.Store) {
	const w, h = 48, 32
	want := Gradient(w, h)
	for o := uint16(1); o <= 8; o++ {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			data := Oriented(JPEG(t, lying(want, o)), o, order)
			ref := admit(t, s, attachment.Upload{Bytes: data, MediaType: "image/jpeg"})[0]
			stored := read(t, s, ref.AttachmentID)
			if o == 1 && !bytes.Equal(stored, data) {
				t.Error("an upright picture was changed")
			}
			m, _, err := image.Decode(bytes.NewReader(stored))
			if err != nil {
				t.Fatal(err)
			}
			if m.Bounds() != want.Bounds() || ref.Width != w || ref.Height != h || ref.OriginalDimensions != nil {
				t.Errorf("orientation %d: %v, reference %+v", o, m.Bounds(), ref)
				continue
			}
			for _, at := range []image.Point{{1, 1}, {w - 2, 1}, {1, h - 2}, {w - 2, h - 2}} {
				if !near(m.At(at.X, at.Y), want.At(at.X, at.Y)) {
					t.Errorf("orientation %d: %v at %v, want %v", o, m.At(at.X, at.Y), at, want.At(at.X, at.Y))
				}
			}
		}
	}
	// Turned and scaled: the size before is that of the upright picture.
	long := Oriented(JPEG(t, Gradient(4096, 64)), 6, binary.BigEndian)
	ref := admit(t, s, attachment.Upload{Bytes: long, MediaType: "image/jpeg"})[0]
	if ref.Width != 32 || ref.Height != 2048 || ref.OriginalDimensions == nil || *ref.OriginalDimensions != (sdkproto.Dimensions{Width: 64, Height: 4096}) {
		t.Errorf("turned and scaled: %+v, before %+v", ref, ref.OriginalDimensions)
	}
}

// lying gives the picture that a camera stores with an orientation for one that
// is upright. EXIF says of the stored picture's first row and first column where
// they are in the upright one: top and left, top and right, bottom and right,
// bottom and left, left and top, right and top, right and bottom, left and
// bottom.
func lying(m *image.NRGBA, o uint16) *image.NRGBA {
	w, h := m.Bounds().Dx(), m.Bounds().Dy()
	sw, sh := w, h
	if o >= 5 {
		sw, sh = h, w
	}
	out := image.NewNRGBA(image.Rect(0, 0, sw, sh))
	for row := range sh {
		for col := range sw {
			var x, y int
			switch o {
			case 1, 2:
				y = row
			case 3, 4:
				y = h - 1 - row
			case 5, 8:
				x = row
			case 6, 7:
				x = w - 1 - row
			}
			switch o {
			case 1, 4:
				x = col
			case 2, 3:
				x = w - 1 - col
			case 5, 6:
				y = col
			case 7, 8:
				y = h - 1 - col
			}
			out.Set(col, row, m.At(x, y))
		}
	}
	return out
}

func near(a, b color.Color) bool {
	ar, ag, _, _ := a.RGBA()
	br, bg, _, _ := b.RGBA()
	const much = 24 << 8
	return max(ar, br)-min(ar, br) < much && max(ag, bg)-min(ag, bg) < much
}

func names(t *testing.T, s attachment.Store) {
	data := PNG(t, Gradient(1, 1))
	for name, want := range map[string]string{
		"":                        "",
		"Bild ä 😀.png":            "Bild ä 😀.png",
		"two\nlines\x00.png":      "twolines.png",
		strings.Repeat("x", 5000): strings.Repeat("x", 200),
	} {
		if ref := admit(t, s, attachment.Upload{Bytes: data, MediaType: "image/png", Name: name})[0]; ref.Name != want {
			t.Errorf("%q became %q", clip(name), clip(ref.Name))
		}
	}
}

func clip(s string) string { return s[:min(len(s), 40)] }

func nowhere(t *testing.T, s attachment.Store) {
	admit(t, s, attachment.Upload{Bytes: PNG(t, Gradient(1, 1)), MediaType: "image/png"})
	for _, id := range []string{
		"", "sha256:", ID([]byte("nobody")), strings.ToUpper(ID([]byte("nobody"))),
		"sha256:../../../etc/passwd", "sha256:" + strings.Repeat("/", 64), "md5:" + strings.Repeat("0", 64), "sha256:" + strings.Repeat("0", 63),
	} {
		if data, err := s.Read(context.Background(), id); !errors.Is(err, attachment.ErrNotFound) {
			t.Errorf("%q gives %d bytes, %v", id, len(data), err)
		}
	}
}

func endedContext(t *testing.T, s attachment.Store) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	data := PNG(t, Gradient(3, 3))
	if _, err := s.Admit(ctx, []attachment.Upload{{Bytes: data, MediaType: "image/png"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("admitted: %v", err)
	}
	if _, err := s.Read(context.Background(), ID(data)); !errors.Is(err, attachment.ErrNotFound) {
		t.Errorf("read: %v", err)
	}
}

func racingBatches(t *testing.T, s attachment.Store) {
	batch := []attachment.Upload{
		{Bytes: PNG(t, Gradient(9, 9)), MediaType: "image/png"}, {Bytes: JPEG(t, Gradient(9, 9)), MediaType: "image/jpeg"},
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			refs, err := s.Admit(context.Background(), batch)
			if err != nil {
				t.Error(err)
				return
			}
			for i, ref := range refs {
				if data, err := s.Read(context.Background(), ref.AttachmentID); err != nil || !bytes.Equal(data, batch[i].Bytes) {
					t.Errorf("image %d: %v", i, err)
				}
			}
		})
	}
	all.Wait()
}
