package jsonrpc

import (
	"context"
	"maps"
	"os"
	"runtime/debug"
	"slices"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// handshake is one initialize. Those behind it in the input wait for it
// (decision D7).
type handshake struct {
	// number counts the handshakes in the order of the input, from 1.
	number int
	done   chan struct{}
	// session is set before done is closed: what this one fixed or, if it failed,
	// what held before; nil when none has succeeded yet.
	session *sessionDefaults
}

// initialize fixes the route of the sessions that later prompts create, and
// answers when the composition is ready. It may be repeated (spec jsonrpc 2.1).
func (s *Server) initialize(r *request) {
	before := s.handshake
	h := &handshake{number: 1, done: make(chan struct{})}
	if before != nil {
		h.number = before.number + 1
	}
	s.handshake = h
	s.owner.Go("initialize", func(ctx context.Context) {
		defer close(h.done)
		var fixed *sessionDefaults
		s.serve(ctx, r, func(context.Context) ([]byte, error) {
			d, a, err := s.negotiate(r)
			if err != nil {
				return nil, err
			}
			fixed = d
			s.agree(h.number, a)
			return s.welcome(a)
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

func (s *Server) negotiate(r *request) (*sessionDefaults, *asked, error) {
	if s.work.Err() != nil {
		return nil, nil, errShutdown
	}
	params, err := decodeArgs(r.method, r.params)
	if err != nil {
		return nil, nil, err
	}
	a, err := decodeAsked(params)
	if a != nil {
		r.details = a.details // also if this handshake fails
	}
	d, plain := decodeInitialize(params)
	if plain != nil {
		return nil, nil, plain
	}
	if err != nil {
		return nil, nil, err
	}
	if s.ready != nil {
		if err := s.ready.Wait(s.work); err != nil {
			if s.work.Err() != nil {
				return nil, nil, errShutdown
			}
			return nil, nil, err
		}
	}
	// The route stays as the client gave it: what an adapter adds to it is marked
	// as the adapter's in the session's header.
	if err := s.checkRoute(s.work, d.route, ""); err != nil {
		return nil, nil, err
	}
	if err := s.agents.CheckTools(s.tools); err != nil {
		// Prompts say it too, but only later (spec jsonrpc 4.2).
		s.log.Warn("no session can be made: the tool filter of the profile cannot be applied", "error", err)
	}
	return d, a, nil
}

// welcome is the answer to a good initialize.
func (s *Server) welcome(a *asked) ([]byte, error) {
	plain := sdkproto.InitializeResult{ServerInfo: sdkproto.ServerInfo{Name: sdkproto.ServerName, Version: sdkproto.ServerVersion}}
	if !a.details {
		return wirejson.Marshal(plain)
	}
	notifications := []string{
		sdkproto.NotifyHeartbeat, sdkproto.NotifySessionEvent, sdkproto.NotifyPromptFinished, sdkproto.NotifySessionStatus,
		sdkproto.NotifyTreeStatus, sdkproto.NotifyUsage, sdkproto.NotifySubagentFinished, sdkproto.NotifySubagentStarted,
	}
	var requests []string
	if s.desk != nil {
		notifications = append(notifications, sdkproto.NotifyApprovalCancelled)
		requests = []string{sdkproto.MethodApprovalRequest}
	}
	slices.Sort(notifications)
	return wirejson.Marshal(struct {
		sdkproto.InitializeResult
		sdkproto.InitializeAdditions
	}{plain, sdkproto.InitializeAdditions{
		ProtocolVersion: sdkproto.ProtocolVersion,
		Capabilities: sdkproto.ServerCapabilities{
			Methods: slices.Sorted(maps.Keys(s.methods)), Notifications: notifications, Requests: requests,
		},
		Runtime: sdkproto.RuntimeInfo{Name: "dsh", Version: programVersion(), PID: os.Getpid()},
	}})
}

func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
