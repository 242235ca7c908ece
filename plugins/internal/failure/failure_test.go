package failure_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"dsh/plugins/internal/failure"
	"dsh/sdkproto"
)

func TestResult(t *testing.T) {
	for name, tc := range map[string]struct{ class, code, prefix, said, wantClass, want string }{
		"a failure":     {"XError", "X_BAD", "Error: ", "no\x00 \xff", "XError", "Error: no\ufffd \ufffd"},
		"bad arguments": {"XError", failure.Arguments, "", "no", "ToolArgumentsError", "no"},
		"a long text":   {"XError", "X_BAD", "Error: ", strings.Repeat("é", 3000), "XError", "Error: " + strings.Repeat("é", 1999) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			res := failure.Result(tc.class, tc.code, tc.prefix, "%s", tc.said)
			text := sdkproto.TextOf(res.Content)
			if !res.IsError || res.Error.Name != tc.wantClass || res.Error.Code != tc.code || text != tc.want || !utf8.ValidString(text) {
				t.Errorf("got %+v %.100q", res.Error, text)
			}
		})
	}
}
