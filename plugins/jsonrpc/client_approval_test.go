package jsonrpc_test

import (
	"context"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/approval"
	"dsh/kernel/attachment/attachmenttest"
	"dsh/kernel/tool"
	"dsh/plugins/attachmentlocal"
	"dsh/sdkproto"
	"dsh/sdkproto/client"
)

// gateRow asks about every call, as a policy would.
var gateRow = kernel.Define("gate", "Asks about every call.", func() struct{} { return struct{}{} },
	func(in kernel.Instance, _ struct{}) fx.Option {
		return fx.Invoke(func(p *tool.Pipeline, desk *approval.Desk) error {
			return p.Use(in.Owner, tool.OrderApproval, "gate", func(ctx context.Context, t tool.Tool, i tool.Invocation, next tool.Next) (tool.Result, error) {
				to := desk.For(i.SessionID)
				if to == nil {
					return tool.ErrorResult("Denied", "DENIED", "nobody to ask"), nil
				}
				a, err := to.Approve(ctx, approval.Request{
					ID: "q-" + i.CallID, SessionID: i.SessionID, ToolName: t.Spec().Name, CallID: i.CallID, Arguments: i.Arguments, Reason: "it is asked",
				})
				if err != nil || a.Outcome != approval.AllowedOnce {
					return tool.ErrorResult("Denied", "DENIED", string(a.Outcome)+": "+a.Message), nil
				}
				return next(ctx, t, i)
			})
		})
	}, kernel.Needs[*tool.Pipeline](), kernel.Needs[*approval.Desk]())

// Spec jsonrpc 13.3, cases B20 and B21: the Go client answers for a call of a
// real turn, or does not.
func TestClientApproves(t *testing.T) {
	answer := func(outcome string) client.Approve {
		return func(_ context.Context, r sdkproto.ApprovalRequest) (sdkproto.ApprovalResult, error) {
			if r.SessionID != "s" || r.ToolName != "read" || string(r.Arguments) != "{}" || r.Reason != "it is asked" || r.CallID == "" {
				outcome = "wrong question"
			}
			return sdkproto.ApprovalResult{Outcome: outcome, Message: "so I said"}, nil
		}
	}
	for _, tc := range []struct {
		name    string
		approve client.Approve
		want    string
	}{
		{"allowed", answer(sdkproto.ApprovalAllowedOnce), "done by read"},
		{"rejected", answer(sdkproto.ApprovalRejected), "rejected: so I said"},
		{"another word", answer("yes"), `unavailable: the client's answer was not understood: outcome must be "allowed-once" or "rejected"`},
		{"nobody", nil, "nobody to ask"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := attachWith(t, t.TempDir(), client.Options{Approve: tc.approve}, "  gate: {use: gate}\n", gateRow)
			run, err := c.Session("s").Run(t.Context(), sdkproto.Text("call"))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for n, err := range run.Events() {
				if err != nil {
					t.Fatal(err)
				}
				if n.Event != nil && n.Event.Type == sdkproto.TypeToolResult {
					got = string(n.Event.Data)
				}
			}
			if want := string(quote(tc.want)); !strings.Contains(got, `"text":`+want) {
				t.Errorf("the result is %s, want %s", got, want)
			}
			if r := finished(t, run, nil); r.FinishReason != sdkproto.EndCompleted {
				t.Errorf("the turn ended with %+v", r)
			}
		})
	}
}

// A turn that is cancelled while its question is open takes it back.
func TestClientApprovalCancelled(t *testing.T) {
	asked, ended := make(chan struct{}), make(chan struct{})
	c := attachWith(t, t.TempDir(), client.Options{Approve: func(ctx context.Context, _ sdkproto.ApprovalRequest) (sdkproto.ApprovalResult, error) {
		close(asked)
		<-ctx.Done()
		close(ended)
		return sdkproto.ApprovalResult{}, ctx.Err()
	}}, "  gate: {use: gate}\n", gateRow)
	s := c.Session("s")
	run, err := s.Run(t.Context(), sdkproto.Text("call"))
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	if ok, err := s.Cancel(t.Context(), ""); !ok || err != nil {
		t.Errorf("cancelled: %v, %v", ok, err)
	}
	select {
	case <-ended:
	case <-time.After(hang):
		t.Fatal("the client still thinks")
	}
	if r := finished(t, run, nil); r.FinishReason != sdkproto.EndAborted {
		t.Errorf("the turn ended with %+v", r)
	}
}

// S132: the Go client's images, and why one was refused.
func TestClientImages(t *testing.T) {
	x := sdkproto.InitializeExtensions{ProtocolVersion: sdkproto.ProtocolVersion}
	c := attachWith(t, t.TempDir(), client.Options{Initialize: sdkproto.InitializeParams{InitializeExtensions: x}}, "  images: {use: attachment-local}\n", attachmentlocal.Plugin)
	s := c.Session("s")
	run, err := s.Run(t.Context(), sdkproto.Text("see"), sdkproto.InlineImage("a.png", "image/png", attachmenttest.PNG(t, attachmenttest.Gradient(2, 3))))
	if r := finished(t, run, err); r.FinalText != "said see" {
		t.Errorf("got %+v", r)
	}
	_, err = s.Prompt(t.Context(), sdkproto.InlineImage("", "image/png", []byte("no picture")))
	d, ok := client.Details(err)
	if diff := gocmp.Diff(sdkproto.ErrorData{Code: "INVALID_IMAGE", Field: "contentBlocks[0]"}, d); !ok || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
	if status, err := c.Status(t.Context()); err != nil || status.Tasks == nil {
		t.Errorf("status %+v, %v", status, err)
	}
}
