package jsonrpc_test

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"dsh/kernel/profile"
	"dsh/plugins/jsonrpc"
)

// The time for an approval is text; what is no time is refused with its key.
func TestConfigApprovalTimeout(t *testing.T) {
	for _, tc := range []struct {
		name, config string
		want         time.Duration
		wrong        string
	}{
		{"default", `{}`, 5 * time.Minute, ""},
		{"seconds", `{approvalTimeout: 90s}`, 90 * time.Second, ""},
		{"none", `{approvalTimeout: 0s}`, 0, ""},
		{"negative", `{approvalTimeout: -1s}`, 0, "cannot be negative"},
		{"a number", `{approvalTimeout: 300}`, 0, "not a length of time"},
		{"a word", `{approvalTimeout: soon}`, 0, "not a length of time"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := profile.Load(profile.Options{Name: "t", Home: t.TempDir(), Embedded: fstest.MapFS{
				"t.yaml": {Data: []byte("plugins:\n  rpc: {use: jsonrpc, config: " + tc.config + "}\n")},
			}})
			if err != nil {
				t.Fatal(err)
			}
			c := jsonrpc.Plugin.Defaults().(*jsonrpc.Config)
			var errs []string
			for _, err := range p.Entries[0].Decode(c) {
				errs = append(errs, err.Error())
			}
			if len(errs) == 0 {
				if err := c.Validate(); err != nil {
					errs = append(errs, err.Error())
				}
			}
			all := strings.Join(errs, "\n")
			if tc.wrong == "" && (all != "" || time.Duration(c.ApprovalTimeout) != tc.want) || !strings.Contains(all, tc.wrong) {
				t.Errorf("got %v, %q", time.Duration(c.ApprovalTimeout), all)
			}
		})
	}
}
