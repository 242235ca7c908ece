package toolfilter

import "dsh/kernel/tool"

// Config is the restriction; an empty one is none.
type Config struct {
	// Allow names the only global tools there are, whatever is registered later;
	// Deny names global tools that there are not. An empty list is no way to say
	// that there are none: it is an error when an agent is made.
	Allow []string `json:"allow,omitzero"`
	Deny  []string `json:"deny,omitzero"`
	// AllowNone leaves no global tool at all.
	AllowNone bool `json:"allowNone"`
}

func defaults() Config { return Config{} }

// filter gives the filter of a row that is configured, nil for one that is not.
func (c *Config) filter() *tool.Filter {
	if c.Allow == nil && c.Deny == nil && !c.AllowNone {
		return nil
	}
	return &tool.Filter{Allow: c.Allow, Deny: c.Deny, AllowNone: c.AllowNone}
}

func restrict(p Params) error {
	f := p.Config.filter()
	if f == nil {
		return nil
	}
	return p.Tools.Restrict(p.Self.Owner, f)
}
