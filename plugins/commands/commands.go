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
	"unicode"

	"dsh/kernel"
	"dsh/kernel/command"
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
}

// New makes the commands; start looks for files.
func New(p Params) *Commands {
	return &Commands{config: p.Config, home: p.Self.Home, owner: p.Self.Owner, ready: p.Self.Ready, log: p.Self.Log, registry: p.Registry}
}

// start lets a load task search, so that a disk that is slow delays nobody but
// the first prompt.
func (c *Commands) start() {
	c.ready.Go("commands", false, func(ctx context.Context) error {
		cwd, err := os.Getwd()
		if err != nil {
			return fmt.Errorf("find commands: %w", err)
		}
		return c.load(ctx, cwd)
	})
}

// load registers all commands of a working directory, by name.
func (c *Commands) load(ctx context.Context, cwd string) error {
	byName := map[string]command.Command{}
	var user []string
	for _, name := range c.config.UserFolders {
		dir, err := contextfile.Folder(c.home, name)
		if err != nil {
			return fmt.Errorf("find commands: %w", err)
		}
		user = append(user, dir)
		if err := c.folder(ctx, dir, "", byName); err != nil {
			return err
		}
	}
	root := contextfile.Root(cwd)
	for _, name := range c.config.ProjectFolders {
		dir := filepath.Join(cwd, name)
		if slices.Contains(user, dir) {
			continue
		}
		if err := c.folder(ctx, dir, root, byName); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if err := c.registry.Register(c.owner, byName[name]); err != nil {
			if errors.Is(err, kernel.ErrClosed) {
				return nil // the row has gone meanwhile
			}
			c.log.Warn("a command is left out", "error", err)
		}
	}
	return nil
}

// folder adds the commands of a folder, those of names that are taken included.
func (c *Commands) folder(ctx context.Context, dir, root string, byName map[string]command.Command) error {
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
		one, err := c.command(file, root, strings.ReplaceAll(stem, "/", ":"))
		if err != nil {
			leave(file, err)
			return nil
		}
		byName[one.Name] = one
		return nil
	})
}

// command makes the command of a file.
func (c *Commands) command(file, root, name string) (command.Command, error) {
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
			text := expand(strings.TrimSpace(body), in.Args)
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
