package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dsh/kernel"
	"dsh/kernel/process"
	"dsh/sdkproto/wirejson"
)

// Config is the config of a row with an executable.
type Config struct {
	// Host is for the harness.
	Host Host `json:"host"`
	// Plugin is all the rest, which only the plugin understands.
	Plugin map[string]json.RawMessage `json:",embed"`
}

// Host says how the harness treats a plugin.
type Host struct {
	// Env names variables that the plugin gets beside the usual ones, credentials
	// included: from the environment, or from where credentials are kept.
	Env []string `json:"env"`
	// StartTimeoutMs bounds the start until the plugin is ready (decision D6).
	StartTimeoutMs int64 `json:"startTimeoutMs"`
	// CallTimeoutMs bounds one call of a tool, a hook or a command, and the silence
	// between two chunks of a model's answer.
	CallTimeoutMs int64 `json:"callTimeoutMs"`
	// Restarts is how often the plugin is started again after it ended, before it
	// stays off; an end after a good minute starts the count anew.
	Restarts int `json:"restarts"`
	// HookFailure says what a hook that fails means: refuse, or pass. Empty is
	// refuse for a required row and pass for any other.
	HookFailure string `json:"hookFailure"`
	// Confine is read-only, workspace-write or danger-full-access; empty leaves it
	// to the policy of the profile.
	Confine string `json:"confine"`
}

// Words of Host.HookFailure.
const (
	refuse = "refuse"
	pass   = "pass"
)

func defaults() Config {
	return Config{Host: Host{StartTimeoutMs: 10_000, CallTimeoutMs: 300_000, Restarts: 5}}
}

// Validate reports everything that is wrong with the harness's part at once.
func (c *Config) Validate() error {
	errs := []error{
		atLeast("startTimeoutMs", c.Host.StartTimeoutMs, 1),
		atLeast("callTimeoutMs", c.Host.CallTimeoutMs, 1),
		atLeast("restarts", int64(c.Host.Restarts), 0),
		oneOf("hookFailure", c.Host.HookFailure, refuse, pass),
		oneOf("confine", c.Host.Confine, process.ReadOnly, process.WorkspaceWrite, process.FullAccess),
	}
	for _, name := range c.Host.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			errs = append(errs, invalid("env", "%q is not the name of an environment variable", name))
		}
	}
	return errors.Join(errs...)
}

func invalid(key, format string, args ...any) error {
	return &kernel.FieldError{Pointer: "/host/" + key, Msg: fmt.Sprintf(format, args...)}
}

func atLeast(key string, value, least int64) error {
	if value >= least {
		return nil
	}
	return invalid(key, "%d is too small; use %d or more", value, least)
}

func oneOf(key, word string, words ...string) error {
	if word == "" || slices.Contains(words, word) {
		return nil
	}
	return invalid(key, "%q is not known; use %s", word, strings.Join(words, ", "))
}

func (h *Host) startTimeout() time.Duration {
	return time.Duration(h.StartTimeoutMs) * time.Millisecond
}

func (h *Host) callTimeout() time.Duration {
	return time.Duration(h.CallTimeoutMs) * time.Millisecond
}

// json gives the plugin's part as one object.
func (c *Config) json() (json.RawMessage, error) {
	if len(c.Plugin) == 0 {
		return json.RawMessage("{}"), nil
	}
	return wirejson.Marshal(c.Plugin)
}
