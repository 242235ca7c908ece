package llmopenai

import (
	"maps"
	"regexp"
	"slices"

	"dsh/plugins/internal/chatwire"
)

// preset is what is known of one kind of endpoint.
type preset struct {
	// baseURL and apiKeyEnv are "" where a deployment must say.
	baseURL, apiKeyEnv string
	dialect            chatwire.Dialect
}

// generic is the least common denominator.
const generic = "generic"

func presets() map[string]preset {
	plain := chatwire.Dialect{
		MaxTokens: "max_tokens", SystemRole: "system", StreamUsage: true,
		Effort: chatwire.EffortNone, EmptyContent: chatwire.ContentEmpty,
	}
	with := func(change func(*chatwire.Dialect)) chatwire.Dialect {
		d := plain
		change(&d)
		return d
	}
	openai := with(func(d *chatwire.Dialect) {
		d.MaxTokens, d.SystemRole = "max_completion_tokens", "developer"
		d.Effort, d.EmptyContent = chatwire.EffortField, chatwire.ContentNull
		d.CallIDs, d.CallIDLength = regexp.MustCompile(`^.{1,40}$`), 24
	})
	azure := openai
	azure.KeyHeader = "api-key"
	return map[string]preset{
		"openai": {baseURL: "https://api.openai.com/v1", apiKeyEnv: "OPENAI_API_KEY", dialect: openai},
		"azure":  {dialect: azure},
		generic:  {dialect: plain},
		"deepseek": {dialect: with(func(d *chatwire.Dialect) {
			d.Reasoning, d.RequireReasoning, d.Effort = "reasoning_content", true, chatwire.EffortThinking
		})},
		"openrouter": {baseURL: "https://openrouter.ai/api/v1", dialect: with(func(d *chatwire.Dialect) {
			d.Reasoning, d.Effort = "reasoning", chatwire.EffortObject
		})},
		"mistral": {baseURL: "https://api.mistral.ai/v1", dialect: with(func(d *chatwire.Dialect) {
			d.StreamUsage = false
			d.CallIDs, d.CallIDLength = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`), 9
		})},
		"ollama": {baseURL: "http://127.0.0.1:11434/v1", dialect: with(func(d *chatwire.Dialect) {
			d.Effort = chatwire.EffortField
		})},
		"vllm": {baseURL: "http://127.0.0.1:8000/v1", dialect: plain},
	}
}

func presetNames() []string { return slices.Sorted(maps.Keys(presets())) }
