package commands

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/command"
	"dsh/sdkproto"
)

// world is a folder with a home and a workspace.
type world struct {
	t        *testing.T
	root     string
	owner    *kernel.Owner
	registry *command.Registry
	log      bytes.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, root: root, owner: kernel.NewOwner(context.Background(), "test"), registry: command.NewRegistry()}
	t.Cleanup(func() {
		if err := w.owner.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	w.put("ws/x", "")
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.root, filepath.FromSlash(name)) }

func (w *world) put(name, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) load(change func(*Config)) {
	w.t.Helper()
	c := defaults()
	if change != nil {
		change(&c)
	}
	log := slog.New(slog.NewTextHandler(&w.log, nil))
	made := New(Params{Self: kernel.Instance{Owner: w.owner, Home: w.path("home"), Log: log}, Config: c, Registry: w.registry})
	if err := made.load(context.Background(), w.path("ws")); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) list() []string {
	all := []string{}
	for _, c := range w.registry.List() {
		all = append(all, fmt.Sprintf("%s [%s] %s", c.Name, c.ArgumentHint, c.Description))
	}
	return all
}

func (w *world) expand(text string) (string, error) {
	w.t.Helper()
	c, args, ok := w.registry.Parse(text)
	if !ok {
		w.t.Fatalf("%s is no command", text)
	}
	blocks, err := c.Expand(context.Background(), command.Invocation{SessionID: "s", CWD: w.path("ws"), Args: args})
	return sdkproto.TextOf(blocks), err
}

func TestFiles(t *testing.T) {
	w := newWorld(t)
	w.put("home/commands/review.md", "---\ndescription: the user's\n---\nUser")
	w.put("home/commands/mine.md", "Mine $ARGUMENTS")
	w.put("ws/.claude/commands/git/commit.md", "---\ndescription: Commits\nargument-hint: \"[message]\"\n---\nCommit with !`git status` and @file: $ARGUMENTS")
	w.put("ws/.dsh/commands/review.md", "---\ndescription: >\n  The\n  project's\n---\nProject")
	w.put("ws/.dsh/commands/readme.txt", "no")
	w.put("ws/.dsh/commands/.hidden.md", "no")
	w.put("ws/.dsh/commands/.git/x.md", "no")
	w.put("ws/.dsh/commands/has space.md", "no")
	w.put("ws/.dsh/commands/binary.md", "\x00")
	w.put("ws/.dsh/commands/1/2/3/4/5/deep.md", "deep")
	w.put("ws/.dsh/commands/1/2/3/4/5/6/deeper.md", "no")
	w.load(nil)
	if diff := cmp.Diff([]string{
		"1:2:3:4:5:deep [] deep", "git:commit [[message]] Commits", "mine [] Mine $ARGUMENTS", "review [] The project's",
	}, w.list()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := w.log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "has space") || !strings.Contains(got, "no text file") {
		t.Errorf("the log says %s", got)
	}
	// Nothing of a text is run or looked up.
	if got, err := w.expand("/git:commit a b"); got != "Commit with !`git status` and @file: a b" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	w.put("ws/.dsh/commands/review.md", "Changed")
	if got, err := w.expand("/review"); got != "Changed" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	w.put("ws/.dsh/commands/review.md", "---\ndescription: x\n---\n")
	if _, err := w.expand("/review"); err == nil || !strings.Contains(err.Error(), "holds no text") {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(w.path("ws/.dsh/commands/review.md")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.expand("/review"); err == nil || !strings.Contains(err.Error(), "review.md") {
		t.Errorf("got %v", err)
	}
	if err := w.owner.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := w.list(); len(got) > 0 {
		t.Errorf("left behind: %q", got)
	}
}

func TestBounds(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.put(fmt.Sprintf("home/commands/c%d.md", i), "x")
	}
	w.put("ws/.dsh/commands/long.md", strings.Repeat("x", 11))
	w.put("secret", "key")
	w.put("ws/.claude/commands/x.txt", "")
	for target, name := range map[string]string{"secret": "ws/.claude/commands/out.md", "ws/.dsh/commands/fine.md": "ws/.claude/commands/in.md"} {
		if err := os.Symlink(w.path(target), w.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	w.put("ws/.dsh/commands/fine.md", "fine")
	if err := w.registry.Register(w.owner, command.Command{Name: "c1"}); err != nil {
		t.Fatal(err)
	}
	w.load(func(c *Config) { c.MaxCommands, c.MaxBytes = 3, 10 })
	var names []string
	for _, c := range w.registry.List() {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"c1", "c0", "c2", "fine", "in"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, want := range []string{"a folder may have 3 commands", "longer than 10 bytes", "leads out of", "the name is taken"} {
		if !strings.Contains(w.log.String(), want) {
			t.Errorf("%q is not in\n%s", want, w.log.String())
		}
	}
}

// A folder of commands that is a link out of the workspace is not read.
func TestFolderLeadsOut(t *testing.T) {
	w := newWorld(t)
	w.put("other/x.md", "x")
	w.put("ws/.dsh/x", "")
	if err := os.Symlink(w.path("other"), w.path("ws/.dsh/commands")); err != nil {
		t.Fatal(err)
	}
	w.load(nil)
	if got := w.list(); len(got) > 0 || !strings.Contains(w.log.String(), "leads out of") {
		t.Errorf("got %q, the log says %s", got, w.log.String())
	}
}

func TestExpand(t *testing.T) {
	for _, tc := range []struct{ text, args, want string }{
		{"no place", "", "no place"},
		{"no place", "a b", "no place\n\nArguments: a b"},
		{"all: $ARGUMENTS.", ` a  "b c" `, `all:  a  "b c" .`},
		{"all: $ARGUMENTS", "", "all: "},
		{"$1-$2-$3", `one "two words"`, "one-two words-"},
		{"$1", `'' x`, ""},
		{"$2 $10 $0 $x $", "a b", "b $10 $0 $x $"},
		{"$1 $ARGUMENTS", "$2 $ARGUMENTS", "$2 $2 $ARGUMENTS"},
		{"$1", `it's`, "its"},
	} {
		if got := expand(tc.text, tc.args); got != tc.want {
			t.Errorf("%q with %q: got %q, want %q", tc.text, tc.args, got, tc.want)
		}
	}
}

func TestConfig(t *testing.T) {
	c := Config{UserFolders: []string{""}, ProjectFolders: []string{".."}}
	err := c.Validate()
	for _, want := range []string{"must not be empty", `".." is no folder`, "/maxCommands", "/maxBytes"} {
		if err == nil {
			t.Fatal("it is valid")
		}
		var all []string
		for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
			if f, ok := e.(*kernel.FieldError); ok {
				all = append(all, f.Pointer+" "+f.Msg)
			}
		}
		if !strings.Contains(strings.Join(all, "\n"), want) {
			t.Errorf("%q lacks %s", all, want)
		}
	}
}
