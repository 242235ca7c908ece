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
	return s.PromptWith(ctx, sdkproto.PromptExtensions{}, blocks...)
}

// PromptWith is Prompt with a route for the session it creates, or with a key
// that makes it safe to send the same prompt again when its answer was lost. A
// server without these extensions ignores them.
func (s *Session) PromptWith(ctx context.Context, x sdkproto.PromptExtensions, blocks ...sdkproto.Block) (messageID string, err error) {
	params := sdkproto.PromptParams{SessionID: s.id, ContentBlocks: blocks, PromptExtensions: x}
	return queued(sdkproto.MethodSessionPrompt, params, func(method string, params, result any) error {
		return s.client.Call(ctx, method, params, result)
	})
}

// Steer puts a user message into the next step of the turn that runs, or queues
// it if none does, and returns its id. It makes no session.
func (s *Session) Steer(ctx context.Context, blocks ...sdkproto.Block) (messageID string, err error) {
	params := sdkproto.SteerParams{SessionID: s.id, ContentBlocks: blocks}
	return queued(sdkproto.MethodSessionSteer, params, func(method string, params, result any) error {
		return s.client.ask(ctx, method, params, result)
	})
}

// queued sends a message and checks the answer.
func queued(method string, params any, send func(method string, params, result any) error) (messageID string, err error) {
	var result sdkproto.PromptResult
	if err := send(method, params, &result); err != nil {
		return "", err
	}
	if result.MessageID == "" {
		return "", fmt.Errorf("%s: %w: the answer has no messageId", method, ErrProtocol)
	}
	return result.MessageID, nil
}

// RunOptions are what a run may do beyond the plain protocol.
type RunOptions struct {
	// Route is that of the session if the run creates it.
	Route *sdkproto.RouteOptions
	// Tree makes the run last until the session, which has to be the root of its
	// tree, and all local sessions below it are idle: a subagent may go on when
	// the session that started it is done. Initialize has to ask for
	// session.tree-status, with a ProtocolVersion.
	Tree bool
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
	return s.RunWith(ctx, RunOptions{}, blocks...)
}

// RunWith is Run with options. There is no idempotency key among them, because
// a repeated prompt has no receipt to begin with; see PromptWith and Wait.
func (s *Session) RunWith(ctx context.Context, o RunOptions, blocks ...sdkproto.Block) (*Run, error) {
	if o.Tree {
		if err := s.client.gets(sdkproto.NotifyTreeStatus); err != nil {
			return nil, fmt.Errorf("run in session %s until its tree is idle: %w", s.id, err)
		}
	}
	r := newRun(s, o.Tree)
	if err := s.client.join(r); err != nil {
		return nil, fmt.Errorf("run in session %s: %w", s.id, err)
	}
	r.stopWith(ctx)
	id, err := s.PromptWith(ctx, sdkproto.PromptExtensions{Options: o.Route}, blocks...)
	if err != nil {
		err = fmt.Errorf("run in session %s: %w", s.id, err)
		r.abandon(err)
		return nil, err
	}
	r.accepted(id)
	return r, nil
}
