package main

import (
	"fmt"

	"github.com/spf13/cobra"

	settingsplugin "dsh/plugins/settings"
)

func (p *program) trustCommand() *cobra.Command {
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
		Args:  arguments(0, 1, "one folder at most"),
		RunE: func(c *cobra.Command, args []string) error {
			home, err := p.home()
			if err != nil {
				return err
			}
			real, added, err := settingsplugin.Trust(c.Context(), home, folderArgument(args))
			switch {
			case err != nil:
				return err
			case !added:
				return p.printf("%s was trusted already\n", real)
			}
			return p.printf("trusted %s and what is below it\n", real)
		},
	}, &cobra.Command{
		Use:   "list",
		Short: "List the folders that are trusted",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			home, err := p.home()
			if err != nil {
				return err
			}
			folders, err := settingsplugin.Trusted(home)
			if err != nil {
				return err
			}
			if len(folders) == 0 {
				fmt.Fprintln(p.stderr, "dsh: no folder is trusted; dsh trust add trusts one")
			}
			for _, f := range folders {
				if err := p.printf("%s\n", plain(f)); err != nil {
					return err
				}
			}
			return nil
		},
	}, &cobra.Command{
		Use:   "remove [FOLDER]",
		Short: "Trust a folder, this one by default, no more",
		Args:  arguments(0, 1, "one folder at most"),
		RunE: func(c *cobra.Command, args []string) error {
			home, err := p.home()
			if err != nil {
				return err
			}
			folder := folderArgument(args)
			removed, err := settingsplugin.Distrust(c.Context(), home, folder)
			switch {
			case err != nil:
				return err
			case !removed:
				return fmt.Errorf("the list does not name %q; dsh trust list shows it", folder)
			}
			return p.printf("removed %s\n", folder)
		},
	})
	return c
}

func folderArgument(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}
