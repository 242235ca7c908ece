package skills

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"dsh/kernel/content"
	"dsh/kernel/settings"
	"dsh/plugins/internal/contextfile"
	"dsh/plugins/internal/frontmatter"
	"dsh/plugins/internal/textfile"
)

// fileName is the file that makes a folder a skill.
const fileName = "SKILL.md"

const (
	// maxName and maxDescription are in characters.
	maxName        = 64
	maxDescription = 1000
)

// skill is one skill of a session.
type skill struct {
	name, description string
	// file is SKILL.md where it was found, real where that leads.
	file, real string
	// plugin is the one that it belongs to, nil for none.
	plugin *content.Plugin
}

// head is what the head of a SKILL.md says.
type head struct {
	name, description string
	err               error
}

// find lists the skills of a working directory by name.
func (s *Skills) find(cwd string) []skill {
	byName := map[string]skill{}
	if s.content != nil {
		for _, p := range s.content.Plugins() {
			for _, dir := range p.Skills {
				s.folder(dir, p.Path, p, byName)
			}
		}
	}
	user, project := s.places(cwd)
	for _, dir := range user {
		s.folder(dir, "", nil, byName)
	}
	root := ""
	for _, dir := range project {
		if slices.Contains(user, dir) {
			continue
		}
		info, err := contextfile.Find(dir)
		if info == nil && err == nil {
			continue
		}
		if root == "" {
			root = contextfile.Root(cwd)
		}
		s.folder(dir, root, nil, byName)
	}
	found := make([]skill, 0, len(byName))
	for _, one := range byName {
		found = append(found, one)
	}
	slices.SortFunc(found, func(a, b skill) int { return strings.Compare(a.name, b.name) })
	return found
}

// folderName is the folder of skills next to a settings file.
const folderName = "skills"

// places gives the folders of the user and of the project, low to high.
func (s *Skills) places(cwd string) (user, project []string) {
	user = s.user
	for _, name := range s.config.ProjectFolders {
		project = append(project, filepath.Join(cwd, name))
	}
	if s.settings == nil || !s.config.BesideSettings {
		return user, project
	}
	return settings.Beside(s.settings.For(cwd), folderName, user, project)
}

// folder adds the skills of a folder, those of names that are taken included.
func (s *Skills) folder(dir, root string, p *content.Plugin, byName map[string]skill) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		s.notices.Warn("a folder of skills is left out", dir, err)
		return
	}
	count := 0
	for _, e := range entries {
		file := filepath.Join(dir, e.Name(), fileName)
		info, err := contextfile.Find(file)
		if info == nil && err == nil {
			continue
		}
		if count++; count > s.config.MaxSkills {
			s.notices.Warn("some skills are left out", dir, fmt.Errorf("a folder may have %d", s.config.MaxSkills))
			return
		}
		real := ""
		if err == nil {
			real, err = contextfile.Inside(root, file)
		}
		if err != nil {
			s.notices.Warn("a skill is left out", file, err)
			continue
		}
		h := s.heads.Get(real, info, func() head { return s.head(real, e.Name()) })
		if h.err != nil {
			s.notices.Warn("a skill is left out", file, h.err)
			continue
		}
		name := h.name
		if p != nil {
			name = p.Qualified(name)
		}
		byName[name] = skill{name, h.description, file, real, p}
	}
}

// load reads a SKILL.md.
func (s *Skills) load(file string) (m frontmatter.Matter, body string, cut bool, err error) {
	text, cut, err := contextfile.Read(file, s.config.MaxBytes)
	if err != nil {
		return m, "", false, err
	}
	m, body, err = frontmatter.Parse(text)
	if err != nil {
		s.notices.Warn("the head of a skill is read line by line", file, err)
	}
	return m, body, cut, nil
}

// head reads name and description; the folder's name and the first line stand in
// for those that are missing.
func (s *Skills) head(file, folder string) head {
	m, body, _, err := s.load(file)
	if err != nil {
		return head{err: err}
	}
	if slices.Contains(m.Keys(), "allowed-tools") {
		s.log.Info("allowed-tools of a skill allows nothing; rules do", "file", file)
	}
	h := head{name: m.Text("name"), description: m.Text("description")}
	if h.name == "" {
		h.name = folder
	}
	if len([]rune(h.name)) > maxName || strings.ContainsFunc(h.name, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || r == '/' }) {
		return head{err: fmt.Errorf("%q is no name of a skill: up to %d characters, no white space and no slash", h.name, maxName)}
	}
	if h.description == "" {
		first, _, _ := strings.Cut(strings.TrimSpace(body), "\n")
		h.description = strings.TrimLeft(first, "# ")
	}
	// A description is one line, so that it cannot pass for another skill.
	h.description, _ = textfile.Cut(strings.Join(strings.Fields(h.description), " "), maxDescription)
	return h
}
