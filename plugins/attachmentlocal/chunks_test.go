package attachmentlocal

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/png"
	"slices"
	"testing"

	"dsh/kernel/attachment"
)

// chunk is a chunk of a PNG; bad breaks its checksum.
func chunk(name, data string, bad bool) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	out = append(out, name+data...)
	sum := crc32.ChecksumIEEE(out[4:])
	if bad {
		sum++
	}
	return binary.BigEndian.AppendUint32(out, sum)
}

// TestBadChunks: an image whose colour profile is broken is taken, without the
// profile; one whose pixels are broken is not (spec jsonrpc 9.7, 9.8).
func TestBadChunks(t *testing.T) {
	var plain bytes.Buffer
	if err := png.Encode(&plain, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		t.Fatal(err)
	}
	const header = pngSignature + 8 + 13 + 4
	with := func(chunks ...[]byte) []byte {
		return slices.Concat(plain.Bytes()[:header], slices.Concat(chunks...), plain.Bytes()[header:])
	}
	good, bad := chunk("tEXt", "a\x00b", false), chunk("iCCP", "profile", true)
	pixels := slices.Clone(plain.Bytes())
	pixels[len(pixels)-12-1]++ // the checksum of IDAT, in front of IEND
	for name, c := range map[string]struct {
		data, stored []byte // nil: it is refused
	}{
		"as it should be":       {plain.Bytes(), plain.Bytes()},
		"an optional chunk":     {with(good), with(good)},
		"a broken one":          {with(bad), plain.Bytes()},
		"one of each":           {with(bad, good, bad, bad), with(good)},
		"broken pixels":         {pixels, nil},
		"a needed unknown one":  {with(chunk("IXXX", "", true)), nil},
		"a length beyond":       {append(slices.Clone(plain.Bytes()[:header]), 0xff, 0xff, 0xff, 0xff, 'i', 'C', 'C', 'P', 0, 0, 0, 0), nil},
		"cut in a broken chunk": {with(bad)[:header+9], nil},
		"a signature alone":     {plain.Bytes()[:pngSignature], nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore(t.TempDir())
			refs, err := s.Admit(t.Context(), []attachment.Upload{{MediaType: typePNG, Bytes: c.data}})
			if (err == nil) != (c.stored != nil) {
				t.Fatalf("got %v", err)
			}
			if err != nil {
				return
			}
			got, err := s.Read(t.Context(), refs[0].AttachmentID)
			if err != nil || !bytes.Equal(got, c.stored) {
				t.Errorf("stored %q, %v; want %q", got, err, c.stored)
			}
		})
	}
}
