package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// wireRules checks what must hold of every conversation with one process,
// whatever it is about, frame by frame:
//
//   - a frame is a request's one answer, one of the known notifications (spec
//     jsonrpc 1.3, 2.4 to 2.7), one that was asked for or a question (13.3)
//   - seq rises by one within a session (5.1)
//   - status changes alternate, beginning with running (7.1)
//   - idle comes only while no turn is open and no message waits (7.2)
//   - subagent.started comes before the child does anything, subagent.finished
//     behind its idle (8.1, 8.3)
//   - after the answer to shutdown come only other answers (B79)
type wireRules struct {
	requests map[string]string // method by id
	answered map[string]bool
	sessions map[string]*sessionRules
	asked    []string // notifications beyond the plain protocol
	// stream says that the program speaks stream-json: then see streamLine.
	stream bool
	over   bool
}

type sessionRules struct {
	child   bool  // subagent.started told of it
	next    int64 // the seq that must come; -1 is any
	running bool
	turn    bool
	waiting map[string][]any // inbox lists by target
}

func newWireRules() wireRules {
	return wireRules{requests: map[string]string{}, answered: map[string]bool{}, sessions: map[string]*sessionRules{}}
}

func (r *wireRules) sent(frame any) {
	if id, method := member(frame, "id"), member(frame, "method"); id != nil && method != nil {
		r.requests[show(id)] = text(method)
		for _, name := range list(member(frame, "params", "capabilities", "notifications")) {
			r.asked = append(r.asked, text(name))
		}
	}
}

// streamLine checks what must hold of every line of the stream-json wire: a type,
// which is not one of the two that end a client's stream (checklist 6), the ids
// that belong to it (spec stream-json 3.1), and one answer to a request (2.2).
func (r *wireRules) streamLine(line any) error {
	kind := text(member(line, "type"))
	switch kind {
	case "", "error", "end":
		return fmt.Errorf("a line of type %q", kind)
	case "control_response":
		id := show(member(line, "response", "request_id"))
		if r.answered[id] {
			return fmt.Errorf("a second answer to %s", id)
		}
		r.answered[id] = true
	case "control_request", "control_cancel_request", "keep_alive":
	default:
		for _, key := range []string{"session_id", "uuid"} {
			if !uuids.MatchString(text(member(line, key))) {
				return fmt.Errorf("%s is no UUID", key)
			}
		}
		if id := text(member(line, "uuid")); kind != "user" && r.answered[id] {
			return fmt.Errorf("a second line with the uuid %s", id)
		} else {
			r.answered[id] = true
		}
	}
	return nil
}

func (r *wireRules) received(frame any) error {
	if r.stream {
		return r.streamLine(frame)
	}
	if member(frame, "jsonrpc") != "2.0" {
		return errors.New(`a frame without "jsonrpc":"2.0"`)
	}
	method := text(member(frame, "method"))
	if id := member(frame, "id"); id != nil && member(frame, "method") == nil {
		return r.answer(show(id), frame)
	} else if id != nil && method != sdkproto.MethodApprovalRequest {
		return fmt.Errorf("an unknown request %q", method)
	}
	if r.over {
		return errors.New("a notification after the answer to shutdown")
	}
	params := member(frame, "params")
	switch method {
	case sdkproto.NotifySessionEvent:
		return r.session(text(member(params, "sessionId"))).event(member(params, "event"))
	case sdkproto.NotifySessionStatus:
		return r.session(text(member(params, "sessionId"))).status(text(member(params, "status")))
	case sdkproto.NotifySubagentStarted, sdkproto.NotifySubagentFinished:
		return r.subagent(method, params)
	case sdkproto.MethodApprovalRequest, sdkproto.NotifyApprovalCancelled:
		return nil
	}
	if slices.Contains(r.asked, method) {
		return nil
	}
	return fmt.Errorf("an unknown notification %q", method)
}

func (r *wireRules) session(id string) *sessionRules {
	s := r.sessions[id]
	if s == nil {
		s = &sessionRules{next: -1, waiting: map[string][]any{}}
		r.sessions[id] = s
	}
	return s
}

func (r *wireRules) subagent(method string, params any) error {
	id, parent := text(member(params, "childSessionId")), text(member(params, "parentSessionId"))
	s, finished := r.session(id), method == sdkproto.NotifySubagentFinished
	outcomes := map[string]string{
		sdkproto.StopCompleted: "ok", sdkproto.StopAborted: "error", sdkproto.StopError: "error", sdkproto.StopRefusal: "error",
		sdkproto.StopMaxTokens: "ok error",
	}
	switch status := text(member(params, "status")); {
	case id == "" || parent == "" || id == parent:
		return errors.New("a subagent needs an id and a parent")
	case !finished && !s.child && s.next >= 0:
		return errors.New("a subagent has begun before it was started")
	case finished && !s.child:
		return errors.New("a subagent has finished that was not started")
	case s.running:
		return fmt.Errorf("%s of a subagent that runs", method)
	case finished && (status == "" || !slices.Contains(strings.Fields(outcomes[text(member(params, "stopReason"))]), status)):
		return errors.New("the status of a subagent does not go with its stopReason")
	}
	s.child = true
	return nil
}

func (r *wireRules) answer(id string, frame any) error {
	method, asked := r.requests[id]
	_, good := member(frame, "result").(map[string]any)
	failed := member(frame, "error") != nil
	switch {
	case !asked:
		return errors.New("an answer to a request that was not sent")
	case r.answered[id]:
		return errors.New("a second answer to one request")
	case good == failed:
		return errors.New("an answer must have either an object `result` or an `error`")
	}
	r.answered[id] = true
	r.over = r.over || method == sdkproto.MethodShutdown
	return nil
}

func (s *sessionRules) event(event any) error {
	seq := number(member(event, "seq"))
	if seq < 0 || s.next >= 0 && seq != s.next {
		return fmt.Errorf("seq %d where %d had to come", seq, s.next)
	}
	s.next = seq + 1
	data := member(event, "data")
	switch member(event, "type") {
	case sdkproto.TypeTurnStart:
		s.turn = true
	case sdkproto.TypeTurnEnd:
		s.turn = false
	case sdkproto.TypeAgentInboxSpliced:
		target := text(member(data, "target"))
		waits := s.waiting[target]
		// What an earlier process left in the inbox was not seen here.
		start := min(max(0, int(number(member(data, "start")))), len(waits))
		end := min(start+max(0, int(number(member(data, "removedCount")))), len(waits))
		s.waiting[target] = slices.Replace(waits, start, end, list(member(data, "inserted"))...)
	}
	return nil
}

func (s *sessionRules) status(status string) error {
	running := status == string(sdkproto.StatusRunning)
	switch {
	case !running && status != string(sdkproto.StatusIdle):
		return fmt.Errorf("an unknown status %q", status)
	case running == s.running:
		return fmt.Errorf("status %s twice", status)
	case !running && s.turn:
		return errors.New("idle inside a turn")
	case !running && len(s.waiting[sdkproto.TargetNextTurn]) > 0:
		return errors.New("idle while a message waits for its turn")
	}
	s.running = running
	return nil
}

// The rules must be able to fail.
func TestWireRules(t *testing.T) {
	event := func(seq int, eventType, data string) string {
		return fmt.Sprintf(`<{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":%q,"seq":%d,"time":1,"data":%s}}}`, eventType, seq, data)
	}
	status := func(s string) string {
		return fmt.Sprintf(`<{"jsonrpc":"2.0","method":"session.status","params":{"sessionId":"s","status":%q}}`, s)
	}
	child := func(what, members string) string {
		return `<{"jsonrpc":"2.0","method":"subagent.` + what + `","params":{"parentSessionId":"p","childSessionId":"s"` + members + `}}`
	}
	receipt := `{"target":"next-turn","start":0,"inserted":[{"id":"m"}]}`
	removal := `{"target":"next-turn","start":0,"removedCount":1,"inserted":[]}`
	shutdown, end := `>{"id":1,"method":"shutdown"}`, `<{"jsonrpc":"2.0","id":1,"result":{}}`
	for name, tc := range map[string]struct {
		lines []string
		want  string // part of the error; "" is none
	}{
		"a turn": {[]string{
			event(3, "agent/inbox/spliced", receipt), status("running"), event(4, "turn/start", `{}`),
			event(5, "agent/inbox/spliced", removal), event(6, "turn/end", `{}`), status("idle"),
		}, ""},
		"no version":          {[]string{`<{"id":1,"result":{}}`}, "jsonrpc"},
		"array":               {[]string{`<[]`}, "jsonrpc"},
		"unknown method":      {[]string{`<{"jsonrpc":"2.0","method":"x"}`}, "unknown notification"},
		"asked for":           {[]string{`>{"id":1,"method":"initialize","params":{"capabilities":{"notifications":["x"]}}}`, `<{"jsonrpc":"2.0","method":"x"}`}, ""},
		"another asked for":   {[]string{`>{"id":1,"method":"initialize","params":{"capabilities":{"notifications":["x"]}}}`, `<{"jsonrpc":"2.0","method":"y"}`}, "unknown notification"},
		"answers":             {[]string{`>{"id":1,"method":"x"}`, `>{"id":"1","method":"x"}`, `<{"jsonrpc":"2.0","id":"1","error":{}}`, end}, ""},
		"not asked":           {[]string{end}, "not sent"},
		"id of another type":  {[]string{`>{"id":"1","method":"x"}`, end}, "not sent"},
		"answered twice":      {[]string{`>{"id":1,"method":"x"}`, end, end}, "second answer"},
		"neither":             {[]string{`>{"id":1,"method":"x"}`, `<{"jsonrpc":"2.0","id":1}`}, "either"},
		"both":                {[]string{`>{"id":1,"method":"x"}`, `<{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`}, "either"},
		"result not object":   {[]string{`>{"id":1,"method":"x"}`, `<{"jsonrpc":"2.0","id":1,"result":[]}`}, "either"},
		"gap":                 {[]string{event(0, "x", `{}`), event(2, "x", `{}`)}, "seq 2"},
		"seq twice":           {[]string{event(0, "x", `{}`), event(0, "x", `{}`)}, "seq 0"},
		"running twice":       {[]string{status("running"), status("running")}, "twice"},
		"first idle":          {[]string{status("idle")}, "twice"},
		"unknown status":      {[]string{status("busy")}, "unknown status"},
		"idle in a turn":      {[]string{status("running"), event(0, "turn/start", `{}`), status("idle")}, "inside a turn"},
		"idle with a message": {[]string{event(0, "agent/inbox/spliced", receipt), status("running"), status("idle")}, "waits"},
		"after shutdown":      {[]string{shutdown, end, status("running")}, "after the answer"},
		"a subagent": {[]string{
			child("started", ``), event(0, "x", `{}`), status("running"), status("idle"), child("finished", `,"status":"ok","stopReason":"completed"`),
			status("running"), status("idle"), child("finished", `,"status":"error","stopReason":"aborted"`),
		}, ""},
		"started late":      {[]string{event(0, "x", `{}`), child("started", ``)}, "before it was started"},
		"never started":     {[]string{child("finished", `,"status":"ok","stopReason":"completed"`)}, "not started"},
		"finished and runs": {[]string{child("started", ``), status("running"), child("finished", `,"status":"ok","stopReason":"completed"`)}, "that runs"},
		"wrong outcome":     {[]string{child("started", ``), child("finished", `,"status":"ok","stopReason":"error"`)}, "stopReason"},
		"no outcome":        {[]string{child("started", ``), child("finished", `,"stopReason":"odd"`)}, "stopReason"},
		"a question":        {[]string{`<{"jsonrpc":"2.0","id":"a","method":"approval/request","params":{}}`, `>{"id":"a","result":{}}`, `<{"jsonrpc":"2.0","method":"approval/cancelled"}`}, ""},
		"another request":   {[]string{`<{"jsonrpc":"2.0","id":"a","method":"x"}`}, "unknown request"},
		"two shutdowns":     {[]string{shutdown, `>{"id":2,"method":"shutdown"}`, end, `<{"jsonrpc":"2.0","id":2,"result":{}}`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rules := newWireRules()
			var err error
			for _, line := range tc.lines {
				var frame any
				if err := wirejson.Unmarshal([]byte(line[1:]), &frame); err != nil {
					t.Fatal(err)
				}
				if line[0] == '>' {
					rules.sent(frame)
					continue
				}
				if err != nil {
					t.Fatalf("%v before the last line", err)
				}
				err = rules.received(frame)
			}
			if got := fmt.Sprint(err); (err == nil) != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
