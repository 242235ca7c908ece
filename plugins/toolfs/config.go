package toolfs

import (
	"errors"

	"dsh/kernel"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// ReadLines is how many lines read gives when the model sets no limit.
	ReadLines int `json:"readLines"`
	// ReadBytes bounds the text of one read, in bytes.
	ReadBytes int `json:"readBytes"`
	// LineRunes bounds one line of a read, in characters.
	LineRunes int `json:"lineRunes"`
	// EditBytes is the size of the largest file that edit takes, in bytes. An edit
	// needs a few times as much memory.
	EditBytes int64 `json:"editBytes"`
}

func defaults() Config {
	return Config{ReadLines: 2000, ReadBytes: 50 << 10, LineRunes: 2000, EditBytes: 8 << 20}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	return errors.Join(
		kernel.AtLeast("readLines", c.ReadLines, 1),
		kernel.AtLeast("readBytes", c.ReadBytes, 1<<10),
		kernel.AtLeast("lineRunes", c.LineRunes, 80),
		kernel.AtLeast("editBytes", c.EditBytes, 1<<10),
	)
}
