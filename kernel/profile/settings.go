package profile

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/viper"
)

// setting is a process setting: its key in the settings block and as a flag,
// and the environment variable that overrides the block.
type setting struct{ key, variable, flag string }

// settings layers the process settings: default, settings block, environment,
// command line.
func (l *loader) settings(block *value) Settings {
	known := []setting{{"logLevel", "DSH_LOG_LEVEL", "--log-level"}, {"home", "DSH_HOME", "--home"}, {"reload", "DSH_RELOAD", "reload"}}
	v := viper.New()
	v.SetDefault("logLevel", "info")
	v.SetDefault("home", l.opts.Home)
	v.SetDefault("reload", ReloadOnSignal)
	file, env := map[string]any{}, map[string]any{}
	shown, from := map[string]*value{}, map[string]Position{}
	for _, s := range known {
		from[s.key] = Position{File: "default"}
		if given := l.settingIn(block, s.key); given != nil {
			file[s.key] = given.text
			shown[s.key] = given
		}
		// A blank variable counts as unset (spec jsonrpc 11.2).
		if given, _ := l.opts.env(s.variable); strings.TrimSpace(given) != "" {
			env[s.key] = given
			shown[s.key], from[s.key] = nil, Position{File: "$" + s.variable}
		}
		if given := l.opts.Flags[s.key]; given != "" {
			v.Set(s.key, given)
			shown[s.key], from[s.key] = nil, Position{File: s.flag}
		}
	}
	for _, layer := range []map[string]any{file, env} {
		if err := v.MergeConfigMap(layer); err != nil {
			l.bad.add(Position{}, "settings", "%v", err)
		}
	}
	for _, key := range settingKeys {
		if shown[key] == nil {
			shown[key] = &value{kind: text, text: v.GetString(key), pos: from[key]}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(l.opts.Flags)) {
		if !slices.Contains(settingKeys, key) {
			l.bad.add(Position{File: "command line"}, "", "%s", unknownKey(key, settingKeys))
		}
	}
	s := Settings{LogLevel: strings.ToLower(v.GetString("logLevel")), Home: v.GetString("home"), Reload: v.GetString("reload"), shown: shown}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, s.LogLevel) {
		level := shown["logLevel"]
		l.bad.add(level.pos, "settings.logLevel", "%s", level.conceal(fmt.Sprintf("%q is not a log level; use debug, info, warn or error", level.text)))
	}
	if s.Reload != ReloadOnSignal && s.Reload != ReloadOnChange {
		reload := shown["reload"]
		l.bad.add(reload.pos, "settings.reload", "%s", reload.conceal(fmt.Sprintf("%q is not a way to reload; use %s (on SIGHUP) or %s (also when a file of the profile changes)",
			reload.text, ReloadOnSignal, ReloadOnChange)))
	}
	return s
}

// settingIn gives a setting of the settings block, nil when there is none to
// use. A relative home starts at the folder of the file that gives it.
func (l *loader) settingIn(block *value, key string) *value {
	v, path := block.get(key), "settings."+key
	if v == nil {
		return nil
	}
	if v = l.resolve(v, path, &l.bad); v == nil {
		return nil
	}
	if v.kind != text || strings.TrimSpace(v.text) == "" {
		l.bad.add(v.pos, path, "must be text, not %s", v.describe())
		return nil
	}
	if key != "home" || filepath.IsAbs(v.text) {
		return v
	}
	if v.dir() == "" {
		l.bad.add(v.pos, path, "must be an absolute path in an embedded profile")
		return nil
	}
	out := *v
	out.text = filepath.Join(v.dir(), v.text)
	if !out.interpolated {
		out.layer = nil // shown as the path it stands for
	}
	return &out
}
