package persona

import (
	"io"

	"dsh/kernel"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// Text is the sentence, a template of text/template with {{.Model}}, the
	// model's id, and {{.CWD}}, the session's absolute working directory. An empty
	// text leaves the sentence out.
	Text string `json:"text"`
}

func defaults() Config {
	return Config{Text: "You are a coding agent, powered by the model {{.Model}}; you read, change and run what is in the folder {{.CWD}}."}
}

// Validate tries the template out.
func (c *Config) Validate() error {
	t, err := parse(c.Text)
	if err == nil {
		err = t.Execute(io.Discard, words{})
	}
	if err != nil {
		return kernel.Invalid("text", "not a usable template: %v; {{.Model}} and {{.CWD}} are what it may name", err)
	}
	return nil
}
