package headless

import (
	"errors"
	"slices"
	"strings"

	"dsh/kernel"
	"dsh/kernel/session"
)

// Forms of the output.
const (
	// OutputText streams the text of the answers; tool calls, retries and failures
	// go to standard error.
	OutputText = "text"
	// OutputJSON is one Outcome on one line, at the end.
	OutputJSON = "json"
	// OutputEvents is the session's events as they come, one on each line (spec
	// jsonrpc 5.1).
	OutputEvents = "events"
)

// Config says what a deployment may choose; an empty one is valid. The flags of
// `dsh -p` set the same keys.
type Config struct {
	// Output is text, json or events.
	Output string `json:"output" enum:"text,json,events"`
	// Provider and Model are the route; ReasoningEffort "" and MaxTokens 0 leave
	// the choice to the provider's adapter.
	Provider        string `json:"provider"`
	Model           string `json:"model"`
	ReasoningEffort string `json:"reasoningEffort"`
	// MaxTokens caps the output of one model request, in tokens.
	MaxTokens int64 `json:"maxTokens"`
	// Session is the id of the session to go on with, or to begin; "" begins one
	// of a new id.
	Session string `json:"session"`
	// CWD is the working directory; "" is that of the process. A stored session
	// goes on in its own only.
	CWD string `json:"cwd"`
	// MaxPrompt bounds the prompt, in bytes.
	MaxPrompt int `json:"maxPrompt"`
}

func defaults() Config {
	return Config{Output: OutputText, Provider: "deepseek-official", Model: "deepseek-v4-flash", MaxPrompt: 64 << 20}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	forms := []string{OutputText, OutputJSON, OutputEvents}
	var errs []error
	if !slices.Contains(forms, c.Output) {
		errs = append(errs, kernel.Invalid("output", "%q is no form of output; use %s", c.Output, strings.Join(forms, ", ")))
	}
	for key, value := range map[string]string{"provider": c.Provider, "model": c.Model} {
		if value == "" {
			errs = append(errs, kernel.Invalid(key, "must not be empty"))
		}
	}
	if c.Session != "" {
		if err := session.CheckID(c.Session); err != nil {
			errs = append(errs, kernel.Invalid("session", "%v", err))
		}
	}
	errs = append(errs, kernel.AtLeast("maxTokens", c.MaxTokens, 0), kernel.AtLeast("maxPrompt", c.MaxPrompt, 1))
	return errors.Join(errs...)
}
