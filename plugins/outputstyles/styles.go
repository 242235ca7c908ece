package outputstyles

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"dsh/kernel"
	"dsh/kernel/content"
	"dsh/kernel/profile"
	"dsh/kernel/prompt"
	"dsh/kernel/settings"
	"dsh/plugins/internal/contextfile"
	"dsh/plugins/internal/frontmatter"
	"dsh/plugins/internal/textfile"
)

const (
	// folderName is the folder of styles in a folder of settings.
	folderName = "output-styles"
	// setting is the key that names the style, standard the name of none.
	setting  = "outputStyle"
	standard = "default"
	// maxName and maxDescription are in characters.
	maxName        = 64
	maxDescription = 500
)

// Styles finds output styles and is a section of the system prompt.
type Styles struct {
	with    Params
	notices *contextfile.Notices
	files   contextfile.Cache[parsed]
	user    []string
}

var _ content.Styles = (*Styles)(nil)

// style is one that was found.
type style struct {
	content.Style
	text string
}

// parsed is what a file says.
type parsed struct {
	style
	err error
}

// New makes the section; register adds it to the prompt.
func New(p Params) (*Styles, error) {
	s := &Styles{with: p, notices: contextfile.NewNotices(p.Self.Log)}
	for _, name := range p.Config.UserFolders {
		dir, err := contextfile.Folder(p.Self.Home, name)
		if err != nil {
			return nil, kernel.Invalid("userFolders", "%v", err)
		}
		s.user = append(s.user, dir)
	}
	return s, nil
}

func (s *Styles) register() error {
	return s.with.Sections.Register(s.with.Self.Owner, "output style", s.section)
}

// section gives the style that the settings of the session's folder name.
func (s *Styles) section(f prompt.Facts) string {
	name := settings.Text(s.with.Settings.For(f.CWD), setting)
	if name == "" || name == standard {
		return ""
	}
	all := s.find(f.CWD)
	at := slices.IndexFunc(all, func(x style) bool { return x.Name == name })
	if at < 0 {
		names := make([]string, len(all))
		for i, x := range all {
			names[i] = x.Name
		}
		s.notices.Warn("the output style of the settings is left out", name,
			fmt.Errorf("there is no such style%s; a file %s/%s.md beside the settings makes one", profile.DidYouMean(name, names), folderName, name))
		return ""
	}
	return all[at].text
}

// List implements content.Styles.
func (s *Styles) List(cwd string) (list []content.Style) {
	for _, x := range s.find(cwd) {
		list = append(list, x.Style)
	}
	return list
}

// find lists the styles of a working directory by name. Files are read anew when
// they have changed.
func (s *Styles) find(cwd string) []style {
	byName := map[string]style{}
	folder := func(path, root string, p *content.Plugin) {
		for _, file := range contextfile.Markdown(path, root, s.with.Config.MaxStyles, s.leave) {
			read := s.files.Get(file.Real, file.Info, func() parsed { return s.read(file) })
			if read.err != nil {
				s.leave(file.Path, read.err)
				continue
			}
			x := read.style
			if p != nil {
				x.Name, x.text = p.Qualified(x.Name), p.Expand(x.text)
			}
			byName[x.Name] = x
		}
	}
	if s.with.Content != nil {
		for _, p := range s.with.Content.Plugins() {
			for _, path := range p.Styles {
				folder(path, p.Path, p)
			}
		}
	}
	layers := s.with.Settings.For(cwd)
	if settings.Reads(layers, settings.ScopeUser) {
		for _, dir := range s.user {
			folder(dir, "", nil)
		}
	}
	for _, f := range settings.Folders(layers) {
		root := ""
		if f.Scope == settings.ScopeProject {
			root = contextfile.Root(cwd)
		}
		folder(filepath.Join(f.Dir, folderName), root, nil)
	}
	list := make([]style, 0, len(byName))
	for _, x := range byName {
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b style) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func (s *Styles) leave(file string, err error) {
	s.notices.Warn("an output style is left out", file, err)
}

func (s *Styles) read(file contextfile.File) parsed {
	text, cut, err := contextfile.Read(file.Real, s.with.Config.MaxBytes)
	if err == nil && cut {
		err = fmt.Errorf("it is longer than %d bytes", s.with.Config.MaxBytes)
	}
	if err != nil {
		return parsed{err: err}
	}
	m, body, err := frontmatter.Parse(text)
	if err != nil {
		s.with.Self.Log.Info("the head of an output style is read line by line", "file", file.Path, "error", err)
	}
	x := style{text: strings.TrimSpace(body)}
	x.Name = m.Text("name")
	if x.Name == "" {
		x.Name = file.Stem
	}
	x.Description, _ = textfile.Cut(strings.Join(strings.Fields(m.Text("description")), " "), maxDescription)
	switch n := len([]rune(x.Name)); {
	case n > maxName || strings.ContainsAny(x.Name, "/:\n") || x.Name == standard:
		return parsed{err: fmt.Errorf("%q is no name of a style: up to %d characters, no slash and no colon, and not %s", x.Name, maxName, standard)}
	case x.text == "":
		return parsed{err: errors.New("it holds no text")}
	}
	return parsed{style: x}
}
