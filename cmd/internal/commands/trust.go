package commands

import (
	"fmt"

	"github.com/spf13/cobra"

	"dsh/cmd/internal/launch"
	settingsplugin "dsh/plugins/settings"
)

// Trust is the command trust.
func (p Set) Trust() *cobra.Command {
	c := &cobra.Command{
		Use:   "trust",
		Short: "Say which folders may widen rights by their settings",
		Long: `trust keeps the list of folders whose project and local settings count in full: MCP
servers that are started, calls that are allowed without asking, hooks. Whoever can
write into such a folder can run programs as you. In other folders such settings are
read, and only what narrows rights counts.

A folder stands for all that is below it. The list is trust.json in the data folder;
the row settings of a profile may overrule it.`,
	}
	c.AddCommand(&cobra.Command{
		Use:   "add [FOLDER]",
		Short: "Trust a folder, this one by default, and what is below it",
		Args:  Arguments(0, 1, "one folder at most"),
		RunE: func(c *cobra.Command, args []string) error {
			home, err := p.Home()
			if err != nil {
				return err
			}
			real, added, err := settingsplugin.Trust(c.Context(), home, folderArgument(args))
			switch {
			case err != nil:
				return err
			case !added:
				return p.Printf("%s was trusted already\n", real)
			}
			return p.Printf("trusted %s and what is below it\n", real)
		},
	}, &cobra.Command{
		Use:   "list",
		Short: "List the folders that are trusted",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			home, err := p.Home()
			if err != nil {
				return err
			}
			folders, err := settingsplugin.Trusted(home)
			if err != nil {
				return err
			}
			if len(folders) == 0 {
				p.Say("no folder is trusted; %s trust add trusts one", p.Name)
			}
			for _, f := range folders {
				if err := p.Printf("%s\n", launch.Plain(f)); err != nil {
					return err
				}
			}
			return nil
		},
	}, &cobra.Command{
		Use:   "remove [FOLDER]",
		Short: "Trust a folder, this one by default, no more",
		Args:  Arguments(0, 1, "one folder at most"),
		RunE: func(c *cobra.Command, args []string) error {
			home, err := p.Home()
			if err != nil {
				return err
			}
			folder := folderArgument(args)
			removed, err := settingsplugin.Distrust(c.Context(), home, folder)
			switch {
			case err != nil:
				return err
			case !removed:
				return fmt.Errorf("the list does not name %q; %s trust list shows it", folder, p.Name)
			}
			return p.Printf("removed %s\n", folder)
		},
	})
	return p.named(c)
}

func folderArgument(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}
