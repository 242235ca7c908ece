package permissions

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"dsh/kernel"
	"dsh/kernel/approval"
	"dsh/kernel/process"
)

// Config says what calls of tools may do; an empty one is preset
// workspace-write.
type Config struct {
	// Preset is read-only, workspace-write or danger-full-access (spec jsonrpc
	// 11.2); "" is workspace-write, unless Mode says something.
	Preset string `json:"preset"`
	// Mode is the other way to give the ground rules: default, acceptEdits, plan,
	// bypassPermissions or dontAsk (spec stream-json 7.1). Programs are then not
	// confined. With default, a mode that the user's settings name takes its place.
	Mode string `json:"mode"`
	// DisableBypass makes mode bypassPermissions an error.
	DisableBypass bool `json:"disableBypass"`
	// Rules are permission rules such as Bash(git status:*), Edit(src/**) or
	// mcp__github, by what they do. Deny beats ask, ask beats allow.
	Rules Rules `json:"rules"`
	// Flags are rules that were given at the start (--allowedTools,
	// --disallowedTools); they do what Rules do, and their scope is cliArg.
	Flags Rules `json:"flags"`
	// AdditionalDirectories are working directories beside the session's own.
	AdditionalDirectories []string `json:"additionalDirectories,omitzero"`
	// Writable are further folders that preset workspace-write opens, beside the
	// one for temporary files and the caches of the user's programs.
	Writable []string `json:"writable,omitzero"`
	// Protected are names of files and folders that no call writes without a
	// question. A command that is confined is only held to it as far as the command
	// says what it writes.
	Protected []string `json:"protected,omitzero"`
	// Network false forbids confined programs to use the network.
	Network bool `json:"network"`
	// Strict refuses commands, servers and plugins when this machine cannot hold
	// the whole confinement.
	Strict bool `json:"strict"`
	// Approvals is ask or never: whether anybody is asked about a call that nothing
	// allows. "" is ask, and never under danger-full-access.
	Approvals string `json:"approvals"`
	// PromptTool is the full name of a tool, such as mcp__server__tool, that is
	// called with {tool_name, input, tool_use_id} in place of asking the client; its
	// text is the answer (spec stream-json 7.3). "" and stdio ask the client.
	PromptTool string `json:"promptTool"`
	// Children is what Approvals is, for delegated sessions (spec jsonrpc 8.4).
	Children string `json:"children"`
	// AnswerLimitMs bounds the wait for an answer, in milliseconds; 0 is no limit.
	AnswerLimitMs int `json:"answerLimitMs"`
}

// Rules are the rules of a config, by behavior.
type Rules struct {
	Allow []string `json:"allow,omitzero"`
	Ask   []string `json:"ask,omitzero"`
	Deny  []string `json:"deny,omitzero"`
}

// Approval policies (spec jsonrpc 5.6).
const (
	policyAsk   = "ask"
	policyNever = "never"
)

func defaults() Config {
	return Config{
		Network: true, Children: policyNever,
		Protected: []string{
			".git", ".claude", ".dsh", ".mcp.json", ".ssh", ".gitconfig", ".gitmodules",
			".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile",
			".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc",
		},
	}
}

// Scopes of the rules of the config.
const (
	scopeProfile = "profile"
	scopeFlags   = approval.DestinationFlags
)

// promptStdio is the PromptTool that means the client (S010).
const promptStdio = "stdio"

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	oneOf := func(key, value string, known ...string) error {
		if value == "" || slices.Contains(known, value) {
			return nil
		}
		return kernel.Invalid(key, "there is no %s %q; use %s", key, value, strings.Join(known, ", "))
	}
	errs := []error{
		oneOf("preset", c.Preset, process.ReadOnly, process.WorkspaceWrite, process.FullAccess),
		oneOf("mode", c.Mode, append(modes(), "manual")...),
		oneOf("approvals", c.Approvals, policyAsk, policyNever),
		oneOf("children", c.Children, policyAsk, policyNever),
		kernel.AtLeast("answerLimitMs", c.AnswerLimitMs, 0),
	}
	switch {
	case c.Preset != "" && c.Mode != "":
		errs = append(errs, kernel.Invalid("mode", "preset %s and mode %s are two ways to say the same; take one away", c.Preset, c.Mode))
	case c.DisableBypass && c.Mode == ModeBypass:
		errs = append(errs, kernel.Invalid("mode", "disableBypass forbids mode %s", c.Mode))
	}
	if _, _, err := c.pools(); err != nil {
		errs = append(errs, err)
	}
	for key, names := range map[string][]string{"protected": c.Protected, "additionalDirectories": c.AdditionalDirectories, "writable": c.Writable} {
		if slices.Contains(names, "") {
			errs = append(errs, kernel.Invalid(key, "an entry is empty; take it away"))
		}
	}
	return errors.Join(errs...)
}

func modes() []string {
	return slices.DeleteFunc(words(), isPreset)
}

// word is what the config puts in force.
func (c *Config) word() string {
	switch {
	case c.Mode == "manual":
		return ModeDefault
	case c.Mode != "":
		return c.Mode
	case c.Preset != "":
		return c.Preset
	}
	return process.WorkspaceWrite
}

// pools reads the rules of the config: those of the profile and those of flags.
func (c *Config) pools() (profile, flags Pool, err error) {
	var errs []error
	read := func(pool *Pool, key, scope string, rules Rules) {
		for _, list := range []struct {
			behavior string
			texts    []string
		}{{approval.Deny, rules.Deny}, {approval.Ask, rules.Ask}, {approval.Allow, rules.Allow}} {
			for i, text := range list.texts {
				r, err := ParseRule(text, list.behavior, scope, "")
				if err != nil {
					errs = append(errs, kernel.Invalid(fmt.Sprintf("%s/%s/%d", key, list.behavior, i), "%v", err))
					continue
				}
				pool.add(r)
			}
		}
	}
	read(&profile, "rules", scopeProfile, c.Rules)
	read(&flags, "flags", scopeFlags, c.Flags)
	return profile, flags, errors.Join(errs...)
}
