package tooltodo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// start gives a registry with the tool in it, as a row with this config would.
func start(t *testing.T, c Config) *tool.Registry {
	t.Helper()
	owner := kernel.NewOwner(context.Background(), "test")
	t.Cleanup(func() {
		if err := owner.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	tools := tool.NewRegistry()
	todo := New(Params{Self: kernel.Instance{Owner: owner}, Config: c, Tools: tools})
	if err := todo.register(); err != nil {
		t.Fatal(err)
	}
	return tools
}

// call calls the tool the way the agent loop does.
func call(tools *tool.Registry, arguments string, emit func(...session.Draft) error) tool.Result {
	return tool.NewPipeline().Call(context.Background(), tools.View(nil), "todo_write", arguments, tool.Invocation{Emit: emit})
}

func TestWrite(t *testing.T) {
	for _, tc := range []struct{ name, arguments, event, text string }{
		{"every status",
			`{"todos":[{"content":"a","status":"completed"},{"content":"b","status":"in_progress"},{"content":"c","status":"pending"},{"content":"c","status":"pending"}]}`,
			`{"todos":[{"content":"a","status":"completed"},{"content":"b","status":"in_progress"},{"content":"c","status":"pending"},{"content":"c","status":"pending"}]}`,
			"The list now has 2 pending, 1 in progress, 1 completed."},
		{"empty list", `{"todos":[]}`, `{"todos":[]}`, "The list now has 0 pending, 0 in progress, 0 completed."},
		{"as long as allowed", `{"todos":[{"content":"ééééé","status":"pending"}]}`,
			`{"todos":[{"content":"ééééé","status":"pending"}]}`, "The list now has 1 pending, 0 in progress, 0 completed."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var events []string
			got := call(start(t, Config{MaxItems: 4, MaxRunes: 5}), tc.arguments, func(drafts ...session.Draft) error {
				for _, d := range drafts {
					data, err := wirejson.Marshal(d.Data)
					if err != nil {
						return err
					}
					events = append(events, d.Type+" "+string(data))
				}
				return nil
			})
			if diff := cmp.Diff([]string{"todo/write " + tc.event}, events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if text := sdkproto.TextOf(got.Content); text != tc.text || got.IsError {
				t.Errorf("got %q (error: %v), want %q", text, got.IsError, tc.text)
			}
		})
	}
}

// TestRefused: what is wrong is told to the model, and nothing is recorded.
func TestRefused(t *testing.T) {
	entries := func(n int) string {
		return `{"todos":[` + strings.TrimSuffix(strings.Repeat(`{"content":"a","status":"pending"},`, n), ",") + `]}`
	}
	for _, tc := range []struct {
		name, arguments string
		says            []string
	}{
		{"no list", `{}`, []string{"todos"}},
		{"null", `{"todos":null}`, []string{"/todos"}},
		{"unknown status", `{"todos":[{"content":"a","status":"done"}]}`, []string{"pending", "in_progress", "completed"}},
		{"no status", `{"todos":[{"content":"a"}]}`, []string{"/todos/0", "status"}},
		{"unknown member", `{"todos":[{"content":"a","status":"pending","id":1}]}`, []string{"id"}},
		{"blank", `{"todos":[{"content":"a","status":"pending"},{"content":" \n","status":"pending"}]}`, []string{"entry 2 has no content"}},
		{"too long", `{"todos":[{"content":"éééééé","status":"pending"}]}`, []string{"entry 1 has 6 characters and may have 5"}},
		{"too many", entries(5), []string{"the list has 5 entries and may have 4"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := call(start(t, Config{MaxItems: 4, MaxRunes: 5}), tc.arguments, func(...session.Draft) error {
				t.Error("something is recorded")
				return nil
			})
			if !got.IsError || got.Error == nil || got.Error.Code != "INVALID_ARGUMENTS" {
				t.Errorf("error %v %+v, want INVALID_ARGUMENTS", got.IsError, got.Error)
			}
			for _, part := range tc.says {
				if text := sdkproto.TextOf(got.Content); !strings.Contains(text, part) {
					t.Errorf("%q lacks %q", text, part)
				}
			}
		})
	}
}

func TestEmitFails(t *testing.T) {
	got := call(start(t, defaults()), `{"todos":[]}`, func(...session.Draft) error { return errors.New("disk full") })
	if text := sdkproto.TextOf(got.Content); !got.IsError || !strings.Contains(text, "disk full") {
		t.Errorf("got %q (error: %v)", text, got.IsError)
	}
}

// TestSpec: the log is where the list lives, so a call needs no barrier (decision
// D3); the order of two calls matters, so they do not run side by side.
func TestSpec(t *testing.T) {
	todo, ok := start(t, defaults()).View(nil).Lookup("todo_write")
	if !ok {
		t.Fatal("the tool is not registered")
	}
	spec := todo.Spec()
	if !spec.ReadOnly || spec.Parallel || spec.Destructive || spec.Description == "" {
		t.Errorf("spec %+v", spec)
	}
}

func TestConfig(t *testing.T) {
	for _, tc := range []struct {
		name   string
		config Config
		wrong  []string
	}{
		{"defaults", defaults(), nil},
		{"least", Config{"dsh", 1, 1}, nil},
		{"all wrong", Config{"x", 0, -1}, []string{`"x" is no dialect; use dsh or claude`, "0 is too small; use 1 or more", "-1 is too small; use 1 or more"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			if err := tc.config.Validate(); err != nil {
				got = strings.Split(fmt.Sprint(err), "\n")
			}
			if diff := cmp.Diff(tc.wrong, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
