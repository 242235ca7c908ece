package client

import (
	"errors"

	"dsh/sdkproto"
	"dsh/sdkproto/client/internal/program"
	"dsh/sdkproto/client/internal/queue"
)

var (
	// ErrClosed is wrapped by the error of everything that is asked of a Client
	// after Close, and of everything that still waited when Close was done.
	ErrClosed = errors.New("client is closed")
	// ErrLost is wrapped by the error of everybody who waited for a server that
	// went away, and of every later call. See ExitError.
	ErrLost = program.ErrLost
	// ErrMissed is wrapped by the error with which a sequence of notifications
	// ends that is not complete.
	ErrMissed = queue.ErrMissed
	// ErrSilent is wrapped by the error of everybody who waited while nothing at
	// all came from the server for longer than Limits.Silence. The connection
	// stands: whoever asks later waits anew.
	ErrSilent = errors.New("server is silent")
	// ErrNotOffered is wrapped by the error for an extension that the server does
	// not have (spec jsonrpc 13.3).
	ErrNotOffered = errors.New("server does not offer it")
	// ErrProtocol is wrapped by the error for a frame that does not have the
	// shape that the wire prescribes for it.
	ErrProtocol = errors.New("server broke the protocol")
)

// Details is what the server said of an error beyond its text: a code, whether
// the same request may succeed later, the parameter that is wrong. ok is false
// for an error that is not the server's, and for one that came without, as all
// do unless Initialize sets ProtocolVersion.
func Details(err error) (d sdkproto.ErrorData, ok bool) {
	var e *sdkproto.RPCError
	if errors.As(err, &e) {
		d = e.Details()
	}
	return d, d.Code != ""
}

// ExitError says how the server's process ended: with its exit code and the last
// of its stderr. It wraps ErrLost.
type ExitError = program.ExitError
