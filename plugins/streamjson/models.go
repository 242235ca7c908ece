package streamjson

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/sdkproto/streamjson"
)

// effortOf maps a budget of thinking tokens (spec stream-json 4.7).
func effortOf(tokens float64) string {
	switch {
	case tokens == 0:
		return agent.EffortOff
	case tokens <= 4096:
		return "low"
	case tokens <= 16384:
		return "medium"
	case tokens <= 32768:
		return "high"
	}
	return "max"
}

// effortWord reads the effort of a definition, a word or a budget of thinking
// tokens; "" where it is neither.
func effortWord(raw json.RawMessage) string {
	if tokens, ok := number(raw); ok {
		return effortOf(tokens)
	}
	word, _ := text(raw)
	return word
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

// fit gives a route with an effort that its model takes.
func (s *Server) fit(to llm.Route) llm.Route { return agent.Fit(s.Agents, to) }

// launchRoute is the route that the launch asks for, and the settings where it says
// nothing (spec stream-json 7.4).
func (s *Server) launchRoute() (llm.Route, error) {
	to, err := s.Models.Resolve(s.Config.APIFormat, cmp.Or(s.Config.Model, s.setting(keyModel)))
	if err != nil {
		return to, err
	}
	effort := s.setting(keyEffort)
	switch {
	case s.Config.Effort != "":
		to.ReasoningEffort = s.Config.Effort
	case s.Config.MaxThinkingTokens != nil:
		to.ReasoningEffort = effortOf(float64(*s.Config.MaxThinkingTokens))
	case slices.Contains(agent.Efforts(), effort):
		to.ReasoningEffort = effort
	case effort != "":
		s.Log.Warn("the effort of the settings is left out", "effortLevel", clip(effort), "hint", "use one of "+strings.Join(agent.Efforts(), ", "))
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
