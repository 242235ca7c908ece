package approval

import (
	"encoding/json"

	"dsh/kernel/process"
	"dsh/kernel/tool"
)

// Behaviors of a rule and of a verdict.
const (
	Allow = "allow"
	Ask   = "ask"
	Deny  = "deny"
)

// Types of reasons of a verdict (spec stream-json 5.1).
const (
	ReasonRule       = "rule"
	ReasonMode       = "mode"
	ReasonWorkingDir = "workingDir"
	ReasonSafety     = "safetyCheck"
	ReasonHook       = "hook"
	ReasonOther      = "other"
)

// Verdict is what policy says of one call.
type Verdict struct {
	// Behavior is Allow, Ask or Deny.
	Behavior string
	// Reason says why, in a sentence without a full stop; ReasonType is one of the
	// Reason constants.
	Reason, ReasonType string
	// Rule and Scope name the rule that decided and where it comes from, "" when
	// none did.
	Rule, Scope string
	// BlockedPath is the path that led to the question or the refusal, if one did.
	BlockedPath string
	// Message is what the model is told when the call is refused without anybody
	// being asked.
	Message string
	// Confinement is how programs of the call are confined, nil for not at all;
	// Approved is the same after somebody has approved the call. Reached is what
	// this machine holds of Confinement; it is zero when the call starts no
	// program that policy knows of.
	Confinement, Approved *process.Confinement
	Reached               process.Reached
}

// Rule is a permission rule in two parts (spec stream-json 7.6).
type Rule struct {
	ToolName string `json:"toolName"`
	// RuleContent is what stands in the parentheses, "" for all calls of the tool.
	RuleContent string `json:"ruleContent,omitzero"`
}

// Types of an Update.
const (
	AddRules          = "addRules"
	ReplaceRules      = "replaceRules"
	RemoveRules       = "removeRules"
	SetMode           = "setMode"
	AddDirectories    = "addDirectories"
	RemoveDirectories = "removeDirectories"
)

// Destinations of an Update (spec stream-json 7.6).
const (
	DestinationSession = "session"
	DestinationLocal   = "localSettings"
	DestinationProject = "projectSettings"
	DestinationUser    = "userSettings"
	DestinationFlags   = "cliArg"
)

// Update changes the policy of a session (spec stream-json 7.6).
type Update struct {
	// Type is one of the constants; the other members go with the types that they
	// are named after.
	Type  string `json:"type"`
	Rules []Rule `json:"rules,omitzero"`
	// Behavior is Allow, Ask or Deny.
	Behavior    string   `json:"behavior,omitzero"`
	Mode        string   `json:"mode,omitzero"`
	Directories []string `json:"directories,omitzero"`
	// Destination says where the change is kept: one of the constants; "" is the
	// session.
	Destination string `json:"destination,omitzero"`
}

// Denial is a call that was refused by a rule, a mode, a hook or a person (spec
// stream-json 7.8).
type Denial struct {
	ToolName  string          `json:"tool_name"`
	ToolUseID string          `json:"tool_use_id"`
	ToolInput json.RawMessage `json:"tool_input"`
}

// Policy decides which calls run. Its methods may be called from any goroutine.
// A delegated session has the mode, the rules and the folders of the session at
// the root.
type Policy interface {
	// Judge says what would become of a call, without asking or recording
	// anything. Of the invocation it reads SessionID, CWD and Arguments.
	Judge(spec tool.Spec, in tool.Invocation) Verdict
	// Mode is the word that is in force for a session in a folder: a preset of spec
	// jsonrpc 11.2 or a mode of spec stream-json 7.1.
	Mode(sessionID, cwd string) string
	// SetMode puts another word in force for a session. A word that is unknown or
	// forbidden is an error.
	SetMode(sessionID, cwd, mode string) error
	// ModeBeforePlan is the mode to go back to when mode plan ends: the one that was
	// in force when it began. It is default where the session began in plan, where
	// plan is not in force, and where that mode has been forbidden since.
	ModeBeforePlan(sessionID, cwd string) string
	// Update changes the rules, the mode or the folders of a session, from the next
	// call on, and writes those whose Destination is a settings file into it, so
	// that nothing else in the file changes and no reader sees half of it. Updates
	// that make no sense, or cannot be written, change nothing; the error joins what
	// is wrong with each.
	Update(sessionID, cwd string, updates []Update) error
	// Denials lists the refused calls of a turn of a root session and of those
	// that it delegated to, in order; only the latest turn is kept.
	Denials(sessionID string, turn int) []Denial
}

// Steady is what a Policy may be beside: one that can be asked what a change would
// come to, and whose sessions have heirs.
type Steady interface {
	// CheckMode gives the error that SetMode would give in a folder.
	CheckMode(cwd, mode string) error
	// Inherit gives a session that begins the mode, the rules and the folders that
	// another was given, so that nothing that was forbidden is allowed in it.
	Inherit(from, to string)
}
