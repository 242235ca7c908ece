package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	plugins "dsh/kernel/content"
	contract "dsh/kernel/mcp"
	"dsh/kernel/process"
	"dsh/kernel/settings"
	"dsh/sdkproto/wirejson"
)

// Scopes of servers beside those of settings files.
const (
	scopeProfile = "profile"
	scopeClient  = "client"
	scopePlugin  = "plugin"
)

// spec is a server as configured, wherever that is.
type spec struct {
	Server
	name, scope string
	// public is its part of tool names.
	public string
	// place orders the servers.
	place int
	// host carries the messages of a server that a client hosts, nil for others.
	host contract.Host
	// after, when not nil, is closed when the server may start.
	after <-chan struct{}
	// problem says why the server cannot be started at all, barred why it must not.
	problem, barred string
}

// ofSettings reports whether a server comes from settings files or plugins.
func (s *spec) ofSettings() bool { return s.host == nil && s.scope != scopeProfile }

func (s *spec) same(other *spec) bool {
	a, b := *s, *other
	a.place, b.place = 0, 0
	return reflect.DeepEqual(a, b)
}

// ofSettings gives the servers that the layers of settings add to those of the
// profile. A name in a higher layer hides the same name in a lower one.
func ofSettings(layers []settings.Layer, profile map[string]Server) map[string]*spec {
	found := map[string]*spec{}
	for _, l := range layers {
		if l.Err != nil {
			continue
		}
		for name, entry := range l.MCPServers {
			if _, hidden := profile[name]; hidden {
				continue
			}
			untrusted := !l.Trusted && (l.Scope == settings.ScopeProject || l.Scope == settings.ScopeLocal)
			if known := found[name]; untrusted && known != nil && known.barred == "" {
				continue // a checkout cannot switch off what its user has
			}
			s := &spec{Server: FromSettings(entry), name: name, scope: l.Scope}
			if untrusted {
				s.barred = fmt.Sprintf("the %s settings of this workspace are not trusted", l.Scope)
			}
			if bad := s.check(name); len(bad) > 0 {
				s.problem = bad[0].msg
			}
			found[name] = s
		}
	}
	return found
}

// ofPlugins adds the servers of content plugins to found.
func ofPlugins(list []*plugins.Plugin, profile map[string]Server, found map[string]*spec) {
	for _, p := range list {
		for raw, entry := range p.Servers {
			name := "plugin:" + p.Qualified(raw)
			if _, hidden := profile[name]; hidden || found[name] != nil {
				continue
			}
			s := &spec{Server: FromSettings(entry), name: name, scope: scopePlugin}
			if bad := s.check(name); len(bad) > 0 {
				s.problem = bad[0].msg
			}
			found[name] = s
		}
	}
}

// target is a spec with all values filled in.
type target struct {
	args, env []string
	dir       string
	url       string
	headers   http.Header
	// secrets are kept out of everything that is shown.
	secrets []string
}

// resolve fills the values in from the environment. credentials are variables
// that no program gets unless EnvFrom names them (decision D28).
func (s *spec) resolve(credentials []string) (*target, error) {
	t := &target{headers: http.Header{}}
	if s.host != nil {
		return t, nil
	}
	var firstErr error
	value := func(text string) string {
		if !s.Expand {
			return text
		}
		out, used, err := expand(text)
		if err != nil && firstErr == nil {
			firstErr = err
		}
		t.secrets = append(t.secrets, used...)
		return out
	}
	for _, a := range s.Args {
		t.args = append(t.args, value(a))
	}
	t.env = process.Environment(os.Environ(), credentials, markerVariable, "PWD", "OLDPWD")
	for _, name := range s.EnvFrom {
		if v, ok := os.LookupEnv(name); ok {
			t.env = append(t.env, name+"="+v)
			t.secrets = append(t.secrets, v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		v := value(s.Env[name])
		t.env = append(t.env, name+"="+v)
		if namesSecret(name) {
			t.secrets = append(t.secrets, v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		v := value(s.Headers[name])
		t.headers.Set(name, v)
		t.secrets = append(t.secrets, v)
	}
	if s.BearerEnv != "" {
		v := strings.TrimSpace(os.Getenv(s.BearerEnv))
		if v == "" && firstErr == nil {
			firstErr = fmt.Errorf("the environment variable %s is not set; set it, or change bearerEnv", s.BearerEnv)
		}
		t.headers.Set("Authorization", "Bearer "+v)
		t.secrets = append(t.secrets, v)
	}
	t.url = value(s.URL)
	if u, err := url.Parse(t.url); err == nil {
		password, _ := u.User.Password()
		t.secrets = append(t.secrets, u.RawQuery, password)
	}
	if firstErr != nil {
		return nil, firstErr
	}
	var err error
	if t.dir, err = os.Getwd(); err != nil {
		return nil, fmt.Errorf("working directory: %w", err)
	}
	if s.CWD != "" {
		if t.dir = s.CWD; !filepath.IsAbs(t.dir) {
			if t.dir, err = filepath.Abs(t.dir); err != nil {
				return nil, fmt.Errorf("working directory: %w", err)
			}
		}
	}
	return t, nil
}

// namesSecret says whether a variable of that name tends to hold a secret.
func namesSecret(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc([]string{"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "AUTH"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

// redact keeps secrets out of a text that others wrote. Values of a few
// characters are no secrets, and replacing them would garble the text.
func (t *target) redact(text string) string {
	if t == nil {
		return text
	}
	for _, s := range t.secrets {
		if len(s) >= 4 {
			text = strings.ReplaceAll(text, s, "[secret]")
		}
	}
	return text
}

// expand replaces ${NAME}, ${env:NAME} and ${NAME:-text} and gives the values
// that it put in.
func expand(text string) (out string, used []string, err error) {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "${")
		b.WriteString(before)
		if !ok {
			return b.String(), used, err
		}
		inner, after, ok := strings.Cut(rest, "}")
		if !ok {
			return text, used, fmt.Errorf("${ has no closing brace in %q", clip(before, 100)+"${")
		}
		name, fallback, optional := strings.Cut(strings.TrimPrefix(inner, "env:"), ":-")
		v, set := os.LookupEnv(name)
		switch {
		case set:
			used = append(used, v)
		case optional:
			v = fallback
		case err == nil:
			err = fmt.Errorf("the environment variable %s is not set; set it, or write ${%s:-a default}", name, name)
		}
		b.WriteString(v)
		text = after
	}
}

// clip bounds text from elsewhere to a number of bytes.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// decode reads foreign JSON and tells whether it had the right form.
func decode[T any](raw json.RawMessage) (v T, ok bool) {
	if len(raw) == 0 {
		return v, false
	}
	if err := wirejson.Unmarshal(raw, &v); err != nil {
		var zero T
		return zero, false
	}
	return v, true
}
