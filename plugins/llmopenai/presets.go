package llmopenai

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

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
		d.CallIDs, d.CallIDForm, d.CallIDLength = upTo40, "1 to 40 characters", 24
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
			d.CallIDs, d.CallIDForm, d.CallIDLength = nineLetters, "nine letters and digits", 9
		})},
		"ollama": {baseURL: "http://127.0.0.1:11434/v1", dialect: with(func(d *chatwire.Dialect) {
			d.Effort = chatwire.EffortField
		})},
		"vllm": {baseURL: "http://127.0.0.1:8000/v1", dialect: plain},
	}
}

// upTo40 and nineLetters are the ids of calls that OpenAI and Mistral take. They
// are no patterns, because every start would pay for compiling them.
func upTo40(id string) bool { return id != "" && utf8.RuneCountInString(id) <= 40 }

func nineLetters(id string) bool {
	const may = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return len(id) == 9 && strings.Trim(id, may) == ""
}

func presetNames() []string { return slices.Sorted(maps.Keys(presets())) }
