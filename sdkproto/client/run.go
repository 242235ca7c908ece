package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"

	"dsh/sdkproto"
	"dsh/sdkproto/client/internal/queue"
	"dsh/sdkproto/wirejson"
)

// Run is one prompt and what it set off. See Session.Run.
type Run struct {
	client  *Client
	session string
	// tree: the run lasts until the whole tree is idle.
	tree  bool
	queue *queue.Queue[Notification]
	// done is closed when the outcome stands; result and err are set before.
	done chan struct{}

	mu sync.Mutex
	// stop releases ctx. It is set before anything can finish the run.
	stop func() bool
	// held is what came before the answer to the prompt, which alone tells
	// where the interval begins.
	held      []item
	heldBytes int
	// broken is why held is not complete, or nothing comes after it.
	broken error
	owned  bool // the receipt was seen
	rested bool // the session was idle since
	over   bool
	// malformed is the first event that the outcome needs and that cannot be
	// read.
	malformed error
	result    Result
	err       error
}

// Result is the outcome of a Run.
type Result struct {
	// MessageID is the id of the prompt.
	MessageID string
	// FinalText is the text of the last assistant/message of the session,
	// without reasoning and calls; "" if that message has no text, or there is
	// none (spec jsonrpc 5.2).
	FinalText string
	// FinishReason is the kind with which the last turn ended, one of the
	// sdkproto.End constants or a newer one; "" if no turn ended.
	FinishReason string
	// Failure says what went wrong when FinishReason is sdkproto.EndError, and is
	// nil otherwise. A failed turn is an outcome, not an error of Result.
	Failure *sdkproto.Failure
	// Usage is the sum over the model requests of the session, TreeUsage that
	// with its subagents.
	Usage, TreeUsage sdkproto.Usage
	// Prompt is what became of this one message, which other messages of the same
	// interval do not touch. It is nil unless Initialize asks for
	// session.prompt.finished.
	Prompt *sdkproto.PromptFinished
}

func newRun(s *Session, tree bool) *Run {
	return &Run{
		client:  s.client,
		session: s.id,
		tree:    tree,
		queue:   queue.New[Notification](s.client.limits.Queue),
		done:    make(chan struct{}),
	}
}

// MessageID is the id that the server gave to the prompt.
func (r *Run) MessageID() string { return r.result.MessageID }

// Events is what the server sends about the session and the subagents under it,
// as it comes, from the receipt of the message to the idle of the session, or
// that of the tree if RunOptions.Tree is set, both included. Without an error the sequence ends there. With one it ends early:
// the error is the one of Result, after everything that came before it (the end
// of ctx alone cuts that off), or wraps ErrMissed when more than Limits.Queue
// stayed unread, or Result was called before Events. Session.Events gives
// afterwards what was missed of the session.
//
// Breaking off loses nothing: a later range goes on where the last one stopped.
// The sequence is for one range at a time.
func (r *Run) Events() iter.Seq2[Notification, error] { return r.queue.All(context.Background()) }

// Result waits for the outcome, which is found whether the events are read or
// not; may be called again, and from many goroutines. When no one has called
// Events, it drops them, since they take memory.
//
// The end of ctx ends this call only. Any other error means that the outcome is
// not known and is final: it wraps ErrLost (often an *ExitError), ErrClosed,
// ErrSilent, the error of the ctx that Run was given, ErrMissed when more than
// Limits.Queue came before the answer to the prompt, or ErrProtocol for an
// answer or an end of turn that cannot be read. The Result then holds what was
// found until then.
func (r *Run) Result(ctx context.Context) (Result, error) {
	r.queue.Unwatched(fmt.Errorf("%w: Result was called before Events", ErrMissed))
	select {
	case <-r.done:
	case <-ctx.Done():
		select {
		case <-r.done:
		default:
			return Result{MessageID: r.result.MessageID}, fmt.Errorf("result of message %s in session %s: %w", r.result.MessageID, r.session, ctx.Err())
		}
	}
	return r.result, r.err
}

// stopWith makes the run end with ctx.
func (r *Run) stopWith(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop = context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.over {
			r.finish(r.explain(ctx.Err()))
			r.queue.Drop(r.err)
		}
	})
}

// abandon ends a run that nobody will get.
func (r *Run) abandon(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finish(err)
}

// accepted says which message the run is about.
func (r *Run) accepted(messageID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.MessageID = messageID
	for _, i := range r.held {
		r.take(i)
	}
	r.held = nil
	if r.broken != nil {
		r.finish(r.explain(r.broken))
	}
}

// wants is true for the session and its descendants.
func (r *Run) wants(n *Notification, l lineage) bool {
	switch {
	case n.Started != nil:
		return l.within(r.session, n.Started.ParentSessionID)
	case n.Finished != nil:
		return l.within(r.session, n.Finished.ParentSessionID) || l.within(r.session, n.Finished.ChildSessionID)
	}
	return n.SessionID != "" && l.within(r.session, n.SessionID)
}

func (r *Run) offer(i item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.result.MessageID != "" {
		r.take(i)
		return
	}
	if r.over || r.broken != nil {
		return
	}
	cost := i.size + queue.ItemBytes
	if r.heldBytes > 0 && r.heldBytes+cost > r.client.limits.Queue {
		r.broken = fmt.Errorf("%w: %d bytes came before the answer to the prompt", ErrMissed, r.heldBytes)
		return
	}
	r.held = append(r.held, i)
	r.heldBytes += cost
}

func (r *Run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.result.MessageID != "" {
		r.finish(r.explain(err))
	} else if r.broken == nil {
		// The answer to the prompt may be on its way to Run, and all of the
		// interval in held.
		r.broken = err
	}
}

// The methods below are called with mu held.

func (r *Run) explain(err error) error {
	return fmt.Errorf("run in session %s: %w", r.session, err)
}

// finish sets the outcome. Only the first counts.
func (r *Run) finish(err error) {
	if r.over {
		return
	}
	r.over, r.err = true, err
	r.held = nil
	r.stop()
	r.queue.End(err)
	r.client.leave(r)
	close(r.done)
}

// take goes one notification on.
func (r *Run) take(i item) {
	if r.over {
		return
	}
	n := &i.note
	own := n.SessionID == r.session
	if !r.owned {
		if !own || n.Event == nil || !isReceipt(n.Event, r.result.MessageID) {
			return
		}
		r.owned = true
	}
	r.queue.Put(i.note, i.size)
	switch {
	case n.Event != nil:
		r.fold(n.Event, own)
	case own && n.Prompt != nil && n.Prompt.MessageID == r.result.MessageID:
		r.result.Prompt = n.Prompt
	case own && n.Method == sdkproto.NotifySessionStatus && n.Status == sdkproto.StatusIdle:
		r.rested = true
		if !r.tree {
			r.finish(r.malformed)
		}
	case own && r.tree && r.rested && n.Tree != nil && n.Tree.Status == sdkproto.StatusIdle:
		// One before the session itself was idle is that of older work.
		r.finish(r.malformed)
	}
}

// isReceipt reports whether the event says that the message is in the inbox.
func isReceipt(e *sdkproto.Event, messageID string) bool {
	if e.Type != sdkproto.TypeAgentInboxSpliced {
		return false
	}
	// Only what is needed: a message of a newer shape must not hide the id.
	var p struct {
		Inserted []struct {
			ID string `json:"id"`
		} `json:"inserted"`
	}
	if err := wirejson.Unmarshal(e.Data, &p); err != nil {
		return false
	}
	for _, m := range p.Inserted {
		if m.ID == messageID {
			return true
		}
	}
	return false
}

// fold takes from an event what the result needs.
func (r *Run) fold(e *sdkproto.Event, own bool) {
	switch e.Type {
	case sdkproto.TypeAssistantMessage:
		text, usage, err := readAnswer(e.Data)
		r.result.TreeUsage.Add(&usage)
		if !own {
			return
		}
		r.result.Usage.Add(&usage)
		if err != nil {
			r.misread(e, err)
			return
		}
		r.result.FinalText = text
	case sdkproto.TypeTurnEnd:
		if !own {
			return
		}
		reason, failure, err := readEnd(e.Data)
		if err != nil {
			r.misread(e, err)
			return
		}
		r.result.FinishReason, r.result.Failure = reason, failure
	}
}

func (r *Run) misread(e *sdkproto.Event, err error) {
	if r.malformed == nil {
		r.malformed = r.explain(fmt.Errorf("%w: event %d, %s: %w", ErrProtocol, e.Seq, e.Type, err))
	}
}

// readAnswer takes text and usage from the payload of an assistant/message. It
// looks at nothing else, so that a newer shape of the rest does no harm.
func readAnswer(data json.RawMessage) (text string, usage sdkproto.Usage, err error) {
	var p struct {
		Message struct {
			Content []struct {
				Type string          `json:"type"`
				Text json.RawMessage `json:"text"`
			} `json:"content"`
		} `json:"message"`
		Usage json.RawMessage `json:"usage"`
	}
	if err := wirejson.Unmarshal(data, &p); err != nil {
		return "", usage, err
	}
	if len(p.Usage) > 0 {
		// Usage informs; one that cannot be read counts as none.
		_ = wirejson.Unmarshal(p.Usage, &usage)
	}
	if p.Message.Content == nil {
		return "", usage, errors.New("it has no message.content")
	}
	for i, b := range p.Message.Content {
		switch b.Type {
		case "":
			return "", usage, fmt.Errorf("block %d has no type", i)
		case sdkproto.BlockText:
			var s string
			if err := wirejson.Unmarshal(b.Text, &s); err != nil {
				return "", usage, fmt.Errorf("block %d has no text: %w", i, err)
			}
			text += s
		}
	}
	return text, usage, nil
}

// readEnd takes the reason and, for an error, the failure from the payload of a
// turn/end. The set of reasons is open (spec jsonrpc 5.4).
func readEnd(data json.RawMessage) (kind string, failure *sdkproto.Failure, err error) {
	var p struct {
		Reason struct {
			Kind  string          `json:"kind"`
			Error json.RawMessage `json:"error"`
		} `json:"reason"`
	}
	if err := wirejson.Unmarshal(data, &p); err != nil {
		return "", nil, err
	}
	if p.Reason.Kind == "" {
		return "", nil, errors.New("it has no reason.kind")
	}
	if p.Reason.Kind != sdkproto.EndError {
		return p.Reason.Kind, nil, nil
	}
	failure = new(sdkproto.Failure)
	if len(p.Reason.Error) > 0 {
		if err := wirejson.Unmarshal(p.Reason.Error, failure); err != nil {
			return "", nil, fmt.Errorf("its error: %w", err)
		}
	}
	return p.Reason.Kind, failure, nil
}
