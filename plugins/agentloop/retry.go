package agentloop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"

	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// retrier counts the retries of one model request.
type retrier struct {
	id     string
	config Retries
	done   int
	delays backoff.ExponentialBackOff
}

func newRetrier(c Retries) *retrier {
	r := &retrier{id: uuid.NewString(), config: c, delays: backoff.ExponentialBackOff{
		InitialInterval: time.Duration(c.Delay), MaxInterval: time.Duration(c.MaxDelay), Multiplier: 2, RandomizationFactor: c.Jitter,
	}}
	r.delays.Reset()
	return r
}

// next says whether a failure is worth another attempt, and when. A provider
// that asks for a longer wait than the longest of ours is given up (spec
// jsonrpc 10.6).
func (r *retrier) next(err error) (delay time.Duration, again bool) {
	var e *llm.Error
	if !errors.As(err, &e) || !e.Retryable() || r.done >= r.config.Max || e.RetryAfter > time.Duration(r.config.MaxDelay) {
		return 0, false
	}
	r.done++
	delay = r.delays.NextBackOff()
	if e.RetryAfter > 0 {
		delay = e.RetryAfter
	}
	return delay, true
}

// final is a failure that ends the turn. Of one that was given up because the
// provider asks for too long a wait, it tells when to come back (case B57).
func (r *retrier) final(err error) error {
	var e *llm.Error
	if !errors.As(err, &e) || !e.Retryable() || e.RetryAfter <= time.Duration(r.config.MaxDelay) {
		return err
	}
	told := *e
	told.Message += fmt.Sprintf("; the provider asks to wait %v before the next attempt", e.RetryAfter)
	return &told
}

// wait logs a failed attempt and, when there is to be another, waits for it. It
// returns the failure when there is not, or the cause of a cancellation.
func (t *turn) wait(r *retrier, ans *answer, failed error) error {
	delay, again := r.next(failed)
	if !again {
		failed = r.final(failed)
	}
	failure := llm.Failure(failed)
	var drafts []session.Draft
	if ans.finish == "" {
		// The stream's readers learn that this attempt gives no more.
		drafts = append(drafts, t.failedAttempt(failed))
	}
	if again {
		var provider string
		t.a.session.View(func() { provider = t.a.state.Header.Header.Config.Provider })
		drafts = append(drafts, session.Draft{Type: sdkproto.TypeLLMRetry, Data: &sdkproto.LLMRetry{
			RetryID: r.id, Turn: t.number, Step: t.step, Provider: provider, Mode: "normal", PolicyKey: failure.Code,
			Retry: r.done, MaxRetries: r.config.Max, DelayMs: delay.Milliseconds(), Failure: failure,
		}})
	}
	if len(drafts) > 0 {
		if _, err := t.a.session.Append(drafts...); err != nil {
			return errors.Join(failed, err)
		}
	}
	if !again {
		return failed
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	}
	_, err := t.a.session.Append(session.Draft{Type: sdkproto.TypeLLMRetryStarted, Data: &sdkproto.LLMRetryStarted{
		RetryID: r.id, Turn: t.number, Step: t.step, Retry: r.done,
	}})
	return err
}

// failedAttempt ends the stream of an attempt that gives no more.
func (t *turn) failedAttempt(err error) session.Draft {
	failure := llm.Failure(err)
	return session.Draft{Type: sdkproto.TypeAssistantChunk, Data: &sdkproto.AssistantChunk{
		Turn: t.number, Step: t.step,
		Chunk: sdkproto.Chunk{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: sdkproto.FinishError, Failure: &failure}},
	}}
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
