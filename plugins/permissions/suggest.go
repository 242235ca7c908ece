package permissions

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"dsh/kernel/approval"
	"dsh/kernel/tool"
	"dsh/sdkproto/wirejson"
)

const (
	// maxPrefix bounds the command that a rule is suggested for, in bytes.
	maxPrefix = 200
	// maxSuggested bounds the rules that are suggested for one command.
	maxSuggested = 5
)

// suggestions are the changes of policy that would spare a call like this one the
// next question (spec stream-json 7.6). There are none where no rule would help,
// and none under a preset, which has no modes to change to.
func (j *Judge) suggestions(s tool.Spec, arguments []byte, r ruling) []approval.Update {
	if isPreset(j.Word) || s.AsksUser || r.Behavior != approval.Ask ||
		r.ReasonType != approval.ReasonOther && r.ReasonType != approval.ReasonWorkingDir {
		return nil
	}
	var updates []approval.Update
	if rules := j.suggestedRules(s, arguments, r.f); len(rules) > 0 {
		updates = append(updates, approval.Update{
			Type: approval.AddRules, Rules: rules, Behavior: approval.Allow, Destination: approval.DestinationLocal,
		})
	}
	if dir := folderAt(r.f.away); dir != "" && dir != j.Home {
		updates = append(updates, approval.Update{
			Type: approval.AddDirectories, Directories: []string{dir}, Destination: approval.DestinationSession,
		})
	}
	writes := s.Subject.Kind == tool.SubjectPath && !s.ReadOnly
	if j.Word == ModeDefault && (writes || r.f.inside) {
		updates = append(updates, approval.Update{Type: approval.SetMode, Mode: ModeAcceptEdits, Destination: approval.DestinationSession})
	}
	return updates
}

// suggestedRules are the allow rules that a person may want to have.
func (j *Judge) suggestedRules(s tool.Spec, arguments []byte, f findings) []approval.Rule {
	name := cmp.Or(s.Subject.Rule, s.Name)
	switch s.Subject.Kind {
	case tool.SubjectCommand:
		contents := slices.Compact(f.wanting)
		if len(contents) > maxSuggested || slices.Contains(contents, "") {
			return nil
		}
		rules := make([]approval.Rule, len(contents))
		for i, content := range contents {
			rules[i] = approval.Rule{ToolName: name, RuleContent: content}
		}
		return rules
	case tool.SubjectPath, tool.SubjectPattern:
		return nil
	}
	var members map[string]any
	_ = wirejson.Unmarshal(arguments, &members) // what cannot be read has no subject
	subject, _ := members[s.Subject.Member].(string)
	switch s.Subject.Kind {
	case tool.SubjectURL:
		if host := hostOf(subject); host != "" {
			return []approval.Rule{{ToolName: name, RuleContent: "domain:" + host}}
		}
		return nil
	case tool.SubjectText:
		if subject == "" || strings.ContainsAny(subject, "*\\\n") || len(subject) > maxPrefix {
			return nil
		}
		return []approval.Rule{{ToolName: name, RuleContent: subject}}
	}
	return []approval.Rule{{ToolName: name}}
}

// prefixOf gives the content of a rule for commands that begin like this one: its
// program and subcommand where it has one, else all of it; "" when no rule can say
// it.
func prefixOf(words []word) string {
	if slices.ContainsFunc(words, func(w word) bool { return !w.known }) {
		return ""
	}
	n := len(words)
	if n > 1 && isSubcommand(words[1].text) {
		n = 2
		if words[1].text == "run" && len(words) > 2 && isSubcommand(words[2].text) {
			n = 3
		}
	}
	text := textOf(words[:n])
	if len(text) > maxPrefix || strings.ContainsAny(text, "*\\\n") {
		return ""
	}
	return text + ":*"
}

// isSubcommand: a word such as test, push or build-all, and no option or file.
func isSubcommand(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz-") == "" && text[0] != '-'
}

// folderAt is the folder that opens a path: the path itself when it is one, else
// the one it is in; "" when that is the whole machine.
func folderAt(path string) string {
	if path == "" {
		return ""
	}
	dir := path
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		dir = filepath.Dir(path)
	}
	if dir == filepath.Dir(dir) {
		return ""
	}
	return dir
}
