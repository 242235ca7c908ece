package tooltodo

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"dsh/kernel/agent"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/internal/dialect"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// claudeList holds the arguments of TodoWrite (spec stream-json 9).
type claudeList struct {
	Todos []claudeEntry `json:"todos" jsonschema:"The complete list, which replaces the one before."`
}

type claudeEntry struct {
	Content    string `json:"content" jsonschema:"What is to be done, in a few words: Run the tests."`
	Status     string `json:"status" jsonschema:"How far it is: pending, in_progress or completed." enum:"pending,in_progress,completed"`
	ActiveForm string `json:"activeForm" jsonschema:"The same as something that is being done: Running the tests."`
}

// claudeResult is the structured result.
type claudeResult struct {
	OldTodos []claudeEntry `json:"oldTodos"`
	NewTodos []claudeEntry `json:"newTodos"`
}

func (t *Todo) claude(spec tool.Spec) tool.Tool {
	spec.Name = "TodoWrite"
	return tool.Typed(spec, func(ctx context.Context, in tool.Invocation, p claudeList) (tool.Result, error) {
		todos := make([]sdkproto.Todo, len(p.Todos))
		for i, e := range p.Todos {
			todos[i] = sdkproto.Todo(e)
		}
		before, err := t.last.before(ctx, in.SessionID)
		if err != nil {
			return tool.Result{}, err
		}
		res, err := t.replace(in, todos)
		if err != nil || res.IsError {
			return dialect.Bare(res), err
		}
		t.last.put(in.SessionID, todos)
		res.Meta, err = wirejson.Marshal(claudeResult{entries(before), p.Todos})
		return res, err
	})
}

func entries(todos []sdkproto.Todo) []claudeEntry {
	out := make([]claudeEntry, len(todos))
	for i, e := range todos {
		out[i] = claudeEntry(e)
	}
	return out
}

// lists remembers the list of each live session.
type lists struct {
	agents agent.Registry

	mu sync.Mutex
	of map[string][]sdkproto.Todo
}

// before gives the list of a session. That of one that was resumed is in its
// log.
func (l *lists) before(ctx context.Context, id string) ([]sdkproto.Todo, error) {
	l.mu.Lock()
	todos, ok := l.of[id]
	l.mu.Unlock()
	if ok || l.agents == nil {
		return todos, nil
	}
	err := l.agents.Events(ctx, id, 0, func(r *session.Record) error {
		if r.Event.Type != sdkproto.TypeTodoWrite {
			return nil
		}
		w, err := session.Decode[sdkproto.TodoWrite](r)
		todos = w.Todos
		return err
	})
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		return nil, fmt.Errorf("read the to-do list of session %s: %w", id, err)
	}
	return todos, nil
}

// put remembers a list for as long as the session is live; without a live session
// there is nothing to remember it for.
func (l *lists) put(id string, todos []sdkproto.Todo) {
	if l.agents == nil {
		return
	}
	a, ok := l.agents.Get(id)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.of[id]
	if l.of == nil {
		l.of = map[string][]sdkproto.Todo{}
	}
	l.of[id] = todos
	if known {
		return
	}
	context.AfterFunc(a.Life(), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.of, id)
	})
}
