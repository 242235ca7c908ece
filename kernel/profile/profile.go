// Package profile turns a named profile into the ordered rows a kernel loads.
//
// A profile is layered YAML. Later layers win; rows merge by id and, inside a
// row, mappings merge key by key, while lists and scalars replace and null
// deletes:
//
//	embedded profile with its extends chain
//	$DSH_HOME/profiles/<name>.yaml
//	$DSH_HOME/profile.yaml
//	--patch files, in order
//	environment overrides a profile declares under env
//	--set id.key=value, in order; := replaces, += adds to a list
//
// Nothing in the workspace is read: a checkout must not be able to start
// programs. The package is the only user of YAML nodes and, with cmd, of viper,
// and viper sees process settings only (decision R25): it would fold the case
// of keys, split dotted ones and drop nulls.
//
// Files follow the YAML 1.2 core schema: yes, no and on are text, 0123 is one
// hundred twenty-three, integers keep all digits. Keys keep their case and
// dots. A UTF-8 byte-order mark and CRLF are accepted; a file that exists and
// cannot be used is an error, never "no rules" (case B82).
//
// Scalars of rows and settings may hold ${env:NAME} and ${file:PATH}; $${
// stands for a literal ${. A relative PATH starts at the folder of the file
// that holds it. A quoted scalar stays text; a bare one becomes a number or a
// boolean again when it looks like one, never null and never a mapping. Inside
// a flow mapping such a scalar has to be quoted, because YAML ends a bare one
// at the brace. Values given by --set and by environment overrides are taken
// as they are.
package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Position is where a value was written.
type Position struct {
	// File is a path, "embedded:sdk.yaml", "$DSH_X" or "--set id.key".
	File string
	// Line and Column count from 1; 0 means that there are no lines.
	Line, Column int
}

// String gives "file:line", or "file" when Line is 0.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}

// Entry is one composed row of a profile.
type Entry struct {
	// ID is unique in the profile and matches [a-z][a-z0-9-]*.
	ID string
	// Use is the name of a plugin, or an executable, as written.
	Use string
	// UseDir is the folder of the file that gave Use, where a relative path in
	// Use starts; "" when Use came from an embedded profile, the environment or
	// the command line.
	UseDir string
	// Enabled is true unless the row says otherwise.
	Enabled bool
	// Required is nil when the row does not say (decision R10).
	Required *bool
	// Config is a JSON object with key case and number text kept; "{}" when the
	// row has none.
	Config []byte
	// Checksum pins an executable; "" when the row does not say.
	Checksum string
	// Pos is where the row first appears, UsePos where Use was written.
	Pos, UsePos Position
	// Origin tells where the value at an RFC 6901 pointer below config comes
	// from; for a pointer that leads nowhere, the nearest enclosing value.
	Origin func(pointer string) Position

	config   *value   // nil for an entry built by hand
	rendered string   // Config as it was composed, to notice a changed one
	deferred []*Error // interpolations a disabled row could not resolve
}

// Settings are the process settings of a profile's settings block.
type Settings struct {
	// LogLevel is debug, info, warn or error; info by default. DSH_LOG_LEVEL
	// and the flag logLevel override it.
	LogLevel string
	// Home is the data folder. DSH_HOME and the flag home override it; by
	// default it is Options.Home. A relative path in a file starts at the
	// file's folder. It says where a program keeps its data, not where profiles
	// are looked up: those are found before it is known.
	Home string
	// Reload is ReloadOnSignal, the default, or ReloadOnChange. DSH_RELOAD
	// overrides it.
	Reload string

	shown map[string]*value // what Dump prints
}

// Ways to reload a running profile.
const (
	// ReloadOnSignal: when the process gets SIGHUP.
	ReloadOnSignal = "signal"
	// ReloadOnChange: also when a file of the profile changes.
	ReloadOnChange = "change"
)

// Profile is a composed profile.
type Profile struct {
	// Name is the profile's name; for a path, its base name without extension.
	Name string
	// Summary is the profile's own one line of text; "" when it has none.
	Summary string
	// Entries are the rows in order of first appearance, disabled ones included.
	Entries []Entry
	// Settings are the process settings.
	Settings Settings
	// CredentialEnv are the environment variables that rows name as
	// credentials, sorted: the text values of config keys that end in Env.
	// Children must not inherit them (decision D28).
	CredentialEnv []string
	// Layers are the files that took part, in order, as Position.File shows them.
	Layers []string

	home string
	env  *value
	rows *value
}

// Entry finds a row by id.
func (p *Profile) Entry(id string) (*Entry, bool) {
	for i := range p.Entries {
		if p.Entries[i].ID == id {
			return &p.Entries[i], true
		}
	}
	return nil, false
}

// Options say which profile to load and with what on top.
type Options struct {
	// Name is a profile's name, or a path: anything that holds a path separator
	// or ends in .yaml or .yml.
	Name string
	// Embedded holds the built-in profiles, *.yaml at its root; nil is none.
	Embedded fs.FS
	// Home is the folder of $DSH_HOME; "" reads nothing there.
	Home string
	// Patches are the files of --patch, in order.
	Patches []string
	// Sets are the overrides of --set, in order: id.key.sub=value, the value
	// parsed as JSON, else text. := puts it in the place of what is there, so that
	// nulls in it stay; += adds a list to the list that is there. id.enabled, id.use and id.required address the
	// row, everything else its config; a key that holds a dot, and a config key
	// with one of those three names at the top, cannot be addressed.
	Sets []string
	// SetNames are what messages call the keys of Sets, for those that another flag
	// of a program stands for; the others are "--set KEY".
	SetNames map[string]string
	// Env looks up environment variables; nil finds none.
	Env func(string) (string, bool)
	// Flags are process settings from the command line by their settings key;
	// an empty value counts as not given.
	Flags map[string]string
}

func (o *Options) env(name string) (string, bool) {
	if o.Env == nil {
		return "", false
	}
	return o.Env(name)
}

// Error is one thing wrong with a profile.
type Error struct {
	// Pos is where it was written.
	Pos Position
	// Path is the key path, such as plugins.rpc.config.toolFilter; "" when the
	// whole file is meant.
	Path string
	// Msg says what is wrong and what to do.
	Msg string
}

func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	for _, s := range []string{e.Pos.String(), e.Path, e.Msg} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// problems collects errors, so that all are reported and not the first.
type problems []*Error

func (p *problems) add(pos Position, path, format string, args ...any) {
	*p = append(*p, &Error{Pos: pos, Path: path, Msg: fmt.Sprintf(format, args...)})
}

func (p problems) join() error {
	errs := make([]error, len(p))
	for i, e := range p {
		errs[i] = e
	}
	return errors.Join(errs...)
}

// Load finds, layers, interpolates and checks a profile. Its error joins one
// *Error for everything found wrong. Config is not checked against what the
// plugins know; Entry.Decode does that. With an error comes what could be made
// of the profile, or nil when a file of it cannot be used: it is good for finding
// what else is wrong, never for running.
func Load(o Options) (*Profile, error) {
	l := &loader{opts: o, taken: map[string]bool{}}
	l.collect()
	incomplete := len(l.bad) > l.misshapen
	sets := l.parseSets()
	if incomplete {
		return nil, l.bad.join()
	}
	top := l.compose(sets)
	p := &Profile{
		Name:    profileName(o.Name),
		Summary: l.summary,
		home:    o.Home,
		env:     top.get("env"),
		rows:    top.get("plugins"),
	}
	for _, layer := range l.layers {
		p.Layers = append(p.Layers, layer.file)
	}
	p.Settings = l.settings(top.get("settings"))
	for _, id := range p.rows.names() {
		p.Entries = append(p.Entries, l.entry(id, p.rows))
	}
	for i := range p.Entries {
		p.CredentialEnv = credentialNames(p.CredentialEnv, p.Entries[i].config)
	}
	slices.Sort(p.CredentialEnv)
	p.CredentialEnv = slices.Compact(p.CredentialEnv)
	return p, l.bad.join()
}

// compose merges the layers and puts the declared environment overrides and
// the --set values on top.
func (l *loader) compose(sets []*value) *value {
	top := newMapping(Position{})
	for _, name := range []string{"env", "settings", "plugins"} {
		top.set(name, newMapping(Position{}))
	}
	known := map[string]bool{}
	for _, layer := range l.layers {
		top = merge(top, layer.root)
		for _, id := range layer.root.get("plugins").names() {
			known[id] = true
		}
	}
	for _, over := range l.envOverrides(top, known) {
		top = merge(top, over)
	}
	for _, over := range sets {
		top = merge(top, over)
	}
	return top
}

// entry checks one composed row.
func (l *loader) entry(id string, rows *value) Entry {
	path := "plugins." + id
	row := rows.get(id)
	e := Entry{ID: id, Enabled: true, Pos: row.pos}
	if row.get("use") == nil {
		var others []string
		for _, other := range rows.names() {
			if rows.get(other).get("use") != nil {
				others = append(others, other)
			}
		}
		l.bad.add(row.pos, path, "the row has no `use`; name a plugin or an executable%s", DidYouMean(id, others))
	}
	for _, key := range row.names() {
		if key == "config" {
			continue
		}
		at := path + "." + key
		v := l.resolve(row.get(key), at, &l.bad)
		switch {
		case v == nil:
		case key == "use" && v.kind == text && v.text != "":
			e.Use, e.UseDir, e.UsePos = v.text, v.dir(), v.pos
		case key == "use":
			l.bad.add(v.pos, at, "must be the name of a plugin or an executable, not %s", v.describe())
		case key == "checksum" && v.kind != list && v.kind != mapping:
			e.Checksum = v.text
		case key == "checksum":
			l.bad.add(v.pos, at, "must be text, not %s", v.describe())
		case v.kind != truth:
			l.bad.add(v.pos, at, "must be true or false, not %s", v.describe())
		case key == "enabled":
			e.Enabled = v.text == "true"
		case key == "required":
			required := v.text == "true"
			e.Required = &required
		}
	}
	e.config = row.get("config")
	if e.config == nil {
		e.config = newMapping(row.pos)
	}
	var unresolved problems
	e.config = l.resolve(e.config, path+".config", &unresolved)
	if e.Enabled {
		l.bad = append(l.bad, unresolved...)
	} else {
		// A row is often switched off exactly because its variables are not
		// there; Decode tells should it be mounted after all.
		e.deferred = unresolved
	}
	e.Config = e.config.appendJSON(nil)
	e.rendered = string(e.Config)
	root := e.config
	e.Origin = func(pointer string) Position { return root.locate(pointer).pos }
	return e
}

// credentialNames appends the text values of keys that end in Env.
func credentialNames(names []string, v *value) []string {
	for _, key := range v.names() {
		if m := v.get(key); m.kind == text && m.text != "" && strings.HasSuffix(key, "Env") {
			names = append(names, m.text)
		}
	}
	for _, child := range v.children() {
		names = credentialNames(names, child)
	}
	return names
}
