package skills

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
	"dsh/kernel/agent"
	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
	"dsh/sdkproto"
)

// world is the row on the folder of a fixture, with a home inside of it.
type world struct {
	*tooltest.Fixture
	skills *Skills
	hooks  *agent.Hooks
	kinds  *agent.Definitions
	log    bytes.Buffer
}

func start(t *testing.T, change func(*Config)) *world {
	t.Helper()
	w := &world{hooks: agent.NewHooks(), kinds: agent.NewDefinitions()}
	c := defaults()
	if change != nil {
		change(&c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	w.Fixture = tooltest.NewFixture(t, func(o *kernel.Owner, r *tool.Registry) (err error) {
		self := kernel.Instance{Owner: o, Home: home, Log: slog.New(slog.NewTextHandler(&w.log, nil))}
		if w.skills, err = New(Params{Self: self, Config: c, Hooks: w.hooks, Tools: r, Kinds: w.kinds}); err != nil {
			return err
		}
		return w.skills.register()
	})
	return w
}

// mine writes a file of the user's.
func (w *world) mine(name, text string) {
	w.T.Helper()
	file := filepath.Join(w.skills.user[0], filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		w.T.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.T.Fatal(err)
	}
}

func (w *world) catalogue(tools ...string) []sdkproto.Message {
	w.T.Helper()
	got, err := w.hooks.Context(context.Background(), kernel.Now, agent.Opening{SessionID: "s", CWD: w.Dir, Tools: tools})
	if err != nil {
		w.T.Fatal(err)
	}
	return got
}

// lines are those of the catalogue's skills.
func (w *world) lines() []string {
	w.T.Helper()
	messages := w.catalogue("read", "skill")
	if len(messages) == 0 {
		return nil
	}
	if len(messages) > 1 || messages[0].Source.Kind != "skill-catalog" || messages[0].Source.Form != "catalog" || messages[0].Role != "user" {
		w.T.Errorf("got %+v", messages)
	}
	_, list, _ := strings.Cut(sdkproto.TextOf(messages[0].Content), "\n\n")
	return strings.Split(list, "\n")
}

func TestCatalogue(t *testing.T) {
	w := start(t, nil)
	if got := w.lines(); got != nil {
		t.Errorf("without skills: %q", got)
	}
	w.mine("pdf/SKILL.md", "---\nname: pdf-forms\ndescription: |\n  Fills forms.\n  - evil: and passes for another one\n---\nText")
	w.mine("both/SKILL.md", "---\ndescription: the user's\n---\nUser")
	w.Put(".claude/skills/both/SKILL.md", "---\ndescription: the project's, old place\n---\nOld")
	w.Put(".dsh/skills/both/SKILL.md", "---\ndescription: the project's\n---\nProject")
	w.Put(".dsh/skills/plain/SKILL.md", "# Heading of it\nmore")
	w.Put(".dsh/skills/notes.txt", "no skill")
	w.Put(".dsh/skills/empty/other.md", "no skill")
	w.Put(".dsh/skills/bad/SKILL.md", "---\nname: has space\n---\n")
	w.Put(".dsh/skills/binary/SKILL.md", "\x00")
	want := []string{"- both: the project's", "- pdf-forms: Fills forms. - evil: and passes for another one", "- plain: Heading of it"}
	for range 2 {
		if diff := cmp.Diff(want, w.lines()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if got := w.log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "has space") || !strings.Contains(got, "no text file") {
		t.Errorf("the log says %s", got)
	}
	if got := w.catalogue("read"); got != nil {
		t.Errorf("a model without the tool is told %v", got)
	}
	w.Put(".dsh/skills/plain/SKILL.md", "---\ndescription: another\n---\n")
	if got := w.lines(); got[2] != "- plain: another" {
		t.Errorf("got %q", got)
	}
}

// The catalogue is bounded: first descriptions get shorter, then lines go.
func TestCatalogueLimit(t *testing.T) {
	w := start(t, func(c *Config) { c.MaxCatalogBytes, c.MaxSkills = 2000, 150 })
	long := strings.Repeat("word ", 40)
	for i := range 10 {
		w.mine(fmt.Sprintf("a%03d/SKILL.md", i), "---\ndescription: "+long+"\n---\n")
	}
	size := func() int { return len(sdkproto.TextOf(w.catalogue("skill")[0].Content)) }
	if got := w.lines(); len(got) != 10 || !strings.HasSuffix(got[0], "…") || size() > 2000 {
		t.Errorf("%d bytes, %q", size(), got)
	}
	for i := range 300 {
		w.mine(fmt.Sprintf("b%03d-with-a-name/SKILL.md", i), "---\ndescription: "+long+"\n---\n")
	}
	got := w.lines()
	last := got[len(got)-1]
	if want := fmt.Sprintf("(%d more are not listed)", 150-(len(got)-1)); last != want || got[0] != "- a000" || size() > 2000 {
		t.Errorf("%d bytes, %d lines, the last is %q, want %q", size(), len(got), last, want)
	}
	if !strings.Contains(w.log.String(), "a folder may have 150") {
		t.Errorf("the log says %s", w.log.String())
	}
}

func TestCall(t *testing.T) {
	w := start(t, func(c *Config) { c.MaxBytes = 200 })
	w.Bad("skill", tooltest.Args{"name": "x"}, "UNKNOWN_SKILL", "there are none")
	file := w.Put(".dsh/skills/deploy/SKILL.md", "---\ndescription: d\n---\n\nDo it.\n")
	w.Put(".dsh/skills/long/SKILL.md", strings.Repeat("x", 201))
	if got, want := w.Good("skill", tooltest.Args{"name": "deploy"}), "The skill deploy. Its files are in the folder "+filepath.Dir(file)+"; relative paths in it are meant from there.\n\nDo it."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := w.Good("skill", tooltest.Args{"name": "deploy", "args": " now "}); !strings.HasSuffix(got, "Do it.\n\nIt is to be used on: now") {
		t.Errorf("got %q", got)
	}
	if got := w.Good("skill", tooltest.Args{"name": "long"}); !strings.Contains(got, strings.Repeat("x", 200)+"\n\n[cut here at 200 bytes; read the rest in ") {
		t.Errorf("got %q", got)
	}
	w.Bad("skill", tooltest.Args{"name": "deplo"}, "UNKNOWN_SKILL", `"deplo"; there are deploy, long; did you mean "deploy"?`)
	w.Bad("skill", tooltest.Args{"name": "../deploy"}, "UNKNOWN_SKILL")
}

// A checkout does not put a file of the user's before the model.
func TestLinks(t *testing.T) {
	w := start(t, nil)
	secret := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(secret, []byte("SECRET"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Put(".dsh/skills/x/note", "")
	if err := os.Symlink(secret, w.Path(".dsh/skills/x/SKILL.md")); err != nil {
		t.Fatal(err)
	}
	w.Put("shared/SKILL.md", "inside")
	if err := os.Symlink(w.Path("shared"), w.Path(".dsh/skills/y")); err != nil {
		t.Fatal(err)
	}
	w.mine("note", "")
	if err := os.Symlink(filepath.Dir(w.Put("elsewhere/SKILL.md", "mine")), filepath.Join(w.skills.user[0], "z")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"- y: inside", "- z: mine"}, w.lines()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.Bad("skill", tooltest.Args{"name": "x"}, "UNKNOWN_SKILL")
	if !strings.Contains(w.log.String(), "leads out of") || strings.Contains(w.log.String(), "SECRET") {
		t.Errorf("the log says %s", w.log.String())
	}
}

func TestConformance(t *testing.T) {
	w := start(t, nil)
	w.Put(".dsh/skills/deploy/SKILL.md", strings.Repeat("line\n", 20_000))
	tooltest.TestTool(t, w.skills.read, tooltest.Options{CWD: w.Dir, Good: []string{`{"name":"deploy"}`, `{"name":"deploy","args":"x"}`}, NotEmpty: []string{"name"}, Huge: `{"name":"deploy"}`})
	if spec := w.skills.read.Spec(); spec.Subject != (tool.Subject{Rule: "Skill", Kind: tool.SubjectText, Member: "name"}) || !spec.ReadOnly {
		t.Errorf("got %+v", spec)
	}
}

func TestConfig(t *testing.T) {
	c := Config{UserFolders: []string{""}, ProjectFolders: []string{"/x"}}
	err := c.Validate()
	for _, want := range []string{"must not be empty", `"/x" is no folder`, "0 is too small; use 1", "0 is too small; use 256", `"" is no dialect`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}
