package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dsh/kernel/content"
	"dsh/kernel/hook"
	"dsh/kernel/profile"
	"dsh/kernel/settings"
	"dsh/sdkproto/wirejson"
)

// parsed are the hooks of the settings of one folder.
type parsed struct {
	from    []settings.Layer
	plugins []*content.Plugin
	events  map[string][]*entry
}

// maxFolders bounds the folders whose hooks are kept parsed.
const maxFolders = 256

// settled gives the hooks of the settings that hold in a folder, parsed once for
// each version of the files.
func (e *Engine) settled(cwd string) *parsed {
	if e.with.Settings == nil && e.with.Content == nil || !e.with.Config.Settings {
		return &parsed{}
	}
	var from []settings.Layer
	if e.with.Settings != nil {
		from = e.with.Settings.For(cwd)
	}
	var plugins []*content.Plugin
	if e.with.Content != nil {
		plugins = e.with.Content.Plugins()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.parsed[cwd]; p != nil && slices.EqualFunc(p.from, from, sameLayer) && slices.Equal(p.plugins, plugins) {
		return p
	}
	p := e.parse(from, plugins)
	if len(e.parsed) >= maxFolders {
		clear(e.parsed)
	}
	e.parsed[cwd] = p
	return p
}

func sameLayer(a, b settings.Layer) bool {
	return a.File == b.File && a.Trusted == b.Trusted && bytes.Equal(a.Raw, b.Raw)
}

// top are the members of a settings file that matter here.
type top struct {
	Hooks json.RawMessage `json:"hooks"`
	// Off switches the hooks of all settings off.
	Off json.RawMessage `json:"disableAllHooks"`
}

// parse reads the hooks of all layers that count, and of plugins. Entries that cannot be used are
// told of, with their place, and left out (case B84).
func (e *Engine) parse(from []settings.Layer, plugins []*content.Plugin) *parsed {
	p := &parsed{from: slices.Clone(from), plugins: plugins, events: map[string][]*entry{}}
	off := false
	for _, l := range from {
		if l.Raw == nil || l.ServersOnly {
			continue
		}
		r := reader{e: e, file: l.File, into: p.events}
		if r.file == "" {
			r.file = "the settings of scope " + l.Scope
		}
		var t top
		if err := wirejson.Unmarshal(l.Raw, &t); err != nil {
			r.warn("hooks", err)
			continue
		}
		switch {
		case !l.Trusted && !isNull(t.Hooks):
			r.warn("hooks", errors.New("they are left out, because the folder is not trusted; `dsh trust` says how to change that"))
			continue
		case !l.Trusted:
			continue // it must not switch off what somebody else relies on, either
		}
		off = off || string(t.Off) == "true"
		r.events(t.Hooks)
	}
	for _, plugin := range plugins {
		for _, h := range plugin.Hooks {
			r := reader{e: e, file: h.File, root: plugin.Path, into: p.events}
			r.events(h.Raw)
		}
	}
	if off {
		clear(p.events)
	}
	return p
}

// reader reads the hooks of one file.
type reader struct {
	e    *Engine
	file string
	// root is the folder of the plugin, "" for settings.
	root string
	into map[string][]*entry
}

func (r *reader) warn(at string, err error) {
	r.e.notices.Warn("hooks of a settings file cannot be used as they are", r.file+": "+at, err)
}

// known are the events that hooks may hear of.
func known() []string {
	return []string{
		hook.PreToolUse, hook.PostToolUse, hook.PostToolUseFailure, hook.PostToolBatch, hook.PermissionRequest, hook.PermissionDenied,
		hook.UserPromptSubmit, hook.SessionStart, hook.SessionEnd, hook.Stop, hook.StopFailure, hook.SubagentStart, hook.SubagentStop,
		hook.PreCompact, hook.PostCompact, hook.Notification, hook.Elicitation, hook.ElicitationResult,
	}
}

func (r *reader) events(raw json.RawMessage) {
	if isNull(raw) {
		return
	}
	var byEvent map[string]json.RawMessage
	if err := wirejson.Unmarshal(raw, &byEvent); err != nil {
		r.warn("hooks", fmt.Errorf("not an object of event and list: %w", err))
		return
	}
	for _, event := range slices.Sorted(maps.Keys(byEvent)) {
		at := "hooks." + event
		if !slices.Contains(known(), event) {
			r.warn(at, fmt.Errorf("this harness does not tell of such an event%s", profile.DidYouMean(event, known())))
			continue
		}
		var groups []json.RawMessage
		if err := wirejson.Unmarshal(byEvent[event], &groups); err != nil {
			r.warn(at, fmt.Errorf("not a list: %w", err))
			continue
		}
		for i, g := range groups {
			r.group(fmt.Sprintf("%s[%d]", at, i), event, g)
		}
	}
}

// group is one matcher with its hooks.
type group struct {
	Matcher *string           `json:"matcher"`
	Hooks   []json.RawMessage `json:"hooks"`
}

func (r *reader) group(at, event string, raw json.RawMessage) {
	var g group
	err := wirejson.Unmarshal(raw, &g)
	if err == nil && g.Hooks == nil {
		err = errors.New(`it has no list "hooks"`)
	}
	if err != nil {
		r.warn(at, err)
		return
	}
	r.misspelled(at, raw, []string{"matcher", "hooks"})
	text := ""
	if g.Matcher != nil {
		text = *g.Matcher
	}
	m, err := newMatcher(text)
	if err != nil {
		r.warn(at+".matcher", err)
		return
	}
	for i, h := range g.Hooks {
		r.hook(fmt.Sprintf("%s.hooks[%d]", at, i), event, m, h)
	}
}

// command is one hook of a group.
type command struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	// Timeout is in seconds.
	Timeout *float64 `json:"timeout"`
	Async   bool     `json:"async"`
}

// maxSeconds is what a limit may be at the most: 30 days.
const maxSeconds = 30 * 24 * 60 * 60

func (r *reader) hook(at, event string, m matcher, raw json.RawMessage) {
	var c command
	if err := wirejson.Unmarshal(raw, &c); err != nil {
		r.warn(at, err)
		return
	}
	r.misspelled(at, raw, []string{"type", "command", "timeout", "async"})
	switch {
	case c.Type != "command":
		r.warn(at+".type", fmt.Errorf("hooks of type %q do not run here; use \"command\"", c.Type))
		return
	case strings.TrimSpace(c.Command) == "":
		r.warn(at+".command", errors.New("it is empty; say what to run"))
		return
	}
	x := &entry{matcher: m, event: event, name: clip(c.Command, mostName), command: c.Command, root: r.root, away: c.Async}
	if c.Timeout != nil {
		if s := *c.Timeout; s > 0 && s <= maxSeconds {
			x.limit = time.Duration(s * float64(time.Second))
		} else {
			r.warn(at+".timeout", fmt.Errorf("%v is no limit in seconds; the usual one holds", s))
		}
	}
	r.into[event] = append(r.into[event], x)
}

// misspelled tells of members that are near to a known one. Others are left to
// the programs that share the file.
func (r *reader) misspelled(at string, raw json.RawMessage, names []string) {
	var members map[string]json.RawMessage
	if err := wirejson.Unmarshal(raw, &members); err != nil {
		return // it was read before
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if slices.Contains(names, name) {
			continue
		}
		if hint := profile.DidYouMean(name, names); hint != "" {
			r.warn(at+"."+name, fmt.Errorf("unknown key%s", hint))
		}
	}
}

// isNull reports whether a member is absent or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
