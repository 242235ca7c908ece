// Command echo is a plugin that gives back what it is told, by every way that a
// plugin has: as a tool, a model, a hook, a part of the system prompt, a slash
// command, and a reader of events.
package main

import (
	"strings"

	"dsh/sdkproto/plugin"
)

func main() { plugin.Serve(echo(&config{Prefix: "You said: ", Repeat: 1})) }

// config is what a row of a profile may say. The values that main gives are the
// defaults.
type config struct {
	Prefix string   `json:"prefix,omitzero" jsonschema:"What stands before everything that is given back."`
	Repeat int      `json:"repeat,omitzero" jsonschema:"How often a text is given back, from 1 to 10."`
	Refuse []string `json:"refuse,omitzero" jsonschema:"Words that neither prompts nor calls of tools may hold."`
}

// Validate says what the schema cannot.
func (c *config) Validate() error {
	if c.Repeat < 1 || c.Repeat > 10 {
		return plugin.Invalid("repeat", "%d is not from 1 to 10", c.Repeat)
	}
	for _, word := range c.Refuse {
		if strings.TrimSpace(word) == "" {
			return plugin.Invalid("refuse", "%q is no word; leave it out", word)
		}
	}
	return nil
}

// again is a text as it is given back.
func (c *config) again(text string) string {
	return c.Prefix + strings.TrimSpace(strings.Repeat(text+" ", c.Repeat))
}

func echo(c *config) plugin.Plugin {
	return plugin.Plugin{
		Name: "echo", Version: "1.0.0", Summary: "Gives back what it is told.",
		Config:   plugin.Config(c),
		Tools:    []plugin.Tool{echoTool(c)},
		Models:   models(c),
		Hooks:    hooks(c),
		Sections: []plugin.Section{section()},
		Commands: []plugin.Command{command(c)},
		Events:   events(),
	}
}
