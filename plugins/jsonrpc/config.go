package jsonrpc

import (
	"errors"
	"time"

	"dsh/kernel"
	"dsh/kernel/tool"
	"dsh/sdkproto/ndjson"
)

// Config is the row's config.
type Config struct {
	// MaxLine is the longest request line, in bytes.
	MaxLine int `json:"maxLine"`
	// MaxQueued is how many prompts of one session may wait for their answer.
	MaxQueued int `json:"maxQueued"`
	// ToolFilter restricts the global tools of every session that a client makes,
	// and of its descendants: {allow: [names]}, {deny: [names]}, both, or
	// {allowNone: true}. Names are checked when a session is made, so that tools
	// may come late; a filter that names nothing is an error then (spec jsonrpc 4).
	ToolFilter *tool.Filter `json:"toolFilter,omitzero"`
	// MaxTokensAsSuccess makes subagent.finished report "ok" for a subagent that
	// came to its output limit (spec jsonrpc 4.4).
	MaxTokensAsSuccess bool `json:"maxTokensAsSuccess"`
	// ApprovalTimeout is how long a client that answers approval/request may take
	// for it, as text: "5m". Behind it the call is refused; "0s" waits as long as
	// the turn runs.
	ApprovalTimeout kernel.Duration `json:"approvalTimeout"`
}

func defaults() Config {
	return Config{MaxLine: ndjson.MaxLine, MaxQueued: defaultQueued, ApprovalTimeout: kernel.Duration(5 * time.Minute)}
}

// Validate checks the numbers.
func (c *Config) Validate() error {
	var negative error
	if c.ApprovalTimeout < 0 {
		negative = kernel.Invalid("approvalTimeout", "a time cannot be negative; use \"0s\" to wait as long as the turn runs")
	}
	return errors.Join(kernel.AtLeast("maxLine", c.MaxLine, 1024), kernel.AtLeast("maxQueued", c.MaxQueued, 1), negative)
}
