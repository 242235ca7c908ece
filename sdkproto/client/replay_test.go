package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto"
	"dsh/sdkproto/client"
)

// record is an event of a log; every third is a chunk.
func record(seq int) string {
	typ := "turn/start"
	if seq%3 == 2 {
		typ = sdkproto.TypeAssistantChunk
	}
	return fmt.Sprintf(`{"type":%q,"seq":%d,"time":1796028709559,"data":{"pad":%q}}`, typ, seq, strings.Repeat("x", 100))
}

func live(session string, seq int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":%q,"event":%s}}`, session, record(seq))
}

// storage is a server with a log of session S, which it gives out three events
// at a time.
type storage struct {
	mu     sync.Mutex
	length int
	pages  []int64 // fromSeq of each request
	// during is called while the page from that number is given out.
	during func(p *peer, from int64)
}

func (s *storage) handle(p *peer, r request) bool {
	var from int64
	if r.Method != sdkproto.MethodSessionEvents {
		p.answer(r, `{}`)
		return true
	}
	if _, err := fmt.Sscanf(string(r.Params), `{"sessionId":"S","fromSeq":%d}`, &from); err != nil {
		p.refuse(r, -32602, err.Error())
		return true
	}
	s.mu.Lock()
	s.pages = append(s.pages, from)
	var page []string
	for seq := int(from); seq < s.length && len(page) < 3; seq++ {
		page = append(page, record(seq))
	}
	s.mu.Unlock()
	if s.during != nil {
		s.during(p, from)
	}
	p.answer(r, fmt.Sprintf(`{"events":[%s],"nextSeq":%d}`, strings.Join(page, ","), int(from)+len(page)))
	return true
}

// grow appends to the log, and sends what it appends.
func (s *storage) grow(p *peer, to int, chunks bool) {
	s.mu.Lock()
	from := s.length
	s.length = to
	s.mu.Unlock()
	for seq := from; seq < to; seq++ {
		if chunks || seq%3 != 2 {
			p.send(live("S", seq), live("T", seq))
		}
	}
}

func seqs(seq func(func(sdkproto.Event, error) bool), until int64) (got []int64, err error) {
	for e, err := range seq {
		if err != nil {
			return got, err
		}
		got = append(got, e.Seq)
		if e.Seq == until {
			break
		}
	}
	return got, nil
}

func numbers(from, to int, keep func(int) bool) (all []int64) {
	for n := from; n <= to; n++ {
		if keep(n) {
			all = append(all, int64(n))
		}
	}
	return all
}

func every(int) bool          { return true }
func withoutChunk(n int) bool { return n%3 != 2 }

// TestEvents: pages are asked for as they are read, to the end of the log.
func TestEvents(t *testing.T) {
	s := &storage{length: 8}
	c := attach(t, client.Limits{}, s.handle)
	got, err := seqs(c.Session("S").Events(t.Context(), 1), -1)
	if diff := cmp.Diff(numbers(1, 7, every), got); diff != "" || err != nil {
		t.Errorf("events (-want +got), %v:\n%s", err, diff)
	}
	if diff := cmp.Diff([]int64{1, 4, 7, 8}, s.pages); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	s.pages = nil
	if got, err := seqs(c.Session("S").Events(t.Context(), 0), 1); len(got) != 2 || err != nil || len(s.pages) != 1 {
		t.Errorf("broken off: %v, %v, pages %v", got, err, s.pages)
	}
	if _, err := seqs(c.Session("T").Events(t.Context(), 0), -1); err == nil {
		t.Error("no error of the server")
	}
}

func TestEventsInACircle(t *testing.T) {
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		p.answer(r, `{"events":[`+record(0)+`],"nextSeq":0}`)
		return true
	})
	if got, err := seqs(c.Session("S").Events(t.Context(), 0), -1); len(got) != 0 || !errors.Is(err, client.ErrProtocol) {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestFollow: whatever happens while the store is read, each event comes once
// and in order.
func TestFollow(t *testing.T) {
	noChunks := false
	tests := []struct {
		name   string
		chunks *bool
		limits client.Limits
		// before is the length of the log at first, after that at the end.
		before, after int
		during        func(*storage) func(*peer, int64)
		keep          func(int) bool
		// pages are the ones that are read, nil if that depends on the moment.
		pages []int64
	}{
		{
			name: "what comes while the store is read", before: 5, after: 11, keep: every, pages: []int64{0, 3, 6, 7},
			during: func(s *storage) func(*peer, int64) {
				return func(p *peer, from int64) {
					switch from {
					case 0:
						s.grow(p, 7, true) // is in a later page as well
					case 7:
						s.grow(p, 11, true) // behind the last page
					}
				}
			},
		},
		{
			name: "a store that is behind", before: 3, after: 9, keep: every, pages: []int64{0, 3, 3, 6},
			during: func(s *storage) func(*peer, int64) {
				sent := false
				return func(p *peer, from int64) {
					if from == 3 && !sent {
						sent = true
						s.mu.Lock()
						s.length = 8 // not announced
						s.mu.Unlock()
						s.grow(p, 9, true)
					}
				}
			},
		},
		{
			name: "too much to keep", before: 3, after: 400, keep: every, limits: client.Limits{Queue: 2000},
			during: func(s *storage) func(*peer, int64) {
				return func(p *peer, from int64) {
					if from == 3 {
						s.grow(p, 400, true) // behind the last page, and the answer comes after it
					}
				}
			},
		},
		{
			name: "without chunks", chunks: &noChunks, before: 6, after: 13, keep: withoutChunk, pages: []int64{0, 3, 6},
			during: func(s *storage) func(*peer, int64) {
				return func(p *peer, from int64) {
					if from == 6 {
						s.grow(p, 13, false)
					}
				}
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &storage{length: tt.before}
			s.during = tt.during(s)
			init := asks()
			init.Capabilities.Chunks = tt.chunks
			c, err := greeted(t, init, tt.limits, serverInfo, nil, s.handle)
			if err != nil {
				t.Fatal(err)
			}
			got, err := seqs(c.Session("S").Follow(deadline(t), 0), int64(tt.after-1))
			if diff := cmp.Diff(numbers(0, tt.after-1, tt.keep), got); diff != "" || err != nil {
				t.Errorf("events (-want +got), %v:\n%s", err, diff)
			}
			if diff := cmp.Diff(tt.pages, s.pages); tt.pages != nil && diff != "" {
				t.Errorf("pages (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFollowEnds: with the error of whatever ended it, and from the middle.
func TestFollowEnds(t *testing.T) {
	t.Run("context", func(t *testing.T) {
		c := attach(t, client.Limits{}, (&storage{length: 4}).handle)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got []int64
		var last error
		for e, err := range c.Session("S").Follow(ctx, 2) {
			if last = err; err != nil {
				break
			}
			if got = append(got, e.Seq); e.Seq == 3 {
				cancel()
			}
		}
		if diff := cmp.Diff([]int64{2, 3}, got); diff != "" || !errors.Is(last, context.Canceled) {
			t.Errorf("ended with %v (-want +got):\n%s", last, diff)
		}
	})
	t.Run("no such session", func(t *testing.T) {
		c := attach(t, client.Limits{}, func(p *peer, r request) bool {
			p.refuse(r, -32603, "no such session")
			return true
		})
		if _, err := seqs(c.Session("S").Follow(t.Context(), 0), -1); err == nil || err.Error() != "follow session S: session/events: no such session" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("server", func(t *testing.T) {
		w := newWire(func(p *peer) {
			s := &storage{length: 2}
			p.serve(func(r request) bool {
				s.handle(p, r)
				return len(s.pages) < 2
			})
		})
		c, err := client.Attach(t.Context(), w.Reader, w.WriteCloser, sdkproto.InitializeParams{}, client.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := seqs(c.Session("S").Follow(t.Context(), 0), -1)
		if len(got) != 2 || !errors.Is(err, client.ErrLost) {
			t.Errorf("got %v, %v", got, err)
		}
		c.Close(deadline(t))
		<-w.done
	})
}
