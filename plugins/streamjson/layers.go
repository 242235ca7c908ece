package streamjson

import (
	"encoding/json"
	"maps"
	"os"
	"slices"

	"dsh/kernel/settings"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// layers are those of the settings, low to high.
func (s *Server) layers() []settings.Layer {
	if s.Settings == nil {
		return nil
	}
	return s.Settings.For(s.cwd)
}

// members reads what a layer says, as far as it counts: of one that nobody has
// agreed to only what narrows rights does (spec stream-json 7.4).
func members(l *settings.Layer) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	if l.Err != nil || l.ServersOnly || len(l.Raw) == 0 || wirejson.Unmarshal(l.Raw, &all) != nil {
		return nil
	}
	if l.Trusted {
		return all
	}
	var permissions map[string]json.RawMessage
	if wirejson.Unmarshal(all["permissions"], &permissions) != nil {
		return nil
	}
	maps.DeleteFunc(permissions, func(key string, _ json.RawMessage) bool {
		return key != "deny" && key != "disableBypassPermissionsMode"
	})
	if len(permissions) == 0 {
		return nil
	}
	return map[string]json.RawMessage{"permissions": rawOf(permissions)}
}

// setting is what the highest layer that has a text under a key says there, "" when
// none has.
func (s *Server) setting(key string) string { return settings.Text(s.layers(), key) }

// setVariables sets the variables that the settings ask for: programs that are
// started later and credentials that are read later see them (spec stream-json 7.4).
func (s *Server) setVariables() {
	for _, l := range s.layers() {
		var list map[string]json.RawMessage
		if raw := members(&l)["env"]; kindOf(raw) != '{' || wirejson.Unmarshal(raw, &list) != nil {
			continue
		}
		for _, name := range sortedKeys(list) {
			value, ok := text(list[name])
			if !ok {
				continue
			}
			if err := os.Setenv(name, value); err != nil {
				s.Log.Warn("an environment variable of the settings was not set", "name", clip(name), "scope", l.Scope, "error", err)
			}
		}
	}
}

// merge lays one object over another: objects are merged, lists joined without what
// is there twice, and of all else the upper one holds (spec stream-json 4.9).
func merge(lower, upper map[string]json.RawMessage) map[string]json.RawMessage {
	out := maps.Clone(lower)
	if out == nil {
		out = map[string]json.RawMessage{}
	}
	for key, above := range upper {
		below := out[key]
		out[key] = above
		if kindOf(below) != kindOf(above) {
			continue
		}
		switch kindOf(above) {
		case '{':
			var a, b map[string]json.RawMessage
			if wirejson.Unmarshal(below, &a) == nil && wirejson.Unmarshal(above, &b) == nil {
				out[key] = rawOf(merge(a, b))
			}
		case '[':
			var a, b []json.RawMessage
			if wirejson.Unmarshal(below, &a) == nil && wirejson.Unmarshal(above, &b) == nil {
				out[key] = rawOf(joined(a, b))
			}
		}
	}
	return out
}

// joined gives the items of both lists, each once.
func joined(a, b []json.RawMessage) []json.RawMessage {
	out := []json.RawMessage{}
	for _, item := range slices.Concat(a, b) {
		item = compact(item)
		if !slices.ContainsFunc(out, func(x json.RawMessage) bool { return string(x) == string(item) }) {
			out = append(out, item)
		}
	}
	return out
}

// rawOf is a value made of parts that were parsed.
func rawOf(v any) json.RawMessage {
	raw, err := wirejson.Marshal(v)
	if err != nil {
		return json.RawMessage("null") // not possible: all parts are JSON
	}
	return raw
}

// flagLayer is the layer above the files, empty when it says nothing.
func (s *Server) flagLayer() json.RawMessage {
	for _, l := range s.layers() {
		if l.Scope == settings.ScopeFlag {
			return l.Raw
		}
	}
	return nil
}

// sources lists the layers for the client, each kind once and always, low to high
// (S048), as they are: what does not count of them is in no effective settings.
func (s *Server) sources() []streamjson.SettingsSource {
	list := []streamjson.SettingsSource{
		{Source: "userSettings"}, {Source: "projectSettings"}, {Source: "localSettings"}, {Source: "flagSettings"},
	}
	scopes := []string{settings.ScopeUser, settings.ScopeProject, settings.ScopeLocal, settings.ScopeFlag}
	said := make([]map[string]json.RawMessage, len(list))
	for _, l := range s.layers() {
		at := slices.Index(scopes, l.Scope)
		if at < 0 || l.ServersOnly {
			continue
		}
		if l.Err != nil {
			list[at].Error = l.Err.Error()
		}
		l.Trusted = true
		said[at] = merge(said[at], members(&l))
	}
	for i := range list {
		list[i].Settings = rawOf(merge(nil, said[i]))
	}
	return list
}

// effective is what all layers come to (S047).
func (s *Server) effective() json.RawMessage {
	var all map[string]json.RawMessage
	for _, l := range s.layers() {
		all = merge(all, members(&l))
	}
	return rawOf(merge(nil, all))
}
