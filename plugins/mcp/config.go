package mcp

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"dsh/kernel"
	"dsh/kernel/process"
	"dsh/kernel/settings"
)

// Config says what a deployment may choose; an empty one is valid and takes the
// servers of the settings files alone.
type Config struct {
	// Servers are the profile's servers by name. Where settings name the same
	// server, the profile's counts.
	Servers map[string]Server `json:"servers"`
	// Settings says whether servers of the settings files are taken, too: those of
	// the user always, those of a workspace when it is trusted; and those of content
	// plugins, which are called plugin:PLUGIN:NAME. False leaves those of Servers and
	// those that a client hosts alone (--strict-mcp-config).
	Settings bool `json:"settings"`
	// Wait has the answer to initialize wait for the first attempt of every server.
	// Without it only required servers are waited for there; a front end that shows
	// the servers waits by itself (spec stream-json 3.2).
	Wait bool `json:"wait"`
	// ConnectTimeout bounds how long a server may take from its start until its
	// tools are known; the start of a session waits no longer for it. The variable
	// MCP_TIMEOUT, in milliseconds, goes ahead of it.
	ConnectTimeout kernel.Duration `json:"connectTimeout"`
	// Timeout ends a call that long after the last sign of life: its start, a
	// notice of progress, or an answer of the user that the server asked for. The
	// variable MCP_TOOL_TIMEOUT, in milliseconds, goes ahead of it. It does not hold
	// for servers that a client hosts.
	Timeout kernel.Duration `json:"timeout"`
	// Reconnect is what happens after a failed connection or a lost one.
	Reconnect Reconnect `json:"reconnect"`
	// MaxResult bounds the text of a result that the model gets, in characters; a
	// longer one is kept in a file. A server may ask for up to 500,000 for one of
	// its tools (spec stream-json 8.6). The variable MAX_MCP_OUTPUT_TOKENS, which
	// counts four characters each, goes ahead of it.
	MaxResult int `json:"maxResult"`
	// MaxBlocks bounds the content blocks of a result.
	MaxBlocks int `json:"maxBlocks"`
	// MaxSchema bounds the JSON Schema of one tool, in bytes; a longer one is
	// replaced by one that says less.
	MaxSchema int `json:"maxSchema"`
	// MaxTools bounds the tools of one server.
	MaxTools int `json:"maxTools"`
}

// Reconnect says how often and how fast to try again. The pause doubles from
// First to Most. A connection that held longer than Most counts as a success
// and starts the count anew.
type Reconnect struct {
	Attempts int             `json:"attempts"`
	First    kernel.Duration `json:"first"`
	Most     kernel.Duration `json:"most"`
}

// Server is one server of a profile.
type Server struct {
	// Type is stdio, http (streamable HTTP) or sse. Without it, a command means
	// stdio and a url http.
	Type string `json:"type,omitzero" enum:"stdio,http,sse"`
	// Command is the program of a stdio server: a path, or a name in PATH. Args are
	// its arguments.
	Command string   `json:"command,omitzero"`
	Args    []string `json:"args,omitzero"`
	// CWD is the program's working directory; "" is the harness's.
	CWD string `json:"cwd,omitzero"`
	// Env is set for the program, on top of the harness's environment without its
	// credentials. EnvFrom names variables of the harness that the program gets
	// although they hold credentials.
	Env     map[string]string `json:"env,omitzero"`
	EnvFrom []string          `json:"envFrom,omitzero"`
	// URL is the address of an http or sse server, Headers go with each request.
	URL     string            `json:"url,omitzero"`
	Headers map[string]string `json:"headers,omitzero"`
	// BearerEnv names the variable whose value is sent as a bearer token; programs
	// that the harness starts do not get it.
	BearerEnv string `json:"bearerEnv,omitzero"`
	// OAuth is for an http server that asks for it and has no Authorization header.
	OAuth OAuth `json:"oauth,omitzero"`
	// Timeout and ConnectTimeout, when not 0, take the place of the row's.
	Timeout        kernel.Duration `json:"timeout,omitzero"`
	ConnectTimeout kernel.Duration `json:"connectTimeout,omitzero"`
	// Required makes initialize fail when the server cannot be reached at start.
	Required bool `json:"required,omitzero"`
	// Disabled keeps the server in the list without starting it.
	Disabled bool `json:"disabled,omitzero"`
	// Confine is how the program is confined; "" is the deployment's policy.
	Confine string `json:"confine,omitzero" enum:"read-only,workspace-write,danger-full-access"`
	// Allow and Deny choose among the server's tools by the names the server gives
	// them; * stands for any text. Without Allow all are taken.
	Allow []string `json:"allow,omitzero"`
	Deny  []string `json:"deny,omitzero"`
	// Instructions puts what the server says about its use into the system prompt
	// of sessions that start while it is connected.
	Instructions bool `json:"instructions,omitzero"`
	// Expand has args, env, url and headers hold ${NAME}, ${env:NAME} and
	// ${NAME:-text}, filled in when the server starts, as they are in settings files.
	Expand bool `json:"expand,omitzero"`
}

// FromSettings makes a row's server of one that is written as in a settings file,
// such as those of --mcp-config. A type that is not known stays and is reported by
// Validate.
func FromSettings(s settings.MCPServer) Server {
	out := Server{
		Type: s.Type, Command: s.Command, Args: s.Args, Env: s.Env, URL: s.URL, Headers: s.Headers,
		Disabled: s.Disabled, Expand: true,
		Timeout: kernel.Duration(time.Duration(s.TimeoutMs) * time.Millisecond),
	}
	if out.Type == "streamable-http" {
		out.Type = transportHTTP
	}
	return out
}

// OAuth says how to be authorized. Nothing need be said for a server that lets
// clients register themselves.
type OAuth struct {
	// Off makes a refused request a failure instead of asking for a login.
	Off bool `json:"off,omitzero"`
	// ClientID and ClientSecretEnv are those of a client registered beforehand;
	// the latter names the variable that holds its secret.
	ClientID        string   `json:"clientId,omitzero"`
	ClientSecretEnv string   `json:"clientSecretEnv,omitzero"`
	Scopes          []string `json:"scopes,omitzero"`
	// CallbackPort is the port on 127.0.0.1 where the browser comes back; 0 is any.
	CallbackPort int `json:"callbackPort,omitzero"`
}

// or gives d, or other when d is not set.
func or(d, other kernel.Duration) time.Duration { return time.Duration(cmp.Or(d, other)) }

// Transports of a server.
const (
	transportStdio = "stdio"
	transportHTTP  = "http"
	transportSSE   = "sse"
	// transportSDK is that of servers that a client hosts.
	transportSDK = "sdk"
)

func (s *Server) transport() string {
	switch {
	case s.Type != "":
		return s.Type
	case s.Command == "" && s.URL != "":
		return transportHTTP
	}
	return transportStdio
}

func defaults() Config {
	return Config{
		Settings:       true,
		Wait:           true,
		ConnectTimeout: kernel.Duration(30 * time.Second),
		Timeout:        kernel.Duration(10 * time.Minute),
		Reconnect:      Reconnect{Attempts: 10, First: kernel.Duration(500 * time.Millisecond), Most: kernel.Duration(30 * time.Second)},
		MaxResult:      100_000,
		MaxBlocks:      100,
		MaxSchema:      64 << 10,
		MaxTools:       500,
	}
}

// hostedLimit is how long a call of a server that a client hosts may go on without
// a sign of life: the client's program is the one to end it (spec stream-json 8.7).
const hostedLimit = 28 * time.Hour

// adjust takes what variables of the environment say about this run into a
// config (spec stream-json 1.4), and gives the limit of calls of hosted servers.
// What is no positive number is reported and says nothing.
func (c *Config) adjust(getenv func(string) string, log *slog.Logger) (hosted time.Duration) {
	number := func(name string) int64 {
		text := getenv(name)
		if text == "" {
			return 0
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n <= 0 || n > math.MaxInt32 {
			log.Warn("an environment variable is left out: it is no positive number", "name", name)
			return 0
		}
		return n
	}
	if ms := number("MCP_TIMEOUT"); ms > 0 {
		c.ConnectTimeout = kernel.Duration(time.Duration(ms) * time.Millisecond)
	}
	hosted = hostedLimit
	if ms := number("MCP_TOOL_TIMEOUT"); ms > 0 {
		hosted = time.Duration(ms) * time.Millisecond
		c.Timeout = kernel.Duration(hosted)
	}
	if tokens := number("MAX_MCP_OUTPUT_TOKENS"); tokens > 0 {
		c.MaxResult = int(min(4*tokens, mostResult))
	}
	return hosted
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	positive := func(key string, d kernel.Duration) error {
		if d > 0 {
			return nil
		}
		return kernel.Invalid(key, `%v is too short; use a duration such as "30s"`, time.Duration(d))
	}
	errs := []error{
		positive("connectTimeout", c.ConnectTimeout),
		positive("timeout", c.Timeout),
		kernel.AtLeast("reconnect/attempts", c.Reconnect.Attempts, 0),
		positive("reconnect/first", c.Reconnect.First),
		positive("reconnect/most", c.Reconnect.Most),
		kernel.AtLeast("maxResult", c.MaxResult, 1),
		kernel.AtLeast("maxBlocks", c.MaxBlocks, 1),
		kernel.AtLeast("maxSchema", c.MaxSchema, 1),
		kernel.AtLeast("maxTools", c.MaxTools, 1),
	}
	for _, name := range slices.Sorted(maps.Keys(c.Servers)) {
		s := c.Servers[name]
		for _, f := range s.check(name) {
			key := "servers/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
			if f.key != "" {
				key += "/" + f.key
			}
			errs = append(errs, kernel.Invalid(key, "%s", f.msg))
		}
	}
	return errors.Join(errs...)
}

type finding struct{ key, msg string }

// check finds what is wrong with a server, wherever it is configured.
func (s *Server) check(name string) (found []finding) {
	add := func(key, format string, args ...any) {
		found = append(found, finding{key, fmt.Sprintf(format, args...)})
	}
	if strings.TrimSpace(name) == "" {
		add("", "a server needs a name")
	}
	switch s.transport() {
	case transportStdio:
		if s.Command == "" {
			add("command", "a stdio server needs a command; set it, or a url")
		}
		if s.URL != "" {
			add("url", "a stdio server has no url; remove it, or say which type it is")
		}
	case transportHTTP, transportSSE:
		if s.Command != "" {
			add("command", "a server of type %s has no command; remove it, or the type", s.Type)
		}
		if s.URL == "" {
			add("url", "a server of type %s needs a url", s.transport())
		} else if u, err := url.Parse(s.URL); !strings.Contains(s.URL, "${") && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			add("url", "this is no address; use one like https://host/path")
		}
	default:
		add("type", "%q is no type of server; use stdio, http or sse", s.Type)
	}
	switch s.Confine {
	case "", process.ReadOnly, process.WorkspaceWrite, process.FullAccess:
	default:
		add("confine", "%q is no mode; use %s, %s or %s", s.Confine, process.ReadOnly, process.WorkspaceWrite, process.FullAccess)
	}
	for key, d := range map[string]kernel.Duration{"timeout": s.Timeout, "connectTimeout": s.ConnectTimeout} {
		if d < 0 {
			add(key, "%v is too short; use a duration such as \"30s\"", time.Duration(d))
		}
	}
	if p := s.OAuth.CallbackPort; p < 0 || p > 65535 {
		add("oauth/callbackPort", "%d is no port", p)
	}
	slices.SortStableFunc(found, func(a, b finding) int { return strings.Compare(a.key, b.key) })
	return found
}

// admits says whether a tool, by the name its server gives it, is taken.
func (s *Server) admits(raw string) bool {
	matches := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return matchStar(p, raw) })
	}
	return (len(s.Allow) == 0 || matches(s.Allow)) && !matches(s.Deny)
}

// matchStar matches text against a pattern in which * stands for any text.
func matchStar(pattern, text string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, head)
	if !ok {
		return false
	}
	for i := 0; i <= len(text); i++ {
		if matchStar(rest, text[i:]) {
			return true
		}
	}
	return false
}
