package agentloop

import (
	"time"

	"dsh/kernel"
)

// Config is what a deployment can say about the loop (decision D18).
type Config struct {
	// MaxSteps ends a turn with reason max-steps after so many model answers.
	MaxSteps int `json:"maxSteps"`
	// MaxFailedCalls ends a turn as an error after so many failed calls in a row;
	// calls that were refused are none.
	MaxFailedCalls int `json:"maxFailedCalls"`
	// Pool is how many parallel calls of one answer run at once.
	Pool int `json:"pool"`
	// MaxQueued is how many messages wait in each list of one inbox.
	MaxQueued int     `json:"maxQueued"`
	Retries   Retries `json:"retries"`
	// VerifyRequests reads the log back before every model request and compares
	// it with what is about to be sent. For tests: it costs a read of the log.
	VerifyRequests bool `json:"verifyRequests"`
}

// Retries says how failed model requests are tried again (spec jsonrpc 10.6).
type Retries struct {
	// Max is the number of attempts after the first.
	Max int `json:"max"`
	// Delay is the wait before the first of them; it doubles up to MaxDelay. A
	// provider that asks for more than MaxDelay is not tried again.
	Delay    kernel.Duration `json:"delay"`
	MaxDelay kernel.Duration `json:"maxDelay"`
	// Jitter is the part, 0 to 1, by which a wait may be longer or shorter.
	Jitter float64 `json:"jitter"`
}

// Defaults is the config of an empty row.
func Defaults() Config {
	return Config{
		MaxSteps: 500, MaxFailedCalls: 10, Pool: 10, MaxQueued: 1000,
		Retries: Retries{Max: 5, Delay: kernel.Duration(500 * time.Millisecond), MaxDelay: kernel.Duration(10 * time.Second), Jitter: 0.1},
	}
}

// Validate checks the limits.
func (c *Config) Validate() error {
	for _, limit := range []struct {
		key   string
		value int
		least int
	}{
		{"maxSteps", c.MaxSteps, 1}, {"maxFailedCalls", c.MaxFailedCalls, 1}, {"pool", c.Pool, 1},
		{"maxQueued", c.MaxQueued, 1}, {"retries/max", c.Retries.Max, 0},
	} {
		if err := kernel.AtLeast(limit.key, limit.value, limit.least); err != nil {
			return err
		}
	}
	switch r := c.Retries; {
	case r.Delay < 0:
		return kernel.Invalid("retries/delay", "a delay cannot be negative; use \"0s\" or more")
	case r.MaxDelay < r.Delay:
		return kernel.Invalid("retries/maxDelay", "%v is less than the first delay; use %v or more", time.Duration(r.MaxDelay), time.Duration(r.Delay))
	case r.Jitter < 0 || r.Jitter > 1:
		return kernel.Invalid("retries/jitter", "%v is not between 0 and 1", r.Jitter)
	}
	return nil
}
