package frontmatter_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/plugins/internal/frontmatter"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       map[string]string
		body, err  string
	}{
		{"a head", "---\nname: x\ndescription: does it\n---\nbody\n", map[string]string{"name": "x", "description": "does it"}, "body\n", ""},
		{"texts as written (B81)", "---\na: off\nb: 1.10\nc: 0123\nd: \"q: r\"\ne:\nf: ~\n---\n", map[string]string{"a": "off", "b": "1.10", "c": "0123", "d": "q: r", "e": "", "f": ""}, "", ""},
		{"more than texts", "---\nname: x\nallowed-tools: [a, b]\nm: {k: v}\n---\n", map[string]string{"name": "x", "allowed-tools": "", "m": ""}, "", ""},
		{"folded", "---\nd: >-\n  one\n  two\n---\nb", map[string]string{"d": "one two"}, "b", ""},
		{"CRLF", "---\r\nname: x\r\n---\r\nbody\r\n", map[string]string{"name": "x"}, "body\r\n", ""},
		{"no head", "body\n---\nname: x\n---\n", nil, "body\n---\nname: x\n---\n", ""},
		{"a head that does not end", "---\nname: x\n", nil, "---\nname: x\n", ""},
		{"an empty head", "---\n---\nbody", nil, "body", ""},
		{"a colon in a text", "---\nname: 'x'\ndescription: Use it when: always\n---\nbody", map[string]string{"name": "x", "description": "Use it when: always"}, "body", "no YAML"},
		{"a list", "---\n- a\n---\nbody", map[string]string{}, "body", "no YAML object"},
		{"too long", "---\nname: " + strings.Repeat("x", 65<<10) + "\n---\nbody", nil, "body", "longer than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, body, err := frontmatter.Parse(tc.text)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("got %v, want %q", err, tc.err)
			}
			if body != tc.body {
				t.Errorf("body %q, want %q", body, tc.body)
			}
			got := map[string]string{}
			for _, key := range m.Keys() {
				got[key] = m.Text(key)
			}
			if tc.want == nil {
				tc.want = map[string]string{}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestList(t *testing.T) {
	for _, tc := range []struct {
		name, value string
		want        []string
		ok          bool
	}{
		{"a list", "[a, 1.10, 'b c']", []string{"a", "1.10", "b c"}, true},
		{"lines", "\n  - a\n  - b", []string{"a", "b"}, true},
		{"an empty list", "[]", []string{}, true},
		{"one text", "a", []string{"a"}, true},
		{"commas", "a, Bash(git:*, ls), ,b", []string{"a", "Bash(git:*, ls)", "b"}, true},
		{"a parenthesis too many", "a), b", []string{"a)", "b"}, true},
		{"nothing", "", nil, false},
		{"an object", "{a: b}", nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, _, err := frontmatter.Parse("---\nk: " + tc.value + "\n---\n")
			if err != nil {
				t.Fatal(err)
			}
			got, ok := m.List("k")
			if diff := cmp.Diff(tc.want, got); diff != "" || ok != tc.ok {
				t.Errorf("ok %v (-want +got):\n%s", ok, diff)
			}
			if _, ok := m.List("other"); ok {
				t.Error("a key that is not there has a list")
			}
		})
	}
}
