package hooks

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"dsh/kernel/hook"
)

// matcher says which occurrences of an event a hook hears of (spec stream-json
// 6.1). The zero value hears of all.
type matcher struct {
	names   []string
	pattern *regexp.Regexp
}

// listed are the characters, beside letters and digits, of a matcher that is a
// list of names.
const listed = "_- ,|"

func newMatcher(text string) (matcher, error) {
	if text == "" || text == "*" {
		return matcher{}, nil
	}
	isList := !strings.ContainsFunc(text, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9') && !strings.ContainsRune(listed, r)
	})
	if isList {
		names := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '|' })
		for i, name := range names {
			names[i] = strings.TrimSpace(name)
		}
		return matcher{names: names}, nil
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		return matcher{}, fmt.Errorf("matcher %q is neither a list of names nor a regular expression: %w", text, err)
	}
	return matcher{pattern: pattern}, nil
}

// hears reports whether the matcher fits one of the names of an occurrence.
func (m matcher) hears(names []string) bool {
	switch {
	case m.pattern != nil:
		return slices.ContainsFunc(names, m.pattern.MatchString)
	case m.names != nil:
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(m.names, name) })
	}
	return true
}

// renamed are tools that hooks know by an older name, too.
func renamed() [][2]string { return [][2]string{{"Agent", "Task"}} }

// namesOf gives what matchers are compared with; nil for an event without
// matchers, which every hook on it hears of.
func namesOf(in *hook.Input) []string {
	switch in.Event {
	case hook.UserPromptSubmit, hook.Stop, hook.StopFailure, hook.PostToolBatch:
		return nil
	}
	names := []string{in.Match}
	if isToolEvent(in.Event) {
		for _, pair := range renamed() {
			switch in.Match {
			case pair[0]:
				names = append(names, pair[1])
			case pair[1]:
				names = append(names, pair[0])
			}
		}
	}
	return names
}

func isToolEvent(event string) bool {
	switch event {
	case hook.PreToolUse, hook.PostToolUse, hook.PostToolUseFailure, hook.PermissionRequest, hook.PermissionDenied:
		return true
	}
	return false
}
