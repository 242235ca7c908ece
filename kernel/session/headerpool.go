package session

import (
	"crypto/sha256"
	"runtime"
	"sync"
	"weak"

	"dsh/sdkproto"
)

// HeaderPool makes request headers that are equal when encoded one value in
// memory, so that a thousand sessions with the same tools hold one list of them
// (decision D24). A header that nobody holds any more leaves the pool by
// itself. The zero value is ready; a nil pool shares nothing.
//
// All methods may be called from any goroutine.
type HeaderPool struct {
	mu      sync.Mutex
	headers map[headerKey]weak.Pointer[sdkproto.Header]
}

type headerKey [sha256.Size]byte

// Intern gives the pool's header that equals h, which is h itself when there
// was none, and freezes it: the header must not be changed afterwards. Two results are the same
// pointer exactly when the headers are equal.
func (p *HeaderPool) Intern(h *sdkproto.Header) *sdkproto.Header {
	if p == nil || h == nil {
		return h
	}
	text, err := h.Freeze()
	if err != nil {
		return h
	}
	key := headerKey(sha256.Sum256(text))
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.headers[key].Value(); known != nil {
		return known
	}
	if p.headers == nil {
		p.headers = map[headerKey]weak.Pointer[sdkproto.Header]{}
	}
	p.headers[key] = weak.Make(h)
	runtime.AddCleanup(h, p.forget, key)
	return h
}

func (p *HeaderPool) forget(key headerKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.headers[key].Value() == nil {
		delete(p.headers, key)
	}
}
