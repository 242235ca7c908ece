package main

import (
	"regexp"
	"strings"
	"testing"

	"dsh/sdkproto/wirejson"
)

// matches tells whether got has the shape of a pattern: an object has at least
// the members of the pattern's, an array has exactly its elements, text written
// /like this/ is a regular expression, everything else is equal.
func matches(pattern, got any) bool {
	switch pattern := pattern.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		for name, want := range pattern {
			value, has := object[name]
			ok = ok && has && matches(want, value)
		}
		return ok
	case []any:
		array, ok := got.([]any)
		ok = ok && len(array) == len(pattern)
		for i := 0; ok && i < len(pattern); i++ {
			ok = matches(pattern[i], array[i])
		}
		return ok
	case string:
		text, ok := got.(string)
		if inner, is := expression(pattern); is {
			return ok && regexp.MustCompile(inner).MatchString(text)
		}
		return ok && text == pattern
	}
	return pattern == got
}

func expression(pattern string) (inner string, ok bool) {
	if len(pattern) < 2 || !strings.HasPrefix(pattern, "/") || !strings.HasSuffix(pattern, "/") {
		return "", false
	}
	return pattern[1 : len(pattern)-1], true
}

// show writes a pattern for people.
func show(v any) string {
	text, err := wirejson.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// member walks from member to member; nil when there is none.
func member(v any, names ...string) any {
	for _, name := range names {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[name]
	}
	return v
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func number(v any) int64 {
	n, ok := v.(float64)
	if !ok {
		return -1
	}
	return int64(n)
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		pattern, got string
		want         bool
	}{
		{`{}`, `{"a":1}`, true},
		{`{}`, `[]`, false},
		{`{}`, `null`, false},
		{`{"a":{"b":"x"}}`, `{"a":{"b":"x","c":1},"d":2}`, true},
		{`{"a":{"b":"x"}}`, `{"a":{"b":"y"}}`, false},
		{`{"a":null}`, `{"a":null}`, true},
		{`{"a":null}`, `{}`, false},
		{`[1,{"a":2}]`, `[1,{"a":2,"b":3}]`, true},
		{`[1]`, `[1,2]`, false},
		{`[]`, `[]`, true},
		{`"/^a.c$/"`, `"abc"`, true},
		{`"/^a.c$/"`, `"abcd"`, false},
		{`"/1/"`, `1`, false},
		{`"/"`, `"/"`, true},
		{`1`, `1`, true},
		{`1`, `"1"`, false},
		{`true`, `true`, true},
		{`true`, `false`, false},
	} {
		var pattern, got any
		if err := wirejson.Unmarshal([]byte(tc.pattern), &pattern); err != nil {
			t.Fatal(err)
		}
		if err := wirejson.Unmarshal([]byte(tc.got), &got); err != nil {
			t.Fatal(err)
		}
		if matches(pattern, got) != tc.want {
			t.Errorf("pattern %s on %s: got %v", tc.pattern, tc.got, !tc.want)
		}
	}
}
