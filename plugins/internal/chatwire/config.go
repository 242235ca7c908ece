package chatwire

import (
	"errors"
	"fmt"
	"time"

	"dsh/kernel"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// UserAgent is what adapters call themselves.
const UserAgent = "dsh/" + sdkproto.ServerVersion

// Default limits of the rows of adapters (decision D18).
const (
	DefaultIdle    = Duration(300 * time.Second)
	DefaultConnect = Duration(30 * time.Second)
)

// Duration is a length of time, written as text in a config: "300s", "5m".
type Duration time.Duration

// UnmarshalJSON takes the text form.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := wirejson.Unmarshal(data, &text); err != nil {
		return fmt.Errorf(`%s is not a length of time; write text like "30s" or "5m"`, data)
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf(`%q is not a length of time; write text like "30s" or "5m"`, text)
	}
	*d = Duration(v)
	return nil
}

// MarshalJSON writes the text form.
func (d Duration) MarshalJSON() ([]byte, error) {
	return wirejson.AppendString(nil, time.Duration(d).String()), nil
}

// String gives the text form.
func (d Duration) String() string { return time.Duration(d).String() }

// CheckConfig checks the parts that the configs of all adapters have; its errors
// name their keys. An empty baseURL is not checked.
func CheckConfig(baseURL string, headers map[string]string, idle, connect Duration) error {
	var errs []error
	if baseURL != "" {
		if _, err := CheckURL(baseURL); err != nil {
			errs = append(errs, kernel.Invalid("baseUrl", "%v", err))
		}
	}
	if err := CheckHeaders(headers); err != nil {
		errs = append(errs, kernel.Invalid("headers", "%v", err))
	}
	for _, limit := range []struct {
		key   string
		value Duration
	}{{"idle", idle}, {"connect", connect}} {
		if limit.value < Duration(time.Second) {
			errs = append(errs, kernel.Invalid(limit.key, "%v is too short; use \"1s\" or more", limit.value))
		}
	}
	return errors.Join(errs...)
}
