package instructions

import (
	"errors"
	"path/filepath"
	"slices"

	"dsh/kernel"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// Files are the names of the files, in the order in which a folder's are
	// given.
	Files []string `json:"files"`
	// UserFolders hold files of the user's that hold everywhere, from general to
	// specific: relative to the data folder, absolute, or ~/x.
	UserFolders []string `json:"userFolders"`
	// BesideSettings has the folders of the user's settings files hold such files, too,
	// behind UserFolders. Where the settings of the user or of the project are not
	// read, theirs are not, either.
	BesideSettings bool `json:"besideSettings"`
	// MaxBytes bounds one file with all that it imports, MaxTotalBytes all files of
	// a session, in bytes; the most specific files come first in the second.
	MaxBytes      int `json:"maxBytes"`
	MaxTotalBytes int `json:"maxTotalBytes"`
	// ImportDepth is how far a file that is imported may import others; 0 imports
	// nothing.
	ImportDepth int `json:"importDepth"`
}

func defaults() Config {
	return Config{
		Files: []string{"AGENTS.md", "CLAUDE.md"}, UserFolders: []string{"."},
		MaxBytes: 64 << 10, MaxTotalBytes: 256 << 10, ImportDepth: 5,
	}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	var errs []error
	for _, f := range c.Files {
		if !filepath.IsLocal(f) || f == "." {
			errs = append(errs, kernel.Invalid("files", "%q is no name of a file inside a folder", f))
		}
	}
	if slices.Contains(c.UserFolders, "") {
		errs = append(errs, kernel.Invalid("userFolders", "a folder must not be empty; the data folder is %q", "."))
	}
	errs = append(errs, kernel.AtLeast("maxBytes", c.MaxBytes, 1), kernel.AtLeast("maxTotalBytes", c.MaxTotalBytes, 1),
		kernel.AtLeast("importDepth", c.ImportDepth, 0))
	return errors.Join(errs...)
}
