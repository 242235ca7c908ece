package credentials

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"dsh/kernel/credential"
	"dsh/plugins/internal/textfile"
)

// Names of the files in the data folder.
const (
	yamlName   = ".credentials.yaml"
	dotenvName = ".env"
)

// maxFileBytes bounds a file of credentials.
const maxFileBytes = 1 << 20

// Credentials is a credential.Source over the environment and two files.
type Credentials struct {
	env  credential.Environment
	home string
}

var _ credential.Source = (*Credentials)(nil)

// New makes the source; no file is touched before the start.
func New(p Params) (*Credentials, error) {
	return &Credentials{env: os.LookupEnv, home: p.Self.Home}, nil
}

// place is one file of credentials.
type place struct {
	path string
	// private demands that nobody but the owner can read the file.
	private bool
	parse   func([]byte) (map[string]string, error)
}

func (c *Credentials) places() []place {
	return []place{
		{filepath.Join(c.home, yamlName), true, parseYAML},
		{filepath.Join(c.home, dotenvName), false, parseDotenv},
	}
}

// Lookup implements credential.Source. A file that cannot be used is an error
// only when no place before it has the name.
func (c *Credentials) Lookup(ctx context.Context, name string) (credential.Secret, error) {
	s, err := c.env.Lookup(ctx, name)
	var missing *credential.MissingError
	if !errors.As(err, &missing) {
		return s, err
	}
	for _, p := range c.places() {
		if err := ctx.Err(); err != nil {
			return credential.Secret{}, err
		}
		values, err := p.read()
		if err != nil {
			return credential.Secret{}, err
		}
		s, err := credential.Parse(name, p.path, values[name])
		if err != nil || !s.IsZero() {
			return s, err
		}
		missing.Places = append(missing.Places, p.path)
	}
	return credential.Secret{}, missing
}

func (c *Credentials) check() error {
	var errs []error
	for _, p := range c.places() {
		if _, err := p.read(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// read gives what a file holds by name; nothing when there is no file.
func (p place) read() (map[string]string, error) {
	f, info, err := textfile.Open(p.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read credentials from %s: %w", p.path, err)
	}
	defer f.Close()
	if p.private {
		if err := checkPrivate(p.path, info); err != nil {
			return nil, err
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read credentials from %s: %w", p.path, err)
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("read credentials from %s: the file is larger than %d bytes", p.path, maxFileBytes)
	}
	values, err := p.parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", p.path, err)
	}
	return values, nil
}
