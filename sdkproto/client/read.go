package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"dsh/sdkproto"
	"dsh/sdkproto/ndjson"
	"dsh/sdkproto/wirejson"
)

// generations bounds the walk from a session to its ancestors, against a server
// that names itself its own. Real depth is below ten (spec jsonrpc 8.4).
const generations = 64

// lineage leads from a session to its parent.
type lineage map[string]string

// within reports whether the session is root or a descendant of it.
func (l lineage) within(root, session string) bool {
	for range generations {
		if session == root {
			return true
		}
		parent, ok := l[session]
		if !ok {
			return false
		}
		session = parent
	}
	return false
}

// frame is a line of the server before it is known what it is.
type frame struct {
	ID     json.RawMessage `json:"id"`
	Method json.RawMessage `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// read is the goroutine that takes everything the server sends. It waits for
// nothing but the server.
func (c *Client) read() {
	err := c.readFrames()
	if c.proc != nil {
		c.proc.OutRead()
	}
	c.lose(c.loss(err))
}

func (c *Client) readFrames() error {
	r := ndjson.NewReader(counted{c.out, &c.reads}, c.limits.Line)
	// A refusal to the server is sent only if there is room for it.
	atOnce, cancel := context.WithCancel(context.Background())
	cancel()
	var targets []listener
	for {
		line, tooLong, err := r.Next()
		if err != nil {
			return err
		}
		if tooLong {
			c.failWaiters(fmt.Errorf("%w: it sent a line of more than %d bytes; raise Limits.Line", ErrProtocol, c.limits.Line))
			continue
		}
		var f frame
		if err := wirejson.Unmarshal(line, &f); err != nil {
			c.skipped.Add(1)
			continue
		}
		hasID := isString(f.ID) || isNumber(f.ID)
		switch {
		case isString(f.Method) && hasID:
			if !c.approvals.take(&f) {
				c.refuse(atOnce, &f)
			}
		case isString(f.Method):
			targets = c.notify(&f, len(line), targets[:0])
		case hasID:
			c.settle(&f)
		default:
			c.skipped.Add(1)
		}
	}
}

// settle hands an answer to whoever waits for it. One for nobody, because it is
// too late or has a strange id, is dropped (spec jsonrpc 12.6).
func (c *Client) settle(f *frame) {
	var id string
	if isString(f.ID) {
		// The frame was decoded: this cannot fail.
		_ = wirejson.Unmarshal(f.ID, &id)
	}
	c.mu.Lock()
	reply, ok := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if !ok {
		return
	}
	switch {
	case kind(f.Error) == '{':
		e := new(sdkproto.RPCError)
		if err := wirejson.Unmarshal(f.Error, e); err != nil {
			reply <- answer{err: fmt.Errorf("%w: its error answer is malformed: %w", ErrProtocol, err)}
			return
		}
		reply <- answer{err: e}
	case len(f.Result) == 0:
		reply <- answer{err: fmt.Errorf("%w: its answer has neither a result nor an error", ErrProtocol)}
	default:
		reply <- answer{result: f.Result}
	}
}

// refuse answers a request of the server that nobody takes (spec jsonrpc 12.1).
func (c *Client) refuse(atOnce context.Context, f *frame) {
	reply := append([]byte(`{"jsonrpc":"2.0","id":`), f.ID...)
	reply = append(reply, `,"error":{"code":`...)
	reply = wirejson.AppendInt(reply, sdkproto.CodeMethodNotFound)
	reply = append(reply, `,"message":"this client does not answer this request"}}`...)
	if err := c.w.Frame(atOnce, reply); err != nil {
		c.skipped.Add(1)
	}
}

// notify hands a notification to those who want it. targets is scratch space.
func (c *Client) notify(f *frame, size int, targets []listener) []listener {
	var method string
	_ = wirejson.Unmarshal(f.Method, &method)
	if method == sdkproto.NotifyApprovalCancelled {
		c.approvals.withdraw(f.Params)
	}
	c.mu.Lock()
	idle := len(c.listeners) == 0
	c.mu.Unlock()
	if idle && method != sdkproto.NotifySubagentStarted {
		return targets
	}
	n := newNotification(method, f.Params)

	c.mu.Lock()
	if n.Started != nil {
		c.parents[n.Started.ChildSessionID] = n.Started.ParentSessionID
	}
	for l := range c.listeners {
		if l.wants(&n, c.parents) {
			targets = append(targets, l)
		}
	}
	c.mu.Unlock()
	for i, l := range targets {
		l.offer(item{n, size})
		targets[i] = nil
	}
	return targets
}

// failWaiters fails every call and every listener of this moment.
func (c *Client) failWaiters(err error) {
	c.mu.Lock()
	pending, listeners := c.pending, c.listeners
	c.pending, c.listeners = map[string]chan answer{}, map[listener]struct{}{}
	c.mu.Unlock()
	for _, reply := range pending {
		reply <- answer{err: err}
	}
	for l := range listeners {
		l.fail(err)
	}
}

// loss says why nothing comes from the server any more.
func (c *Client) loss(readErr error) error {
	if c.proc != nil {
		return c.proc.Lost()
	}
	if errors.Is(readErr, io.EOF) {
		return fmt.Errorf("%w: it closed its output", ErrLost)
	}
	return fmt.Errorf("%w: %w", ErrLost, readErr)
}

// lose ends everything that waits for the server.
func (c *Client) lose(err error) {
	c.mu.Lock()
	if c.closing {
		err = ErrClosed
	}
	c.err = err
	listeners := c.listeners
	c.listeners = nil
	c.mu.Unlock()
	close(c.down)
	c.approvals.stop(err)
	for l := range listeners {
		l.fail(err)
	}
}

func isString(v json.RawMessage) bool { return kind(v) == '"' }

func isNumber(v json.RawMessage) bool {
	k := kind(v)
	return k == '-' || '0' <= k && k <= '9'
}

// kind is the first byte of a value, which tells its type.
func kind(v json.RawMessage) byte {
	if len(v) == 0 {
		return 0
	}
	return v[0]
}
