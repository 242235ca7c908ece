// Package transcript shows a session in the files that the SDKs read (spec
// stream-json 10): a projection of the session's log, and the way back from such
// a file to a history. The log stays the one truth; a transcript that is missing
// or behind is made of it again.
//
// A Projector makes entries of records, a File appends them, a History is the
// conversation that a log or a file comes to, of which a new log can be made, as
// a whole or up to a point.
//
// An entry has the uuid of the line that the client saw: an answer one for each
// block, a result and a prompt that of their message. A message that was read from
// a foreign file keeps the uuids that it had there. What an entry says follows from
// the log alone, but for the branch of the work tree and the version.
//
// The SDKs change these files, too, while no process has the session: they append
// titles and tags, which are kept; they copy a file under a new id, which is then
// a session that is read from it; and they delete files. A session whose file is
// gone is in no list of theirs. Its log is still there, and resuming it by its id
// makes the file anew.
package transcript

import (
	"encoding/json"
	"slices"
	"time"

	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// Types of entries.
const (
	typeUser      = streamjson.TypeUser
	typeAssistant = streamjson.TypeAssistant
	typeSystem    = streamjson.TypeSystem
	typeProgress  = "progress"
	typeAttached  = "attachment"

	typeLastPrompt  = "last-prompt"
	typeCustomTitle = "custom-title"
	typeAITitle     = "ai-title"
	typeTag         = "tag"
	// typeAgent is the form in which a mirror gets what is beside the file of a
	// subagent.
	typeAgent = "agent_metadata"
)

// entry is a line of a conversation (spec stream-json 10.2).
type entry struct {
	Type       string  `json:"type"`
	Subtype    string  `json:"subtype,omitzero"`
	ParentUUID *string `json:"parentUuid"`
	// LogicalParentUUID is what a boundary follows, though the chain ends there.
	LogicalParentUUID string `json:"logicalParentUuid,omitzero"`
	IsSidechain       bool   `json:"isSidechain"`
	UserType          string `json:"userType"`
	CWD               string `json:"cwd"`
	SessionID         string `json:"sessionId"`
	Version           string `json:"version"`
	GitBranch         string `json:"gitBranch,omitzero"`
	AgentID           string `json:"agentId,omitzero"`
	IsMeta            bool   `json:"isMeta,omitzero"`
	IsCompactSummary  bool   `json:"isCompactSummary,omitzero"`
	// IsAPIError marks an answer that stands for a failure, whose category Error is.
	IsAPIError bool   `json:"isApiErrorMessage,omitzero"`
	Error      string `json:"error,omitzero"`
	// Content, Level and CompactMetadata are those of a boundary.
	Content         string           `json:"content,omitzero"`
	Level           string           `json:"level,omitzero"`
	CompactMetadata *compactMetadata `json:"compactMetadata,omitzero"`
	Message         json.RawMessage  `json:"message,omitzero"`
	// ToolUseResult is the structured output of a tool, SourceUUID the entry of the
	// call.
	ToolUseResult json.RawMessage `json:"toolUseResult,omitzero"`
	SourceUUID    string          `json:"sourceToolAssistantUUID,omitzero"`
	ForkedFrom    *forkedFrom     `json:"forkedFrom,omitzero"`
	UUID          string          `json:"uuid"`
	Timestamp     string          `json:"timestamp"`
}

type compactMetadata struct {
	Trigger   string `json:"trigger"`
	PreTokens int64  `json:"preTokens"`
}

type forkedFrom struct {
	SessionID   string `json:"sessionId"`
	MessageUUID string `json:"messageUuid"`
}

// userMessage is the message of a user entry.
type userMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// metadata is a line that belongs to no chain; one of its texts is set.
type metadata struct {
	Type        string  `json:"type"`
	CustomTitle string  `json:"customTitle,omitzero"`
	AITitle     string  `json:"aiTitle,omitzero"`
	LastPrompt  string  `json:"lastPrompt,omitzero"`
	Tag         *string `json:"tag,omitzero"`
	SessionID   string  `json:"sessionId"`
}

// agentMetadata is what the file beside that of a subagent says.
type agentMetadata struct {
	Type          string `json:"type,omitzero"`
	AgentType     string `json:"agentType,omitzero"`
	ToolUseID     string `json:"toolUseId,omitzero"`
	ParentAgentID string `json:"parentAgentId,omitzero"`
}

// Line is one line of a transcript.
type Line struct {
	// JSON has no line end.
	JSON []byte
	// key names the entry in its file, "" for metadata: its uuid, and for one that
	// stands there once more, behind another parent, that, too.
	key string
}

// line encodes v. All that goes into one is text, numbers and JSON that was
// checked, so it can always be encoded.
func line(v any, key string) []Line {
	encoded, err := wirejson.Marshal(v)
	if err != nil {
		return nil
	}
	return []Line{{encoded, key}}
}

// stamp writes a time, in epoch milliseconds, as the readers want it.
func stamp(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// Conversation reports whether something is said in lines, and they are not
// metadata alone.
func Conversation(lines []Line) bool {
	return slices.ContainsFunc(lines, func(l Line) bool { return l.key != "" })
}
