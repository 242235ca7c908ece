package commands

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	usersettings "dsh/kernel/settings"
)

func TestMasked(t *testing.T) {
	for text, want := range map[string]string{
		"https://h/p":                       "https://h/p",
		"https://user:pass@h:1/p@q":         "https://***@h:1/p@q",
		"https://token@h":                   "https://***@h",
		"https://h/p?key=abc&flag&x=#frag":  "https://h/p?key=***&flag&x=",
		"https://h/p?key=${env:KEY}":        "https://h/p?key=***",
		"no url, user:pass@h stays unknown": "no url, user:pass@h stays unknown",
	} {
		if got := maskedURL(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	got := masked(map[string]string{"a": "${env:A}", "b": "${B}", "c": "Bearer ${env:C}", "d": "${x}secret}", "e": ""})
	if diff := cmp.Diff(map[string]string{"a": "${env:A}", "b": "${B}", "c": "***", "d": "***", "e": "***"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestServerNames(t *testing.T) {
	for name, good := range map[string]bool{
		"GitHub": true, "a-b_c9": true, "12345678901234567890123456789012": true,
		"": false, "123456789012345678901234567890123": false, "a__b": false, "a_": false, "a b": false, "a.b": false, "ä": false,
	} {
		if err := checkServerName(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestServerOf(t *testing.T) {
	for _, tc := range []struct {
		target       []string
		transport    string
		env, headers []string
		want         usersettings.MCPServer
	}{
		{[]string{"npx", "-y"}, "", []string{"A=b=c", "A_=", "a=1"}, nil,
			usersettings.MCPServer{Type: "stdio", Command: "npx", Args: []string{"-y"}, Env: map[string]string{"A": "b=c", "A_": "", "a": "1"}}},
		{[]string{"http://h"}, "", nil, []string{"X-Api-Key:  k: v "},
			usersettings.MCPServer{Type: "http", URL: "http://h", Headers: map[string]string{"X-Api-Key": "k: v"}}},
		{[]string{"https://h"}, "sse", nil, nil, usersettings.MCPServer{Type: "sse", URL: "https://h"}},
		{[]string{"${env:URL}"}, "http", nil, nil, usersettings.MCPServer{Type: "http", URL: "${env:URL}"}},
		{[]string{"http"}, "", nil, nil, usersettings.MCPServer{Type: "stdio", Command: "http"}},
	} {
		got, err := serverOf(tc.target, tc.transport, tc.env, tc.headers)
		if err != nil {
			t.Errorf("%v: %v", tc.target, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Error(diff)
		}
	}
}
