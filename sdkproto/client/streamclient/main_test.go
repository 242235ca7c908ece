package streamclient_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// programVariable makes the test binary a program with the wire; its value says
// which. What the real one does is tested in cmd/dcl: these do what that never
// should.
const programVariable = "DSH_STREAMCLIENT_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if role := os.Getenv(programVariable); role != "" {
		os.Exit(serve(role))
	}
	goleak.VerifyTestMain(m)
}

// line is one of the host.
type line struct {
	Type      string `json:"type"`
	UUID      string `json:"uuid"`
	RequestID string `json:"request_id"`
	Request   struct {
		Subtype string `json:"subtype"`
		Count   int    `json:"count"`
	} `json:"request"`
	Response json.RawMessage `json:"response"`
	Message  struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"message"`
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// result is the line that ends a turn; more are members of it.
func result(text, more string) {
	say(`{"type":"result","subtype":"success","is_error":false,"duration_ms":1,"duration_api_ms":1,"num_turns":1,"result":%q,"stop_reason":"end_turn","session_id":"S","uuid":"R","total_cost_usd":0,"usage":{},"modelUsage":{},"permission_denials":[]%s}`, text, more)
}

// serve is the program's process.
func serve(role string) (code int) {
	if role == "ignores everything" {
		signal.Ignore(terminateSignal)
	}
	in := bufio.NewReader(os.Stdin)
	for {
		raw, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var l line
		if err := json.Unmarshal(raw, &l); err != nil {
			panic(err)
		}
		switch {
		case l.Type == "control_request" && l.Request.Subtype == "initialize":
			say(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":{"pid":%d,"unheard":{"of":1}}}}`, l.RequestID, os.Getpid())
		case l.Type == "control_request" && l.Request.Subtype == "ask many":
			for i := range l.Request.Count {
				say(`{"type":"control_request","request_id":"q%d","request":{"subtype":"can_use_tool","tool_name":"T","tool_use_id":"t%d","input":{}}}`, i, i)
			}
		case l.Type == "control_request" && l.Request.Subtype == "shapeless":
			say(`{"type":"control_response","response":{"subtype":"perhaps","request_id":%q}}`, l.RequestID)
		case l.Type == "control_request" && l.Request.Subtype == "misfit":
			say(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":7}}`, l.RequestID)
		case l.Type == "control_cancel_request":
			say(`{"type":"system","subtype":"cancelled","id":%q}`, l.RequestID)
		case l.Type == "control_response":
			say(`{"type":"system","subtype":"answered","answer":%s}`, l.Response)
		case l.Type == "user":
			turn(role, l.UUID, l.Message.Content[0].Text)
		}
	}
	if strings.HasPrefix(role, "ignores") {
		time.Sleep(time.Minute)
	}
	return 0
}

func turn(role, uuid, text string) {
	if role == "old" {
		say(`{"type":"assistant","session_id":"S","uuid":"A","parent_tool_use_id":null,"message":{"id":"m","type":"message","role":"assistant","model":"x","content":[{"type":"text","text":"hm"}],"usage":{}}}`)
		result("late", `,"origin":{"kind":"task-notification"}`)
		result("you said "+text, "")
		return
	}
	say(`{"type":"user","uuid":%q,"session_id":"S","isReplay":true,"parent_tool_use_id":null,"message":{"role":"user","content":%q}}`, uuid, text)
	switch text {
	case "hold":
		return
	case "die":
		fmt.Fprintln(os.Stderr, "dying")
		os.Exit(7)
	case "close":
		os.Stdout.Close()
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "strange":
		for _, raw := range []string{
			"no json", "[1]", `{"type":7}`, `{"type":""}`, `{}`, "", `{"type":"keep_alive"}`,
			`{"type":"control_response","response":{"subtype":"success","request_id":"req_99","response":{}}}`,
			`{"type":"control_response"}`, `{"type":"control_request","request":{"subtype":"can_use_tool"}}`,
			`{"type":"control_cancel_request","request_id":"none"}`,
			`{"type":"news","subtype":5,"uuid":[],"extra":{"a":1}}`,
			`{"type":"assistant","message":{"content":"no list"}}`,
			`{"type":"control_request","request_id":"z","request":{"subtype":"request_user_dialog"}}`,
		} {
			say("%s", raw)
		}
	case "flood":
		for i := range 1000 {
			say(`{"type":"news","n":%d,"filler":%q}`, i, strings.Repeat("x", 1000))
		}
	case "long":
		say(`{"type":"news","filler":%q}`, strings.Repeat("x", 1<<20))
	case "bad result":
		say(`{"type":"result","num_turns":"many","user_message_uuid":%q}`, uuid)
		return
	}
	result("you said "+text, `,"user_message_uuid":"`+uuid+`"`)
}
