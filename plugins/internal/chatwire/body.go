package chatwire

import (
	"io"
	"sync"
)

// body is the text of a request. It is given up as soon as it is sent and the
// endpoint has begun to answer: with thousands of requests open, their texts
// would be most of the memory.
type body struct {
	mu   sync.Mutex
	text []byte
	sent bool
}

func (b *body) reader() (io.ReadCloser, error) { return &bodyReader{body: b}, nil }

// release forgets the text, unless an endpoint answers before it has it all.
func (b *body) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sent {
		b.text = nil
	}
}

// bodyReader reads the text once; a transport that has to begin again takes
// another.
type bodyReader struct {
	body *body
	at   int
}

func (r *bodyReader) Read(p []byte) (int, error) {
	r.body.mu.Lock()
	defer r.body.mu.Unlock()
	n := copy(p, r.body.text[min(r.at, len(r.body.text)):])
	r.at += n
	if r.at >= len(r.body.text) {
		r.body.sent = true
		return n, io.EOF
	}
	return n, nil
}

func (r *bodyReader) Close() error { return nil }
