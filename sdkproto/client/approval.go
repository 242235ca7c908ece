package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"dsh/sdkproto"
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

// maxApprovals is how many questions are put to Approve at one time; the server
// is told that nobody can answer those beyond.
const maxApprovals = 256

// approvals answers the server's questions.
type approvals struct {
	approve Approve
	w       frames
	life    context.Context
	end     context.CancelCauseFunc

	mu      sync.Mutex
	running map[*question]bool
	ended   bool
	// done is closed when ended is set and nothing runs.
	done chan struct{}
}

// frames takes what goes to the server.
type frames interface {
	Frame(ctx context.Context, frame []byte) error
}

// question is one that Approve is busy with.
type question struct {
	// id is the question's own, which the server takes it back by.
	id     string
	cancel context.CancelCauseFunc
}

// errWithdrawn is the cause when the server does not wait any longer.
var errWithdrawn = errors.New("the server has taken the question back")

func newApprovals(approve Approve, w frames) *approvals {
	a := &approvals{approve: approve, w: w, running: map[*question]bool{}, done: make(chan struct{})}
	a.life, a.end = context.WithCancelCause(context.Background())
	return a
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
	ctx, cancel := context.WithCancelCause(a.life)
	q := &question{r.ID, cancel}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || len(a.running) >= maxApprovals {
		cancel(nil)
		return false
	}
	a.running[q] = true
	go a.run(ctx, q, f.ID, r)
	return true
}

func (a *approvals) run(ctx context.Context, q *question, id json.RawMessage, r sdkproto.ApprovalRequest) {
	defer func() {
		q.cancel(nil)
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.running, q)
		if a.ended && len(a.running) == 0 {
			close(a.done)
		}
	}()
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
	a.mu.Lock()
	defer a.mu.Unlock()
	for q := range a.running {
		if q.id == c.ID {
			q.cancel(errWithdrawn)
		}
	}
}

// stop ends all questions with a cause; no more are taken.
func (a *approvals) stop(cause error) {
	a.end(cause)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	a.ended = true
	if len(a.running) == 0 {
		close(a.done)
	}
}

// wait returns when no Approve runs, or says that one still does.
func (a *approvals) wait(limit time.Duration) error {
	if wait(context.Background(), a.done, limit) {
		return nil
	}
	return errors.New("an Approve goes on although its context has ended; one goroutine is left with it")
}
