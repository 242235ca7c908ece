package jsonrpc

import (
	"errors"
	"fmt"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// fault is an error with all that its answer may say. What else an error is
// told by its kind (see dataOf).
type fault struct {
	rpc int // the error code
	sdkproto.ErrorData
	text string
}

func (f *fault) Error() string { return f.text }

// Errors whose texts clients know (spec jsonrpc 2.2), and the answer to an
// inline image in a composition that has nowhere to keep it.
var (
	errShutdown      = failure(sdkproto.ErrShuttingDown, "SDK server is shutting down")
	errNoInit        = failure(sdkproto.ErrNotInitialized, "SDK server is not initialized")
	errNoAttachments = failure(sdkproto.ErrNoAttachments, "SDK image prompt requires an attachment store")
)

// failure is an error that is not the parameters'.
func failure(code, format string, args ...any) *fault {
	return &fault{sdkproto.CodeInternal, sdkproto.ErrorData{Code: code}, fmt.Sprintf(format, args...)}
}

// invalid blames one parameter.
func invalid(field, format string, args ...any) error {
	return &fault{sdkproto.CodeInvalidParams, sdkproto.ErrorData{Code: sdkproto.ErrInvalidParams, Field: field}, fmt.Sprintf(format, args...)}
}

// wireError gives the error member of an answer (decision D21); details adds
// its data.
func wireError(err error, details bool) *sdkproto.RPCError {
	var f *fault
	if !errors.As(err, &f) {
		f = &fault{sdkproto.CodeInternal, dataOf(err), err.Error()}
	}
	if f.Code == sdkproto.ErrShuttingDown {
		f = errShutdown
	}
	e := &sdkproto.RPCError{Code: f.rpc, Message: f.text}
	if details {
		data, err := wirejson.Marshal(f.ErrorData)
		if err == nil {
			e.Data = data
		}
	}
	return e
}

// dataOf classifies what came from behind the agents' seam.
func dataOf(err error) sdkproto.ErrorData {
	var (
		inUse  *session.InUseError
		filter *tool.FilterError
		none   *llm.NoAdapterError
		model  *llm.Error
	)
	code := func(code string, retryable bool) sdkproto.ErrorData {
		return sdkproto.ErrorData{Code: code, Retryable: retryable}
	}
	switch {
	case errors.Is(err, agent.ErrClosing):
		return code(sdkproto.ErrShuttingDown, false)
	case errors.Is(err, agent.ErrInboxFull):
		return code(sdkproto.ErrInboxFull, true)
	case errors.Is(err, session.ErrNotFound):
		return code(sdkproto.ErrSessionNotFound, false)
	case errors.Is(err, session.ErrOtherCWD):
		return code(sdkproto.ErrSessionOtherCWD, false)
	case errors.Is(err, session.ErrUnsupported), errors.Is(err, session.ErrCorrupt):
		return code(sdkproto.ErrSessionUnreadable, false)
	case errors.As(err, &inUse):
		return code(sdkproto.ErrSessionInUse, true)
	case errors.As(err, &filter):
		return code(sdkproto.ErrToolFilter, false)
	case errors.As(err, &none):
		return code(sdkproto.ErrNoAdapter, false)
	case errors.As(err, &model):
		return code(model.Code, model.Retryable())
	}
	return code(sdkproto.ErrInternal, false)
}
