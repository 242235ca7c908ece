package settings

import (
	"path/filepath"
	"slices"

	"dsh/sdkproto/wirejson"
)

// Folder is a folder with a settings file, or with room for one: files of other
// kinds stand beside it (spec stream-json 1.3, 7.4).
type Folder struct {
	// Dir is absolute; Scope is ScopeUser or ScopeProject.
	Dir, Scope string
	// Trusted is that of the Layer.
	Trusted bool
}

// Folders gives the folders of the user and of the project, low to high, whose
// files are read.
func Folders(layers []Layer) (list []Folder) {
	for _, l := range layers {
		if l.Unread || l.ServersOnly || l.File == "" || l.Scope != ScopeUser && l.Scope != ScopeProject {
			continue
		}
		dir := filepath.Dir(l.File)
		if !slices.ContainsFunc(list, func(f Folder) bool { return f.Dir == dir }) {
			list = append(list, Folder{dir, l.Scope, l.Trusted})
		}
	}
	return list
}

// Reads reports whether the files of a scope are read; without layers they are.
func Reads(layers []Layer, scope string) bool {
	return !slices.ContainsFunc(layers, func(l Layer) bool { return l.Scope == scope && l.Unread })
}

// Beside gives the folders, low to high, with files of another kind than settings:
// those of user and project, where the settings of their scope are read at all, and
// behind them the folders of that name beside settings files.
func Beside(layers []Layer, name string, user, project []string) (users, projects []string) {
	if Reads(layers, ScopeUser) {
		users = slices.Clip(user)
	}
	if Reads(layers, ScopeProject) {
		projects = slices.Clip(project)
	}
	for _, f := range Folders(layers) {
		list := &users
		if f.Scope == ScopeProject {
			list = &projects
		}
		if dir := filepath.Join(f.Dir, name); !slices.Contains(*list, dir) {
			*list = append(*list, dir)
		}
	}
	return users, projects
}

// Text is what the highest layer that counts and has a text under a key says
// there, "" when none has. Of layers that are not trusted none counts: a text
// narrows nothing.
func Text(layers []Layer, key string) (value string) {
	for _, l := range layers {
		var all map[string]any
		if l.Err != nil || l.ServersOnly || !l.Trusted || len(l.Raw) == 0 || wirejson.Unmarshal(l.Raw, &all) != nil {
			continue
		}
		if said, ok := all[key].(string); ok && said != "" {
			value = said
		}
	}
	return value
}
