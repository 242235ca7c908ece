package instructions

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/settings"
	"dsh/plugins/internal/contextfile"
	"dsh/sdkproto"
)

// Kind and form of the messages (spec jsonrpc 6).
const (
	sourceKind = "agent-instructions"
	sourceForm = "instructions"
)

// order puts instructions in front of other context.
const order = 100

// Instructions is a source of context.
type Instructions struct {
	config  Config
	owner   *kernel.Owner
	hooks   *agent.Hooks
	notices *contextfile.Notices
	// user are the folders of the user's own files.
	user []string
	// settings is nil where nothing stands beside settings files.
	settings settings.Source
}

// New makes the source; register adds it to the hooks.
func New(p Params) (*Instructions, error) {
	i := &Instructions{config: p.Config, owner: p.Self.Owner, hooks: p.Hooks, notices: contextfile.NewNotices(p.Self.Log)}
	for _, name := range p.Config.UserFolders {
		dir, err := contextfile.Folder(p.Self.Home, name)
		if err != nil {
			return nil, kernel.Invalid("userFolders", "%v", err)
		}
		i.user = append(i.user, dir)
	}
	if p.Config.BesideSettings {
		i.settings = p.Settings
	}
	return i, nil
}

func (i *Instructions) register() error {
	return i.hooks.OnContext(i.owner, order, "instructions", i.context)
}

// source is one file of instructions.
type source struct {
	// file is where it was found; real where that leads, and info what is there.
	file, real string
	info       fs.FileInfo
	// root bounds what it may import.
	root string
	// user says that it is the user's own and holds everywhere.
	user bool
}

// context gives the messages of a session. It never fails: a file that cannot be
// read is named in the log.
func (i *Instructions) context(ctx context.Context, o agent.Opening) ([]sdkproto.Message, error) {
	sources := i.find(o.CWD)
	texts := make([]string, len(sources))
	left := i.config.MaxTotalBytes
	for n, s := range slices.Backward(sources) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		text, err := i.read(s, sources, min(left, i.config.MaxBytes))
		if err != nil {
			i.notices.Warn("a file of instructions is left out", s.file, err)
			continue
		}
		texts[n] = text
		left -= min(left, len(text))
	}
	var messages []sdkproto.Message
	for n, s := range sources {
		if texts[n] == "" {
			continue
		}
		messages = append(messages, sdkproto.Message{
			Content: []sdkproto.Block{sdkproto.Text(s.head() + texts[n])},
			Source:  sdkproto.Source{Kind: sourceKind, Plugin: s.file, Form: sourceForm},
			Role:    sdkproto.RoleUser,
		})
	}
	return messages, nil
}

func (s source) head() string {
	if s.user {
		return fmt.Sprintf("The user's instructions for all work, from the file %s:\n\n", s.file)
	}
	return fmt.Sprintf("Instructions for work in the folder %s, from the file %s:\n\n", filepath.Dir(s.file), s.file)
}

// find lists the files there are, from general to specific, each once: one that
// is a link to another is that other.
func (i *Instructions) find(cwd string) []source {
	var list []source
	add := func(dir, root string, user bool) {
		for _, name := range i.config.Files {
			file := filepath.Join(dir, name)
			info, err := contextfile.Find(file)
			if info == nil && err == nil {
				continue
			}
			real := file
			if err == nil {
				within := root
				if user {
					within = "" // users link as they like
				}
				real, err = contextfile.Inside(within, file)
			}
			if err != nil {
				i.notices.Warn("a file of instructions is left out", file, err)
				continue
			}
			if slices.ContainsFunc(list, func(s source) bool { return os.SameFile(s.info, info) }) {
				continue
			}
			list = append(list, source{file, real, info, root, user})
		}
	}
	user, project := i.places(cwd)
	for _, dir := range user {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue // nothing is there
		}
		add(dir, real, true)
	}
	if !project {
		return list
	}
	root := contextfile.Root(cwd)
	here, err := filepath.EvalSymlinks(cwd)
	if err != nil {
		return list
	}
	var dirs []string
	for dir := here; ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if dir == root || dir == filepath.Dir(dir) {
			break
		}
	}
	for _, dir := range slices.Backward(dirs) {
		add(dir, root, false)
	}
	return list
}

// places gives the folders of the user's files, and whether those of the project
// are read.
func (i *Instructions) places(cwd string) (user []string, project bool) {
	if i.settings == nil {
		return i.user, true
	}
	layers := i.settings.For(cwd)
	if settings.Reads(layers, settings.ScopeUser) {
		user = slices.Clone(i.user)
	}
	for _, f := range settings.Folders(layers) {
		if f.Scope == settings.ScopeUser && !slices.Contains(user, f.Dir) {
			user = append(user, f.Dir)
		}
	}
	return user, settings.Reads(layers, settings.ScopeProject)
}

// read gives the text of a file with what it imports, at most so many bytes and
// a note.
func (i *Instructions) read(s source, all []source, most int) (string, error) {
	text, cut, err := contextfile.Read(s.real, most)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(strings.TrimSpace(text))
	if !cut {
		known := map[string]bool{}
		for _, other := range all {
			known[other.real] = true // it has a message of its own
		}
		in := importer{i, s.root, known, most - len(text), &b}
		cut = in.imports(s.real, text, i.config.ImportDepth)
	}
	if cut && b.Len() > 0 || most == 0 {
		fmt.Fprintf(&b, "\n\n[cut here: instructions are limited to %d bytes a file and %d in all]", i.config.MaxBytes, i.config.MaxTotalBytes)
	}
	return strings.TrimLeft(b.String(), "\n"), nil
}
