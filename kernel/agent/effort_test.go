package agent_test

import (
	"errors"
	"slices"
	"testing"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
)

// efforts is a registry whose model takes some words for effort.
type efforts struct {
	agent.Registry
	taken []string
}

func (e efforts) CheckRoute(to llm.Route) (llm.Route, error) {
	if !slices.Contains(e.taken, to.ReasoningEffort) {
		return to, errors.New("the model takes no such effort")
	}
	return to, nil
}

// The nearest effort that the model takes, the higher of two; thinking is neither
// switched off nor on by that.
func TestFit(t *testing.T) {
	for _, tc := range []struct {
		name, asked string
		taken       []string
		want        string
	}{
		{"as it is", "medium", []string{"low", "medium", "high"}, "medium"},
		{"the higher of two", "medium", []string{"low", "high"}, "high"},
		{"the lower", "max", []string{"low", "high"}, "high"},
		{"the higher", "low", []string{"off", "max"}, "max"},
		{"not off", "low", []string{"off"}, ""},
		{"off", "off", []string{"off", "low"}, "off"},
		{"a word of the adapter's own", "minimal", []string{"minimal", "low"}, "minimal"},
		{"an unknown word", "minimal", []string{"low"}, ""},
		{"none", "", []string{"low"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := agent.Fit(efforts{taken: tc.taken}, llm.Route{Model: "m", ReasoningEffort: tc.asked}); got.ReasoningEffort != tc.want || got.Model != "m" {
				t.Errorf("Fit = %+v, want %q", got, tc.want)
			}
		})
	}
}
