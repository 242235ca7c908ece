package hooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dsh/kernel/approval"
	"dsh/kernel/hook"
	"dsh/sdkproto/wirejson"
)

// said is what one hook has said.
type said struct {
	hook.Outcome
	// message is for people.
	message string
	// away says that the hook goes on in the background, for at most that long; 0 is
	// its own limit.
	away      bool
	awayLimit time.Duration
}

// mcpPrefix begins the names of the tools of MCP servers.
const mcpPrefix = "mcp__"

// parseOutput reads the output object of a hook (spec stream-json 6.3). An error
// means that the hook has failed: a member of the wrong type, a decision in a
// shape that there is not, or nothing but members that nobody knows. It names the
// member.
func parseOutput(in *hook.Input, output []byte) (said, error) {
	var s said
	members, err := object(output)
	if err != nil {
		return s, fmt.Errorf("its output is no JSON object: %w", err)
	}
	p := &members.err
	if members.flag("async") {
		s.away = true
		s.awayLimit = time.Duration(members.number("asyncTimeout") * float64(time.Millisecond))
	}
	if more, set := members.flagSet("continue"); set && !more {
		s.Stopped = true
	}
	s.StopReason = members.text("stopReason")
	s.message = members.text("systemMessage")
	members.flag("suppressOutput")
	members.text("terminalSequence")
	reason := members.text("reason")
	if word := members.text("decision"); word != "" {
		s.Outcome = s.with(members.old(in.Event, word), reason, in.Event)
	}
	if inner := members.object("hookSpecificOutput"); inner != nil {
		inner.specific(in, &s)
		if *p == nil {
			*p = inner.err
		}
	}
	if *p != nil {
		return said{}, *p
	}
	return s, members.unknown(s.decided())
}

// members are those of an object, with the first thing that is wrong with them.
type members struct {
	// at is where the object is: a prefix of names.
	at  string
	raw map[string]json.RawMessage
	// read are the names that somebody knows.
	read map[string]bool
	err  error
}

func object(raw []byte) (*members, error) {
	m := &members{read: map[string]bool{}}
	if err := wirejson.Unmarshal(raw, &m.raw); err != nil {
		return nil, err
	}
	if m.raw == nil {
		return nil, errors.New("it is null")
	}
	return m, nil
}

func (m *members) fail(name, format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf("member %q of its output %s", m.at+name, fmt.Sprintf(format, args...))
	}
}

// get gives a member that is there and not null.
func (m *members) get(name string) (json.RawMessage, bool) {
	m.read[name] = true
	raw := m.raw[name]
	return raw, !isNull(raw)
}

func take[T any](m *members, name, kind string) (v T, set bool) {
	raw, ok := m.get(name)
	if !ok {
		return v, false
	}
	if err := wirejson.Unmarshal(raw, &v); err != nil {
		m.fail(name, "is not %s", kind)
		return v, false
	}
	return v, true
}

func (m *members) flagSet(name string) (v, set bool) { return take[bool](m, name, "true or false") }

func (m *members) flag(name string) bool {
	v, _ := m.flagSet(name)
	return v
}

func (m *members) text(name string) string {
	v, _ := take[string](m, name, "a text")
	return v
}

func (m *members) number(name string) float64 {
	v, _ := take[float64](m, name, "a number")
	if v < 0 || v > maxSeconds*1000 {
		m.fail(name, "is out of range")
		return 0
	}
	return v
}

// rawObject gives a member that is an object, as it is.
func (m *members) rawObject(name string) json.RawMessage {
	raw, ok := m.get(name)
	if !ok {
		return nil
	}
	if _, err := object(raw); err != nil {
		m.fail(name, "is not an object")
		return nil
	}
	return raw
}

func (m *members) object(name string) *members {
	raw := m.rawObject(name)
	if raw == nil {
		return nil
	}
	inner, err := object(raw)
	if err != nil {
		return nil // it was one a moment ago
	}
	inner.at = m.at + name + "."
	return inner
}

// old reads the older form of a decision.
func (m *members) old(event, word string) string {
	switch {
	case event == hook.PreToolUse && word == "approve":
		return hook.Allow
	case event == hook.PreToolUse && word == "block":
		return hook.Deny
	case event != hook.PreToolUse && word == "block" && blocks(event):
		return hook.Block
	}
	m.fail("decision", "says %q, which is no decision for %s", clip(word, 50), event)
	return ""
}

// blocks reports whether a decision of block means something for an event.
func blocks(event string) bool {
	switch event {
	case hook.PostToolUse, hook.PostToolUseFailure, hook.UserPromptSubmit, hook.Stop, hook.SubagentStop, hook.PreCompact, hook.PostToolBatch:
		return true
	}
	return false
}

// specific reads hookSpecificOutput.
func (m *members) specific(in *hook.Input, s *said) {
	if event := m.text("hookEventName"); event != in.Event && m.err == nil {
		m.fail("hookEventName", "says %q; it must be %q", clip(event, 50), in.Event)
	}
	context := func() {
		if text := m.text("additionalContext"); text != "" {
			s.Context = append(s.Context, text)
		}
	}
	switch in.Event {
	case hook.PreToolUse:
		context()
		word, reason := m.text("permissionDecision"), m.text("permissionDecisionReason")
		switch word {
		case "", hook.Allow, hook.Deny, hook.Ask, hook.Defer:
			s.Outcome = s.with(word, reason, in.Event)
		default:
			m.fail("permissionDecision", "says %q; it must be allow, deny, ask or defer", clip(word, 50))
		}
		s.UpdatedInput = m.rawObject("updatedInput")
	case hook.PostToolUse:
		context()
		if raw, ok := m.get("updatedMCPToolOutput"); ok {
			if !strings.HasPrefix(in.Match, mcpPrefix) {
				m.fail("updatedMCPToolOutput", "is for tools of MCP servers; use updatedToolOutput")
			}
			s.UpdatedOutput = raw
		}
		if raw, ok := m.get("updatedToolOutput"); ok {
			s.UpdatedOutput = raw
		}
	case hook.UserPromptSubmit:
		context()
		m.text("sessionTitle")
		m.flag("suppressOriginalPrompt")
	case hook.SessionStart:
		context()
		m.text("initialUserMessage")
		m.text("sessionTitle")
		m.get("watchPaths")
		m.get("reloadSkills")
	case hook.PermissionRequest:
		if d := m.object("decision"); d != nil {
			s.Permission = d.permission()
			if m.err == nil {
				m.err = d.err
			}
		}
	case hook.PermissionDenied:
		s.Retry = m.flag("retry")
	case hook.Elicitation, hook.ElicitationResult:
		switch action := m.text("action"); action {
		case "":
		case approval.ActionAccept, approval.ActionDecline, approval.ActionCancel:
			s.Elicited = &approval.ElicitationAnswer{Action: action, Content: m.rawObject("content")}
		default:
			m.fail("action", "says %q; it must be accept, decline or cancel", clip(action, 50))
		}
	case hook.PostToolUseFailure, hook.PostToolBatch, hook.SubagentStart, hook.SubagentStop, hook.Stop, hook.Notification:
		context()
	}
	if m.err == nil {
		m.err = m.unknown(s.decided())
	}
}

// permission reads the decision of a PermissionRequest hook.
func (m *members) permission() *approval.Answer {
	switch behavior := m.text("behavior"); behavior {
	case approval.Allow:
		a := &approval.Answer{Outcome: approval.AllowedOnce, Arguments: m.rawObject("updatedInput")}
		a.Updates, _ = take[[]approval.Update](m, "updatedPermissions", "a list of changes of permissions")
		return a
	case approval.Deny:
		return &approval.Answer{Outcome: approval.Rejected, Message: m.text("message"), Interrupt: m.flag("interrupt")}
	default:
		m.fail("behavior", "says %q; it must be allow or deny", clip(behavior, 50))
		return nil
	}
}

// mistaken are members that are taken for a decision but are none: in an output
// without any, what else is there must not make a refusal go by unseen (case B26).
func mistaken() []string {
	return []string{
		"permission", "permissionDecision", "behavior", "action", "allow", "allowed", "approve", "approved", "ask", "block", "blocked",
		"deny", "denied", "reject", "rejected", "verdict",
	}
}

// unknown reports members that nobody knows, where there are no others, or where
// they look like a decision and nothing is decided.
func (m *members) unknown(decided bool) error {
	var strange []string
	decision, beside := "", false
	for _, name := range slices.Sorted(maps.Keys(m.raw)) {
		if m.read[name] {
			beside = beside || name != "hookEventName"
			continue
		}
		strange = append(strange, fmt.Sprintf("%q", m.at+clip(name, 50)))
		if !decided && decision == "" && slices.Contains(mistaken(), name) {
			decision = name
		}
	}
	switch {
	case decision != "":
		return fmt.Errorf("member %q of its output is no decision here, and nothing comes of it", m.at+decision)
	case len(strange) > 0 && !beside:
		return fmt.Errorf("its output has nothing but members that are not known: %s", clip(strings.Join(strange, ", "), mostName))
	}
	return nil
}

// decided reports whether a hook has settled what it was asked.
func (s *said) decided() bool {
	return s.Decision != "" || s.Permission != nil || s.Elicited != nil
}

// rank orders the decisions of PreToolUse: the higher one holds (spec stream-json
// 6.5 rule 1).
func rank(decision string) int {
	return slices.Index([]string{"", hook.Allow, hook.Ask, hook.Defer, hook.Deny}, decision)
}

// with is an outcome with one more decision.
func (s *said) with(decision, reason, event string) hook.Outcome {
	return merge(s.Outcome, hook.Outcome{Decision: decision, Reason: reason}, event)
}

// merge puts the outcome of a later hook to that of earlier ones.
func merge(a, b hook.Outcome, event string) hook.Outcome {
	switch {
	case b.Decision == "":
	case a.Decision == b.Decision:
		a.Reason = joined(a.Reason, b.Reason)
	case event != hook.PreToolUse || rank(b.Decision) > rank(a.Decision):
		a.Decision, a.Reason = b.Decision, b.Reason
	}
	if b.Stopped {
		a.Stopped = true
		a.StopReason = joined(a.StopReason, b.StopReason)
	}
	if b.UpdatedInput != nil {
		a.UpdatedInput = b.UpdatedInput
	}
	if b.UpdatedOutput != nil {
		a.UpdatedOutput = b.UpdatedOutput
	}
	a.Context = append(a.Context, b.Context...)
	// A denial holds against whatever allows; of the rest the later one does.
	if b.Permission != nil && (a.Permission == nil || a.Permission.Outcome != approval.Rejected) {
		a.Permission = b.Permission
	}
	a.Retry = a.Retry || b.Retry
	if b.Elicited != nil {
		a.Elicited = b.Elicited
	}
	return a
}

func joined(a, b string) string {
	switch {
	case a == "" || a == b:
		return b
	case b == "":
		return a
	}
	return a + "\n" + b
}
