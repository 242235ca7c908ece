package toolweb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// maxURL bounds a URL, in bytes.
const maxURL = 4096

// target reads what a model gave as the URL of a page. Its errors are for the
// model.
func (c *Config) target(text string) (*url.URL, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, errors.New("the url is empty; give one like https://example.com/page")
	}
	if len(text) > maxURL {
		return nil, fmt.Errorf("the url has %d bytes and may have %d", len(text), maxURL)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the url cannot be read; give one like https://example.com/page")
	}
	return u, c.settle(u)
}

// settle checks a URL and makes it the one that is requested.
func (c *Config) settle(u *url.URL) error {
	u.Scheme = strings.ToLower(u.Scheme)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("the url must begin with https:// or http://")
	case u.Hostname() == "" || u.Opaque != "":
		return errors.New("the url names no host; give one like https://example.com/page")
	case u.User != nil:
		return errors.New("the url holds a user or password, which would be sent in the clear to whoever it names; leave that out")
	}
	u.Host = strings.ToLower(u.Host)
	u.Fragment, u.RawFragment = "", ""
	if u.Path == "" {
		u.Path = "/"
	}
	if u.Scheme == "http" && !c.KeepHTTP && !isLocal(u.Hostname()) && (u.Port() == "" || u.Port() == "80") {
		u.Scheme = "https"
		u.Host = strings.TrimSuffix(u.Host, ":80")
	}
	return nil
}

// isLocal reports whether a host is not a name of the public internet: such have
// no certificate.
func isLocal(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || isLocalhost(host)
}

func isLocalhost(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// sameHost reports whether two URLs are under one host, as permission rules see
// it.
func sameHost(a, b *url.URL) bool {
	name := func(u *url.URL) string { return strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) }
	return name(a) == name(b)
}

// guard keeps requests away from addresses that are not public.
type guard struct{ allow []netip.Prefix }

// newGuard takes what Config.Validate has passed.
func newGuard(allow []string) *guard {
	g := &guard{}
	for _, text := range allow {
		if p, err := netip.ParsePrefix(text); err == nil {
			g.allow = append(g.allow, p.Masked())
		}
	}
	return g
}

// addressError says that an address is not to be reached.
type addressError struct{ kind string }

func (e *addressError) Error() string { return "it is at a " + e.kind + " address" }

// check refuses an address that is not public, with an *addressError.
func (g *guard) check(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	for _, p := range g.allow {
		if p.Contains(a) {
			return nil
		}
	}
	if kind := special(a); kind != "" {
		return &addressError{kind}
	}
	return nil
}

// special says what kind of address it is that is not one of the public internet,
// "" for one that is. The blocks are those of the special-purpose registries (RFC
// 6890).
func special(a netip.Addr) string {
	switch {
	case a.IsLoopback():
		return "loopback"
	case a.IsPrivate():
		return "private"
	case a.IsLinkLocalUnicast(), isIn(a, "168.63.129.16/32"):
		// Clouds tell programs their credentials at such.
		return "link-local"
	case a.Is4():
		if a.IsMulticast() || isIn(a, "0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
			"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4") {
			return "reserved"
		}
		return ""
	}
	b := a.As16()
	switch {
	case isIn(a, "64:ff9b::/96"): // an IPv4 address behind a translator
		return special(netip.AddrFrom4([4]byte(b[12:16])))
	case isIn(a, "2002::/16"): // one that it is tunnelled to
		return special(netip.AddrFrom4([4]byte(b[2:6])))
	case !isIn(a, "2000::/3"), isIn(a, "2001::/23", "2001:db8::/32", "3fff::/20"):
		return "reserved"
	}
	return ""
}

func isIn(a netip.Addr, blocks ...string) bool {
	for _, b := range blocks {
		if netip.MustParsePrefix(b).Contains(a) {
			return true
		}
	}
	return false
}

// literal refuses a host that needs no resolver to be known as not public.
func (g *guard) literal(host string) error {
	if a, err := netip.ParseAddr(host); err == nil {
		return g.check(a)
	}
	if isLocalhost(host) {
		return g.check(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return nil
}

// control sees each address before a connection to it is made, whatever name it
// came from: a name that was checked before might resolve to another one now.
func (g *guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("read the address that a name resolved to: %w", err)
	}
	return g.check(a.Addr())
}

// newTransport makes one that guards its connections. Through a proxy there is
// one address that is dialled, and the profile chose it.
func newTransport(connect time.Duration, proxy string, dialer *net.Dialer, g *guard) *http.Transport {
	dialer.Timeout = connect
	t := &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: connect, ForceAttemptHTTP2: true,
		MaxIdleConns: 8, MaxConnsPerHost: 8, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 256 << 10,
	}
	if u, err := checkURL(proxy); err == nil {
		t.Proxy = http.ProxyURL(u)
	} else if g != nil {
		dialer.ControlContext = g.control
	}
	return t
}
