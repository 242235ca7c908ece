package streamjson

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/plugins/streamjson/structured"
	"dsh/sdkproto/ndjson"
	"dsh/sdkproto/wirejson"
)

// Formats of input and output.
const (
	FormatText   = "text"
	FormatJSON   = "json"
	FormatStream = "stream-json"
)

// Config is the row's config. Most of it has a launch flag of the same meaning
// (spec stream-json 1.3); a profile gives what holds without the flag.
type Config struct {
	// InputFormat is text or stream-json. With text the prompt is Prompt, or
	// standard input to its end; there is one turn and no control channel.
	InputFormat string `json:"inputFormat"`
	// OutputFormat is text, json or stream-json; stream-json input needs the last.
	OutputFormat string `json:"outputFormat"`
	Prompt       string `json:"prompt"`
	// Model is a model id or an alias, "" for the default; APIFormat is anthropic,
	// openai, deepseek or mock, "" to let the model decide (S080).
	Model     string `json:"model"`
	APIFormat string `json:"apiFormat"`
	// FallbackModels answer where Model is overloaded.
	FallbackModels []string `json:"fallbackModels"`
	// StrictModels refuses set_model to models that are not listed.
	StrictModels bool `json:"strictModels"`
	// Effort is low, medium, high, xhigh or max; MaxThinkingTokens is mapped to one
	// (spec stream-json 4.7). Both empty is the model's default.
	Effort            string `json:"effort"`
	MaxThinkingTokens *int64 `json:"maxThinkingTokens,omitzero"`
	// SystemPrompt replaces the system prompt, nil keeps it; AppendSystemPrompt
	// comes behind.
	SystemPrompt       *string `json:"systemPrompt,omitzero"`
	AppendSystemPrompt string  `json:"appendSystemPrompt"`
	// MaxTurns bounds the model requests of a turn, 0 is no bound.
	MaxTurns int `json:"maxTurns"`
	// SessionID is that of a new session, a UUID; "" makes one. Resume names a
	// stored session, Continue takes the newest of the folder; Fork gives what is
	// resumed a new id.
	SessionID string `json:"sessionId"`
	Resume    string `json:"resume"`
	Continue  bool   `json:"continue"`
	Fork      bool   `json:"forkSession"`
	// ResumeAt is the entry, by its uuid, that what is resumed ends with; "" is all
	// of it. DropsTurn is the prompt whose turn this may drop, nil where it does not
	// matter what goes; "" lets nothing go (spec stream-json 10.4).
	ResumeAt  string  `json:"resumeAt"`
	DropsTurn *string `json:"resumeDropsTurn,omitzero"`
	// Name is the session's for people, "" for none.
	Name string `json:"name"`
	// Transcripts keeps files below $CLAUDE_CONFIG_DIR, else ~/.claude, that the
	// SDKs' session functions read. SessionMirror writes what is added to them to the
	// client, too (spec stream-json 10.6).
	Transcripts   bool `json:"transcripts"`
	SessionMirror bool `json:"sessionMirror"`
	// Tools restricts the built-in tools: nil is all of them, an empty list none.
	Tools *[]string `json:"tools,omitzero"`
	// Agent names the agent of the main thread; Agents defines further ones, an
	// object of name and definition (spec stream-json 11.7).
	Agent  string          `json:"agent"`
	Agents json.RawMessage `json:"agents,omitzero"`
	// SDKServers are the names of MCP servers that the client hosts.
	SDKServers []string `json:"sdkServers"`
	// JSONSchema is what the result of every turn has to match; nil is nothing.
	// OutputAttempts is how many results of a turn may fail to, up to the loop's
	// maxFailedCalls.
	JSONSchema     json.RawMessage `json:"jsonSchema,omitzero"`
	OutputAttempts int             `json:"outputAttempts"`
	// The lines that are written beside the usual ones.
	PartialMessages     bool `json:"includePartialMessages"`
	HookEvents          bool `json:"includeHookEvents"`
	ReplayUserMessages  bool `json:"replayUserMessages"`
	ForwardSubagentText bool `json:"forwardSubagentText"`
	PromptSuggestions   bool `json:"promptSuggestions"`
	// LegacyLines writes the text, tool_start, tool_result and usage lines of older
	// scripts (S031).
	LegacyLines bool `json:"legacyLines"`
	// Version is what the client is told and -v prints first; the product's own
	// version stands behind it in parentheses.
	Version string `json:"version"`
	// MaxLine is the longest input line, in bytes; MaxQueued is how many user
	// messages may wait.
	MaxLine   int `json:"maxLine"`
	MaxQueued int `json:"maxQueued"`
	// ShellsLimit is how long shell commands in the background may run behind the last
	// result when the input has ended (spec stream-json 1.8); SuggestionLimit is how
	// long a suggestion of the next prompt may take, also at the end.
	ShellsLimit     kernel.Duration `json:"shellsLimit"`
	SuggestionLimit kernel.Duration `json:"suggestionLimit"`
}

// DefaultVersion is the number of the reference CLI whose wire this is; the
// clients compare it with 2.0.0 (spec stream-json 1.5).
const DefaultVersion = "2.1.240"

func defaults() Config {
	return Config{
		InputFormat: FormatStream, OutputFormat: FormatStream, LegacyLines: true, Transcripts: true,
		Version: DefaultVersion, MaxLine: ndjson.MaxLine, MaxQueued: 1000, OutputAttempts: structured.Attempts,
		ShellsLimit: kernel.Duration(5 * time.Second), SuggestionLimit: kernel.Duration(10 * time.Second),
	}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	var errs []error
	word := func(key, value string, words ...string) {
		if !slices.Contains(words, value) {
			errs = append(errs, kernel.Invalid(key, "%q is not one of %s", value, strings.Join(words, ", ")))
		}
	}
	word("inputFormat", c.InputFormat, FormatText, FormatStream)
	word("outputFormat", c.OutputFormat, FormatText, FormatJSON, FormatStream)
	if c.InputFormat == FormatStream && c.OutputFormat != FormatStream {
		errs = append(errs, kernel.Invalid("inputFormat", "%s needs outputFormat %s, too", FormatStream, FormatStream))
	}
	if c.APIFormat != "" {
		word("apiFormat", c.APIFormat, llm.Formats()...)
	}
	if c.Effort != "" {
		word("effort", c.Effort, append([]string{agent.EffortOff}, agent.Efforts()...)...)
	}
	if n := c.MaxThinkingTokens; n != nil {
		errs = append(errs, kernel.AtLeast("maxThinkingTokens", *n, 0))
	}
	errs = append(errs, kernel.AtLeast("maxTurns", c.MaxTurns, 0), kernel.AtLeast("maxLine", c.MaxLine, 1), kernel.AtLeast("maxQueued", c.MaxQueued, 1),
		kernel.AtLeast("outputAttempts", c.OutputAttempts, 1))
	limit := func(key string, of kernel.Duration) {
		if of <= 0 {
			errs = append(errs, kernel.Invalid(key, "%v is no limit; use more than 0s", of))
		}
	}
	limit("shellsLimit", c.ShellsLimit)
	limit("suggestionLimit", c.SuggestionLimit)
	if c.SessionID != "" {
		if uuid.Validate(c.SessionID) != nil || len(c.SessionID) != 36 {
			errs = append(errs, kernel.Invalid("sessionId", "%q is no UUID", c.SessionID))
		}
		if (c.Resume != "" || c.Continue) && !c.Fork {
			errs = append(errs, kernel.Invalid("sessionId", "goes with resume or continue only when forkSession is set, too"))
		}
	}
	if c.Resume != "" && session.CheckID(c.Resume) != nil {
		errs = append(errs, kernel.Invalid("resume", "%q cannot be a session's id", c.Resume))
	}
	if c.ResumeAt != "" && c.Resume == "" && !c.Continue {
		errs = append(errs, kernel.Invalid("resumeAt", "needs resume or continue"))
	}
	if !isUnset(c.Agents) {
		var list map[string]json.RawMessage
		if err := wirejson.Unmarshal(c.Agents, &list); err != nil {
			errs = append(errs, kernel.Invalid("agents", "must be an object of names and definitions: %v", err))
		}
	}
	if !isUnset(c.JSONSchema) {
		if _, err := structured.Compile(c.JSONSchema); err != nil {
			errs = append(errs, kernel.Invalid("jsonSchema", "%v", err))
		}
	}
	return errors.Join(errs...)
}

// isUnset reports whether a raw member is absent or null.
func isUnset(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
