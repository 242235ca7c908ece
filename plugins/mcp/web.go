package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// streamWait is how long to wait until a server accepts the stream for what it
// says by itself; some hold the request open without an answer.
const streamWait = 2 * time.Second

// web is the HTTP side of a connection. It implements http.RoundTripper.
type web struct {
	base    *http.Transport
	origin  *url.URL
	headers http.Header
	// streams: a GET opens the stream for what the server says by itself.
	streams bool
	// refused: the last request was refused for want of a login.
	refused atomic.Bool
}

// transport makes what the SDK connects through.
func (c *conn) transport() (sdk.Transport, error) {
	if c.s.host != nil {
		c.hosted = newHosted(c)
		return c.hosted, nil
	}
	kind := c.s.transport()
	if kind == transportStdio {
		c.s.m.starts.Add(1)
		var err error
		marker := fmt.Sprintf("%s.%d.", c.s.m.marker, c.s.m.starts.Load())
		if c.child, err = c.s.start(c.target, marker, c.said); err != nil {
			return nil, &permanentError{fmt.Errorf("start the program: %w", err)}
		}
		return newStdioConn(c.child, c.said, c.s.m.grace), nil
	}
	u, err := url.Parse(c.target.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, &permanentError{errors.New("the url is no address; use one like https://host/path")}
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	c.web = &web{base: base, origin: u, headers: c.target.headers, streams: kind == transportHTTP}
	client := &http.Client{Transport: c.web}
	if kind == transportSSE {
		return &sdk.SSEClientTransport{Endpoint: c.target.url, HTTPClient: client, MaxEventSize: maxMessage}, nil
	}
	t := &sdk.StreamableClientTransport{Endpoint: c.target.url, HTTPClient: client, MaxEventSize: maxMessage, MaxRetries: 3}
	if !c.s.OAuth.Off && c.target.headers.Get("Authorization") == "" {
		if t.OAuthHandler, err = c.s.login(c); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// RoundTrip implements http.RoundTripper.
func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.URL.Scheme == w.origin.Scheme && r.URL.Host == w.origin.Host {
		// Headers may hold credentials: they go to the server that was named, not to
		// where it sends us.
		for name, values := range w.headers {
			r.Header[name] = values
		}
	}
	if r.Method == http.MethodPost && r.Body != nil {
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
		body = wireBody(body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		wireHeader(r.Header)
	}
	if w.streams && r.Method == http.MethodGet && r.Header.Get("Accept") == "text/event-stream" {
		return w.stream(r)
	}
	resp, err := w.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	w.refused.Store(resp.StatusCode == http.StatusUnauthorized)
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxMessage}
	}
	return resp, nil
}

// boundedBody fails when it is longer than it may be.
type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the answer is longer than %d MiB", maxMessage>>20)
	}
	return n, err
}

// stream opens the stream for what the server says by itself. When the server
// does not answer soon, the stream counts as open, and whatever comes later
// comes: connecting does not wait for it.
func (w *web) stream(r *http.Request) (*http.Response, error) {
	type outcome struct {
		resp *http.Response
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		resp, err := w.base.RoundTrip(r)
		done <- outcome{resp, err}
	}()
	timer := time.NewTimer(streamWait)
	defer timer.Stop()
	select {
	case o := <-done:
		return o.resp, o.err
	case <-timer.C:
	}
	late := &lateBody{ctx: r.Context(), ready: make(chan struct{})}
	go func() {
		o := <-done
		if o.err == nil && (o.resp.StatusCode != http.StatusOK || !strings.HasPrefix(o.resp.Header.Get("Content-Type"), "text/event-stream")) {
			o.resp.Body.Close()
			o.resp = nil
		}
		late.arrive(o.resp)
	}()
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: late, ContentLength: -1, Request: r,
	}, nil
}

// lateBody is a body that has not come yet. One that never comes is silent
// until its request ends.
type lateBody struct {
	ctx   context.Context
	ready chan struct{}

	mu     sync.Mutex
	closed bool
	body   io.ReadCloser
}

func (b *lateBody) arrive(resp *http.Response) {
	if resp == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		resp.Body.Close()
		return
	}
	b.body = resp.Body
	close(b.ready)
}

func (b *lateBody) Read(p []byte) (int, error) {
	select {
	case <-b.ready:
		return b.body.Read(p)
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

func (b *lateBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.body != nil {
		return b.body.Close()
	}
	return nil
}

// explain says in an error what the SDK leaves out: that the server wants a
// login. An address in an error may hold secrets, and is left out.
func (w *web) explain(err error) error {
	var login *loginError
	if errors.As(err, &login) {
		return login
	}
	if w.refused.Load() {
		return &loginError{"the server refuses the request (401 Unauthorized): it wants a login; set headers, bearerEnv or oauth"}
	}
	var u *url.Error
	if errors.As(err, &u) {
		return fmt.Errorf("%s: %w", u.Op, u.Err)
	}
	return err
}

func (w *web) close() { w.base.CloseIdleConnections() }

// loginError says that a person is needed.
type loginError struct{ text string }

func (e *loginError) Error() string { return e.text }
