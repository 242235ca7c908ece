package attachmentlocal

import (
	"bytes"
	"encoding/binary"
	"image"
)

// orient is how a picture has to be turned to stand upright, in the numbers of
// EXIF: 1 is upright, 2 to 4 keep width and height, 5 to 8 swap them.
type orient int

const upright orient = 1

func (o orient) swaps() bool { return o >= 5 }

// apply gives the picture upright.
func (o orient) apply(src *image.RGBA) *image.RGBA {
	if o == upright {
		return src
	}
	w, h := src.Bounds().Dx(), src.Bounds().Dy()
	size := image.Rect(0, 0, w, h)
	if o.swaps() {
		size = image.Rect(0, 0, h, w)
	}
	dst := image.NewRGBA(size)
	for y := range h {
		for x := range w {
			tx, ty := o.target(x, y, w, h)
			to, from := dst.PixOffset(tx, ty), src.PixOffset(x, y)
			copy(dst.Pix[to:to+4], src.Pix[from:from+4])
		}
	}
	return dst
}

// target says where a pixel of a w by h picture goes.
func (o orient) target(x, y, w, h int) (int, int) {
	switch o {
	case 2:
		return w - 1 - x, y
	case 3:
		return w - 1 - x, h - 1 - y
	case 4:
		return x, h - 1 - y
	case 5:
		return y, x
	case 6:
		return h - 1 - y, x
	case 7:
		return h - 1 - y, w - 1 - x
	case 8:
		return y, w - 1 - x
	}
	return x, y
}

// orientation reads the orientation from the EXIF part of a JPEG. One that is
// missing or cannot be read is upright.
func orientation(data []byte) orient {
	for rest := data[min(2, len(data)):]; len(rest) >= 4 && rest[0] == 0xff; {
		marker := rest[1]
		if marker == 0xff { // padding
			rest = rest[1:]
			continue
		}
		if marker == 0x01 || marker >= 0xd0 && marker <= 0xd8 { // alone, without a part
			rest = rest[2:]
			continue
		}
		size := int(binary.BigEndian.Uint16(rest[2:]))
		if size < 2 || len(rest) < 2+size {
			break
		}
		part := rest[4 : 2+size]
		if exif, ok := bytes.CutPrefix(part, []byte("Exif\x00\x00")); ok && marker == 0xe1 {
			return exifOrientation(exif)
		}
		if marker == 0xda || marker == 0xd9 { // the picture begins, or ends
			break
		}
		rest = rest[2+size:]
	}
	return upright
}

// exifOrientation finds the entry in the first directory of a TIFF header.
func exifOrientation(tiff []byte) orient {
	const headerSize, entrySize, tagOrientation, typeShort = 8, 12, 0x0112, 3
	if len(tiff) < headerSize {
		return upright
	}
	var order binary.ByteOrder
	switch string(tiff[:4]) {
	case "II*\x00":
		order = binary.LittleEndian
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return upright
	}
	at := uint64(order.Uint32(tiff[4:]))
	if at+2 > uint64(len(tiff)) {
		return upright
	}
	count := int(order.Uint16(tiff[at:]))
	entries := tiff[at+2:]
	for ; count > 0 && len(entries) >= entrySize; count-- {
		if order.Uint16(entries) == tagOrientation && order.Uint16(entries[2:]) == typeShort && order.Uint32(entries[4:]) == 1 {
			if o := orient(order.Uint16(entries[8:])); o >= upright && o <= 8 {
				return o
			}
			return upright
		}
		entries = entries[entrySize:]
	}
	return upright
}
