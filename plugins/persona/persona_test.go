package persona

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"dsh/kernel"
	"dsh/kernel/prompt"
)

var facts = prompt.Facts{
	SessionID: "session-77", CWD: "/srv/place", Provider: "provider-x", Model: "model-y", Tools: []string{"tool_z"},
}

// system gives the whole system prompt of a composition whose only row is this
// one, and what it is once the row has gone.
func system(t *testing.T, c Config) (with, without string) {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	owner := kernel.NewOwner(context.Background(), "test")
	sections := prompt.NewSections()
	p, err := New(Params{
		Self:   kernel.Instance{Owner: owner, Log: slog.New(slog.DiscardHandler)},
		Config: c, Sections: sections,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.register(); err != nil {
		t.Fatal(err)
	}
	if pending := owner.Pending(); len(pending) != 1 {
		t.Errorf("the row registered %v, want one section", pending)
	}
	with = sections.System(facts)
	if again := sections.System(facts); again != with {
		t.Errorf("the same facts give %q and %q", with, again)
	}
	if err := owner.Close(context.Background()); err != nil {
		t.Error(err)
	}
	return with, sections.System(facts)
}

// TestDefault: one sentence with model and folder (decision D17), and no words
// of the protocol (S136).
func TestDefault(t *testing.T) {
	with, without := system(t, defaults())
	for _, part := range []string{facts.Model, facts.CWD} {
		if strings.Count(with, part) != 1 {
			t.Errorf("%q does not have %q once", with, part)
		}
	}
	if !strings.HasSuffix(with, ".") || strings.Count(with, ".") != 1 || strings.Contains(with, "\n") {
		t.Errorf("%q is not one sentence", with)
	}
	for _, part := range []string{facts.SessionID, facts.Provider, facts.Tools[0], "session", "JSON", "status", "SDK"} {
		if strings.Contains(with, part) {
			t.Errorf("%q speaks of %q", with, part)
		}
	}
	if without != "" {
		t.Errorf("after the row has gone the prompt is %q", without)
	}
}

func TestText(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"plain", "Be brief.", "Be brief."},
		{"both", "{{.Model}} in {{.CWD}}", "model-y in /srv/place"},
		{"nothing is escaped", "<{{.CWD}}> & co", "</srv/place> & co"},
		{"empty", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, _ := system(t, Config{Text: tc.text}); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"unknown word", "{{.Date}}", "Date"},
		{"unknown function", "{{now}}", "now"},
		{"not closed", "{{.Model", "unclosed action"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := (&Config{Text: tc.text}).Validate()
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "{{.Model}} and {{.CWD}}") {
				t.Errorf("got %v", err)
			}
		})
	}
}
