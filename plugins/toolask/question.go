package toolask

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dsh/kernel/tool"
	"dsh/sdkproto/wirejson"
)

// Bounds of one call (spec stream-json 9).
const (
	maxQuestions           = 4
	minOptions, maxOptions = 2, 4
)

// asked holds the arguments of AskUserQuestion.
type asked struct {
	Questions []question `json:"questions" jsonschema:"One to four questions, which the user sees together."`
	// Answers are from the text of a question to its answer: a text, or a list of
	// texts where several options were chosen.
	Answers map[string]any `json:"answers,omitzero" jsonschema:"What the user has answered. It is filled in for you: leave it out."`
}

type question struct {
	Question    string   `json:"question" jsonschema:"The whole question, with a question mark. No two questions of a call are the same."`
	Header      string   `json:"header" jsonschema:"A label for it in 12 characters at most: Database."`
	Options     []option `json:"options" jsonschema:"Two to four answers to choose from, the one that you would take first. The user can always answer something else, so there is no option for that."`
	MultiSelect bool     `json:"multiSelect" jsonschema:"Whether several options may be chosen."`
}

type option struct {
	Label       string `json:"label" jsonschema:"The answer in one to five words."`
	Description string `json:"description" jsonschema:"What choosing it means, and what it costs."`
	Preview     string `json:"preview,omitzero" jsonschema:"Something to look at while choosing, such as a sketch or a piece of code."`
}

// added are the members that a client puts beside those that it was sent (spec
// stream-json 5.1). The model does not know of them.
type added struct {
	Answers json.RawMessage `json:"answers"`
	// Response is what the user wrote in place of choosing.
	Response json.RawMessage `json:"response"`
	// Annotations are from the text of a question to what belongs to its answer.
	Annotations json.RawMessage `json:"annotations"`
}

// clientMembers are all that only a client says. Those behind the first are not in
// the schema.
func clientMembers() []string {
	return []string{"answers", "response", "annotations", "metadata", "afkTimeoutMs"}
}

// told is the structured result.
type told struct {
	Questions   []question            `json:"questions"`
	Answers     map[string]string     `json:"answers"`
	Response    string                `json:"response,omitzero"`
	Annotations map[string]annotation `json:"annotations,omitzero"`
}

type annotation struct {
	Preview    string `json:"preview,omitzero"`
	Notes      string `json:"notes,omitzero"`
	Unanswered string `json:"unanswered,omitzero"`
}

const noAnswer = "The user has given no answer. Go on with what seems best to you, and say in your reply what you have assumed."

func newQuestion() tool.Tool {
	const name = "AskUserQuestion"
	return &checked{name: name, check: checkQuestion, Tool: tool.Typed(tool.Spec{
		Name: name,
		Description: "Asks the user up to four questions and gives the answers. Use it when what you do next depends on something that only the user can decide " +
			"and that nothing you can read tells you: what exactly is wanted, or which of several ways to take. Ask all that you have to know in one call. " +
			"Do not ask what has a usual answer; take that, and say so. In plan mode it is for what the plan depends on; the plan itself is put to the user with ExitPlanMode.",
		ReadOnly: true, AsksUser: true,
	}, callQuestion)}
}

// without gives an object without some members, as it is when it has none of them.
func without(object json.RawMessage, names ...string) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := wirejson.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	before := len(members)
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return slices.Contains(names, name) })
	if len(members) == before {
		return object, nil
	}
	return wirejson.Marshal(members)
}

// unanswered takes away what a model has answered by itself. What a hook has put in
// the place of the model's arguments may hold the user's answers, and then there is
// nothing left to ask.
func unanswered(in tool.Invocation) tool.Invocation {
	if !bytes.Equal(in.Arguments, in.Requested) {
		if by := read(in.Arguments); len(by.answers) == 0 && by.response == "" {
			in = unspared(in)
		}
		return in
	}
	if rest, err := without(in.Arguments, clientMembers()...); err == nil {
		in.Arguments = rest
	}
	return unspared(in)
}

// checkQuestion finds what is wrong with arguments, of the model or of a client.
// Its errors are for the model.
func checkQuestion(t tool.Tool, arguments json.RawMessage) error {
	known, err := without(arguments, clientMembers()[1:]...)
	if err != nil {
		return err
	}
	if err := tool.CheckArguments(t, known); err != nil {
		return err
	}
	var p asked
	if err := wirejson.Unmarshal(known, &p); err != nil {
		return err
	}
	if n := len(p.Questions); n < 1 || n > maxQuestions {
		return fmt.Errorf("/questions: there are %d; ask 1 to %d at a time", n, maxQuestions)
	}
	seen := map[string]bool{}
	for i, q := range p.Questions {
		at := fmt.Sprintf("/questions/%d", i)
		switch n := len(q.Options); {
		case strings.TrimSpace(q.Question) == "":
			return fmt.Errorf("%s/question: it is empty; write the whole question", at)
		case seen[q.Question]:
			return fmt.Errorf("%s/question: it is asked twice, so its answers could not be told apart; leave one out", at)
		case n < minOptions || n > maxOptions:
			return fmt.Errorf("%s/options: there are %d; give %d to %d", at, n, minOptions, maxOptions)
		}
		seen[q.Question] = true
		labels := map[string]bool{}
		for k, o := range q.Options {
			switch {
			case strings.TrimSpace(o.Label) == "":
				return fmt.Errorf("%s/options/%d/label: it is empty; name the answer", at, k)
			case labels[o.Label]:
				return fmt.Errorf("%s/options/%d/label: it is there twice; name each answer differently", at, k)
			}
			labels[o.Label] = true
		}
	}
	return nil
}

// reply is what a client has added to the arguments.
type reply struct {
	answers     map[string]string
	response    string
	annotations map[string]annotation
}

// read gives what a client has added. What is not of its kind is left out: the
// person has answered, whatever a program has made of it.
func read(arguments json.RawMessage) (r reply) {
	var from added
	if wirejson.Unmarshal(arguments, &from) != nil {
		return r
	}
	var answers map[string]any
	_ = wirejson.Unmarshal(from.Answers, &answers)
	r.answers = map[string]string{}
	for q, v := range answers {
		if text := answerText(v); strings.TrimSpace(text) != "" {
			r.answers[q] = text
		}
	}
	_ = wirejson.Unmarshal(from.Response, &r.response)
	var annotations map[string]json.RawMessage
	_ = wirejson.Unmarshal(from.Annotations, &annotations)
	for q, raw := range annotations {
		var one annotation
		if wirejson.Unmarshal(raw, &one) != nil || one == (annotation{}) {
			continue
		}
		if r.annotations == nil {
			r.annotations = map[string]annotation{}
		}
		r.annotations[q] = one
	}
	return r
}

// answerText is an answer as a text: several choices are parted by commas.
func answerText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			parts[i] = answerText(one)
		}
		return strings.Join(parts, ", ")
	}
	raw, err := wirejson.Marshal(v)
	if err != nil {
		return ""
	}
	return string(raw)
}

// callQuestion is reached when the person has answered.
func callQuestion(_ context.Context, in tool.Invocation, p asked) (tool.Result, error) {
	r := read(in.Arguments)
	res := tool.TextResult(r.text(p.Questions))
	var err error
	res.Meta, err = wirejson.Marshal(told{p.Questions, r.answers, r.response, r.annotations})
	return res, err
}

// text tells the model what the person has said.
func (r *reply) text(questions []question) string {
	if len(r.answers) == 0 && strings.TrimSpace(r.response) == "" {
		return noAnswer
	}
	var b strings.Builder
	if len(r.answers) > 0 {
		b.WriteString("The user has answered:\n")
	}
	open := maps.Clone(r.answers)
	line := func(q string) {
		fmt.Fprintf(&b, "\"%s\" = \"%s\"\n", q, r.answers[q])
		if n := r.annotations[q].Notes; n != "" {
			fmt.Fprintf(&b, "  with the note: %s\n", n)
		}
		if shown := r.annotations[q].Preview; shown != "" {
			fmt.Fprintf(&b, "  what was chosen looks like this:\n%s\n", shown)
		}
		delete(open, q)
	}
	var left []string
	for _, q := range questions {
		if _, ok := r.answers[q.Question]; ok {
			line(q.Question)
		} else {
			left = append(left, q.Question)
		}
	}
	for _, q := range slices.Sorted(maps.Keys(open)) {
		line(q) // a client may have reworded it
	}
	if r.response != "" {
		fmt.Fprintf(&b, "The user has written: %s\n", r.response)
	}
	for _, q := range left {
		fmt.Fprintf(&b, "\"%s\" has no answer.\n", q)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
