package streamjson

import "encoding/json"

// Types of lines that a host writes (spec stream-json 2).
const (
	TypeUser                 = "user"
	TypeControlRequest       = "control_request"
	TypeControlResponse      = "control_response"
	TypeControlCancelRequest = "control_cancel_request"
	TypeKeepAlive            = "keep_alive"
	TypeUpdateEnvironment    = "update_environment_variables"
)

// Input is a line of a host, read as far as its type; each type has the members
// that are named after it.
type Input struct {
	// Type is one of the Type constants; others are skipped.
	Type string `json:"type"`
	// RequestID is that of a control_request or a control_cancel_request.
	RequestID json.RawMessage `json:"request_id"`
	// Request is the object of a control_request, Response that of a
	// control_response.
	Request  json.RawMessage `json:"request"`
	Response json.RawMessage `json:"response"`
	// Variables are those of update_environment_variables.
	Variables json.RawMessage `json:"variables"`
}

// UserLine is a message of the user (spec stream-json 2.1). Members of the wrong
// type are for the reader to judge, so most are kept as they came.
type UserLine struct {
	Message         json.RawMessage `json:"message"`
	ParentToolUseID json.RawMessage `json:"parent_tool_use_id"`
	SessionID       json.RawMessage `json:"session_id"`
	UUID            json.RawMessage `json:"uuid"`
	Priority        json.RawMessage `json:"priority"`
	ShouldQuery     json.RawMessage `json:"shouldQuery"`
	Origin          json.RawMessage `json:"origin"`
}

// Priorities of a UserLine.
const (
	PriorityNow   = "now"
	PriorityNext  = "next"
	PriorityLater = "later"
)

// UserMessage is the message of a UserLine. Content is a string or a list of
// UserBlock.
type UserMessage struct {
	Role    json.RawMessage `json:"role"`
	Content json.RawMessage `json:"content"`
}

// UserBlock is a block of a user's message, of type text or image.
type UserBlock struct {
	Type   string       `json:"type"`
	Text   *string      `json:"text"`
	Source *ImageSource `json:"source"`
}

// ImageSource is where an image comes from: type base64 has MediaType and Data,
// type url has URL.
type ImageSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
	URL       string `json:"url"`
}
