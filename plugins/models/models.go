package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"dsh/kernel/credential"
	"dsh/kernel/llm"
)

// DefaultModel is the word for the default of a format (spec stream-json 4.5).
const DefaultModel = "default"

// noCredential is how a client is told that a route has no key (spec stream-json
// 3.2).
const noCredential = "none"

// Models is an llm.Models over the table of its config.
type Models struct {
	formats     []named
	credentials credential.Source
	life        context.Context
}

var _ llm.Models = (*Models)(nil)

// New makes the catalogue; it asks for no credential yet.
func New(p Params) *Models {
	credentials := p.Credentials
	if credentials == nil {
		credentials = credential.Environment(os.LookupEnv)
	}
	return &Models{formats: p.Config.formats(), credentials: credentials, life: p.Self.Owner.Context()}
}

// Resolve implements llm.Models.
func (m *Models) Resolve(format, model string) (llm.Route, error) {
	if model == DefaultModel {
		model = ""
	}
	f, err := m.choose(format, model)
	if err != nil {
		return llm.Route{}, err
	}
	return f.route(model), nil
}

// choose finds the format of a model by the rule that Rule prints (S080).
func (m *Models) choose(format, model string) (*named, error) {
	if format != "" {
		return m.named(format)
	}
	if model != "" {
		for i := range m.formats {
			if _, ok := m.formats[i].Aliases[model]; ok {
				return &m.formats[i], nil
			}
		}
		for i := range m.formats {
			if m.formats[i].matches(model) {
				return &m.formats[i], nil
			}
		}
	}
	var keyed *named
	for i := range m.formats {
		f := &m.formats[i]
		if !f.needsKey() {
			continue
		}
		if m.credential(f) != "" {
			return f, nil
		}
		if keyed == nil {
			keyed = f
		}
	}
	// A named model without a key is the turn's business: its error says what to
	// set (spec stream-json 12.3).
	if model != "" && keyed != nil {
		return keyed, nil
	}
	return m.named(llm.FormatMock)
}

func (m *Models) named(format string) (*named, error) {
	for i := range m.formats {
		if m.formats[i].name == format {
			return &m.formats[i], nil
		}
	}
	return nil, fmt.Errorf("unknown API format %q; use one of %s", format, strings.Join(llm.Formats(), ", "))
}

func (f *Format) needsKey() bool { return f.APIKeyEnv != "" || f.AuthTokenEnv != "" }

func (f *Format) matches(model string) bool {
	return slices.ContainsFunc(f.Patterns, func(p string) bool {
		ok, err := path.Match(p, model)
		return ok && err == nil
	})
}

// route gives the route of a model that is meant under the format.
func (f *Format) route(model string) llm.Route {
	model = cmp.Or(model, f.Default)
	if to, ok := f.Aliases[model]; ok {
		model = to
	}
	return llm.Route{Provider: f.Provider, Model: model}
}

// Models implements llm.Models. Without a format it lists what the credentials
// that are set can answer.
func (m *Models) Models(format string) []llm.Model {
	first, err := m.choose(format, "")
	if err != nil {
		return nil
	}
	route := first.route("")
	list := []llm.Model{{
		Value: DefaultModel, Name: "Default", Description: route.Model, Route: route, Efforts: first.efforts(route.Model),
	}}
	for i := range m.formats {
		f := &m.formats[i]
		if f != first && (format != "" || m.credential(f) == "") {
			continue
		}
		for _, e := range f.Models {
			list = append(list, llm.Model{
				Value: e.Value, Name: cmp.Or(e.Name, e.Value), Description: cmp.Or(e.Description, f.route(e.Value).Model),
				Route: f.route(e.Value), Efforts: slices.Clone(e.Efforts),
			})
		}
	}
	return list
}

// efforts gives those of a model by its id.
func (f *Format) efforts(id string) []string {
	for _, e := range f.Models {
		if f.route(e.Value).Model == id {
			return slices.Clone(e.Efforts)
		}
	}
	return nil
}

// Credential implements llm.Models.
func (m *Models) Credential(r llm.Route) string {
	for i := range m.formats {
		if f := &m.formats[i]; f.Provider == r.Provider {
			return cmp.Or(m.credential(f), noCredential)
		}
	}
	return noCredential
}

// credential names the credential that the adapter of a format would send, ""
// without one. One that cannot be used counts as set: the turn then says what is
// wrong with it.
func (m *Models) credential(f *named) string {
	for _, name := range []string{f.AuthTokenEnv, f.APIKeyEnv} {
		if name == "" {
			continue
		}
		_, err := m.credentials.Lookup(m.life, name)
		var missing *credential.MissingError
		if !errors.As(err, &missing) && m.life.Err() == nil {
			return name
		}
	}
	return ""
}

// Rule says in lines of text how a model is found, for people.
func (c *Config) Rule() []string {
	lines := []string{"--api-format decides when it is given: " + strings.Join(llm.Formats(), ", ") + "."}
	var ids, keyed []string
	for _, f := range c.formats() {
		names := append(slices.Sorted(maps.Keys(f.Aliases)), f.Patterns...)
		if len(names) > 0 {
			ids = append(ids, strings.Join(names, ", ")+" mean "+f.name)
		}
		if f.needsKey() {
			set := f.APIKeyEnv
			if f.AuthTokenEnv != "" {
				set += " or " + f.AuthTokenEnv
			}
			keyed = append(keyed, fmt.Sprintf("%s for %s (%s)", set, f.name, f.route("").Model))
		}
	}
	return append(lines,
		"Else the model does: "+strings.Join(ids, "; ")+".",
		"Else the first credential that is set: "+strings.Join(keyed, ", then ")+".",
		"Without a model and without a credential the scripted model "+c.Mock.route("").Model+" answers.",
		"A named model without its key fails the turn, which says what to set.",
	)
}

// Rule is that of an empty config.
func Rule() []string {
	c := defaults()
	return c.Rule()
}
