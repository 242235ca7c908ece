package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"dsh/sdkproto"
)

// Session is a conversation that the server keeps under an id. It has no state
// of its own.
type Session struct {
	client *Client
	id     string
}

// Session names a conversation; its first prompt creates or resumes it. An
// empty id makes a new one: "session-" and 32 hex digits (spec jsonrpc 7.4).
func (c *Client) Session(id string) *Session {
	if id == "" {
		var b [16]byte
		rand.Read(b[:])
		id = "session-" + hex.EncodeToString(b[:])
	}
	return &Session{client: c, id: id}
}

// ID is the session's id on the wire.
func (s *Session) ID() string { return s.id }

// Prompt queues one user message and returns the id that the server gave it. It
// does not wait for the turn. Errors are those of Client.Call; an image that
// was refused, for example, is an *sdkproto.RPCError and nothing is queued.
func (s *Session) Prompt(ctx context.Context, blocks ...sdkproto.Block) (messageID string, err error) {
	var result sdkproto.PromptResult
	params := sdkproto.PromptParams{SessionID: s.id, ContentBlocks: blocks}
	if err := s.client.Call(ctx, sdkproto.MethodSessionPrompt, params, &result); err != nil {
		return "", err
	}
	if result.MessageID == "" {
		return "", fmt.Errorf("%s: %w: the answer has no messageId", sdkproto.MethodSessionPrompt, ErrProtocol)
	}
	return result.MessageID, nil
}

// Run sends a prompt and follows what it sets off: the interval from the
// receipt of the message to the moment at which the session is idle again, with
// the session and the subagents under it (spec jsonrpc 12.5).
//
// ctx holds for the whole life of the Run. Its end stops the waiting: the turn
// goes on in the server, and the Run, if there is one already, fails with the
// error of ctx. Run itself returns when the server has taken the message;
// errors are those of Prompt.
//
// The interval is that of the session, not of the message. Of two runs at the
// same time on one session both end when all is done, and both report the last
// answer.
func (s *Session) Run(ctx context.Context, blocks ...sdkproto.Block) (*Run, error) {
	r := newRun(s)
	if err := s.client.join(r); err != nil {
		return nil, fmt.Errorf("run in session %s: %w", s.id, err)
	}
	r.stopWith(ctx)
	id, err := s.Prompt(ctx, blocks...)
	if err != nil {
		err = fmt.Errorf("run in session %s: %w", s.id, err)
		r.abandon(err)
		return nil, err
	}
	r.accepted(id)
	return r, nil
}
