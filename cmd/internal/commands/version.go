package commands

import (
	"github.com/spf13/cobra"

	"dsh/cmd/internal/launch"
)

// Version is the command version.
func (p Set) Version() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and what it was built with and from",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := launch.ThisBuild()
			if asJSON {
				return p.PrintJSON(b)
			}
			revision := b.Revision
			switch {
			case revision == "":
				revision = "unknown"
			case b.Modified:
				revision += " (modified)"
			}
			return p.Printf("%s %s\ngo        %s\nplatform  %s\nrevision  %s\n", p.Name, b.Version, b.Go, b.Platform, revision)
		},
	}
	JSONFlag(c, &asJSON)
	return c
}
