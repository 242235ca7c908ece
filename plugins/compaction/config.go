package compaction

import (
	"errors"

	"dsh/kernel"
)

// Config says what a deployment may choose; an empty one is valid. All sizes are
// in tokens.
type Config struct {
	// Share is the part of the model's window, 0 to 1, beyond which room is made.
	// It is less where the window must hold the longest answer as well. For a
	// model whose window is not known, room is made only when a request was
	// refused as too long.
	Share float64 `json:"share"`
	// KeepTokens is how much of the end of the history stays as it is, where that
	// is less than a quarter of what is allowed. What the model has not answered
	// yet, and the last prompt, stay in any case.
	KeepTokens int64 `json:"keepTokens"`
	// PruneOver is the size from which an older tool result is cut, to half of it.
	// Results that the model has not answered are cut, and even smaller ones, only
	// where nothing else makes room.
	PruneOver int64   `json:"pruneOver"`
	Summary   Summary `json:"summary"`
	// Attempts bounds the requests for summaries that are made for one model
	// request, whatever becomes of them; 0 asks for none and leaves out what is
	// too much.
	Attempts int `json:"attempts"`
}

// Summary says who writes summaries.
type Summary struct {
	// MaxTokens is the longest answer; it is less for a model with a small window.
	MaxTokens int64 `json:"maxTokens"`
	// Provider and Model name another model than the session's; a model alone is
	// one of the session's provider.
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

func defaults() Config {
	return Config{Share: 0.8, KeepTokens: 20_000, PruneOver: 2_000, Summary: Summary{MaxTokens: 8_000}, Attempts: 2}
}

// maxAttempts keeps the model requests of one event below six: the one that was
// refused, two repetitions, and these (case B61).
const maxAttempts = 2

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	errs := []error{
		kernel.AtLeast("keepTokens", c.KeepTokens, 0),
		kernel.AtLeast("pruneOver", c.PruneOver, 100),
		kernel.AtLeast("summary/maxTokens", c.Summary.MaxTokens, 100),
		kernel.AtLeast("attempts", c.Attempts, 0),
	}
	if c.Share <= 0 || c.Share > 1 {
		errs = append(errs, kernel.Invalid("share", "%v is not a part of the window; use a number above 0 and up to 1, such as 0.8", c.Share))
	}
	if c.Attempts > maxAttempts {
		errs = append(errs, kernel.Invalid("attempts", "%d is too many; use %d or less", c.Attempts, maxAttempts))
	}
	if c.Summary.Provider != "" && c.Summary.Model == "" {
		errs = append(errs, kernel.Invalid("summary/model", "a provider alone does not say which model; name one"))
	}
	return errors.Join(errs...)
}
