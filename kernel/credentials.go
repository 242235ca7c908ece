package kernel

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// CredentialEnv names the environment variables that hold credentials: no child
// process inherits them (decision D28). A reload may add names; none is ever
// taken back, because what ran under the old profile may still know it. A nil
// CredentialEnv has no names.
type CredentialEnv struct {
	mu    sync.Mutex
	names []string
}

// NewCredentialEnv is for composing a plugin by hand.
func NewCredentialEnv(names ...string) *CredentialEnv {
	c := &CredentialEnv{}
	c.add(names)
	return c
}

// Names lists them, sorted. The slice is the same one until a name is added.
func (c *CredentialEnv) Names() []string {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names
}

func (c *CredentialEnv) add(names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Concat(c.names, names)
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != len(c.names) {
		c.names = all
	}
}

// credentialNames adds to the variables that the profile spells out those that
// a row's config names by default: the text of keys that end in Env.
func credentialNames(spelled []string, rows []row) []string {
	names := slices.Clone(spelled)
	for _, r := range rows {
		names = namedInEnv(names, reflect.ValueOf(r.config))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func namedInEnv(names []string, v reflect.Value) []string {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			names = namedInEnv(names, v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			names = namedInEnv(names, v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			names = namedInEnv(names, v.MapIndex(key))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if member := v.Field(i); member.Kind() == reflect.String && strings.HasSuffix(key, "Env") && member.String() != "" {
				names = append(names, member.String())
			} else if f.IsExported() {
				names = namedInEnv(names, member)
			}
		}
	}
	return names
}
