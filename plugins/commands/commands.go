package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"dsh/kernel"
	"dsh/kernel/command"
	"dsh/kernel/content"
	"dsh/kernel/settings"
	"dsh/plugins/internal/contextfile"
	"dsh/plugins/internal/frontmatter"
	"dsh/plugins/internal/textfile"
	"dsh/sdkproto"
)

const (
	// maxDepth is how deep folders of commands are searched.
	maxDepth = 6
	// maxLine bounds descriptions and hints, in characters.
	maxLine = 250
)

// Commands registers the commands of files.
type Commands struct {
	config   Config
	home     string
	owner    *kernel.Owner
	ready    *kernel.Ready
	log      *slog.Logger
	registry *command.Registry
	settings settings.Source // nil without
	content  content.Source  // nil without

	// loading is held while commands are read and registered, under held.
	loading sync.Mutex
	held    *kernel.Owner
}

// New makes the commands; start looks for files.
func New(p Params) *Commands {
	return &Commands{config: p.Config, home: p.Self.Home, owner: p.Self.Owner, ready: p.Self.Ready, log: p.Self.Log, registry: p.Registry,
		settings: p.Settings, content: p.Content}
}

// start lets a load task search, so that a disk that is slow delays nobody but
// the first prompt.
func (c *Commands) start() error {
	load := func(ctx context.Context) error {
		cwd, err := os.Getwd()
		if err != nil {
			return fmt.Errorf("find commands: %w", err)
		}
		return c.load(ctx, cwd)
	}
	c.ready.Go("commands", false, load)
	if c.content == nil {
		return nil
	}
	return c.content.OnReload(c.owner, "commands", load)
}

// folderName is the folder of commands next to a settings file.
const folderName = "commands"

// places gives the folders of the user and of the project, low to high.
func (c *Commands) places(cwd string) (user, project []string, err error) {
	for _, name := range c.config.UserFolders {
		dir, err := contextfile.Folder(c.home, name)
		if err != nil {
			return nil, nil, fmt.Errorf("find commands: %w", err)
		}
		user = append(user, dir)
	}
	for _, name := range c.config.ProjectFolders {
		project = append(project, filepath.Join(cwd, name))
	}
	if c.settings == nil || !c.config.BesideSettings {
		return user, project, nil
	}
	user, project = settings.Beside(c.settings.For(cwd), folderName, user, project)
	return user, project, nil
}

// load registers all commands of a working directory, by name, in the place of
// those that it has registered before.
func (c *Commands) load(ctx context.Context, cwd string) error {
	c.loading.Lock()
	defer c.loading.Unlock()
	byName := map[string]command.Command{}
	if c.content != nil {
		for _, p := range c.content.Plugins() {
			for _, path := range p.Commands {
				if err := c.folder(ctx, path, p.Path, p, byName); err != nil {
					return err
				}
			}
		}
	}
	user, project, err := c.places(cwd)
	if err != nil {
		return err
	}
	for _, dir := range user {
		if err := c.folder(ctx, dir, "", nil, byName); err != nil {
			return err
		}
	}
	root := contextfile.Root(cwd)
	for _, dir := range project {
		if slices.Contains(user, dir) {
			continue
		}
		if err := c.folder(ctx, dir, root, nil, byName); err != nil {
			return err
		}
	}
	if c.held != nil {
		if err := c.held.Close(ctx); err != nil {
			return fmt.Errorf("replace commands: %w", err)
		}
	}
	c.held = c.owner.Child("commands")
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if err := c.registry.Register(c.held, byName[name]); err != nil {
			if errors.Is(err, kernel.ErrClosed) {
				return nil // the row has gone meanwhile
			}
			c.log.Warn("a command is left out", "error", err)
		}
	}
	return nil
}

// folder adds the commands of a folder, those of names that are taken included. A
// plugin may name a file, too.
func (c *Commands) folder(ctx context.Context, dir, root string, p *content.Plugin, byName map[string]command.Command) error {
	if info, err := contextfile.Find(dir); info == nil && err == nil {
		return nil
	}
	leave := func(file string, err error) { c.log.Warn("a command is left out", "file", file, "error", err) }
	real, err := contextfile.Inside(root, dir)
	if err != nil {
		leave(dir, err)
		return nil
	}
	dir = real // a walk does not follow links
	count := 0
	return filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			leave(file, err)
			return nil
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return fmt.Errorf("find commands: %w", err)
		}
		if rel == "." && !e.IsDir() {
			rel = e.Name()
		}
		if e.IsDir() {
			if strings.Count(filepath.ToSlash(rel), "/") >= maxDepth-1 || rel != "." && strings.HasPrefix(e.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		stem, ok := strings.CutSuffix(filepath.ToSlash(rel), ".md")
		if !ok || strings.HasPrefix(e.Name(), ".") {
			return nil
		}
		if count++; count > c.config.MaxCommands {
			leave(dir, fmt.Errorf("a folder may have %d commands; the rest is not read", c.config.MaxCommands))
			return fs.SkipAll
		}
		name := strings.ReplaceAll(stem, "/", ":")
		if p != nil {
			name = p.Qualified(name)
		}
		one, err := c.command(file, root, name, p)
		if err != nil {
			leave(file, err)
			return nil
		}
		byName[one.Name] = one
		return nil
	})
}

// command makes the command of a file.
func (c *Commands) command(file, root, name string, p *content.Plugin) (command.Command, error) {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }) {
		return command.Command{}, fmt.Errorf("%q is no name of a command; use no white space", name)
	}
	m, body, err := c.read(file, root)
	if err != nil {
		return command.Command{}, err
	}
	description := m.Text("description")
	if description == "" {
		description, _, _ = strings.Cut(strings.TrimSpace(body), "\n")
		description = strings.TrimLeft(description, "# ")
	}
	return command.Command{
		Name: name, Description: oneLine(description), ArgumentHint: oneLine(m.Text("argument-hint")),
		Expand: func(ctx context.Context, in command.Invocation) ([]sdkproto.Block, error) {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			_, body, err := c.read(file, root)
			if err != nil {
				return nil, err
			}
			text := expand(p.Expand(strings.TrimSpace(body)), in.Args)
			if text == "" {
				return nil, fmt.Errorf("%s holds no text", file)
			}
			return []sdkproto.Block{sdkproto.Text(text)}, nil
		},
	}, nil
}

func (c *Commands) read(file, root string) (frontmatter.Matter, string, error) {
	real, err := contextfile.Inside(root, file)
	if err != nil {
		return frontmatter.Matter{}, "", err
	}
	text, cut, err := contextfile.Read(real, c.config.MaxBytes)
	switch {
	case err != nil:
		return frontmatter.Matter{}, "", err
	case cut:
		return frontmatter.Matter{}, "", fmt.Errorf("%s is longer than %d bytes", file, c.config.MaxBytes)
	}
	m, body, err := frontmatter.Parse(text)
	if err != nil {
		c.log.Info("the head of a command is read line by line", "file", file, "error", err)
	}
	return m, body, nil
}

func oneLine(s string) string {
	s, _ = textfile.Cut(strings.Join(strings.Fields(s), " "), maxLine)
	return s
}
