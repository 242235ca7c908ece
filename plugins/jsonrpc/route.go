package jsonrpc

import (
	"context"
	"errors"
	"sync"

	"dsh/kernel"
	"dsh/kernel/llm"
	"dsh/kernel/profile"
	"dsh/sdkproto"
)

// The one provider whose adapter is mounted by itself (S108, S142).
const (
	fallbackProvider = "deepseek-official"
	fallbackRow      = "deepseek-fallback"
	fallbackPlugin   = "llm-deepseek"
)

// codeEffort is what adapters say of an effort that they do not know (spec
// jsonrpc 2.1).
const codeEffort = "UNSUPPORTED_REASONING_EFFORT"

// fallback mounts the adapter of fallbackProvider when nobody answers for it.
type fallback struct {
	// mounter is nil in a composition without a loader, which mounts nothing.
	mounter kernel.Mounter
	owner   *kernel.Owner
	mu      sync.Mutex
}

// checkRoute says why a route cannot be used. An adapter that is registered
// wins (S107); field is where the parameters name the route, with a dot behind.
func (s *Server) checkRoute(ctx context.Context, route llm.Route, field string) error {
	_, err := s.agents.CheckRoute(route)
	if route.Provider == fallbackProvider && isUnowned(err) && s.fallback.mounter != nil {
		err = s.fallback.use(ctx, func() error {
			_, err := s.agents.CheckRoute(route)
			return err
		})
	}
	return routeError(err, field)
}

func isUnowned(err error) bool {
	var none *llm.NoAdapterError
	return errors.As(err, &none)
}

// use mounts the adapter unless somebody else just has, and checks again. The
// adapter goes with the row of the server.
func (f *fallback) use(ctx context.Context, check func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := check(); !isUnowned(err) {
		return err
	}
	at := profile.Position{File: "fallback for provider " + fallbackProvider}
	o, err := f.mounter.Mount(ctx, profile.Entry{
		ID: fallbackRow, Use: fallbackPlugin, Enabled: true, Config: []byte("{}"), Pos: at,
		Origin: func(string) profile.Position { return at },
	})
	if err != nil {
		return failure(sdkproto.ErrAdapterFailed, "provider %q has no adapter, and its own cannot be started: %v", fallbackProvider, err)
	}
	if err := f.owner.OnClose(fallbackRow, o.Close); err != nil {
		return errors.Join(errShutdown, o.Close(ctx))
	}
	return check()
}

// routeError blames the parameters for a route that nobody serves or that its
// adapter refuses.
func routeError(err error, field string) error {
	var refused *llm.Error
	switch {
	case isUnowned(err):
		field += "provider"
	case errors.As(err, &refused) && refused.Code == codeEffort:
		field += "reasoningEffort"
	case errors.As(err, &refused):
		field += "model"
	default:
		return err
	}
	data := dataOf(err)
	data.Field = field
	return &fault{sdkproto.CodeInvalidParams, data, err.Error()}
}
