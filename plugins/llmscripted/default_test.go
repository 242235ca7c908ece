package llmscripted

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dsh/kernel/llm"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// turn plays one prompt to its end, as an agent would: it runs calls through
// tools, and tries again after an error that may pass. It gives the calls in
// order, the text of the last answer, and the error the turn ended with.
func turn(t *testing.T, a llm.Adapter, prompt string, tools func(name, arguments string) (text string, failed bool)) (calls []string, text string, failure error) {
	t.Helper()
	var c talk
	c.user(prompt)
	for range 10 {
		var answer []sdkproto.Block
		var kind string
		for range 3 {
			answer, kind, failure = nil, "", nil
			for chunk, err := range a.Stream(context.Background(), c.request()) {
				switch {
				case err != nil:
					failure = err
				case chunk.Type == sdkproto.ChunkBlockEnd:
					answer = append(answer, *chunk.Block)
				case chunk.Type == sdkproto.ChunkFinish:
					kind = chunk.Reason.Kind
				}
			}
			if e, ok := failure.(*llm.Error); !ok || !e.Retryable() {
				break
			}
		}
		if failure != nil {
			return calls, "", failure
		}
		c.assistant(answer...)
		if kind != sdkproto.FinishToolCalls {
			return calls, sdkproto.TextOf(answer), nil
		}
		for _, b := range answer {
			if b.Type == sdkproto.BlockToolCall {
				// Empty arguments mean {} (spec jsonrpc 5.3).
				if b.Arguments != "" && !wirejson.Valid([]byte(b.Arguments)) {
					t.Errorf("the arguments of %s are not JSON: %s", b.Name, b.Arguments)
				}
				calls = append(calls, b.Name+" "+b.Arguments)
				text, failed := tools(b.Name, b.Arguments)
				c.result(b.ID, text, failed)
			}
		}
	}
	t.Fatal("the turn does not end")
	return nil, "", nil
}

func TestDefaultScript(t *testing.T) {
	working := func(name, arguments string) (string, bool) {
		switch name {
		case "glob":
			return "README.md\nmain.go\n", false
		case "read":
			return "# Title\n" + strings.Repeat("line\n", 30), false
		case "bash":
			return "printed by " + arguments, false
		case "todo_write":
			return "noted", false
		}
		return "Error: unknown tool", true
	}
	hidden := func(name, _ string) (string, bool) { return fmt.Sprintf("Error: unknown tool %q\nmore", name), true }
	todo := func(a, b, c string) string {
		return `todo_write {"todos":[{"content":"List the folder","status":"` + a + `"},{"content":"Read the README","status":"` + b +
			`"},{"content":"Say what the folder is about","status":"` + c + `"}]}`
	}
	look := []string{
		todo("in_progress", "in_progress", "pending"), `glob {"pattern":"*"}`, `read {"file_path":"README.md"}`,
		todo("completed", "completed", "completed"),
	}
	for _, tc := range []struct {
		name, prompt string
		tools        func(string, string) (string, bool)
		calls        []string
		says         []string // parts of the last answer
		never        string
		failure      string // code
	}{
		{"look around", "Look around and tell me what this folder is about.", working, look,
			[]string{"The folder holds:\n\nREADME.md\nmain.go\n\nIts README.md begins with:\n\n# Title\nline\n", "line\n...\n\nA real model"}, "could not", ""},
		{"look around without tools", "What is in this project?", hidden, look,
			[]string{"I could not list the folder: Error: unknown tool \"glob\"\n...\n", "I could not read a README.md: Error: unknown tool \"read\"\n"}, "begins with", ""},
		{"run", "run: echo \"hi\"\nls ", working, []string{`bash {"command":"echo \"hi\"\nls"}`},
			[]string{`The command printed:`, `printed by {"command":"echo \"hi\"\nls"}`}, "did not", ""},
		{"run without tools", "run: ls", hidden, []string{`bash {"command":"ls"}`},
			[]string{"The command did not succeed:\n\nError: unknown tool \"bash\""}, "printed", ""},
		{"read", "read a file.txt", working, []string{`read {"file_path":"a file.txt"}`},
			[]string{"a file.txt begins with:\n\n# Title\n"}, "could not", ""},
		{"call", `call grep {"pattern": "x"}`, working, []string{`grep {"pattern": "x"}`},
			[]string{"grep failed:\n\nError: unknown tool"}, "", ""},
		{"call without arguments", `call list`, working, []string{"list "}, []string{"list failed"}, "", ""},
		{"time", "what time is it", func(string, string) (string, bool) { return "12:00 ", false }, []string{"mcp__app__server_time {}"},
			[]string{"Tool said: 12:00 "}, "", ""},
		{"fail", "fail", working, nil, nil, "", llm.CodeInvalidRequest},
		{"retry", "Retry please", working, nil, []string{"The first attempt failed, and the second"}, "", ""},
		{"slow", "slow", working, nil, []string{"takes its time"}, "", ""},
		{"long", "long", working, nil, []string{strings.Repeat("This sentence comes two hundred times, in chunks of one word each. ", 200)}, "", ""},
		{"hello", "hello", working, nil, []string{"I am test-model, played by a script", "turn 1"}, "", ""},
		{"anything", "What is the weather?", working, nil, []string{"You said: What is the weather?\n", "- run: echo hi\n"}, "", ""},
		{"nothing", "", working, nil, []string{"You said: \n"}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, text, failure := turn(t, play(t, ""), tc.prompt, tc.tools)
				if diff := cmp.Diff(tc.calls, calls, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				for _, part := range tc.says {
					if !strings.Contains(text, part) {
						t.Errorf("the answer lacks %q:\n%s", part, text)
					}
				}
				if tc.never != "" && strings.Contains(text, tc.never) {
					t.Errorf("the answer says %q:\n%s", tc.never, text)
				}
				code := ""
				if failure != nil {
					code = llm.Failure(failure).Code
				}
				if code != tc.failure {
					t.Errorf("the turn ends with %v, want %q", failure, tc.failure)
				}
			})
		})
	}
}

// TestServerTime is the answer of the seed's example: the call's id is time-1, and what
// the tool said, here a denial, is repeated (S075).
func TestServerTime(t *testing.T) {
	a := play(t, "")
	var c talk
	c.user("what time is it")
	c.assistant(blocks(t, a, c.request())...)
	want := []sdkproto.Block{{Type: sdkproto.BlockToolCall, ID: "time-1", Name: "mcp__app__server_time", Arguments: "{}"}}
	if diff := cmp.Diff(want, c.messages[1].Content, cmpopts.IgnoreUnexported(sdkproto.Block{})); diff != "" {
		t.Error(diff)
	}
	const denied = "Permission denied: Plan mode: write operations are not allowed"
	c.result("time-1", denied, true)
	if got := sdkproto.TextOf(blocks(t, a, c.request())); got != "Tool said: "+denied {
		t.Errorf("got %q", got)
	}
}

func blocks(t *testing.T, a llm.Adapter, req llm.Request) (all []sdkproto.Block) {
	t.Helper()
	for c, err := range a.Stream(context.Background(), req) {
		switch {
		case err != nil:
			t.Fatal(err)
		case c.Type == sdkproto.ChunkBlockEnd:
			all = append(all, *c.Block)
		}
	}
	return all
}

// TestOffered: a script's tool is found under the name that the profile gives it.
func TestOffered(t *testing.T) {
	for _, tc := range []struct{ name, offers, called string }{
		{"as it is", "bash Bash", "bash"},
		{"capital", "Read Bash", "Bash"},
		{"not offered", "Read", "bash"},
		{"nothing offered", "", "bash"},
		{"longer name", "BashOutput", "bash"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := user("run: ls")
			for n := range strings.FieldsSeq(tc.offers) {
				req.Header.Tools = append(req.Header.Tools, sdkproto.ToolSchema{Name: n})
			}
			all := blocks(t, play(t, ""), req)
			if got := all[len(all)-1].Name; got != tc.called {
				t.Errorf("called %s, want %s", got, tc.called)
			}
		})
	}
	if got := (&facts{tools: []sdkproto.ToolSchema{{Name: "TodoWrite"}}}).offered("todo_write"); got != "TodoWrite" {
		t.Errorf("todo_write is called as %s", got)
	}
}

// TestHelp: everything the fallback of the built-in script proposes is a prompt
// that another rule knows.
func TestHelp(t *testing.T) {
	a := play(t, "")
	const unknown = "I am a script and know only"
	help := spoken(t, a, user("xyzzy"))
	if !strings.Contains(help, unknown) {
		t.Fatalf("no help: %s", help)
	}
	tried := 0
	for line := range strings.Lines(help) {
		prompts, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !ok {
			continue
		}
		all := []string{prompts}
		if strings.HasPrefix(prompts, "slow") {
			all = strings.Split(strings.ReplaceAll(prompts, "or ", ""), ", ")
		}
		for _, prompt := range all {
			tried++
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			for c, err := range a.Stream(ctx, user(prompt)) {
				if err != nil {
					break
				}
				if c.Type == sdkproto.ChunkBlockEnd && strings.Contains(c.Block.Text, unknown) {
					t.Errorf("%q is not known", prompt)
				}
			}
			cancel()
		}
	}
	if tried != 9 {
		t.Errorf("%d prompts are proposed, want 9", tried)
	}
}

// TestExamples: the scripts other tests and users start from can be played.
func TestExamples(t *testing.T) {
	for _, file := range scripts(t, filepath.Join("..", "..", "testdata", "model")) {
		t.Run(name(file), func(t *testing.T) { play(t, file) })
	}
}
