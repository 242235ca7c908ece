package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The journal of a session holds its snapshots, one word and its values a line:
//
//	top "PATH"        the snapshots that follow are those of this work tree
//	turn "ID"         the turn of a message begins
//	base N, foreign N a snapshot before the first change of the turns so far; N
//	                  lines with what it found different follow
//	own N             a snapshot behind calls, likewise
//	off "REASON"      nothing before is of use any more
//
// A file of a snapshot is `KIND PERM ID SIZE SIZE MTIME CTIME INODE YOUNG "PATH"`,
// the first size being that of the content; one that is gone is `- "PATH"`. What a
// crash left half written is passed over.
const journalName = "journal"

// Words of the journal.
const (
	wordTop     = "top"
	wordTurn    = "turn"
	wordBase    = "base"
	wordForeign = "foreign"
	wordOwn     = "own"
	wordOff     = "off"
)

func wordLine(word, value string) []byte {
	return append(strconv.AppendQuoteToASCII(append([]byte(word), ' '), value), '\n')
}

// found is a change with what the snapshot knows of the new state; nil is gone.
type found struct {
	path  string
	entry *entry
}

func blockLines(word string, list []found) []byte {
	b := make([]byte, 0, 32+160*len(list))
	b = append(append(b, word...), ' ')
	b = append(strconv.AppendInt(b, int64(len(list)), 10), '\n')
	for _, f := range list {
		if e := f.entry; e == nil {
			b = append(b, '-')
		} else {
			b = append(b, e.kind, ' ')
			b = append(strconv.AppendInt(b, int64(e.perm), 8), ' ')
			b = append(append(b, e.id...), ' ')
			for _, n := range []int64{e.size, e.stamp.size, e.stamp.mtime, e.stamp.ctime} {
				b = append(strconv.AppendInt(b, n, 10), ' ')
			}
			b = append(strconv.AppendUint(b, e.stamp.ino, 10), ' ')
			b = strconv.AppendBool(b, e.young)
		}
		b = append(strconv.AppendQuoteToASCII(append(b, ' '), f.path), '\n')
	}
	return b
}

// note appends lines to the journal; Session.mu is held.
func (s *session) note(lines []byte) error {
	path := filepath.Join(s.dir, journalName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(s.dir, 0o700); err == nil {
			f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		}
	}
	if err != nil {
		return err
	}
	if size, err := f.Seek(0, io.SeekEnd); err == nil && size > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], size-1); err == nil && last[0] != '\n' {
			lines = append([]byte("?\n"), lines...) // what a crash cut off stays of no use
		}
	}
	_, err = f.Write(lines)
	return errors.Join(err, f.Close())
}

// replay reads the journal; Session.mu is held.
func (s *session) replay() error {
	data, err := os.ReadFile(filepath.Join(s.dir, journalName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1] // a line without its end is none
	s.history = history{}
	s.files = map[string]*entry{}
	for len(data) > 0 {
		var line []byte
		line, data = cutLine(data)
		word, value, _ := strings.Cut(string(line), " ")
		text, quoted := strconv.Unquote(value)
		switch word {
		case wordTop:
			if quoted == nil {
				s.top = text
			}
		case wordTurn:
			if quoted == nil {
				s.pending = append(s.pending, text)
			}
		case wordOff:
			if quoted == nil {
				s.lose(text)
			}
		case wordBase, wordForeign, wordOwn:
			n, err := strconv.Atoi(value)
			list, rest, ok := readBlock(data, n)
			if err != nil || !ok {
				continue
			}
			data = rest
			s.take(word, list)
		}
	}
	return nil
}

func cutLine(data []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(data, []byte{'\n'})
	return line, rest
}

// readBlock reads the lines of a snapshot. A block without its last lines is none:
// what follows is read as if its head was not there.
func readBlock(data []byte, n int) (list []found, rest []byte, ok bool) {
	if n < 0 || n > len(data) {
		return nil, data, false
	}
	list = make([]found, 0, n)
	for range n {
		if len(data) == 0 {
			return nil, data, false
		}
		var line []byte
		line, data = cutLine(data)
		f, err := readFound(string(line))
		if err != nil {
			return nil, data, false
		}
		list = append(list, f)
	}
	return list, data, true
}

func readFound(line string) (found, error) {
	head, quoted, ok := strings.Cut(line, ` "`)
	if !ok {
		return found{}, fmt.Errorf("no path in %q", line)
	}
	path, err := strconv.Unquote(`"` + quoted)
	if err != nil || head == "-" {
		return found{path: path}, err
	}
	words := strings.Split(head, " ")
	if len(words) != 9 || len(words[0]) != 1 || len(words[2]) < 3 {
		return found{}, fmt.Errorf("%q is no file", line)
	}
	var errs []error
	number := func(word string, base int) int64 {
		n, err := strconv.ParseInt(word, base, 64)
		errs = append(errs, err)
		return n
	}
	e := &entry{state: state{kind: words[0][0], perm: fs.FileMode(number(words[1], 8)), id: words[2], size: number(words[3], 10)}}
	e.stamp = stamp{size: number(words[4], 10), mtime: number(words[5], 10), ctime: number(words[6], 10)}
	e.stamp.ino, err = strconv.ParseUint(words[7], 10, 64)
	e.young = words[8] == "true"
	return found{path, e}, errors.Join(append(errs, err)...)
}
