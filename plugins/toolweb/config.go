package toolweb

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	"dsh/kernel"
	"dsh/plugins/internal/dialect"
)

// Config says what a deployment may choose; an empty one is valid and has no tool:
// under the dialect dsh WebFetch has to be asked for, and searches need a service.
type Config struct {
	// Dialect is dsh or claude: whether the tools are web_fetch and web_search, or
	// WebFetch and WebSearch.
	Dialect dialect.Dialect `json:"dialect" enum:"dsh,claude"`
	// Fetch says whether there is the tool that fetches pages: auto under the dialect
	// claude only, since that of dsh knows none (spec jsonrpc 11.4), always, or never.
	Fetch string `json:"fetch" enum:"auto,always,never"`
	// AllowAddresses are blocks such as 10.0.0.0/8 or ::1/128 whose addresses
	// WebFetch reaches although they are not public.
	AllowAddresses []string `json:"allowAddresses"`
	// KeepHTTP leaves http as it is. Else it becomes https, but for localhost, for
	// addresses in numbers and for ports other than 80.
	KeepHTTP bool `json:"keepHttp"`
	// Proxy is the URL of an HTTP proxy that all pages come through; "" is none, and
	// no variable of the environment is looked at (an `env` of the profile may name
	// one, HTTPS_PROXY: web.proxy). The proxy resolves names, so it has to keep
	// private addresses away; here only those in numbers and localhost are refused.
	Proxy string `json:"proxy"`
	// Connect is how long a connection may take, Timeout how long a whole call:
	// text such as "60s".
	Connect kernel.Duration `json:"connect"`
	Timeout kernel.Duration `json:"timeout"`
	// Redirects bounds how many are followed.
	Redirects int `json:"redirects"`
	// MaxBytes is how much of a page is read, in bytes after decompression. What
	// lies behind is cut off and the result says so.
	MaxBytes int `json:"maxBytes"`
	// ResultBytes bounds the part of a page that one call gives, in bytes.
	ResultBytes int `json:"resultBytes"`
	// CacheFor is how long a page is kept for another call, "0s" for not at all;
	// CacheBytes bounds all that is kept.
	CacheFor   kernel.Duration `json:"cacheFor"`
	CacheBytes int             `json:"cacheBytes"`
	// Search is the service behind WebSearch.
	Search Search `json:"search"`
}

// Search says which service answers searches; the contract is in the package
// comment.
type Search struct {
	// URL is where searches are posted; "" is no service.
	URL string `json:"url"`
	// APIKeyEnv names the credential that is sent as a bearer token; "" sends none.
	APIKeyEnv string `json:"apiKeyEnv"`
	// Proxy is the URL of an HTTP proxy for searches; "" is none.
	Proxy string `json:"proxy"`
	// Count is how many results are asked for and given.
	Count int `json:"count"`
	// Timeout is how long a search may take.
	Timeout kernel.Duration `json:"timeout"`
	// Absent says what becomes of WebSearch without a service: hide leaves the tool
	// out, error has it say what to configure.
	Absent string `json:"absent" enum:"hide,error"`
}

// Values of Config.Fetch.
const (
	fetchAuto   = "auto"
	fetchAlways = "always"
	fetchNever  = "never"
)

// fetches reports whether pages are fetched.
func (c *Config) fetches() bool {
	return c.Fetch == fetchAlways || c.Fetch == fetchAuto && c.Dialect == dialect.Claude
}

// Values of Search.Absent.
const (
	absentHide  = "hide"
	absentError = "error"
)

func defaults() Config {
	return Config{
		Dialect: dialect.DSH, Fetch: fetchAuto,
		Connect: kernel.Duration(10 * time.Second), Timeout: kernel.Duration(60 * time.Second), Redirects: 10,
		MaxBytes: 2 << 20, ResultBytes: 48 << 10, CacheFor: kernel.Duration(15 * time.Minute), CacheBytes: 32 << 20,
		Search: Search{Count: 10, Timeout: kernel.Duration(30 * time.Second), Absent: absentHide},
	}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	var allow error
	for i, text := range c.AllowAddresses {
		if p, err := netip.ParsePrefix(text); err != nil || p.Addr().Is4In6() {
			allow = errors.Join(allow, &kernel.FieldError{
				Pointer: fmt.Sprintf("/allowAddresses/%d", i),
				Msg:     fmt.Sprintf("%q is no block of addresses; write one like 10.0.0.0/8 or ::1/128", text),
			})
		}
	}
	var fetch, absent, service error
	if f := c.Fetch; f != fetchAuto && f != fetchAlways && f != fetchNever {
		fetch = invalid("fetch", "%q is neither %s nor %s nor %s", f, fetchAuto, fetchAlways, fetchNever)
	}
	if a := c.Search.Absent; a != absentHide && a != absentError {
		absent = invalid("search/absent", "%q is neither %s nor %s", a, absentHide, absentError)
	}
	if c.Search.URL != "" {
		u, err := checkURL(c.Search.URL)
		if err == nil && u.User != nil {
			err = errors.New("must not hold a user or password; name a credential in apiKeyEnv instead")
		}
		if err == nil && u.Scheme == "http" && c.Search.APIKeyEnv != "" && !isLocal(u.Hostname()) {
			err = errors.New("must begin with https:// because a key is sent there")
		}
		if err != nil {
			service = invalid("search/url", "%v", err)
		}
	}
	return errors.Join(
		c.Dialect.Check(), fetch, allow, absent, service,
		checkProxy("proxy", c.Proxy),
		checkProxy("search/proxy", c.Search.Proxy),
		positive("connect", c.Connect), positive("timeout", c.Timeout), positive("search/timeout", c.Search.Timeout),
		kernel.AtLeast("redirects", c.Redirects, 0),
		kernel.AtLeast("maxBytes", c.MaxBytes, 1<<10),
		kernel.AtLeast("resultBytes", c.ResultBytes, 1<<10),
		kernel.AtLeast("cacheFor", int64(c.CacheFor), 0),
		kernel.AtLeast("cacheBytes", c.CacheBytes, 0),
		kernel.AtLeast("search/count", c.Search.Count, 1),
	)
}

func invalid(pointer, format string, args ...any) error {
	return &kernel.FieldError{Pointer: "/" + pointer, Msg: fmt.Sprintf(format, args...)}
}

func positive(pointer string, d kernel.Duration) error {
	if d > 0 {
		return nil
	}
	return invalid(pointer, "%s is too short; use a time like \"30s\"", d)
}

func checkProxy(pointer, text string) error {
	if text == "" {
		return nil
	}
	if _, err := checkURL(text); err != nil {
		return invalid(pointer, "%v", err)
	}
	return nil
}

// checkURL reads a URL of the config. Its errors do not quote it, for it may hold
// a password.
func checkURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("must be a URL like https://host/path")
	}
	return u, nil
}
