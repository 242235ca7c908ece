package toolweb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"dsh/sdkproto"
)

const userAgent = "dsh/" + sdkproto.ServerVersion

// errorBody bounds what is read of an answer that is no page, in bytes.
const errorBody = 8 << 10

// answer is what a server gave.
type answer struct {
	// url is where it came from, after redirects.
	url    *url.URL
	status int
	header http.Header
	// body holds at most what may be read; cut says that there was more.
	body []byte
	cut  bool
	// moved is the other host's URL that a redirect leads to; nil for none.
	moved *url.URL
}

// refusal is an error that the model can do something about.
type refusal struct{ code, text string }

func (e *refusal) Error() string { return e.text }

func refuse(code, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// get follows redirects within the host of u.
func (w *Web) get(ctx context.Context, u *url.URL) (*answer, error) {
	seen := map[string]bool{}
	for {
		if err := w.guard.literal(u.Hostname()); err != nil {
			return nil, w.explain(ctx, u, err)
		}
		seen[u.String()] = true
		resp, err := w.request(ctx, u)
		if err != nil {
			return nil, w.explain(ctx, u, err)
		}
		a, next, err := w.read(resp, u)
		resp.Body.Close()
		if err != nil {
			return nil, w.explain(ctx, u, err)
		}
		if next == nil {
			return a, nil
		}
		switch {
		case seen[next.String()]:
			return nil, refuse("REDIRECT_LOOP", "%s redirects in a circle; it may exist over plain http only, which is not used", shown(u))
		case len(seen) > w.config.Redirects:
			return nil, refuse("TOO_MANY_REDIRECTS", "%s: more than %d redirects", shown(u), w.config.Redirects)
		}
		u = next
	}
}

func (w *Web) request(ctx context.Context, u *url.URL) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", userAgent)
	r.Header.Set("Accept", "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/*;q=0.8, application/json;q=0.8, */*;q=0.1")
	return w.pages().RoundTrip(r)
}

// read takes a response apart: an answer, or the URL to go on with.
func (w *Web) read(resp *http.Response, u *url.URL) (a *answer, next *url.URL, err error) {
	a = &answer{url: u, status: resp.StatusCode, header: resp.Header}
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		next, err := resp.Location()
		if err != nil || len(next.String()) > maxURL {
			return nil, nil, refuse("BAD_REDIRECT", "%s answers %s without a new address that can be read", shown(u), status(a.status))
		}
		if err := w.config.settle(next); err != nil {
			return nil, nil, refuse("BAD_REDIRECT", "%s redirects to an address that is not followed: %v", shown(u), err)
		}
		if sameHost(u, next) {
			return a, next, nil
		}
		a.moved = next
		return a, nil, nil
	}
	most := w.config.MaxBytes
	if a.status != http.StatusOK {
		most = min(most, errorBody)
	} else if err := readable(resp); err != nil {
		return nil, nil, err
	}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	if len(a.body) > most {
		a.body, a.cut = a.body[:most], true
	} else if err != nil && a.status == http.StatusOK {
		return nil, nil, fmt.Errorf("read the answer: %w", err)
	}
	return a, nil, nil
}

// explain says what went wrong with a request, in words for the model. The end of
// the call itself stays what it is.
func (w *Web) explain(ctx context.Context, u *url.URL, err error) error {
	var private *addressError
	var known *refusal
	var name *net.DNSError
	var timeout net.Error
	host := u.Hostname()
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &private):
		return refuse("ADDRESS_REFUSED", "%s is at a %s address, and %s reaches public ones only; whoever runs this can allow it with allowAddresses in the profile", host, private.kind, w.fetchName())
	case errors.Is(context.Cause(ctx), errTimeout):
		return refuse("TIMEOUT", "%s gave no whole answer within %v", host, time.Duration(w.config.Timeout))
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &name) && name.IsNotFound:
		return refuse("NO_SUCH_HOST", "there is no host %s; check the url", host)
	case errors.As(err, &timeout) && timeout.Timeout():
		return refuse("TIMEOUT", "%s does not answer within %v", host, time.Duration(w.config.Connect))
	}
	text := err.Error()
	if record := (tls.RecordHeaderError{}); errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/" {
		text = "it speaks plain http where https was expected"
	}
	return refuse("FETCH_FAILED", "the request to %s failed: %s", host, clip(text, 500))
}

var errTimeout = errors.New("the time for the call is over")

// shown is a URL for people and models.
func shown(u *url.URL) string { return u.Redacted() }

// status is a status code with its name.
func status(code int) string {
	if name := http.StatusText(code); name != "" {
		return fmt.Sprintf("%d %s", code, name)
	}
	return fmt.Sprint(code)
}

// clip bounds text that somebody else wrote.
func clip(s string, most int) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
