package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// readOffer takes the extensions out of an answer to initialize; nil if it does
// not list any, in the shape that is known here.
func readOffer(result []byte) *sdkproto.InitializeAdditions {
	o := new(sdkproto.InitializeAdditions)
	if wirejson.Unmarshal(result, o) != nil || o.ProtocolVersion < 1 || len(o.Capabilities.Methods) == 0 {
		return nil
	}
	return o
}

// Offers reports whether the server said that it answers a method, or sends a
// notification on request. Without an Offer it is false for all.
func (c *Client) Offers(name string) bool {
	return c.Offer != nil &&
		(slices.Contains(c.Offer.Capabilities.Methods, name) || slices.Contains(c.Offer.Capabilities.Notifications, name))
}

func (c *Client) notOffered(name string) error {
	says := "says nothing of extensions"
	if c.Offer != nil {
		says = "lists " + strings.Join(slices.Concat(c.Offer.Capabilities.Methods, c.Offer.Capabilities.Notifications), ", ")
	}
	return fmt.Errorf("%s: %w: %s %s %s", name, ErrNotOffered, c.Server.Name, c.Server.Version, says)
}

// gets fails unless a notification beyond the plain protocol will come.
func (c *Client) gets(name string) error {
	if !slices.Contains(c.asked.Notifications, name) {
		return fmt.Errorf("%s was not asked for: name it in Capabilities.Notifications of Initialize, and set ProtocolVersion", name)
	}
	if !c.Offers(name) {
		return c.notOffered(name)
	}
	return nil
}

// ask is Call of a method beyond the plain protocol. A server that has not said
// what it offers is tried.
func (c *Client) ask(ctx context.Context, method string, params, result any) error {
	if c.Offer != nil && !c.Offers(method) {
		return c.notOffered(method)
	}
	err := c.Call(ctx, method, params, result)
	var refusal *sdkproto.RPCError
	if errors.As(err, &refusal) && isUnknown(refusal, method) {
		return fmt.Errorf("%s: %w: %w", method, ErrNotOffered, refusal)
	}
	return err
}

// isUnknown tells a method that the server does not know from one that failed.
// Servers without extensions have no code for it (spec jsonrpc 1.3).
func isUnknown(e *sdkproto.RPCError, method string) bool {
	return e.Code == sdkproto.CodeMethodNotFound ||
		e.Code == sdkproto.CodeInternal && e.Message == "unknown DeepSeek Harness SDK runtime method: "+method
}

// Ping asks the server for its time, which tells that it lives.
func (c *Client) Ping(ctx context.Context) (time.Time, error) {
	var clock sdkproto.Clock
	if err := c.ask(ctx, sdkproto.MethodPing, nil, &clock); err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(clock.Time), nil
}

// Status tells how the parts of the server stand: load tasks, MCP servers, the
// sandbox. A part that may fail without harm to initialize shows its failure
// here.
func (c *Client) Status(ctx context.Context) (sdkproto.RuntimeStatus, error) {
	var status sdkproto.RuntimeStatus
	err := c.ask(ctx, sdkproto.MethodRuntimeStatus, nil, &status)
	return status, err
}

// Sessions is the stored sessions, newest first, asked for page by page as they
// are needed. An error is the last element.
func (c *Client) Sessions(ctx context.Context, p sdkproto.ListParams) iter.Seq2[sdkproto.SessionInfo, error] {
	return func(yield func(sdkproto.SessionInfo, error) bool) {
		for p := p; ; {
			var page sdkproto.ListResult
			err := c.ask(ctx, sdkproto.MethodSessionList, p, &page)
			if err == nil && page.NextCursor != "" && page.NextCursor == p.Cursor {
				err = fmt.Errorf("%s: %w: the cursor does not move on", sdkproto.MethodSessionList, ErrProtocol)
			}
			if err != nil {
				yield(sdkproto.SessionInfo{}, err)
				return
			}
			for _, s := range page.Sessions {
				if !yield(s, nil) {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			p.Cursor = page.NextCursor
		}
	}
}

// Cancel ends the turn that runs and drops the queue, or with the id of a
// message only what concerns that one: it leaves the queue, or its turn ends
// (decision D23). cancelled says whether there was anything to cancel; what ends
// shows in the events.
func (s *Session) Cancel(ctx context.Context, messageID string) (cancelled bool, err error) {
	var result sdkproto.CancelResult
	err = s.client.ask(ctx, sdkproto.MethodSessionCancel, sdkproto.CancelParams{SessionID: s.id, MessageID: messageID}, &result)
	return result.Cancelled, err
}

// Close cancels what the session does and releases it in the server. Its next
// prompt resumes it. A session that is not live is fine.
func (s *Session) Close(ctx context.Context) error {
	return s.client.ask(ctx, sdkproto.MethodSessionClose, sdkproto.CloseParams{SessionID: s.id}, nil)
}

// Resume makes a stored session live. Unlike a prompt it fails for one that is
// not stored, with sdkproto.ErrSessionNotFound as the code of its Details.
func (s *Session) Resume(ctx context.Context) (sdkproto.ResumeResult, error) {
	var result sdkproto.ResumeResult
	err := s.client.ask(ctx, sdkproto.MethodSessionResume, sdkproto.ResumeParams{SessionID: s.id}, &result)
	return result, err
}

// waitTime is how long one request of Wait asks the server to wait, so that one
// which is given up does not stay with the server for good.
const waitTime = 30 * time.Second

// Wait waits until a message of the session is finished and returns what became
// of it, also when that is long ago. The end of ctx ends only the waiting. A
// server that is about to end fails it with ErrLost.
func (s *Session) Wait(ctx context.Context, messageID string) (sdkproto.PromptFinished, error) {
	limit := waitTime.Milliseconds()
	params := sdkproto.WaitParams{SessionID: s.id, MessageID: messageID, TimeoutMs: &limit}
	for {
		begin := time.Now()
		var result sdkproto.WaitResult
		err := s.client.ask(ctx, sdkproto.MethodSessionWait, params, &result)
		switch {
		case err != nil:
			return sdkproto.PromptFinished{}, err
		case result.Finished:
			return result.PromptFinished, nil
		case time.Since(begin) >= waitTime:
			continue
		case s.client.isClosing():
			return sdkproto.PromptFinished{}, fmt.Errorf("%s: %w", sdkproto.MethodSessionWait, ErrClosed)
		}
		return sdkproto.PromptFinished{}, fmt.Errorf("%s: %w: it stopped waiting for message %s, because it ends", sdkproto.MethodSessionWait, ErrLost, messageID)
	}
}
