package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"dsh/sdkproto"
)

// TestQueue sends B, C and D at random times while A runs, and around its end,
// each in a hundred sessions at once (B94, spec jsonrpc 14 line 7): every text
// is a message of the history once, in order; no idle comes while one waits (see
// wireRules), and the last thing a session says is idle.
func TestQueue(t *testing.T) {
	const model = `
rules:
  - when: {text: A}
    reply:
      - {text: "a b c d e f", every: 200ms}
  - reply: "{{user}} it is"
`
	for name, tc := range map[string]struct {
		spread time.Duration // of B, C and D
		idles  int           // of each session; 0 is any number
	}{
		"while A runs":   {300 * time.Millisecond, 1},
		"around A's end": {1500 * time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			const sessions = 100
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			type sending struct {
				at            time.Duration
				session, text string
			}
			var plan []sending
			for i := range sessions {
				id := fmt.Sprint("s", i)
				begin := time.Duration(random.Int64N(int64(time.Second)))
				plan = append(plan, sending{begin, id, "A"})
				times := make([]time.Duration, 3)
				for j := range times {
					times[j] = begin + 1 + time.Duration(random.Int64N(int64(tc.spread)))
				}
				slices.Sort(times)
				for j, text := range []string{"B", "C", "D"} {
					plan = append(plan, sending{times[j], id, text})
				}
			}
			slices.SortStableFunc(plan, func(a, b sending) int { return cmp.Compare(a.at, b.at) })

			at := newPlace(t, model)
			p := at.start(t)
			began := time.Now()
			for i, s := range plan {
				time.Sleep(time.Until(began.Add(s.at)))
				if err := p.send(promptFrame(fmt.Sprint("p", i), s.session, s.text)); err != nil {
					t.Fatal(err)
				}
			}
			last := map[string]any{"type": sdkproto.TypeTurnEnd, "data": map[string]any{"turn": 4.0}}
			seen, ends := 0, 0
			if err := p.wait("the last turn of every session", func(all []entry) bool {
				ends += countFrames(all[seen:], last)
				seen = len(all)
				return ends == sessions
			}); err != nil {
				t.Fatal(err)
			}
			if err := p.send([]byte(shutdownFrame)); err != nil {
				t.Fatal(err)
			}
			if err := p.wantExit(0); err != nil {
				t.Fatal(err)
			}
			streamed := bySession(p.lines())
			for i := range sessions {
				id := fmt.Sprint("s", i)
				checkQueue(t, id, at.stored(id), streamed[id], tc.idles)
			}
		})
	}
}

func countFrames(all []entry, event map[string]any) int {
	n := 0
	pattern := map[string]any{"params": map[string]any{"event": event}}
	for _, e := range all {
		if e.kind == received && matches(pattern, e.value) {
			n++
		}
	}
	return n
}

func checkQueue(t *testing.T, session, file string, streamed []entry, idles int) {
	events, err := readStored(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkStored(events); err != nil {
		t.Errorf("session %s: %v", session, err)
	}
	if err := checkStreamed(session, events, streamed, true); err != nil {
		t.Error(err)
	}
	var texts []string
	for _, e := range events {
		if member(e, "type") == sdkproto.TypeUserMessage {
			texts = append(texts, text(member(list(member(e, "data", "content"))[0], "text")))
		}
	}
	if !slices.Equal(texts, []string{"A", "B", "C", "D"}) {
		t.Errorf("session %s: the history has the prompts %v", session, texts)
	}
	var said []string // status changes
	for _, e := range streamed {
		if status := member(e.value, "params", "status"); status != nil {
			said = append(said, text(status))
		}
	}
	if len(said) == 0 || said[len(said)-1] != string(sdkproto.StatusIdle) || idles > 0 && len(said) != 2*idles {
		t.Errorf("session %s: the status changes were %v", session, said)
	}
}
