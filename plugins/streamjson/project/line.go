package project

import (
	"crypto/rand"

	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// random makes UUIDs from a supply of random bytes, because a system call for
// each is what a short line would cost most.
type random struct {
	supply [4096]byte
	left   int
}

func (r *random) append(dst []byte) []byte {
	if r.left == 0 {
		rand.Read(r.supply[:]) // it never fails
		r.left = len(r.supply)
	}
	r.left -= 16
	return streamjson.AppendUUID(dst, [16]byte(r.supply[r.left:r.left+16]))
}

func (p *Projector) uuid() string {
	if p.options.UUID != nil {
		return p.options.UUID()
	}
	var text [36]byte
	return string(p.random.append(text[:0]))
}

func (p *Projector) head(lineType, subtype string) streamjson.Head {
	return streamjson.Head{Type: lineType, Subtype: subtype, SessionID: p.options.SessionID, UUID: p.uuid()}
}

func (p *Projector) system(subtype string) streamjson.Head {
	return p.head(streamjson.TypeSystem, subtype)
}

// emit adds a line. All that goes into one is text, numbers, or JSON that was
// checked, so it can always be encoded.
func (p *Projector) emit(line any) {
	if encoded, err := wirejson.Marshal(line); err == nil {
		p.out = append(p.out, encoded)
	}
}

// flush gives the lines since the last flush.
func (p *Projector) flush() [][]byte {
	lines := p.out
	p.out = nil
	return lines
}
