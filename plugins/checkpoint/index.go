package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// maxIndex bounds the index of a repository that is read, in bytes.
const maxIndex = 512 << 20

// tracked is what the repository's index says of a file.
type tracked struct {
	// id is that of the content, "" when there is no single one.
	id    string
	stamp stamp
}

// index is what the repository's own index says: which files are covered although
// they may be ignored, and which contents the repository has. It is read and never
// written; a snapshot is right without it.
type index struct {
	// stamp is that of its file.
	stamp stamp
	files map[string]tracked
	// attributes: a file of attributes is tracked.
	attributes bool
	// beside are the tracked files that a walk does not meet.
	beside []string
}

// readIndex reads the index of a repository unless it is the one that is known.
func readIndex(path string, long bool, known *index) *index {
	at, err := look(path)
	if err == nil && known != nil && known.stamp == at.stamp {
		return known
	}
	x := &index{stamp: at.stamp, files: map[string]tracked{}}
	size := 20
	if long {
		size = 32
	}
	if x.parse(readAtMost(path, maxIndex), size) != nil {
		x.files = map[string]tracked{}
	}
	return x
}

var errIndex = errors.New("the index has an unknown form")

// Parts of an index entry (gitformat-index).
const (
	indexHead    = 12
	indexStat    = 40
	flagExtended = 0x4000
	flagSkipped  = 0x8000 // assumed unchanged
	stageMask    = 0x3000
	extSparse    = 0x4000 // not in the work tree
)

func (x *index) parse(data []byte, idSize int) error {
	if len(data) < indexHead+idSize || string(data[:4]) != "DIRC" {
		return errIndex
	}
	version, n := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	if version < 2 || version > 4 {
		return errIndex
	}
	rest, previous := data[indexHead:len(data)-idSize], ""
	for range n {
		whole := rest
		if len(rest) < indexStat+idSize+2 {
			return errIndex
		}
		field := func(i int) int64 { return int64(binary.BigEndian.Uint32(whole[4*i:])) }
		const second = int64(1e9)
		t := tracked{
			id: hex.EncodeToString(rest[indexStat : indexStat+idSize]),
			stamp: stamp{
				ctime: int64(int32(field(0)))*second + field(1), mtime: int64(int32(field(2)))*second + field(3),
				ino: uint64(field(5)), size: field(9),
			},
		}
		mode := field(6)
		flags := binary.BigEndian.Uint16(rest[indexStat+idSize:])
		rest = rest[indexStat+idSize+2:]
		skipped := flags&flagSkipped != 0
		if version >= 3 && flags&flagExtended != 0 {
			if len(rest) < 2 {
				return errIndex
			}
			skipped = skipped || binary.BigEndian.Uint16(rest)&extSparse != 0
			rest = rest[2:]
		}
		path := ""
		if version == 4 {
			cut, used := varint(rest)
			if used == 0 || cut > len(previous) {
				return errIndex
			}
			rest, path = rest[used:], previous[:len(previous)-cut]
		}
		end := bytes.IndexByte(rest, 0)
		if end < 0 {
			return errIndex
		}
		path += string(rest[:end])
		previous = path
		if rest = rest[end+1:]; version < 4 {
			// The entry is padded with up to eight zeros.
			used := len(whole) - len(rest)
			pad := (8 - used%8) % 8
			if len(rest) < pad {
				return errIndex
			}
			rest = rest[pad:]
		}
		if flags&stageMask != 0 {
			t = tracked{}
		}
		if skipped {
			t.stamp = stamp{}
		}
		if format := mode & 0xf000; format != 0x8000 && format != 0xa000 || !isInside(path) {
			continue // a submodule, or a folder that is not checked out
		}
		x.files[strings.Clone(path)] = t
		x.attributes = x.attributes || filepath.Base(path) == attributesName
	}
	for len(rest) >= 8 {
		// Most of the entries of a split index are in another file.
		if string(rest[:4]) == "link" {
			return errIndex
		}
		size := int(binary.BigEndian.Uint32(rest[4:]))
		if size > len(rest)-8 {
			return errIndex
		}
		rest = rest[8+size:]
	}
	return nil
}

// varint reads the numbers of version 4.
func varint(data []byte) (value, used int) {
	for i, b := range data {
		if i > 4 {
			return 0, 0
		}
		if i > 0 {
			value++
		}
		value = value<<7 | int(b&0x7f)
		if b&0x80 == 0 {
			return value, i + 1
		}
	}
	return 0, 0
}

// isInside reports whether a path of a foreign index stays in the work tree and
// out of the repository.
func isInside(path string) bool {
	if !filepath.IsLocal(filepath.FromSlash(path)) {
		return false
	}
	for part := range strings.SplitSeq(path, "/") {
		if strings.EqualFold(part, gitName) || part == "" || part == "." {
			return false
		}
	}
	return true
}

// trusts reports whether the index alone tells the content of a file: it has not
// changed since git compared it, and not within the second of that either.
func (x *index) trusts(path string, s stamp) bool {
	const second = int64(1e9)
	t, ok := x.files[path]
	return ok && t.id != "" && t.stamp.mtime == s.mtime && t.stamp.ctime == s.ctime && t.stamp.size == s.size && s.size <= 1<<31 &&
		t.stamp.ino == s.ino&0xffffffff && s.mtime/second < x.stamp.mtime/second && s.ino != 0
}

// remove is os.Remove for what may be gone already.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
