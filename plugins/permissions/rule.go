package permissions

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"dsh/kernel/approval"
	"dsh/kernel/tool"
)

// Rule is one permission rule (spec stream-json 7.2).
type Rule struct {
	// Text is the rule as it was written; Behavior is allow, ask or deny; Scope says
	// where it comes from: profile, session, or the scope of a settings file.
	Text, Behavior, Scope string

	// tool is the name, and content what stands in the parentheses; "" when all
	// calls are meant.
	tool, content string
	// root is what patterns of the form /path are relative to, "" for the working
	// directory.
	root string
	// path is content as a pattern of paths, nil when it is none; pathErr says why.
	path    *pathPattern
	pathErr error
}

// Families of tools that rules take together: a rule about the one is about the
// others, too.
const (
	familyBash  = "Bash"
	familyEdit  = "Edit"
	familyRead  = "Read"
	familyAgent = "Agent"
	familySkill = "Skill"
	familyFetch = "WebFetch"
	// Searches have no address that a rule could name.
	familySearch = "WebSearch"
)

func familyOf(rule string) string {
	switch rule {
	case "Write", "NotebookEdit", "MultiEdit":
		return familyEdit
	case "Glob", "Grep", "LS":
		return familyRead
	case "Task":
		return familyAgent
	}
	return rule
}

// ParseRule reads a rule. Errors say what is wrong with it and name it.
func ParseRule(text, behavior, scope, root string) (*Rule, error) {
	r := &Rule{Text: strings.TrimSpace(text), Behavior: behavior, Scope: scope, root: root}
	if err := r.parse(); err != nil {
		return nil, fmt.Errorf("rule %q: %w", text, err)
	}
	return r, nil
}

func (r *Rule) parse() error {
	name, content, parens := strings.Cut(r.Text, "(")
	r.tool = strings.TrimSpace(name)
	if parens {
		inner, ok := strings.CutSuffix(content, ")")
		if !ok {
			return errors.New("the parenthesis is not closed; write Tool or Tool(what)")
		}
		r.content = unescape(inner)
	}
	if r.content == "*" {
		r.content = ""
	}
	switch {
	case r.tool == "":
		return errors.New("it names no tool; write Tool or Tool(what)")
	case strings.ContainsAny(r.tool, " \t\n,;()"):
		return errors.New("the name of a tool has no spaces, commas or parentheses; write one rule for each tool")
	case r.Behavior == approval.Allow && strings.Contains(r.tool, "*") && !isServerGlob(r.tool):
		return errors.New("an allow rule names its tool; only mcp__SERVER__* may stand for more than one")
	case strings.HasPrefix(r.tool, "mcp__") && r.content != "" && r.Behavior == approval.Allow:
		return errors.New("an allow rule about an MCP tool cannot look at its arguments; leave the parentheses out")
	}
	if r.content != "" && strings.TrimSpace(r.content) == "" {
		return errors.New("the parentheses hold only spaces; leave them out to mean every call")
	}
	if family := familyOf(r.tool); family == familyFetch && r.content != "" && !strings.HasPrefix(r.content, "domain:") {
		return errors.New("write WebFetch(domain:HOST)")
	}
	r.path, r.pathErr = parsePath(r.content)
	if family := familyOf(r.tool); r.content != "" && (family == familyEdit || family == familyRead) {
		return r.pathErr
	}
	return nil
}

// isServerGlob: "mcp__server__*" and "mcp__server__get_*" name their server.
func isServerGlob(name string) bool {
	rest, ok := strings.CutPrefix(name, "mcp__")
	server, _, found := strings.Cut(rest, "__")
	return ok && found && server != "" && !strings.Contains(server, "*")
}

// unescape undoes what the text form of a rule does to parentheses and
// backslashes (spec stream-json 7.6).
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte(`()\`, s[i+1]) >= 0 {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// RuleText is the text form of a rule in two parts.
func RuleText(r approval.Rule) string {
	if r.RuleContent == "" {
		return r.ToolName
	}
	return r.ToolName + "(" + strings.NewReplacer(`\`, `\\`, `(`, `\(`, `)`, `\)`).Replace(r.RuleContent) + ")"
}

func (r *Rule) String() string { return r.Text }

// names reports whether the rule is about the tool, by the tool's own name, by
// that of its kind or by that of its family.
func (r *Rule) names(s tool.Spec) bool {
	if r.isNamed(s.Name) {
		return true
	}
	kind := s.Subject.Rule
	if kind == "" {
		return false
	}
	// Agents and skills had other names once.
	return r.isNamed(kind) || r.tool == familyOf(kind) || familyOf(r.tool) == kind && familyOf(r.tool) == familyAgent
}

func (r *Rule) isNamed(name string) bool {
	if r.tool == name {
		return true
	}
	if strings.Contains(r.tool, "*") && wildcard(r.tool, name) {
		return true
	}
	// A server's name alone stands for all of its tools. Only a refusal may take
	// "mcp__a__b" for a server that is called "a__b".
	server, ok := strings.CutPrefix(r.tool, "mcp__")
	return ok && server != "" && strings.HasPrefix(name, r.tool+"__") && (r.Behavior != approval.Allow || !strings.Contains(server, "__"))
}

// bare: every call of the tool is meant.
func (r *Rule) bare() bool { return r.content == "" }

// Pool holds rules by what they do; where they come from decides nothing (spec
// stream-json 7.3).
type Pool struct{ Deny, Ask, Allow []*Rule }

func (p *Pool) add(rules ...*Rule) {
	for _, r := range rules {
		switch r.Behavior {
		case approval.Deny:
			p.Deny = append(p.Deny, r)
		case approval.Ask:
			p.Ask = append(p.Ask, r)
		default:
			p.Allow = append(p.Allow, r)
		}
	}
}

// Hides reports whether a bare deny rule takes the tool away as a whole.
func (p *Pool) Hides(s tool.Spec) bool {
	return slices.ContainsFunc(p.Deny, func(r *Rule) bool { return r.bare() && r.names(s) })
}

// about gives the rules on a tool.
func about(rules []*Rule, s tool.Spec) []*Rule {
	var found []*Rule
	for _, r := range rules {
		if r.names(s) {
			found = append(found, r)
		}
	}
	return found
}

// parseAll reads rules of one behavior and gives those that are good; the error
// joins what is wrong with the others.
func parseAll(texts []string, behavior, scope, root string) ([]*Rule, error) {
	var rules []*Rule
	var errs []error
	for _, text := range texts {
		r, err := ParseRule(text, behavior, scope, root)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		rules = append(rules, r)
	}
	return rules, errors.Join(errs...)
}
