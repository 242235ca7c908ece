package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
)

// rawJSON is a JSON string in which stands raw whatever may.
func rawJSON(t *testing.T, s string) string {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range "\u2028\u2029" { // encoding/json escapes no others
		data = bytes.ReplaceAll(data, fmt.Appendf(nil, `\u%04x`, r), []byte(string(r)))
	}
	return string(data)
}

// wantWhole checks that no reader of lines takes a line for two: neither Python's
// splitlines, nor Node's readline, nor Java's Scanner ends one at anything else.
func wantWhole(t *testing.T, where string, data []byte) {
	t.Helper()
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		if i := bytes.IndexAny(line, "\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029\ufeff"); i >= 0 {
			t.Errorf("%s: a line that some readers cut at byte %d: %.300q", where, i, line[max(0, i-100):])
		}
	}
}

// TestB91 sends signs that end a line for some readers through everything: prompt,
// session id, answer, call, file name, tool output, error. None is raw in a frame,
// in the log or on standard error, and each text is what it was (case B91).
func TestB91(t *testing.T) {
	const odd = "a\u2028b\u2029c\u0085d\ve\ff\ufeffg\x1ch\x1di\x1ej"
	const name = "f\u2028g\u0085h\ufeffi"
	const session = "s\u2028t"
	eachSpeech(t, settings{}, func(t *testing.T, p *provided) {
		event := func(s string) string { return llmtest.Delta(`"content":` + rawJSON(t, s)) }
		prompt := func(id, text string) []byte {
			return fmt.Appendf(nil, `{"id":%s,"method":"session/prompt","params":{"sessionId":%s,"contentBlocks":[{"type":"text","text":%s},{"type":"odd","odd":%s}]}}`+"\n",
				rawJSON(t, id), rawJSON(t, session), rawJSON(t, text), rawJSON(t, text))
		}
		p.server.Script(
			llmtest.Stream(event("say: "), event(odd), llmtest.Finish("stop"), llmtest.Done),
			calls("call_1", "write", `{"file_path":`+rawJSON(t, name)+`,"content":`+rawJSON(t, odd)+`}`),
			calls("call_2", "bash", `{"command":"cat f*; ls >&2"}`),
			says("done"),
			llmtest.Reply{Status: 400, Lenient: true, Header: map[string]string{"content-type": "application/json"},
				Parts: []llmtest.Part{{Text: `{"error":{"message":` + rawJSON(t, odd) + `}}`}}},
		)
		for i, reason := range []string{completed, completed, `{"kind":"error"}`} {
			id := fmt.Sprint("id\u2029", i)
			p.must(p.send(prompt(id, odd)))
			p.must(wantAnswer(p.peer, id, map[string]any{"result": map[string]any{}}))
			p.ended(session, reason)
		}
		p.must(p.send(fmt.Appendf(nil, `{"id":"events","method":"session/events","params":{"sessionId":%s}}`+"\n", rawJSON(t, session))))
		p.must(wantAnswer(p.peer, "events", map[string]any{"result": map[string]any{}}))
		p.must(p.send(fmt.Appendf(nil, `{"id":"bad","method":%s}`+"\n", rawJSON(t, odd))))
		p.must(wantAnswer(p.peer, "bad", map[string]any{"error": map[string]any{}}))
		p.must(p.send([]byte(shutdownFrame)))
		p.must(p.wantExit(0))

		for _, e := range p.lines() {
			wantWhole(t, "standard output", e.line)
		}
		files, err := filepath.Glob(filepath.Join(p.home, "sessions.d", "*.jsonl"))
		if err != nil || len(files) != 1 {
			t.Fatalf("files %q, %v", files, err)
		}
		for _, file := range []string{files[0], p.peer.stderr} {
			data, err := os.ReadFile(file)
			p.must(err)
			wantWhole(t, file, data)
		}

		events, err := readStored(files[0])
		p.must(err)
		p.must(checkStored(events))
		p.must(checkStreamed(session, events, p.lines(), true))
		var got, prompts []string
		for _, e := range events {
			switch member(e, "type") {
			case sdkproto.TypeUserMessage:
				if member(e, "data", "source", "kind") != sdkproto.SourceUser {
					continue
				}
				for _, b := range list(member(e, "data", "content")) {
					prompts = append(prompts, text(member(b, "text"))+text(member(b, "odd")))
				}
			case sdkproto.TypeAssistantMessage:
				for _, b := range list(member(e, "data", "message", "content")) {
					got = append(got, text(member(b, "text")))
				}
			case sdkproto.TypeToolResult:
				got = append(got, text(member(list(member(list(member(e, "data", "message", "content"))[0], "content"))[0], "text")))
			case sdkproto.TypeTurnEnd:
				got = append(got, text(member(e, "data", "reason", "error", "message")))
			}
		}
		wrote, err := os.ReadFile(filepath.Join(p.ws, name))
		p.must(err)
		same(t, "the file", string(wrote), odd)
		if want := slices.Repeat([]string{odd}, 6); !slices.Equal(prompts, want) {
			t.Errorf("the prompts are %q", prompts)
		}
		same(t, "the answer", got[0], "say: "+odd)
		if last := got[len(got)-1]; !strings.Contains(last, "a b c d e f") { // on one line
			t.Errorf("the error is %q", last)
		}
		if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, odd) && strings.Contains(s, name) }) {
			t.Errorf("no output of the tool is as it was: %q", got)
		}
		asked := p.asked()
		if said := show(asked[len(asked)-1]); strings.Count(said, show(odd)[1:len(show(odd))-1]) < 5 {
			t.Errorf("the model got %s", said)
		}
	})
}

// TestB92 cuts text at every byte on its way: writes of the client, packets of the
// model, writes of a program, blocks of the log that a second process reads. No
// character is damaged (case B92).
func TestB92(t *testing.T) {
	const round = "渐🚀é—한"
	const unit = round + round
	eachSpeech(t, settings{}, func(t *testing.T, p *provided) {
		// Standard input.
		p.server.Script(says("yes"))
		frame := promptFrame("cut", "in", unit)
		from := bytes.Index(frame, []byte(unit))
		for i := range len(unit) + 1 {
			raw := bytes.Replace(frame, []byte(`"cut"`), fmt.Appendf(nil, `"cut%02d"`, i), 1)
			p.must(p.sendCut(raw, from+2+i, time.Millisecond))
			p.must(wantAnswer(p.peer, fmt.Sprintf("cut%02d", i), map[string]any{"result": map[string]any{}}))
		}
		p.must(p.sendCut(promptFrame("bytes", "in", unit), 1, 200*time.Microsecond))
		p.must(wantAnswer(p.peer, "bytes", map[string]any{"result": map[string]any{}}))
		p.event("in", sdkproto.TypeTurnEnd, fmt.Sprintf(`{"turn":%d}`, len(unit)+2))
		for _, e := range p.events("in", sdkproto.TypeUserMessage) {
			same(t, "a prompt", text(member(list(member(e, "data", "content"))[0], "text")), unit)
		}

		// The model: text and the arguments of a call, in packets of every size.
		for size := 1; size <= len(unit); size++ {
			answer, call := says(unit), calls("call_1", "bash", `{"command":"echo `+unit+`"}`)
			answer.Packet, call.Packet = size, size
			p.server.Script(call, answer)
			session := fmt.Sprint("out", size)
			p.turn(session, "go")
			same(t, "an answer", p.answers(session)[1], unit)
			same(t, "the output of a call", p.results(session)[0], unit+"\n")
		}

		// A program that writes in two parts.
		p.must(os.WriteFile(filepath.Join(p.ws, "unit"), []byte(unit), 0o600))
		p.server.Script(
			calls("call_1", "bash", fmt.Sprintf(`{"command":"for i in $(seq 0 %d); do head -c $i unit; sleep 0.01; tail -c +$((i+1)) unit; echo; done"}`, len(unit))),
			// Much more than the model gets: head and tail are cut between characters.
			calls("call_2", "bash", `{"command":"yes \"$(cat unit)\" | head -n 9000 | tr -d '\\n'"}`),
			says("done"),
		)
		p.turn("tool", "go")
		results := p.results("tool")
		same(t, "output in two parts", results[0], strings.Repeat(unit+"\n", len(unit)+1))
		if got := results[1]; !strings.HasPrefix(got, unit) || strings.ContainsRune(got, '\ufffd') {
			t.Errorf("long output begins with %.200q and has U+FFFD: %v", got, strings.ContainsRune(got, '\ufffd'))
		}

		// The log, read by another process: whatever the size of a block, its end
		// falls on every byte of a character.
		p.server.Script(says("kept"))
		long := strings.Repeat(round, 70<<10/len(round))
		var want []string
		for i := range len(round) {
			text := strings.Repeat("x", i) + long
			want = append(want, text)
			p.turn("log", text)
		}
		p.end("in", "tool", "log")
		p.launch()
		p.turn("log", "again")
		asked := p.asked()
		var got []string
		for _, m := range asked[len(asked)-1] {
			if member(m, "role") == "user" {
				got = append(got, text(member(m, "content")))
			}
		}
		if want = append(want, "again"); len(got) != len(want) {
			t.Fatalf("the model got %d prompts after a restart, want %d", len(got), len(want))
		}
		for i := range want {
			same(t, fmt.Sprint("prompt ", i, " after a restart"), got[i], want[i])
		}
		p.attempts()
		p.end("log")
		for _, e := range slices.Concat(p.streamed, p.lines()) {
			if bytes.ContainsRune(e.line, '\ufffd') || bytes.Contains(e.line, []byte(`\ufffd`)) {
				t.Errorf("a damaged character on standard output: %.200s", e.line)
			}
		}
	})
}
