package jsonrpc_test

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"dsh/kernel"
	"dsh/kernel/mcp"
	"dsh/kernel/process"
	"dsh/plugins/jsonrpc"
)

// servers is a fixed list of MCP servers.
type servers []mcp.Server

func (s servers) List() []mcp.Server                       { return s }
func (servers) Reconnect(context.Context, string) error    { return nil }
func (servers) Enable(context.Context, string, bool) error { return nil }
func (servers) Settled(context.Context) error              { return nil }

func (servers) Attach(*kernel.Owner, string, mcp.Host) (mcp.Deliver, error) {
	return nil, errors.ErrUnsupported
}

type halfConfiner struct{}

func (halfConfiner) Start(*exec.Cmd, *process.Confinement) (process.Reached, error) {
	return process.Reached{}, errors.New("starts nothing")
}

func (halfConfiner) Probe(c *process.Confinement) process.Reached {
	return process.Reached{Level: process.ReachedPartial, Missing: c.Mode + " without a network rule"}
}

// Spec jsonrpc 3.1: an optional task that failed is a state to be shown, also
// before initialize is answered.
func TestRuntimeStatus(t *testing.T) {
	const ask = `{"id":1,"method":"runtime/status"}`
	t.Run("nothing composed", func(t *testing.T) {
		p := serve(t, setup{})
		p.send(ask)
		if got := p.next(); got != `{"jsonrpc":"2.0","id":1,"result":{"tasks":[]}}` {
			t.Errorf("got %s", got)
		}
	})
	t.Run("everything composed", func(t *testing.T) {
		p := serve(t, setup{ready: true, options: func(o *jsonrpc.Options) {
			o.Confiner = halfConfiner{}
			o.MCP = servers{
				{Name: "a", State: mcp.Connected, Transport: "stdio", Scope: "profile", Tools: []string{"mcp__a__x"}, Version: "1.2"},
				{Name: "b", State: mcp.Failed, Error: "exit status 1", Transport: "http", Scope: "user"},
			}
		}})
		release := p.ready.Hold("slow")
		defer release()
		ended := make(chan struct{})
		p.ready.Go("optional", false, func(context.Context) error { defer close(ended); return errors.New("no such host") })
		<-ended
		for len(p.ready.Pending()) > 1 {
			time.Sleep(time.Millisecond) // until its end is entered
		}
		p.ready.Hold("quick")()
		p.send(initialize, ask)
		want := `{"jsonrpc":"2.0","id":1,"result":{"tasks":[{"name":"slow","required":true,"state":"running"},` +
			`{"name":"optional","required":false,"state":"failed","error":"no such host"},{"name":"quick","required":true,"state":"done"}],` +
			`"mcp":[{"name":"a","state":"connected","transport":"stdio","scope":"profile","tools":["mcp__a__x"],"version":"1.2"},` +
			`{"name":"b","state":"failed","error":"exit status 1","transport":"http","scope":"user"}],` +
			`"sandbox":{"level":"partial","missing":"workspace-write without a network rule"}}}`
		if got := p.next(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		release()
		if got, _ := p.answer(`"i"`); got != initialized {
			t.Errorf("initialize answered %s", got)
		}
	})
}
