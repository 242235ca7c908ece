package streamjson

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// messagePrefix begins the id of an answer (S077).
const messagePrefix = "msg_"

// MessageID is the id under which an answer is shown: the provider's when it has
// the shape that hosts know, else one that follows from the session and from seq,
// the place in its log of the first piece of the answer. So the id is known with
// the first piece, is another one for every attempt, and can be had again from
// the log, where the answer names its pieces.
func MessageID(native, sessionID string, seq int64) string {
	if strings.HasPrefix(native, messagePrefix) {
		return native
	}
	sum := digest("answer", sessionID, seq)
	return messagePrefix + hex.EncodeToString(sum[:16])
}

// BlockUUID is the uuid of the line that shows one block of a message of the
// log: it follows from the message's id and the block's place in it, so that a
// transcript can name the same lines. It has the shape of a version 4 UUID.
func BlockUUID(messageID string, index int) string {
	return uuidOf("block", messageID, int64(index))
}

// TurnUUID is the uuid of the line in which the harness says how a turn of a
// session ended that did not end well; a turn has one at most.
func TurnUUID(sessionID string, turn int) string { return uuidOf("turn", sessionID, int64(turn)) }

func uuidOf(kind, name string, n int64) string {
	sum := digest(kind, name, n)
	var out [36]byte
	AppendUUID(out[:0], [16]byte(sum[:16]))
	return string(out[:])
}

func digest(kind, name string, n int64) [sha256.Size]byte {
	b := append(make([]byte, 0, 128), kind...)
	b = append(b, 0)
	b = append(b, name...)
	b = append(b, 0)
	return sha256.Sum256(strconv.AppendInt(b, n, 10))
}

// AppendUUID appends sixteen bytes, but for the six bits that say so, as a
// version 4 UUID.
func AppendUUID(dst []byte, b [16]byte) []byte {
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	for i, part := range [...][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return dst
}
