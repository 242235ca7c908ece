package toolask

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/approval"
	"dsh/kernel/tool"
	"dsh/sdkproto/wirejson"
)

const plan = `{"plan":"1. Read it.\n2. Change it."}`

// TestApproved: an approved plan ends plan mode, and the mode before it is in force
// again (spec stream-json 5.1).
func TestApproved(t *testing.T) {
	edited := `{"plan":"1. Read it twice."}`
	acceptEdits := func(approval.Request) approval.Answer {
		return approval.Answer{Outcome: approval.AllowedOnce, Updates: []approval.Update{{Type: approval.SetMode, Mode: "acceptEdits"}}}
	}
	for _, tc := range []struct {
		name  string
		set   string
		modes []string
		// answer is the person's.
		answer     func(approval.Request) approval.Answer
		mode, meta string
		says       []string
	}{
		{"the session began in plan", "permissions.mode=plan", nil, allows(""), "default", `{"plan":"1. Read it.\n2. Change it.","isAgent":false}`, nil},
		{"from the usual mode", "", []string{"plan"}, allows(""), "default", `{"plan":"1. Read it.\n2. Change it.","isAgent":false}`, nil},
		{"from another mode", "", []string{"acceptEdits", "plan"}, allows(plan), "acceptEdits", `{"plan":"1. Read it.\n2. Change it.","isAgent":false}`, nil},
		{"from bypassPermissions", "", []string{"bypassPermissions", "plan"}, allows(""), "bypassPermissions", `{"plan":"1. Read it.\n2. Change it.","isAgent":false}`, nil},
		{"with another mode", "", []string{"plan"}, acceptEdits, "acceptEdits", `{"plan":"1. Read it.\n2. Change it.","isAgent":false}`, nil},
		{"with another plan", "", []string{"plan"}, allows(edited), "default", `{"plan":"1. Read it twice.","isAgent":false,"planWasEdited":true}`, []string{"1. Read it twice."}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var sets []string
			if tc.set != "" {
				sets = append(sets, tc.set)
			}
			w := newWorld(t, sets...).person(tc.answer)
			for _, mode := range tc.modes {
				w.mode(mode)
			}
			got := w.call("ExitPlanMode", plan)
			if got.IsError || w.policy.Mode("s", w.cwd) != tc.mode {
				t.Errorf("got %q, mode %s is in force, want %s", textOf(got), w.policy.Mode("s", w.cwd), tc.mode)
			}
			for _, part := range append(tc.says, "approved the plan", "permission mode "+tc.mode+" is in force") {
				if !strings.Contains(textOf(got), part) {
					t.Errorf("%q lacks %q", textOf(got), part)
				}
			}
			if tc.says == nil && strings.Contains(textOf(got), "Read it") {
				t.Errorf("%q repeats the plan, which the model knows", textOf(got))
			}
			if diff := cmp.Diff(decoded(t, tc.meta), decoded(t, string(got.Meta))); diff != "" {
				t.Errorf("structured result (-want +got):\n%s", diff)
			}
			if len(w.asked) != 1 || string(w.asked[0].Arguments) != plan {
				t.Errorf("asked %+v", w.asked)
			}
		})
	}
}

// TestNotApproved: plan mode goes on, and the words of the refusal are the result
// (spec stream-json 5.1, 7.7).
func TestNotApproved(t *testing.T) {
	w := newWorld(t).person(denies("Use a library for it.")).mode("plan")
	got := w.call("ExitPlanMode", plan)
	if !got.IsError || textOf(got) != "Use a library for it." || w.policy.Mode("s", w.cwd) != "plan" {
		t.Errorf("got %q, mode %s", textOf(got), w.policy.Mode("s", w.cwd))
	}
}

// TestNothingToLeave: outside of plan mode nobody is asked for an approval.
func TestNothingToLeave(t *testing.T) {
	for _, mode := range []string{"default", "acceptEdits", "bypassPermissions", "dontAsk"} {
		w := newWorld(t).person(allows("")).mode(mode)
		got := w.call("ExitPlanMode", plan)
		if !got.IsError || got.Error.Code != "NOT_IN_PLAN_MODE" || !strings.Contains(textOf(got), "not in plan mode") || len(w.asked) != 0 {
			t.Errorf("%s: asked %d times, got %q", mode, len(w.asked), textOf(got))
		}
		if now := w.policy.Mode("s", w.cwd); now != mode {
			t.Errorf("%s: mode %s is in force", mode, now)
		}
	}
}

// TestBlankPlan: there is nothing to approve in it.
func TestBlankPlan(t *testing.T) {
	w := newWorld(t).person(allows("")).mode("plan")
	for _, arguments := range []string{`{}`, `{"plan":""}`, `{"plan":" \n"}`, `{"plan":"x","allowedPrompts":[{"tool":"Read","prompt":"x"}]}`} {
		if got := w.call("ExitPlanMode", arguments); !got.IsError || got.Error.Code != "INVALID_ARGUMENTS" || len(w.asked) != 0 {
			t.Errorf("%s: %q", arguments, textOf(got))
		}
	}
}

// TestHookAndPlan: a hook that lets everything pass has not approved the plan; one
// that gives a plan in its place has.
func TestHookAndPlan(t *testing.T) {
	for _, tc := range []struct {
		name, arguments string
		asked           int
	}{{"allows", "", 1}, {"gives a plan", `{"plan":"another"}`, 0}} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t).person(denies("no")).mode("plan").hook(tool.Advice{Behavior: approval.Allow}, tc.arguments)
			got := w.call("ExitPlanMode", plan)
			if len(w.asked) != tc.asked || got.IsError != (tc.asked == 1) {
				t.Errorf("asked %d times, got %q", len(w.asked), textOf(got))
			}
		})
	}
}

// TestEnter: the model may begin to plan in every mode, without anybody being
// asked, and what writes is refused from then on (spec stream-json 9, 7.1).
func TestEnter(t *testing.T) {
	for _, mode := range []string{"default", "acceptEdits", "bypassPermissions", "dontAsk", "plan"} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t).person(allows("")).mode(mode)
			write := tool.Typed(tool.Spec{Name: "Write", Description: "x", Subject: tool.Subject{Rule: "Edit", Kind: tool.SubjectPath, Member: "file_path"}},
				func(_ context.Context, _ tool.Invocation, p struct {
					Path string `json:"file_path"`
				}) (tool.Result, error) {
					return tool.TextResult("written"), os.WriteFile(p.Path, nil, 0o600)
				})
			if err := w.tools.Register(w.owner, write); err != nil {
				t.Fatal(err)
			}
			got := w.call("EnterPlanMode", `{}`)
			if got.IsError || w.policy.Mode("s", w.cwd) != "plan" || len(w.asked) != 0 {
				t.Fatalf("got %q, mode %s, asked %d times", textOf(got), w.policy.Mode("s", w.cwd), len(w.asked))
			}
			if diff := cmp.Diff(map[string]any{"message": textOf(got)}, decoded(t, string(got.Meta))); diff != "" {
				t.Errorf("structured result (-want +got):\n%s", diff)
			}
			if again := w.call("EnterPlanMode", `{}`); again.IsError || !strings.Contains(textOf(again), "already") {
				t.Errorf("a second time: %q", textOf(again))
			}
			path, err := wirejson.Marshal(filepath.Join(w.cwd, "x"))
			if err != nil {
				t.Fatal(err)
			}
			if res := w.call("Write", `{"file_path":`+string(path)+`}`); textOf(res) != "Permission denied: Plan mode: write operations are not allowed" {
				t.Errorf("a call that writes: %q", textOf(res))
			}
			want := mode
			if mode == "plan" {
				want = "default"
			}
			if res := w.call("ExitPlanMode", plan); res.IsError || w.policy.Mode("s", w.cwd) != want {
				t.Errorf("left with %q, mode %s is in force", textOf(res), w.policy.Mode("s", w.cwd))
			}
		})
	}
}
