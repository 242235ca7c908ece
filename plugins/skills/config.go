package skills

import (
	"errors"
	"path/filepath"
	"slices"

	"dsh/kernel"
	"dsh/plugins/internal/dialect"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// Dialect is dsh or claude: whether the tool is skill or Skill.
	Dialect dialect.Dialect `json:"dialect" enum:"dsh,claude"`
	// UserFolders hold the user's skills, each in a folder of its own: relative to
	// the data folder, absolute, or ~/x. ProjectFolders are those of a session's
	// working directory. Of two skills with one name the one of the later folder
	// counts, and a project's before the user's.
	UserFolders    []string `json:"userFolders"`
	ProjectFolders []string `json:"projectFolders"`
	// BesideSettings has the folder skills next to each settings file of the user and
	// of the project searched, too. Where the settings of one of them are not read,
	// its skills are not, either.
	BesideSettings bool `json:"besideSettings"`
	// MaxSkills bounds the skills of one folder, MaxCatalogBytes the list that the
	// model is shown, and MaxBytes the text of one skill.
	MaxSkills       int `json:"maxSkills"`
	MaxCatalogBytes int `json:"maxCatalogBytes"`
	MaxBytes        int `json:"maxBytes"`
}

func defaults() Config {
	return Config{
		Dialect:     dialect.DSH,
		UserFolders: []string{"skills"}, ProjectFolders: []string{".claude/skills", ".dsh/skills"},
		MaxSkills: 200, MaxCatalogBytes: 16 << 10, MaxBytes: 48 << 10,
	}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	errs := []error{c.Dialect.Check()}
	if slices.Contains(c.UserFolders, "") {
		errs = append(errs, kernel.Invalid("userFolders", "a folder must not be empty; the data folder is %q", "."))
	}
	for _, f := range c.ProjectFolders {
		if !filepath.IsLocal(f) {
			errs = append(errs, kernel.Invalid("projectFolders", "%q is no folder inside a working directory", f))
		}
	}
	errs = append(errs, kernel.AtLeast("maxSkills", c.MaxSkills, 1), kernel.AtLeast("maxCatalogBytes", c.MaxCatalogBytes, 256),
		kernel.AtLeast("maxBytes", c.MaxBytes, 1))
	return errors.Join(errs...)
}
