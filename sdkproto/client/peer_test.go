package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"dsh/sdkproto"
	"dsh/sdkproto/client"
)

const serverInfo = `{"serverInfo":{"name":"deepseek-harness-sdk-runtime","version":"0.0.1"}}`

// request is a line of the client.
type request struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Error  json.RawMessage
	raw    string
}

// peer is the server's side of a wire, played by a test.
type peer struct {
	in  *bufio.Reader
	out io.WriteCloser
}

func newPeer(in io.Reader, out io.WriteCloser) *peer { return &peer{bufio.NewReader(in), out} }

// next is the next line of the client; ok is false at the end of input.
func (p *peer) next() (r request, ok bool) {
	line, err := p.in.ReadString('\n')
	if err != nil {
		return request{}, false
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		panic(fmt.Sprintf("client sent %q: %v", line, err))
	}
	r.raw = strings.TrimSuffix(line, "\n")
	return r, true
}

// send writes lines. The client may be gone, so errors mean nothing here.
func (p *peer) send(lines ...string) {
	for _, l := range lines {
		io.WriteString(p.out, l+"\n")
	}
}

func (p *peer) answer(r request, result string) {
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, result))
}

func (p *peer) refuse(r request, code int, message string) {
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, r.ID, code, message))
}

// serve answers the handshake, hands every other request to handle, and ends as
// a server does: after shutdown, or at the end of input. A handle that returns
// false ends it early.
func (p *peer) serve(handle func(request) bool) {
	defer p.out.Close()
	for {
		r, ok := p.next()
		if !ok {
			return
		}
		switch r.Method {
		case sdkproto.MethodInitialize:
			p.answer(r, serverInfo)
		case sdkproto.MethodShutdown:
			p.answer(r, `{}`)
			return
		default:
			if !handle(r) {
				return
			}
		}
	}
}

// wire is a client's two streams and the server behind them.
type wire struct {
	io.Reader
	io.WriteCloser
	done chan struct{} // closed when the server has ended
}

// newWire starts a server.
func newWire(server func(*peer)) *wire {
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	w := &wire{fromServer, toServer, make(chan struct{})}
	go func() {
		defer close(w.done)
		defer fromClient.Close()
		defer toClient.Close()
		server(newPeer(fromClient, toClient))
	}()
	return w
}

// attach connects a client to a server that is played by handle. Both have
// ended when the test is over.
func attach(t *testing.T, limits client.Limits, handle func(*peer, request) bool) *client.Client {
	t.Helper()
	w := newWire(func(p *peer) { p.serve(func(r request) bool { return handle(p, r) }) })
	c, err := client.Attach(t.Context(), w.Reader, w.WriteCloser, sdkproto.InitializeParams{CWD: "/w", Provider: "p", Model: "m"}, limits)
	if err != nil {
		t.Fatalf("attach: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(deadline(t)); err != nil {
			t.Errorf("close: %v", err)
		}
		<-w.done
	})
	return c
}

// deadline is a bound against hangs, good for cleanups as well.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// Frames of spec jsonrpc 2.4 to 2.7.

func event(session, typ, data string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":%q,"event":{"type":%q,"seq":7,"time":1796028709559,"data":%s}}}`, session, typ, data)
}

func status(session, s string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"session.status","params":{"sessionId":%q,"status":%q}}`, session, s)
}

func receipt(session, message string) string {
	return event(session, "agent/inbox/spliced", fmt.Sprintf(`{"target":"next-turn","start":0,"inserted":[{"content":[],"source":{"kind":"user"},"role":"user","id":%q}]}`, message))
}

func answered(session, text string) string {
	return event(session, "assistant/message", fmt.Sprintf(`{"turn":1,"step":1,"message":{"role":"assistant","content":[{"type":"text","text":%q}],"source":{"kind":"model"},"id":"x"},"usage":{"inputTokens":10,"outputTokens":3}}`, text))
}

func turnEnd(session, reason string) string {
	return event(session, "turn/end", fmt.Sprintf(`{"turn":1,"reason":%s}`, reason))
}

func started(parent, child string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"subagent.started","params":{"parentSessionId":%q,"childSessionId":%q}}`, parent, child)
}

func finished(parent, child string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"subagent.finished","params":{"provider":"spawn","agentId":%[2]q,"parentSessionId":%[1]q,"childSessionId":%[2]q,"status":"ok","stopReason":"completed"}}`, parent, child)
}

// name says what a notification is, in short.
func name(n client.Notification) string {
	switch {
	case n.Event != nil:
		return n.SessionID + " " + n.Event.Type
	case n.Status != "":
		return n.SessionID + " " + string(n.Status)
	case n.Started != nil:
		return n.Started.ParentSessionID + " started " + n.Started.ChildSessionID
	case n.Finished != nil:
		return n.Finished.ParentSessionID + " finished " + n.Finished.ChildSessionID
	}
	return n.SessionID + " " + n.Method
}

// names ranges to the end.
func names(seq func(func(client.Notification, error) bool)) (all []string, err error) {
	for n, e := range seq {
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		all = append(all, name(n))
	}
	return all, err
}
