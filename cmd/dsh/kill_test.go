package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dsh/kernel/session/sessiontest/killpoint"
	"dsh/sdkproto"
)

// killModel is what the model does in a life that ends early and in the one
// after it.
const killModel = `
rules:
  - when: {text: work, step: 1}
    reply:
      - reasoning: A line is asked for.
      - text: I will append the line.
      - call: {tool: bash, args: {command: "echo line >> effects"}}
      - call: {tool: glob, args: {pattern: "*"}}
  - when: {text: work, step: 2}
    reply: It is appended.
  - when: {text: greet}
    reply: Good day to you.
  - reply: Going on.
`

// TestKill kills the program, as kill -9 does, at chosen writes and syncs of its
// session log while it works on two prompts, and looks at what a second process
// makes of it (decision D29, B42, spec jsonrpc 9.6, 14 line 17). The build tag
// long takes every place there is.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, series := range killPlan() {
		for n := series.first; ; n++ {
			point := killpoint.Point{Op: series.op, N: n, When: series.when}
			reached := true
			t.Run(strings.ReplaceAll(point.String(), "/", "-"), func(t *testing.T) {
				first := killedLife(t, point)
				reached = !first.survived
				checkNextLife(t, first)
			})
			if !reached && series.last != everywhere {
				t.Errorf("the process did not come to %s; choose another place", point)
			}
			if !reached || n == series.last {
				break
			}
		}
	}
}

// killSeries are the first to the last operation of a kind; the last may be
// everywhere, which goes on until a life comes to its end.
type killSeries struct {
	op, when    string
	first, last int64
}

const everywhere = 0

// life is what a client saw of a process that was killed.
type life struct {
	*place
	survived     bool
	acknowledged []string // message ids
	streamed     []entry
}

func killedLife(t *testing.T, point killpoint.Point) *life {
	l := &life{place: newPlace(t, killModel)}
	p := l.start(t, killpoint.Env+"="+point.String())
	if err := p.send(slices.Concat(promptFrame("p1", "s", "greet"), promptFrame("p2", "s", "work"))); err != nil {
		t.Fatal(err)
	}
	end := map[string]any{"type": sdkproto.TypeTurnEnd, "data": map[string]any{"turn": 2.0}}
	if err := p.wait("the end of both turns, or of the process", func(all []entry) bool {
		return p.ended || countFrames(all, end) > 0
	}); err != nil {
		t.Fatal(err)
	}
	_ = p.send([]byte(shutdownFrame)) // to nobody, perhaps
	code, err := p.exitCode()
	if err != nil {
		t.Fatal(err)
	}
	if code != 0 && code != killed {
		t.Fatal(p.failure(fmt.Sprintf("the process ended with code %d", code)))
	}
	l.survived = code == 0
	l.streamed = p.lines()
	for _, e := range l.streamed {
		if id := text(member(e.value, "result", "messageId")); id != "" {
			l.acknowledged = append(l.acknowledged, id)
		}
	}
	return l
}

func checkNextLife(t *testing.T, l *life) {
	before := effects(t, l.ws)
	_ = os.Remove(filepath.Join(l.home, requestsFile)) // of the first life, which may not have come so far
	p := l.start(t)
	if err := p.send(promptFrame("p3", "s", "go on")); err != nil {
		t.Fatal(err)
	}
	idle := map[string]any{"params": map[string]any{"sessionId": "s", "status": "idle"}}
	if err := p.expect(idle); err != nil {
		t.Fatal(err)
	}
	if err := p.send([]byte(shutdownFrame)); err != nil {
		t.Fatal(err)
	}
	if err := p.wantExit(0); err != nil {
		t.Fatal(err)
	}

	events, err := readStored(l.stored("s"))
	if err != nil {
		t.Fatal(err)
	}
	if err := checkStored(events); err != nil {
		t.Error(p.failure(err.Error()))
	}
	if err := checkStreamed("s", events, slices.Concat(l.streamed, p.lines()), false); err != nil {
		t.Error(err)
	}
	l.checkPrompts(t, events)
	l.checkCalls(t, events, before)
	l.checkRequests(t)
}

// checkPrompts: what was acknowledged is a message of the history, once.
func (l *life) checkPrompts(t *testing.T, events []any) {
	for _, id := range l.acknowledged {
		n := 0
		for _, e := range events {
			if member(e, "type") == sdkproto.TypeUserMessage && member(e, "data", "id") == id {
				n++
			}
		}
		if n != 1 {
			t.Errorf("the acknowledged message %s is %d times in the history", id, n)
		}
	}
}

// checkCalls: the line was appended at most once in both lives together, and the
// log says of each call what is true.
func (l *life) checkCalls(t *testing.T, events []any, before int) {
	after := effects(t, l.ws)
	ran := map[string]int{} // results of the call that appends, by error code; "" is success
	var asked = map[string]string{}
	for _, e := range events {
		for _, b := range list(member(e, "data", "message", "content")) {
			switch member(b, "type") {
			case sdkproto.BlockToolCall:
				asked[text(member(b, "id"))] = text(member(b, "name"))
			case sdkproto.BlockToolResult:
				if asked[text(member(b, "toolCallId"))] == "bash" {
					ran[text(member(e, "data", "error", "code"))]++
				}
			}
		}
	}
	switch {
	case len(ran) > 1 || ran[""] > 1:
		t.Errorf("the call has the results %v", ran)
	case ran[""] == 1 && after != 1:
		t.Errorf("the call succeeded and the line is there %d times", after)
	case ran["TOOL_NOT_STARTED"] == 1 && after != 0:
		t.Errorf("the call was not started and the line is there %d times", after)
	case ran["TOOL_OUTCOME_UNKNOWN"] == 1 && (before > 1 || after != before):
		t.Errorf("the line was there %d times, then %d times: the call was repeated", before, after)
	case len(ran) == 0 && after != 0:
		t.Errorf("no call is in the log and the line is there %d times", after)
	}
}

// checkRequests: the first request of the new life holds the prompts that had
// come into the history and the text of the model that the client had seen; the
// model, which checks the pairing, refused none.
func (l *life) checkRequests(t *testing.T) {
	requests, err := readRequests(l.home)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkGrowing(requests); err != nil {
		t.Error(err)
	}
	var want []string
	streamed := map[string]string{} // text of the model, by turn and step
	for _, e := range l.streamed {
		data := member(e.value, "params", "event", "data")
		switch member(e.value, "params", "event", "type") {
		case sdkproto.TypeUserMessage:
			want = append(want, text(member(data, "id")))
		case sdkproto.TypeAssistantChunk:
			if member(data, "chunk", "type") == "text-delta" {
				step := fmt.Sprint(member(data, "turn"), member(data, "step"))
				streamed[step] += text(member(data, "chunk", "text"))
			}
		}
	}
	for _, said := range streamed {
		want = append(want, strings.TrimSuffix(show(said), `"`)) // as the beginning of a text
	}
	for _, w := range want {
		if !strings.Contains(string(requests[0].line), w) {
			t.Errorf("the first request after the kill lacks %s: %s", w, requests[0].line)
		}
	}
	for _, r := range requests {
		if !strings.Contains(string(r.line), `"role":"user"`) {
			t.Errorf("a request without a user message: %s", r.line)
		}
	}
}

func effects(t *testing.T, ws string) int {
	data, err := os.ReadFile(filepath.Join(ws, "effects"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(data), "line\n")
}
