package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/approval"
	"dsh/kernel/kerneltest"
	contract "dsh/kernel/mcp"
	"dsh/kernel/tool"
	"dsh/plugins/core"
	"dsh/plugins/mcp"
	"dsh/plugins/streamjson/host"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// composed is what the test takes from the kernel.
type composed struct {
	fx.In

	Tools   *tool.Registry
	Servers contract.Servers
	Desk    *approval.Desk
}

// carried is a message to a hosted server, with the id of the line it came in.
type carried struct {
	line   string
	ID     *int64          `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
}

// message reads the next line, which has to be an mcp_message with a method.
func (c *client) message(method string) carried {
	c.t.Helper()
	r := c.next()
	var m struct {
		Subtype string  `json:"subtype"`
		Server  string  `json:"server_name"`
		Message carried `json:"message"`
	}
	if err := wirejson.Unmarshal(r.Request, &m); err != nil || m.Subtype != "mcp_message" || m.Server != "my app" || m.Message.Method != method {
		c.t.Fatalf("want %q: %s", method, r.line)
	}
	m.Message.line = r.ID
	return m.Message
}

func (c *client) reply(m carried, result string) {
	c.t.Helper()
	c.answer(m.line, fmt.Sprintf(`{"mcp_response":{"jsonrpc":"2.0","id":%d,"result":%s}}`, *m.ID, result))
}

func (c *client) acknowledge(m carried) {
	c.t.Helper()
	c.answer(m.line, `{"mcp_response":{"jsonrpc":"2.0","result":{}}}`)
}

// TestServerOverTheWire: handshake, calls, a question to the user, an interrupt and
// the end of a server that the client hosts, line by line (spec stream-json 8,
// checklist 71, 73, 74, 75, 80; S033, S068, S069, S070).
func TestServerOverTheWire(t *testing.T) {
	var seen composed
	probe := kernel.Define("probe", "Shows the test what is composed.", func() struct{} { return struct{}{} },
		func(kernel.Instance, struct{}) fx.Option { return fx.Invoke(func(c composed) { seen = c }) },
		kernel.Needs[*tool.Registry](), kernel.Needs[contract.Servers](), kernel.Needs[*approval.Desk]())
	const profile = "summary: Test.\nplugins:\n  core: {use: core}\n  mcp: {use: mcp, config: {wait: false}}\n  probe: {use: probe}\n"
	kerneltest.Boot(t, kerneltest.Options{Text: profile, Plugins: []kernel.Plugin{core.Plugin, mcp.Plugin, probe}})
	c := connect(t)
	front := kernel.NewOwner(context.Background(), "front")
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := front.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	if err := seen.Desk.Register(front, "client", host.Approver(c.Host, host.Asking{Servers: seen.Servers})); err != nil {
		t.Fatal(err)
	}
	deliver, err := seen.Servers.Attach(front, "my app", host.Server(c.Host, "my app"))
	if err != nil {
		t.Fatal(err)
	}

	c.reply(c.message("initialize"), `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"app","version":"1.0.0"}}`)
	c.acknowledge(c.message("notifications/initialized"))
	c.reply(c.message("tools/list"), `{"tools":[{"name":"server_time","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := seen.Servers.Settled(ctx); err != nil {
		t.Fatal(err)
	}
	const name = "mcp__my_app__server_time"
	if st := seen.Servers.List()[0]; st.State != contract.Connected || st.Transport != "sdk" || !cmp.Equal([]string{name}, st.Tools) {
		t.Fatalf("server %+v", st)
	}

	view, pipe := seen.Tools.View(nil), tool.NewPipeline()
	call := func(ctx context.Context, id string) <-chan tool.Result {
		done := make(chan tool.Result, 1)
		go func() {
			done <- pipe.Call(ctx, view, name, `{}`, tool.Invocation{Generation: kernel.Now, SessionID: "s", CallID: id})
		}()
		return done
	}
	turn, interrupt := context.WithCancel(ctx)
	first := call(turn, "toolu_1")
	one := c.message("tools/call")
	second := call(turn, "toolu_2")
	two := c.message("tools/call")
	if *one.ID == *two.ID || !strings.Contains(string(one.Params), `"claudecode/toolUseId":"toolu_1"`) || !strings.Contains(string(one.Params), `"name":"server_time"`) {
		t.Errorf("calls %s and %s", one.Params, two.Params)
	}
	c.reply(two, `{"content":[{"type":"text","text":"noon"}]}`)
	if res := wait(t, second); res.IsError || sdkproto.TextOf(res.Content) != "noon" {
		t.Errorf("got %+v", res)
	}

	// The server asks the user in the middle of the first call.
	if err := deliver(json.RawMessage(`{"jsonrpc":"2.0","id":77,"method":"elicitation/create","params":{"message":"Which zone?","requestedSchema":{"type":"object","properties":{"zone":{"type":"string"}}}}}`)); err != nil {
		t.Fatal(err)
	}
	r := c.next()
	if !strings.Contains(string(r.Request), `"subtype":"elicitation","mcp_server_name":"my app","message":"Which zone?","mode":"form"`) {
		t.Fatalf("unexpected line %s", r.line)
	}
	c.refuse(r.ID, "Unsupported control request subtype: elicitation")
	answer := c.message("")
	if string(answer.Result) != `{"action":"cancel"}` {
		t.Errorf("the server is answered %s", answer.Result)
	}
	c.acknowledge(answer)

	// The turn is interrupted: the line is there when the call has ended.
	interrupt()
	res := wait(t, first)
	if !res.IsError {
		t.Errorf("got %+v", res)
	}
	if r := c.next(); r.Type != "control_cancel_request" || r.ID != one.line {
		t.Errorf("unexpected line %s", r.line)
	}
	told := c.message("notifications/cancelled")
	if !strings.Contains(string(told.Params), fmt.Sprintf(`"requestId":%d`, *one.ID)) {
		t.Errorf("cancelled %s", told.Params)
	}
	c.acknowledge(told)
	c.reply(one, `{"content":[{"type":"text","text":"too late"}]}`)

	// The client ends in the middle of the next one.
	third := call(ctx, "toolu_3")
	c.message("tools/call")
	c.hangUp()
	if res := wait(t, third); !res.IsError || !strings.Contains(sdkproto.TextOf(res.Content), "Stream closed") {
		t.Errorf("got %+v", res)
	}
	for deadline := time.Now().Add(limit); seen.Servers.List()[0].State != contract.Failed; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("server %+v", seen.Servers.List()[0])
		}
	}
	if res := wait(t, call(ctx, "toolu_4")); !res.IsError || !strings.Contains(sdkproto.TextOf(res.Content), "Stream closed") {
		t.Errorf("got %+v", res)
	}
	c.quiet()
}
