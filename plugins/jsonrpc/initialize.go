package jsonrpc

import (
	"context"
	"errors"

	"dsh/kernel/llm"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// handshake is one initialize. Those behind it in the input wait for it
// (decision D7).
type handshake struct {
	done chan struct{}
	// session is set before done is closed: what this one fixed or, if it failed,
	// what held before; nil when none has succeeded yet.
	session *sessionDefaults
}

// initialize fixes the route of the sessions that later prompts create, and
// answers when the composition is ready. It may be repeated (spec jsonrpc 2.1).
func (s *Server) initialize(r *request) {
	before := s.handshake
	h := &handshake{done: make(chan struct{})}
	s.handshake = h
	s.owner.Go("initialize", func(ctx context.Context) {
		defer close(h.done)
		var fixed *sessionDefaults
		s.serve(ctx, r, func(context.Context) ([]byte, error) {
			d, err := s.negotiate(r.params)
			if err != nil {
				return nil, err
			}
			fixed = d
			return wirejson.Marshal(sdkproto.InitializeResult{ServerInfo: sdkproto.ServerInfo{Name: sdkproto.ServerName, Version: sdkproto.ServerVersion}})
		})
		if before != nil {
			select {
			case <-before.done:
			case <-ctx.Done():
				return
			}
			h.session = before.session
		}
		if fixed != nil {
			h.session = fixed
		}
	})
}

func (s *Server) negotiate(params []byte) (*sessionDefaults, error) {
	if s.work.Err() != nil {
		return nil, errShutdown
	}
	d, err := decodeInitialize(params)
	if err != nil {
		return nil, err
	}
	if s.ready != nil {
		if err := s.ready.Wait(s.work); err != nil {
			if s.work.Err() != nil {
				return nil, errShutdown
			}
			return nil, err
		}
	}
	// The route stays as the client gave it: what an adapter adds to it is marked
	// as the adapter's in the session's header.
	if _, err := s.agents.CheckRoute(d.route); err != nil {
		return nil, routeError(err)
	}
	return d, nil
}

// routeError blames the parameters for a route that nobody serves or that its
// adapter refuses.
func routeError(err error) error {
	var (
		none    *llm.NoAdapterError
		refused *llm.Error
	)
	if errors.As(err, &none) || errors.As(err, &refused) {
		return &sdkproto.RPCError{Code: sdkproto.CodeInvalidParams, Message: err.Error()}
	}
	return err
}
