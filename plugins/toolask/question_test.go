package toolask

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/approval"
	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
)

const (
	q1 = `{"question":"Which database?","header":"Database","options":[{"label":"SQLite","description":"One file."},{"label":"Postgres","description":"A server.","preview":"docker run postgres"}],"multiSelect":false}`
	q2 = `{"question":"Which parts?","header":"Parts","options":[{"label":"API","description":"a"},{"label":"UI","description":"b"},{"label":"CLI","description":"c"}],"multiSelect":true}`
	// one and two are arguments of the model.
	one = `{"questions":[` + q1 + `]}`
	two = `{"questions":[` + q1 + `,` + q2 + `]}`
)

// with puts members behind those of an object.
func with(object, members string) string {
	return strings.TrimSuffix(object, "}") + "," + members + "}"
}

func TestConformance(t *testing.T) {
	for name, o := range map[string]tooltest.Options{
		"AskUserQuestion": {Good: []string{one, two, with(one, `"answers":{"Which database?":"SQLite"}`)}},
		"EnterPlanMode":   {Good: []string{`{}`}},
		"ExitPlanMode":    {Good: []string{`{"plan":"1. look"}`, `{"plan":"x","allowedPrompts":[{"tool":"Bash","prompt":"run the tests"}]}`}, NotEmpty: []string{"plan"}},
	} {
		t.Run(name, func(t *testing.T) { tooltest.TestTool(t, newWorld(t).tool(name), o) })
	}
}

// TestSpecs: names and inputs of spec stream-json 9; all three change nothing but
// the mode, and two of them are questions.
func TestSpecs(t *testing.T) {
	w := newWorld(t)
	for name, want := range map[string]struct {
		inputs string
		asks   bool
	}{
		"AskUserQuestion": {"answers? questions", true}, "EnterPlanMode": {"", false}, "ExitPlanMode": {"allowedPrompts? plan", true},
	} {
		spec := w.tool(name).Spec()
		if got := tooltest.Inputs(t, w.tool(name)); got != want.inputs {
			t.Errorf("%s has the inputs %q, want %q", name, got, want.inputs)
		}
		if spec.Name != name || !spec.ReadOnly || spec.Parallel || spec.Destructive || spec.AsksUser != want.asks {
			t.Errorf("%s: %+v", name, spec)
		}
	}
	parameters := string(w.tool("AskUserQuestion").Spec().Parameters)
	for _, part := range []string{`"required":["question","header","options","multiSelect"]`, `"required":["label","description"]`} {
		if !strings.Contains(parameters, part) {
			t.Errorf("the parameters lack %s: %s", part, parameters)
		}
	}
}

// TestAnswered: what the person has said is told to the model as pairs of question
// and answer, and to programs as questions and answers (spec stream-json 5.1, 9).
func TestAnswered(t *testing.T) {
	for _, tc := range []struct{ name, asked, answered, text, meta string }{
		{"one", one, with(one, `"answers":{"Which database?":"SQLite"}`),
			"The user has answered:\n\"Which database?\" = \"SQLite\"",
			with(one, `"answers":{"Which database?":"SQLite"}`)},
		{"something else, in two lines", one, with(one, `"answers":{"Which database?":"none \"yet\"\nask me later"}`),
			"The user has answered:\n\"Which database?\" = \"none \"yet\"\nask me later\"",
			with(one, `"answers":{"Which database?":"none \"yet\"\nask me later"}`)},
		{"in the order of the questions", two, with(two, `"answers":{"Which parts?":"API","Which database?":"SQLite"}`),
			"The user has answered:\n\"Which database?\" = \"SQLite\"\n\"Which parts?\" = \"API\"",
			with(two, `"answers":{"Which parts?":"API","Which database?":"SQLite"}`)},
		{"several as a list", two, with(two, `"answers":{"Which parts?":["API","UI"],"Which database?":"SQLite"}`),
			"The user has answered:\n\"Which database?\" = \"SQLite\"\n\"Which parts?\" = \"API, UI\"",
			with(two, `"answers":{"Which parts?":"API, UI","Which database?":"SQLite"}`)},
		{"one is left open", two, with(two, `"answers":{"Which parts?":"API, CLI","Which database?":""}`),
			"The user has answered:\n\"Which parts?\" = \"API, CLI\"\n\"Which database?\" has no answer.",
			with(two, `"answers":{"Which parts?":"API, CLI"}`)},
		{"odd values", two, with(two, `"answers":{"Which parts?":null,"Which database?":{"label":"SQLite"},"Really?":true,"How many?":3}`),
			"The user has answered:\n\"Which database?\" = \"{\"label\":\"SQLite\"}\"\n\"How many?\" = \"3\"\n\"Really?\" = \"true\"\n\"Which parts?\" has no answer.",
			with(two, `"answers":{"Which database?":"{\"label\":\"SQLite\"}","Really?":"true","How many?":"3"}`)},
		{"words in place of answers", one, with(one, `"answers":{},"response":"Let us talk first."`),
			"The user has written: Let us talk first.\n\"Which database?\" has no answer.",
			with(one, `"answers":{},"response":"Let us talk first."`)},
		{"with annotations", one, with(one, `"answers":{"Which database?":"Postgres"},"annotations":{"Which database?":{"notes":"15 or newer","preview":"docker run postgres"},"x":7},"metadata":{"source":"x"},"afkTimeoutMs":1`),
			"The user has answered:\n\"Which database?\" = \"Postgres\"\n  with the note: 15 or newer\n  what was chosen looks like this:\ndocker run postgres",
			with(one, `"answers":{"Which database?":"Postgres"},"annotations":{"Which database?":{"notes":"15 or newer","preview":"docker run postgres"}}`)},
		{"annotations and words of other kinds", one, with(one, `"answers":{"Which database?":"Postgres"},"annotations":[],"response":{}`),
			"The user has answered:\n\"Which database?\" = \"Postgres\"",
			with(one, `"answers":{"Which database?":"Postgres"}`)},
		{"the client changes the question", one, with(two, `"answers":{"Which parts?":"UI"}`),
			"The user has answered:\n\"Which parts?\" = \"UI\"\n\"Which database?\" has no answer.",
			with(two, `"answers":{"Which parts?":"UI"}`)},
		{"allowed as it is", one, "", noAnswer, with(one, `"answers":{}`)},
		{"allowed without answers", one, one, noAnswer, with(one, `"answers":{}`)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t).person(allows(tc.answered))
			got := w.call("AskUserQuestion", tc.asked)
			if got.IsError || textOf(got) != tc.text {
				t.Errorf("got %q (error %v), want %q", textOf(got), got.IsError, tc.text)
			}
			if diff := cmp.Diff(decoded(t, tc.meta), decoded(t, string(got.Meta))); diff != "" {
				t.Errorf("structured result (-want +got):\n%s", diff)
			}
			if len(w.asked) != 1 || string(w.asked[0].Arguments) != tc.asked || w.asked[0].ToolName != "AskUserQuestion" || len(w.asked[0].Suggestions) != 0 {
				t.Errorf("asked %+v", w.asked)
			}
		})
	}
}

// TestModelAnswersItself: a model cannot answer in the place of the person, who
// does not see that it has tried.
func TestModelAnswersItself(t *testing.T) {
	forged := with(one, `"answers":{"Which database?":"SQLite"},"response":"yes","annotations":{"Which database?":{"notes":"x"}}`)
	w := newWorld(t).person(func(r approval.Request) approval.Answer {
		return approval.Answer{Outcome: approval.AllowedOnce, Arguments: r.Arguments} // clients that approve blindly
	})
	got := w.call("AskUserQuestion", forged)
	if got.IsError || textOf(got) != noAnswer {
		t.Errorf("got %q (error %v)", textOf(got), got.IsError)
	}
	if len(w.asked) != 1 {
		t.Fatalf("asked %d times", len(w.asked))
	}
	if diff := cmp.Diff(decoded(t, one), decoded(t, string(w.asked[0].Arguments))); diff != "" {
		t.Errorf("asked with (-want +got):\n%s", diff)
	}
}

// TestAskedInEveryMode: the question goes to the person in every mode and whatever
// rule allows it, but for dontAsk (D7 of spec stream-json 0.4, 7.1).
func TestAskedInEveryMode(t *testing.T) {
	for mode, asked := range map[string]int{"default": 1, "acceptEdits": 1, "plan": 1, "bypassPermissions": 1, "dontAsk": 0} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, `permissions.rules.allow=["AskUserQuestion"]`).person(denies("not now")).mode(mode)
			got := w.call("AskUserQuestion", one)
			if !got.IsError || len(w.asked) != asked {
				t.Errorf("asked %d times, result %q", len(w.asked), textOf(got))
			}
			if asked == 1 && textOf(got) != "not now" {
				t.Errorf("got %q, want the words of the refusal", textOf(got))
			}
		})
	}
}

// TestNobodyThere: the call is refused at once and says how to go on (case B20).
func TestNobodyThere(t *testing.T) {
	for name, arguments := range map[string]string{"AskUserQuestion": one, "ExitPlanMode": `{"plan":"x"}`} {
		w := newWorld(t).mode("plan")
		got := w.call(name, arguments)
		if !got.IsError || got.Error.Code != "PERMISSION_DENIED" {
			t.Errorf("%s: %q, error %+v", name, textOf(got), got.Error)
		}
		for _, part := range []string{"nobody can be asked here", "say in your reply what you have assumed"} {
			if !strings.Contains(textOf(got), part) {
				t.Errorf("%s: %q lacks %q", name, textOf(got), part)
			}
		}
		if mode := w.policy.Mode("s", w.cwd); mode != "plan" {
			t.Errorf("%s: mode %s is in force", name, mode)
		}
	}
}

// TestHookAndQuestion: a hook that lets everything pass has not answered; one that
// gives the answers has, unless it wants the person to be asked.
func TestHookAndQuestion(t *testing.T) {
	answered := with(one, `"answers":{"Which database?":"SQLite"}`)
	for _, tc := range []struct {
		name, behavior, arguments string
		asked                     int
		text                      string
	}{
		{"allows", "allow", "", 1, noAnswer},
		{"allows the same", "allow", with(one, `"answers":{}`), 1, noAnswer},
		{"answers", "allow", answered, 0, "The user has answered:\n\"Which database?\" = \"SQLite\""},
		{"writes", "allow", with(one, `"response":"Later."`), 0, "The user has written: Later.\n\"Which database?\" has no answer."},
		{"proposes", "", answered, 1, "The user has answered:\n\"Which database?\" = \"SQLite\""},
		{"denies", "deny", "", 0, "the hook says no"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t).person(allows("")).hook(tool.Advice{Behavior: tc.behavior, Reason: "the hook says no"}, tc.arguments)
			got := w.call("AskUserQuestion", one)
			if textOf(got) != tc.text || len(w.asked) != tc.asked {
				t.Errorf("asked %d times, got %q", len(w.asked), textOf(got))
			}
		})
	}
}

// TestBadQuestions: what a schema cannot say is found before anybody is asked.
func TestBadQuestions(t *testing.T) {
	many := func(n int) string {
		return strings.TrimSuffix(strings.Repeat(`{"label":"LABEL","description":"x"},`, n), ",")
	}
	options := func(list string) string {
		for i := 0; strings.Contains(list, "LABEL"); i++ {
			list = strings.Replace(list, "LABEL", string(rune('a'+i)), 1)
		}
		return `{"questions":[{"question":"Which?","header":"h","multiSelect":false,"options":[` + list + `]}]}`
	}
	for _, tc := range []struct{ name, arguments, says string }{
		{"no question", `{"questions":[]}`, "/questions: there are 0; ask 1 to 4 at a time"},
		{"five questions", `{"questions":[` + strings.Repeat(q1+",", 4) + q2 + `]}`, "/questions: there are 5"},
		{"the same question", `{"questions":[` + q1 + `,` + q2 + `,` + q1 + `]}`, "/questions/2/question: it is asked twice"},
		{"a blank question", strings.Replace(one, "Which database?", " ", 1), "/questions/0/question: it is empty"},
		{"one option", options(many(1)), "/questions/0/options: there are 1; give 2 to 4"},
		{"five options", options(many(5)), "/questions/0/options: there are 5"},
		{"no option", options(""), "/questions/0/options: there are 0"},
		{"the same option", strings.Replace(one, "Postgres", "SQLite", 1), "/questions/0/options/1/label: it is there twice"},
		{"a blank option", strings.Replace(one, "Postgres", "", 1), "/questions/0/options/1/label: it is empty"},
		{"no header", strings.Replace(one, `"header":"Database",`, "", 1), "/questions/0/header"},
		{"an unknown member", with(one, `"other":1`), "other"},
		{"answers of another kind", with(one, `"answers":"SQLite"`), "/answers"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t).person(allows(""))
			got := w.call("AskUserQuestion", tc.arguments)
			if !got.IsError || got.Error.Code != "INVALID_ARGUMENTS" || !strings.Contains(textOf(got), tc.says) {
				t.Errorf("got %q (%+v), want %q", textOf(got), got.Error, tc.says)
			}
			if len(w.asked) != 0 {
				t.Error("somebody was asked")
			}
			// The same holds for what an answer puts in their place.
			again := newWorld(t).person(allows(tc.arguments))
			if got := again.call("AskUserQuestion", one); !got.IsError || got.Error.Code != "INVALID_ARGUMENTS" {
				t.Errorf("as an answer: %q", textOf(got))
			}
		})
	}
	for n := 2; n <= 4; n++ {
		if got := newWorld(t).person(allows("")).call("AskUserQuestion", options(many(n))); got.IsError {
			t.Errorf("%d options: %s", n, textOf(got))
		}
	}
}
