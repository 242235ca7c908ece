package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"

	"go.uber.org/fx"

	"dsh/kernel/profile"
	"dsh/kernel/stdio"
)

// Plugin is one kind of profile row: what it is called, what it needs and
// provides, and how it becomes an fx module. Make one with Define.
type Plugin struct {
	// Name is what a row's `use` says: kebab-case, seam first ("tool-todo").
	Name string
	// Summary is one sentence for people.
	Summary string

	needs, wants, provides []reflect.Type
	claims                 []string
	// optional: a row is not required unless it says so.
	optional bool
	// stamp tells one version of the plugin's code from another, "" where there is
	// one.
	stamp string
	// defaults gives a new config with every default filled in, as a pointer.
	defaults func() any
	// module builds the row's fx option from a config made by defaults.
	module func(in Instance, config any) fx.Option
}

// Instance is a row's place in the running profile. The kernel supplies it
// privately to the row's module.
type Instance struct {
	// ID is the row's id, Index its place in the profile.
	ID    string
	Index int
	// Owner is the row's; closing it takes back everything the row registered.
	Owner *Owner
	Log   *slog.Logger
	Ready *Ready
	Root  *Root
	// Mounter starts further rows at run time.
	Mounter Mounter
	// Stdio is the protocol's pair of descriptors; nil unless the plugin claims
	// "stdio".
	Stdio *stdio.Pair
	// Home is $DSH_HOME, absolute.
	Home string
	// Profile is the name of the profile.
	Profile string
	// Reload loads the profile anew and puts it in the place of the one that runs, as
	// Kernel.Reload does, but all of it or nothing: what fails to start is an error,
	// required or not. It is nil where nobody can load it.
	Reload func(context.Context) (changed []string, err error)
	// CredentialEnv names the variables that hold credentials: no child process
	// inherits them (decision D28).
	CredentialEnv *CredentialEnv

	live *liveRow
}

// Declaration says, as data, what a plugin takes from the composition or adds
// to it, so that the loader can explain what is missing before fx speaks.
type Declaration func(*Plugin)

// Needs declares that a row works only when another row provides T.
func Needs[T any]() Declaration {
	return func(p *Plugin) { p.needs = append(p.needs, reflect.TypeFor[T]()) }
}

// Wants declares that a row uses T if another row provides it (decision D26).
func Wants[T any]() Declaration {
	return func(p *Plugin) { p.wants = append(p.wants, reflect.TypeFor[T]()) }
}

// Provides declares that a row provides T to all others; one row of a profile
// may.
func Provides[T any]() Declaration {
	return func(p *Plugin) { p.provides = append(p.provides, reflect.TypeFor[T]()) }
}

// Claims declares that a row takes something there is only one of; "stdio" is
// the pair of protocol descriptors.
func Claims(what string) Declaration {
	return func(p *Plugin) { p.claims = append(p.claims, what) }
}

// Optional declares that a row's failure is a state and not the end, unless the
// row says `required: true` (decision R10).
func Optional() Declaration {
	return func(p *Plugin) { p.optional = true }
}

// Stamp declares which version of its code a plugin is: in a reload, a row whose
// plugin has another stamp has changed.
func Stamp(stamp string) Declaration {
	return func(p *Plugin) { p.stamp = stamp }
}

// Define makes a plugin. defaults gives a new, valid config; a row's config is
// decoded strictly on top of it, and its method `Validate() error`, if any, is
// called. module turns instance and config into fx options; both are supplied to
// the row's constructors anyway. What it provides without fx.Private is what the
// declarations say it provides.
func Define[C any](name, summary string, defaults func() C, module func(Instance, C) fx.Option, decl ...Declaration) Plugin {
	p := Plugin{
		Name: name, Summary: summary,
		defaults: func() any { c := defaults(); return &c },
		module:   func(in Instance, config any) fx.Option { return module(in, *config.(*C)) },
	}
	for _, d := range decl {
		d(&p)
	}
	return p
}

// moduleOf is the module of a row: it supplies the row's place and its config to
// the row alone. One Supply for both, because each costs a start 0.1 ms.
func (p Plugin) moduleOf(id string, in Instance, config any) fx.Option {
	return fx.Module(id, fx.Supply(in, reflect.ValueOf(config).Elem().Interface(), fx.Private), p.module(in, config))
}

// Seams lists the names of what a plugin needs, wants, provides and claims.
func (p Plugin) Seams() (needs, wants, provides, claims []string) {
	return seamNames(p.needs), seamNames(p.wants), seamNames(p.provides), p.claims
}

// Defaults gives the config of an empty row, as a pointer to the plugin's
// config struct.
func (p Plugin) Defaults() any { return p.defaults() }

type validator interface{ Validate() error }

// configure decodes a row into the plugin's config and validates it.
func (p Plugin) configure(e *profile.Entry) (any, []error) {
	config := p.defaults()
	if string(e.Config) == "{}" {
		// Most rows say nothing, and the first use of a type costs the decoder
		// more than everything after it.
	} else if found := e.Decode(config); len(found) > 0 {
		errs := make([]error, len(found))
		for i, err := range found {
			errs[i] = err
		}
		return nil, errs
	}
	v, ok := config.(validator)
	if !ok {
		return config, nil
	}
	if err := v.Validate(); err != nil {
		return nil, located(e, err)
	}
	return config, nil
}

// FieldError is a finding of Validate with the place it is about.
type FieldError struct {
	// Pointer is the RFC 6901 pointer below the row's config.
	Pointer string
	// Msg says what is wrong and what to do.
	Msg string
}

func (e *FieldError) Error() string { return e.Msg }

// Invalid makes a finding about one top-level key of a config.
func Invalid(key, format string, args ...any) error {
	return &FieldError{Pointer: "/" + key, Msg: fmt.Sprintf(format, args...)}
}

// AtLeast checks a number of a config.
func AtLeast[N int | int64 | float64](key string, value, least N) error {
	if value >= least {
		return nil
	}
	return Invalid(key, "%v is too small; use %v or more", value, least)
}

// isKebab reports whether a name is made of words of a to z and 0 to 9, joined by
// dashes, the first beginning with a letter. (A regular expression would be
// compiled at every start.)
func isKebab(name string) bool {
	for word := range strings.SplitSeq(name, "-") {
		if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			return false
		}
	}
	return name[0] >= 'a'
}

func (p Plugin) check() error {
	var errs []error
	if !isKebab(p.Name) {
		errs = append(errs, fmt.Errorf("plugin %q: the name must be kebab-case", p.Name))
	}
	if p.Summary == "" {
		errs = append(errs, fmt.Errorf("plugin %q has no summary", p.Name))
	}
	return errors.Join(errs...)
}

func seamName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.String()
}

func seamNames(types []reflect.Type) []string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = seamName(t)
	}
	return names
}
