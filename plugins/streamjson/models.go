package streamjson

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"dsh/kernel/llm"
	"dsh/sdkproto/streamjson"
)

// effortOff switches thinking off, where the model can.
const effortOff = "off"

// efforts are the words for effort, from low to high (spec stream-json 1.3).
func efforts() []string { return []string{"low", "medium", "high", "xhigh", "max"} }

// effortOf maps a budget of thinking tokens (spec stream-json 4.7).
func effortOf(tokens float64) string {
	switch {
	case tokens == 0:
		return effortOff
	case tokens <= 4096:
		return "low"
	case tokens <= 16384:
		return "medium"
	case tokens <= 32768:
		return "high"
	}
	return "max"
}

// number reads a JSON number.
func number(raw json.RawMessage) (float64, bool) {
	k := kindOf(raw)
	if k != '-' && (k < '0' || k > '9') {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	return n, err == nil && !math.IsInf(n, 0)
}

// fit gives a route with the effort that its model takes and that is nearest to
// the one asked for, the higher of two; without any it is the model's own.
func (s *Server) fit(to llm.Route) llm.Route {
	if to.ReasoningEffort == "" {
		return to
	}
	scale := append([]string{effortOff}, efforts()...)
	at := slices.Index(scale, to.ReasoningEffort)
	for step := range len(scale) {
		for _, i := range []int{at + step, at - step} {
			if i < 0 || i >= len(scale) || i == 0 && at != 0 {
				continue // thinking is not switched off by rounding
			}
			try := to
			try.ReasoningEffort = scale[i]
			if _, err := s.Agents.CheckRoute(try); err == nil {
				return try
			}
		}
	}
	to.ReasoningEffort = ""
	return to
}

// launchRoute is the route that the config asks for.
func (s *Server) launchRoute(model string) (llm.Route, error) {
	to, err := s.Models.Resolve(s.Config.APIFormat, model)
	if err != nil {
		return to, err
	}
	switch {
	case s.Config.Effort != "":
		to.ReasoningEffort = s.Config.Effort
	case s.Config.MaxThinkingTokens != nil:
		to.ReasoningEffort = effortOf(float64(*s.Config.MaxThinkingTokens))
	}
	return to, nil
}

// fallbacks are the routes of the fallback models; names that cannot be resolved
// are left out, since the main model may never need them.
func (s *Server) fallbacks() []llm.Route {
	var routes []llm.Route
	for _, name := range s.Config.FallbackModels {
		to, err := s.Models.Resolve(s.Config.APIFormat, name)
		if err != nil {
			s.Log.Warn("a fallback model is left out", "model", clip(name), "error", err)
			continue
		}
		routes = append(routes, to)
	}
	return routes
}

// info is what is known of a model, for its price.
func (s *Server) info(provider, model string) llm.Info {
	adapter, err := s.Router.Lookup(provider)
	if err != nil {
		return llm.Info{}
	}
	_, _, info, err := adapter.Resolve(llm.Route{Provider: provider, Model: model})
	if err != nil {
		return llm.Info{}
	}
	return info
}

// modelInfos lists the models for the client.
func (s *Server) modelInfos() []streamjson.ModelInfo {
	list := []streamjson.ModelInfo{}
	for _, m := range s.Models.Models(s.Config.APIFormat) {
		list = append(list, streamjson.ModelInfo{
			Value: m.Value, DisplayName: m.Name, Description: m.Description, ResolvedModel: m.Route.Model,
			SupportsEffort: len(m.Efforts) > 0, SupportedEffortLevels: m.Efforts,
		})
	}
	return list
}
