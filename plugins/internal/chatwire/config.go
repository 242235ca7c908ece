package chatwire

import (
	"errors"
	"time"

	"dsh/kernel"
	"dsh/sdkproto"
)

// UserAgent is what adapters call themselves.
const UserAgent = "dsh/" + sdkproto.ServerVersion

// Default limits of the rows of adapters (decision D18).
const (
	DefaultIdle    = kernel.Duration(300 * time.Second)
	DefaultConnect = kernel.Duration(30 * time.Second)
)

// CheckConfig checks the parts that the configs of all adapters have; its errors
// name their keys. An empty baseURL is not checked.
func CheckConfig(baseURL string, headers map[string]string, idle, connect kernel.Duration) error {
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
		value kernel.Duration
	}{{"idle", idle}, {"connect", connect}} {
		if limit.value < kernel.Duration(time.Second) {
			errs = append(errs, kernel.Invalid(limit.key, "%v is too short; use \"1s\" or more", limit.value))
		}
	}
	return errors.Join(errs...)
}
