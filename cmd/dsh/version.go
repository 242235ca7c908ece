package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is what is known of this binary.
type build struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Revision is that of the source; "" when the build did not record it.
	Revision string `json:"revision,omitzero"`
	// Modified says that the source differed from the revision.
	Modified bool `json:"modified,omitzero"`
}

func thisBuild() build {
	b := build{Version: version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

func (p *program) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and what it was built with and from",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if asJSON {
				return p.printJSON(b)
			}
			revision := b.Revision
			switch {
			case revision == "":
				revision = "unknown"
			case b.Modified:
				revision += " (modified)"
			}
			return p.printf("dsh %s\ngo        %s\nplatform  %s\nrevision  %s\n", b.Version, b.Go, b.Platform, revision)
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

func (p *program) printf(format string, args ...any) error {
	if _, err := fmt.Fprintf(p.pair.Out, format, args...); err != nil {
		return fmt.Errorf("write standard output: %w", err)
	}
	return nil
}
