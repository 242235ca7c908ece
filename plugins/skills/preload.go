package skills

import (
	"context"
	"errors"
	"slices"
	"strings"

	"dsh/kernel/agent"
	"dsh/plugins/internal/textfile"
	"dsh/sdkproto"
)

// preload gives an agent the text of the skills that its kind names, as one message
// in front of the first prompt. A name that no skill has is left out: a definition is
// often written for more than one place.
func (s *Skills) preload(_ context.Context, o agent.Opening) ([]sdkproto.Message, error) {
	if o.Type == "" || s.kinds == nil {
		return nil, nil
	}
	kind, ok := s.kinds.Lookup(o.Type)
	if !ok || len(kind.Skills) == 0 {
		return nil, nil
	}
	found := s.find(o.CWD)
	var texts []string
	for _, name := range kind.Skills {
		i := slices.IndexFunc(found, func(one skill) bool { return one.name == name })
		if plugin, _, ok := strings.Cut(kind.Name, ":"); ok && i < 0 { // a plugin's agent means its plugin's skill
			i = slices.IndexFunc(found, func(one skill) bool { return one.plugin != nil && one.name == plugin+":"+name })
		}
		if i < 0 {
			s.notices.Warn("a skill of a kind of agents is left out", kind.Name+": "+clip(name), errors.New("there is no such skill"))
			continue
		}
		text, err := s.text(found[i])
		if err != nil {
			s.notices.Warn("a skill of a kind of agents is left out", kind.Name+": "+clip(name), err)
			continue
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return nil, nil
	}
	return []sdkproto.Message{{
		Content: []sdkproto.Block{sdkproto.Text(strings.Join(texts, "\n\n"))},
		Source:  sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: "skills", Form: "instructions"},
		Role:    sdkproto.RoleUser,
	}}, nil
}

// clip shortens a name that a client wrote.
func clip(name string) string {
	short, _ := textfile.Cut(name, maxName)
	return short
}
