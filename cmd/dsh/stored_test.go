package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// readStored reads the file of a session as spec jsonrpc 9.2 describes it:
// a header, then events, runs of deltas packed. It shares no code with the
// store.
func readStored(path string) (events []any, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !bytes.HasSuffix(data, []byte("\n")) {
		return nil, fmt.Errorf("%s: the last line has no end: %.200q", path, data[bytes.LastIndexByte(data, '\n')+1:])
	}
	for i, line := range bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
		var row any
		if err := wirejson.Unmarshal(line, &row); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
		if i == 0 {
			if !matches(map[string]any{"type": "session", "version": 0.0}, row) {
				return nil, fmt.Errorf("%s:1: this is no header of format 0: %s", path, line)
			}
			continue
		}
		events = append(events, unpack(row)...)
	}
	return events, nil
}

// unpack turns a packed row into the events it stands for.
func unpack(row any) []any {
	var deltaType, texts string
	switch member(row, "type") {
	case "text-chunks":
		deltaType, texts = "text-delta", "texts"
	case "reasoning-chunks":
		deltaType, texts = "reasoning-delta", "texts"
	case "tool-call-chunks":
		deltaType, texts = "tool-call-delta", "args"
	default:
		return []any{row}
	}
	data := member(row, "data")
	at := number(member(row, "time0"))
	differences := list(member(data, "dt"))
	var events []any
	for i, text := range list(member(data, texts)) {
		chunk := map[string]any{"type": deltaType, "index": member(data, "index")}
		if deltaType == "tool-call-delta" {
			chunk["id"], chunk["argumentsDelta"] = member(data, "id"), text
			if name := member(data, "name"); name != nil && i == 0 {
				chunk["name"] = name
			}
		} else {
			chunk["text"] = text
		}
		if i > 0 {
			at += number(differences[i-1])
		}
		events = append(events, map[string]any{
			"type": sdkproto.TypeAssistantChunk, "seq": float64(number(member(row, "seq0")) + int64(i)), "time": float64(at),
			"data": map[string]any{"turn": member(data, "turn"), "step": member(data, "step"), "chunk": chunk},
		})
	}
	return events
}

// checkStored checks what must hold of every stored log after an orderly end or
// a repair: contiguous seq, times that do not decrease, brackets in brackets,
// turns counted without a gap, exactly one result for every call and before the
// next answer (B41), ids used once (B98), sources that come earlier.
func checkStored(events []any) error {
	c := storedCheck{ids: map[string]bool{}, nodes: map[int64]string{}, received: map[string]bool{}, consumed: map[string]bool{}}
	for i, e := range events {
		if err := c.event(int64(i), e); err != nil {
			return fmt.Errorf("event %d of the log: %w: %s", i, err, show(e))
		}
	}
	switch {
	case c.inTurn || c.inStep:
		return errors.New("the log ends inside a turn")
	case len(c.open) > 0:
		return fmt.Errorf("the log ends without the results of %v", c.open)
	}
	return nil
}

type storedCheck struct {
	time           int64
	turn, step     int64
	inTurn, inStep bool
	open           []string        // calls of the last answer without a result
	ids            map[string]bool // of messages of the history
	nodes          map[int64]string
	// received and consumed are the ids of receipts and of user messages.
	received, consumed map[string]bool
	// last is the event before, compaction the id of the one that is open.
	last       any
	compaction string
}

func (c *storedCheck) event(seq int64, e any) error {
	if number(member(e, "seq")) != seq {
		return fmt.Errorf("the seq is not %d", seq)
	}
	if at := number(member(e, "time")); at < c.time {
		return fmt.Errorf("the time is less than %d", c.time)
	} else {
		c.time = at
	}
	for _, s := range list(member(e, "sourceEventSeqs")) {
		if n := number(s); n < 0 || n >= seq {
			return fmt.Errorf("source %d is not earlier", n)
		}
	}
	defer func() { c.last = e }()
	if err := c.brackets(e); err != nil {
		return err
	}
	return c.messages(e)
}

// summarised takes out the nodes that a user/message replaces directly behind
// the compaction/summary that names them, and reports whether that is what it
// does (spec jsonrpc 5.6).
func (c *storedCheck) summarised(eventType string, op any) bool {
	data := member(c.last, "data")
	seqs := list(member(data, "shadowedSeqs"))
	if eventType != sdkproto.TypeUserMessage || member(c.last, "type") != sdkproto.TypeCompactionSummary || member(op, "op") != "replace" ||
		len(seqs) == 0 || seqs[0] != member(op, "start") || seqs[len(seqs)-1] != member(op, "end") ||
		!matches(member(data, "shadowedRange"), map[string]any{"start": member(op, "start"), "end": member(op, "end")}) {
		return false
	}
	for _, s := range seqs {
		if c.nodes[number(s)] == "" {
			return false
		}
		delete(c.nodes, number(s))
	}
	return true
}

func (c *storedCheck) brackets(e any) error {
	data := member(e, "data")
	turn, step := number(member(data, "turn")), number(member(data, "step"))
	inside := map[any]bool{
		sdkproto.TypeStepStart: true, sdkproto.TypeStepEnd: true, sdkproto.TypeTurnEnd: true, sdkproto.TypeAssistantChunk: true,
		sdkproto.TypeAssistantMessage: true, sdkproto.TypeToolCall: true, sdkproto.TypeToolResult: true,
	}
	if inside[member(e, "type")] && (!c.inTurn || turn != c.turn) {
		return errors.New("this is outside its turn")
	}
	switch member(e, "type") {
	case sdkproto.TypeCompactionStart, sdkproto.TypeCompactionSummary, sdkproto.TypeCompactionEnd:
		id, opens := text(member(data, "compactionId")), member(e, "type") == sdkproto.TypeCompactionStart
		if id == "" || opens && c.compaction != "" || !opens && c.compaction != id {
			return fmt.Errorf("this is of compaction %q while %q is open", id, c.compaction)
		}
		if c.compaction = id; member(e, "type") == sdkproto.TypeCompactionEnd {
			c.compaction = ""
		}
	case sdkproto.TypeTurnStart:
		if c.inTurn || turn != c.turn+1 {
			return fmt.Errorf("the turn after %d starts (open: %v)", c.turn, c.inTurn)
		}
		c.inTurn, c.turn, c.step = true, turn, 0
	case sdkproto.TypeTurnEnd:
		if c.inStep || c.compaction != "" {
			return fmt.Errorf("the turn ends inside a step (open: %v) or a compaction (%q)", c.inStep, c.compaction)
		}
		c.inTurn = false
	case sdkproto.TypeStepStart:
		if c.inStep || step != c.step+1 {
			return fmt.Errorf("the step after %d starts (open: %v)", c.step, c.inStep)
		}
		c.inStep, c.step = true, step
	case sdkproto.TypeStepEnd:
		if !c.inStep || step != c.step || len(c.open) > 0 {
			return fmt.Errorf("step %d ends with open calls %v (open: %v)", c.step, c.open, c.inStep)
		}
		c.inStep = false
	case sdkproto.TypeAssistantChunk, sdkproto.TypeAssistantMessage, sdkproto.TypeToolCall, sdkproto.TypeToolResult:
		if !c.inStep || step != c.step {
			return errors.New("this is outside its step")
		}
	}
	return nil
}

func (c *storedCheck) messages(e any) error {
	eventType, data := text(member(e, "type")), member(e, "data")
	message := data
	if eventType == sdkproto.TypeAssistantMessage || eventType == sdkproto.TypeToolResult {
		message = member(data, "message")
	}
	if !sdkproto.IsSurface(eventType) {
		for _, m := range list(member(data, "inserted")) {
			if id := text(member(m, "id")); eventType == sdkproto.TypeAgentInboxSpliced {
				c.received[id] = true
			}
		}
		if member(e, "surfaceOp") != nil {
			return errors.New("a surface operation where none may be")
		}
		return nil
	}
	id := text(member(message, "id"))
	if id == "" || c.ids[id] {
		return fmt.Errorf("the message id %q is used twice, or empty", id)
	}
	c.ids[id] = true
	// What a node stands for: a result for its call, all others for themselves.
	is := eventType
	if eventType == sdkproto.TypeToolResult {
		is += " " + text(member(message, "source", "callId"))
	}
	if op := member(e, "surfaceOp"); op != "append" {
		old := number(member(op, "start"))
		if c.summarised(eventType, op) {
			c.nodes[number(member(e, "seq"))] = is
			return nil
		}
		if member(op, "op") != "replace" || number(member(op, "end")) != old || c.nodes[old] != is {
			return errors.New("the history is neither appended to, nor is one message of it replaced by its like")
		}
		delete(c.nodes, old)
		c.nodes[number(member(e, "seq"))] = is
		return nil
	}
	c.nodes[number(member(e, "seq"))] = is
	switch eventType {
	case sdkproto.TypeUserMessage:
		if matches(map[string]any{"kind": sdkproto.SourceUser}, member(message, "source")) && !c.received[id] {
			return errors.New("a prompt without a receipt")
		}
		c.consumed[id] = true
	case sdkproto.TypeAssistantMessage:
		if len(c.open) > 0 {
			return fmt.Errorf("the calls %v have no result", c.open)
		}
		for _, b := range list(member(message, "content")) {
			if member(b, "type") == sdkproto.BlockToolCall {
				c.open = append(c.open, text(member(b, "id")))
			}
		}
	case sdkproto.TypeToolResult:
		call := text(member(message, "source", "callId"))
		if len(c.open) == 0 || c.open[0] != call {
			return fmt.Errorf("the result of %q where %v are open", call, c.open)
		}
		c.open = c.open[1:]
	}
	return nil
}

// checkStreamed checks that what was streamed of a session is what is stored: a
// fact is on the disk, as it is, before it is handed out (S126, decision D2).
// all says that nothing that is stored may be missing.
func checkStreamed(session string, events []any, streamed []entry, all bool) error {
	seen := make([]bool, len(events))
	for _, e := range streamed {
		event := member(e.value, "params", "event")
		if event == nil || member(e.value, "params", "sessionId") != session {
			continue
		}
		seq := number(member(event, "seq"))
		if seq < 0 || seq >= int64(len(events)) {
			return fmt.Errorf("session %s: a streamed event is not stored: %s", session, e.line)
		}
		if show(event) != show(events[seq]) {
			return fmt.Errorf("session %s: event %d was streamed as\n%s\nand is stored as\n%s", session, seq, show(event), show(events[seq]))
		}
		seen[seq] = true
	}
	if i := slices.Index(seen, false); all && i >= 0 {
		return fmt.Errorf("session %s: an event was not streamed: %s", session, show(events[i]))
	}
	return nil
}

func TestUnpack(t *testing.T) {
	row := `{"type":"tool-call-chunks","seq0":7,"time0":100,"data":{"turn":1,"step":2,"index":3,"dt":[1,0],"id":"c","name":"bash","args":["{","\"a\":1","}"]}}`
	var v any
	if err := wirejson.Unmarshal([]byte(row), &v); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range unpack(v) {
		got = append(got, fmt.Sprint(number(member(e, "seq")), " ", number(member(e, "time")), " ", show(member(e, "data", "chunk", "argumentsDelta")), member(e, "data", "chunk", "name")))
	}
	want := `7 100 "{"bash|8 101 "\"a\":1"<nil>|9 101 "}"<nil>`
	if strings.Join(got, "|") != want {
		t.Errorf("got %s\nwant %s", strings.Join(got, "|"), want)
	}
}

// The check of stored logs must be able to fail.
func TestCheckStored(t *testing.T) {
	good := []string{
		`{"type":"agent/inbox/spliced","time":1,"data":{"target":"next-turn","start":0,"inserted":[{"id":"u"}]}}`,
		`{"type":"turn/start","time":1,"data":{"turn":1}}`,
		`{"type":"step/start","time":1,"data":{"turn":1,"step":1}}`,
		`{"type":"user/message","time":1,"data":{"id":"u","source":{"kind":"user"}},"surfaceOp":"append"}`,
		`{"type":"assistant/message","time":2,"data":{"turn":1,"step":1,"message":{"id":"a","content":[{"type":"tool-call","id":"c1"},{"type":"tool-call","id":"c2"}]}},"surfaceOp":"append"}`,
		`{"type":"tool/call","time":2,"data":{"turn":1,"step":1,"callId":"c1"}}`,
		`{"type":"tool/result","time":2,"data":{"turn":1,"step":1,"message":{"id":"r1","source":{"callId":"c1"}}},"sourceEventSeqs":[5],"surfaceOp":"append"}`,
		`{"type":"tool/result","time":2,"data":{"turn":1,"step":1,"message":{"id":"r2","source":{"callId":"c2"}}},"surfaceOp":"append"}`,
		`{"type":"step/end","time":3,"data":{"turn":1,"step":1}}`,
		`{"type":"turn/end","time":3,"data":{"turn":1,"reason":{"kind":"completed"}}}`,
		`{"type":"turn/start","time":4,"data":{"turn":2}}`,
		`{"type":"compaction/start","time":4,"data":{"compactionId":"k","turn":2}}`,
		`{"type":"compaction/summary","time":4,"data":{"compactionId":"k","shadowedRange":{"start":3,"end":7},"shadowedSeqs":[3,4,6,7]}}`,
		`{"type":"user/message","time":4,"data":{"id":"s","source":{"kind":"plugin"}},"surfaceOp":{"op":"replace","start":3,"end":7}}`,
		`{"type":"compaction/end","time":4,"data":{"compactionId":"k","turn":2}}`,
		`{"type":"turn/end","time":4,"data":{"turn":2,"reason":{"kind":"completed"}}}`,
	}
	parse := func(lines []string) []any {
		events := make([]any, len(lines))
		for i, line := range lines {
			if err := wirejson.Unmarshal([]byte(line), &events[i]); err != nil {
				t.Fatal(err)
			}
			events[i].(map[string]any)["seq"] = float64(i)
		}
		return events
	}
	if err := checkStored(parse(good)); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		at        int
		old, new  string
		truncated bool
		want      string
	}{
		"open turn":         {at: 9, truncated: true, want: "inside a turn"},
		"open step":         {at: 8, truncated: true, want: "inside a turn"},
		"time":              {at: 8, old: `"time":3`, new: `"time":1`, want: "time"},
		"turn number":       {at: 1, old: `"turn":1`, new: `"turn":2`, want: "turn after 0"},
		"step number":       {at: 2, old: `"step":1`, new: `"step":2`, want: "step after 0"},
		"other turn":        {at: 5, old: `"turn":1`, new: `"turn":2`, want: "outside its turn"},
		"other step":        {at: 5, old: `"step":1`, new: `"step":2`, want: "outside its step"},
		"id twice":          {at: 7, old: `"r2"`, new: `"r1"`, want: "used twice"},
		"result twice":      {at: 7, old: `"c2"`, new: `"c1"`, want: "where [c2] are open"},
		"results reordered": {at: 6, old: `"c1"`, new: `"c2"`, want: "where [c1 c2] are open"},
		"no result":         {at: 7, old: `tool/result`, new: `todo/write`, want: "surface operation"},
		"no receipt":        {at: 0, old: `"u"`, new: `"x"`, want: "without a receipt"},
		"later source":      {at: 6, old: `[5]`, new: `[6]`, want: "not earlier"},
		"replacement":       {at: 4, old: `"surfaceOp":"append"`, new: `"surfaceOp":{"op":"replace"}`, want: "neither appended"},
		"other compaction":  {at: 12, old: `"k"`, new: `"l"`, want: `of compaction "l" while "k" is open`},
		"open compaction":   {at: 14, old: `compaction/end`, new: `todo/write`, want: `or a compaction ("k")`},
		"other range":       {at: 12, old: `"end":7`, new: `"end":6`, want: "neither appended"},
		"other summarised":  {at: 12, old: `3,4,6,7`, new: `3,4,5,7`, want: "neither appended"},
		"other end":         {at: 13, old: `"end":7`, new: `"end":6`, want: "neither appended"},
		"no summary":        {at: 12, old: `compaction/summary`, new: `todo/write`, want: "neither appended"},
		"other replacement": {at: 7, old: `"surfaceOp":"append"`, new: `"surfaceOp":{"op":"replace","start":6,"end":6}`, want: "neither appended"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := slices.Clone(good)
			if tc.truncated {
				lines = lines[:tc.at]
			} else {
				lines[tc.at] = strings.Replace(lines[tc.at], tc.old, tc.new, 1)
			}
			if err := checkStored(parse(lines)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	events := parse(good)
	delete(events[6].(map[string]any), "seq")
	if err := checkStored(events); err == nil {
		t.Error("a missing seq is accepted")
	}
}
