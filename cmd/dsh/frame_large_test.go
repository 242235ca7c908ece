//go:build !race

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The race detector makes minutes of these megabytes; smaller frames take the
// same paths in other tests.

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
			// The texts together are more than the model's window.
			eachSpeech(t, settings{rows: "compaction: {enabled: false}"}, func(t *testing.T, p *provided) {
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

				// An image that does not decode: the prompt is refused, nothing more.
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
