package main

import (
	"fmt"
	"testing"
	"time"

	"dsh/sdkproto"
)

// TestEnd ends the program while many turns stream: the closing events of all of
// them are streamed and stored before the end, whichever way it comes. Spec
// jsonrpc 14 lines 15 and 16, B79, decision D4.
func TestEnd(t *testing.T) {
	t.Parallel()
	const model = `
rules:
  - reply:
      - {text: "word ", repeat: 100000, every: 2ms}
`
	for name, end := range map[string]func(p *peer) error{
		"shutdown":     func(p *peer) error { return p.send([]byte(shutdownFrame)) },
		"end of input": (*peer).closeInput,
	} {
		t.Run(name, func(t *testing.T) {
			const sessions = 50
			at := newPlace(t, model)
			p := at.start(t)
			for i := range sessions {
				if err := p.send(promptFrame(fmt.Sprint("p", i), fmt.Sprint("s", i), "talk")); err != nil {
					t.Fatal(err)
				}
			}
			for i := range sessions {
				if _, err := p.answer(fmt.Sprint("p", i)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(100 * time.Millisecond) // most are streaming then
			if err := end(p); err != nil {
				t.Fatal(err)
			}
			if err := p.wantExit(0); err != nil {
				t.Fatal(err)
			}
			streamed := bySession(p.lines())
			for i := range sessions {
				id := fmt.Sprint("s", i)
				events, err := readStored(at.stored(id))
				if err != nil {
					t.Fatal(err)
				}
				if err := checkStored(events); err != nil {
					t.Errorf("session %s: %v", id, err)
				}
				if err := checkStreamed(id, events, streamed[id], true); err != nil {
					t.Error(err)
				}
				aborted := map[string]any{"type": sdkproto.TypeTurnEnd, "data": map[string]any{"reason": map[string]any{"kind": "aborted", "reason": map[string]any{"kind": "disposed"}}}}
				if last := events[len(events)-1]; !matches(aborted, last) {
					t.Errorf("session %s: the log ends with %s", id, show(last))
				}
				frames := streamed[id]
				if last := frames[len(frames)-1]; text(member(last.value, "params", "status")) != string(sdkproto.StatusIdle) {
					t.Errorf("session %s: the last frame is %s", id, last.line)
				}
			}
		})
	}
}

func bySession(frames []entry) map[string][]entry {
	all := map[string][]entry{}
	for _, e := range frames {
		id := text(member(e.value, "params", "sessionId"))
		all[id] = append(all[id], e)
	}
	return all
}
