package main

import (
	"github.com/spf13/cobra"

	"dsh/kernel/profile"
)

func (p *program) pluginCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "plugin",
		Short: "Make, check, add, list and remove plugins of your own",
		Long: `plugin works on third-party plugins: programs in any language that a row of a
profile names and dsh starts. They speak the contract of plugin.proto; in Go the
package dsh/sdkproto/plugin does that for you.

Programs in the folder plugins of the data folder are named in rows without a path.
Nothing there is started unless a row names it (list and check start what they look
at). What is built into dsh is listed by dsh plugins.`,
		Example: `  dsh plugin new greeter
  dsh plugin check ./greeter/greeter
  dsh plugin add ./greeter`,
	}
	c.AddCommand(p.pluginNew(), p.pluginCheck(), p.pluginAdd(), p.pluginList(), p.pluginRemove())
	return c
}

// isRowID reports whether a text can be the id of a row, [a-z][a-z0-9-]*, which
// is what third-party plugins are called by, too.
func isRowID(name string) bool {
	for i, r := range name {
		switch {
		case r >= 'a' && r <= 'z':
		case i > 0 && (r >= '0' && r <= '9' || r == '-'):
		default:
			return false
		}
	}
	return name != ""
}

// dataFolder is where the profile keeps its data: that of --profile, or sdk. When
// it cannot be read, it is where profiles are looked up; plugins must be
// removable all the same.
func (p *program) dataFolder() (home string, loaded *profile.Profile, err error) {
	if home, err = p.Home(); err != nil {
		return "", nil, err
	}
	name := p.Flags.Profile
	if name == "" {
		name = "sdk"
	}
	loaded, err = p.LoadProfile(name)
	if err == nil {
		home = loaded.Settings.Home
	}
	return home, loaded, nil
}
