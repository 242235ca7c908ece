package commands

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dsh/cmd/internal/launch"
	"dsh/kernel"
	"dsh/kernel/content"
	"dsh/kernel/profile"
	"dsh/plugins/contentlocal"
)

// ContentPlugin is the command plugin of programs whose profiles use content
// plugins.
func (p Set) ContentPlugin() *cobra.Command {
	c := &cobra.Command{
		Use:   "plugin",
		Short: "Install, list, check and remove plugins: folders of commands, agents, skills, hooks and MCP servers",
		Long: `plugin works on plugins that are folders: with any of commands/, agents/, skills/,
output-styles/, hooks/hooks.json, .mcp.json and .claude-plugin/plugin.json. What is
installed is a copy in the data folder, which every session uses that reads the
user's settings; --plugin-dir uses a folder for one session without installing it.

A plugin's hooks and MCP servers run as you. Install what you have read.

There is no marketplace and nothing is fetched: get the folder yourself, with git or
otherwise. A session that runs takes changes with reload_plugins.`,
		Example: `  dsh plugin validate ./reviewer
  dsh plugin install ./reviewer
  dsh plugin disable reviewer`,
	}
	c.AddCommand(p.contentInstall(), p.contentList(), p.contentRemove(),
		p.contentEnable(true), p.contentEnable(false), p.contentValidate())
	return p.named(c)
}

// contentFolder is where plugins are installed: in the data folder of the profile,
// which may keep its data elsewhere than where profiles are looked up.
func (p Set) contentFolder() (string, error) {
	home, err := p.Home()
	if err != nil {
		return "", err
	}
	if loaded, err := p.LoadProfile(p.ProfileName()); err == nil {
		home = loaded.Settings.Home
	}
	return contentlocal.InstalledFolder(home), nil
}

func (p Set) contentInstall() *cobra.Command {
	return &cobra.Command{
		Use:     "install FOLDER",
		Aliases: []string{"i", "add"},
		Short:   "Copy a plugin into the data folder, in the place of one of its name",
		Args:    Arguments(1, 1, "one folder"),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := p.contentFolder()
			if err != nil {
				return err
			}
			if _, err := os.Stat(args[0]); errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("there is no folder %q; plugins come from folders alone: there is no marketplace here, and nothing is fetched", args[0])
			}
			one, replaced, err := contentlocal.Install(c.Context(), dir, args[0])
			if err != nil {
				return err
			}
			done := "installed"
			if replaced {
				done = "replaced"
			}
			return p.Printf("%s %s in %s: %s\n", done, launch.Plain(one.Name), launch.Plain(one.Path), partsOf(one))
		},
	}
}

// partsOf says what a plugin has, for people.
func partsOf(one *content.Plugin) string {
	var parts []string
	add := func(there bool, what string) {
		if there {
			parts = append(parts, what)
		}
	}
	add(len(one.Commands) > 0, "commands")
	add(len(one.Agents) > 0, "agents")
	add(len(one.Skills) > 0, "skills")
	add(len(one.Styles) > 0, "output styles")
	add(len(one.Hooks) > 0, "hooks")
	add(len(one.Servers) > 0, fmt.Sprintf("%d MCP servers", len(one.Servers)))
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// contentRow is a plugin in the output of list and validate.
type contentRow struct {
	Name        string `json:"name"`
	Version     string `json:"version,omitzero"`
	Description string `json:"description,omitzero"`
	Path        string `json:"path"`
	Enabled     bool   `json:"enabled"`
	// Error says why the plugin cannot be used.
	Error string   `json:"error,omitzero"`
	Parts []string `json:"parts"`
}

func rowOf(one *content.Plugin, enabled bool) contentRow {
	return contentRow{
		Name: one.Name, Version: one.Version, Description: one.Description, Path: one.Path, Enabled: enabled, Parts: strings.Split(partsOf(one), ", "),
	}
}

// contentRows lists what is installed.
func contentRows(dir string) ([]contentRow, error) {
	rows := []contentRow{}
	list, err := contentlocal.Installed(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, installed := range list {
		one, err := contentlocal.Load(installed.Path, content.FromInstalled)
		row := contentRow{Name: installed.Name, Path: installed.Path, Enabled: !installed.Disabled, Parts: []string{}}
		if err == nil {
			row = rowOf(one, !installed.Disabled)
		} else {
			row.Error = err.Error()
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (p Set) contentList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the installed plugins",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, err := p.contentFolder()
			if err != nil {
				return err
			}
			list, err := contentRows(dir)
			if err != nil {
				return err
			}
			if asJSON {
				return p.PrintJSON(list)
			}
			if len(list) == 0 {
				p.Say("no plugin is installed; %s plugin install does that", p.Name)
				return nil
			}
			rows := make([][]string, len(list))
			for i, one := range list {
				state, says := "enabled", strings.Join(one.Parts, ", ")
				if !one.Enabled {
					state = "disabled"
				}
				if one.Error != "" {
					state, says = "unusable", strings.ReplaceAll(one.Error, "\n", "; ")
				}
				rows[i] = []string{launch.Plain(one.Name), launch.Plain(one.Version), state, launch.Plain(says)}
			}
			return p.PrintTable(rows)
		},
	}
	JSONFlag(c, &asJSON)
	return c
}

func (p Set) contentRemove() *cobra.Command {
	return &cobra.Command{
		Use:               "remove NAME",
		Aliases:           []string{"uninstall", "rm"},
		Short:             "Remove an installed plugin",
		Args:              Arguments(1, 1, "the name of one plugin"),
		ValidArgsFunction: p.contentNames,
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := p.contentFolder()
			if err != nil {
				return err
			}
			if err := contentlocal.Remove(c.Context(), dir, args[0]); err != nil {
				return hinted(err, dir, args[0])
			}
			return p.Printf("removed %s\n", launch.Plain(args[0]))
		},
	}
}

// hinted adds the name that was meant to an error about one that is not there.
func hinted(err error, dir, name string) error {
	if !errors.Is(err, contentlocal.ErrNotInstalled) {
		return err
	}
	return fmt.Errorf("%w%s", err, profile.DidYouMean(name, installedNames(dir)))
}

func installedNames(dir string) (names []string) {
	list, err := contentlocal.Installed(dir)
	if err != nil {
		return nil
	}
	for _, one := range list {
		names = append(names, one.Name)
	}
	return names
}

func (p Set) contentNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	dir, err := p.contentFolder()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return installedNames(dir), cobra.ShellCompDirectiveNoFileComp
}

func (p Set) contentEnable(enabled bool) *cobra.Command {
	use, short := "enable", "Use an installed plugin again"
	if !enabled {
		use, short = "disable", "Keep an installed plugin without using it"
	}
	return &cobra.Command{
		Use:               use + " NAME",
		Short:             short,
		Args:              Arguments(1, 1, "the name of one plugin"),
		ValidArgsFunction: p.contentNames,
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := p.contentFolder()
			if err != nil {
				return err
			}
			changed, err := contentlocal.Enable(c.Context(), dir, args[0], enabled)
			switch {
			case err != nil:
				return hinted(err, dir, args[0])
			case !changed:
				return p.Printf("%s was %sd already\n", launch.Plain(args[0]), use)
			}
			return p.Printf("%sd %s\n", use, launch.Plain(args[0]))
		},
	}
}

func (p Set) contentValidate() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "validate [FOLDER]",
		Short: "Say whether a folder, this one by default, can be used as a plugin",
		Long: `validate reads a folder as a session does and says what is wrong with its manifest,
hooks and MCP servers. It starts nothing and writes nothing. The exit code is 1 if the
folder cannot be used.`,
		Args: Arguments(0, 1, "one folder at most"),
		RunE: func(_ *cobra.Command, args []string) error {
			folder, err := filepath.Abs(folderArgument(args))
			if err != nil {
				return err
			}
			one, err := contentlocal.Load(folder, content.FromFlags)
			if asJSON {
				row := contentRow{Name: filepath.Base(folder), Path: folder, Parts: []string{}}
				if err == nil {
					row = rowOf(one, true)
				} else {
					p.Code, row.Error = kernel.ExitFailure, err.Error()
				}
				return p.PrintJSON(row)
			}
			if err != nil {
				return err
			}
			return p.Printf("%s can be used: %s\n", launch.Plain(strings.TrimSpace(one.Name+" "+one.Version)), partsOf(one))
		},
	}
	JSONFlag(c, &asJSON)
	return c
}

// checkContent looks at the installed plugins of a profile that uses such.
func checkContent(loaded *profile.Profile) []check {
	uses := slices.ContainsFunc(loaded.Entries, func(e profile.Entry) bool { return e.Enabled && e.Use == contentlocal.Plugin.Name })
	if !uses {
		return nil
	}
	rows, err := contentRows(contentlocal.InstalledFolder(loaded.Settings.Home))
	if err != nil {
		return []check{{Name: "plugins", Status: checkFail, Detail: err.Error(), Fix: "mend the named file, or remove it"}}
	}
	names := []string{}
	var bad []check
	for _, one := range rows {
		switch {
		case one.Error != "":
			bad = append(bad, check{Name: "plugin " + one.Name, Status: checkWarn, Detail: one.Error, Fix: "mend it, or remove it with plugin remove " + one.Name})
		case one.Enabled:
			names = append(names, one.Name)
		}
	}
	detail := "none is installed"
	if len(rows) > 0 {
		detail = fmt.Sprintf("%d installed, in use: %s", len(rows), strings.Join(names, ", "))
	}
	return append([]check{{Name: "plugins", Status: checkOK, Detail: detail}}, bad...)
}
