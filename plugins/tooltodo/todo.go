package tooltodo

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"dsh/kernel"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/internal/dialect"
	"dsh/sdkproto"
)

// Statuses of an entry (spec jsonrpc 5.3).
const (
	pending    = "pending"
	inProgress = "in_progress"
	completed  = "completed"
)

// list holds the arguments of todo_write (decision D20).
type list struct {
	Todos []entry `json:"todos" jsonschema:"The complete list, which replaces the one before."`
}

type entry struct {
	Content string `json:"content" jsonschema:"What is to be done, in a few words."`
	Status  string `json:"status" jsonschema:"How far it is: pending, in_progress or completed." enum:"pending,in_progress,completed"`
}

// Todo offers the tool todo_write, or TodoWrite.
type Todo struct {
	config Config
	owner  *kernel.Owner
	tools  *tool.Registry
	write  tool.Tool
	// last holds the lists that were written in this process.
	last lists
}

// New makes the tool; register puts it where the agents find it.
func New(p Params) *Todo {
	t := &Todo{config: p.Config, owner: p.Self.Owner, tools: p.Tools, last: lists{agents: p.Agents}}
	spec := tool.Spec{
		Name: "todo_write",
		Description: "Writes down the steps of a task, and how far each one is. Use it for work of three steps or more. " +
			"Each call replaces the whole list. Mark a step in_progress before you begin it and completed as soon as it is done.",
		ReadOnly: true, // the list lives in the session's log and nowhere else
	}
	if p.Config.Dialect == dialect.Claude {
		t.write = t.claude(spec)
		return t
	}
	t.write = tool.Typed(spec, t.call)
	return t
}

func (t *Todo) register() error { return t.tools.Register(t.owner, t.write) }

func (t *Todo) call(_ context.Context, in tool.Invocation, p list) (tool.Result, error) {
	todos := make([]sdkproto.Todo, len(p.Todos))
	for i, e := range p.Todos {
		todos[i] = sdkproto.Todo{Content: e.Content, Status: e.Status}
	}
	return t.replace(in, todos)
}

// replace records a new list.
func (t *Todo) replace(in tool.Invocation, todos []sdkproto.Todo) (tool.Result, error) {
	if err := t.check(todos); err != nil {
		return tool.ErrorResult("ToolArgumentsError", "INVALID_ARGUMENTS", "Error: "+err.Error()), nil
	}
	count := map[string]int{}
	for _, e := range todos {
		count[e.Status]++
	}
	if err := in.Emit(session.Draft{Type: sdkproto.TypeTodoWrite, Data: sdkproto.TodoWrite{Todos: todos}}); err != nil {
		return tool.Result{}, fmt.Errorf("record the to-do list: %w", err)
	}
	return tool.TextResult(fmt.Sprintf("The list now has %d pending, %d in progress, %d completed.",
		count[pending], count[inProgress], count[completed])), nil
}

// check finds what the schema cannot say. Its errors are for the model.
func (t *Todo) check(entries []sdkproto.Todo) error {
	if n := len(entries); n > t.config.MaxItems {
		return fmt.Errorf("the list has %d entries and may have %d; leave out completed ones or join small ones", n, t.config.MaxItems)
	}
	for i, e := range entries {
		switch n := max(utf8.RuneCountInString(e.Content), utf8.RuneCountInString(e.ActiveForm)); {
		case strings.TrimSpace(e.Content) == "":
			return fmt.Errorf("entry %d has no content; say what is to be done", i+1)
		case n > t.config.MaxRunes:
			return fmt.Errorf("entry %d has %d characters and may have %d; shorten it", i+1, n, t.config.MaxRunes)
		}
	}
	return nil
}
