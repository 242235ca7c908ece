package llmscripted

import (
	"fmt"
	"strings"
	"text/template"
	"unicode/utf8"

	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// facts are what rules and templates may know of a request.
type facts struct {
	model string
	// user is the text of the last message of a person; turn counts those
	// messages, and step is one more than the answers that followed the last.
	user       string
	turn, step int
	// results are those that followed the last message of a person, in order.
	results []result
	// match holds the groups of the rule's regular expression.
	match []string
	// aside says what a request beside the session's own asks for, one of the words of
	// asides; "" for all others.
	aside string
	// tools are those the request offers.
	tools []sdkproto.ToolSchema
	// sent counts the characters of the request.
	sent int
}

type result struct {
	tool, text string
	failed     bool
}

// aside is a kind of request beside the session's own. The scripts have word for
// it; answer is given where they have no rule.
type aside struct{ word, answer string }

// asides are those kinds, by the plugin that the question comes from.
func asides() map[string]aside {
	return map[string]aside{
		llm.SuggestionPlugin:   {"suggestion", "Tell me more about that."},
		sdkproto.AsideSummary:  {"summary", "Working on the task."},
		sdkproto.AsideTitle:    {"title", "A conversation with a script"},
		sdkproto.AsideQuestion: {"question", "The script does not say."},
	}
}

func factsOf(req llm.Request) *facts {
	f := &facts{model: req.Header.Config.Model, tools: req.Header.Tools, step: 1, sent: utf8.RuneCountInString(req.Header.System)}
	for _, t := range req.Header.Tools {
		f.sent += utf8.RuneCountInString(t.Name) + utf8.RuneCountInString(t.Description) + utf8.RuneCount(t.Parameters)
	}
	if last := len(req.Messages) - 1; last >= 0 {
		f.aside = asides()[req.Messages[last].Source.Plugin].word
	}
	names := map[string]string{}
	for _, m := range req.Messages {
		switch {
		case m.Source.Kind == sdkproto.SourceUser:
			f.turn++
			f.step = 1
			f.user = sdkproto.TextOf(m.Content)
			f.results = nil
		case m.Role == sdkproto.RoleAssistant:
			f.step++
		}
		for _, b := range m.Content {
			switch b.Type {
			case sdkproto.BlockToolCall:
				names[b.ID] = b.Name
				f.sent += utf8.RuneCountInString(b.Name) + utf8.RuneCountInString(b.Arguments)
			case sdkproto.BlockToolResult:
				r := result{names[b.ToolCallID], sdkproto.TextOf(b.Content), b.IsError}
				f.results = append(f.results, r)
				f.sent += utf8.RuneCountInString(r.text)
			default:
				f.sent += utf8.RuneCountInString(b.Text)
			}
		}
	}
	return f
}

// offered gives the name under which a tool is offered: profiles name the same
// tool read and Read, or todo_write and TodoWrite, and a script works in both. A
// name that is offered as it is, or not at all, stays.
func (f *facts) offered(name string) string {
	bare := func(s string) string { return strings.ReplaceAll(s, "_", "") }
	found := name
	for i := range f.tools {
		switch t := f.tools[i].Name; {
		case t == name:
			return name
		case strings.EqualFold(bare(t), bare(name)):
			found = t
		}
	}
	return found
}

// functions are what templates may call.
func (f *facts) functions() template.FuncMap {
	return template.FuncMap{
		"user":  func() string { return f.user },
		"turn":  func() int { return f.turn },
		"step":  func() int { return f.step },
		"model": func() string { return f.model },
		"match": func(n int) (string, error) {
			if n < 0 || n >= len(f.match) {
				return "", fmt.Errorf("the rule's `matches` has no group %d", n)
			}
			return f.match[n], nil
		},
		"result": func(n ...int) (string, error) {
			r, err := f.result(n)
			return r.text, err
		},
		"tool": func(n ...int) (string, error) {
			r, err := f.result(n)
			return r.tool, err
		},
		"failed": func(n ...int) (bool, error) {
			r, err := f.result(n)
			return r.failed, err
		},
		"results": func() []string {
			texts := make([]string, len(f.results))
			for i, r := range f.results {
				texts[i] = r.text
			}
			return texts
		},
		"lines": firstLines,
	}
}

// result gives the n-th tool result of the turn, from 1; the last one without n.
func (f *facts) result(n []int) (result, error) {
	switch {
	case len(n) > 1:
		return result{}, fmt.Errorf("takes one number, the place of a tool result, or none")
	case len(n) == 0 && len(f.results) > 0:
		return f.results[len(f.results)-1], nil
	case len(n) == 1 && n[0] >= 1 && n[0] <= len(f.results):
		return f.results[n[0]-1], nil
	}
	return result{}, fmt.Errorf("there is no such tool result; the turn has %d", len(f.results))
}

// firstLines shortens a text to n lines and says so.
func firstLines(n int, text string) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if n < 0 || n >= len(all) {
		return strings.Join(all, "\n")
	}
	return strings.Join(append(all[:n], "..."), "\n")
}
