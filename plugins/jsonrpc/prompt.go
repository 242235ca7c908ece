package jsonrpc

import (
	"cmp"
	"context"
	"errors"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// message is a request that puts a user message into a session's inbox.
type message struct {
	r *request
	// h is the handshake that the request came behind.
	h *handshake
	promptParams
	// target is the inbox list; mode says how the session may come to be.
	target string
	mode   agent.Mode

	blocks   []sdkproto.Block
	images   []inline // of the blocks, until they are references
	defaults *sessionDefaults
	receipt  agent.Receipt
	err      error
}

// prompt queues one user message on a session, which its first prompt creates
// (spec jsonrpc 2.2). Prompts of one session keep their order.
func (s *Server) prompt(r *request) {
	s.queue(&message{r: r, target: sdkproto.TargetNextTurn, mode: agent.OpenAny})
}

// steer queues one user message on the turn that runs (spec jsonrpc 13.3). It
// makes no session.
func (s *Server) steer(r *request) {
	s.queue(&message{r: r, target: sdkproto.TargetNextStep, mode: agent.OpenResume})
}

func (s *Server) queue(m *message) {
	m.h = s.handshake
	m.promptParams, m.err = decodePrompt(m.r)
	m.r.params = nil
	s.push(m.sessionID, m.r, task{message: m})
}

// workLane does the tasks of one lane. Messages that wait together go into the
// inbox at one moment, before any of them is answered (spec jsonrpc 1.4, 7.2).
func (s *Server) workLane(ctx context.Context, batch []task, done func()) {
	for len(batch) > 0 {
		first := batch[0].message
		if first == nil {
			batch[0].run(ctx)
			done()
			batch = batch[1:]
			continue
		}
		var group []*message
		for len(batch) > 0 && batch[0].message != nil && batch[0].message.h == first.h {
			group = append(group, batch[0].message)
			batch = batch[1:]
		}
		s.deliver(ctx, group)
		for _, m := range group {
			s.serve(ctx, m.r, func(ctx context.Context) ([]byte, error) { return s.answer(ctx, m) })
			done()
		}
	}
}

// answer gives the id of a message that is on the disk. Its receipt is sent
// before.
func (s *Server) answer(ctx context.Context, m *message) ([]byte, error) {
	if m.err != nil {
		return nil, m.err
	}
	if err := m.receipt.Wait(ctx); err != nil {
		return nil, err
	}
	s.book.passed(s.stream, m.sessionID, m.receipt.Seq)
	return wirejson.Marshal(sdkproto.PromptResult{MessageID: m.receipt.ID})
}

// deliver puts messages of one session into its inbox, as far as they are good.
func (s *Server) deliver(ctx context.Context, group []*message) {
	for _, m := range group {
		if s.work.Err() != nil {
			m.err = errShutdown
		}
		m.try(s, func() error { return s.prepare(ctx, m) })
	}
	err := s.enter()
	if err == nil {
		defer s.opening.done(0)
	}
	var to *known
	repeats := map[string]*message{}
	var post []*message
	for _, m := range group {
		if m.err == nil {
			m.err = err
		}
		var k *known
		m.try(s, func() (err error) { k, err = s.session(ctx, m); return err })
		if m.err != nil {
			continue
		}
		if m.key != "" {
			if receipt, ok := k.keys.get(m.key); ok {
				m.receipt = receipt
				continue
			}
			if repeats[m.key] != nil {
				continue
			}
			repeats[m.key] = m
		}
		to = k
		post = append(post, m)
	}
	s.post(to, post)
	for _, m := range group {
		if first := repeats[m.key]; m.key != "" && first != nil && m.err == nil {
			m.receipt, m.err = first.receipt, first.err
		}
	}
}

// post is the one moment. All messages go to one agent: there is no other of
// that session while the lane runs.
func (s *Server) post(to *known, messages []*message) {
	if len(messages) == 0 {
		return
	}
	inbox := make([]agent.Message, len(messages))
	for i, m := range messages {
		inbox[i] = agent.Message{Content: m.blocks, Source: sdkproto.Source{Kind: sdkproto.SourceUser}, Target: m.target}
		m.blocks = nil
	}
	var receipts []agent.Receipt
	messages[0].try(s, func() error { receipts = to.agent.Post(inbox...); return nil })
	for i, m := range messages {
		if receipts == nil {
			m.err = messages[0].err
			continue
		}
		m.receipt = receipts[i]
		if m.key != "" && m.receipt.Err == nil {
			to.keys.put(m.key, m.receipt)
		}
	}
}

// try does one step for a message that is good so far.
func (m *message) try(s *Server, step func() error) {
	if m.err != nil {
		return
	}
	_, m.err = s.contain(m.r.method, func() ([]byte, error) { return nil, step() })
}

// prepare does what can be done before the session is opened.
func (s *Server) prepare(ctx context.Context, m *message) (err error) {
	raw := m.promptParams.blocks
	m.promptParams.blocks = nil // may be large, and what follows may wait
	if m.blocks, m.images, err = decodeBlocks(m.r.method, raw); err != nil {
		return err
	}
	if len(m.images) > 0 && s.attachments == nil {
		return errNoAttachments
	}
	if m.defaults, err = s.initialized(ctx, m.h); err != nil || len(m.images) == 0 {
		return err
	}
	// The session must be the live one before images are kept for it, and is
	// looked at again behind that, which takes its time (spec jsonrpc 2.8).
	k, err := s.live(m.sessionID)
	if err != nil {
		return err
	}
	if k != nil && m.key != "" {
		if _, again := k.keys.get(m.key); again {
			return nil // nothing of it will be used
		}
	}
	return s.keepImages(m)
}

// initialized waits for the handshake that a request came behind.
func (s *Server) initialized(ctx context.Context, h *handshake) (*sessionDefaults, error) {
	if h == nil {
		return nil, errNoInit
	}
	select {
	case <-h.done:
	case <-s.work.Done():
		return nil, errShutdown
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if h.session == nil {
		return nil, errNoInit
	}
	return h.session, nil
}

// known is a session that the server has fed.
type known struct {
	agent agent.Agent
	// keys are used in the session's lane only.
	keys keys
}

// session gives the agent that the messages of a session go to. Once known it
// must stay the live one (spec jsonrpc 7.4).
func (s *Server) session(ctx context.Context, m *message) (*known, error) {
	k, err := s.live(m.sessionID)
	if k != nil || err != nil {
		return k, err
	}
	a, err := s.open(ctx, m)
	if err != nil {
		return nil, err
	}
	return s.know(a), nil
}

// live gives a session that the server has fed, nil for any other.
func (s *Server) live(id string) (*known, error) {
	s.mu.Lock()
	k := s.sessions[id]
	s.mu.Unlock()
	if k == nil {
		return nil, nil
	}
	if live, ok := s.agents.Get(id); !ok || live != k.agent {
		return nil, failure(sdkproto.ErrSessionDisposed, "session agent was disposed outside the server: %s", id)
	}
	return k, nil
}

func (s *Server) know(a agent.Agent) *known {
	k := &known{agent: a}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[a.ID()] = k
	return k
}

// open makes a session live. Options of the prompt are for a session that is
// made by it: one that is stored takes the route of initialize.
func (s *Server) open(ctx context.Context, m *message) (agent.Agent, error) {
	spec := s.spec(m.sessionID, m.defaults)
	if m.options == nil {
		return s.agents.Open(ctx, spec, m.mode)
	}
	a, err := s.agents.Open(ctx, spec, agent.OpenResume)
	if !errors.Is(err, session.ErrNotFound) {
		return a, err
	}
	spec.Route = llm.Route{
		Provider:        cmp.Or(m.options.Provider, spec.Route.Provider),
		Model:           cmp.Or(m.options.Model, spec.Route.Model),
		MaxTokens:       cmp.Or(m.options.MaxTokens, spec.Route.MaxTokens),
		ReasoningEffort: cmp.Or(m.options.ReasoningEffort, spec.Route.ReasoningEffort),
	}
	if err := s.checkRoute(ctx, spec.Route, "options."); err != nil {
		return nil, err
	}
	return s.agents.Open(ctx, spec, m.mode)
}

// spec describes a root session. The filter of the row holds for each (S111).
func (s *Server) spec(id string, d *sessionDefaults) agent.Spec {
	return agent.Spec{ID: id, CWD: d.cwd, Route: d.route, Tools: s.tools}
}

// maxKeys is how many idempotency keys of a session are remembered.
const maxKeys = 1000

// keys remembers what became of the messages with an idempotency key: the
// latest maxKeys of them, for as long as the session is known.
type keys struct {
	receipts map[string]agent.Receipt
	order    []string
}

func (k *keys) get(key string) (agent.Receipt, bool) {
	r, ok := k.receipts[key]
	return r, ok
}

func (k *keys) put(key string, r agent.Receipt) {
	if k.receipts == nil {
		k.receipts = map[string]agent.Receipt{}
	}
	if len(k.order) == maxKeys {
		delete(k.receipts, k.order[0])
		k.order = k.order[1:]
	}
	k.receipts[key] = r
	k.order = append(k.order, key)
}
