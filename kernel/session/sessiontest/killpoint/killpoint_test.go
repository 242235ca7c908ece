package killpoint_test

import (
	"testing"

	"dsh/kernel/session/sessiontest/killpoint"
)

func TestParse(t *testing.T) {
	for text, ok := range map[string]bool{
		"append:1:before": true, "append:12:half": true, "append:3:after": true, "sync:1:before": true, "sync:2:after": true, "tool/result:1:half": true,
		"": false, "append": false, "append:0:before": false, "append:-1:half": false, "append:x:half": false,
		"sync:1:half": false, "close:1:before": false, "append:1:later": false, "append:1:before:": false,
	} {
		p, err := killpoint.Parse(text)
		if (err == nil) != ok {
			t.Errorf("Parse(%q): error %v, want ok=%v", text, err, ok)
		}
		if ok && p.String() != text {
			t.Errorf("Parse(%q).String() = %q", text, p)
		}
	}
}
