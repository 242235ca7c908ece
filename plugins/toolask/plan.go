package toolask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"dsh/kernel/tool"
	"dsh/sdkproto/wirejson"
)

// modePlan is the mode of spec stream-json 7.1 in which nothing is written.
const modePlan = "plan"

// planned holds the arguments of ExitPlanMode.
type planned struct {
	Plan string `json:"plan" jsonschema:"The plan, in Markdown: what will be changed, where, in which order, and how you will see that it works."`
	// AllowedPrompts grant nothing: rules do that. The client shows them.
	AllowedPrompts []allowedPrompt `json:"allowedPrompts,omitzero" jsonschema:"Kinds of commands that the plan needs, for the user to see."`
}

type allowedPrompt struct {
	Tool   string `json:"tool" jsonschema:"The tool that will be used." enum:"Bash"`
	Prompt string `json:"prompt" jsonschema:"What it will do, in a few words: run the tests."`
}

// approved is the structured result of ExitPlanMode. Agent is always false: a
// subagent hands its plan to whoever delegated to it.
type approved struct {
	Plan   string `json:"plan"`
	Agent  bool   `json:"isAgent"`
	Edited bool   `json:"planWasEdited,omitzero"`
}

// entered is the structured result of EnterPlanMode.
type entered struct {
	Message string `json:"message"`
}

const planning = "Until the user has approved a plan nothing may be changed. Read what you have to know, ask what only the user can decide with AskUserQuestion, " +
	"and then hand in the plan with ExitPlanMode."

func (a *Ask) newEnter() tool.Tool {
	return tool.Typed(tool.Spec{
		Name: "EnterPlanMode",
		Description: "Begins to plan: from then on you can read and ask, but change nothing, until the user has approved a plan that you hand in with ExitPlanMode. " +
			"Use it before work that can be done in several very different ways or that changes many files, so that the user can correct the direction first. " +
			"Do not use it for small or plainly described work, nor when no user is there to approve a plan.",
		ReadOnly: true,
	}, a.callEnter)
}

func (a *Ask) callEnter(_ context.Context, in tool.Invocation, _ struct{}) (tool.Result, error) {
	message := "Plan mode is on already. " + planning
	if a.policy.Mode(in.SessionID, in.CWD) != modePlan {
		if a.isChild(in.SessionID) {
			return planError("SUBAGENT", "A subagent cannot switch to plan mode. Plan without it, and return the plan as your result."), nil
		}
		if err := a.policy.SetMode(in.SessionID, in.CWD, modePlan); err != nil {
			return tool.Result{}, fmt.Errorf("enter plan mode: %w", err)
		}
		message = "Plan mode is on. " + planning
	}
	res := tool.TextResult(message)
	var err error
	res.Meta, err = wirejson.Marshal(entered{message})
	return res, err
}

func planError(code, text string) tool.Result { return tool.ErrorResult("PlanModeError", code, text) }

func (a *Ask) newExit() tool.Tool {
	const name = "ExitPlanMode"
	return &checked{name: name, check: checkPlan, Tool: tool.Typed(tool.Spec{
		Name: name,
		Description: "Hands in your plan, in plan mode only, and asks the user to approve it. If the user does, plan mode is over and you can begin with the work; " +
			"else it goes on, and the answer says what to change. Use it when the plan is whole and nothing in it is open; it is not for answers to questions, where nothing is to be changed.",
		ReadOnly: true, AsksUser: true,
	}, a.callExit)}
}

func checkPlan(t tool.Tool, arguments json.RawMessage) error {
	if err := tool.CheckArguments(t, arguments); err != nil {
		return err
	}
	var p planned
	if err := wirejson.Unmarshal(arguments, &p); err != nil {
		return err
	}
	if strings.TrimSpace(p.Plan) == "" {
		return errors.New("/plan: it is empty; write down the plan")
	}
	return nil
}

// cannotExit finds out that there is nothing to approve, so that nobody is asked.
func (a *Ask) cannotExit(in tool.Invocation) (tool.Result, bool) {
	switch {
	case a.isChild(in.SessionID):
		return planError("SUBAGENT", "A subagent does not end plan mode. Return the plan as your result."), true
	case a.policy.Mode(in.SessionID, in.CWD) != modePlan:
		return planError("NOT_IN_PLAN_MODE", "You are not in plan mode, so there is nothing to leave. Go on with the work; a plan that was approved stays approved."), true
	}
	return tool.Result{}, false
}

// callExit is reached when the plan is approved. The answer may have come with
// another mode, which stays then.
func (a *Ask) callExit(_ context.Context, in tool.Invocation, p planned) (tool.Result, error) {
	if a.policy.Mode(in.SessionID, in.CWD) == modePlan {
		if err := a.policy.SetMode(in.SessionID, in.CWD, a.policy.ModeBeforePlan(in.SessionID, in.CWD)); err != nil {
			return tool.Result{}, fmt.Errorf("leave plan mode: %w", err)
		}
	}
	text := fmt.Sprintf("The user has approved the plan. Plan mode is over, and permission mode %s is in force. Begin with the work, and keep to the plan.",
		a.policy.Mode(in.SessionID, in.CWD))
	var before planned
	edited := wirejson.Unmarshal(in.Requested, &before) == nil && before.Plan != p.Plan
	if edited {
		text += " The user has changed it; this is the plan that holds:\n\n" + p.Plan
	}
	res := tool.TextResult(text)
	var err error
	res.Meta, err = wirejson.Marshal(approved{Plan: p.Plan, Edited: edited})
	return res, err
}
