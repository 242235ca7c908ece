package jsonrpc

import "testing"

// Spec jsonrpc 4.4, 8.2; S110.
func TestFinishedStatus(t *testing.T) {
	for _, tt := range []struct{ stop, plain, lenient string }{
		{"completed", "ok", "ok"},
		{"max-tokens", "error", "ok"},
		{"aborted", "error", "error"},
		{"error", "error", "error"},
		{"refusal", "error", "error"},
		{"something new", "error", "error"},
	} {
		if got := finishedStatus(tt.stop, false); got != tt.plain {
			t.Errorf("%s: %s, want %s", tt.stop, got, tt.plain)
		}
		if got := finishedStatus(tt.stop, true); got != tt.lenient {
			t.Errorf("%s, max-tokens as success: %s, want %s", tt.stop, got, tt.lenient)
		}
	}
}
