package commands

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"dsh/cmd/internal/launch"
	"dsh/kernel/profile"
	"dsh/profiles"
)

// Profiles is the command profiles.
func (p Set) Profiles() *cobra.Command {
	c := &cobra.Command{
		Use:   "profiles",
		Short: "List the profiles, or check some",
		Long: `profiles lists what --profile can name: the built-in profiles and the files
$DSH_HOME/profiles/NAME.yaml. A file of the name of a built-in profile lies on top
of it. A profile that cannot be read is marked, and standard error says why.`,
		Example: `  dsh profiles
  dsh profiles check ./mine.yaml
  dsh --profile sdk --dump-config`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return p.listProfiles() },
	}
	c.AddCommand(&cobra.Command{
		Use:   "check NAME...",
		Short: "Say what is wrong with profiles, with file and line; exit 1 if anything is",
		Long: `check loads each profile with all that lies on top of it and checks every row as
a start would; nothing is started. NAME may be the path of a file.`,
		Example:           `  dsh profiles check sdk ./mine.yaml`,
		Args:              Arguments(1, 0, "names of profiles, or paths"),
		ValidArgsFunction: p.CompleteProfiles,
		RunE:              func(_ *cobra.Command, args []string) error { return p.checkProfiles(args) },
	})
	return p.named(c)
}

func (p Set) listProfiles() error {
	home, err := p.Home()
	if err != nil {
		return err
	}
	all, err := profile.List(p.ProfileOptions(home))
	if err != nil {
		return err
	}
	rows := [][]string{{"NAME", "FROM", "SUMMARY"}}
	for _, one := range all {
		summary := one.Summary
		if one.Err != nil {
			summary = "BROKEN " + summary
			p.Say("profile %s: %s", one.Name, launch.Indent(one.Err.Error()))
		}
		rows = append(rows, []string{one.Name, profileSource(home, one.Name), summary})
	}
	return p.PrintTable(rows)
}

// profileSource says where a profile of a name comes from.
func profileSource(home, name string) string {
	var from []string
	if _, err := fs.Stat(profiles.FS, name+".yaml"); err == nil {
		from = append(from, "built in")
	}
	file := filepath.Join(home, "profiles", name+".yaml")
	if _, err := os.Lstat(file); err == nil {
		from = append(from, file)
	}
	return strings.Join(from, " + ")
}

func (p Set) checkProfiles(names []string) error {
	var errs []error
	for _, name := range names {
		if err := p.checkProfile(name); err != nil {
			errs = append(errs, fmt.Errorf("profile %s:\n%w", name, err))
			continue
		}
		if err := p.Printf("%s: ok\n", name); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

func (p Set) checkProfile(name string) error {
	loaded, err := p.LoadProfile(name)
	if err != nil {
		return err
	}
	return launch.CheckRows(loaded)
}
