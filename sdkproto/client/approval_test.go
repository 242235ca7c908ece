package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto"
	"dsh/sdkproto/client"
)

func question(id, question, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"approval/request","params":{"id":%q,"sessionId":"S","toolName":%q,"callId":"c","arguments":{"command":"make"},"reason":"it writes"}}`, id, question, tool)
}

// approver is a client with an Approve, and what it sends that is no request.
func approver(t *testing.T, approve client.Approve, ask ...string) (*client.Client, <-chan request, *wire) {
	t.Helper()
	answers := make(chan request, 16)
	w := newWire(func(p *peer) {
		p.serve(func(r request) bool {
			switch r.Method {
			case sdkproto.MethodPing:
				p.send(ask...)
				p.answer(r, `{"time":1}`)
			case "withdraw":
				p.send(`{"jsonrpc":"2.0","method":"approval/cancelled","params":{"id":"q1","sessionId":"S"}}`)
				p.answer(r, `{}`)
			default:
				answers <- r
			}
			return true
		})
	})
	c, err := client.AttachWith(t.Context(), w.Reader, w.WriteCloser, client.Options{
		Initialize: sdkproto.InitializeParams{CWD: "/w", Provider: "p", Model: "m"}, Approve: approve,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(deadline(t)); err != nil {
			t.Errorf("close: %v", err)
		}
		<-w.done
	})
	if _, err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c, answers, w
}

func next(t *testing.T, answers <-chan request) string {
	t.Helper()
	select {
	case r := <-answers:
		return r.raw
	case <-time.After(30 * time.Second):
		t.Fatal("no answer")
		return ""
	}
}

// Spec jsonrpc 13.3: what Approve says is the answer, under the server's id.
func TestApprove(t *testing.T) {
	var asked sdkproto.ApprovalRequest
	for _, tc := range []struct {
		name    string
		id      string
		approve client.Approve
		want    string
	}{
		{"allowed", `"approval-1"`, func(_ context.Context, r sdkproto.ApprovalRequest) (sdkproto.ApprovalResult, error) {
			asked = r
			return sdkproto.ApprovalResult{Outcome: sdkproto.ApprovalAllowedOnce}, nil
		}, `{"jsonrpc":"2.0","id":"approval-1","result":{"outcome":"allowed-once"}}`},
		{"rejected", `7`, func(context.Context, sdkproto.ApprovalRequest) (sdkproto.ApprovalResult, error) {
			return sdkproto.ApprovalResult{Outcome: sdkproto.ApprovalRejected, Message: `not "now"`}, nil
		}, `{"jsonrpc":"2.0","id":7,"result":{"outcome":"rejected","message":"not \"now\""}}`},
		{"error", `"a"`, func(context.Context, sdkproto.ApprovalRequest) (sdkproto.ApprovalResult, error) {
			return sdkproto.ApprovalResult{Outcome: sdkproto.ApprovalAllowedOnce}, errors.New("nobody at the desk")
		}, `{"jsonrpc":"2.0","id":"a","error":{"code":-32603,"message":"nobody at the desk"}}`},
		{"panic", `"a"`, func(context.Context, sdkproto.ApprovalRequest) (sdkproto.ApprovalResult, error) {
			panic("oh")
		}, `{"jsonrpc":"2.0","id":"a","error":{"code":-32603,"message":"the client's Approve panicked: oh"}}`},
		{"nobody", `"a"`, nil, `{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"this client does not answer this request"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, answers, _ := approver(t, tc.approve, question(tc.id, "q1", "bash"))
			if got := next(t, answers); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
	want := sdkproto.ApprovalRequest{ID: "q1", SessionID: "S", ToolName: "bash", CallID: "c", Arguments: json.RawMessage(`{"command":"make"}`), Reason: "it writes"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
}

// A question that is taken back ends its context, is answered no more and holds
// up no other; other requests are refused.
func TestApproveWithdrawn(t *testing.T) {
	ended := make(chan error, 1)
	c, answers, _ := approver(t, func(ctx context.Context, r sdkproto.ApprovalRequest) (sdkproto.ApprovalResult, error) {
		if r.ID == "q1" {
			<-ctx.Done()
			ended <- context.Cause(ctx)
		}
		return sdkproto.ApprovalResult{Outcome: sdkproto.ApprovalAllowedOnce}, nil
	}, question("1", "q1", "bash"), question("2", "q2", "bash"), `{"jsonrpc":"2.0","id":3,"method":"other/request"}`)
	got := map[string]bool{next(t, answers): true, next(t, answers): true}
	for _, want := range []string{
		`{"jsonrpc":"2.0","id":2,"result":{"outcome":"allowed-once"}}`,
		`{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"this client does not answer this request"}}`,
	} {
		if !got[want] {
			t.Errorf("%s is not among %v", want, got)
		}
	}
	if err := c.Call(t.Context(), "withdraw", nil, nil); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "taken the question back") {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the context goes on")
	}
	if err := c.Call(t.Context(), "withdraw", nil, nil); err != nil { // what came before it was read
		t.Fatal(err)
	}
	select {
	case r := <-answers:
		t.Errorf("answered: %s", r.raw)
	default:
	}
}

// Close ends what Approve is busy with; one that goes on is named.
func TestApproveAtClose(t *testing.T) {
	t.Run("ends", func(t *testing.T) {
		busy, ended := make(chan struct{}), make(chan error, 1)
		c, _, _ := approver(t, func(ctx context.Context, _ sdkproto.ApprovalRequest) (sdkproto.ApprovalResult, error) {
			close(busy)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return sdkproto.ApprovalResult{}, ctx.Err()
		}, question("1", "q1", "bash"))
		<-busy
		if err := c.Close(deadline(t)); err != nil {
			t.Error(err)
		}
		select {
		case err := <-ended:
			if !errors.Is(err, client.ErrClosed) {
				t.Errorf("ended with %v", err)
			}
		default:
			t.Error("Close did not wait for it")
		}
	})
	t.Run("goes on", func(t *testing.T) {
		release := make(chan struct{})
		w := newWire(func(p *peer) {
			p.serve(func(r request) bool { p.send(question("1", "q1", "bash")); p.answer(r, `{"time":1}`); return true })
		})
		busy := make(chan struct{})
		c, err := client.AttachWith(t.Context(), w.Reader, w.WriteCloser, client.Options{
			Initialize: sdkproto.InitializeParams{CWD: "/w", Provider: "p", Model: "m"},
			Approve: func(context.Context, sdkproto.ApprovalRequest) (sdkproto.ApprovalResult, error) {
				close(busy)
				<-release
				return sdkproto.ApprovalResult{}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-busy
		if err := c.Close(deadline(t)); err == nil || !strings.Contains(err.Error(), "Approve goes on") {
			t.Errorf("close: %v", err)
		}
		close(release)
		<-w.done
	})
}

// The handshake asks for questions only with an Approve, and keeps what else it
// asks for.
func TestApproveIsAskedFor(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    client.Options
		want string
	}{
		{"without", client.Options{}, `{"cwd":"/w","provider":"p","model":"m"}`},
		{"with", client.Options{Approve: func(context.Context, sdkproto.ApprovalRequest) (sdkproto.ApprovalResult, error) {
			return sdkproto.ApprovalResult{}, nil
		}}, `{"cwd":"/w","provider":"p","model":"m","capabilities":{"notifications":["session.usage"],"approvals":true}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got string
			w := newWire(func(p *peer) {
				r, _ := p.next()
				got = string(r.Params)
				p.answer(r, serverInfo)
				p.serve(func(request) bool { return true })
			})
			tc.o.Initialize = sdkproto.InitializeParams{CWD: "/w", Provider: "p", Model: "m"}
			var caps *sdkproto.ClientCapabilities
			if tc.o.Approve != nil {
				caps = &sdkproto.ClientCapabilities{Notifications: []string{sdkproto.NotifyUsage}}
				tc.o.Initialize.Capabilities = caps
			}
			c, err := client.AttachWith(t.Context(), w.Reader, w.WriteCloser, tc.o)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Close(deadline(t)); err != nil {
				t.Error(err)
			}
			<-w.done
			if got != tc.want {
				t.Errorf("sent %s, want %s", got, tc.want)
			}
			if caps != nil && caps.Approvals {
				t.Error("the caller's own capabilities are changed")
			}
		})
	}
}

// Status and images as they are on the wire.
func TestStatusAndImages(t *testing.T) {
	var sent string
	c := attach(t, client.Limits{}, func(p *peer, r request) bool {
		switch r.Method {
		case sdkproto.MethodRuntimeStatus:
			p.answer(r, `{"tasks":[{"name":"mcp","required":false,"state":"failed","error":"no such host"}],"mcp":[{"name":"a","state":"pending","transport":"stdio","scope":"user"}],"sandbox":{"level":"full"},"more":1}`)
		case sdkproto.MethodSessionPrompt:
			sent = string(r.Params)
			p.answer(r, `{"messageId":"M"}`)
		}
		return true
	})
	got, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := sdkproto.RuntimeStatus{
		Tasks:   []sdkproto.TaskStatus{{Name: "mcp", State: sdkproto.TaskFailed, Error: "no such host"}},
		MCP:     []sdkproto.MCPStatus{{Name: "a", State: "pending", Transport: "stdio", Scope: "user"}},
		Sandbox: &sdkproto.SandboxStatus{Level: "full"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := c.Session("S").Prompt(t.Context(), sdkproto.Text("see"), sdkproto.InlineImage("a.png", "image/png", []byte("\x89PNG")), sdkproto.InlineImage("", "image/gif", []byte("GIF"))); err != nil {
		t.Fatal(err)
	}
	if want := `{"sessionId":"S","contentBlocks":[{"type":"text","text":"see"},{"type":"image","data":"iVBORw==","mimeType":"image/png","name":"a.png"},{"type":"image","data":"R0lG","mimeType":"image/gif"}]}`; sent != want {
		t.Errorf("sent %s", sent)
	}
}
