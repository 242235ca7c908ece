package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/mcp"
	"dsh/plugins/streamjson/host"
)

// approved is the outcome of a permission question.
type approved struct {
	answer approval.Answer
	err    error
}

func (c *client) approve(ctx context.Context, a host.Asking, r approval.Request) <-chan approved {
	done := make(chan approved, 1)
	go func() {
		answer, err := host.Approver(c.Host, a).Approve(ctx, r)
		done <- approved{answer, err}
	}()
	return done
}

// TestQuestion compares can_use_tool requests with spec stream-json 5.1 and with
// what the reference sends (S064, checklist 55).
func TestQuestion(t *testing.T) {
	for name, tc := range map[string]struct {
		asked approval.Request
		want  string
	}{
		"bare": {
			approval.Request{ToolName: "Bash", CallID: "toolu_1"},
			`{"subtype":"can_use_tool","tool_name":"Bash","display_name":"Bash","input":{},"tool_use_id":"toolu_1"}`,
		},
		"everything": {
			approval.Request{
				ID: "q", SessionID: "child", ToolName: "Bash", CallID: "toolu_1", Arguments: json.RawMessage(`{"command":"touch made.txt","description":"Make a file"}`),
				Reason: "rule Bash(touch \\(x\\):*) (local) says ask", ReasonType: approval.ReasonRule, BlockedPath: "/w/made.txt", Rule: `Bash(touch \(x\):*)`, Scope: "local",
				Suggestions: []approval.Update{
					{Type: approval.AddRules, Rules: []approval.Rule{{ToolName: "Bash", RuleContent: "touch made.txt"}, {ToolName: "Read"}}, Behavior: approval.Allow, Destination: approval.DestinationLocal},
					{Type: approval.AddDirectories, Directories: []string{"/w"}},
					{Type: approval.SetMode, Mode: "acceptEdits", Destination: approval.DestinationSession},
				},
			},
			`{"subtype":"can_use_tool","tool_name":"Bash","display_name":"Bash","input":{"command":"touch made.txt","description":"Make a file"},"description":"Make a file",
			"permission_suggestions":[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"touch made.txt"},{"toolName":"Read"}],"behavior":"allow","destination":"localSettings"},
			{"type":"addDirectories","directories":["/w"],"destination":"session"},{"type":"setMode","mode":"acceptEdits","destination":"session"}],
			"blocked_path":"/w/made.txt","decision_reason":"rule Bash(touch \\(x\\):*) (local) says ask","decision_reason_type":"rule",
			"matched_ask_rule":{"source":"localSettings","tool_name":"Bash","rule_content":"touch (x):*"},"tool_use_id":"toolu_1","agent_id":"child"}`,
		},
		"a rule without content": {
			approval.Request{ToolName: "Write", CallID: "c", SessionID: "main", Arguments: json.RawMessage(`{"file_path":"p.txt","content":"x"}`), ReasonType: approval.ReasonRule, Rule: "Write", Scope: "session"},
			`{"subtype":"can_use_tool","tool_name":"Write","display_name":"Write","input":{"file_path":"p.txt","content":"x"},"description":"p.txt","decision_reason_type":"rule","matched_ask_rule":{"source":"session","tool_name":"Write"},"tool_use_id":"c"}`,
		},
		"a tool of an mcp server": {
			approval.Request{ToolName: "mcp__my_lab__echo", CallID: "c", Arguments: json.RawMessage(`{"text":"over mcp"}`), Reason: "no rule", ReasonType: approval.ReasonOther},
			`{"subtype":"can_use_tool","tool_name":"mcp__my_lab__echo","display_name":"Echo!","mcp_server":{"name":"my lab","source":"sdk"},"input":{"text":"over mcp"},"decision_reason":"no rule","decision_reason_type":"other","tool_use_id":"c"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t)
			passed := ""
			outcome := c.approve(t.Context(), host.Asking{Agents: agents{}, Servers: servers{}, Passed: func(_ context.Context, id string) {
				passed = id
				if len(c.got) > 0 {
					t.Error("the question was written before what leads to it")
				}
			}}, tc.asked)
			r := c.next()
			var got, want any
			if err := json.Unmarshal(r.Request, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			c.answer(r.ID, `{"behavior":"allow"}`)
			if got := wait(t, outcome); got.answer.Outcome != approval.AllowedOnce || got.err != nil || passed != tc.asked.SessionID {
				t.Errorf("got %v, passed %q", got, passed)
			}
		})
	}
}

// agents knows two sessions.
type agents struct{ agent.Registry }

func (agents) Get(id string) (agent.Agent, bool) {
	switch id {
	case "main":
		return one{}, true
	case "child":
		return one{spec: agent.Spec{Parent: "main"}}, true
	}
	return nil, false
}

type one struct {
	agent.Agent
	spec agent.Spec
}

func (o one) Spec() agent.Spec { return o.spec }

// servers knows one server.
type servers struct{ mcp.Servers }

func (servers) List() []mcp.Server {
	return []mcp.Server{
		{Name: "other", Scope: "user", Tools: []string{"mcp__other__echo"}, Offers: []mcp.Offer{{Name: "echo"}}},
		{Name: "my lab", Scope: "client", Tools: []string{"mcp__my_lab__first", "mcp__my_lab__echo"}, Offers: []mcp.Offer{{Name: "first"}, {Name: "Echo!"}}},
	}
}

// TestAnswersAreJudged: only the exact word allows, and what is wrong is told to
// the model and to stderr (B21, B23, S065, spec stream-json 5.1).
func TestAnswersAreJudged(t *testing.T) {
	allow := approval.Answer{Outcome: approval.AllowedOnce}
	with := func(input string) approval.Answer {
		return approval.Answer{Outcome: approval.AllowedOnce, Arguments: json.RawMessage(input)}
	}
	deny := func(message string) approval.Answer {
		return approval.Answer{Outcome: approval.Rejected, Message: message}
	}
	invalid := func(field, should string) approval.Answer {
		return deny("The client's answer to the permission request for Bash is invalid, so the call was not made: " + field + " should be " + should + ".")
	}
	behavior := invalid("behavior", `"allow" or "deny"`)
	for name, tc := range map[string]struct {
		answer string
		want   approval.Answer
	}{
		"allow":                        {`{"behavior":"allow"}`, allow},
		"allow, null input":            {`{"behavior":"allow","updatedInput":null,"updatedPermissions":null}`, allow},
		"allow, as the sdk says it":    {`{"behavior":"allow","updatedInput":{"command":"ls"},"toolUseID":"x","decisionClassification":"user_temporary"}`, with(`{"command":"ls"}`)},
		"allow, empty input":           {`{"behavior":"allow","updatedInput":{}}`, with(`{}`)},
		"allow, input is text":         {`{"behavior":"allow","updatedInput":"text"}`, invalid("updatedInput", "an object")},
		"allow, input is a list":       {`{"behavior":"allow","updatedInput":[]}`, invalid("updatedInput", "an object")},
		"allow, input is false":        {`{"behavior":"allow","updatedInput":false}`, invalid("updatedInput", "an object")},
		"loud":                         {`{"behavior":"ALLOW"}`, behavior},
		"maybe":                        {`{"behavior":"maybe"}`, behavior},
		"other name":                   {`{"behaviour":"allow"}`, behavior},
		"other case":                   {`{"Behavior":"allow"}`, behavior},
		"true":                         {`{"behavior":true}`, behavior},
		"empty":                        {`{}`, behavior},
		"null":                         {`null`, invalid("the answer", "an object")},
		"a list":                       {`[{"behavior":"allow"}]`, invalid("the answer", "an object")},
		"text":                         {`"allow"`, invalid("the answer", "an object")},
		"deny":                         {`{"behavior":"deny","message":"not allowed by the lab"}`, deny("not allowed by the lab")},
		"deny without message":         {`{"behavior":"deny"}`, deny("")},
		"deny, message is no text":     {`{"behavior":"deny","message":7}`, deny("")},
		"deny with interrupt":          {`{"behavior":"deny","message":"m","interrupt":true}`, approval.Answer{Outcome: approval.Rejected, Message: "m", Interrupt: true}},
		"deny without interrupt":       {`{"behavior":"deny","message":"m","interrupt":false}`, deny("m")},
		"deny, interrupt is no truth":  {`{"behavior":"deny","message":"m","interrupt":"true"}`, deny("m")},
		"deny, with an input":          {`{"behavior":"deny","message":"m","updatedInput":{"command":"ls"}}`, deny("m")},
		"allow does not interrupt":     {`{"behavior":"allow","interrupt":true}`, allow},
		"a behavior that is repeated":  {`{"behavior":"allow","behavior":"deny"}`, deny("")},
		"permissions that are no list": {`{"behavior":"allow","updatedPermissions":{"type":"setMode"}}`, allow},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t)
			outcome := c.approve(t.Context(), host.Asking{}, approval.Request{SessionID: "s", ToolName: "Bash", CallID: "c"})
			c.answer(c.next().ID, tc.answer)
			got := wait(t, outcome)
			if diff := cmp.Diff(tc.want, got.answer); diff != "" || got.err != nil {
				t.Errorf("%v %s", got.err, diff)
			}
			bad := strings.Contains(tc.want.Message, "is invalid")
			if told := strings.Contains(c.log.String(), "level=WARN"); told != bad {
				t.Errorf("told on stderr: %v, want %v: %s", told, bad, c.log)
			}
		})
	}
}

// TestUpdates: updatedPermissions come with either decision; an element that does
// not validate is dropped, and the decision stands (S066, spec stream-json 7.6).
func TestUpdates(t *testing.T) {
	rules := []approval.Rule{{ToolName: "Bash", RuleContent: "touch:*"}}
	for name, tc := range map[string]struct {
		element string
		want    *approval.Update
	}{
		"add rules":              {`{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"touch:*"}],"behavior":"allow","destination":"localSettings"}`, &approval.Update{Type: approval.AddRules, Rules: rules, Behavior: approval.Allow, Destination: approval.DestinationLocal}},
		"python's nulls":         {`{"type":"addRules","rules":[{"toolName":"Read","ruleContent":null}],"behavior":"deny","destination":null}`, &approval.Update{Type: approval.AddRules, Rules: []approval.Rule{{ToolName: "Read"}}, Behavior: approval.Deny}},
		"replace with none":      {`{"type":"replaceRules","rules":[],"behavior":"ask","destination":"cliArg"}`, &approval.Update{Type: approval.ReplaceRules, Behavior: approval.Ask, Destination: approval.DestinationFlags}},
		"remove rules":           {`{"type":"removeRules","rules":[{"toolName":"Bash","ruleContent":"touch:*"}],"behavior":"allow","destination":"session"}`, &approval.Update{Type: approval.RemoveRules, Rules: rules, Behavior: approval.Allow, Destination: approval.DestinationSession}},
		"set mode":               {`{"type":"setMode","mode":"acceptEdits","destination":"userSettings"}`, &approval.Update{Type: approval.SetMode, Mode: "acceptEdits", Destination: approval.DestinationUser}},
		"directories":            {`{"type":"addDirectories","directories":["/a","/b"],"destination":"projectSettings"}`, &approval.Update{Type: approval.AddDirectories, Directories: []string{"/a", "/b"}, Destination: approval.DestinationProject}},
		"fewer directories":      {`{"type":"removeDirectories","directories":["/a"]}`, &approval.Update{Type: approval.RemoveDirectories, Directories: []string{"/a"}}},
		"no object":              {`"addRules"`, nil},
		"null":                   {`null`, nil},
		"no type":                {`{"rules":[],"behavior":"allow"}`, nil},
		"unknown type":           {`{"type":"grantAll"}`, nil},
		"unknown destination":    {`{"type":"setMode","mode":"plan","destination":"managedSettings"}`, nil},
		"unknown behavior":       {`{"type":"addRules","rules":[{"toolName":"Bash"}],"behavior":"ALLOW"}`, nil},
		"no rules":               {`{"type":"addRules","behavior":"allow"}`, nil},
		"a rule without tool":    {`{"type":"addRules","rules":[{"ruleContent":"x"}],"behavior":"allow"}`, nil},
		"a rule of another case": {`{"type":"addRules","rules":[{"ToolName":"Bash"}],"behavior":"allow"}`, nil},
		"content is no text":     {`{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":5}],"behavior":"allow"}`, nil},
		"no mode":                {`{"type":"setMode","destination":"session"}`, nil},
		"no directories":         {`{"type":"addDirectories","directories":[]}`, nil},
		"a directory is no text": {`{"type":"addDirectories","directories":["/a",7]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, decision := range []approval.Answer{{Outcome: approval.AllowedOnce}, {Outcome: approval.Rejected, Message: "m"}} {
				c := connect(t)
				outcome := c.approve(t.Context(), host.Asking{}, approval.Request{SessionID: "s", ToolName: "Bash", CallID: "c"})
				behavior := map[approval.Outcome]string{approval.AllowedOnce: "allow", approval.Rejected: "deny"}[decision.Outcome]
				const last = `{"type":"setMode","mode":"plan"}`
				c.answer(c.next().ID, `{"behavior":"`+behavior+`","message":"m","updatedPermissions":[`+tc.element+`,`+last+`]}`)
				if tc.want != nil {
					decision.Updates = append(decision.Updates, *tc.want)
				}
				decision.Updates = append(decision.Updates, approval.Update{Type: approval.SetMode, Mode: "plan"})
				if diff := cmp.Diff(decision, wait(t, outcome).answer); diff != "" {
					t.Error(diff)
				}
				if told := strings.Contains(c.log.String(), "updatedPermissions"); told != (tc.want == nil) || strings.Contains(c.log.String(), "level=WARN") {
					t.Errorf("told: %v: %s", told, c.log)
				}
			}
		})
	}
}

// TestElicit maps an MCP server's question to the wire and back (S069, spec
// stream-json 5.4, checklist 75).
func TestElicit(t *testing.T) {
	form := approval.Elicitation{Server: "app", Message: "Name?", Schema: json.RawMessage(`{"type":"object"}`)}
	const wantForm = `{"subtype":"elicitation","mcp_server_name":"app","message":"Name?","mode":"form","requested_schema":{"type":"object"}}`
	page := approval.Elicitation{Server: "app", Message: "Log in", ID: "e1", URL: "https://example.com/x"}
	const wantPage = `{"subtype":"elicitation","mcp_server_name":"app","message":"Log in","mode":"url","url":"https://example.com/x","elicitation_id":"e1"}`
	for name, tc := range map[string]struct {
		asked    approval.Elicitation
		question string
		answer   string
		want     approval.ElicitationAnswer
	}{
		"accept":            {form, wantForm, `{"action":"accept","content":{"name":"x"}}`, approval.ElicitationAnswer{Action: "accept", Content: json.RawMessage(`{"name":"x"}`)}},
		"accept a page":     {page, wantPage, `{"action":"accept"}`, approval.ElicitationAnswer{Action: "accept"}},
		"decline":           {form, wantForm, `{"action":"decline","content":{"name":"x"}}`, approval.ElicitationAnswer{Action: "decline"}},
		"cancel":            {form, wantForm, `{"action":"cancel"}`, approval.ElicitationAnswer{Action: "cancel"}},
		"content is text":   {form, wantForm, `{"action":"accept","content":"x"}`, approval.ElicitationAnswer{Action: "cancel"}},
		"loud":              {form, wantForm, `{"action":"ACCEPT"}`, approval.ElicitationAnswer{Action: "cancel"}},
		"none":              {form, wantForm, `{}`, approval.ElicitationAnswer{Action: "cancel"}},
		"null":              {form, wantForm, `null`, approval.ElicitationAnswer{Action: "cancel"}},
		"a permission's":    {form, wantForm, `{"behavior":"allow"}`, approval.ElicitationAnswer{Action: "cancel"}},
		"accept, null data": {form, wantForm, `{"action":"accept","content":null}`, approval.ElicitationAnswer{Action: "accept"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t)
			done := make(chan approval.ElicitationAnswer, 1)
			go func() {
				a, err := host.Approver(c.Host, host.Asking{}).Elicit(t.Context(), tc.asked)
				if err != nil {
					t.Error(err)
				}
				done <- a
			}()
			r := c.next()
			if diff := cmp.Diff(tc.question, string(r.Request)); diff != "" {
				t.Error(diff)
			}
			c.answer(r.ID, tc.answer)
			if diff := cmp.Diff(tc.want, wait(t, done)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
