package kernel

import (
	"reflect"
	"slices"

	"dsh/kernel/profile"
)

// Seam gives what a composed profile provides as T; false when no row of it
// does. It is for programs that use one part of a profile without serving it,
// such as a command that lists sessions; a plugin declares Needs instead.
func Seam[T any](k *Kernel) (T, bool) {
	if ptr, ok := k.seams[reflect.TypeFor[T]()]; ok {
		v, ok := ptr.Elem().Interface().(T)
		return v, ok
	}
	var none T
	return none, false
}

// Only gives the profile cut down to the row that provides T and the rows that
// one needs, directly or not; without a provider no row is left. What is wrong
// with the other rows is nobody's concern then.
func Only[T any](plugins []Plugin, p *profile.Profile) *profile.Profile {
	enabled := map[string]Plugin{}
	for _, e := range p.Entries {
		i := slices.IndexFunc(plugins, func(plugin Plugin) bool { return plugin.Name == e.Use })
		if e.Enabled && i >= 0 {
			enabled[e.ID] = plugins[i]
		}
	}
	kept := map[string]bool{}
	wanted := []reflect.Type{reflect.TypeFor[T]()}
	for len(wanted) > 0 {
		t := wanted[0]
		wanted = wanted[1:]
		for id, plugin := range enabled {
			if slices.Contains(plugin.provides, t) && !kept[id] {
				kept[id] = true
				wanted = append(wanted, plugin.needs...)
			}
		}
	}
	cut := *p
	cut.Entries = slices.DeleteFunc(slices.Clone(p.Entries), func(e profile.Entry) bool { return !kept[e.ID] })
	return &cut
}
