package streamclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// Control makes a control request of any subtype and decodes the answer into
// response, a pointer, or drops it if response is nil. fields has to be a JSON
// object when encoded; nil has no members beside the subtype.
//
// A refusal is a *ControlError. When ctx ends before the answer the request is
// taken back, and the error wraps that of ctx; what the program does is unknown
// then. ErrClosed, ErrLost and ErrProtocol are wrapped as their documentation
// says.
func (s *Session) Control(ctx context.Context, subtype string, fields, response any) error {
	if err := s.control(ctx, subtype, fields, response); err != nil {
		return failed(subtype, err)
	}
	return nil
}

func (s *Session) control(ctx context.Context, subtype string, fields, response any) error {
	request, err := requestOf(subtype, fields)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	reply := make(chan answer, 1)
	s.mu.Lock()
	err = s.unusable()
	id := s.nextID()
	if err == nil {
		s.pending[id] = reply
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pending, id)
	}()
	line := wirejson.AppendString([]byte(`{"type":"control_request","request_id":`), id)
	line = append(append(append(line, `,"request":`...), request...), '}')
	if err := s.write(ctx, line); err != nil {
		return err
	}
	a, err := s.await(ctx, id, reply)
	if err == nil {
		err = a.err
	}
	var refused *ControlError
	if errors.As(err, &refused) {
		refused.Subtype = subtype
	}
	if err == nil && response != nil {
		if decodeErr := wirejson.Unmarshal(a.response, response); decodeErr != nil {
			err = fmt.Errorf("%w: the answer does not fit: %w", ErrProtocol, decodeErr)
		}
	}
	return err
}

// requestOf is the object of a request: its subtype and fields.
func requestOf(subtype string, fields any) ([]byte, error) {
	raw := []byte("{}")
	if fields != nil {
		var err error
		if raw, err = wirejson.Marshal(fields); err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
	}
	if len(raw) < 2 || raw[0] != '{' {
		return nil, errors.New("encode the request: its fields are no object")
	}
	request := wirejson.AppendString([]byte(`{"subtype":`), subtype)
	if len(raw) > 2 {
		request = append(request, ',')
	}
	return append(request, raw[1:]...), nil
}

// await waits for the answer to a request.
func (s *Session) await(ctx context.Context, id string, reply <-chan answer) (answer, error) {
	broken := s.w.Failed()
	var late <-chan time.Time
	for {
		select {
		case a := <-reply:
			return a, nil
		case <-s.down:
			select {
			case a := <-reply:
				return a, nil
			default:
			}
			return answer{}, s.err
		case <-ctx.Done():
			line := wirejson.AppendString([]byte(`{"type":"control_cancel_request","request_id":`), id)
			_ = s.w.Frame(atOnce(), append(line, '}'))
			return answer{}, ctx.Err()
		case <-broken:
			// The program may still be about to answer what it read before, and if it
			// has ended, that is the better news.
			broken = nil
			t := time.NewTimer(failedTime)
			defer t.Stop()
			late = t.C
		case <-late:
			return answer{}, fmt.Errorf("%w: it takes no input: %w", ErrLost, s.w.Err())
		}
	}
}

// ask is Control with an answer of a type.
func ask[T any](ctx context.Context, s *Session, subtype string, fields any) (out T, err error) {
	err = s.Control(ctx, subtype, fields, &out)
	return out, err
}

type object = map[string]any

// Interrupt ends the turn that runs, if one does; its result says so. The answer
// names the messages that still wait.
func (s *Session) Interrupt(ctx context.Context) (streamjson.Interrupted, error) {
	return ask[streamjson.Interrupted](ctx, s, streamjson.SubtypeInterrupt, nil)
}

// InterruptAll is Interrupt for the messages that wait, too: they are taken back.
func (s *Session) InterruptAll(ctx context.Context) (streamjson.Interrupted, error) {
	out, err := ask[streamjson.Interrupted](ctx, s, streamjson.SubtypeInterrupt, object{"cancel_queued": true})
	s.withdrawn(out.Cancelled...)
	return out, err
}

// CancelMessage takes a message back whose turn has not begun; false when it has.
// Its Turn ends with ErrWithdrawn.
func (s *Session) CancelMessage(ctx context.Context, uuid string) (bool, error) {
	out, err := ask[struct {
		Cancelled bool `json:"cancelled"`
	}](ctx, s, streamjson.SubtypeCancelAsyncMessage, object{"message_uuid": uuid})
	if out.Cancelled {
		s.withdrawn(uuid)
	}
	return out.Cancelled, err
}

// SetPermissionMode changes how tool calls are decided on, from the next decision
// on: default, acceptEdits, plan, bypassPermissions or dontAsk.
func (s *Session) SetPermissionMode(ctx context.Context, mode string) error {
	return s.Control(ctx, streamjson.SubtypeSetPermissionMode, object{"mode": mode}, nil)
}

// SetModel changes the model from the next turn on; "" is that of the start.
func (s *Session) SetModel(ctx context.Context, model string) error {
	fields := object{"model": nil}
	if model != "" {
		fields["model"] = model
	}
	return s.Control(ctx, streamjson.SubtypeSetModel, fields, nil)
}

// SetMaxThinkingTokens changes how much the model thinks, from the next turn on
// (spec stream-json 4.7): 0 is not at all, nil the usual.
func (s *Session) SetMaxThinkingTokens(ctx context.Context, tokens *int) error {
	return s.Control(ctx, streamjson.SubtypeSetMaxThinkingTokens, object{"max_thinking_tokens": tokens}, nil)
}

// ApplyFlagSettings changes settings of this session, all of them or none:
// model, effortLevel and permissions.defaultMode (spec stream-json 4.8). settings
// is encoded as an object.
func (s *Session) ApplyFlagSettings(ctx context.Context, settings any) error {
	return s.Control(ctx, streamjson.SubtypeApplyFlagSettings, object{"settings": settings}, nil)
}

// Settings gives the settings by source, and what is in force.
func (s *Session) Settings(ctx context.Context) (streamjson.Settings, error) {
	return ask[streamjson.Settings](ctx, s, streamjson.SubtypeGetSettings, nil)
}

// ContextUsage gives what the last model request held.
func (s *Session) ContextUsage(ctx context.Context) (streamjson.ContextUsage, error) {
	return ask[streamjson.ContextUsage](ctx, s, streamjson.SubtypeGetContextUsage, nil)
}

// MCPStatus gives the MCP servers and their tools.
func (s *Session) MCPStatus(ctx context.Context) (streamjson.MCPStatus, error) {
	return ask[streamjson.MCPStatus](ctx, s, streamjson.SubtypeMCPStatus, nil)
}

// ToggleMCPServer connects or disconnects a server; not while a turn runs.
func (s *Session) ToggleMCPServer(ctx context.Context, server string, enabled bool) error {
	return s.Control(ctx, streamjson.SubtypeMCPToggle, object{"serverName": server, "enabled": enabled}, nil)
}

// ReconnectMCPServer connects to a server anew; not while a turn runs.
func (s *Session) ReconnectMCPServer(ctx context.Context, server string) error {
	return s.Control(ctx, streamjson.SubtypeMCPReconnect, object{"serverName": server}, nil)
}

// SendMCP sends a message of a server in this process that answers none, such as
// the notification that its list of tools has changed (spec stream-json 8.5).
func (s *Session) SendMCP(ctx context.Context, server string, message json.RawMessage) error {
	return s.Control(ctx, streamjson.SubtypeMCPMessage, streamjson.MCPMessage{ServerName: server, Message: message}, nil)
}

// Reloaded is the answer to ReloadPlugins: what there is now.
type Reloaded struct {
	Commands   []streamjson.CommandInfo `json:"commands"`
	Agents     []streamjson.AgentInfo   `json:"agents"`
	Plugins    []streamjson.InitEntry   `json:"plugins"`
	MCPServers []streamjson.MCPServer   `json:"mcpServers"`
	// ErrorCount is how many plugins could not be read.
	ErrorCount int `json:"error_count"`
}

// ReloadPlugins reads commands, agents and plugins anew; not while a turn runs.
func (s *Session) ReloadPlugins(ctx context.Context) (Reloaded, error) {
	return ask[Reloaded](ctx, s, streamjson.SubtypeReloadPlugins, nil)
}

// StopTask ends a subagent or a shell command in the background.
func (s *Session) StopTask(ctx context.Context, taskID string) error {
	return s.Control(ctx, streamjson.SubtypeStopTask, object{"task_id": taskID}, nil)
}

// RewindFiles gives files the state that they had before the turn of a message; a
// dry run only says what that would change. Not while a turn runs. A refusal is an
// answer without CanRewind, not an error.
func (s *Session) RewindFiles(ctx context.Context, messageUUID string, dryRun bool) (streamjson.Rewound, error) {
	return ask[streamjson.Rewound](ctx, s, streamjson.SubtypeRewindFiles, object{"user_message_id": messageUUID, "dry_run": dryRun})
}

// SetEnvironment sets variables for the processes of later tool calls, and for
// credentials. It returns when they are on their way.
func (s *Session) SetEnvironment(ctx context.Context, variables map[string]string) error {
	line, err := wirejson.Marshal(object{"type": streamjson.TypeUpdateEnvironment, "variables": variables})
	if err == nil {
		s.mu.Lock()
		err = s.unusable()
		s.mu.Unlock()
	}
	if err == nil {
		err = s.write(ctx, line)
	}
	if err != nil {
		return failed("set environment", err)
	}
	return nil
}
