package attachmentlocal

import (
	"encoding/binary"
	"hash/crc32"
)

const pngSignature = 8

// repaired leaves out of a PNG the chunks that decoders may skip and whose
// checksum is wrong. Programs write such chunks, profiles of colours mostly, and
// every other decoder skips them; that of the standard library refuses the whole
// image. A chunk that is needed stays as it is, whatever its checksum. Bytes that
// need no change are given back as they came.
func repaired(data []byte) []byte {
	const head, tail = 8, 4 // length and name, checksum
	var good []byte
	kept := 0
	for at := pngSignature; len(data)-at >= head+tail; {
		size := binary.BigEndian.Uint32(data[at:])
		if int64(size) > int64(len(data)-at-head-tail) {
			break
		}
		end := at + head + int(size) + tail
		named := data[at+4 : end-tail]
		const lower = 'a' - 'A'
		optional := named[0]&lower != 0
		if optional && crc32.ChecksumIEEE(named) != binary.BigEndian.Uint32(data[end-tail:]) {
			good, kept = append(good, data[kept:at]...), end
		}
		at = end
	}
	if kept == 0 {
		return data
	}
	return append(good, data[kept:]...)
}
