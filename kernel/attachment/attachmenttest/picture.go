package attachmenttest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"testing"
)

// Gradient is a picture whose corners all differ: red grows to the right, green
// downwards.
func Gradient(width, height int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			m.SetNRGBA(x, y, color.NRGBA{R: ramp(x, width), G: ramp(y, height), B: 40, A: 255})
		}
	}
	return m
}

func ramp(at, of int) uint8 {
	if of < 2 {
		return 0
	}
	return uint8(255 * at / (of - 1))
}

// Noise is a picture that no encoder makes much smaller, the same for the same
// size. An opaque one has no transparency.
func Noise(width, height int, opaque bool) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	state := uint32(2463534242)
	for i := range m.Pix {
		state ^= state << 13
		state ^= state >> 17
		state ^= state << 5
		m.Pix[i] = byte(state)
		if opaque && i%4 == 3 {
			m.Pix[i] = 255
		}
	}
	return m
}

// PNG, JPEG and GIF encode a picture.
func PNG(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// JPEG encodes with little loss.
func JPEG(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 95}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// GIF encodes one picture.
func GIF(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := gif.Encode(&b, m, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// WebP is a picture of one colour without loss, in some thirty bytes whatever
// its size; a side has at most 16384 pixels.
func WebP(width, height int, c color.NRGBA) []byte {
	var w bits
	w.put(0x2f, 8) // signature
	w.put(uint32(width-1), 14)
	w.put(uint32(height-1), 14)
	w.put(1, 1) // alpha is used
	w.put(0, 3) // version
	w.put(0, 1) // no transform
	w.put(0, 1) // no colour cache
	w.put(0, 1) // one group of codes
	for _, symbol := range [...]uint8{c.G, c.R, c.B, c.A, 0} {
		w.put(1, 1) // a simple code
		w.put(0, 1) // of one symbol, which then takes no bits
		w.put(1, 1) // of eight bits
		w.put(uint32(symbol), 8)
	}
	data := w.bytes
	size := uint32(len(data))
	if len(data)%2 == 1 {
		data = append(data, 0)
	}
	out := append([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, uint32(4+8+len(data)))...)
	out = append(out, "WEBPVP8L"...)
	out = binary.LittleEndian.AppendUint32(out, size)
	return append(out, data...)
}

// bits writes the lowest bit first.
type bits struct {
	bytes []byte
	used  int // of the last byte
}

func (b *bits) put(value uint32, n int) {
	for i := range n {
		if b.used%8 == 0 {
			b.bytes = append(b.bytes, 0)
		}
		if value>>i&1 == 1 {
			b.bytes[len(b.bytes)-1] |= 1 << (b.used % 8)
		}
		b.used++
	}
}

// Oriented puts an EXIF orientation, 1 to 8, into a JPEG.
func Oriented(data []byte, orientation uint16, order binary.AppendByteOrder) []byte {
	tiff := []byte("II*\x00")
	if order.String() == binary.BigEndian.String() {
		tiff = []byte("MM\x00*")
	}
	tiff = order.AppendUint32(tiff, 8) // where the directory is
	tiff = order.AppendUint16(tiff, 2) // its entries
	tiff = order.AppendUint16(tiff, 0x0100)
	tiff = order.AppendUint16(tiff, 4)
	tiff = order.AppendUint32(tiff, 1)
	tiff = order.AppendUint32(tiff, 99)
	tiff = order.AppendUint16(tiff, 0x0112)
	tiff = order.AppendUint16(tiff, 3)
	tiff = order.AppendUint32(tiff, 1)
	tiff = order.AppendUint16(tiff, orientation)
	tiff = order.AppendUint16(tiff, 0)
	tiff = order.AppendUint32(tiff, 0) // no further directory
	part := append([]byte("Exif\x00\x00"), tiff...)
	out := append([]byte{}, data[:2]...)
	out = append(out, 0xff, 0xe1)
	out = binary.BigEndian.AppendUint16(out, uint16(2+len(part)))
	out = append(out, part...)
	return append(out, data[2:]...)
}

// ID is the id of stored bytes (spec jsonrpc 9.7).
func ID(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
