package launch

import (
	"runtime"
	"runtime/debug"
)

// Build is what is known of this binary.
type Build struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Revision is that of the source; "" when the build did not record it.
	Revision string `json:"revision,omitzero"`
	// Modified says that the source differed from the revision.
	Modified bool `json:"modified,omitzero"`
}

// ThisBuild gives what is known of this binary.
func ThisBuild() Build {
	b := Build{Version: Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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

// Version is the module's version, "devel" when the build had none.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
