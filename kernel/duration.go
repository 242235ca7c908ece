package kernel

import (
	"fmt"
	"time"

	"dsh/sdkproto/wirejson"
)

// Duration is a length of time in a config, written as text: "500ms", "30s",
// "5m".
type Duration time.Duration

// UnmarshalJSON takes the text form.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := wirejson.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("%s is not a length of time; write text like \"500ms\" or \"10s\"", data)
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a length of time; write text like \"500ms\" or \"10s\"", text)
	}
	*d = Duration(v)
	return nil
}

// String gives the text form.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes the text form.
func (d Duration) MarshalJSON() ([]byte, error) {
	return wirejson.AppendString(nil, d.String()), nil
}
