package headless_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/command"
	"dsh/plugins/headless"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// addCommands registers commands that a prompt may name.
func addCommands(t *testing.T, k *kernel.Kernel) {
	t.Helper()
	registry, ok := kernel.Seam[*command.Registry](k)
	if !ok {
		t.Fatal("no commands")
	}
	owner := kernel.NewOwner(context.Background(), "commands")
	t.Cleanup(func() {
		if err := owner.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	text := func(s string) ([]sdkproto.Block, error) { return []sdkproto.Block{sdkproto.Text(s)}, nil }
	for name, expand := range map[string]func(context.Context, command.Invocation) ([]sdkproto.Block, error){
		"say": func(_ context.Context, in command.Invocation) ([]sdkproto.Block, error) {
			if in.SessionID == "" || in.CWD == "" {
				return nil, fmt.Errorf("got %+v", in)
			}
			return text(in.Args)
		},
		"git:fail": func(context.Context, command.Invocation) ([]sdkproto.Block, error) {
			return nil, errors.New("no such branch")
		},
		"empty": func(context.Context, command.Invocation) ([]sdkproto.Block, error) { return nil, nil },
		"panic": func(context.Context, command.Invocation) ([]sdkproto.Block, error) { panic("oh") },
	} {
		if err := registry.Register(owner, command.Command{Name: name, Expand: expand}); err != nil {
			t.Fatal(err)
		}
	}
}

// A prompt that begins with a command is what the command makes of it; the log
// says so (spec jsonrpc 5.6). Any other text is the prompt, slash or not.
func TestCommands(t *testing.T) {
	for name, tc := range map[string]struct {
		prompt, sent, run, done, out, err string
		code                              int
	}{
		"a command":        {"/say  plain \n", "plain", `"name":"say","args":"plain","source":"user"`, `"kind":"prompt","sourceEventSeq":`, "one two\n", "", 0},
		"it fails":         {"/git:fail x", "", `"name":"git:fail","args":"x"`, `"kind":"error","text":"/git:fail: no such branch"}`, "", "dsh: /git:fail: no such branch\n", 1},
		"it gives nothing": {"/empty", "", `"name":"empty","source"`, `"kind":"error"`, "", "/empty gives no prompt", 1},
		"it panics":        {"/panic", "", `"name":"panic"`, `"kind":"error"`, "", "panic: oh", 1},
		"a path":           {"/etc/plain is what?", "/etc/plain is what?", "", "", "one two\n", "", 0},
		"a near miss":      {"/sya plain", "/sya plain", "", "", "one two\n", `no command /sya, so the model gets the prompt as it is; did you mean "/say"?`, 0},
		"not at the start": {"plain /say x", "plain /say x", "", "", "one two\n", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			tr := &trial{Booted: boot(t, home, "")}
			addCommands(t, tr.Kernel)
			tr.begin(t, config(func(c *headless.Config) { c.Session = "s" }), strings.NewReader(tc.prompt), &tr.out)
			code := tr.WaitExit(t)
			if code != tc.code || tr.out.String() != tc.out {
				t.Errorf("code %d, %q, %q", code, tr.out.String(), tr.err.String())
			}
			if tc.err == "" && tr.err.String() != "" || !strings.Contains(tr.err.String(), tc.err) {
				t.Errorf("standard error %q, want %q", tr.err.String(), tc.err)
			}
			lines, _ := stored(t, home, "s")
			found := map[string][]sdkproto.Event{}
			for _, line := range lines {
				var e sdkproto.Event
				if err := wirejson.Unmarshal([]byte(line), &e); err != nil {
					t.Fatal(err)
				}
				found[e.Type] = append(found[e.Type], e)
			}
			for kind, want := range map[string]string{sdkproto.TypeCommandRun: tc.run, sdkproto.TypeCommandDone: tc.done} {
				if got := found[kind]; want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(string(got[0].Data), want)) {
					t.Errorf("%s: got %v, want %s", kind, got, want)
				}
			}
			var sent []string
			for _, e := range found[sdkproto.TypeUserMessage] {
				var m sdkproto.Message
				if err := wirejson.Unmarshal(e.Data, &m); err != nil {
					t.Fatal(err)
				}
				sent = append(sent, sdkproto.TextOf(m.Content))
			}
			if diff := cmp.Diff(strings.Fields(tc.sent), strings.Fields(strings.Join(sent, "\n"))); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
			if len(found[sdkproto.TypeCommandDone]) == 0 {
				return
			}
			var run sdkproto.CommandRun
			var done sdkproto.CommandDone
			if err := errors.Join(wirejson.Unmarshal(found[sdkproto.TypeCommandRun][0].Data, &run), wirejson.Unmarshal(found[sdkproto.TypeCommandDone][0].Data, &done)); err != nil {
				t.Fatal(err)
			}
			if run.CommandID == "" || run.CommandID != done.CommandID {
				t.Errorf("ids %q and %q", run.CommandID, done.CommandID)
			}
			if at := done.SourceEventSeq; at != nil && *at != found[sdkproto.TypeAgentInboxSpliced][0].Seq {
				t.Errorf("the prompt is event %d", *at)
			}
		})
	}
}

// The row finds the commands of the composition.
func TestRowWithCommands(t *testing.T) {
	b := boot(t, "", "  headless: {use: headless}\n", "headless.provider=scripted", "headless.output=json")
	addCommands(t, b.Kernel)
	if _, err := b.In.WriteString("/say plain"); err != nil {
		t.Fatal(err)
	}
	if err := b.In.Close(); err != nil {
		t.Fatal(err)
	}
	if code := b.WaitExit(t); code != 0 {
		t.Errorf("code %d", code)
	}
	line := make([]byte, 4096)
	n, err := b.Out.Read(line)
	if err != nil || !strings.Contains(string(line[:n]), `"result":"one two"`) {
		t.Errorf("%v: %s", err, line[:n])
	}
}
