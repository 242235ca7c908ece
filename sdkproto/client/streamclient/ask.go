package streamclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// Hook is a callback of an event.
type Hook struct {
	// Matcher says which tools, or whatever the event is about, it is for; "" is
	// everything (spec stream-json 6.1).
	Matcher string
	// Timeout is how long the program waits for it; 0 is the program's own choice.
	Timeout time.Duration
	// Required: where it fails the call is blocked. Without, a failure counts as no
	// opinion.
	Required bool
	Call     func(context.Context, HookInput) (streamjson.HookOutput, error)
}

// HookInput is what an event tells its hooks.
type HookInput struct {
	SessionID      string `json:"session_id"`
	TranscriptPath string `json:"transcript_path"`
	CWD            string `json:"cwd"`
	// Event is the name that it is registered under in Options.Hooks.
	Event          string `json:"hook_event_name"`
	PermissionMode string `json:"permission_mode"`
	// ToolName, ToolInput, ToolUseID and, behind the call, ToolResponse are those of
	// the events about tools.
	ToolName     string          `json:"tool_name"`
	ToolInput    json.RawMessage `json:"tool_input"`
	ToolUseID    string          `json:"tool_use_id"`
	ToolResponse json.RawMessage `json:"tool_response"`
	// Prompt is that of UserPromptSubmit.
	Prompt string `json:"prompt"`
	// AgentID is the subagent where it happens, "" for the main thread.
	AgentID string `json:"agent_id"`
	// Raw has all members (spec stream-json 6.2).
	Raw json.RawMessage `json:"-"`
}

type hookCall func(context.Context, HookInput) (streamjson.HookOutput, error)

// Allow lets a call run as it is, Deny refuses it with a reason for the model.
func Allow() streamjson.Permission {
	return streamjson.Permission{Behavior: streamjson.BehaviorAllow}
}

// Deny is described at Allow.
func Deny(reason string) streamjson.Permission {
	return streamjson.Permission{Behavior: streamjson.BehaviorDeny, Message: reason}
}

// registerHooks gives ids to the hooks of the options and adds them to the
// handshake.
func (s *Session) registerHooks(in *streamjson.Initialize) {
	if len(s.options.Hooks) == 0 {
		return
	}
	in.Hooks = maps.Clone(in.Hooks)
	if in.Hooks == nil {
		in.Hooks = map[string][]streamjson.HookMatcher{}
	}
	s.hooks = map[string]hookCall{}
	for _, event := range slices.Sorted(maps.Keys(s.options.Hooks)) {
		list := slices.Clone(in.Hooks[event])
		for _, h := range s.options.Hooks[event] {
			id := "hook_" + strconv.Itoa(len(s.hooks))
			s.hooks[id] = h.Call
			m := streamjson.HookMatcher{Matcher: h.Matcher, HookCallbackIDs: []string{id}, Timeout: h.Timeout.Seconds()}
			if h.Required {
				m.OnFailure = "block"
			}
			list = append(list, m)
		}
		in.Hooks[event] = list
	}
}

// answer begins with a question of the program.
func (s *Session) answer(id string, request json.RawMessage) {
	var h struct {
		Subtype string `json:"subtype"`
	}
	if id == "" || wirejson.Unmarshal(request, &h) != nil {
		s.skipped.Add(1)
		return
	}
	began := s.asked.Go(id, func(ctx context.Context) {
		response, err := s.decide(ctx, h.Subtype, request)
		if ctx.Err() != nil {
			return // nobody waits
		}
		var line []byte
		if err == nil {
			line, err = streamjson.AnswerSuccess(id, response)
		}
		if err != nil {
			line = refusal(id, err)
		}
		// A program that takes nothing any more shows in everything else.
		_ = s.write(ctx, line)
	})
	if !began && s.w.Frame(atOnce(), refusal(id, errors.New("this client answers too many questions already"))) != nil {
		s.skipped.Add(1)
	}
}

func refusal(id string, err error) []byte {
	var code string
	if errors.Is(err, errUnsupported) {
		code = streamjson.CodeUnsupportedRequest
	}
	return streamjson.AnswerError(id, err.Error(), code, nil)
}

// errUnsupported is wrapped by the error for a question that nobody here answers.
var errUnsupported = errors.New("this client does not answer")

// decide calls what answers a question. A panic there is contained: it refuses.
func (s *Session) decide(ctx context.Context, subtype string, request json.RawMessage) (response any, err error) {
	defer func() {
		if p := recover(); p != nil {
			response, err = nil, fmt.Errorf("the client's answer to %s panicked: %v", subtype, p)
		}
	}()
	switch {
	case subtype == streamjson.SubtypeCanUseTool && s.options.CanUseTool != nil:
		return with(ctx, request, s.options.CanUseTool)
	case subtype == streamjson.SubtypeElicitation && s.options.Elicit != nil:
		return with(ctx, request, s.options.Elicit)
	case subtype == streamjson.SubtypeHookCallback:
		return with(ctx, request, s.runHook)
	case subtype == streamjson.SubtypeMCPMessage:
		return with(ctx, request, s.serveMCP)
	}
	return nil, fmt.Errorf("%w control requests of the subtype %s", errUnsupported, subtype)
}

// with decodes a request for its callback.
func with[In, Out any](ctx context.Context, request json.RawMessage, call func(context.Context, In) (Out, error)) (any, error) {
	var in In
	if err := wirejson.Unmarshal(request, &in); err != nil {
		return nil, fmt.Errorf("the request does not fit: %w", err)
	}
	return call(ctx, in)
}

func (s *Session) runHook(ctx context.Context, q streamjson.HookCallback) (streamjson.HookOutput, error) {
	call := s.hooks[q.CallbackID]
	if call == nil {
		return streamjson.HookOutput{}, fmt.Errorf("no hook is registered as %q", q.CallbackID)
	}
	in := HookInput{Raw: q.Input, ToolUseID: q.ToolUseID}
	if err := wirejson.Unmarshal(q.Input, &in); err != nil {
		return streamjson.HookOutput{}, fmt.Errorf("the input of the hook does not fit: %w", err)
	}
	out, err := call(ctx, in)
	if out.Specific != nil && out.Specific.HookEventName == "" {
		specific := *out.Specific
		specific.HookEventName = in.Event
		out.Specific = &specific
	}
	return out, err
}

func (s *Session) serveMCP(ctx context.Context, q streamjson.MCPMessage) (streamjson.MCPResponse, error) {
	server := s.options.MCPServers[q.ServerName]
	if server == nil {
		return streamjson.MCPResponse{}, fmt.Errorf("this client has no mcp server %q", q.ServerName)
	}
	reply, err := server(ctx, q.Message)
	if err == nil && len(reply) == 0 {
		reply = json.RawMessage(`{"jsonrpc":"2.0","result":{}}`) // to a notification: nobody reads it
	}
	return streamjson.MCPResponse{Message: reply}, err
}
