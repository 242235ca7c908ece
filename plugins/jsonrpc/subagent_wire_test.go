package jsonrpc_test

import (
	"context"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"dsh/kernel/agent"
	"dsh/kernel/session"
	"dsh/plugins/jsonrpc"
	"dsh/sdkproto"
)

// Spec jsonrpc 2.7, 4.4, 8.1; S106, S110: each end of a local run is told, at its
// place among the child's events; what ran elsewhere is silent.
func TestSubagentFinished(t *testing.T) {
	p := serve(t, setup{options: func(o *jsonrpc.Options) { o.MaxTokensAsSuccess = true }})
	p.begin()
	opened, err := p.agents.Open(context.Background(), agent.Spec{ID: "child", Parent: "root", Depth: 1}, agent.OpenNew)
	if err != nil {
		t.Fatal(err)
	}
	child := opened.(*fakeAgent)
	said := []sdkproto.Block{{Type: sdkproto.BlockReasoning, Text: "hm"}, sdkproto.Text("done")}
	child.append("test/first", struct{}{})
	child.log.Settle(session.Settled{Provider: "acp", Parent: "root", AgentID: "child", StopReason: sdkproto.StopCompleted, Last: said})
	child.log.Settle(session.Settled{Provider: "spawn", Parent: "root", AgentID: "child", StopReason: sdkproto.StopCompleted, Last: said, Local: true})
	child.append("test/between", struct{}{})
	child.log.Settle(session.Settled{Provider: "spawn", Parent: "root", AgentID: "child", StopReason: sdkproto.StopMaxTokens, Local: true})
	child.log.Settle(session.Settled{Provider: "spawn", Parent: "root", StopReason: sdkproto.StopError, Local: true})
	child.append("test/last", struct{}{})
	const event = `{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"child","event":`
	const finished = `{"jsonrpc":"2.0","method":"subagent.finished","params":{"provider":"spawn","agentId":"child","parentSessionId":"root","childSessionId":"child",`
	want := []string{
		`{"jsonrpc":"2.0","method":"subagent.started","params":{"parentSessionId":"root","childSessionId":"child"}}`,
		event + `{"type":"test/first","seq":0,"time":1,"data":{}}}}`,
		finished + `"status":"ok","stopReason":"completed","lastAssistantMessage":[{"type":"reasoning","text":"hm"},{"type":"text","text":"done"}]}}`,
		event + `{"type":"test/between","seq":1,"time":1,"data":{}}}}`,
		finished + `"status":"ok","stopReason":"max-tokens"}}`,
		finished + `"status":"error","stopReason":"error"}}`,
		event + `{"type":"test/last","seq":2,"time":1,"data":{}}}}`,
	}
	if diff := gocmp.Diff(want, p.until("test/last")); diff != "" {
		t.Error(diff)
	}
	p.send(shutdown)
	if _, before := p.answer(`"stop"`); len(before) > 0 {
		t.Errorf("before the answer: %s", strings.Join(before, "\n"))
	}
}
