package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"dsh/sdkproto"
	"dsh/sdkproto/client/internal/callbacks"
	"dsh/sdkproto/wirejson"
)

// Approve decides whether a tool call may run. It is called in a goroutine of
// its own for each question, and may take its time: the server goes on with its
// other sessions. ctx ends when nobody waits for the answer any more; Approve
// should return then.
//
// Anything but the outcome sdkproto.ApprovalAllowedOnce refuses the call, and so
// does an error, whose text the model may see.
type Approve func(ctx context.Context, r sdkproto.ApprovalRequest) (sdkproto.ApprovalResult, error)

// approvals answers the server's questions, callbacks.Most of them at one time;
// the server is told that nobody can answer those beyond.
type approvals struct {
	approve Approve
	w       frames
	group   *callbacks.Group
}

// frames takes what goes to the server.
type frames interface {
	Frame(ctx context.Context, frame []byte) error
}

func newApprovals(approve Approve, w frames) *approvals {
	return &approvals{approve, w, callbacks.New()}
}

// ask adds to a handshake that the client answers questions.
func (a *approvals) ask(x *sdkproto.InitializeExtensions) {
	if a.approve == nil {
		return
	}
	var c sdkproto.ClientCapabilities
	if x.Capabilities != nil {
		c = *x.Capabilities
	}
	c.Approvals = true
	x.Capabilities = &c
}

// take begins with a request of the server; false when nobody will answer it.
func (a *approvals) take(f *frame) bool {
	var method string
	_ = wirejson.Unmarshal(f.Method, &method)
	if method != sdkproto.MethodApprovalRequest || a.approve == nil {
		return false
	}
	var r sdkproto.ApprovalRequest
	if err := wirejson.Unmarshal(f.Params, &r); err != nil {
		return false
	}
	return a.group.Go(r.ID, func(ctx context.Context) { a.run(ctx, f.ID, r) })
}

func (a *approvals) run(ctx context.Context, id json.RawMessage, r sdkproto.ApprovalRequest) {
	result, err := a.decide(ctx, r)
	if ctx.Err() != nil {
		return // nobody waits
	}
	reply := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	if err == nil {
		var encoded []byte
		if encoded, err = wirejson.Append(append(reply, `,"result":`...), result); err == nil {
			reply = encoded
		}
	}
	if err != nil {
		reply = append(reply, `,"error":{"code":`...)
		reply = wirejson.AppendInt(reply, sdkproto.CodeInternal)
		reply = append(reply, `,"message":`...)
		reply = append(wirejson.AppendString(reply, err.Error()), '}')
	}
	// A server that takes nothing any more shows in everything else.
	_ = a.w.Frame(ctx, append(reply, '}'))
}

// decide contains a panic of Approve: it refuses.
func (a *approvals) decide(ctx context.Context, r sdkproto.ApprovalRequest) (result sdkproto.ApprovalResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the client's Approve panicked: %v", p)
		}
	}()
	return a.approve(ctx, r)
}

// withdraw ends what is busy with a question.
func (a *approvals) withdraw(params json.RawMessage) {
	var c sdkproto.ApprovalCancelled
	if wirejson.Unmarshal(params, &c) != nil {
		return
	}
	a.group.Withdraw(c.ID)
}

// stop ends all questions with a cause; no more are taken.
func (a *approvals) stop(cause error) { a.group.Stop(cause) }

// wait returns when no Approve runs, or says that one still does.
func (a *approvals) wait(limit time.Duration) error {
	if a.group.Wait(limit) {
		return nil
	}
	return errors.New("an Approve goes on although its context has ended; one goroutine is left with it")
}
