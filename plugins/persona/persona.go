package persona

import (
	"fmt"
	"log/slog"
	"strings"
	"text/template"

	"dsh/kernel"
	"dsh/kernel/prompt"
)

// Persona is one section of the system prompt.
type Persona struct {
	text     *template.Template
	owner    *kernel.Owner
	log      *slog.Logger
	sections *prompt.Sections
}

// words are what the template may name.
type words struct {
	Model, CWD string
}

// New makes the section; register adds it to the prompt.
func New(p Params) (*Persona, error) {
	t, err := parse(p.Config.Text)
	if err != nil {
		return nil, fmt.Errorf("persona: %w", err)
	}
	return &Persona{t, p.Self.Owner, p.Self.Log, p.Sections}, nil
}

func (p *Persona) register() error { return p.sections.Register(p.owner, "persona", p.section) }

// section depends on nothing but the facts, so that the prompt stays what it was
// when a session is resumed (spec jsonrpc 10.7).
func (p *Persona) section(f prompt.Facts) string {
	var b strings.Builder
	if err := p.text.Execute(&b, words{Model: f.Model, CWD: f.CWD}); err != nil {
		p.log.Error("the persona is left out of the system prompt", "error", err)
		return ""
	}
	return b.String()
}

func parse(text string) (*template.Template, error) { return template.New("text").Parse(text) }
