package toolweb

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/tool"
	"dsh/plugins/internal/dialect"
	"dsh/sdkproto"
)

// Web offers the tools WebFetch and WebSearch, or web_fetch and web_search.
type Web struct {
	config      Config
	owner       *kernel.Owner
	log         *slog.Logger
	tools       *tool.Registry
	credentials credential.Source

	guard *guard
	// pageDialer makes the connections for pages, unless a proxy does.
	pageDialer net.Dialer
	// pages and service are what requests go through.
	pages, service func() *http.Transport
	converter      func() *converter.Converter
	cache          cache
	// fetching and converting bound what happens at once.
	fetching, converting chan struct{}
}

// New makes the tools; register puts them where the agents find them.
func New(p Params) *Web {
	c := p.Config
	w := &Web{
		config: c, owner: p.Self.Owner, log: p.Self.Log, tools: p.Tools, credentials: p.Credentials,
		guard:     newGuard(c.AllowAddresses),
		cache:     cache{keep: time.Duration(c.CacheFor), most: c.CacheBytes},
		fetching:  make(chan struct{}, maxFetches),
		converter: sync.OnceValue(newConverter), converting: make(chan struct{}, conversions),
	}
	w.pages = sync.OnceValue(func() *http.Transport {
		return w.closing(newTransport(time.Duration(c.Connect), c.Proxy, &w.pageDialer, w.guard))
	})
	// The profile names the search service, so it may be anywhere.
	w.service = sync.OnceValue(func() *http.Transport {
		return w.closing(newTransport(time.Duration(c.Connect), c.Search.Proxy, &net.Dialer{}, nil))
	})
	return w
}

func (w *Web) register() error {
	if w.config.fetches() {
		if err := w.tools.Register(w.owner, w.fetchTool()); err != nil {
			return err
		}
	}
	if w.config.Search.URL == "" && w.config.Search.Absent == absentHide {
		return nil
	}
	return w.tools.Register(w.owner, w.searchTool())
}

// closing has a transport closed with the row. Once the owner is closed no call
// runs any more, so none is made that would stay.
func (w *Web) closing(t *http.Transport) *http.Transport {
	if err := w.owner.OnClose("connections", func(context.Context) error {
		t.CloseIdleConnections()
		return nil
	}); err != nil {
		t.DisableKeepAlives = true
	}
	return t
}

// bound gives a call its time, and ends it with the row.
func (w *Web) bound(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(w.owner.Context(), func() { end(kernel.ErrClosed) })
	ctx, cancel := context.WithTimeoutCause(ctx, most, errTimeout)
	return ctx, func() { cancel(); stop(); end(nil) }
}

func (w *Web) fetchName() string {
	if w.config.Dialect == dialect.Claude {
		return "WebFetch"
	}
	return "web_fetch"
}

func (w *Web) searchName() string {
	if w.config.Dialect == dialect.Claude {
		return "WebSearch"
	}
	return "web_search"
}

// face makes a result that of the dialect: that of dsh has no structured one, and
// its errors say that they are some.
func (w *Web) face(r tool.Result, err error) (tool.Result, error) {
	if w.config.Dialect == dialect.Claude || err != nil {
		return r, err
	}
	r.Meta = nil
	if r.IsError {
		r.Content = []sdkproto.Block{sdkproto.Text("Error: " + sdkproto.TextOf(r.Content))}
	}
	return r, nil
}
