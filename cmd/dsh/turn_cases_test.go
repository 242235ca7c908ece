//go:build unix

package main

import (
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

const cancelled = `{"kind":"aborted","reason":{"kind":"user"}}`

func (p *provided) cancel(session string) {
	p.t.Helper()
	p.prompts++
	id := fmt.Sprint("cancel", p.prompts)
	p.must(p.send(fmt.Appendf(nil, `{"id":%q,"method":"session/cancel","params":{"sessionId":%q}}`+"\n", id, session)))
	p.must(wantAnswer(p.peer, id, map[string]any{"result": map[string]any{"cancelled": true}}))
}

// callTwo is an answer with two calls of bash, which run one after the other.
func callTwo(first, second string) []string {
	return []string{
		llmtest.Text("Two calls."),
		llmtest.Call(0, "call_a", "bash"), llmtest.Arguments(0, show(map[string]any{"command": first})),
		llmtest.Call(1, "call_b", "bash"), llmtest.Arguments(1, show(map[string]any{"command": second})),
	}
}

// TestB41 stops a turn with two calls at its stages, five times each, and goes on:
// no provider refuses a request, each call of the log has one result, and the texts
// tell what ran from what did not (case B41).
func TestB41(t *testing.T) {
	const hold = "touch $F; sleep 300"
	whole := []string{llmtest.Finish("tool_calls"), llmtest.Done}
	for name, tc := range map[string]struct {
		reply llmtest.Reply
		// want are parts of the results, one a call.
		want []string
	}{
		"before the answer ends": {
			llmtest.Reply{Parts: []llmtest.Part{{Text: strings.Join(callTwo("touch $F.ran", "touch $F.ran"), "")}, {Hang: true}}}, nil,
		},
		"while the first runs": {
			llmtest.Stream(append(callTwo(hold, "touch $F.ran"), whole...)...),
			[]string{"cancelled after", "before dispatch"},
		},
		"between the two": {
			llmtest.Stream(append(callTwo("echo first", hold), whole...)...),
			[]string{"first\n", "cancelled after"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachSpeech(t, settings{}, func(t *testing.T, p *provided) {
				const runs = 5
				var sessions []string
				for i := range runs {
					session := fmt.Sprint("s", i)
					sessions = append(sessions, session)
					file := filepath.Join(p.ws, session)
					reply := tc.reply
					reply.Parts = slices.Clone(reply.Parts)
					for j := range reply.Parts {
						reply.Parts[j].Text = strings.ReplaceAll(reply.Parts[j].Text, "$F", file)
					}
					p.server.Script(reply, says("Going on."))
					p.ask(session, "go")
					if tc.want == nil {
						p.event(session, sdkproto.TypeAssistantChunk, `{"chunk":{"type":"tool-call-delta","index":2}}`)
					} else {
						awaitFile(t, file)
					}
					p.cancel(session)
					p.ended(session, cancelled)
					p.turn(session, "continue")
					if _, err := os.Stat(file + ".ran"); err == nil {
						t.Error("a call ran that was not to run")
					}
				}
				if n := p.attempts(); n != 2*runs {
					t.Errorf("%d requests, want %d", n, 2*runs)
				}
				p.end(sessions...)
				for _, session := range sessions {
					results := p.results(session)
					ok := len(results) == len(tc.want)
					for i := 0; ok && i < len(results); i++ {
						ok = strings.Contains(results[i], tc.want[i])
					}
					if !ok {
						t.Errorf("the results are %q, want %q", results, tc.want)
					}
				}
			})
		})
	}
}

// TestB41Faults has a tool that panics and a hook that fails between good calls:
// each has its result, and the session goes on; the model, which checks the pairing,
// refuses nothing (case B41).
func TestB41Faults(t *testing.T) {
	d := &doing{place: newPlace(t, `
rules:
  - when: {text: faults, step: 1}
    reply:
      - call: {tool: bash, args: {command: "echo first"}}
      - call: {tool: probe_panic, args: {}}
      - call: {tool: bash, args: {command: "echo fail the hook"}}
      - call: {tool: bash, args: {command: "echo panic in the hook"}}
      - call: {tool: bash, args: {command: "echo last"}}
  - reply: Going on.
`), t: t, turns: map[string]int{"s": 6}, mark: "DSH_TEST_MARK=faults"}
	d.must(os.WriteFile(filepath.Join(d.home, "profile.yaml"), []byte("plugins:\n  probe: {config: {faults: true}}\n"), 0o600))
	d.peer = d.start(t)
	for i := range 6 {
		d.must(d.send(promptFrame(fmt.Sprint("p", i), "s", []string{"faults", "continue"}[i%2])))
	}
	d.result("s")
	d.end()
	events, err := readStored(d.stored("s"))
	d.must(err)
	var got []string
	for _, e := range events {
		switch member(e, "type") {
		case sdkproto.TypeToolResult:
			block := list(member(e, "data", "message", "content"))[0]
			got = append(got, text(member(list(member(block, "content"))[0], "text")))
		case sdkproto.TypeTurnEnd:
			got = append(got, text(member(e, "data", "reason", "kind")))
		}
	}
	want := []string{"first", "panic", "the hook failed", "panic", "last", "completed", "completed"}
	want = slices.Repeat(want, 3)
	ok := len(got) == len(want)
	for i := 0; ok && i < len(got); i++ {
		ok = strings.Contains(got[i], want[i])
	}
	if !ok {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestB42 kills the process while a call runs, and right after: the next process
// closes the call as of unknown outcome, repeats nothing, and its first request,
// which the provider takes, holds what was said (case B42; TestKill has every place
// there is).
func TestB42(t *testing.T) {
	eachSpeech(t, settings{}, func(t *testing.T, p *provided) {
		for i, command := range []string{"echo line >> effects; touch ready; sleep 300", "touch ready; echo line >> effects"} {
			session := fmt.Sprint("s", i)
			call := append(callTwo(command, "echo line >> effects"), llmtest.Finish("tool_calls"), llmtest.Done)
			p.server.Script(llmtest.Stream(call...), llmtest.Reply{Parts: []llmtest.Part{{Hang: true}}})
			p.ask(session, "append a line")
			awaitFile(t, filepath.Join(p.ws, "ready"))
			if i == 1 { // both calls are over, their results are stored
				p.event(session, sdkproto.TypeToolResult, "")
				p.event(session, sdkproto.TypeToolResult, "")
			}
			p.must(p.kill())
			before := effects(t, p.ws)
			p.server.Script(says("Going on."))
			p.launch()
			p.turn(session, "go on")
			if after := effects(t, p.ws); after != before || before != 1+i {
				t.Errorf("the lines were %d, and are %d", before, after)
			}
			asked := p.asked()
			said := show(asked[len(asked)-1])
			for _, want := range []string{"append a line", "Two calls.", "go on"} {
				if !strings.Contains(said, want) {
					t.Errorf("the first request after the kill lacks %q: %s", want, said)
				}
			}
			unknown := 0
			for _, e := range p.events(session, sdkproto.TypeToolResult) {
				if member(e, "data", "error", "code") == sdkproto.CodeToolOutcomeUnknown {
					unknown++
				}
			}
			if unknown != 1-i {
				t.Errorf("%d calls are of unknown outcome, want %d", unknown, 1-i)
			}
			if ends := p.events(session, sdkproto.TypeTurnEnd); !matches(map[string]any{"data": map[string]any{"reason": map[string]any{"kind": "interrupted"}}}, ends[0]) {
				t.Errorf("the first turn ended as %s", show(ends[0]))
			}
			p.must(os.RemoveAll(filepath.Join(p.ws, "effects")))
			p.must(os.Remove(filepath.Join(p.ws, "ready")))
		}
		p.attempts()
		p.end()
		p.check("s0", "s1")
	})
}

// TestB94Cancel sends B and C while A runs, cancels, and sends D: a cancel drops
// what waits (decision D23), D is answered, and idle comes last; always so (case
// B94).
func TestB94Cancel(t *testing.T) {
	eachSpeech(t, settings{}, func(t *testing.T, p *provided) {
		var sessions []string
		for i := range 20 {
			session := fmt.Sprint("s", i)
			sessions = append(sessions, session)
			p.server.Script(llmtest.Reply{Parts: []llmtest.Part{{Text: llmtest.Text("A so far")}, {Hang: true}}}, says("The answer."))
			p.ask(session, "A")
			p.event(session, sdkproto.TypeAssistantChunk, `{"chunk":{"type":"text-delta"}}`)
			p.ask(session, "B")
			p.ask(session, "C")
			if i%2 == 0 { // with D behind it at once, too
				p.cancel(session)
				p.ask(session, "D")
			} else {
				p.prompts++
				id := fmt.Sprint("p", p.prompts)
				p.must(p.send(slices.Concat(fmt.Appendf(nil, `{"id":"c%d","method":"session/cancel","params":{"sessionId":%q}}`+"\n", i, session), promptFrame(id, session, "D"))))
			}
			p.event(session, sdkproto.TypeUserMessage, `{"content":[{"type":"text","text":"D"}]}`)
			p.ended(session, completed)
		}
		p.end(sessions...)
		p.attempts()
		for _, session := range sessions {
			var texts []string
			for _, e := range p.events(session, sdkproto.TypeUserMessage) {
				if member(e, "data", "source", "kind") == sdkproto.SourceUser {
					texts = append(texts, text(member(list(member(e, "data", "content"))[0], "text")))
				}
			}
			if !slices.Equal(texts, []string{"A", "D"}) {
				t.Errorf("session %s: the history has the prompts %q", session, texts)
			}
			if got := p.answers(session); !slices.Equal(got, []string{"A so far", "The answer."}) {
				t.Errorf("session %s: the answers are %q", session, got)
			}
			frames := bySession(p.lines())[session]
			if last := frames[len(frames)-1]; member(last.value, "params", "status") != "idle" {
				t.Errorf("session %s: the last frame is %s", session, last.line)
			}
		}
	})
}

// TestB95 calls every method, for itself and for stuck sessions, while one session
// waits for a silent model and one for a program; another session works as if it
// were alone (case B95).
func TestB95(t *testing.T) {
	eachSpeech(t, settings{}, func(t *testing.T, p *provided) {
		silent := llmtest.Reply{Parts: []llmtest.Part{{Hang: true}}}
		p.server.Script(calls("call_1", "bash", `{"command":"touch ready; sleep 300"}`), silent)
		p.ask("tool", "go")
		awaitFile(t, filepath.Join(p.ws, "ready"))
		p.ask("silent", "go")
		for n := 0; n < 2; n = p.attempts() {
			time.Sleep(5 * time.Millisecond)
		}
		p.server.Script(says("free"))
		p.turn("free", "go")

		message := ""
		for _, e := range p.lines() {
			if id := text(member(e.value, "result", "messageId")); message == "" && id != "" {
				message = id
			}
		}
		for i, request := range []string{
			`"method":"initialize","params":{"cwd":` + show(p.ws) + `,"provider":"` + p.speech.provider + `","model":"m"}`,
			`"method":"ping"`,
			`"method":"session/list","params":{}`,
			`"method":"session/events","params":{"sessionId":"tool"}`,
			`"method":"session/events","params":{"sessionId":"silent"}`,
			`"method":"session/resume","params":{"sessionId":"silent"}`,
			`"method":"session/wait","params":{"sessionId":"tool","messageId":"` + message + `","timeoutMs":10}`,
			`"method":"session/steer","params":{"sessionId":"silent","contentBlocks":[{"type":"text","text":"faster"}]}`,
			`"method":"session/prompt","params":{"sessionId":"tool","contentBlocks":[{"type":"text","text":"more"}]}`,
			`"method":"session/cancel","params":{"sessionId":"free"}`,
			`"method":"session/close","params":{"sessionId":"free"}`,
			`"method":"session/cancel","params":{"sessionId":"tool"}`,
			`"method":"session/close","params":{"sessionId":"silent"}`,
		} {
			id := fmt.Sprint("m", i)
			p.must(p.send(fmt.Appendf(nil, `{"id":%q,%s}`+"\n", id, request)))
			if err := wantAnswer(p.peer, id, map[string]any{"result": map[string]any{}}); err != nil {
				t.Fatalf("%s: %v", request, err)
			}
			if i == 8 {
				for _, e := range p.lines() {
					if session := member(e.value, "params", "sessionId"); session != "free" && member(e.value, "params", "status") == "idle" {
						t.Errorf("session %s is not stuck", session)
					}
				}
			}
		}
		p.turn("free", "again")
		p.end("tool", "silent", "free")
	})
}

// TestB98 runs twenty calls with output in each of several sessions, again and
// again, with cancels and other requests among them: every line is one frame and
// seq rises by one (see wireRules), no id comes twice in the process, and the
// pieces of a message come before it (case B98).
func TestB98(t *testing.T) {
	var many strings.Builder
	for i := range 20 {
		fmt.Fprintf(&many, "      - call: {tool: bash, args: {command: \"seq %d 200; echo error >&2\"}}\n", i)
	}
	d := &doing{place: newPlace(t, `
rules:
  - when: {step: 1}
    reply:
      - reasoning: Many at once, with a lot of output.
      - text: Here they are.
`+many.String()+`  - reply: [{text: "That was it.", every: 5ms}]
`), t: t, turns: map[string]int{}, mark: "DSH_TEST_MARK=many"}
	d.peer = d.start(t)
	sessions := []string{"a", "b", "c", "d"}
	for round := range rounds {
		d.mu.Lock()
		from := len(d.entries)
		d.mu.Unlock()
		for _, session := range sessions {
			d.turns[session]++
			d.must(d.send(promptFrame(fmt.Sprint(session, round), session, "go")))
		}
		for i := range 10 {
			d.must(d.send(fmt.Appendf(nil, `{"id":"ping%d.%d","method":"ping"}`+"\n"+`{"id":"list%d.%d","method":"session/list"}`+"\n", round, i, round, i)))
		}
		time.Sleep(20 * time.Millisecond)
		for _, session := range sessions[:2] {
			d.must(d.send(fmt.Appendf(nil, `{"id":"cancel%d%s","method":"session/cancel","params":{"sessionId":%q}}`+"\n", round, session, session)))
		}
		for _, session := range sessions {
			turn := float64(d.turns[session])
			d.must(d.expectIn(from, session, map[string]any{"type": sdkproto.TypeTurnEnd, "data": map[string]any{"turn": turn}}))
		}
	}
	d.end()

	seen := map[string]bool{} // message ids
	over := map[string]bool{} // messages that came whole, by session, turn and step
	for _, e := range d.lines() {
		params := member(e.value, "params")
		data := member(params, "event", "data")
		step := fmt.Sprint(member(params, "sessionId"), " ", member(data, "turn"), ".", member(data, "step"))
		switch member(params, "event", "type") {
		case sdkproto.TypeAssistantChunk:
			if over[step] {
				t.Errorf("a piece comes behind its message: %s", e.line)
			}
		case sdkproto.TypeAssistantMessage:
			over[step] = true
			fallthrough
		case sdkproto.TypeToolResult, sdkproto.TypeUserMessage:
			id := text(member(data, "message", "id")) + text(member(data, "id"))
			if id == "" || seen[id] {
				t.Errorf("the id %q comes again: %s", id, e.line)
			}
			seen[id] = true
		}
	}
	if len(seen) < rounds*len(sessions)*2 {
		t.Errorf("only %d messages", len(seen))
	}
}

// expectIn waits for an event of a session, wherever it stands behind the first
// lines.
func (d *doing) expectIn(first int, session string, event map[string]any) error {
	pattern := map[string]any{"params": map[string]any{"sessionId": session, "event": event}}
	return d.wait("an event like "+show(pattern), func(all []entry) bool {
		for ; first < len(all); first++ {
			if e := all[first]; e.kind == received && matches(pattern, e.value) {
				return true
			}
		}
		return false
	})
}
