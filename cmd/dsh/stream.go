package main

import (
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"dsh/cmd/internal/streamcmd"
	"dsh/kernel/profile"
	"dsh/profiles"
)

// flagIn gives the value of a flag in arguments that nobody has parsed, the last
// one of several; "" without it.
func flagIn(args []string, flag string) (value string) {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if rest, ok := strings.CutPrefix(arg, flag+"="); ok {
			value = rest
		} else if arg == flag && i+1 < len(args) {
			value = args[i+1]
		}
	}
	return value
}

func profileIn(args []string) string { return flagIn(args, "--profile") }

func commandNames(root *cobra.Command) []string {
	names := []string{"help", "completion"}
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	return names
}

// servesStream reports whether a profile serves the stream-json wire, so that the
// flags are those of dcl. What is wrong with a profile is said where it is run.
func (p *program) servesStream(name string, args []string) bool {
	if name == streamcmd.Profile {
		return true
	}
	if _, err := fs.Stat(profiles.FS, name+".yaml"); err == nil {
		return false
	}
	if home := flagIn(args, "--home"); home != "" {
		p.Flags.Home = home
	}
	home, err := p.Home()
	if err != nil {
		return false
	}
	options := p.ProfileOptions(home)
	options.Name = name
	loaded, err := profile.Load(options)
	return err == nil && streamcmd.Serves(loaded)
}
