package pdftext

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"encoding/ascii85"
	"errors"
	"fmt"
	"io"

	"golang.org/x/image/tiff/lzw"
)

const (
	// maxStream bounds one stream and maxUnpacked all that a document has unpacked, in
	// bytes: a few kilobytes can hold a gigabyte of zeros.
	maxStream   = 16 << 20
	maxUnpacked = 96 << 20
)

var errStreamTooLarge = errors.New("a stream in it is too large; use another program such as pdftotext")

// unpack gives the data of a stream. Of one that is damaged it gives what can be
// had. Errors: a filter that is not known, which is that of a picture, and data
// that is too large.
func (d *Document) unpack(s *stream) ([]byte, error) {
	data := s.raw
	filters := d.list(s.dict["Filter"])
	params := d.list(s.dict["DecodeParms"])
	for i, f := range filters {
		var p dict
		if i < len(params) {
			p, _ = d.resolve(params[i]).(dict)
		}
		kind, _ := d.resolve(f).(name)
		var err error
		if data, err = d.filtered(data, kind, p); err != nil {
			return nil, err
		}
		if d.unpacked += len(data); d.unpacked > maxUnpacked {
			panic(stop{errTooMuch})
		}
	}
	return data, nil
}

func (d *Document) filtered(data []byte, kind name, p dict) ([]byte, error) {
	var r io.Reader
	switch kind {
	case "FlateDecode", "Fl":
		z, err := zlib.NewReader(bytes.NewReader(data))
		if err != nil {
			// Without its header, or with a wrong one.
			r = flate.NewReader(bytes.NewReader(data[min(2, len(data)):]))
		} else {
			r = z
		}
	case "LZWDecode", "LZW":
		r = lzw.NewReader(bytes.NewReader(data), lzw.MSB, 8)
	case "ASCII85Decode", "A85":
		return plain85(data), nil
	case "ASCIIHexDecode", "AHx":
		text, _, _ := bytes.Cut(data, []byte(">"))
		return unhex(text), nil
	case "RunLengthDecode", "RL":
		return runs(data)
	case "Crypt":
		return data, nil
	default:
		return nil, fmt.Errorf("it has data in the form %s, which holds no text", kind)
	}
	out, err := io.ReadAll(io.LimitReader(r, maxStream+1))
	if len(out) > maxStream {
		return nil, errStreamTooLarge
	}
	if err != nil && len(out) == 0 {
		return nil, errors.New("a stream in it is damaged")
	}
	return d.unpredict(out, p)
}

// plain85 decodes base 85 as far as it goes.
func plain85(data []byte) []byte {
	data = bytes.TrimPrefix(bytes.TrimLeft(data, " \r\n\t"), []byte("<~"))
	data, _, _ = bytes.Cut(data, []byte("~"))
	out := make([]byte, 4*len(data)+4) // a z alone is four bytes
	n, _, err := ascii85.Decode(out, data, true)
	if err != nil && n == 0 {
		return nil
	}
	return out[:n]
}

// runs decodes run lengths: a byte below 128 precedes so many bytes and one more,
// one above it precedes a byte that is repeated.
func runs(data []byte) ([]byte, error) {
	var out []byte
	for len(data) > 1 && data[0] != 128 {
		n := int(data[0])
		if n < 128 {
			end := min(n+2, len(data))
			out, data = append(out, data[1:end]...), data[end:]
		} else {
			out, data = append(out, bytes.Repeat(data[1:2], 257-n)...), data[2:]
		}
		if len(out) > maxStream {
			return nil, errStreamTooLarge
		}
	}
	return out, nil
}

// unpredict takes back what was done to the data to make it smaller: each row
// holds differences to its neighbours.
func (d *Document) unpredict(data []byte, p dict) ([]byte, error) {
	predictor := d.int(p["Predictor"], 1)
	if predictor < 2 {
		return data, nil
	}
	colors, bits, columns := d.int(p["Colors"], 1), d.int(p["BitsPerComponent"], 8), d.int(p["Columns"], 1)
	if colors < 1 || colors > 64 || bits < 1 || bits > 16 || columns < 1 || columns > maxStream {
		return nil, errors.New("a stream in it is damaged")
	}
	pixel, row := max(1, colors*bits/8), (colors*bits*columns+7)/8
	if predictor == 2 {
		if bits != 8 {
			return data, nil // only pictures are like that
		}
		for from := 0; from+row <= len(data); from += row {
			for i := from + pixel; i < from+row; i++ {
				data[i] += data[i-pixel]
			}
		}
		return data, nil
	}
	out := make([]byte, 0, len(data))
	above := make([]byte, row)
	for len(data) > 1 {
		kind, line := data[0], data[1:min(row+1, len(data))]
		data = data[1+len(line):]
		for i := range line {
			var left, corner byte
			if i >= pixel {
				left, corner = line[i-pixel], above[i-pixel]
			}
			switch kind {
			case 1:
				line[i] += left
			case 2:
				line[i] += above[i]
			case 3:
				line[i] += byte((int(left) + int(above[i])) / 2)
			case 4:
				line[i] += paeth(left, above[i], corner)
			}
		}
		out = append(out, line...)
		copy(above, line)
	}
	return out, nil
}

// paeth is that of three neighbours which is nearest to their slope.
func paeth(left, up, corner byte) byte {
	guess := int(left) + int(up) - int(corner)
	far := func(b byte) int { return max(guess-int(b), int(b)-guess) }
	switch {
	case far(left) <= far(up) && far(left) <= far(corner):
		return left
	case far(up) <= far(corner):
		return up
	}
	return corner
}
