package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"dsh/kernel/process/processtest"
	"dsh/sdkproto"
)

// doing is a conversation in which each prompt makes the model call one tool.
type doing struct {
	*place
	*peer
	t *testing.T
	// mark is in the environment of every program that a tool starts.
	mark  string
	turns map[string]int
}

const doModel = `
rules:
  - when: {matches: '(?s)^do (\w+) (.+)$', step: 1}
    reply: [{call: {tool: "{{match 1}}", arguments: "{{match 2}}"}}]
  - reply: Done.
`

func startDoing(t *testing.T) *doing {
	t.Helper()
	d := &doing{place: newPlace(t, doModel), t: t, turns: map[string]int{}}
	d.mark = fmt.Sprintf("DSH_TEST_MARK=%d.%d", os.Getpid(), time.Now().UnixNano())
	d.peer = d.start(t, d.mark)
	return d
}

func (d *doing) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// ask lets a session call a tool.
func (d *doing) ask(session, tool string, args map[string]any) {
	d.t.Helper()
	d.turns[session]++
	d.must(d.send(promptFrame(fmt.Sprint(session, d.turns[session]), session, "do "+tool+" "+show(args))))
}

// outcome is what became of a call.
type outcome struct {
	text   string
	failed bool
	code   string
	line   int // the length of the frame with it
}

// result waits for the end of the session's latest turn and gives what the call
// in it came to.
func (d *doing) result(session string) outcome {
	d.t.Helper()
	var got *outcome
	d.must(d.wait("the result of session "+session, func(all []entry) bool {
		got = nil
		for _, e := range all {
			params := member(e.value, "params")
			if e.kind != received || member(params, "sessionId") != session {
				continue
			}
			data := member(params, "event", "data")
			switch member(params, "event", "type") {
			case sdkproto.TypeToolResult:
				block := list(member(data, "message", "content"))[0]
				got = &outcome{failed: member(block, "isError") == true, code: text(member(data, "error", "code")), line: len(e.line)}
				for _, b := range list(member(block, "content")) {
					got.text += text(member(b, "text"))
				}
			case sdkproto.TypeTurnEnd:
				if number(member(data, "turn")) == int64(d.turns[session]) {
					return true
				}
			}
		}
		return false
	}))
	if got == nil {
		d.t.Fatal(d.failure("the turn ended without a result"))
	}
	return *got
}

// do is ask and result.
func (d *doing) do(session, tool string, args map[string]any) outcome {
	d.t.Helper()
	d.ask(session, tool, args)
	return d.result(session)
}

func (d *doing) bash(session, command string) outcome {
	d.t.Helper()
	return d.do(session, "bash", map[string]any{"command": command})
}

// request sends a request and gives its answer.
func (d *doing) request(id, method, params string) any {
	d.t.Helper()
	d.must(d.send(fmt.Appendf(nil, `{"id":%q,"method":%q,"params":%s}`+"\n", id, method, params)))
	got, err := d.answer(id)
	d.must(err)
	return got
}

// end ends the process in order; no program of its tools lives on.
func (d *doing) end() {
	d.t.Helper()
	d.must(d.send([]byte(shutdownFrame)))
	d.must(d.wantExit(0))
	wantGone(d.t, d.mark)
	for session := range d.turns {
		events, err := readStored(d.stored(session))
		d.must(err)
		d.must(checkStored(events))
		d.must(checkStreamed(session, events, d.lines(), true))
	}
}

// wantGone waits until no process has a mark in its environment (rule 4 of the
// cases).
func wantGone(t *testing.T, mark string) {
	t.Helper()
	var left []int
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		pids, err := processtest.Marked(mark)
		if err != nil {
			t.Fatal(err)
		}
		if left = pids; len(left) == 0 {
			return
		}
	}
	t.Errorf("processes that live on: %v", left)
}

// awaitFile waits for a file to be there.
func awaitFile(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
	}
	t.Fatalf("%s does not come to be", path)
}
