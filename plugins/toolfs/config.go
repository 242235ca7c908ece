package toolfs

import (
	"errors"

	"dsh/kernel"
	"dsh/plugins/internal/dialect"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// Dialect is dsh or claude: whether the tools are read, write and edit, or Read,
	// Write, Edit and NotebookEdit, and what their results look like.
	Dialect dialect.Dialect `json:"dialect" enum:"dsh,claude"`
	// ReadLines is how many lines read gives when the model sets no limit.
	ReadLines int `json:"readLines"`
	// ReadBytes bounds the text of one read, in bytes.
	ReadBytes int `json:"readBytes"`
	// LineRunes bounds one line of a read, in characters.
	LineRunes int `json:"lineRunes"`
	// EditBytes is the size of the largest file that edit takes, in bytes. An edit
	// needs two or three times as much memory.
	EditBytes int64 `json:"editBytes"`
	// ImageEdge is the long edge that an image is scaled down to before a model sees
	// it, in pixels.
	ImageEdge int `json:"imageEdge"`
}

func defaults() Config {
	return Config{Dialect: dialect.DSH, ReadLines: 2000, ReadBytes: 50 << 10, LineRunes: 2000, EditBytes: 32 << 20, ImageEdge: 1568}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	return errors.Join(
		c.Dialect.Check(),
		kernel.AtLeast("readLines", c.ReadLines, 1),
		kernel.AtLeast("readBytes", c.ReadBytes, 1<<10),
		kernel.AtLeast("lineRunes", c.LineRunes, 80),
		kernel.AtLeast("editBytes", c.EditBytes, 1<<10),
		kernel.AtLeast("imageEdge", c.ImageEdge, 64),
	)
}
