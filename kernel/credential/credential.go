// Package credential holds the contract between what needs a secret and what
// keeps secrets: a secret is asked for by name, whenever it is needed, and its
// value shows itself only to the caller who asks for it (decision R19).
package credential

import (
	"context"
	"fmt"
	"strings"
)

// Source finds secrets by name. Its methods may be called from any goroutine.
type Source interface {
	// Lookup gives the secret of a name as it is now. The error is a *MissingError
	// when no place has it, an *InvalidError when the place that has it holds
	// something unusable, and any other when a place cannot be read.
	Lookup(ctx context.Context, name string) (Secret, error)
}

// MissingError says that no place has a secret.
type MissingError struct {
	// Name is the secret's, which is that of its environment variable.
	Name string
	// Places are where it could be set, as a phrase each.
	Places []string
}

func (e *MissingError) Error() string {
	if len(e.Places) == 0 {
		return fmt.Sprintf("the credential %s is not set", e.Name)
	}
	return fmt.Sprintf("the credential %s is not set; set it in %s", e.Name, strings.Join(e.Places, ", or in "))
}

// InvalidError says that a secret is there and cannot be used.
type InvalidError struct {
	Name string
	// Place is where the value was found.
	Place string
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("the credential %s in %s holds characters other than printable ASCII; copy it anew", e.Name, e.Place)
}

// Environment looks secrets up among environment variables; it is a function
// like os.LookupEnv.
type Environment func(name string) (value string, ok bool)

var _ Source = Environment(nil)

// EnvironmentPlace is how errors call the environment.
const EnvironmentPlace = "the environment"

// Lookup implements Source.
func (e Environment) Lookup(_ context.Context, name string) (Secret, error) {
	value, _ := e(name)
	s, err := Parse(name, EnvironmentPlace, value)
	if err == nil && s.IsZero() {
		err = &MissingError{Name: name, Places: []string{EnvironmentPlace}}
	}
	return s, err
}
