package agentfiles

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"dsh/kernel/agent"
	"dsh/kernel/profile"
	"dsh/plugins/internal/contextfile"
	"dsh/plugins/internal/frontmatter"
)

// parsed is what a file says.
type parsed struct {
	kind agent.Definition
	err  error
}

// maxName and maxDescription are in characters.
const (
	maxName        = 64
	maxDescription = 4000
)

// read makes a kind of a file.
func (a *Agents) read(file contextfile.File) parsed {
	text, cut, err := contextfile.Read(file.Real, a.with.Config.MaxBytes)
	if err == nil && cut {
		err = fmt.Errorf("it is longer than %d bytes", a.with.Config.MaxBytes)
	}
	if err != nil {
		return parsed{err: err}
	}
	m, body, err := frontmatter.Parse(text)
	if err != nil {
		a.log.Info("the head of an agent is read line by line", "file", file.Path, "error", err)
	}
	kind, err := definition(m, file.Stem, body)
	return parsed{kind, err}
}

// definition makes a kind of a head and the body behind it. Unknown keys are left
// alone (spec stream-json 11.7).
func definition(m frontmatter.Matter, stem, body string) (agent.Definition, error) {
	d := agent.Definition{
		Name: m.Text("name"), Description: strings.TrimSpace(m.Text("description")), Prompt: strings.TrimSpace(body), Model: m.Text("model"),
		Effort: m.Text("effort"), PermissionMode: m.Text("permissionMode"), InitialPrompt: m.Text("initialPrompt"),
	}
	if d.Name == "" {
		d.Name = stem
	}
	var errs []error
	if n := len([]rune(d.Name)); n == 0 || n > maxName || strings.ContainsFunc(d.Name, func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) || r == '/' || r == ':' }) {
		errs = append(errs, fmt.Errorf("%q is no name of an agent: up to %d characters, no white space, no slash and no colon", d.Name, maxName))
	}
	if d.Description == "" || len([]rune(d.Description)) > maxDescription {
		errs = append(errs, fmt.Errorf("it needs a description of up to %d characters, which says when to use it", maxDescription))
	}
	if d.Prompt == "" {
		errs = append(errs, errors.New("it needs a prompt behind the head"))
	}
	if tools, ok := m.List("tools"); ok {
		d.Tools = tools
	}
	d.DisallowedTools, _ = m.List("disallowedTools")
	d.Skills, _ = m.List("skills")
	word := func(key, value string, words []string) {
		if value != "" && !slices.Contains(words, value) {
			errs = append(errs, fmt.Errorf("%s %q is not one of %s%s", key, value, strings.Join(words, ", "), profile.DidYouMean(value, words)))
		}
	}
	word("effort", d.Effort, agent.Efforts())
	word("permissionMode", d.PermissionMode, modes())
	if turns := m.Text("maxTurns"); turns != "" {
		n, err := strconv.Atoi(turns)
		if err != nil || n < 1 {
			errs = append(errs, fmt.Errorf("maxTurns %q is no number of 1 or more", turns))
		}
		d.MaxTurns = n
	}
	switch background := m.Text("background"); background {
	case "true":
		d.Background = true
	case "", "false":
	default:
		errs = append(errs, fmt.Errorf("background %q is neither true nor false", background))
	}
	return d, errors.Join(errs...)
}

// modes are those of spec stream-json 7.1, with the words that it lets stand for one.
func modes() []string {
	return []string{"default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "manual", "auto"}
}

// widens reports whether a mode asks less than the usual one (spec stream-json
// 7.1).
func widens(mode string) bool {
	return mode != "" && mode != "default" && mode != "plan" && mode != "dontAsk" && mode != "manual"
}
