package jsonrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"dsh/kernel/approval"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// maxQuestions is how many questions may wait for the client at one time; what
// is asked beyond them has nobody to answer it.
const maxQuestions = 256

// orderLimit is how long a question waits for the events before it to be on
// their way.
const orderLimit = time.Second

// questions puts what policy asks to the client, by requests of the server to a
// client that has said that it answers them (spec jsonrpc 13.3). It is an
// approval.Approver.
type questions struct {
	s *Server
	// limit is how long the client may take; 0 is for ever.
	limit time.Duration

	mu   sync.Mutex
	last int64
	open map[string]chan reply // of one element each, by the id of the request
}

// reply is the client's answer as it came: the members of its frame.
type reply struct {
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

var _ approval.Approver = (*questions)(nil)

// Serves implements approval.Approver: the client answers for every session.
func (q *questions) Serves(string) bool {
	return q.s.agreement.get().approvals && q.s.work.Err() == nil && !isClosed(q.s.end.eof) && !isClosed(q.s.writer.Failed())
}

// Approve implements approval.Approver. Only the exact word of consent is one
// (case B21); a client that is gone, late or at odds with the protocol is as
// good as none (case B20).
func (q *questions) Approve(ctx context.Context, r approval.Request) (approval.Answer, error) {
	id, answer, ok := q.begin()
	if !ok {
		return unavailable("%d questions wait for the client already", maxQuestions), nil
	}
	defer q.end(id)
	asking, cancel := ctx, func() {}
	if q.limit > 0 {
		asking, cancel = within(ctx, q.limit)
	}
	defer cancel()
	asked, err := q.ask(asking, id, r)
	if err != nil {
		return approval.Answer{}, err
	}
	var late approval.Answer
	if asked {
		select {
		case a := <-answer:
			return q.read(a), nil
		case <-asking.Done():
		case <-q.s.work.Done():
			late.Outcome = approval.Cancelled
		case <-q.s.end.eof:
			late = unavailable("the client has ended its input")
		case <-q.s.writer.Failed():
			late = unavailable("the client is gone")
		}
		select {
		case a := <-answer: // at the same moment
			return q.read(a), nil
		default:
		}
		q.withdraw(r)
	}
	switch {
	case ctx.Err() != nil:
		return approval.Answer{Outcome: approval.Cancelled}, nil
	case late.Outcome != "":
		return late, nil
	case asking.Err() != nil:
		return unavailable("the client did not answer within %v", q.limit), nil
	}
	return unavailable("the client takes no questions"), nil
}

func unavailable(format string, args ...any) approval.Answer {
	return approval.Answer{Outcome: approval.Unavailable, Message: fmt.Sprintf(format, args...)}
}

// begin makes an id and a place for its answer.
func (q *questions) begin() (id string, answer chan reply, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.open) >= maxQuestions {
		return "", nil, false
	}
	q.last++
	id = "approval-" + strconv.FormatInt(q.last, 10)
	answer = make(chan reply, 1)
	q.open[id] = answer
	return id, answer, true
}

func (q *questions) end(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, id)
}

// ask sends the request behind the events that lead to it. It reports false
// when the output takes nothing in time or any more.
func (q *questions) ask(ctx context.Context, id string, r approval.Request) (bool, error) {
	frame := append([]byte(nil), `{"jsonrpc":"2.0","id":`...)
	frame = wirejson.AppendString(frame, id)
	frame = append(frame, `,"method":"`+sdkproto.MethodApprovalRequest+`","params":`...)
	frame, err := wirejson.Append(frame, sdkproto.ApprovalRequest{
		ID: r.ID, SessionID: r.SessionID, ToolName: r.ToolName, CallID: r.CallID, Arguments: r.Arguments, Reason: r.Reason,
	})
	if err != nil {
		return false, fmt.Errorf("encode the question about %s: %w", r.ToolName, err)
	}
	if a, ok := q.s.agents.Get(r.SessionID); ok {
		order, cancel := within(ctx, orderLimit)
		q.s.book.passed(order, r.SessionID, a.Log().Next()-1)
		cancel()
	}
	return q.s.writer.Frame(ctx, append(frame, '}')) == nil, nil
}

// withdraw tells the client that nobody waits for its answer any more, if it
// takes anything at this moment.
func (q *questions) withdraw(r approval.Request) {
	ctx, cancel := within(q.s.stream, shortLimit)
	defer cancel()
	frame, err := notification(sdkproto.NotifyApprovalCancelled, sdkproto.ApprovalCancelled{ID: r.ID, SessionID: r.SessionID})
	if err == nil {
		err = q.s.writer.Frame(ctx, frame)
	}
	if err != nil {
		q.s.log.Debug("a question was not taken back", "session", r.SessionID, "error", err)
	}
}

// settle hands a frame that looks like an answer to whoever waits for it. It
// runs on the reading goroutine. An id that is not ours is nobody's (spec
// jsonrpc 1.2).
func (q *questions) settle(line []byte) {
	q.mu.Lock()
	none := len(q.open) == 0
	q.mu.Unlock()
	if none {
		return
	}
	var f struct {
		ID json.RawMessage `json:"id"`
		reply
	}
	if err := wirejson.Unmarshal(toUTF8(line), &f); err != nil {
		return
	}
	id, _ := text(f.ID)
	q.mu.Lock()
	answer, ok := q.open[id]
	delete(q.open, id)
	q.mu.Unlock()
	if ok {
		answer <- f.reply
	}
}

// read understands an answer.
func (q *questions) read(a reply) approval.Answer {
	if isObject(a.Error) {
		var e sdkproto.RPCError
		if wirejson.Unmarshal(a.Error, &e) != nil || e.Message == "" {
			e.Message = "no reason given"
		}
		q.s.log.Warn("the client refused to answer approval/request", "code", e.Code, "message", clip(e.Message))
		return unavailable("the client could not answer: %s", clip(e.Message))
	}
	// Member by member: a message of another type takes nothing from the outcome.
	var members map[string]json.RawMessage
	if isObject(a.Result) {
		_ = wirejson.Unmarshal(a.Result, &members) // what is no JSON object has no members
	}
	message, _ := text(members["message"])
	switch outcome, _ := text(members["outcome"]); outcome {
	case sdkproto.ApprovalAllowedOnce:
		return approval.Answer{Outcome: approval.AllowedOnce}
	case sdkproto.ApprovalRejected:
		return approval.Answer{Outcome: approval.Rejected, Message: message}
	}
	const should = `outcome must be "` + sdkproto.ApprovalAllowedOnce + `" or "` + sdkproto.ApprovalRejected + `"`
	q.s.log.Warn("the client's answer to approval/request was not understood and counts as none", "field", "result.outcome", "should", should)
	return unavailable("the client's answer was not understood: %s", should)
}
