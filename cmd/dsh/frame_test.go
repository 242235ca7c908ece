package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dsh/sdkproto"
)

// TestB01 sends frames of 70,000 bytes, of 3 MB and of 6 MB, whole and in writes
// of 8 KB; the model answers with a text of 3 MB and with an argument of 2 MB. All
// of it arrives whole at the other side, and a small frame behind each is
// answered (case B01).
func TestB01(t *testing.T) {
	said := strings.Repeat("another    word\n", 3<<20/16)
	argument := strings.Repeat("text in a file\n", 2<<20/15)
	arguments, err := json.Marshal(map[string]string{"file_path": "large.txt", "content": argument})
	if err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"one write": 64 << 20, "8 KB writes": 8 << 10} {
		t.Run(name, func(t *testing.T) {
			eachSpeech(t, settings{}, func(t *testing.T, p *provided) {
				for i, tc := range []struct{ name, text string }{
					{"just longer than 64 KiB", strings.Repeat("a", 70_000)},
					{"3 MB with runs of blanks", strings.Repeat("word"+strings.Repeat(" ", 40), 3<<20/44) + "end"},
				} {
					p.server.Script(says(said), says("small"))
					p.prompts++
					p.must(p.sendCut(promptFrame(fmt.Sprint("large", i), "s", tc.text), size, 0))
					p.must(wantAnswer(p.peer, fmt.Sprint("large", i), map[string]any{"result": map[string]any{}}))
					p.ended("s", completed)
					p.turn("s", "a small one")
					asked := p.asked()
					before := asked[len(asked)-2]
					same(t, tc.name+", at the model", text(member(before[len(before)-1], "content")), tc.text)
					answers := p.answers("s")
					same(t, tc.name+", the answer in the log", answers[len(answers)-2], said)
				}

				// Images are not taken yet: the frame is refused, nothing more.
				image := fmt.Appendf(nil, `{"id":"image","method":"session/prompt","params":{"sessionId":"s","contentBlocks":[{"type":"image","mimeType":"image/png","data":%q}]}}`+"\n",
					strings.Repeat("iVBORw0K", 6<<20/8))
				p.must(p.sendCut(image, size, 0))
				p.must(wantAnswer(p.peer, "image", map[string]any{"error": map[string]any{}}))

				p.server.Script(calls("call_1", "write", string(arguments)), says("written"))
				p.turn("s", "write it")
				wrote, err := os.ReadFile(filepath.Join(p.ws, "large.txt"))
				p.must(err)
				same(t, "the argument, at the tool", string(wrote), argument)
				asked := p.asked()
				last := asked[len(asked)-1]
				call := list(member(last[len(last)-2], "tool_calls"))[0]
				same(t, "the argument, at the model again", text(member(call, "function", "arguments")), string(arguments))
				p.attempts()
				p.end("s") // what was streamed is what is stored
			})
		})
	}
}

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
