package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"dsh/sdkproto"
)

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		at := 0
		for at < len(got) && at < len(want) && got[at] == want[at] {
			at++
		}
		t.Errorf("%s: %d bytes, want %d; they differ from byte %d on: %.60q, want %.60q", what, len(got), len(want), at, got[at:], want[at:])
	}
}

// A frame beyond the limit is answered with an error, and read to its end; the
// next one is served (case B01).
func TestB01Limit(t *testing.T) {
	const limit = 1 << 20
	for name, size := range map[string]int{"one write": 8 << 20, "8 KB writes": 8 << 10} {
		t.Run(name, func(t *testing.T) {
			eachSpeech(t, settings{rows: fmt.Sprintf("rpc: {config: {maxLine: %d}}", limit)}, func(t *testing.T, p *provided) {
				p.server.Script(says("taken"))
				fits := promptFrame("fits", "s", "")
				fits = promptFrame("fits", "s", strings.Repeat("x", limit-len(fits)+1)) // without its line feed
				if len(fits) != limit+1 {
					t.Fatalf("the frame has %d bytes", len(fits))
				}
				for range 2 {
					p.prompts++
					id := fmt.Sprint("over", p.prompts)
					p.must(p.sendCut(promptFrame(id, "s", strings.Repeat("x", 3*limit)), size, 0))
					p.must(wantAnswer(p.peer, id, map[string]any{"error": map[string]any{"message": fmt.Sprintf("/longer than %d bytes/", limit)}}))
				}
				p.must(p.sendCut(fits, size, 0))
				p.must(wantAnswer(p.peer, "fits", map[string]any{"result": map[string]any{}}))
				p.ended("s", completed)
				p.end("s")
				if n := len(p.events("s", sdkproto.TypeUserMessage)); n != 1 {
					t.Errorf("%d messages came through, want 1", n)
				}
			})
		})
	}
}

// TestB06 sends a frame byte by byte, and then one without a line feed and the
// end of input. On this wire a last line without its end is not executed, and
// the end of input cuts turns short (spec jsonrpc 1.1, decision R11; case B06
// wants both from stream-json): the first prompt runs to its end, the fragment is
// dropped with a note, and the process ends in order.
func TestB06(t *testing.T) {
	for name, fragment := range map[string]string{
		"a whole frame": strings.TrimSuffix(string(promptFrame("late", "s", "never run")), "\n"),
		"half a frame":  `{"id":"late","method":"session/pro`,
	} {
		t.Run(name, func(t *testing.T) {
			eachSpeech(t, settings{}, func(t *testing.T, p *provided) {
				p.server.Script(says("heard"))
				p.must(p.sendCut(promptFrame("slow", "s", "byte by byte"), 1, time.Millisecond))
				p.must(wantAnswer(p.peer, "slow", map[string]any{"result": map[string]any{}}))
				p.ended("s", completed)
				p.must(p.send([]byte(fragment)))
				p.must(p.closeInput())
				p.must(p.wantExit(0))
				p.check("s")
				if got := p.answers("s"); len(got) != 1 || got[0] != "heard" {
					t.Errorf("the answers are %q", got)
				}
				for _, e := range p.lines() {
					if matches(map[string]any{"id": "late"}, e.value) {
						t.Errorf("the fragment was answered: %s", e.line)
					}
				}
				note, err := os.ReadFile(p.peer.stderr)
				p.must(err)
				if !strings.Contains(string(note), "ended inside a line") {
					t.Errorf("standard error says nothing of the fragment: %q", note)
				}
			})
		})
	}
}
