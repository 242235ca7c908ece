// Package streamflags is the command line of the stream-json surface (spec
// stream-json 1.2, 1.3): which flags there are, how they are read, and which keys
// of a profile's rows they set. Everything that a flag can say a profile can say,
// too.
//
// The grammar is that of the program whose clients start this one, which the usual
// flag libraries do not speak: lists that go on until the next flag, values that
// may be left out, empty values.
package streamflags

// kind says how much of the command line a flag takes.
type kind byte

const (
	// kindSwitch takes nothing, or =true and =false.
	kindSwitch kind = iota
	// kindValue takes one value, which may be empty; of several the last counts.
	kindValue
	// kindOptional takes a value if one follows.
	kindOptional
	// kindEach takes one value; several add up.
	kindEach
	// kindList takes values until the next flag, at least one; several add up.
	kindList
)

// form says what a value is, and with that how it is written into a config.
type form byte

const (
	formText    form = iota
	formCount        // a whole number, 1 or more
	formCount0       // a whole number, 0 or more
	formMoney        // a number above 0
	formUUID         // a UUID
	formWords        // values parted at commas, as a list
	formRules        // values parted at commas and spaces outside parentheses, as a list
	formTexts        // each value as it is, as a list
	formObject       // a JSON object
	formSchema       // a JSON Schema, an object
	formTrue         // true or false, of a switch
	formSpecial      // see special.go
)

// flag is one flag of the command line.
type flag struct {
	name string
	// others are further spellings, with one letter those behind a single dash.
	others []string
	kind   kind
	form   form
	// words are the values that there are; nil is any.
	words []string
	// key is the key that the flag sets, ROW.KEY. Flags without act upon the program
	// itself.
	key string
	// value is what help calls the value.
	value, usage string
	group        string
	// ignored says why a flag that is accepted does nothing. told also says so on
	// standard error, because whoever gives it waits for something.
	ignored string
	told    bool
}

// Groups of flags, in the order of help.
const (
	groupRun         = "What to run"
	groupModel       = "Model"
	groupPrompt      = "System prompt and agents"
	groupPermissions = "Tools and permissions"
	groupSession     = "Session"
	groupSources     = "Settings, plugins and MCP servers"
	groupOutput      = "What is written besides"
	groupProgram     = "This program"
	groupIgnored     = "Accepted without effect"
)

func groups() []string {
	return []string{groupRun, groupModel, groupPrompt, groupPermissions, groupSession, groupSources, groupOutput, groupProgram, groupIgnored}
}

// Formats of input and output.
const (
	formatText   = "text"
	formatJSON   = "json"
	formatStream = "stream-json"
)

// modes are those of spec stream-json 7.1. auto, a mode whose classifier this
// program does not have, is default.
func modes() []string {
	return []string{"default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "manual", modeAuto}
}

const (
	modeAuto   = "auto"
	modeBypass = "bypassPermissions"
)

// table lists every flag.
func table() []flag {
	return []flag{
		{name: "print", others: []string{"p"}, form: formSpecial, group: groupRun,
			usage: "answer one prompt and exit; without a prompt it is standard input"},
		{name: "output-format", kind: kindValue, form: formSpecial, words: []string{formatText, formatJSON, formatStream}, key: "front.outputFormat", value: "FORMAT", group: groupRun,
			usage: "text, json (the result) or stream-json (every message)"},
		{name: "input-format", kind: kindValue, form: formSpecial, words: []string{formatText, formatStream}, key: "front.inputFormat", value: "FORMAT", group: groupRun,
			usage: "text, or stream-json: the protocol of the Agent SDKs on standard input and output"},

		{name: "model", kind: kindValue, key: "front.model", value: "MODEL", group: groupModel, usage: "a model id or an alias"},
		{name: "api-format", kind: kindValue, words: apiFormats(), key: "front.apiFormat", value: "FORMAT", group: groupModel,
			usage: "which API the model is asked through: anthropic, openai, deepseek or mock; without it the model decides (see dcl doctor)"},
		{name: "fallback-model", kind: kindValue, form: formWords, key: "front.fallbackModels", value: "MODELS", group: groupModel,
			usage: "models, parted by commas, that answer where the first is overloaded"},
		{name: "effort", kind: kindValue, words: []string{"low", "medium", "high", "xhigh", "max"}, key: "front.effort", value: "WORD", group: groupModel,
			usage: "how hard the model thinks: low, medium, high, xhigh or max"},
		{name: "max-thinking-tokens", kind: kindValue, form: formCount0, key: "front.maxThinkingTokens", value: "N", group: groupModel,
			usage: "how long the model may think; 0 switches it off"},
		{name: "thinking", kind: kindValue, form: formSpecial, key: "front.maxThinkingTokens", words: []string{"adaptive", "disabled"}, value: "WORD", group: groupModel, usage: "adaptive or disabled"},
		{name: "thinking-display", kind: kindValue, words: []string{"summarized", "omitted"}, key: "anthropic.thinkingDisplay", value: "WORD", group: groupModel,
			usage: "what an Anthropic model shows of its thinking: summarized or omitted"},
		{name: "betas", kind: kindList, form: formWords, key: "anthropic.betas", value: "NAMES", group: groupModel, usage: "beta features of the Anthropic API"},
		{name: "max-turns", kind: kindValue, form: formCount, key: "front.maxTurns", value: "N", group: groupModel, usage: "model requests of one turn"},
		{name: "max-budget-usd", kind: kindValue, form: formMoney, key: "budget.process.usd", value: "USD", group: groupModel, usage: "what the process may cost"},
		{name: "json-schema", kind: kindValue, form: formSchema, key: "front.jsonSchema", value: "JSON", group: groupModel, usage: "a JSON Schema that the result has to match"},

		{name: "system-prompt", kind: kindValue, form: formSpecial, key: "front.systemPrompt", value: "TEXT", group: groupPrompt, usage: "takes the place of the system prompt; empty is none"},
		{name: "system-prompt-file", kind: kindValue, form: formSpecial, key: "front.systemPrompt", value: "FILE", group: groupPrompt, usage: "the same, from a file"},
		{name: "append-system-prompt", kind: kindValue, form: formSpecial, key: "front.appendSystemPrompt", value: "TEXT", group: groupPrompt, usage: "comes behind the system prompt"},
		{name: "append-system-prompt-file", kind: kindValue, form: formSpecial, key: "front.appendSystemPrompt", value: "FILE", group: groupPrompt, usage: "the same, from a file"},
		{name: "agent", kind: kindValue, key: "front.agent", value: "NAME", group: groupPrompt, usage: "the agent of the main thread"},
		{name: "agents", kind: kindValue, form: formObject, key: "front.agents", value: "JSON", group: groupPrompt, usage: "further agents, an object of names and definitions"},

		{name: "tools", kind: kindList, form: formSpecial, key: "front.tools", value: "TOOLS", group: groupPermissions, usage: `the built-in tools there are: a list, "" for none, default for all`},
		{name: "allowedTools", others: []string{"allowed-tools"}, kind: kindList, form: formRules, key: "permissions.flags.allow", value: "RULES", group: groupPermissions,
			usage: "rules of calls that run unasked, such as 'Bash(git:*) Edit'"},
		{name: "disallowedTools", others: []string{"disallowed-tools"}, kind: kindList, form: formRules, key: "permissions.flags.deny", value: "RULES", group: groupPermissions,
			usage: "rules of calls that are refused; the bare name of a tool takes it away"},
		{name: "permission-mode", kind: kindValue, form: formSpecial, key: "permissions.mode", words: modes(), value: "MODE", group: groupPermissions,
			usage: "default, acceptEdits, plan, bypassPermissions or dontAsk"},
		{name: "dangerously-skip-permissions", form: formSpecial, key: "permissions.mode", group: groupPermissions, usage: "the same as --permission-mode bypassPermissions"},
		{name: "permission-prompt-tool", kind: kindValue, form: formSpecial, key: "permissions.promptTool", value: "TOOL", group: groupPermissions,
			usage: "who is asked: stdio, the client, as without it; or an MCP tool mcp__SERVER__TOOL"},
		{name: "permission-prompts", kind: kindValue, form: formSpecial, key: "permissions.approvals", words: []string{"host", "none"}, value: "WHO", group: groupPermissions, usage: "host, or none: refuse instead of asking"},
		{name: "add-dir", kind: kindList, form: formSpecial, key: "permissions.additionalDirectories", value: "FOLDERS", group: groupPermissions, usage: "working folders beside this one"},

		{name: "session-id", kind: kindValue, form: formUUID, key: "front.sessionId", value: "UUID", group: groupSession, usage: "the id of the new session"},
		{name: "resume", others: []string{"r"}, kind: kindOptional, form: formSpecial, key: "front.resume", value: "ID", group: groupSession, usage: "go on with a session"},
		{name: "continue", others: []string{"c"}, form: formTrue, key: "front.continue", group: groupSession, usage: "go on with the newest session of this folder"},
		{name: "fork-session", form: formTrue, key: "front.forkSession", group: groupSession, usage: "with --resume and --continue: under a new id"},
		{name: "resume-session-at", kind: kindValue, form: formSpecial, key: "front.resumeAt", value: "UUID", group: groupSession, usage: "with --resume and --continue: go on behind this message"},
		{name: "resume-drops-turn", kind: kindValue, form: formText, key: "front.resumeDropsTurn", value: "UUID", group: groupSession, usage: "refuse it where more goes than the turn of this prompt; empty: where anything goes"},
		{name: "name", others: []string{"n"}, kind: kindValue, key: "front.name", value: "TEXT", group: groupSession, usage: "a name for the session, for listings"},
		{name: "no-session-persistence", form: formSpecial, key: "store.dir", group: groupSession, usage: "keep the session only while the process runs"},

		{name: "settings", kind: kindValue, form: formSpecial, key: "settings.flags", value: "FILE|JSON", group: groupSources, usage: "settings above those of all files"},
		{name: "setting-sources", kind: kindValue, form: formSpecial, key: "settings.sources", value: "SOURCES", group: groupSources, usage: "which settings files are read: user, project, local; empty is none"},
		{name: "managed-settings", kind: kindValue, form: formSpecial, key: "settings.flags", value: "JSON", group: groupSources, usage: "settings above those of --settings"},
		{name: "mcp-config", kind: kindList, form: formSpecial, key: "mcp.servers", value: "FILE|JSON", group: groupSources, usage: `MCP servers: {"mcpServers":{NAME:SERVER}}`},
		{name: "strict-mcp-config", form: formSpecial, key: "mcp.settings", group: groupSources, usage: "only the MCP servers of --mcp-config"},
		{name: "plugin-dir", kind: kindEach, form: formTexts, key: "content.folders", value: "FOLDER", group: groupSources, usage: "a plugin: a folder with commands, agents, skills, hooks or MCP servers"},
		{name: "plugin-dir-no-mcp", kind: kindEach, form: formTexts, key: "content.foldersWithoutServers", value: "FOLDER", group: groupSources, usage: "the same, without its MCP servers"},
		{name: "disable-slash-commands", form: formSpecial, group: groupSources, usage: "no commands and skills"},

		{name: "include-partial-messages", form: formTrue, key: "front.includePartialMessages", group: groupOutput, usage: "answers piece by piece, as stream_event"},
		{name: "include-hook-events", form: formTrue, key: "front.includeHookEvents", group: groupOutput, usage: "the life of hooks"},
		{name: "session-mirror", form: formTrue, key: "front.sessionMirror", group: groupOutput, usage: "what is added to the transcripts, as transcript_mirror"},
		{name: "replay-user-messages", form: formTrue, key: "front.replayUserMessages", group: groupOutput, usage: "each user message when its turn begins"},
		{name: "forward-subagent-text", form: formTrue, key: "front.forwardSubagentText", group: groupOutput, usage: "text and thinking of subagents"},
		{name: "prompt-suggestions", form: formTrue, key: "front.promptSuggestions", group: groupOutput, usage: "what the next prompt might be"},

		{name: "version", others: []string{"v"}, form: formSpecial, group: groupProgram, usage: "print the version and exit"},
		{name: "help", others: []string{"h"}, form: formSpecial, group: groupProgram, usage: "print this and exit"},
		{name: "data-dir", others: []string{"home"}, kind: kindValue, form: formSpecial, value: "FOLDER", group: groupProgram, usage: "data folder (default $DSH_HOME, else ~/.dsh)"},
		{name: "profile", kind: kindValue, form: formSpecial, value: "NAME|FILE", group: groupProgram, usage: "profile to run (default stream-json)"},
		{name: "patch", kind: kindEach, form: formSpecial, value: "FILE", group: groupProgram, usage: "profile file on top of the profile; may be repeated"},
		{name: "set", kind: kindEach, form: formSpecial, value: "ID.KEY=VALUE", group: groupProgram, usage: "one value on top of everything; may be repeated"},
		{name: "dump-config", form: formSpecial, group: groupProgram, usage: "print the composed profile, each value with its origin, and exit"},
		{name: "log-level", kind: kindValue, form: formSpecial, words: []string{"debug", "info", "warn", "error"}, value: "LEVEL", group: groupProgram, usage: "debug, info, warn or error (on standard error)"},
		{name: "debug", others: []string{"d"}, kind: kindOptional, form: formSpecial, value: "FILTER", group: groupProgram, usage: "log everything to a file in the data folder; a filter is accepted without effect"},
		{name: "debug-file", kind: kindValue, form: formSpecial, value: "FILE", group: groupProgram, usage: "log everything to this file"},
		{name: "debug-to-stderr", others: []string{"d2e"}, form: formSpecial, group: groupProgram, usage: "log everything to standard error"},

		{name: "verbose", ignored: "stream-json output is complete anyway"},
		{name: "task-budget", kind: kindValue, form: formCount, value: "N", ignored: "no API that is spoken here announces it to the model"},
		{name: "allow-dangerously-skip-permissions", ignored: "a client may switch to every mode that the profile does not forbid"},
		{name: "await-initialize", ignored: "what depends on initialize waits for it anyway"},
		{name: "initialize-fields", kind: kindValue, value: "NAMES", ignored: "the answer to initialize confirms what was applied anyway"},
		{name: "managed-settings-in-initialize", ignored: "the answer to initialize says whether they were applied"},
		{name: "channels", kind: kindList, form: formTexts, value: "NAMES", ignored: "there are no channels"},
		{name: "project-config-root", kind: kindValue, value: "FOLDER", ignored: "the settings of a project are those of the working folder"},
		{name: "workload", kind: kindValue, value: "TEXT", ignored: "it describes the client"},
		{name: "await-claim", ignored: "a process is not kept warm for a later client"},
		{name: "bare", ignored: "nothing is started that it would leave out"},
		{name: "worktree", others: []string{"w"}, kind: kindOptional, value: "NAME", ignored: "the session works in the folder that it is started in", told: true},
		{name: "ide", ignored: "there is no editor to connect to"},
		{name: "mcp-debug", ignored: "--debug logs MCP servers, too"},
		{name: "exclude-dynamic-system-prompt-sections", ignored: "the system prompt has none that change between machines"},
		{name: "append-subagent-system-prompt", kind: kindValue, value: "TEXT", ignored: "subagents have the prompt of their definition", told: true},
	}
}

func apiFormats() []string { return []string{"anthropic", "openai", "deepseek", "mock"} }
