package transcript

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"dsh/sdkproto/wirejson"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
	// maxLine is the longest line that is read; longer ones count as broken.
	maxLine = 256 << 20
	// tail is how much of the end of a file a listing looks at, in bytes (spec
	// stream-json 10.2); a title that is about to leave it is said again.
	tail = 64 << 10
)

// File is the transcript of one log on the disk. It is opened with the first line
// that is added, which makes it and its folder where there are none, and it is
// only ever extended: others append to it, too. It is used by one goroutine.
type File struct {
	path string
	f    *os.File
	// size is how long the file is as far as this process knows, titled where the
	// last line with a title or a tag begins.
	size, titled int64
	// torn says that the last line has no end: a crash has cut it off.
	torn bool
	// title and tag are those that stand in it last; "" without.
	title, tag string
	// known are the entries that it has; nil once they do not matter any more.
	known map[string]struct{}
	// err is why nothing is written any more.
	err error
}

// OpenFile looks at the file of a path, which may not be there.
func OpenFile(path string) (*File, error) {
	t := &File{path: path}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read transcript: %w", err)
	}
	defer f.Close()
	t.known = map[string]struct{}{}
	return t, t.scan(f)
}

// Path is where the file is.
func (t *File) Path() string { return t.path }

// Exists reports whether there is anything in the file.
func (t *File) Exists() bool { return t.size > 0 }

// Title is the name that stands in the file last, "" for none.
func (t *File) Title() string { return t.title }

// scan takes up what a file has from size on.
func (t *File) scan(f *os.File) error {
	end, torn, err := lines(f, t.size, func(at int64, raw []byte) { t.take(at, raw) })
	if err != nil {
		return fmt.Errorf("read transcript %s: %w", t.path, err)
	}
	if end > t.size {
		t.size, t.torn = end, torn
	}
	return nil
}

// take takes up one line.
func (t *File) take(at int64, raw []byte) {
	if bytes.HasPrefix(raw, []byte(`{"type":"`+typeCustomTitle)) || bytes.HasPrefix(raw, []byte(`{"type":"`+typeTag)) {
		var m metadata
		if wirejson.Unmarshal(raw, &m) != nil {
			return
		}
		t.titled = at
		switch {
		case m.Type == typeCustomTitle && m.CustomTitle != "":
			t.title = m.CustomTitle
		case m.Type == typeTag && m.Tag != nil:
			t.tag = *m.Tag
		}
		return
	}
	if t.known == nil {
		return
	}
	var head struct {
		UUID       string `json:"uuid"`
		ParentUUID string `json:"parentUuid"`
	}
	if wirejson.Unmarshal(raw, &head) == nil && head.UUID != "" {
		t.known[head.UUID] = struct{}{}
		t.known[keyAgain(head.UUID, head.ParentUUID)] = struct{}{}
	}
}

// keyAgain names an entry that stands in its file behind several parents.
func keyAgain(uuid, parent string) string { return uuid + "<" + parent }

// Missing leaves those entries of the lines that the file does not have, and no
// metadata.
func (t *File) Missing(list []Line) (missing []Line) {
	for _, l := range list {
		if l.key == "" {
			continue
		}
		if _, there := t.known[l.key]; !there {
			missing = append(missing, l)
		}
	}
	return missing
}

// Forget says that Missing is not asked any more.
func (t *File) Forget() { t.known = nil }

// Append writes lines behind all others, in one piece. After an error nothing is
// written any more, and the same error is returned: what is missing is added when
// the session is resumed.
func (t *File) Append(list []Line) error {
	if len(list) == 0 || t.err != nil {
		return t.err
	}
	t.err = t.write(list)
	return t.err
}

func (t *File) write(list []Line) error {
	if t.f == nil {
		if err := os.MkdirAll(filepath.Dir(t.path), dirMode); err != nil {
			return fmt.Errorf("write transcript: %w", err)
		}
		f, err := os.OpenFile(t.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, fileMode)
		if err != nil {
			return fmt.Errorf("write transcript: %w", err)
		}
		t.f = f
	}
	var buf []byte
	if t.torn {
		buf = append(buf, '\n')
	}
	for _, l := range list {
		buf = append(append(buf, l.JSON...), '\n')
	}
	if _, err := t.f.Write(buf); err != nil {
		return fmt.Errorf("write transcript: %w", err)
	}
	t.torn = false
	at := t.size
	for _, l := range list {
		if l.key == "" {
			t.take(at, l.JSON)
		}
		at += int64(len(l.JSON)) + 1
	}
	t.size += int64(len(buf))
	return nil
}

// Titles gives the lines that keep the name and the tag of a session in sight of a
// listing; none while they are. What others have appended meanwhile counts.
func (t *File) Titles(sessionID string) []Line {
	t.absorb()
	if t.title == "" && t.tag == "" || t.size-t.titled < tail*3/4 {
		return nil
	}
	var list []Line
	if t.title != "" {
		list = append(list, TitleLine(sessionID, t.title)...)
	}
	if t.tag != "" {
		list = append(list, TagLine(sessionID, t.tag)...)
	}
	return list
}

// absorb takes up what others have appended. What cannot be read is as if it was
// not there.
func (t *File) absorb() {
	if t.f == nil {
		return
	}
	info, err := t.f.Stat()
	if err != nil || info.Size() <= t.size {
		return
	}
	// Their lines stand somewhere among those that were written last.
	t.size = max(0, info.Size()-tail)
	f, err := os.Open(t.path)
	if err != nil {
		t.size = info.Size()
		return
	}
	defer f.Close()
	if t.scan(f) != nil {
		t.size = info.Size()
	}
}

// Close closes the file.
func (t *File) Close() error {
	if t.f == nil {
		return nil
	}
	f := t.f
	t.f = nil
	if t.err == nil {
		t.err = fs.ErrClosed
	}
	return f.Close()
}

// WriteAgent writes what is beside the file of a subagent, and gives it as a line
// of a mirror.
func (t *File) WriteAgent(agentType, toolUseID, parentAgentID string) ([]Line, error) {
	m := agentMetadata{AgentType: agentType, ToolUseID: toolUseID, ParentAgentID: parentAgentID}
	beside := line(&m, "")
	m.Type = typeAgent
	mirrored := line(&m, "")
	if err := os.MkdirAll(filepath.Dir(t.path), dirMode); err != nil {
		return nil, fmt.Errorf("write transcript: %w", err)
	}
	name := t.path[:len(t.path)-len(filepath.Ext(t.path))] + ".meta.json"
	if err := os.WriteFile(name, beside[0].JSON, fileMode); err != nil {
		return nil, fmt.Errorf("write transcript: %w", err)
	}
	return mirrored, nil
}

// lines hands the lines of a file on, from an offset on, with their offsets and
// without what ends them. Those that are too long are left out. It gives where the
// file ends, and whether its last line has no end.
func lines(f *os.File, from int64, fn func(at int64, raw []byte)) (end int64, torn bool, err error) {
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return from, false, err
	}
	in := bufio.NewReaderSize(f, 64<<10)
	var long []byte
	begin, tooLong := from, false
	end = from
	for {
		piece, err := in.ReadSlice('\n')
		end += int64(len(piece))
		if len(long)+len(piece) > maxLine {
			tooLong, long = true, nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			if !tooLong {
				long = append(long, piece...)
			}
			continue
		}
		raw := piece
		if len(long) > 0 {
			long = append(long, piece...)
			raw = long
		}
		raw = bytes.TrimSpace(raw)
		if len(raw) > 0 && !tooLong {
			fn(begin, raw)
		}
		torn = err != nil && end > begin
		if errors.Is(err, io.EOF) {
			return end, torn, nil
		}
		if err != nil {
			return end, torn, err
		}
		begin, tooLong, long = end, false, long[:0]
		if cap(long) > 1<<20 {
			long = nil // one message with images would otherwise stay in memory
		}
	}
}
