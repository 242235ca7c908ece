package commands

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dsh/cmd/internal/launch"
	"dsh/kernel"
	"dsh/kernel/profile"
	usersettings "dsh/kernel/settings"
	"dsh/plugins"
	settingsplugin "dsh/plugins/settings"
	"dsh/sdkproto/wirejson"
)

// MCP is the command mcp.
func (p Set) MCP() *cobra.Command {
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Add, list, show and remove MCP servers",
		Long: `mcp works on the MCP servers in settings files, each in one of three scopes:

  user      your settings.json: for you, in every folder
  project   .mcp.json of this folder: for all who work on it
  local     settings.local.json of this folder: for you, here

A server of a higher scope takes the place of one of the same name in a lower one.
Those of the project and local scopes are started only in folders you trust, see
dsh trust. The profile's row settings says where the files are; add and get show it.
Servers that a profile itself configures are in its row mcp.`,
	}
	c.AddCommand(p.mcpAdd(), p.mcpAddJSON(), p.mcpList(), p.mcpGet(), p.mcpRemove())
	return p.named(c)
}

// Transports of MCP servers.
const (
	transportStdio = "stdio"
	transportHTTP  = "http"
	transportSSE   = "sse"
)

func transports() []string { return []string{transportStdio, transportHTTP, transportSSE} }

func scopes() []string {
	return []string{usersettings.ScopeUser, usersettings.ScopeProject, usersettings.ScopeLocal}
}

func scopeFlag(c *cobra.Command, scope *string, value, usage string) {
	c.Flags().StringVarP(scope, "scope", "s", value, usage)
	complete(c, "scope", scopes())
}

func complete(c *cobra.Command, flag string, words []string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is not there: a mistake of this package
	}
}

func (p Set) mcpAdd() *cobra.Command {
	var (
		scope, transport string
		env, headers     []string
	)
	c := &cobra.Command{
		Use:   "add NAME (URL | -- COMMAND ARGS...)",
		Short: "Write an MCP server into a settings file",
		Long: `add writes a server into the settings file of a scope and starts nothing. Values may
hold ${env:NAME}, which is filled in when the server is started: so a secret need not
stand in the file.`,
		Example: `  dsh mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
  dsh mcp add tracker https://example.com/mcp --header 'Authorization: Bearer ${env:TRACKER_TOKEN}'
  dsh mcp add db --scope project --env 'DSN=${env:DSN}' -- ./tools/db-server`,
		Args: Arguments(2, 0, "the name of the server, and a URL or -- and a command"),
		RunE: func(c *cobra.Command, args []string) error {
			server, err := serverOf(args[1:], transport, env, headers)
			if err != nil {
				return launch.Usage(err)
			}
			return p.addServer(c.Context(), scope, args[0], server)
		},
	}
	scopeFlag(c, &scope, usersettings.ScopeUser, "`scope`: user, project or local")
	c.Flags().StringVarP(&transport, "transport", "t", "", "`transport`: stdio, http or sse (default: stdio for a command, http for a URL)")
	c.Flags().StringArrayVarP(&env, "env", "e", nil, "a variable for the command: `NAME=VALUE`; may be repeated")
	c.Flags().StringArrayVarP(&headers, "header", "H", nil, "a header of each request: `'NAME: VALUE'`; may be repeated")
	complete(c, "transport", transports())
	return c
}

// serverOf makes a server of what the command line says of it.
func serverOf(target []string, transport string, env, headers []string) (usersettings.MCPServer, error) {
	s := usersettings.MCPServer{Type: transport}
	isURL := strings.HasPrefix(target[0], "http://") || strings.HasPrefix(target[0], "https://")
	switch {
	case transport == "" && isURL:
		s.Type = transportHTTP
	case transport == "":
		s.Type = transportStdio
	}
	if s.Type == transportStdio {
		s.Command = target[0]
		if len(target) > 1 {
			s.Args = target[1:]
		}
	} else {
		if len(target) > 1 {
			return s, fmt.Errorf("a server of transport %s has a URL and nothing behind it; %q is too much", s.Type, target[1])
		}
		s.URL = target[0]
	}
	for _, pair := range env {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return s, fmt.Errorf("--env takes NAME=VALUE")
		}
		if s.Env == nil {
			s.Env = map[string]string{}
		}
		s.Env[name] = value
	}
	for _, pair := range headers {
		name, value, ok := strings.Cut(pair, ":")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, " \t") {
			return s, fmt.Errorf("--header takes 'NAME: VALUE'")
		}
		if s.Headers == nil {
			s.Headers = map[string]string{}
		}
		s.Headers[name] = strings.TrimSpace(value)
	}
	return s, checkServer(s)
}

// checkServer says what is wrong with a server.
func checkServer(s usersettings.MCPServer) error {
	kind := transportOf(s)
	switch {
	case !slices.Contains(transports(), kind):
		return fmt.Errorf("%q is no transport; use %s%s", s.Type, strings.Join(transports(), ", "), profile.DidYouMean(s.Type, transports()))
	case kind == transportStdio && s.Command == "":
		return fmt.Errorf("a server of transport stdio needs a command")
	case kind == transportStdio && s.URL != "":
		return fmt.Errorf("a server has a command or a URL, not both")
	case kind == transportStdio && len(s.Headers) > 0:
		return fmt.Errorf("a command takes no headers; use env")
	case kind == transportStdio:
		return nil
	case s.Command != "":
		return fmt.Errorf("a server of transport %s has a URL and no command", kind)
	case len(s.Env) > 0:
		return fmt.Errorf("a server of transport %s takes no env; use headers", kind)
	case s.URL == "":
		return fmt.Errorf("a server of transport %s needs a URL", kind)
	case strings.Contains(s.URL, "${"):
		return nil // known when it is started
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q is no URL of a server; write http://HOST/PATH or https://HOST/PATH", maskedURL(s.URL))
	}
	return nil
}

func transportOf(s usersettings.MCPServer) string {
	switch {
	case s.Type == "streamable-http": // what others call it
		return transportHTTP
	case s.Type != "":
		return s.Type
	case s.Command != "" || s.URL == "":
		return transportStdio
	}
	return transportHTTP
}

func (p Set) mcpAddJSON() *cobra.Command {
	var scope string
	c := &cobra.Command{
		Use:   "add-json NAME JSON",
		Short: "Write an MCP server, given as JSON, into a settings file",
		Long: `add-json is add for a server as settings files have it: an object with command, args
and env, or with type (http or sse), url and headers; timeout, in milliseconds, and
disabled besides.`,
		Example: `  dsh mcp add-json files '{"command":"npx","args":["-y","@modelcontextprotocol/server-filesystem","."]}'`,
		Args:    Arguments(2, 2, "the name of the server and a JSON object"),
		RunE: func(c *cobra.Command, args []string) error {
			var server usersettings.MCPServer
			if err := wirejson.UnmarshalStrict([]byte(args[1]), &server); err != nil {
				return launch.Usage(fmt.Errorf("the JSON of the server cannot be used: %w%s", err, nearServerKey(err)))
			}
			if err := checkServer(server); err != nil {
				return launch.Usage(err)
			}
			return p.addServer(c.Context(), scope, args[0], server)
		},
	}
	scopeFlag(c, &scope, usersettings.ScopeUser, "`scope`: user, project or local")
	return c
}

func nearServerKey(err error) string {
	var at *wirejson.Error
	if !errors.As(err, &at) || at.Unknown == "" {
		return ""
	}
	return profile.DidYouMean(at.Unknown, []string{"type", "command", "args", "env", "url", "headers", "timeout", "disabled"})
}

// checkServerName refuses names that would not stay what they are in the names
// of tools, mcp__NAME__TOOL.
func checkServerName(name string) error {
	const may = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	const most = 32
	if name == "" || len(name) > most || strings.Trim(name, may) != "" || strings.Contains(name, "__") || strings.HasSuffix(name, "_") {
		return fmt.Errorf("%q is no name of a server: use 1 to %d letters, digits, - and _, no two _ in a row and none at the end", name, most)
	}
	return nil
}

func (p Set) addServer(ctx context.Context, scope, name string, server usersettings.MCPServer) error {
	if err := checkServerName(name); err != nil {
		return launch.Usage(err)
	}
	return p.withSettings(ctx, func(layers []usersettings.Layer) error {
		layer, err := layerOf(layers, scope)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(layers, func(l usersettings.Layer) bool { return l.Scope == scope && hasServer(l, name) }) {
			err = fmt.Errorf("%w: %q", settingsplugin.ErrServerExists, name)
		} else {
			err = settingsplugin.AddServer(ctx, layer, name, server)
		}
		if errors.Is(err, settingsplugin.ErrServerExists) {
			return fmt.Errorf("%w in the %s scope; take it out with %s mcp remove %s --scope %s", err, scope, p.Name, name, scope)
		}
		if err != nil {
			return err
		}
		if err := p.Printf("added %s (%s) to %s\n", name, transportOf(server), layer.File); err != nil {
			return err
		}
		if !layer.Trusted {
			p.Say("this folder is not trusted, so the server is not started here; %s trust add changes that", p.Name)
		}
		for _, l := range layers {
			if l.Scope != scope && hasServer(l, name) {
				p.Say("the %s scope has a server of this name, too; that of the %s scope counts", l.Scope, counts(layer, l))
			}
		}
		return nil
	})
}

// counts gives the scope of the layer whose server counts: the higher one of
// those that are trusted alike.
func counts(a, b usersettings.Layer) string {
	if a.Trusted != b.Trusted {
		if a.Trusted {
			return a.Scope
		}
		return b.Scope
	}
	if slices.Index(scopes(), a.Scope) > slices.Index(scopes(), b.Scope) {
		return a.Scope
	}
	return b.Scope
}

func hasServer(l usersettings.Layer, name string) bool {
	_, ok := l.MCPServers[name]
	return ok
}

// layerOf gives the file of a scope that servers are written into.
func layerOf(layers []usersettings.Layer, scope string) (usersettings.Layer, error) {
	if !slices.Contains(scopes(), scope) {
		return usersettings.Layer{}, launch.Usage(fmt.Errorf("--scope %q is no scope; use %s%s", scope, strings.Join(scopes(), ", "), profile.DidYouMean(scope, scopes())))
	}
	found := usersettings.Layer{}
	for _, l := range layers {
		if l.Scope == scope && (found.File == "" || l.ServersOnly) {
			found = l
		}
	}
	if found.File == "" {
		return found, fmt.Errorf("the profile's row settings has no file of the %s scope", scope)
	}
	return found, nil
}

// withSettings runs f with the settings of this folder, as the profile's row
// reads them.
func (p Set) withSettings(ctx context.Context, f func([]usersettings.Layer) error) (err error) {
	loaded, err := p.LoadProfile(p.ProfileName())
	if err != nil {
		return err
	}
	k, err := kernel.Compose(ctx, p.KernelOptions(kernel.Only[usersettings.Source](plugins.Builtin(), loaded)))
	if err != nil {
		return err
	}
	if err := k.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Stop()) }()
	source, ok := kernel.Seam[usersettings.Source](k)
	if !ok {
		return fmt.Errorf("profile %s reads no settings: no enabled row of it provides a source of settings", loaded.Name)
	}
	cwd, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find this folder: %w", err)
	}
	return f(source.For(cwd))
}

// States of a configured server.
const (
	stateOK       = "ok"
	stateDisabled = "disabled"
	stateDistrust = "folder not trusted"
)

// configured is a server as a listing shows it: without secrets.
type configured struct {
	Name      string            `json:"name"`
	Scope     string            `json:"scope"`
	File      string            `json:"file"`
	State     string            `json:"state"`
	Transport string            `json:"transport"`
	Command   string            `json:"command,omitzero"`
	Args      []string          `json:"args,omitzero"`
	Env       map[string]string `json:"env,omitzero"`
	URL       string            `json:"url,omitzero"`
	Headers   map[string]string `json:"headers,omitzero"`
	TimeoutMs int64             `json:"timeout,omitzero"`
}

// target is what a server is reached by, on one line.
func (c configured) target() string {
	if c.URL != "" {
		return c.URL
	}
	return strings.Join(append([]string{c.Command}, c.Args...), " ")
}

// configuredServers lists the servers of all layers by name, low scopes first.
func configuredServers(layers []usersettings.Layer) []configured {
	list := []configured{}
	top := map[string]int{} // the layer that counts, by name
	for i, l := range layers {
		for name := range l.MCPServers {
			// A layer that is not trusted takes the place of none that is.
			if at, taken := top[name]; !taken || l.Trusted || !layers[at].Trusted {
				top[name] = i
			}
		}
	}
	for i, l := range layers {
		for name, s := range l.MCPServers {
			c := configured{
				Name: name, Scope: l.Scope, File: l.File, State: stateOK, Transport: transportOf(s), Command: s.Command, Args: s.Args,
				Env: masked(s.Env), URL: maskedURL(s.URL), Headers: masked(s.Headers), TimeoutMs: s.TimeoutMs,
			}
			switch {
			case !l.Trusted:
				c.State = stateDistrust
			case top[name] != i:
				c.State = "replaced by " + layers[top[name]].Scope
			case s.Disabled:
				c.State = stateDisabled
			}
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b configured) int { return strings.Compare(a.Name, b.Name) })
	return list
}

const mask = "***"

// masked hides values, all but references to variables.
func masked(values map[string]string) map[string]string {
	if values == nil {
		return nil
	}
	shown := maps.Clone(values)
	for name, value := range shown {
		if rest, ok := strings.CutPrefix(value, "${"); !ok || strings.IndexByte(rest, '}') != len(rest)-1 {
			shown[name] = mask
		}
	}
	return shown
}

// maskedURL hides the password and the values of the query.
func maskedURL(text string) string {
	head, query, found := strings.Cut(text, "?")
	if scheme, rest, ok := strings.Cut(head, "://"); ok {
		host, _, _ := strings.Cut(rest, "/")
		if at := strings.LastIndexByte(host, '@'); at >= 0 {
			head = scheme + "://" + mask + rest[at:]
		}
	}
	if !found {
		return head
	}
	query, _, _ = strings.Cut(query, "#")
	parts := strings.Split(query, "&")
	for i, part := range parts {
		if name, value, ok := strings.Cut(part, "="); ok && value != "" {
			parts[i] = name + "=" + mask
		}
	}
	return head + "?" + strings.Join(parts, "&")
}

func (p Set) mcpList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the MCP servers that this folder's settings name; nothing is started",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.withSettings(c.Context(), func(layers []usersettings.Layer) error {
				list := configuredServers(layers)
				if err := p.printServers(list, asJSON); err != nil {
					return err
				}
				return unusable(layers)
			})
		},
	}
	JSONFlag(c, &asJSON)
	return c
}

func (p Set) printServers(list []configured, asJSON bool) error {
	switch {
	case asJSON:
		return p.PrintJSON(list)
	case len(list) == 0:
		p.Say("no settings of this folder name an MCP server; %s mcp add adds one", p.Name)
		return nil
	}
	rows := [][]string{{"NAME", "SCOPE", "TRANSPORT", "STATE", "COMMAND OR URL"}}
	for _, c := range list {
		rows = append(rows, []string{c.Name, c.Scope, c.Transport, c.State, strings.Join(strings.Fields(c.target()), " ")})
	}
	return p.PrintTable(rows)
}

// unusable joins what is wrong with settings files (case B82).
func unusable(layers []usersettings.Layer) error {
	var errs []error
	for _, l := range layers {
		errs = append(errs, l.Err)
	}
	return errors.Join(errs...)
}

func (p Set) mcpGet() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:               "get NAME",
		Short:             "Show one MCP server, in every scope that has it; nothing is started",
		Args:              Arguments(1, 1, "the name of one server"),
		ValidArgsFunction: p.completeServers,
		RunE: func(c *cobra.Command, args []string) error {
			return p.withSettings(c.Context(), func(layers []usersettings.Layer) error {
				all := configuredServers(layers)
				list := slices.DeleteFunc(slices.Clone(all), func(c configured) bool { return c.Name != args[0] })
				if len(list) == 0 {
					return errors.Join(noServer(args[0], all), unusable(layers))
				}
				if asJSON {
					return p.PrintJSON(list)
				}
				for _, c := range list {
					if err := p.printServer(c); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	JSONFlag(c, &asJSON)
	return c
}

func noServer(name string, all []configured) error {
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	return fmt.Errorf("no settings of this folder name a server %q%s", name, profile.DidYouMean(name, names))
}

func (p Set) printServer(c configured) error {
	rows := [][]string{{c.Name}, {"  scope", c.Scope}, {"  file", c.File}, {"  state", c.State}, {"  transport", c.Transport}}
	if c.URL != "" {
		rows = append(rows, []string{"  url", c.URL})
	} else {
		rows = append(rows, []string{"  command", c.target()})
	}
	for _, group := range []struct {
		what   string
		values map[string]string
	}{{"  env", c.Env}, {"  header", c.Headers}} {
		for _, name := range slices.Sorted(maps.Keys(group.values)) {
			rows = append(rows, []string{group.what, name + ": " + group.values[name]})
		}
	}
	if c.TimeoutMs > 0 {
		rows = append(rows, []string{"  timeout", fmt.Sprintf("%d ms", c.TimeoutMs)})
	}
	return p.PrintTable(rows)
}

func (p Set) mcpRemove() *cobra.Command {
	var scope string
	c := &cobra.Command{
		Use:               "remove NAME",
		Short:             "Take an MCP server out of a settings file",
		Args:              Arguments(1, 1, "the name of one server"),
		ValidArgsFunction: p.completeServers,
		RunE: func(c *cobra.Command, args []string) error {
			return p.withSettings(c.Context(), func(layers []usersettings.Layer) error {
				return p.removeServer(c.Context(), layers, scope, args[0])
			})
		},
	}
	scopeFlag(c, &scope, "", "`scope`: user, project or local (default: the one that has the server)")
	return c
}

func (p Set) removeServer(ctx context.Context, layers []usersettings.Layer, scope, name string) error {
	if scope != "" {
		if _, err := layerOf(layers, scope); err != nil {
			return err
		}
	}
	var having []usersettings.Layer
	var in []string
	for _, l := range layers {
		if hasServer(l, name) && (scope == "" || l.Scope == scope) {
			having = append(having, l)
			if !slices.Contains(in, l.Scope) {
				in = append(in, l.Scope)
			}
		}
	}
	switch {
	case len(having) == 0:
		return errors.Join(noServer(name, configuredServers(layers)), unusable(layers))
	case len(in) > 1:
		return launch.Usage(fmt.Errorf("the scopes %s have a server %q; say which one with --scope", strings.Join(in, " and "), name))
	}
	for _, l := range having {
		removed, err := settingsplugin.RemoveServer(ctx, l, name)
		if err != nil {
			return err
		}
		if removed {
			if err := p.Printf("removed %s from %s\n", name, l.File); err != nil {
				return err
			}
		}
	}
	return nil
}

// completeServers gives the names of configured servers, none with an error.
func (p Set) completeServers(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completionLimit)
	defer cancel()
	var names []string
	p.Flags.LogLevel = "error"
	_ = p.withSettings(ctx, func(layers []usersettings.Layer) error {
		for _, s := range configuredServers(layers) {
			names = append(names, s.Name)
		}
		return nil
	})
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}
