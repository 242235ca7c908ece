package main

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// brackets checks the stream_event lines from one line on (checklist 46, S025, case
// B98): brackets are balanced and in the order of spec stream-json 3.6, block
// numbers rise by one, and where an answer was committed its assistant lines have
// the id and the blocks of the bracket, and follow it before another begins. It
// gives the number of brackets.
func brackets(t *testing.T, h *host, from int) (count int) {
	t.Helper()
	var id string       // of the open bracket, or the last one
	var blocks []object // of the bracket, in order
	var open object     // the block that is open
	var input string    // of the open block
	shown := 0          // assistant lines of the bracket so far
	inside, delta := false, false
	for n, l := range h.all()[from:] {
		fault := func(format string, args ...any) {
			t.Helper()
			t.Errorf("line %d: %s", from+n+1, fmt.Sprintf(format, args...))
		}
		if l["type"] == "assistant" && l["parent_tool_use_id"] == nil && dig(l, "message", "model") != "<synthetic>" {
			switch b := block(l); {
			case dig(l, "message", "id") != id:
				fault("the answer %v, and the bracket before it is %s", dig(l, "message", "id"), id)
			case shown >= len(blocks):
				fault("a block that no event told of: %v", b)
			default:
				want := blocks[shown]
				if want["type"] == "tool_use" && want["input"] == nil {
					want["input"] = b["input"] // it is no object, and stands wrapped in the line
				}
				if diff := cmp.Diff(want, b); diff != "" {
					fault("events and block differ: %s", diff)
				}
			}
			shown++
		}
		if l["type"] != "stream_event" {
			continue
		}
		e, _ := l["event"].(object)
		switch e["type"] {
		case "message_start":
			if inside {
				fault("a message_start inside another")
			}
			inside, delta, blocks, shown = true, false, nil, 0
			count++
			id, _ = dig(e, "message", "id").(string)
			m, _ := e["message"].(object)
			for _, f := range missing(m, "message_start", "id:text type:text role:text model:text content:array stop_reason:null stop_sequence:null usage:object") {
				fault("%s", f)
			}
		case "content_block_start":
			b, _ := e["content_block"].(object)
			if !inside || delta || open != nil || e["index"] != float64(len(blocks)) {
				fault("block %v begins out of order", e["index"])
			}
			for _, f := range judgeBlock(b) {
				if b["type"] != "text" || b["text"] != "" {
					fault("%s", f)
				}
			}
			open, input = maps.Clone(b), ""
			blocks = append(blocks, open)
		case "content_block_delta":
			if open == nil || e["index"] != float64(len(blocks)-1) {
				fault("a delta of no open block: %v", e)
				continue
			}
			kinds := map[string]string{"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
			kind, _ := dig(e, "delta", "type").(string)
			if kind == "input_json_delta" && open["type"] == "tool_use" {
				piece, _ := dig(e, "delta", "partial_json").(string)
				input += piece
				continue
			}
			name := kinds[kind]
			had, ok := open[name].(string)
			piece, isText := dig(e, "delta", name).(string)
			if name == "" || !ok || !isText {
				fault("a delta %v in a block %v", e["delta"], open["type"])
			}
			open[name] = had + piece
		case "content_block_stop":
			if open == nil || e["index"] != float64(len(blocks)-1) {
				fault("the end of no open block: %v", e)
				continue
			}
			if open["type"] == "tool_use" {
				var whole object
				open["input"] = nil
				if input == "" {
					open["input"] = object{}
				} else if wirejson.Unmarshal([]byte(input), &whole) == nil && whole != nil {
					open["input"] = whole
				}
			}
			open = nil
		case "message_delta":
			if !inside || delta || open != nil {
				fault("message_delta out of order")
			}
			delta = true
			if !is(dig(e, "delta", "stop_reason"), "text") || !is(dig(e, "usage", "output_tokens"), "int") {
				fault("message_delta %v", e)
			}
		case "message_stop":
			if !inside || open != nil {
				fault("message_stop out of order")
			}
			inside = false
		}
	}
	if inside {
		t.Error("a bracket is open at the end")
	}
	return count
}

// Pieces come only with the flag, in order, and add up to the blocks, whichever API
// the model speaks (checklist 42, 43, 46; S021, S022, S025; cases B86, B98;
// peers/claude 06): thinking with its signature, text, and two calls of one answer
// with the one id.
func TestPartialMessages(t *testing.T) {
	t.Parallel()
	for _, flag := range []bool{true, false} {
		t.Run(fmt.Sprint(flag), func(t *testing.T) {
			t.Parallel()
			eachSpeech(t, func(t *testing.T, p *provider) {
				p.server.Script(
					llmtest.Stream(p.dialect.Whole(llmtest.Thought("let me see"), sdkproto.Text("I will run both."),
						llmtest.Called("c1", "Bash", `{"command":"echo one"}`), llmtest.Called("c2", "Bash", `{"command":"echo two"}`))),
					llmtest.Stream(strings.Replace(p.dialect.Whole(sdkproto.Text("done")), llmtest.MessageID, "msg_02llmtest", 1)))
				var flags []string
				if flag {
					flags = append(flags, "--include-partial-messages")
				}
				p.launch(flags...)
				if result := p.prompt(1); result["result"] != "done" {
					t.Errorf("result %v", result)
				}
				answers := p.of("assistant")
				var kinds []string
				for i, l := range answers {
					kinds = append(kinds, fmt.Sprint(block(l)["type"]))
					if same := dig(l, "message", "id") == dig(answers[0], "message", "id"); same != (i < len(answers)-1) {
						t.Errorf("block %d: the id is %v", i, dig(l, "message", "id"))
					}
					if dig(l, "message", "model") != llmtest.Model || dig(l, "message", "stop_reason") != nil {
						t.Errorf("message %v", l["message"])
					}
				}
				want := "thinking text tool_use tool_use text"
				if p.dialect.Reasoning == "" && !p.dialect.Messages {
					want = strings.Join(kinds, " ") // whether that API's reasoning is shown is not the matter here
				}
				if got := strings.Join(kinds, " "); got != want {
					t.Errorf("blocks %s", got)
				}
				if p.dialect.Messages {
					if dig(answers[0], "message", "id") != llmtest.MessageID || block(answers[0])["signature"] != llmtest.SignatureOf(llmtest.Model, "let me see") {
						t.Errorf("answer %v", answers[0])
					}
				} else if block(answers[0])["signature"] != "" && block(answers[0])["type"] == "thinking" {
					t.Errorf("signature %v", block(answers[0])["signature"])
				}
				switch n := len(p.of("stream_event")); {
				case flag && brackets(t, p.host, 0) != 2:
					t.Error("not two brackets")
				case !flag && n != 0:
					t.Errorf("%d stream_event lines without the flag", n)
				}
				if first := p.all()[0]; first["type"] != "system" || first["subtype"] != "init" {
					t.Errorf("the first line is %v", first) // spec stream-json 3.6
				}
				var ids []string
				for _, b := range p.toolResults() {
					ids = append(ids, fmt.Sprint(b["tool_use_id"], " ", contentText(b)))
				}
				if diff := cmp.Diff([]string{"c1 one", "c2 two"}, ids); diff != "" {
					t.Error(diff)
				}
				p.attempts()
			})
		})
	}
}

// A block that the provider has redacted is shown as it is and sent back as it is;
// a thought without text, too, as long as it is signed (case B59; S021; spec
// stream-json 3.3).
func TestB59(t *testing.T) {
	t.Parallel()
	anthropic := speeches()[2]
	const redacted = "EmwKAhgBEgy3va3pzix/LafPsn4="
	empty := llmtest.BlockStart(1, `"type":"thinking","thinking":"","signature":""`) +
		llmtest.BlockDelta(1, `"type":"signature_delta","signature":`+quoted(llmtest.SignatureOf(llmtest.Model, ""))) + llmtest.BlockStop(1)
	answer := llmtest.MessageStart() + llmtest.ThinkingBlock(0, "first ", "thought") + empty +
		llmtest.BlockStart(2, `"type":"redacted_thinking","data":"`+redacted+`"`) + llmtest.BlockStop(2) +
		llmtest.ToolUseBlock(3, "c1", "Bash", `{"command":"exit 3"}`) + llmtest.ToolUseBlock(4, "c2", "Read", `{"file_path":"no"}`) +
		llmtest.MessageDelta("tool_use", 9) + llmtest.MessageStop
	p := provide(t, anthropic)
	p.server.Script(llmtest.Stream(answer), p.says("done"), p.says("other model"), p.says("back"))
	p.launch("--include-partial-messages", "--permission-mode", "bypassPermissions")
	p.prompt(1)
	brackets(t, p.host, 0)
	var kinds []string
	for _, l := range p.of("assistant") {
		b := block(l)
		kinds = append(kinds, fmt.Sprint(b["type"], " ", b["thinking"], " ", b["signature"], " ", b["data"]))
	}
	nothing := fmt.Sprint(nil, " ", nil, " ", nil)
	if diff := cmp.Diff([]string{
		"thinking first thought " + llmtest.SignatureOf(llmtest.Model, "first thought") + " <nil>",
		"thinking  " + llmtest.SignatureOf(llmtest.Model, "") + " <nil>",
		"redacted_thinking <nil> <nil> " + redacted,
		"tool_use " + nothing, "tool_use " + nothing, "text " + nothing,
	}, kinds); diff != "" {
		t.Error(diff)
	}
	// Sent back byte for byte within the turn; the server refuses what it did not sign.
	for _, part := range []string{
		`"thinking":"first thought"`, llmtest.SignatureOf(llmtest.Model, "first thought"), llmtest.SignatureOf(llmtest.Model, ""), redacted,
	} {
		if !strings.Contains(p.body(1), part) {
			t.Errorf("request 2 has no %s", part)
		}
	}
	// Another model, and back: what the other one did not sign does not fail it.
	if got := p.control("m", "set_model", object{"model": "claude-other"}); got["subtype"] != "success" {
		t.Fatalf("set_model: %v", got)
	}
	if result := p.prompt(2); result["result"] != "other model" {
		t.Errorf("on another model: %v", result)
	}
	if strings.Contains(p.body(2), "sig_") || strings.Contains(p.body(2), redacted) {
		t.Error("signatures went to another model")
	}
	p.control("n", "set_model", object{"model": "default"})
	if result := p.prompt(3); result["result"] != "back" {
		t.Errorf("back: %v", result)
	}
	if n := p.attempts(); n != 4 {
		t.Errorf("%d attempts", n)
	}
	for _, r := range p.server.Received() {
		paired(t, r.Body)
	}
}

// A model backend that answers in one piece streams here all the same (spec
// stream-json 3.6).
func TestWholeAnswerStreams(t *testing.T) {
	t.Parallel()
	p := provide(t, speeches()[0])
	p.server.Script(llmtest.JSON(200, `{"choices":[{"index":0,"message":{"role":"assistant","content":"in one piece"},"finish_reason":"stop"}]}`))
	p.launch("--include-partial-messages")
	if result := p.prompt(1); result["result"] != "in one piece" {
		t.Errorf("result %v", result)
	}
	if n := brackets(t, p.host, 0); n != 1 {
		t.Errorf("%d brackets", n)
	}
}

// An interrupt in the middle of a block closes it and sends message_stop; the block
// is shown as far as it came (checklist 44, 46; S025; spec stream-json 11.2;
// peers/claude 23).
func TestInterruptedBracket(t *testing.T) {
	t.Parallel()
	eachSpeech(t, func(t *testing.T, p *provider) {
		begun := p.dialect.Begun(sdkproto.Text("some words"))
		if p.dialect.Messages {
			begun = strings.TrimSuffix(begun, llmtest.BlockStop(0))
		}
		p.server.Script(llmtest.Reply{Parts: []llmtest.Part{{Text: begun}, {Hang: true}}})
		p.launch("--include-partial-messages")
		p.user("go")
		p.wait("the second piece", func(l object) bool { return strings.Contains(fmt.Sprint(dig(l, "event", "delta", "text")), "words") })
		p.control("x", "interrupt", nil)
		if got := endOf(p.result(1)); got != "error_during_execution error aborted_streaming" {
			t.Errorf("the end is %s", got)
		}
		brackets(t, p.host, 0)
		if n := len(p.of("stream_event")); n != 6 {
			t.Errorf("%d events, want message_start, block start, two pieces, block stop, message_stop", n)
		}
		for _, l := range p.of("assistant") {
			if l["aborted"] != true || block(l)["text"] != "some words" {
				t.Errorf("answer %v", l)
			}
		}
		p.goesOn(2)
	})
}
