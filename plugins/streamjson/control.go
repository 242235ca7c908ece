package streamjson

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"

	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// request is a control request of the host that has no answer yet.
type request struct {
	id, subtype string
	body        json.RawMessage
	ctx         context.Context
	cancel      context.CancelFunc
	// response and err are there already for an urgent one.
	response any
	err      error
	// after runs when the answer is written.
	after func()
}

// operation is what answers a subtype.
type operation struct {
	do func(context.Context, *request) (any, error)
	// urgent ones are done where they are read, between the lines around them, and
	// have a lane of their own for the answer; slow ones do not hold others up, and
	// idle ones are refused while a turn runs (spec stream-json 4.0). Messages do not
	// wait for loose ones, which change nothing.
	urgent, slow, idle, loose bool
}

func (s *Server) allOperations() map[string]operation {
	return map[string]operation{
		streamjson.SubtypeInitialize:           {do: s.initialize},
		streamjson.SubtypeInterrupt:            {do: s.interrupt, urgent: true},
		streamjson.SubtypeCancelAsyncMessage:   {do: s.cancelMessage, urgent: true},
		streamjson.SubtypeSetPermissionMode:    {do: s.setPermissionMode},
		streamjson.SubtypeSetModel:             {do: s.setModel},
		streamjson.SubtypeSetMaxThinkingTokens: {do: s.setMaxThinkingTokens},
		streamjson.SubtypeApplyFlagSettings:    {do: s.applyFlagSettings},
		streamjson.SubtypeGetSettings:          {do: s.getSettings},
		streamjson.SubtypeGetContextUsage:      {do: s.getContextUsage},
		streamjson.SubtypeSeedReadState:        {do: s.seedReadState},
		streamjson.SubtypeMCPMessage:           {do: s.mcpMessage},
		streamjson.SubtypeMCPStatus:            {do: s.mcpStatus},
		streamjson.SubtypeMCPToggle:            {do: s.mcpToggle, slow: true, idle: true},
		streamjson.SubtypeMCPReconnect:         {do: s.mcpReconnect, slow: true, idle: true},
		streamjson.SubtypeMCPSetServers:        {do: mcpSetServers},
		streamjson.SubtypeRenameSession:        {do: s.renameSession},
		streamjson.SubtypeGetSessionCost:       {do: s.sessionCost},
		streamjson.SubtypeListModels:           {do: s.listModels},
		streamjson.SubtypeGetBinaryVersion:     {do: s.binaryVersion},
		streamjson.SubtypeReloadPlugins:        {do: s.reloadPlugins, slow: true, idle: true},
		streamjson.SubtypeReloadSkills:         {do: s.reloadSkills, slow: true},
		streamjson.SubtypeReloadOutputStyles:   {do: s.reloadStyles, slow: true, loose: true},
		streamjson.SubtypeRewindFiles:          {do: s.rewindFiles, slow: true, idle: true},
		streamjson.SubtypeStopTask:             {do: s.endTask},
		streamjson.SubtypeBackgroundTasks:      {do: s.detachTasks},
		streamjson.SubtypeGetTaskOutput:        {do: s.taskOutput},
		streamjson.SubtypeReadFile:             {do: s.readFile, slow: true, loose: true},
		streamjson.SubtypeFileSuggestions:      {do: s.suggestFiles, slow: true, loose: true},
		streamjson.SubtypeSetColor:             {do: s.setColor},
		streamjson.SubtypeSetHasSubscribers:    {do: s.setHasSubscribers},
		streamjson.SubtypeGenerateSessionTitle: {do: s.generateTitle, slow: true, loose: true},
		streamjson.SubtypeSideQuestion:         {do: s.sideQuestion, slow: true, loose: true},
	}
}

// fault is an error answer.
type fault struct {
	text, code string
	// pending, when not nil, lists the open permission requests.
	pending []json.RawMessage
}

func (f *fault) Error() string { return f.text }

// takeRequest puts a control request into its lane. One with the id of another
// that has no answer yet is the same, delivered again (spec stream-json 2.2).
func (s *Server) takeRequest(in streamjson.Input) {
	id, _ := text(in.RequestID)
	if id == "" {
		s.Log.Warn("skipped a control_request without a usable request_id")
		return
	}
	r := &request{id: id, body: slices.Clone(in.Request)}
	r.ctx, r.cancel = context.WithCancel(s.work)
	var head struct {
		Subtype json.RawMessage `json:"subtype"`
	}
	if kindOf(r.body) == '{' && wirejson.Unmarshal(r.body, &head) == nil {
		r.subtype, _ = text(head.Subtype)
	}
	again := false
	s.with(func() {
		if _, again = s.inFlight[id]; again {
			return
		}
		s.inFlight[id] = r
		if !s.operations[r.subtype].loose {
			s.barrier++ // user lines behind it wait (F18; checklist 27)
		}
		if s.operations[r.subtype].urgent {
			s.urgentTaken++
		}
	})
	if again {
		r.cancel()
		return
	}
	lane := s.lane
	if op := s.operations[r.subtype]; op.urgent {
		lane = s.urgent
		r.response, r.err = op.do(r.ctx, r)
	}
	select {
	case lane <- r:
	case <-s.work.Done():
		r.cancel()
	}
}

// withdraw aborts the work on a request that the host does not want any more; its
// answer says so (spec stream-json 2.4).
func (s *Server) withdraw(requestID json.RawMessage) {
	id, _ := text(requestID)
	s.mu.Lock()
	r := s.inFlight[id]
	s.mu.Unlock()
	if r != nil {
		r.cancel()
	}
}

func (s *Server) serveLane(ctx context.Context, lane chan *request) {
	for {
		select {
		case r := <-lane:
			s.serve(r)
		case <-ctx.Done():
			return
		}
	}
}

// serve answers one request, here or, when that may take long, in a goroutine of
// its own.
func (s *Server) serve(r *request) {
	op, known := s.operations[r.subtype]
	switch {
	case kindOf(r.body) != '{':
		s.finishRequest(r, nil, errors.New("request must be an object with a subtype"))
	case !known:
		s.finishRequest(r, nil, &fault{text: "Unsupported control request subtype: " + clip(r.subtype), code: streamjson.CodeUnsupportedRequest})
	case op.urgent:
		s.finishRequest(r, r.response, r.err)
	case op.idle && s.isRunning():
		s.finishRequest(r, nil, &fault{text: r.subtype + " is not allowed while a turn is running", code: streamjson.CodeTurnRunning})
	case op.slow || r.subtype == streamjson.SubtypeInitialize && s.isRunning():
		s.Owner.Go("control request "+r.subtype, func(context.Context) { s.do(op, r) })
	default:
		s.do(op, r)
	}
}

func (s *Server) do(op operation, r *request) {
	var response any
	err := errors.New("internal error; standard error says more")
	s.contain("a control request "+r.subtype, func() { response, err = op.do(r.ctx, r) })
	s.finishRequest(r, response, err)
}

// finishRequest writes the one answer to a request.
func (s *Server) finishRequest(r *request, response any, err error) {
	line, encode := []byte(nil), error(nil)
	if err == nil {
		line, encode = streamjson.AnswerSuccess(r.id, response)
	}
	if encode != nil {
		err = encode
	}
	if err != nil {
		var f *fault
		if !errors.As(err, &f) {
			f = &fault{text: err.Error()}
		}
		line = streamjson.AnswerError(r.id, f.text, f.code, f.pending)
	}
	s.with(func() { delete(s.inFlight, r.id) })
	r.cancel()
	s.reply(s.work, line)
	if r.after != nil {
		s.contain("what follows "+r.subtype, r.after)
	}
	s.with(func() {
		if !s.operations[r.subtype].loose {
			s.barrier--
		}
		if s.operations[r.subtype].urgent {
			s.urgentAnswered++
		}
	})
}

// answerFirst returns when the urgent requests that were read so far are
// answered: what an interrupt ends has its result behind the answer (S041).
func (s *Server) answerFirst() {
	s.mu.Lock()
	taken := s.urgentTaken
	s.mu.Unlock()
	if err := s.await(s.work, func() bool { return s.urgentAnswered >= taken }); err != nil {
		s.Log.Debug("the answers to urgent requests were not waited for", "error", err)
	}
}

// reply writes a control line.
func (s *Server) reply(ctx context.Context, line []byte) {
	if err := s.writer.Frame(ctx, line); err != nil {
		s.Log.Debug("an answer was not written", "error", err)
	}
}

// isRunning reports whether a turn runs (spec stream-json 4.0).
func (s *Server) isRunning() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// fields reads members of a request; the error names the one that is wrong.
func fields[T any](r *request) (T, error) {
	var v T
	err := wirejson.Unmarshal(r.body, &v)
	var located *wirejson.Error
	if errors.As(err, &located) && located.Pointer != "" {
		return v, fmt.Errorf("invalid field %s: %w", located.Pointer[1:], located.Err)
	}
	return v, err
}

// required reads a member that must be a string and not empty.
func required(name string, raw json.RawMessage) (string, error) {
	s, ok := text(raw)
	if !ok || s == "" {
		return "", fmt.Errorf("%s must be a non-empty string", name)
	}
	return s, nil
}

// setEnvironment sets variables of this process: programs that are started later
// and credentials that are read later see them (spec stream-json 2.5). The host
// started the process and chose its environment, so this gives it nothing new.
func (s *Server) setEnvironment(raw json.RawMessage) {
	var variables map[string]json.RawMessage
	if wirejson.Unmarshal(raw, &variables) != nil {
		return
	}
	for name, raw := range variables {
		value, ok := text(raw)
		if !ok {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			s.Log.Warn("an environment variable of the client was not set", "name", clip(name), "error", err)
		}
	}
}

func stack() string { return string(debug.Stack()) }
