package skills

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/content"
	"dsh/kernel/profile"
	"dsh/kernel/settings"
	"dsh/kernel/tool"
	"dsh/plugins/internal/contextfile"
	"dsh/plugins/internal/dialect"
	"dsh/plugins/internal/textfile"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

const (
	// Kind and form of the catalogue (spec jsonrpc 6).
	sourceKind = "skill-catalog"
	sourceForm = "catalog"
	// order puts the catalogue behind instructions.
	order = 200
)

// Skills offers a catalogue and the tool that reads from it.
type Skills struct {
	config Config
	owner  *kernel.Owner
	log    *slog.Logger
	hooks  *agent.Hooks
	tools  *tool.Registry
	kinds  *agent.Definitions // nil without
	// settings and content may be nil.
	settings settings.Source
	content  content.Source
	notices  *contextfile.Notices
	heads    contextfile.Cache[head]
	user     []string
	read     tool.Tool
	// toolName is what the tool is called.
	toolName string
}

// request holds the arguments of the tool.
type request struct {
	Name string `json:"name" jsonschema:"The name of the skill, as the catalogue has it."`
	Args string `json:"args,omitzero" jsonschema:"What the skill is to be used on, if it takes something."`
}

// New makes the tool and the catalogue; register puts them where they are found.
func New(p Params) (*Skills, error) {
	s := &Skills{
		config: p.Config, owner: p.Self.Owner, log: p.Self.Log, hooks: p.Hooks, tools: p.Tools, kinds: p.Kinds,
		settings: p.Settings, content: p.Content,
		notices: contextfile.NewNotices(p.Self.Log), toolName: "skill",
	}
	for _, name := range p.Config.UserFolders {
		dir, err := contextfile.Folder(p.Self.Home, name)
		if err != nil {
			return nil, kernel.Invalid("userFolders", "%v", err)
		}
		s.user = append(s.user, dir)
	}
	spec := tool.Spec{
		Name: s.toolName,
		Description: "Gives the text of a skill: instructions for a special task, with the folder that holds its files. " +
			"A message in the conversation lists the skills there are. Read the one that fits a task before you begin with it.",
		ReadOnly: true,
		Parallel: true,
		Subject:  tool.Subject{Rule: "Skill", Kind: tool.SubjectText, Member: "name"},
	}
	if p.Config.Dialect == dialect.Claude {
		s.claude(spec)
		return s, nil
	}
	s.read = tool.Typed(spec, s.call)
	return s, nil
}

// claudeRequest holds the arguments of Skill (spec stream-json 9).
type claudeRequest struct {
	Skill string `json:"skill" jsonschema:"The name of the skill, as the catalogue has it."`
	Args  string `json:"args,omitzero" jsonschema:"What the skill is to be used on, if it takes something."`
}

// claudeLoaded is the structured result of Skill.
type claudeLoaded struct {
	Success     bool   `json:"success"`
	CommandName string `json:"commandName"`
}

// claude makes the tool Skill. It is there without any skill, too (S076); a call
// then says so. The text of the skill is the result, so that one call is one
// answer to the model.
func (s *Skills) claude(spec tool.Spec) {
	s.toolName = "Skill"
	spec.Name, spec.Subject.Member = s.toolName, "skill"
	s.read = tool.Typed(spec, func(ctx context.Context, in tool.Invocation, r claudeRequest) (tool.Result, error) {
		// The name is taken as it stands: rules see no other.
		res, err := s.call(ctx, in, request{Name: r.Skill, Args: r.Args})
		if err != nil || res.IsError {
			return dialect.Bare(res), err
		}
		res.Meta, err = wirejson.Marshal(claudeLoaded{true, r.Skill})
		return res, err
	})
}

func (s *Skills) register() error {
	if s.content != nil {
		if err := s.content.OfferSkills(s.owner, s.list); err != nil {
			return err
		}
	}
	return errors.Join(s.tools.Register(s.owner, s.read), s.hooks.OnContext(s.owner, order, "skills", s.context),
		s.hooks.OnContext(s.owner, order+1, "skills of a kind", s.preload))
}

// list gives the skills of a folder for people.
func (s *Skills) list(cwd string) (list []content.Skill) {
	for _, one := range s.find(cwd) {
		list = append(list, content.Skill{Name: one.name, Description: one.description})
	}
	return list
}

// context gives the catalogue to sessions whose model has the tool.
func (s *Skills) context(_ context.Context, o agent.Opening) ([]sdkproto.Message, error) {
	if !slices.Contains(o.Tools, s.toolName) {
		return nil, nil
	}
	found := s.find(o.CWD)
	if len(found) == 0 {
		return nil, nil
	}
	return []sdkproto.Message{{
		Content: []sdkproto.Block{sdkproto.Text(catalogue(found, s.toolName, s.config.MaxCatalogBytes))},
		Source:  sdkproto.Source{Kind: sourceKind, Plugin: "skills", Form: sourceForm},
		Role:    sdkproto.RoleUser,
	}}, nil
}

// catalogue lists skills, a line each. When there is not room for all of it,
// descriptions are shortened, and then lines left out.
func catalogue(found []skill, toolName string, most int) string {
	intro := "These skills are there. Read one with the tool " + toolName + " when a task is about what its description says.\n"
	lines := func(runes int) (string, bool) {
		var b strings.Builder
		b.WriteString(intro)
		for n, one := range found {
			line := "\n- " + one.name
			if runes > 0 && one.description != "" {
				short, _ := textfile.Cut(one.description, runes)
				line += ": " + short
			}
			const note = 40 // room for the line that says how many are left out
			if b.Len()+len(line) > most-note {
				fmt.Fprintf(&b, "\n(%d more are not listed)", len(found)-n)
				return b.String(), false
			}
			b.WriteString(line)
		}
		return b.String(), true
	}
	var text string
	for _, runes := range []int{maxDescription, 250, 100, 0} {
		whole := false
		if text, whole = lines(runes); whole {
			break
		}
	}
	return text
}

// call gives the text of a skill.
func (s *Skills) call(_ context.Context, in tool.Invocation, r request) (tool.Result, error) {
	found := s.find(in.CWD)
	i := slices.IndexFunc(found, func(one skill) bool { return one.name == r.Name })
	if i < 0 {
		return s.unknown(r.Name, found), nil
	}
	text, err := s.text(found[i])
	if err != nil {
		return tool.ErrorResult("SkillError", "SKILL_FAILED", "Error: "+err.Error()), nil
	}
	if args := strings.TrimSpace(r.Args); args != "" {
		short, _ := contextfile.Cut(args, s.config.MaxBytes/8)
		text += "\n\nIt is to be used on: " + short
	}
	return tool.TextResult(text), nil
}

// text is a skill for the model.
func (s *Skills) text(one skill) (string, error) {
	_, body, cut, err := s.load(one.real)
	if err != nil {
		return "", fmt.Errorf("the skill %s cannot be read: %w", one.name, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The skill %s. Its files are in the folder %s; relative paths in it are meant from there.\n\n", one.name, filepath.Dir(one.file))
	b.WriteString(strings.TrimSpace(one.plugin.Expand(body)))
	if cut {
		fmt.Fprintf(&b, "\n\n[cut here at %d bytes; read the rest in %s]", s.config.MaxBytes, one.file)
	}
	return b.String(), nil
}

func (s *Skills) unknown(name string, found []skill) tool.Result {
	names := make([]string, len(found))
	for i, one := range found {
		names[i] = one.name
	}
	const shown = 50
	known := "there are none"
	if len(names) > 0 {
		known = "there are " + strings.Join(names[:min(len(names), shown)], ", ")
	}
	short, _ := textfile.Cut(name, 100)
	return tool.ErrorResult("SkillNotFoundError", "UNKNOWN_SKILL",
		fmt.Sprintf("Error: there is no skill %q; %s%s", short, known, profile.DidYouMean(short, names)))
}
