package chatwire

import (
	"bytes"
	"io"
	"sync"
)

// body is the text of a request. It is given up as soon as the endpoint has
// begun to answer: with thousands of requests open, their texts would be most
// of the memory.
type body struct {
	mu   sync.Mutex
	text []byte
}

func (b *body) reader() (io.ReadCloser, error) { return &bodyReader{body: b}, nil }

// release forgets the text. A reader that is not done then fails.
func (b *body) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = nil
}

type bodyReader struct {
	body *body
	at   int
}

func (r *bodyReader) Read(p []byte) (int, error) {
	r.body.mu.Lock()
	defer r.body.mu.Unlock()
	if r.at >= len(r.body.text) {
		return 0, io.EOF
	}
	n := copy(p, r.body.text[r.at:])
	r.at += n
	return n, nil
}

// WriteTo hands the transport the whole text at once, past its small buffers.
func (r *bodyReader) WriteTo(w io.Writer) (int64, error) {
	r.body.mu.Lock()
	text := r.body.text
	r.body.mu.Unlock()
	if r.at >= len(text) {
		return 0, nil
	}
	n, err := io.Copy(w, bytes.NewReader(text[r.at:]))
	r.at += int(n)
	return n, err
}

func (r *bodyReader) Close() error { return nil }
