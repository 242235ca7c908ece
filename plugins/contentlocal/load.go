package contentlocal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"dsh/kernel/content"
	"dsh/kernel/settings"
	"dsh/plugins/internal/contextfile"
	"dsh/plugins/internal/settingsfile"
	"dsh/sdkproto/wirejson"
)

// Places in a plugin's folder.
const (
	manifestFile = ".claude-plugin/plugin.json"
	hooksFile    = "hooks/hooks.json"
	serversFile  = ".mcp.json"
)

// maxName bounds the name of a plugin, in bytes.
const maxName = 64

// manifest is what plugin.json may say; other members are left alone.
type manifest struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description"`
	// Further places of parts: a path or a list of paths, relative to the folder.
	Commands json.RawMessage `json:"commands"`
	Agents   json.RawMessage `json:"agents"`
	Skills   json.RawMessage `json:"skills"`
	Styles   json.RawMessage `json:"outputStyles"`
	// Hooks and Servers are paths or the objects themselves.
	Hooks   json.RawMessage `json:"hooks"`
	Servers json.RawMessage `json:"mcpServers"`
}

// Load reads the plugin of a folder, which source has named. All that is wrong
// with it is in one error.
func Load(folder, source string) (*content.Plugin, error) {
	l := &loader{p: &content.Plugin{Source: source, Servers: map[string]settings.MCPServer{}}}
	if err := l.locate(folder); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", folder, err)
	}
	l.read()
	if err := errors.Join(l.errs...); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", folder, err)
	}
	return l.p, nil
}

type loader struct {
	p    *content.Plugin
	errs []error
	// parts counts what makes a folder a plugin.
	parts int
}

func (l *loader) fail(format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf(format, args...))
}

// locate finds the folder.
func (l *loader) locate(folder string) error {
	path, err := filepath.Abs(folder)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("there is no such folder")
	case err != nil:
		return err
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = errors.New("it is no folder")
	}
	l.p.Path = path
	return err
}

func (l *loader) read() {
	m := l.manifest()
	p := l.p
	p.Name, p.Version, p.Description = m.Name, m.Version, m.Description
	if p.Name == "" {
		p.Name = filepath.Base(p.Path)
	}
	if err := CheckName(p.Name); err != nil {
		l.fail("%w; set name in %s", err, manifestFile)
	}
	p.Commands = l.places("commands", m.Commands, "commands")
	p.Agents = l.places("agents", m.Agents, "agents")
	p.Skills = l.places("skills", m.Skills, "skills")
	p.Styles = l.places("outputStyles", m.Styles, "output-styles")
	l.files("hooks", m.Hooks, hooksFile, l.hooks)
	l.files("mcpServers", m.Servers, serversFile, l.servers)
	if l.parts == 0 && len(l.errs) == 0 {
		l.fail("the folder holds no plugin: neither %s nor commands, agents, skills, output-styles, %s or %s", manifestFile, hooksFile, serversFile)
	}
}

// CheckName says what is wrong with the name of a plugin: the names of its parts
// are made of it.
func CheckName(name string) error {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.' {
			return fmt.Errorf("%q is no name of a plugin: use letters, digits and any of -_. in it", name)
		}
	}
	if name == "" || name[0] == '.' || len(name) > maxName {
		return fmt.Errorf("%q is no name of a plugin: use 1 to %d characters, the first of them no dot", name, maxName)
	}
	return nil
}

func (l *loader) manifest() (m manifest) {
	d := l.document(manifestFile, false)
	if d == nil {
		return m
	}
	if err := wirejson.Unmarshal(d.JSON(), &m); err != nil {
		l.fail("%s:%w", manifestFile, d.Locate(err))
		return manifest{}
	}
	return m
}

// document reads a JSON file of the plugin; nil when there is none, or when it
// cannot be used.
func (l *loader) document(name string, wanted bool) *settingsfile.Document {
	file := filepath.Join(l.p.Path, filepath.FromSlash(name))
	info, err := contextfile.Find(file)
	switch {
	case err != nil:
		l.fail("%w", err)
		return nil
	case info == nil:
		if wanted {
			l.fail("there is no %s", name)
		}
		return nil
	}
	l.parts++
	real, err := contextfile.Inside(l.p.Path, file)
	if err != nil {
		l.fail("%w", err)
		return nil
	}
	d, err := settingsfile.Read(real)
	if err != nil {
		l.fail("%w", err)
		return nil
	}
	return d
}

// places gives the files and folders of one kind of parts: the usual folder, if it
// is there, and what the manifest names.
func (l *loader) places(key string, named json.RawMessage, usual string) (list []string) {
	add := func(name string, wanted bool) {
		path := filepath.Join(l.p.Path, filepath.FromSlash(name))
		info, err := contextfile.Find(path)
		if info == nil && err == nil {
			if wanted {
				l.fail("%s: there is no %s", key, name)
			}
			return
		}
		if err == nil {
			path, err = contextfile.Inside(l.p.Path, path)
		}
		if err != nil {
			l.fail("%s: %w", key, err)
			return
		}
		l.parts++
		if !slices.Contains(list, path) {
			list = append(list, path)
		}
	}
	add(usual, false)
	names, ok := paths(named)
	if !ok {
		l.fail("%s: %s of a plugin is a path or a list of paths", manifestFile, key)
	}
	for _, name := range names {
		if l.local(key, name) {
			add(name, true)
		}
	}
	return list
}

// local reports whether a path that the manifest names is inside of the folder.
func (l *loader) local(key, name string) bool {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		l.fail("%s: %s: %q is no path inside the plugin", manifestFile, key, name)
		return false
	}
	return true
}

// files has take read the objects of a part that is JSON: the usual file, and what
// the manifest names or holds.
func (l *loader) files(key string, named json.RawMessage, usual string, take func(file string, raw json.RawMessage) error) {
	use := func(name string, wanted bool) {
		d := l.document(name, wanted)
		if d == nil {
			return
		}
		if err := take(filepath.Join(l.p.Path, filepath.FromSlash(name)), d.JSON()); err != nil {
			l.fail("%s: %w", name, err)
		}
	}
	use(usual, false)
	if isObject(named) {
		if err := take(filepath.Join(l.p.Path, filepath.FromSlash(manifestFile)), named); err != nil {
			l.fail("%s: %s: %w", manifestFile, key, err)
		}
		return
	}
	names, ok := paths(named)
	if !ok {
		l.fail("%s: %s of a plugin is a path, a list of paths or an object", manifestFile, key)
	}
	for _, name := range names {
		if l.local(key, name) && filepath.Clean(filepath.FromSlash(name)) != filepath.FromSlash(usual) {
			use(name, true)
		}
	}
}

// inner gives the member of an object that holds what is wanted, or the object
// itself, as people leave the outer braces out.
func inner(raw json.RawMessage, member string) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := wirejson.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	held, ok := all[member]
	if !ok {
		return all, nil
	}
	var list map[string]json.RawMessage
	if err := wirejson.Unmarshal(held, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", member, err)
	}
	return list, nil
}

func (l *loader) hooks(file string, raw json.RawMessage) error {
	events, err := inner(raw, "hooks")
	if err != nil {
		return err
	}
	delete(events, "description")
	for _, event := range slices.Sorted(maps.Keys(events)) {
		var groups []json.RawMessage
		if err := wirejson.Unmarshal(events[event], &groups); err != nil {
			return fmt.Errorf("hooks of %s: not a list: %w", event, err)
		}
	}
	said, err := wirejson.Marshal(events)
	if err != nil {
		return err
	}
	l.p.Hooks = append(l.p.Hooks, content.Hooks{File: file, Raw: said})
	return nil
}

func (l *loader) servers(_ string, raw json.RawMessage) error {
	list, err := inner(raw, "mcpServers")
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		var s settings.MCPServer
		if err := wirejson.Unmarshal(list[name], &s); err != nil {
			return fmt.Errorf("server %q: %w", name, err)
		}
		if s.Command == "" && s.URL == "" || strings.TrimSpace(name) == "" {
			return fmt.Errorf("server %q needs a name and a command or a url", name)
		}
		l.p.Servers[name] = l.expand(s)
	}
	return nil
}

// expand fills in the folder; what else is to be filled in is so at the start.
func (l *loader) expand(s settings.MCPServer) settings.MCPServer {
	s.Command, s.URL = l.p.Expand(s.Command), l.p.Expand(s.URL)
	args := make([]string, len(s.Args))
	for i, a := range s.Args {
		args[i] = l.p.Expand(a)
	}
	s.Args = args
	env := map[string]string{content.RootVariable: l.p.Path}
	for name, value := range s.Env {
		env[name] = l.p.Expand(value)
	}
	headers := map[string]string{}
	for name, value := range s.Headers {
		headers[name] = l.p.Expand(value)
	}
	if s.URL == "" {
		s.Env = env
	} else {
		s.Headers = headers
	}
	return s
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// paths reads a path or a list of paths; nothing is none.
func paths(raw json.RawMessage) (list []string, ok bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, true
	}
	var one string
	if wirejson.Unmarshal(raw, &one) == nil {
		return []string{one}, true
	}
	return list, wirejson.Unmarshal(raw, &list) == nil
}
