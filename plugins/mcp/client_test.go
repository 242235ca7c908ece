package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"dsh/kernel"
	"dsh/kernel/agent"
	contract "dsh/kernel/mcp"
	"dsh/sdkproto/wirejson"
)

// bridge is a client that hosts a server on the SDK's own server side: what comes
// through Call goes to the server, and what the server says comes back as an
// answer or is delivered, as the SDKs of the wire do it.
type bridge struct {
	t       *testing.T
	deliver contract.Deliver
	to      contract.Deliver
	fromUs  chan jsonrpc.Message
	life    context.Context
	session *sdk.ServerSession
	heard   *sent

	mu    sync.Mutex
	waits map[string]chan json.RawMessage
}

func newBridge(t *testing.T, server *sdk.Server) *bridge {
	t.Helper()
	life, cancel := context.WithCancel(context.Background())
	b := &bridge{t: t, fromUs: make(chan jsonrpc.Message), life: life, waits: map[string]chan json.RawMessage{}, heard: &sent{}}
	session, err := server.Connect(context.Background(), b, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.session = session
	t.Cleanup(func() {
		cancel()
		_ = session.Close()
		_ = session.Wait()
	})
	return b
}

func (b *bridge) Connect(context.Context) (sdk.Connection, error) { return b, nil }
func (b *bridge) SessionID() string                               { return "" }
func (b *bridge) Close() error                                    { return nil }

func (b *bridge) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case msg := <-b.fromUs:
		return msg, nil
	case <-b.life.Done():
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *bridge) Write(_ context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	if r, ok := msg.(*jsonrpc.Response); ok {
		b.mu.Lock()
		answer := b.waits[fmt.Sprint(r.ID.Raw())]
		b.mu.Unlock()
		if answer != nil {
			answer <- data
		}
		return nil
	}
	return b.deliver(data)
}

// Call implements contract.Host.
func (b *bridge) Call(ctx context.Context, message json.RawMessage) (json.RawMessage, error) {
	b.heard.add(message)
	msg, err := jsonrpc.DecodeMessage(message)
	if err != nil {
		return nil, err
	}
	answer := make(chan json.RawMessage, 1)
	r, _ := msg.(*jsonrpc.Request)
	if r != nil && r.IsCall() {
		b.mu.Lock()
		b.waits[fmt.Sprint(r.ID.Raw())] = answer
		b.mu.Unlock()
	} else {
		answer <- nil
	}
	select {
	case b.fromUs <- msg:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-b.life.Done():
		return nil, contract.ErrHostClosed
	}
	select {
	case reply := <-answer:
		return reply, nil
	case <-ctx.Done():
		b.heard.withdraw(message)
		return nil, context.Cause(ctx)
	case <-b.life.Done():
		return nil, contract.ErrHostClosed
	}
}

// script is a client whose servers do what a test says.
type script struct {
	heard sent
	says  func(ctx context.Context, m said) (json.RawMessage, error)
}

// said is a message to a hosted server.
type said struct {
	ID     *int64 `json:"id"`
	Method string `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Cursor    string          `json:"cursor"`
		RequestID int64           `json:"requestId"`
		Protocol  string          `json:"protocolVersion"`
		Meta      struct {
			Call  string `json:"claudecode/toolUseId"`
			Token any    `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func (s *script) Call(ctx context.Context, message json.RawMessage) (json.RawMessage, error) {
	m := s.heard.add(message)
	reply, err := s.says(ctx, m)
	if ctx.Err() != nil {
		time.Sleep(30 * time.Millisecond) // the line has to be written
		s.heard.withdraw(message)
	}
	return reply, err
}

// plain answers what every server has to; tools are the names of its tools.
func plain(m said, tools ...string) (json.RawMessage, error) {
	switch {
	case m.ID == nil || m.Method == "":
		return nil, nil
	case m.Method == "initialize":
		return m.result(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"app","version":"1.0.0"}}`), nil
	case m.Method == "tools/list":
		list := []map[string]any{}
		for _, name := range tools {
			list = append(list, map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}})
		}
		data, err := wirejson.Marshal(map[string]any{"tools": list})
		return m.result(string(data)), err
	}
	return json.RawMessage(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"no such method"}}`, *m.ID)), nil
}

func (m said) result(result string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, *m.ID, result))
}

func (m said) text(text string) json.RawMessage {
	return m.result(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text))
}

// sent keeps what a client has heard.
type sent struct {
	mu        sync.Mutex
	messages  []said
	withdrawn []string
}

func (s *sent) add(message json.RawMessage) said {
	var m said
	if err := wirejson.Unmarshal(message, &m); err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, m)
	return m
}

func (s *sent) withdraw(message json.RawMessage) {
	var m said
	_ = wirejson.Unmarshal(message, &m)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withdrawn = append(s.withdrawn, m.Method)
}

func (s *sent) all() []said {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages)
}

func (s *sent) methods() (names []string) {
	for _, m := range s.all() {
		names = append(names, m.Method)
	}
	return names
}

func (s *sent) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.withdrawn)
}

// hosting is a rig without servers of its own; front owns what is attached.
type hosting struct {
	*rig
	front *kernel.Owner
	hooks *agent.Hooks
}

func host(t *testing.T, c Config, change ...func(*Params)) *hosting {
	t.Helper()
	h := &hosting{hooks: agent.NewHooks()}
	h.rig = start(t, c, append(change, func(p *Params) { p.Hooks = h.hooks })...)
	h.front = h.owner.Child("front")
	return h
}

// attach adds a server and waits until it is settled.
func (h *hosting) attach(name string, to contract.Host) contract.Deliver {
	h.t.Helper()
	deliver, err := h.Attach(h.front, name, to)
	if err != nil {
		h.t.Fatal(err)
	}
	h.settled()
	return deliver
}

func (h *hosting) bridge(name string, server *sdk.Server) *bridge {
	h.t.Helper()
	b := newBridge(h.t, server)
	ready := make(chan struct{})
	b.deliver = func(m json.RawMessage) error { <-ready; return b.to(m) }
	b.to, _ = h.Attach(h.front, name, b)
	close(ready)
	h.settled()
	return b
}

func (h *hosting) settled() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), limit)
	defer cancel()
	if err := h.Settled(ctx); err != nil {
		h.t.Fatal(err)
	}
}

// turn is the start of one.
func (h *hosting) turn(depth int) {
	h.t.Helper()
	if _, err := h.hooks.Context(h.t.Context(), kernel.Now, agent.Opening{SessionID: "s", Depth: depth}); err != nil {
		h.t.Fatal(err)
	}
}

var errWithdrawn = errors.New("withdrawn")

// never answers.
func never(ctx context.Context) (json.RawMessage, error) {
	<-ctx.Done()
	return nil, errors.Join(errWithdrawn, context.Cause(ctx))
}
