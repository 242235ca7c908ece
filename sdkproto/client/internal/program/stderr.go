package program

import (
	"bytes"
	"io"
	"sync"
)

// tailBytes is how much of a server's stderr is kept for errors.
const tailBytes = 64 << 10

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
	cut bool
}

func (t *tail) add(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	// Twice, so that a byte is moved once and not with every write.
	if len(t.buf) > 2*tailBytes {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-tailBytes:]...)
		t.cut = true
	}
}

// String returns at most tailBytes, beginning with a whole line where there is
// one.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.buf
	if len(last) > tailBytes {
		last = last[len(last)-tailBytes:]
	}
	if t.cut || len(last) < len(t.buf) {
		if _, rest, ok := bytes.Cut(last, []byte{'\n'}); ok && len(rest) > 0 {
			last = rest
		}
	}
	return string(last)
}

// follow reads r to its end into the tail and, as long as that takes it, into
// copyTo.
func (t *tail) follow(r io.Reader, copyTo io.Writer) {
	buf := make([]byte, 8<<10)
	for {
		n, err := r.Read(buf)
		t.add(buf[:n])
		if n > 0 && copyTo != nil {
			if _, err := copyTo.Write(buf[:n]); err != nil {
				copyTo = nil
			}
		}
		if err != nil {
			return
		}
	}
}
