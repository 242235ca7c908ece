package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"dsh/sdkproto/wirejson"
)

// A strict reader takes nothing for granted: every line is one JSON object of a
// known type, with every field that spec stream-json 3 asks for, of the right
// type (S005, S078).

type object = map[string]any

// field says what one member has to be; a kind is string, text (not empty), int,
// number, bool, object, array, strings, objects, null, or several of them with |.
type field struct{ name, kind string }

func fields(spec string) (list []field) {
	for _, word := range strings.Fields(spec) {
		name, kind, _ := strings.Cut(word, ":")
		list = append(list, field{name, kind})
	}
	return list
}

const usageFields = "input_tokens:int output_tokens:int cache_creation_input_tokens:int cache_read_input_tokens:int"

// lineFields are those of each type, or type and subtype.
var lineFields = map[string]string{
	"system/init": "cwd:text model:text permissionMode:text tools:strings mcp_servers:objects slash_commands:strings agents:strings " +
		"skills:strings plugins:array output_style:text apiKeySource:text claude_code_version:text",
	"system/status":                   "status:string|null",
	"system/api_retry":                "attempt:int max_retries:int retry_delay_ms:int error_status:int|null error:text",
	"system/compact_boundary":         "compact_metadata:object",
	"system/task_started":             "task_id:text description:string",
	"system/task_progress":            "task_id:text description:string usage:object",
	"system/task_updated":             "task_id:text patch:object",
	"system/background_tasks_changed": "tasks:objects",
	"system/task_notification":        "task_id:text status:text output_file:string summary:string",
	"system/hook_started":             "hook_id:text hook_name:text hook_event:text",
	"system/hook_response":            "hook_id:text hook_name:text hook_event:text output:string stdout:string stderr:string outcome:text",
	"system/permission_denied":        "tool_name:text tool_use_id:text message:string",
	"system/informational":            "content:text level:text",
	"assistant":                       "parent_tool_use_id:string|null message:object",
	"user":                            "parent_tool_use_id:string|null message:object",
	"stream_event":                    "parent_tool_use_id:null event:object",
	"result": "subtype:text is_error:bool duration_ms:int duration_api_ms:int num_turns:int result:string stop_reason:string|null " +
		"total_cost_usd:number usage:object modelUsage:object permission_denials:objects",
	"prompt_suggestion":  "suggestion:text",
	"conversation_reset": "new_conversation_id:text",
	"text":               "text:text",
	"tool_start":         "tool_use_id:text name:text input:object",
	"tool_result":        "tool_use_id:text name:text content:string is_error:bool",
	"usage":              usageFields + " cost_usd:number",
}

var blockFields = map[string]string{
	"text":              "text:text",
	"thinking":          "thinking:string signature:string",
	"redacted_thinking": "data:string",
	"tool_use":          "id:text name:text input:object",
	"tool_result":       "tool_use_id:text content:string|array",
}

var eventFields = map[string]string{
	"message_start":       "message:object",
	"content_block_start": "index:int content_block:object",
	"content_block_delta": "index:int delta:object",
	"content_block_stop":  "index:int",
	"message_delta":       "delta:object usage:object",
	"message_stop":        "",
}

var (
	uuidForm    = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	messageForm = regexp.MustCompile(`^msg_[0-9A-Za-z_]+$`)
)

// is reports whether a value is of a kind.
func is(v any, kind string) bool {
	switch kind {
	case "null":
		return v == nil
	case "string":
		_, ok := v.(string)
		return ok
	case "text":
		s, ok := v.(string)
		return ok && s != ""
	case "bool":
		_, ok := v.(bool)
		return ok
	case "number":
		n, ok := v.(float64)
		return ok && n >= 0
	case "int":
		n, ok := v.(float64)
		return ok && n >= 0 && n == float64(int64(n))
	case "object":
		_, ok := v.(object)
		return ok
	case "array":
		_, ok := v.([]any)
		return ok
	case "strings", "objects":
		list, ok := v.([]any)
		return ok && !slices.ContainsFunc(list, func(x any) bool { return !is(x, strings.TrimSuffix(kind, "s")) })
	}
	panic("no kind " + kind)
}

func missing(o object, at, spec string) (faults []string) {
	for _, f := range fields(spec) {
		v, ok := o[f.name]
		if !ok {
			faults = append(faults, fmt.Sprintf("%s: no %s", at, f.name))
			continue
		}
		if !slices.ContainsFunc(strings.Split(f.kind, "|"), func(k string) bool { return is(v, k) }) {
			faults = append(faults, fmt.Sprintf("%s: %s is %T %v, want %s", at, f.name, v, v, f.kind))
		}
	}
	return faults
}

// faultLong begins what is said of a line that is too long.
const faultLong = "too long a line"

// judge checks one line of output and gives it decoded.
func judge(raw []byte) (line object, faults []string) {
	if len(raw) >= 1_000_000 {
		faults = append(faults, fmt.Sprintf(faultLong+" of %d bytes; a host takes less than a million", len(raw)))
	}
	if strings.ContainsAny(string(raw), "\u2028\u2029\u0085\ufeff\r") {
		faults = append(faults, "a line separator inside the line")
	}
	if err := wirejson.Unmarshal(raw, &line); err != nil {
		return nil, append(faults, fmt.Sprintf("not one JSON object: %v", err))
	}
	kind, _ := line["type"].(string)
	switch kind {
	case "control_request":
		return line, append(faults, missing(line, kind, "request_id:text request:object")...)
	case "control_cancel_request":
		return line, append(faults, missing(line, kind, "request_id:text")...)
	case "control_response":
		faults = append(faults, missing(line, kind, "response:object")...)
		response, _ := line["response"].(object)
		spec := "request_id:text subtype:text response:object"
		if response["subtype"] == "error" {
			spec = "request_id:text subtype:text error:text"
		}
		return line, append(faults, missing(response, kind, spec)...)
	case "transcript_mirror":
		faults = append(faults, missing(line, kind, "filePath:text entries:objects")...)
		if path, _ := line["filePath"].(string); !filepath.IsAbs(path) {
			faults = append(faults, fmt.Sprintf("%s: the path %q is not absolute", kind, path))
		}
		return line, faults
	case "keep_alive":
		return line, faults
	}
	at := kind
	if kind == "system" {
		at = fmt.Sprintf("system/%v", line["subtype"])
	}
	spec, known := lineFields[at]
	if !known {
		faults = append(faults, fmt.Sprintf("a line of unknown type %q", at))
	}
	faults = append(faults, missing(line, at, "session_id:text uuid:text "+spec)...)
	for _, name := range []string{"session_id", "uuid"} {
		if id, _ := line[name].(string); !uuidForm.MatchString(id) {
			faults = append(faults, fmt.Sprintf("%s: %s %q is no UUID v4", at, name, id))
		}
	}
	switch kind {
	case "assistant":
		faults = append(faults, judgeAnswer(line)...)
	case "user":
		faults = append(faults, judgeUser(line)...)
	case "stream_event":
		event, _ := line["event"].(object)
		name, _ := event["type"].(string)
		spec, known := eventFields[name]
		if !known {
			faults = append(faults, fmt.Sprintf("an event of unknown type %q", name))
		}
		faults = append(faults, missing(event, name, spec)...)
	case "result":
		// Not every end has a word of its own (spec stream-json 3.7).
		if reason, ok := line["terminal_reason"]; ok && !is(reason, "text") {
			faults = append(faults, fmt.Sprintf("terminal_reason is %v", reason))
		}
		usage, _ := line["usage"].(object)
		faults = append(faults, missing(usage, "usage", usageFields)...)
		models, _ := line["modelUsage"].(object)
		for id, m := range models {
			one, _ := m.(object)
			faults = append(faults, missing(one, "modelUsage of "+id,
				"inputTokens:int outputTokens:int cacheReadInputTokens:int cacheCreationInputTokens:int webSearchRequests:int costUSD:number contextWindow:int")...)
		}
		if subtype, _ := line["subtype"].(string); strings.HasPrefix(subtype, "error_") {
			if errors, _ := line["errors"].([]any); len(errors) == 0 || !is(line["errors"], "strings") || line["is_error"] != true {
				faults = append(faults, fmt.Sprintf("%s: is_error %v, errors %v", subtype, line["is_error"], line["errors"]))
			}
		}
	}
	return line, faults
}

func judgeAnswer(line object) []string {
	m, _ := line["message"].(object)
	faults := missing(m, "message", "id:text type:text role:text model:text content:objects stop_reason:string|null stop_sequence:string|null usage:object")
	if id, _ := m["id"].(string); !messageForm.MatchString(id) {
		faults = append(faults, fmt.Sprintf("message id %q", id))
	}
	usage, _ := m["usage"].(object)
	faults = append(faults, missing(usage, "usage of the message", usageFields)...)
	content, _ := m["content"].([]any)
	if len(content) != 1 {
		return append(faults, fmt.Sprintf("%d blocks in an assistant line", len(content)))
	}
	return append(faults, judgeBlock(content[0])...)
}

func judgeUser(line object) (faults []string) {
	m, _ := line["message"].(object)
	faults = missing(m, "message", "role:text content:string|objects")
	content, _ := m["content"].([]any)
	for _, b := range content {
		faults = append(faults, judgeBlock(b)...)
	}
	return faults
}

func judgeBlock(v any) []string {
	b, _ := v.(object)
	kind, _ := b["type"].(string)
	spec, known := blockFields[kind]
	if !known {
		if kind == "image" {
			return missing(b, kind, "source:object")
		}
		return []string{fmt.Sprintf("a block of unknown type %q", kind)}
	}
	return missing(b, kind, spec)
}
