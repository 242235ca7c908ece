package chatwire

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// Options say which endpoint a Client speaks to, and how.
type Options struct {
	Dialect Dialect
	// Messages is set to speak that protocol in place of chat completions.
	Messages *Messages
	// BaseURL is what the path of the protocol is put behind, /chat/completions or
	// /v1/messages; see CheckURL.
	BaseURL string
	// KeyName is the credential that is sent; "" sends none. TokenName is one that
	// goes before it where it is set, and is sent as "Bearer "; "" is none.
	KeyName, TokenName string
	// Credentials are asked for the key at every request.
	Credentials credential.Source
	// Headers are sent on top of those of the protocol; see CheckHeaders.
	Headers   map[string]string
	UserAgent string
	// Idle bounds the wait for the next bytes, Connect that for a connection.
	Idle, Connect time.Duration
}

// Client makes requests to one endpoint. All methods may be called from any
// goroutine.
type Client struct {
	endpoint
	protocol    protocol
	credentials credential.Source
	header      http.Header
	idle        time.Duration
	connect     time.Duration
	transport   *http.Transport
	shared      sharedHeaders
	// room bounds the requests in flight by the descriptors there are.
	room chan struct{}
	life context.Context
}

// endpoint is where requests go, and what errors say of where they come from.
type endpoint struct {
	base               *url.URL
	host               string
	keyName, tokenName string
}

// protocol is what a Client speaks.
type protocol interface {
	// path is what is put behind the base URL.
	path() []string
	// authorize puts a key into a header; headers of a protocol's own go before.
	authorize(h http.Header, key *key)
	// encodeHeader encodes the part of a request that many requests share.
	encodeHeader(h *sdkproto.Header) (*shared, error)
	// appendRequest appends the body of a request. ctx is for reading images.
	appendRequest(ctx context.Context, dst []byte, req *llm.Request, s *shared) ([]byte, error)
	// refused may make another error of that of an attempt.
	refused(req *llm.Request, err error) error
	// reader takes the answer apart.
	reader(yield func(sdkproto.Chunk) bool, from *response) reader
}

// key is a credential and how it is sent; none at all where the endpoint wants
// none.
type key struct {
	credential.Secret

	name string
	// bearer says that it is a token and no key.
	bearer bool
}

var (
	errIdle   = errors.New("no data came in time")
	errClosed = errors.New("the model adapter was closed")
)

// NewClient makes a client that lives as long as its owner. It makes no request.
func NewClient(o *kernel.Owner, opts Options) (*Client, error) {
	u, err := CheckURL(opts.BaseURL)
	if err != nil {
		return nil, err
	}
	c := &Client{
		endpoint:    endpoint{base: u, host: u.Host, keyName: opts.KeyName, tokenName: opts.TokenName},
		protocol:    &opts.Dialect,
		credentials: opts.Credentials,
		header:      http.Header{},
		idle:        opts.Idle,
		connect:     opts.Connect,
		transport:   newTransport(opts.Connect),
		room:        make(chan struct{}, requestsAtOnce(descriptors())),
		life:        o.Context(),
	}
	if opts.Messages != nil {
		c.protocol = opts.Messages
		opts.Messages.prepare(c.header)
	}
	c.header.Set("content-type", "application/json")
	c.header.Set("accept", "text/event-stream")
	c.header.Set("user-agent", opts.UserAgent)
	for name, value := range opts.Headers {
		c.header.Set(name, value)
	}
	return c, o.OnClose("model connections", func(context.Context) error {
		c.transport.CloseIdleConnections()
		return nil
	})
}

// newTransport keeps a connection for each request in flight, whose buffers are
// small: measured, the defaults cost time at a hundred sessions and memory at
// thousands. Nothing bounds a whole request, which may stream for long.
func newTransport(connect time.Duration) *http.Transport {
	one := new(http.Protocols)
	// One connection for each request: a broken one harms no other.
	one.SetHTTP1(true)
	return &http.Transport{
		Protocols:              one,
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: connect, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    connect,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        90 * time.Second,
		ReadBufferSize:         1 << 10,
		WriteBufferSize:        1 << 10,
		MaxResponseHeaderBytes: maxErrorBytes,
		DisableCompression:     true,
	}
}

// requestsAtOnce leaves each request in flight two descriptors, one for its
// connection and one for its session's log, and the rest of the process some.
func requestsAtOnce(descriptors uint64) int {
	const margin, least, most = 256, 16, 1 << 16
	if descriptors == 0 {
		return most
	}
	return int(max(least, min(most, (max(descriptors, margin)-margin)/2)))
}

// CheckURL reads a base URL: http or https, a host, no user and no fragment.
func CheckURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		// The error would quote the text, and with it a password.
		return nil, errors.New("must be a URL like https://api.example.com/v1")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.Opaque != "":
		return nil, errors.New("must begin with https:// or http:// and a host")
	case u.User != nil:
		return nil, errors.New("must not hold a user or password; name a credential instead")
	case u.Fragment != "":
		return nil, errors.New("must not hold a fragment")
	case u.Path == "":
		u.Path = "/"
	}
	return u, nil
}

// CheckHeaders finds names and values that cannot be sent, and names that the
// protocol needs for itself.
func CheckHeaders(headers map[string]string) error {
	var errs []error
	for name, value := range headers {
		switch {
		case !validHeaderName(name):
			errs = append(errs, fmt.Errorf("%q is not a header name", name))
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r > '~' }):
			errs = append(errs, fmt.Errorf("the value of header %s holds characters other than printable ASCII", name))
		}
		switch strings.ToLower(name) {
		case "content-type", "content-length", "transfer-encoding", "connection", "host", "accept-encoding":
			errs = append(errs, fmt.Errorf("header %s belongs to the protocol; remove it", name))
		}
	}
	return errors.Join(errs...)
}

func validHeaderName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// Stream makes one attempt; it is llm.Adapter's Stream.
func (c *Client) Stream(ctx context.Context, req llm.Request) iter.Seq2[sdkproto.Chunk, error] {
	return func(yield func(sdkproto.Chunk, error) bool) {
		listening := true
		err := c.attempt(ctx, &req, func(chunk sdkproto.Chunk) bool {
			if ctx.Err() != nil {
				return false
			}
			listening = yield(chunk, nil)
			return listening
		})
		if !listening || err == nil {
			return
		}
		if errors.Is(err, errStopped) {
			err = ctx.Err()
		}
		yield(sdkproto.Chunk{}, err)
	}
}

func (c *Client) attempt(ctx context.Context, req *llm.Request, yield func(sdkproto.Chunk) bool) error {
	call := &exchange{
		path: c.protocol.path(),
		body: func(run context.Context) ([]byte, error) {
			s, err := c.shared.of(c.protocol, &req.Header)
			if err != nil {
				return nil, err
			}
			return c.protocol.appendRequest(run, make([]byte, 0, sizeOf(req, s)), req, s)
		},
	}
	call.answer = func(resp *http.Response, body io.Reader, from *response) error {
		r := c.protocol.reader(yield, from)
		switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("content-type")); kind {
		case "application/json":
			return readWhole(r, body)
		case "text/html":
			return malformed("%s answered with a web page; check baseUrl", c.host)
		}
		return readStream(r, body)
	}
	if err := c.exchange(ctx, call); err != nil {
		return c.protocol.refused(req, err)
	}
	return nil
}

// exchange is one request and its answer.
type exchange struct {
	path []string
	// body makes the text of the request.
	body func(ctx context.Context) ([]byte, error)
	// answer reads a good answer. Its error is errStopped, an *llm.Error, or what
	// reading gave.
	answer func(resp *http.Response, body io.Reader, from *response) error
}

func (c *Client) exchange(ctx context.Context, call *exchange) error {
	key, err := c.key(ctx)
	if err != nil {
		return err
	}
	select {
	case c.room <- struct{}{}:
		defer func() { <-c.room }()
	case <-ctx.Done():
		return ctx.Err()
	case <-c.life.Done():
		return c.broken(ctx, errClosed, errClosed, key)
	}
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(errClosed) })()

	r, sent, err := c.request(run, call, key)
	switch {
	case err != nil && run.Err() != nil: // while it read an image
		return c.broken(ctx, context.Cause(run), err, key)
	case err != nil:
		return err
	}
	dog := newWatchdog(c.idle, func() { cancel(errIdle) })
	defer dog.stop()
	resp, err := c.transport.RoundTrip(r)
	dog.stop()
	if err != nil {
		return c.broken(ctx, context.Cause(run), err, key)
	}
	defer resp.Body.Close()
	sent.release()
	dog.src = resp.Body

	from := &response{host: c.host, keyName: key.name, header: resp.Header, redact: key.Redact}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		text, _ := io.ReadAll(io.LimitReader(dog, maxErrorBytes))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return from.refused(resp.StatusCode, text)
	}
	err = call.answer(resp, dog, from)
	var known *llm.Error
	switch {
	case err == nil:
		dog.drain()
		return nil
	case errors.Is(err, errStopped):
		return err
	case errors.As(err, &known):
		known.Message = key.Redact(known.Message)
		return from.signed(known)
	}
	return c.broken(ctx, context.Cause(run), err, key)
}

// request builds the HTTP request, and its body to be released.
func (c *Client) request(ctx context.Context, call *exchange, key *key) (*http.Request, *body, error) {
	text, err := call.body(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the model request: %w", err)
	}
	b := &body{text: text}
	to := c.base.JoinPath(call.path...)
	r := (&http.Request{
		Method: http.MethodPost, URL: to, Host: to.Host, Header: c.header.Clone(),
		ContentLength: int64(len(b.text)), GetBody: b.reader,
	}).WithContext(ctx)
	if r.Body, err = b.reader(); err != nil {
		return nil, nil, err
	}
	if !key.IsZero() {
		c.protocol.authorize(r.Header, key)
	}
	return r, b, nil
}

// sizeOf guesses the size of a body, so that it need not grow.
func sizeOf(req *llm.Request, s *shared) int {
	n := 512 + len(s.system) + len(s.tools)
	for i := range req.Messages {
		n += 64
		for j := range req.Messages[i].Content {
			b := &req.Messages[i].Content[j]
			n += 64 + len(b.Text) + len(b.Arguments) + sizeOfImage(req, b)
			for k := range b.Content {
				n += len(b.Content[k].Text) + sizeOfImage(req, &b.Content[k])
			}
		}
	}
	return n + n/16
}

func sizeOfImage(req *llm.Request, b *sdkproto.Block) int {
	const most = 4 << 20 // of one that a store has kept; what others say may be anything
	if req.Image == nil || b.Attachment == nil || b.Attachment.Bytes < 0 {
		return 0
	}
	return base64.StdEncoding.EncodedLen(int(min(b.Attachment.Bytes, most)))
}

// key asks for the credential of a request.
func (c *Client) key(ctx context.Context) (*key, error) {
	if c.tokenName != "" {
		k, err := c.lookup(ctx, c.tokenName)
		var e *llm.Error
		if !errors.As(err, &e) || e.Code != llm.CodeMissingCredential {
			k.bearer = true
			return k, err
		}
	}
	if c.keyName == "" {
		return &key{}, nil
	}
	return c.lookup(ctx, c.keyName)
}

func (c *Client) lookup(ctx context.Context, name string) (*key, error) {
	s, err := c.credentials.Lookup(ctx, name)
	k := &key{Secret: s, name: name}
	var missing *credential.MissingError
	switch {
	case err == nil:
		return k, nil
	case ctx.Err() != nil:
		return k, ctx.Err()
	case errors.As(err, &missing):
		return k, &llm.Error{Code: llm.CodeMissingCredential, Message: err.Error()}
	}
	return k, &llm.Error{Code: llm.CodeInvalidCredential, Message: err.Error()}
}

// broken makes the error of a connection that was not made or did not last, or
// that was given up for a cause. The end of the caller's context comes before
// every other reason.
func (c *Client) broken(ctx context.Context, cause, err error, key *key) error {
	var timeout net.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(cause, errClosed):
		return &llm.Error{Code: llm.CodeAborted, Message: errClosed.Error()}
	case errors.Is(cause, errIdle):
		return &llm.Error{Code: llm.CodeTimeout, Message: fmt.Sprintf("%s sent nothing for %v", c.host, c.idle)}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &llm.Error{Code: llm.CodeTimeout, Message: fmt.Sprintf("no connection to %s within %v", c.host, c.connect)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &llm.Error{Code: llm.CodeTransport, Message: "the connection to " + c.host + " was cut off"}
	}
	return &llm.Error{Code: llm.CodeTransport, Message: fmt.Sprintf("the connection to %s failed: %s", c.host, shorten(key.Redact(err.Error()), maxMessage))}
}
