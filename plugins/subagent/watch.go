package subagent

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// watch keeps what of a child's events its outcome is made of.
type watch struct {
	owner *kernel.Owner
	sub   *session.Subscription

	mu sync.Mutex
	// last is the content of the last answer that says something; streamed is what
	// the present attempt has said, as long as there is none.
	last     []sdkproto.Block
	streamed strings.Builder
	// calls counts the calls of tools, usage adds up the model's answers.
	calls int
	usage sdkproto.Usage
	// end is how the last turn ended, nil while one runs and before the first.
	end *sdkproto.TurnEndReason
}

// newWatch begins to watch a child, until close. It hangs on nothing else: when
// the row is taken away, the child's last events are still wanted.
func newWatch(log *slog.Logger, child agent.Agent) *watch {
	w := &watch{owner: kernel.NewOwner(context.Background(), "subagent "+child.ID())}
	w.sub = session.NewSubscription(w.owner, log, "subagent "+child.ID(), entries, w.take)
	child.Log().Subscribe(w.sub)
	return w
}

// drain returns when all events so far have been looked at.
func (w *watch) drain(ctx context.Context) error { return w.sub.Drain(ctx) }

func (w *watch) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.owner.Close(ctx) // waits for the goroutine of the subscription, which never blocks
}

func (w *watch) take(_ context.Context, e session.Entry) error {
	if e.Record == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Record.Event.Type {
	case sdkproto.TypeAssistantChunk:
		c, ok := e.Record.Data.(*sdkproto.AssistantChunk)
		if ok && c.Chunk.Type == sdkproto.ChunkTextDelta && w.last == nil {
			w.streamed.WriteString(c.Chunk.Text)
		}
	case sdkproto.TypeToolCall:
		w.calls++
	case sdkproto.TypeLLMRetryStarted:
		w.streamed.Reset()
	case sdkproto.TypeAssistantMessage:
		m, err := session.Decode[sdkproto.AssistantMessage](e.Record)
		if err != nil {
			return err
		}
		if m.Usage != nil {
			w.usage.Add(m.Usage)
		}
		if says(m.Message.Content) {
			w.last = m.Message.Content
		}
	case sdkproto.TypeTurnStart:
		w.end = nil
	case sdkproto.TypeTurnEnd:
		t, err := session.Decode[sdkproto.TurnEnd](e.Record)
		if err != nil {
			return err
		}
		w.end = &t.Reason
	}
	return nil
}

// says reports whether an answer is more than calls of tools.
func says(content []sdkproto.Block) bool {
	for _, b := range content {
		if (b.Type == sdkproto.BlockText || b.Type == sdkproto.BlockReasoning) && strings.TrimSpace(b.Text) != "" {
			return true
		}
	}
	return false
}

// outcome is what became of the child; stopped says that it was ended before it
// was done.
func (w *watch) outcome(r *run, stopped bool) outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := outcome{run: r, last: w.last, calls: w.calls, usage: w.usage, took: time.Since(r.began)}
	if o.last == nil && w.streamed.Len() > 0 {
		o.last = []sdkproto.Block{sdkproto.Text(w.streamed.String())}
	}
	if w.end == nil {
		o.stop, o.why = sdkproto.StopError, "its session could not go on"
		if stopped {
			o.stop, o.why = sdkproto.StopAborted, "it was stopped before it had begun"
		} else {
			o.last = nil // a failure of the harness (spec jsonrpc 8.1)
		}
		return o
	}
	o.stop, o.why = stopReason(w.end)
	if stopped && o.stop == sdkproto.StopCompleted {
		o.stop, o.why = sdkproto.StopAborted, "it was stopped before it was done"
	}
	return o
}
