package agent

import (
	"slices"

	"dsh/kernel/llm"
)

// Efforts are the words for effort, from low to high (spec stream-json 1.3).
func Efforts() []string { return []string{"low", "medium", "high", "xhigh", "max"} }

// EffortOff switches thinking off, where the model can.
const EffortOff = "off"

// Fit gives a route with the effort that its model takes and that is nearest to
// the one asked for, the higher of two; without any it is the model's own.
func Fit(r Registry, to llm.Route) llm.Route {
	if to.ReasoningEffort == "" {
		return to
	}
	if _, err := r.CheckRoute(to); err == nil {
		return to
	}
	scale := append([]string{EffortOff}, Efforts()...)
	at := slices.Index(scale, to.ReasoningEffort)
	for step := 1; at >= 0 && step < len(scale); step++ {
		for _, i := range []int{at + step, at - step} {
			if i < 0 || i >= len(scale) || i == 0 && at != 0 {
				continue // thinking is not switched off by rounding
			}
			try := to
			try.ReasoningEffort = scale[i]
			if _, err := r.CheckRoute(try); err == nil {
				return try
			}
		}
	}
	to.ReasoningEffort = ""
	return to
}
